"""The command line on the simulator: what it prints, saves and returns."""

# ruff: noqa: SIM300
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

SMALL = ("--backend", "sim", "--steps", "20", "--warmup", "3", "--sequences", "4")


def test_a_run_prints_its_table_and_saves_itself(run_cli):
    """Exit 0, the table on standard output, the saved folder named on standard error and reopened by report."""
    done = run_cli("run", "stop_flag", *SMALL)
    assert 0 == done.exit_code
    assert "values 115 of 115 right, stale reads 0 of 23, overrun 0 tokens" in done.stdout  # 23 steps x (4 + 1) values
    folder = done.stderr.strip().splitlines()[-1].removeprefix("saved ")
    assert Path(folder, "run.json").exists()
    assert done.stdout == run_cli("report", folder).stdout


def test_json_on_standard_output_has_the_keys_of_the_contract(run_cli):
    """Prose stays on standard error; what a run without a tracer cannot know is null, never 0."""
    document = json.loads(run_cli("run", "stop_flag", "--json", *SMALL).stdout)
    assert (1, "run", "sim", 20) == tuple(document[key] for key in ("schema_version", "kind", "source", "steps"))
    assert document["simulated"]
    assert document["transfers"][0]["copy_ns"] is None
    assert document["transfers"][0]["size_bytes"] == 4 * 8
    mean = document["ledger"]["mean"]
    assert mean["window_ns"] == mean["device_busy_ns"] + mean["device_idle_ns"]


def test_the_idle_time_of_a_run_has_causes_that_sum_to_it(run_cli):
    """The same ledger as for captures: residual 0, and what waits starved the device for is the cause `blocked`."""
    document = json.loads(run_cli("run", "stop_flag", "--mode", "sync", "--json", *SMALL).stdout)
    mean, causes = document["ledger"]["mean"], document["idle_by_cause_ns"]
    assert 0 == document["residual_ns"]
    assert mean["device_idle_ns"] == pytest.approx(sum(causes.values()), rel=1e-12)
    assert causes["blocked"] == mean["harmful_wait_ns"] > 0
    assert mean["host_blocked_ns"] == pytest.approx(mean["harmful_wait_ns"] + mean["harmless_wait_ns"], rel=1e-12)
    assert "pageable-destination" in [finding["code"] for finding in document["findings"]]


def test_sync_has_no_fence_wait_and_says_null(run_cli):
    """A blocking copy waits inside its call; a fence wait of 0 would claim there was a fence that cost nothing."""
    document = json.loads(run_cli("run", "stop_flag", "--mode", "sync", "--json", *SMALL).stdout)
    assert document["ledger"]["mean"]["fence_wait_ns"] is None
    assert document["ledger"]["mean"]["host_blocked_ns"] > 0
    assert 2 == document["syncs_per_step"]  # one for each of the two tensors


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_the_issue_times_of_the_transfers_sum_to_the_steps(run_cli, mode):
    """Each transfer is charged with its own call and no other's."""
    document = json.loads(run_cli("run", "stop_flag", "--mode", mode, "--json", *SMALL).stdout)
    issues = [transfer["issue_ns"] for transfer in document["transfers"]]
    assert all(issue > 0 for issue in issues)
    assert sum(issues) == pytest.approx(document["ledger"]["mean"]["issue_ns"], rel=1e-12)


def test_a_comparison_interleaves_its_blocks_and_reports_the_ratio(run_cli):
    """Ratio is candidate / baseline, and the blocks ran in the order A B B A or B A A B."""
    done = run_cli("compare", "sync", "async", "--blocks", "6", "--json", *SMALL)
    assert 0 == done.exit_code
    document = json.loads(done.stdout)
    mean = {side: document[side]["ledger"]["mean"]["window_ns"] for side in ("baseline", "candidate")}
    assert mean["candidate"] / mean["baseline"] == pytest.approx(document["ratio"], rel=1e-12)
    assert document["tokens_equal"]
    assert "faster" == document["verdict"]
    folder = Path(done.stderr.strip().splitlines()[-1].removeprefix("saved "))
    order = {json.loads(path.read_text())["position"]: path.parent.parent.name for path in folder.rglob("block.json")}
    for at in range(0, 12, 4):
        first, second, third, fourth = (order[at + i] for i in range(4))
        assert first == fourth != second == third


def test_the_unfenced_mode_ends_with_exit_5_and_names_the_first_wrong_value(run_cli):
    """Step 0 is read before its copy: the buffer still holds its initial 0."""
    done = run_cli("run", "stop_flag", "--mode", "unfenced", *SMALL)
    assert 5 == done.exit_code
    assert "first wrong value at step 0, sequence 0: sampled_token_ids is 0, expected" in done.stderr
    assert "efficiency" not in done.stdout  # of steps that skip their wait there is none


def test_a_comparison_with_stale_tokens_ends_with_exit_5(run_cli):
    """Being fast and wrong is not being fast."""
    done = run_cli("compare", "sync", "unfenced", "--blocks", "1", *SMALL)
    assert 5 == done.exit_code
    assert "the values of unfenced are not those of the reference" in done.stdout
    assert "step, mean" not in done.stdout  # no talk of speed


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("run", "stop_flg"), 2, "did you mean stop_flag?"),
        (("run", "stop_flag", "--mode", "asinc"), 2, "did you mean async?"),
        (("run", "stop_flag", "--backend", "simm"), 2, "did you mean sim?"),
        (("run", "stop_flag", "--sequences", "-1"), 2, "--sequences is -1, expected 1 to 65,536"),
        (("run", "stop_flag", "--device-us", "nan"), 2, "--device-us is nan"),
        (("run", "stop_flag", "--device-us", "inf"), 2, "--device-us is inf"),
        (("run", "stop_flag", "--steps", "0"), 2, "--steps is 0, expected 1 to 100,000"),
        (("run", "stop_flag", "--steps", "100000", "--kernels", "1000"), 2, "lower --steps or --kernels"),
        (("run", "stop_flag", "--blocks", "0"), 2, "--blocks is 0"),
        (("run", "stop_flag", "-o", "x.pdf"), 2, "no report writes .pdf"),
        (("run", "stop_flag", "-o", "nowhere/x.json"), 2, "the folder of nowhere/x.json does not exist"),
        (("run", "STOP_FLAG"), 2, "did you mean stop_flag?"),
        (("run", "stop_flag", "--device-us", "10000001"), 2, "--device-us is 10000001.0, expected 1 to 10,000,000"),
        (("run", "stop_flag", "-o", "a" * 350 + ".json"), 2, "cannot write"),
        (("run", "stop_flag", "--backend", "sim", "--runs", "/dev/null/x"), 2, "--no-save"),
        (("run", "stop_flag", "--backend", "gpu"), 2, "auto"),
        (("report", "nothing"), 4, "nothing does not exist"),
        (("report", "/dev/null"), 4, "/dev/null is no regular file"),
        (("run", "stop_flag", "--backend", "sim", "--timeout", "0.001", "--device-us", "100000"), 4, "0.001 s"),
    ],
)
def test_a_mistake_gets_one_message_with_the_next_step_to_take(run_cli, arguments, code, words):
    """The exit code of the contract, the words on standard error, nothing on standard output, nothing written."""
    done = run_cli(*arguments)
    assert code == done.exit_code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout
    assert not [path for path in Path().rglob("*") if path.name in ("x.pdf", "block.json")]


def test_an_existing_output_is_kept_unless_forced(run_cli):
    """Refused before anything runs; --force replaces it whole."""
    Path("out.json").write_text("mine")
    done = run_cli("run", "stop_flag", "-o", "out.json", *SMALL)
    assert 2 == done.exit_code
    assert "mine" == Path("out.json").read_text()
    assert 0 == run_cli("run", "stop_flag", "-o", "out.json", "--force", *SMALL).exit_code
    assert "run" == json.loads(Path("out.json").read_text())["kind"]


@pytest.mark.usefixtures("takes_signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_keeps_the_finished_blocks(run_cli, monkeypatch, number, code):
    """It comes in the third block: two are reported and saved, and the exit code is that of the signal."""
    from fdprof.session import Session

    block = Session.block

    def stopped(self, mode, index):
        if index == 2:
            signal.raise_signal(number)
        return block(self, mode, index)

    before = signal.getsignal(number)
    monkeypatch.setattr(Session, "block", stopped)
    done = run_cli("run", "stop_flag", "--blocks", "5", *SMALL)
    assert code == done.exit_code
    assert "interrupted: 2 finished blocks shown" in done.stdout
    folder = done.stderr.strip().splitlines()[-1].removeprefix("saved ")
    assert ["block-000", "block-001"] == sorted(path.name for path in Path(folder).glob("block-*"))
    assert before == signal.getsignal(number)


def test_a_block_that_fails_leaves_a_run_that_says_it_is_not_complete(run_cli, monkeypatch):
    """The finished block is kept, exit 4 is that of the failure, and report says that blocks are missing."""
    from fdprof.errors import ScenarioFailed
    from fdprof.session import Session

    block = Session.block

    def fails(self, mode, index):
        if index == 1:
            raise ScenarioFailed("the fence did not end")
        return block(self, mode, index)

    monkeypatch.setattr(Session, "block", fails)
    done = run_cli("run", "stop_flag", "--blocks", "3", *SMALL)
    assert 4 == done.exit_code
    folder = next(line for line in done.stderr.splitlines() if line.startswith("saved ")).removeprefix("saved ")
    assert "interrupted: 1 finished block shown" in run_cli("report", folder).stdout


def test_ctrl_c_before_the_first_block_is_an_interrupt(run_cli, monkeypatch):
    """Exit 130, not 1, which would say that a gate failed."""
    from fdprof.session import Session

    def interrupted(self, mode):
        raise KeyboardInterrupt

    monkeypatch.setattr(Session, "new_run", interrupted)
    assert 130 == run_cli("run", "stop_flag", *SMALL).exit_code


def test_blocking_is_unknown_not_zero_where_no_call_is_known_to_block(run_cli):
    """Unfenced makes no wait; its launches block on a full queue, which the recorder cannot tell from launching."""
    document = json.loads(run_cli("run", "stop_flag", "--mode", "unfenced", "--json", *SMALL).stdout)
    assert document["ledger"]["mean"]["host_blocked_ns"] is None


@pytest.mark.parametrize("damage", ["truncate", "delete", "version", "list"])
def test_a_damaged_run_folder_is_refused_with_its_place(run_cli, damage):
    """Exit 4 and the file's name, whatever is wrong with it."""
    done = run_cli("run", "stop_flag", *SMALL)
    folder = Path(done.stderr.strip().splitlines()[-1].removeprefix("saved "))
    calls, run_file = folder / "block-000" / "calls.parquet", folder / "run.json"
    if damage == "truncate":
        calls.write_bytes(calls.read_bytes()[:100])
    elif damage == "delete":
        calls.unlink()
    elif damage == "version":
        run_file.write_text(json.dumps(json.loads(run_file.read_text()) | {"schema_version": 99}))
    else:
        run_file.write_text("[]")
    refused = run_cli("report", str(folder))
    assert 4 == refused.exit_code
    assert (calls.name if damage in ("truncate", "delete") else run_file.name) in refused.stderr


def _damaged_json(folder, file, change):
    path = folder / file
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("file", "change"),
    [
        ("run.json", lambda d: d.update(params=None)),
        ("run.json", lambda d: d["params"].pop("kernels")),
        ("run.json", lambda d: d.update(device_work_ns=None)),
        ("run.json", lambda d: d.update(device_work_ns=-5)),
        ("run.json", lambda d: d.update(host_work_ns=10**400)),
        ("run.json", lambda d: d.update(schema_version=True)),
        ("run.json", lambda d: d.update(mode="\x1b[31m")),
        ("run.json", lambda d: d.update(caveats="abc")),
        ("run.json", lambda d: d.update(interrupted=float("nan"))),
        ("run.json", lambda d: d["environment"].update(colour="red")),
        ("block-000/block.json", lambda d: d.pop("index")),
        ("block-000/block.json", lambda d: d.update(index=1)),
        ("block-000/block.json", lambda d: d["rows"].update(calls=1)),
        ("block-000/block.json", lambda d: d["tokens"].update(values="x")),
        ("block-000/block.json", lambda d: d.update(call_sites=[])),
    ],
)
def test_an_entry_of_the_wrong_kind_is_refused_and_its_file_named(run_cli, file, change):
    """Never a traceback, and never a table made of damaged values."""
    done = run_cli("run", "stop_flag", *SMALL)
    folder = Path(done.stderr.strip().splitlines()[-1].removeprefix("saved "))
    _damaged_json(folder, file, change)
    refused = run_cli("report", str(folder))
    assert 4 == refused.exit_code
    assert str(folder) in refused.stderr
    assert not refused.stdout


@pytest.mark.parametrize("value", [-7, 99_999, None, 0.5])
@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("calls", "call"),
        ("ranges", "range"),
        ("kernels", "step"),
        ("reads", "group"),
        ("waits", "group"),
        ("waits", "value_step"),
        ("journal", "act"),
        ("journal", "tensor"),
    ],
)
def test_a_column_out_of_range_is_refused(run_cli, table, column, value):
    """An index that points nowhere would otherwise pick another call, or crash."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    done = run_cli("run", "stop_flag", "--audit", *SMALL)
    folder = Path(done.stderr.strip().splitlines()[-1].removeprefix("saved "))
    path = folder / "block-000" / f"{table}.parquet"
    columns = pq.read_table(path).to_pydict()
    columns[column] = [value] * len(columns[column])
    pq.write_table(pa.table(columns), path)
    refused = run_cli("report", str(folder))
    assert 4 == refused.exit_code
    assert path.name in refused.stderr


def test_the_report_of_a_wrong_run_fails_like_the_run(run_cli):
    """Exit 5 again, for a run and for a comparison: a saved wrong result does not become right."""
    for command in (("run", "stop_flag", "--mode", "unfenced"), ("compare", "sync", "unfenced", "--blocks", "1")):
        done = run_cli(*command, *SMALL)
        folder = next(line for line in done.stderr.splitlines() if line.startswith("saved ")).removeprefix("saved ")
        again = run_cli("report", folder)
        assert 5 == again.exit_code
        assert done.stdout == again.stdout


def test_a_disk_that_fills_up_keeps_the_report(run_cli, monkeypatch):
    """What was measured is printed; the exit code says that it was not saved, and no empty folder stays."""
    from fdprof import store
    from fdprof.errors import UsageError

    def full(folder, block):
        raise UsageError("cannot write block-000: No space left on device")

    monkeypatch.setattr(store, "add_block", full)
    done = run_cli("run", "stop_flag", *SMALL)
    assert 2 == done.exit_code
    assert "interrupted: 1 finished block shown" in done.stdout
    assert "No space left" in done.stderr
    assert not list(Path("runs").iterdir())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    "command", [("--help",), ("run", "--help"), ("modes",), ("run", "stop_flag", "--no-save", *SMALL)]
)
@pytest.mark.parametrize("lost", ["stdout", "stderr", "both"])
def test_a_stream_that_cannot_be_written_is_an_error_without_a_traceback(command, lost):
    """Exit 2 where something was to be written there; only `run` writes to standard error, the name of its backend."""
    with Path("/dev/full").open("w") as full:
        streams = {name: full if lost in (name, "both") else subprocess.PIPE for name in ("stdout", "stderr")}
        done = subprocess.run([sys.executable, "-m", "fdprof", *command], text=True, **streams)
    unaffected = "stderr" == lost and "--no-save" not in command
    assert (0 if unaffected else 2) == done.returncode
    if "stdout" == lost:
        assert done.stderr.endswith("fdprof: cannot write the output: No space left on device\n")


def test_an_output_link_is_written_through_and_a_dangling_one_kept(run_cli):
    """-o never replaces a link; one that leads nowhere exists and needs --force."""
    Path("link.json").symlink_to("target.json")
    assert 2 == run_cli("run", "stop_flag", "-o", "link.json", *SMALL).exit_code
    assert 0 == run_cli("run", "stop_flag", "-o", "link.json", "--force", *SMALL).exit_code
    assert Path("link.json").is_symlink()
    assert "run" == json.loads(Path("target.json").read_text())["kind"]


def test_modes_and_scenarios_are_listed_with_their_sources(run_cli):
    """Each name that run takes is in the list, as text and as JSON."""
    from fdprof import plugins

    assert plugins.names("modes") == [row["name"] for row in json.loads(run_cli("modes", "--json").stdout)["modes"]]
    text = run_cli("scenarios").stdout
    assert "outputs, device to host: sampled_token_ids 512 B, not_need_stop 1 B" in text
    assert "source: FastDeploy #6176" in text


def _saved(done):
    return Path(next(line for line in done.stderr.splitlines() if line.startswith("saved ")).removeprefix("saved "))


def test_a_scenario_has_its_own_options_wherever_its_name_stands(run_cli):
    """logprobs takes --top-logprobs, before or after its name, in run and compare; its help shows it."""
    small = ("--top-logprobs", "3", "--json", *SMALL)
    for arguments in (("run", "logprobs", *small), ("run", *small, "logprobs")):
        document = json.loads(run_cli(*arguments).stdout)
        assert 3 == document["params"]["top_logprobs"]
        # 4 rows of 3 + 1 ids, 8 B each.
        assert 4 * 4 * 8 == document["transfers"][0]["size_bytes"]
    both = json.loads(run_cli("compare", "async", "mapped", "--scenario=logprobs", "--blocks", "1", *small).stdout)
    assert 3 == both["candidate"]["params"]["top_logprobs"]
    assert "--top-logprobs" in run_cli("run", "logprobs", "--help").stdout
    assert "--top-logprobs" not in run_cli("run", "--help").stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("run", "stop_flag", "--top-logprobs", "3"), 2, "No such option"),
        (("run", "logprobs", "--top-logprobs", "0"), 2, "--top-logprobs is 0, expected 1 to 1,000"),
        (("run", "logprobs", "--pinned-alloc", "never"), 2, "choose one of: per-step, once"),
        (("run", "stop_flag", "--launch", "graphs"), 2, "choose one of: kernels, graph"),
        (("run", "stop_flag", "--wait", "sleep"), 2, "choose one of: spin, blocking, poll, yield"),
        (("run", "stop_flag", "--mode", "mapped", "--wait", "blocking"), 2, "choose --wait spin, poll or yield"),
        (("run", "stop_flag", "--host-times", "gamma:1"), 2, "--host-times: 'gamma:1' is no distribution"),
        (("run", "stop_flag", "--device-times", "normal:-1"), 2, "expected normal:0 to normal:10"),
        (("run", "stop_flag", "--fault", "ring"), 2, "no fault is named 'ring'"),
        (("run", "nothing/my_loop.py"), 2, "nothing/my_loop.py does not exist"),
        (("hazards", "--seeds", "0"), 2, "--seeds is 0"),
        (("hazards", "--fault", "nothing"), 2, "no fault is named 'nothing'"),
        (("modes", "--scenario", "nothing"), 2, "no scenario is named 'nothing'"),
        (
            ("run", "stop_flag", "--host-times", "normal:0.1", "--schedule-us", "0", "--save-output-us", "0"),
            2,
            "--host-times vary the host work, and there is none",
        ),
    ],
)
def test_a_mistake_in_the_newer_options_names_what_there_is(run_cli, arguments, code, words):
    """As above: the exit code of the contract, one message, nothing on standard output, no traceback."""
    backend = ("--backend", "sim", "--no-save") if arguments[0] == "run" else ()
    done = run_cli(*arguments, *backend)
    assert code == done.exit_code
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not done.stdout


def test_an_audited_run_says_that_there_is_no_hazard_and_a_bare_one_says_nothing(run_cli):
    """Not looked is null, looked and found nothing is empty; report shows what run did, from the saved journal."""
    audited = run_cli("run", "stop_flag", "--mode", "overlap", "--audit", *SMALL)
    assert "hazards: none" in audited.stdout
    assert audited.stdout == run_cli("report", str(_saved(audited))).stdout
    document = json.loads(run_cli("run", "stop_flag", "--audit", "--json", *SMALL).stdout)
    assert ([], True, None) == (document["hazards"], document["audited"], document["fault"])
    bare = json.loads(run_cli("run", "stop_flag", "--json", *SMALL).stdout)
    assert (None, False) == (bare["hazards"], bare["audited"])


def test_a_fault_is_reported_with_where_it_was_found_first(run_cli):
    """One buffer in a ring for two: step 1 overwrites step 0's values unread; report says it of the saved run too."""
    arguments = ("--mode", "overlap", "--fault", "ring-too-shallow", *SMALL)
    done = run_cli("run", "stop_flag", *arguments)
    assert "note: wrong on purpose: fault ring-too-shallow" in done.stdout
    assert "hazard ring-too-shallow: " in done.stdout
    assert "first at step 1," in done.stdout
    assert done.stdout == run_cli("report", str(_saved(done))).stdout
    document = json.loads(run_cli("run", "stop_flag", "--json", *arguments).stdout)
    (hazard,) = document["hazards"]
    # Two tensors, overwritten in each of the steps 1 .. 23: 3 + 20 steps and the overrun of one.
    assert ("ring-too-shallow", 2 * 23, 1) == (hazard["code"], hazard["count"], hazard["first_step"])


def test_the_laboratory_counts_what_it_finds(run_cli):
    """One fault with two seeds: found twice, precision and recall 1, exit 0; the list names what it would run."""
    done = run_cli("hazards", "--fault", "wrong-event", "--seeds", "2", "--json")
    assert 0 == done.exit_code
    document = json.loads(done.stdout)
    (case,) = document["cases"]
    assert ("wrong-event", 2, 2, {}) == (case["fault"], case["runs"], case["found"], case["others"])
    score = next(row for row in document["detectors"] if row["code"] == "wrong-event")
    assert (2, 2, 1.0, 1.0) == (score["there"], score["reported"], score["precision"], score["recall"])
    listed = run_cli("hazards", "--list").stdout
    assert "shows in: fdprof run stop_flag --mode async --fault wrong-event" in listed


def test_a_missed_fault_or_a_false_report_ends_with_exit_5(run_cli, monkeypatch):
    """The laboratory is a test of fdprof itself: it does not pass when a detector is blind."""
    monkeypatch.setattr("fdprof.hazard_lab.find_hazards", lambda block, groups: ())
    done = run_cli("hazards", "--fault", "wrong-event", "--seeds", "2")
    assert 5 == done.exit_code
    assert "fault wrong-event (stop_flag in async) was missed in 2 of 2 runs" in done.stderr


def test_waits_are_reported_with_their_cpu_time(run_cli):
    """A spinning wait burns all its time, a sleeping one little; sync has none beside its copies."""
    share = {}
    for style in ("spin", "blocking"):
        document = json.loads(run_cli("run", "stop_flag", "--wait", style, "--json", *SMALL).stdout)
        fence = document["fence"]
        assert 1.0 == fence["waits_per_step"]
        share[style] = fence["cpu_ns"] / fence["wait_ns"]
    assert 1.0 == share["spin"]
    assert share["blocking"] < 0.2
    assert "waits: none but in blocking copies" in run_cli("run", "stop_flag", "--mode", "sync", *SMALL).stdout


def test_a_loop_of_ones_own_that_fails_is_blamed_with_its_line(run_cli):
    """Exit 4, the file, the line and the error: not a bug of fdprof."""
    Path("mine.py").write_text(
        "from fdprof.scenarios.stop_flag import StopFlag\n"
        "class Mine(StopFlag):\n"
        "    def step(self, loop, k):\n"
        "        return 1 / (2 - k)\n"
        "SCENARIO = Mine()\n"
    )
    done = run_cli("run", "mine.py", *SMALL)
    assert 4 == done.exit_code
    assert "mine.py, line 4, in a step: ZeroDivisionError: division by zero" in done.stderr


def test_a_run_saved_in_the_first_format_is_still_read(run_cli):
    """schema_version 1 had no waits, no journal and nothing about groups but their tensors."""
    done = run_cli("run", "stop_flag", *SMALL)
    folder = _saved(done)

    def older(document):
        document["schema_version"] = 1
        del document["fault"], document["audited"]
        document["groups"] = [{"name": group["name"], "tensors": group["tensors"]} for group in document["groups"]]

    _damaged_json(folder, "run.json", older)
    _damaged_json(folder, "block-000/block.json", lambda d: (d.pop("tensor_names"), d["rows"].pop("waits")))
    for name in ("waits", "journal"):
        (folder / "block-000" / f"{name}.parquet").unlink()
    again = run_cli("report", str(folder))
    assert 0 == again.exit_code
    # Without the waits there is nothing to say of them; all else, findings about waits aside, is as it was.
    kept, left = (text.split("findings")[0].splitlines() for text in (done.stdout, again.stdout))
    kept = [line for line in kept if not line.startswith(("waits:", "kernel's end:"))]
    assert kept == [line for line in left if not line.startswith("waits:")]


def test_a_fault_that_finds_nothing_to_do_is_no_clean_bill(run_cli):
    """sync has no ring: exit 2, and where the fault shows."""
    done = run_cli("run", "stop_flag", "--mode", "sync", "--fault", "ring-too-shallow", *SMALL)
    assert 2 == done.exit_code
    assert "finds nothing to do wrong in stop_flag with sync" in done.stderr
    assert "fdprof run stop_flag --mode overlap --fault ring-too-shallow" in done.stderr
    assert not done.stdout


def _of_two_kernels(run_cli, *arguments):
    """Return the result of a saved run of 2 kernels on the simulator, and its folder."""
    before = set(Path("runs").glob("*"))
    options = ("--kernels", "2", "--steps", "8", "--warmup", "2", "--backend", "sim")
    done = run_cli("run", "stop_flag", *options, *arguments)
    return done, next(iter(set(Path("runs").glob("*")) - before), None)


def test_a_run_takes_the_kernels_of_another_and_says_so(run_cli, monkeypatch):
    """In another mode, with other steps: what is given is not calibrated, and is saved for the next."""
    _, first = _of_two_kernels(run_cli)
    monkeypatch.setattr("fdprof.session.calibrate", None)
    done, second = _of_two_kernels(run_cli, "--mode", "sync", "--steps", "6", "--work-of", str(first))
    assert 0 == done.exit_code, done.stderr
    assert "the kernels run as long as those of the run that --work-of names" in done.stdout
    documents = [json.loads((folder / "run.json").read_text()) for folder in (first, second)]
    assert {"kernel_ns", "step_ns"} == documents[0]["work"].keys()
    assert documents[0]["work"] == documents[1]["work"]
    assert documents[0]["device_work_ns"] == documents[1]["device_work_ns"]


def test_kernels_of_another_loop_are_refused_with_what_differs(run_cli):
    """Exit 2 and nothing saved; a folder that is no run is exit 4."""
    _, first = _of_two_kernels(run_cli)
    for options, words in (
        (("--kernels", "4"), "its kernels is 2, here it is 4"),
        (("--device-us", "500"), "its device_us is 1000.0, here it is 500.0"),
        (("--launch", "graph"), "its launch is 'kernels', here it is 'graph'"),
    ):
        done, saved = _of_two_kernels(run_cli, *options, "--work-of", str(first))
        assert (2, None) == (done.exit_code, saved)
        assert words in done.stderr and "leave --work-of out to calibrate" in done.stderr
    done, saved = _of_two_kernels(run_cli, "--work-of", "runs")
    assert (4, None) == (done.exit_code, saved)


def test_a_disturbed_run_is_replayed_by_its_seed_and_says_so(run_cli):
    """Two runs of one seed are equal, one of another is not; a fault that timing hid does harm; a fence holds."""
    arguments = ("run", "stop_flag", "--mode", "overlap", "--json", *SMALL)
    first, again, other = (
        json.loads(run_cli(*arguments, "--disturb", seed).stdout)["ledger"] for seed in ("3", "3", "4")
    )
    assert first == again
    assert first != other
    hidden = json.loads(run_cli(*arguments, "--fault", "ring-too-shallow").stdout)
    harmed = json.loads(run_cli(*arguments, "--fault", "ring-too-shallow", "--disturb", "3").stdout)
    assert (0, True) == (
        hidden["stale_reads"] + hidden["wrong_reads"],
        harmed["stale_reads"] + harmed["wrong_reads"] > 0,
    )
    shown = run_cli("run", "stop_flag", "--audit", "--disturb", "3", *SMALL)
    assert 0 == shown.exit_code
    assert "disturbed by seed 3" in shown.stdout


MINE = """
from fdprof.scenarios.stop_flag import StopFlag
from fdprof.model import Group, TensorSpec
from fdprof.params import LoopParams, param
from dataclasses import dataclass

class Mine(StopFlag):
    def step(self, loop, k):
        (outputs,) = self.groups(loop.params)
{body}

SCENARIO = Mine()
"""
LAUNCH = ("loop.forward()", "loop.sample_and_update()")


@pytest.mark.parametrize(
    ("body", "code", "words"),
    [
        ((*LAUNCH, "loop.read(outputs)"), 4, "step 0 reads group outputs, which was not transferred"),
        (("loop.forward()", "loop.transfer(outputs)"), 4, "transfers group outputs before the kernel that makes"),
        (
            (*LAUNCH, "loop.transfer(outputs)", "loop.read(outputs)", "loop.read(outputs)"),
            4,
            "reads group outputs twice",
        ),
        ((*LAUNCH, "loop.transfer(outputs)", "loop.read(outputs)"), 5, "the loop never stopped"),
        ((*LAUNCH, "loop.transfer(outputs)"), 5, "values were never read, of outputs"),
        (
            (*LAUNCH, "loop.transfer(outputs)", "loop.read(outputs)['token']"),
            4,
            "it has sampled_token_ids, not_need_stop",
        ),
        ((*LAUNCH, "loop.transfer(outputs)", "loop.read(None)"), 4, "in a step: "),
    ],
)
def test_a_mistake_in_a_loop_of_ones_own_is_named(run_cli, body, code, words):
    """What the step left out or did twice, not the mode that could not know."""
    Path("mine.py").write_text(MINE.format(body="\n".join(f"        {line}" for line in body)))
    done = run_cli("run", "mine.py", *SMALL)
    assert code == done.exit_code
    assert words in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("def groups(self, params): return ('outputs',)", "groups() does not return Groups"),
        ("def groups(self, params): return (Group('a', (), True),)", "a group's direction is True"),
        ("def groups(self, params): return (Group('a', ('x',)),)", "the tensors of group a are no TensorSpecs"),
        ("params_type = LoopParams()", "params_type is not a LoopParams"),
    ],
)
def test_a_mistake_in_the_declarations_of_ones_own_is_named(run_cli, change, words):
    """Exit 2, before anything runs."""
    code = MINE.format(body="        pass").replace("class Mine(StopFlag):", f"class Mine(StopFlag):\n    {change}\n")
    Path("mine.py").write_text(code)
    done = run_cli("run", "mine.py", *SMALL)
    assert 2 == done.exit_code
    assert words in done.stderr


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("raise RuntimeError('boom')", "mine.py, line 1, while it is loaded: RuntimeError: boom"),
        ("import sys; sys.exit(3)", "mine.py, line 1, while it is loaded: SystemExit: 3"),
        ("class Mine(Exception): pass\nraise Mine('own')", "mine.py, line 2, while it is loaded: Mine: own"),
    ],
)
def test_a_file_that_raises_while_it_is_loaded_is_blamed(run_cli, line, words):
    """Exit 4 for whatever it raises, sys.exit() too: its code would say something else of fdprof."""
    Path("mine.py").write_text(line + "\n")
    for command in (("run", "mine.py"), ("modes", "--scenario", "mine.py")):
        done = run_cli(*command)
        assert 4 == done.exit_code
        assert words in done.stderr
        assert not done.stdout


def test_what_a_file_prints_stays_out_of_the_document(run_cli):
    """Standard output is the report's."""
    body = "        print('mine')\n        StopFlag.step(self, loop, k)"
    Path("mine.py").write_text("print('loaded')\n" + MINE.format(body=body))
    done = run_cli("run", "mine.py", "--json", *SMALL)
    assert 0 == done.exit_code
    assert "run" == json.loads(done.stdout)["kind"]


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("mode: int = param(1, 'x', 1, 2)", "--mode is an option of the command"),
        ("steps: int = param(1, 'x', 1, 2)", "--steps is an option of the command"),
        ("size: int = 3", "parameter size has no help and bounds"),
        ("size: bytes = param(b'', 'x', 1, 2)", "parameter size is <class 'bytes'>"),
        ("kernels: int = param(20, 'x', 1, 9999)", "parameter kernels has looser bounds"),
    ],
)
def test_a_parameter_that_no_command_line_can_take_is_refused(run_cli, field, words):
    """Exit 2 and its name."""
    Path("mine.py").write_text(
        MINE.format(body="        pass").replace(
            "class Mine(StopFlag):",
            f"@dataclass(frozen=True, kw_only=True)\nclass P(LoopParams):\n    {field}\n\n"
            "class Mine(StopFlag):\n    params_type = P",
        )
    )
    done = run_cli("run", "mine.py", *SMALL)
    assert 2 == done.exit_code
    assert words in done.stderr


def test_an_options_value_is_not_taken_for_the_scenario(run_cli):
    """A folder named logprobs does not bring the options of logprobs, and hides none of speculative's."""
    done = run_cli(
        "run", "--runs", "logprobs", "--draft-tokens", "2", "speculative", "--backend", "sim", "--steps", "9"
    )
    assert 0 == done.exit_code
    assert list(Path("logprobs").iterdir())


def test_too_few_steps_to_judge_say_so(run_cli):
    """Three steps that the host has queued before they are counted: no loop beats its limit."""
    few = ("--mode", "overlap", "--steps", "3", "--warmup", "0", "--backend", "sim", "--no-save")
    done = run_cli("run", "stop_flag", *few)
    assert "note: an efficiency above 100 %" in done.stdout
    document = json.loads(run_cli("run", "stop_flag", "--json", *few).stdout)
    assert document["efficiency"] > 1
    assert any("above 100 %" in limit for limit in document["limits"])


def test_a_narrow_terminal_cuts_no_number(run_cli, monkeypatch):
    """What has no room follows below."""
    monkeypatch.setenv("COLUMNS", "40")
    lines = run_cli("run", "stop_flag", *SMALL).stdout.splitlines()
    assert 40 >= max(len(line) for line in lines)
    assert not [line for line in lines if "…" in line]


def test_a_run_that_contradicts_itself_is_refused(run_cli):
    """Every entry is of its kind, but all steps start at once, or the journal is in the wrong order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for table, change in (("steps", lambda c: c | {"start_ns": [5] * len(c["start_ns"])}), ("journal", _reversed)):
        folder = _saved(run_cli("run", "stop_flag", "--audit", *SMALL))
        path = folder / "block-000" / f"{table}.parquet"
        columns = change(pq.read_table(path).to_pydict())
        pq.write_table(pa.table(columns), path)
        done = run_cli("report", str(folder))
        assert 4 == done.exit_code
        assert "Traceback" not in done.stderr


def _reversed(columns):
    return {name: values[::-1] for name, values in columns.items()}


def test_every_fault_in_every_mode_and_scenario_ends_with_a_known_exit(run_cli):
    """Right by luck or not, found or with nothing to do: 0, 2, 4 or 5, and never a bug."""
    from fdprof import plugins

    small = ("--steps", "4", "--warmup", "1", "--sequences", "3", "--kernels", "2", "--backend", "sim", "--no-save")
    for scenario in plugins.names("scenarios"):
        for mode in plugins.names("modes"):
            for fault in plugins.names("faults"):
                done = run_cli("run", scenario, "--mode", mode, "--fault", fault, "--timeout", "1", *small)
                assert done.exit_code in (0, 2, 4, 5), (scenario, mode, fault, done.stderr)
                if done.exit_code == 5 and not plugins.load("modes", mode).is_control:
                    assert "hazard" in done.stdout or "stale" in done.stderr
