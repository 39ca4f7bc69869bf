# ruff: noqa: SIM300 - the expected value stands first
"""`fdprof compare` through the command line: what may be compared, verdicts, gates and exit codes."""

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from fdprof.analysis.verdict import APART

SMALL = ("--backend", "sim", "--steps", "30", "--warmup", "5", "--sequences", "4")
DATA = Path(__file__).parents[1] / "data" / "h200-2026-11-30"


def _saved(done):
    return Path(done.stderr.strip().splitlines()[-1].removeprefix("saved "))


def _recorded(run_cli, *options):
    """Record six blocks and return the folder."""
    return str(_saved(run_cli("run", "stop_flag", "--blocks", "6", *SMALL, *options)))


def _document(done):
    return json.loads(done.stdout)


def test_modes_give_verdict_interval_bridge_and_what_became_of_the_wait(run_cli):
    """On the simulator sync loses to async, its blocking copies are removed, and every ns is accounted for."""
    done = run_cli("compare", "sync", "async", "--json", *SMALL)
    got = _document(done)
    assert (0, "faster", "removed", True) == (
        done.exit_code,
        got["verdict"],
        got["removed_or_moved"],
        got["tokens_equal"],
    )
    assert got["ratio_interval"][0] <= got["ratio"] <= got["ratio_interval"][1] < 1
    assert sum(got["bridge_ns"].values()) == got["bridge_step_ns"]
    means = [got[side]["ledger"]["mean"]["window_ns"] for side in ("baseline", "candidate")]
    assert got["bridge_step_ns"] == round(means[1] - means[0])
    assert 0 == got["bridge_residual_ns"]
    assert got["gain_share"] == pytest.approx((means[0] - means[1]) / (means[0] - got["baseline"]["limit_ns"]))
    assert [] == got["mismatches"]
    assert got["interleaved"]


def test_a_mode_against_itself_is_the_same(run_cli):
    """The A/A check of a simulator without noise."""
    done = run_cli("compare", "async", "async", "--json", *SMALL)
    got = _document(done)
    assert (0, "same", 1.0, [1.0, 1.0]) == (done.exit_code, got["verdict"], got["ratio"], got["ratio_interval"])


def test_a_wait_that_only_moved_is_told(run_cli):
    """With no host work there is nothing to put beside the device: sync waits in its copies, async in its fence.

    At 20 ms of device work what else the two differ by is below ±0.5 %.
    """
    options = ("--device-us", "20000", "--schedule-us", "0", "--save-output-us", "0")
    got = _document(run_cli("compare", "sync", "async", "--json", *options, *SMALL))
    assert ("same", "moved") == (got["verdict"], got["removed_or_moved"])
    assert got["blocked_in_copies_ns"][0] > 19e6 > 1e6 > got["blocked_in_copies_ns"][1]
    assert got["blocked_in_fences_ns"][0] < 1e6 < 19e6 < got["blocked_in_fences_ns"][1]


def test_too_few_blocks_end_with_exit_3(run_cli):
    """Five blocks a side, however clear the ratio."""
    done = run_cli("compare", "sync", "async", "--blocks", "5", *SMALL)
    assert 3 == done.exit_code
    assert "5 blocks on a side give no interval: record each with --blocks 6 or more" in done.stderr


@pytest.mark.parametrize(
    ("modes", "options", "code", "words"),
    [
        (("sync", "async"), ("--fail-if", "slower"), 0, ""),
        (("async", "sync"), ("--fail-if", "slower"), 1, "gate --fail-if slower failed"),
        (("async", "sync"), (), 0, ""),  # slower, and nobody asked
        (("sync", "async"), ("--max-ratio", "0.99"), 0, ""),
        (("async", "sync"), ("--max-ratio", "1.02"), 1, "gate --max-ratio 1.02 failed: the ratio of the mean is"),
        (("async", "async"), ("--fail-if", "same"), 1, "gate --fail-if same failed"),
        (("sync", "async"), ("--max-p99-ratio", "1"), 3, "gate --max-p99-ratio 1 is open"),  # 180 steps have no p99
        (("sync", "async"), ("--fail-if", "slower", "--blocks", "5"), 3, "gate --fail-if slower is open"),
        # A failed gate goes before an open one, and wrong tokens before any.
        (("async", "sync"), ("--max-p99-ratio", "1", "--max-ratio", "1"), 1, "--max-ratio 1 failed"),
        (("sync", "unfenced"), ("--fail-if", "slower"), 5, "unfenced: first wrong value"),
    ],
)
def test_gates_decide_the_exit_code(run_cli, modes, options, code, words):
    """0 passed, 1 failed, 3 open, 5 wrong tokens."""
    done = run_cli("compare", *modes, *SMALL, *options)
    assert code == done.exit_code
    assert words in done.stderr


def test_precision_adds_blocks_until_the_interval_is_narrow(run_cli):
    """Without noise six blocks are enough; so few steps of varying work a block are not, and more are run."""
    assert [6, 6] == _blocks(run_cli("compare", "sync", "async", "--precision", "1%", "--json", *SMALL))
    varying = ("--device-times", "normal:0.3", "--host-times", "normal:0.9", "--precision", "0.02%", "--json")
    more = _blocks(run_cli("compare", "sync", "async", *varying, *SMALL, "--steps", "4", "--max-time", "3"))
    assert more[0] == more[1] > 6


def _blocks(done):
    got = _document(done)
    return [len(got[side]["block_means_ns"]) for side in ("baseline", "candidate")]


def test_a_mode_is_recorded_in_the_loop_of_the_saved_run_it_is_compared_with(run_cli):
    """Its 4 sequences, its 350 µs of device work, its simulator; only the mode is another."""
    folder = _recorded(run_cli, "--mode", "sync", "--device-us", "350")
    done = run_cli("compare", folder, "async", "--blocks", "6", "--json")
    got = _document(done)
    assert (0, "faster") == (done.exit_code, got["verdict"])
    assert (350.0, 4, "sim") == tuple(
        got["candidate"]["fields"][name] for name in ("device_us", "sequences", "backend")
    )
    assert not got["interleaved"]
    assert any("recorded apart" in note for note in got["notes"])


def test_a_scenario_with_options_of_its_own_is_recorded_as_saved(run_cli):
    """logprobs with 3 of them, which stop_flag does not know."""
    saved = run_cli("run", "logprobs", "--mode", "sync", "--blocks", "6", "--top-logprobs", "3", *SMALL)
    got = _document(run_cli("compare", str(_saved(saved)), "overlap", "--blocks", "6", "--json"))
    assert ("logprobs", 3) == tuple(got["candidate"]["fields"][name] for name in ("scenario", "top_logprobs"))
    assert got["tokens_equal"]


def test_what_is_given_on_the_command_line_goes_before_the_saved_run(run_cli):
    """--device-us 500 against a run of 1,000: not comparable, unless allowed."""
    folder = _recorded(run_cli, "--mode", "sync")
    done = run_cli("compare", folder, "async", "--device-us", "500", "--blocks", "6")
    assert 3 == done.exit_code
    assert "device_us is 1000.0 against 500.0" in done.stderr
    assert "step, mean" not in done.stdout
    allowed = ("--allow", "device_us", "--allow", "device_work_ns")
    assert 0 == run_cli("compare", folder, "async", "--device-us", "500", "--blocks", "6", *allowed).exit_code


@pytest.mark.parametrize("field", ["sequences", "steps", "seed"])
def test_saved_runs_that_differ_are_not_comparable_and_say_in_what(run_cli, field):
    """Nothing of speed is shown, in JSON it is null, and the exit code is 3."""
    values = {"sequences": "5", "steps": "31", "seed": "1"}
    sides = [_recorded(run_cli, "--mode", "sync"), _recorded(run_cli, "--mode", "async", f"--{field}", values[field])]
    done = run_cli("compare", *sides, "--json")
    got = _document(done)
    assert (3, "not comparable", None, None) == (done.exit_code, got["verdict"], got["ratio"], got["bridge_ns"])
    assert [field] == [mismatch["field"] for mismatch in got["mismatches"]]
    gates = _document(run_cli("compare", *sides, "--json", "--max-ratio", "2"))["gates"]
    assert [("--max-ratio 2", "open")] == [(gate["option"], gate["outcome"]) for gate in gates]
    assert f"--allow {field}" in done.stderr


def test_runs_of_another_environment_are_not_comparable(run_cli):
    """A saved run whose Python was another one."""
    sides = [_recorded(run_cli, "--mode", mode) for mode in ("sync", "async")]
    path = Path(sides[0], "run.json")
    document = json.loads(path.read_text())
    document["environment"]["python"] = "2.7"
    path.write_text(json.dumps(document))
    done = run_cli("compare", *sides)
    assert 3 == done.exit_code
    assert "python is 2.7 against" in done.stderr
    assert 0 == run_cli("compare", *sides, "--allow", "python").exit_code


def test_tokens_that_differ_end_with_exit_5_before_any_talk_of_speed(run_cli):
    """Both runs are right by their own account, but one read's digest is not the other's."""
    import pyarrow.parquet as pq

    sides = [_recorded(run_cli, "--mode", mode) for mode in ("sync", "async")]
    path = Path(sides[1], "block-002", "reads.parquet")
    table = pq.read_table(path)
    at = table.column_names.index("digest")
    digests = table["digest"].to_pylist()
    digests[7] += 1
    pq.write_table(table.set_column(at, "digest", [digests]), path)
    done = run_cli("compare", *sides)
    assert 5 == done.exit_code
    assert "the values of outputs differ at step 7" in done.stderr
    assert "step, mean" not in done.stdout
    assert "not comparable" not in done.stdout  # they are, and one of them is wrong
    assert "Times are not compared" in done.stdout
    got = _document(run_cli("compare", *sides, "--json"))
    assert (None, False, None) == (got["verdict"], got["tokens_equal"], got["ratio"])


def test_a_baseline_file_serves_a_later_call(run_cli):
    """Saved by itself, then compared with: the same numbers as the run it came from, and gates on it."""
    saved = run_cli("compare", "sync", "--save-baseline", "base.json", *SMALL)
    assert 0 == saved.exit_code
    assert "saved the baseline base.json" in saved.stderr
    done = run_cli("compare", "async", "--baseline", "base.json", "--max-ratio", "1", "--json")
    got = _document(done)
    assert (0, "faster", True) == (done.exit_code, got["verdict"], got["tokens_equal"])
    assert ("sync", "baseline") == (got["baseline"]["label"], got["baseline"]["kind"])
    assert ["passed"] == [gate["outcome"] for gate in got["gates"]]
    assert 0 == got["bridge_residual_ns"]
    # The same as a positional side, and the other way round it fails.
    assert 1 == run_cli("compare", "async", "base.json", "--fail-if", "slower", "--blocks", "6").exit_code


def test_a_baseline_of_the_candidate_is_saved_after_a_comparison(run_cli):
    """So that the next change is held against this one; of wrong tokens, or where a gate fails, none is saved."""
    assert 0 == run_cli("compare", "sync", "async", "--save-baseline", "next.json", *SMALL).exit_code
    assert "async" == json.loads(Path("next.json").read_text())["label"]
    assert 2 == run_cli("compare", "sync", "async", "--save-baseline", "next.json", *SMALL).exit_code  # it exists
    assert 5 == run_cli("compare", "sync", "unfenced", "--save-baseline", "wrong.json", *SMALL).exit_code
    failed = ("--fail-if", "slower", "--save-baseline", "worse.json")
    assert 1 == run_cli("compare", "async", "sync", *failed, *SMALL).exit_code
    assert {"next.json", "runs"} == {path.name for path in Path().iterdir()}


def test_a_saved_comparison_reports_the_same_numbers_again(run_cli):
    """The resampling has a fixed seed, and what was asked is saved: a bound of 90 % makes them the same."""
    asked = ("--same-within", "90%", "--max-ratio", "0.95", "--allow", "python")
    done = run_cli("compare", "sync", "async", "--device-times", "normal:0.1", "--json", *asked, *SMALL)
    assert "same" == _document(done)["verdict"]
    again = run_cli("report", str(_saved(done)), "--json")
    assert _document(done) == _document(again)


def test_a_markdown_summary_has_verdict_table_and_gates(run_cli):
    """For the job page of a CI run."""
    run_cli("compare", "sync", "async", "--max-ratio", "1", "-o", "summary.md", *SMALL)
    page = Path("summary.md").read_text()
    assert page.startswith("## fdprof: async against sync: faster (simulated)\n")
    assert "- gate `--max-ratio 1`: **passed**" in page
    assert "| step, mean |" in page
    assert "| the step |" in page


def test_two_sqlite_captures_are_compared_as_argued(captures, run_cli):
    """H200: 59 steps of 855.2 and 547.8 µs behind a first one that is warm-up on both sides.

    captures/README.md gives 888,724 and 564,128 ns over all 60: with the first step, as `fdprof analyze` says.
    """
    sides = [str(captures / "h200" / f"paddle_{mode}.nsys.sqlite") for mode in ("sync", "async")]
    done = run_cli("compare", *sides, "--json")
    got = _document(done)
    assert (0, "faster", "removed") == (done.exit_code, got["verdict"], got["removed_or_moved"])
    assert got["tokens_equal"] is None
    # The synchronisation right behind `.cpu()`'s copy is the copy's; the event of the other is a fence.
    blocked = [got[side]["ledger"]["mean"]["host_blocked_ns"] for side in ("baseline", "candidate")]
    assert [pytest.approx(blocked[0]), 0] == got["blocked_in_copies_ns"]
    assert [0, pytest.approx(blocked[1])] == got["blocked_in_fences_ns"]
    for side, mean_ns in (("baseline", 888_724), ("candidate", 564_128)):
        assert 1 == got[side]["left_out_steps"]
        analysis = json.loads(run_cli("analyze", got[side]["label"], "--json").stdout)
        assert mean_ns == round(analysis["ledger"]["mean"]["window_ns"])
        rest = json.loads(run_cli("analyze", got[side]["label"], "--steps", "1:", "--json").stdout)
        assert rest["ledger"] == got[side]["ledger"]
    assert sum(got["bridge_ns"].values()) == got["bridge_step_ns"]
    assert got["ratio_interval"][1] < 1 / (1 + APART)


def test_captures_with_guessed_steps_need_leave(captures, run_cli):
    """two_processes: no step marker, 16 against 14 repeating patterns; allowed, they are too few for an interval."""
    sides = [str(captures / "nsys" / f"two_processes_{when}.sqlite") for when in ("before", "after")]
    done = run_cli("compare", *sides)
    assert 3 == done.exit_code
    assert "steps is 16 against 14; quality is steps-inferred against steps-inferred" in done.stderr
    allowed = run_cli("compare", *sides, "--allow", "steps", "--allow", "quality", "--json")
    assert (3, "inconclusive", None) == (
        allowed.exit_code,
        _document(allowed)["verdict"],
        _document(allowed)["ratio_interval"],
    )


def test_six_steps_of_a_capture_are_too_few(captures, run_cli):
    """The old categories pair: 0.799 of the mean step, and no interval."""
    sides = [str(captures / "kineto" / f"old_categories_loader_{n}_workers.json.gz") for n in (0, 4)]
    done = run_cli("compare", *sides, "--json")
    got = _document(done)
    assert (3, "inconclusive", None) == (done.exit_code, got["verdict"], got["ratio_interval"])
    assert 0.799 == pytest.approx(got["ratio"], abs=0.001)


def test_a_packed_export_says_how_to_unpack_it(run_cli):
    """sqlite needs a file to seek in."""
    done = run_cli("compare", str(DATA / "stop_flag_sync.nsys.sqlite.gz"), str(DATA / "stop_flag_async.nsys.sqlite.gz"))
    assert 4 == done.exit_code
    assert f"gunzip -k {DATA / 'stop_flag_sync.nsys.sqlite.gz'}" in done.stderr


def test_a_report_is_no_side(run_cli):
    """It has means and no steps; the message says what to give."""
    run_cli("run", "stop_flag", "-o", "run.json", *SMALL)
    done = run_cli("compare", "async", "--baseline", "run.json")
    assert 4 == done.exit_code
    assert "is a report of fdprof" in done.stderr


def test_times_that_vary_give_an_interval_and_an_efficiency_that_hold(run_cli):
    """Both sides draw alike, each block its own: the limit is that of all blocks, so no efficiency is above 100 %."""
    varying = ("--device-times", "lognormal:0.5", "--host-times", "normal:0.1", "--seed", "3", "--blocks", "8")
    got = _document(run_cli("compare", "async", "overlap", "--json", *varying, *SMALL))
    assert all(0.5 < efficiency < 1 for efficiency in got["efficiencies"])
    assert got["gain_share"] < 1
    assert 8 == len(set(got["baseline"]["block_means_ns"]))
    assert not any("efficiency above" in note for note in got["notes"])


def test_a_run_and_a_capture_differ_in_the_tracer(run_cli):
    """Times under a tracer and times without one: refused, unless allowed."""
    folder = _recorded(run_cli, "--mode", "async")
    Path("async.sqlite").write_bytes(gzip.decompress((DATA / "stop_flag_async.nsys.sqlite.gz").read_bytes()))
    done = run_cli("compare", folder, "async.sqlite", "--json")
    assert 3 == done.exit_code
    assert "tracer" in [mismatch["field"] for mismatch in _document(done)["mismatches"]]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("sync",), 2, "1 side to compare: sync"),
        (("sync", "async", "overlap"), 2, "3 sides to compare"),
        (("sync", "asinc"), 2, "did you mean async?"),
        (("sync", "nothing.sqlite"), 2, "no such file or folder"),
        (("sync", "async", "--baseline", "x.json"), 2, "3 sides"),
        (("async", "--baseline", "nothing.json"), 4, "nothing.json does not exist"),
        (("sync", "async", "--precision", "0"), 2, "--precision is '0'"),
        (("sync", "async", "--precision", "100%"), 2, "--precision is '100%'"),
        (("sync", "async", "--precision", "nan%"), 2, "--precision is 'nan%'"),
        (("sync", "async", "--same-within", "0.5"), 2, "--same-within is '0.5'"),  # half a per cent, or a half?
        (("sync", "async", "--same-within", "much"), 2, "--same-within is 'much'"),
        (("sync", "async", "--max-time", "0"), 2, "--max-time is 0"),
        (("sync", "async", "--max-ratio", "-1"), 2, "--max-ratio is -1"),
        (("sync", "async", "--max-ratio", "nan"), 2, "--max-ratio is nan"),
        (("sync", "async", "--fail-if", "slow"), 2, "--fail-if is 'slow'"),
        (("sync", "async", "--allow", "device"), 2, "--allow 'device': there is no such field"),
        (("sync", "async", "--blocks", "0"), 2, "--blocks is 0"),
        (("sync", "async", "--save-baseline", "no/where.json"), 2, "the folder of no/where.json does not exist"),
        (("sync", "async", "--scenario", "stop_flg"), 2, "did you mean stop_flag?"),
        (("sync", "async", "--max-time", "3"), 2, "--max-time changes nothing"),
        (("sync", "async", "--step-range", "x"), 2, "--step-range changes nothing: no side is a capture"),
        (("sync", "--save-baseline", "b.json", "--max-ratio", "1"), 2, "--max-ratio changes nothing"),
        (("sync", "async", "--save-baseline", "b.json", "-o", "b.json"), 2, "-o and --save-baseline are both b.json"),
        (("", "async"), 2, "'' is no mode"),
    ],
)
def test_a_mistake_gets_one_message_and_nothing_is_run(run_cli, arguments, code, words):
    """The exit code of the contract, the words on standard error, nothing on standard output, nothing written."""
    done = run_cli("compare", *arguments, "--backend", "sim")
    assert code == done.exit_code
    assert words in done.stderr
    assert "" == done.stdout
    assert [] == list(Path().iterdir())


def test_a_recording_against_itself_is_refused(run_cli):
    """It would be the same with an interval of no width, which says nothing of the machine."""
    folder = _recorded(run_cli, "--mode", "sync")
    shutil.copytree(folder, "copy")
    Path("link").symlink_to(folder)
    run_cli("compare", folder, "--save-baseline", "base.json")
    for other in (folder, f"{folder}/.", "link", "copy", "base.json"):
        done = run_cli("compare", folder, other)
        assert 2 == done.exit_code
        assert "both sides are the same recording" in done.stderr


def test_a_comparisons_folder_is_two_runs(run_cli):
    """The message names its sides."""
    folder = _saved(run_cli("compare", "sync", "async", *SMALL))
    done = run_cli("compare", str(folder), "async")
    assert 4 == done.exit_code
    assert f"with fdprof compare: {folder}/baseline {folder}/candidate" in done.stderr
    assert 0 == run_cli("compare", f"{folder}/baseline", f"{folder}/candidate").exit_code


def test_a_folder_with_a_modes_name_is_reached_by_its_path(run_cli):
    """`sync` is the mode; ./sync is the folder."""
    shutil.copytree(_recorded(run_cli, "--mode", "async"), "sync")
    got = _document(run_cli("compare", "./sync", "async", "--blocks", "6", "--json"))
    assert ("async", 1.0) == (got["baseline"]["label"], got["ratio"])
    # The mode is recorded even where the baseline's file has its name.
    shutil.copytree("sync", "async")
    done = run_cli("compare", "async", "--baseline", "async", "--blocks", "6", "--json")
    assert "backend sim" in done.stderr
    assert 0 != run_cli("compare", "./async", "async", "--blocks", "5").exit_code


@pytest.mark.parametrize(
    "options",
    [
        ("--scenario", "logprobs"),
        ("--backend", "sim"),
        ("--blocks", "7"),
        ("--precision", "9%"),
        ("--steps", "5"),
        ("--device-us", "5"),
        ("--runs", "x"),
    ],
)
def test_options_of_a_recording_are_refused_where_nothing_is_recorded(run_cli, options):
    """Two saved runs have their own."""
    sides = [_recorded(run_cli, "--mode", mode) for mode in ("sync", "async")]
    done = run_cli("compare", *sides, *options)
    assert 2 == done.exit_code
    assert f"{options[0]} changes nothing: no mode is recorded" in done.stderr


def test_a_precision_below_what_recordings_made_apart_differ_by_is_refused(run_cli):
    """It could not be met by any number of blocks."""
    folder = _recorded(run_cli, "--mode", "sync")
    done = run_cli("compare", folder, "async", "--precision", "3%")
    assert 2 == done.exit_code
    assert "cannot be met" in done.stderr
    assert 0 == run_cli("compare", folder, "async", "--precision", "10%").exit_code


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("scenario", "evil.py", "of scenario 'evil.py', which is not fdprof's own"),
        ("scenario", "no_such", "of scenario 'no_such'"),
        ("backend", None, "of backend None"),
        ("device_times", "/etc/passwd", "its device_times were read from the file '/etc/passwd'"),
        ("device_times", 5, "its device_times is 5, expected str"),
        ("seed", "abc", "its seed is 'abc', expected int"),
        ("seed", True, "its seed is True, expected int"),
        ("steps", 20.5, "its steps is 20.5, expected int"),
        ("seed", -1, "its parameters are none: --seed is -1"),
        ("sequences", 0, "its parameters are none: --sequences is 0"),
    ],
)
def test_what_a_baseline_says_of_its_loop_is_checked_and_never_taken_for_a_path(run_cli, field, value, words):
    """A file that somebody committed must not run code, nor read other files."""
    Path("evil.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    run_cli("compare", "sync", "--save-baseline", "base.json", *SMALL)
    document = json.loads(Path("base.json").read_text())
    document["fields"][field] = value
    Path("base.json").write_text(json.dumps(document))
    done = run_cli("compare", "async", "--baseline", "base.json")
    assert 4 == done.exit_code
    assert words in done.stderr
    assert not Path("ran").exists()


def test_an_interrupted_run_that_is_loaded_is_compared_like_any_other(run_cli):
    """Exit 130 is for a recording that Ctrl-C ended now."""
    sides = [_recorded(run_cli, "--mode", mode) for mode in ("sync", "async")]
    path = Path(sides[0], "run.json")
    path.write_text(path.read_text().replace('"interrupted": false', '"interrupted": true'))
    assert 0 == run_cli("compare", *sides).exit_code
    assert 1 == run_cli("compare", *sides, "--max-ratio", "0.1").exit_code


@pytest.mark.parametrize(("at", "finished"), [(3, 1), (14, 7)])
def test_ctrl_c_compares_what_has_finished_and_ends_with_130(run_cli, monkeypatch, at, finished):
    """In the fourth and in the fifteenth block: one or seven blocks a side are left to compare, and none is saved."""
    from fdprof.session import Session

    block, calls = Session.block, []

    def interrupted(self, mode, index):
        if len(calls) == at:
            raise KeyboardInterrupt
        calls.append(mode)
        return block(self, mode, index)

    monkeypatch.setattr(Session, "block", interrupted)
    done = run_cli("compare", "sync", "async", "--json", "--blocks", "20", "--save-baseline", "b.json", *SMALL)
    assert 130 == done.exit_code
    assert [finished, finished] == _blocks(done)
    assert not Path("b.json").exists()
    folder = done.stderr.split("saved ")[1].split()[0]
    assert 0 == run_cli("report", folder).exit_code


def test_an_interrupted_comparison_of_one_side_names_what_there_is(run_cli, monkeypatch):
    """Ctrl-C in the second block: one side has none."""
    from fdprof.session import Session

    block, calls = Session.block, []

    def interrupted(self, mode, index):
        if calls:
            raise KeyboardInterrupt
        calls.append(mode)
        return block(self, mode, index)

    monkeypatch.setattr(Session, "block", interrupted)
    done = run_cli("compare", "sync", "async", *SMALL)
    assert 130 == done.exit_code
    folder = done.stderr.split("saved ")[1].split()[0]
    reported = run_cli("report", folder)
    assert 4 == reported.exit_code
    there = reported.stderr.split("fdprof report ")[1].split()[0]
    assert 0 == run_cli("report", there).exit_code


def test_an_output_does_not_replace_what_is_read(run_cli):
    """Not a baseline, not a run's own file, not a capture, with --force or without."""
    folder = _recorded(run_cli, "--mode", "sync")
    run_cli("compare", folder, "--save-baseline", "base.json")
    trace = Path("trace.json")
    trace.write_bytes(gzip.decompress((DATA / "torch_cpu.kineto.json.gz").read_bytes()))
    kept = {path: path.read_bytes() for path in (Path("base.json"), Path(folder, "run.json"), trace)}
    for command in (
        ("compare", "async", "--baseline", "base.json", "-o", "base.json"),
        ("compare", folder, "async", "-o", f"{folder}/run.json"),
        ("report", folder, "-o", f"{folder}/run.json"),
        ("analyze", "trace.json", "-o", "trace.json"),
    ):
        done = run_cli(*command, "--force")
        assert 2 == done.exit_code
        assert "would replace or add to what is read" in done.stderr
    assert kept == {path: path.read_bytes() for path in kept}


def test_a_loop_that_stops_before_its_first_counted_step_has_wrong_tokens(run_cli):
    """Exit 5, and a document without NaN."""
    Path("early.py").write_text(
        "from fdprof.scenarios.stop_flag import SCENARIO as of, StopFlag\n"
        "class Early(StopFlag):\n"
        "    def step(self, loop, k):\n"
        "        super().step(loop, k)\n"
        "        loop.stop()\n"
        "SCENARIO = Early()\n"
    )
    done = run_cli("compare", "sync", "async", "--scenario", "early.py", "--json", *SMALL)
    assert 5 == done.exit_code
    got = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(name))
    assert (None, False) == (got["verdict"], got["tokens_equal"])


def test_an_output_that_is_no_regular_file_is_refused(run_cli):
    """--force replaces files, not devices or pipes."""
    os.mkfifo("pipe.json")
    Path("link.json").symlink_to("pipe.json")
    for option in ("-o", "--save-baseline"):
        for name in ("pipe.json", "link.json"):
            done = run_cli("compare", "sync", "async", option, name, "--force", *SMALL)
            assert 2 == done.exit_code
            assert f"{name} is no regular file" in done.stderr


@pytest.mark.parametrize("command", [("compare", "NAME", "sync"), ("analyze", "NAME"), ("report", "NAME")])
def test_a_name_that_no_path_can_have_is_an_input_that_cannot_be_used(run_cli, command):
    """300 characters: one message, exit 4, no traceback."""
    done = run_cli(*("a" * 300 if word == "NAME" else word for word in command))
    assert 4 == done.exit_code
    assert "Traceback" not in done.stderr
    assert "too long" in done.stderr


def test_the_lines_about_noise_say_what_the_document_says(run_cli):
    """Times that vary: intervals, A/A check, autocorrelation and outliers in words, by the numbers of --json."""
    varying = ("--device-times", "lognormal:0.9", "--host-times", "lognormal:2", "--schedule-us", "900", "--seed", "1")
    got = _document(
        run_cli("compare", "sync", "overlap", "--json", "--blocks", "8", "-o", "text.txt", *varying, *SMALL)
    )
    text = " ".join(Path("text.txt").read_text().split())
    ours, theirs = got["spreads"]
    for name in ("autocorrelation", "block_variance", "mild", "severe"):
        assert round(ours[name], 2) != round(theirs[name], 2)  # or the sides could be exchanged
    assert "intervals: 8 blocks a side, interleaved, resampled in pairs" in text
    assert f"neighbouring pairs of blocks differ by {100 * (got['self_check_ratio'] - 1):.1f} %" in text
    assert f"a ratio of {got['detectable_ratio']:.3f} would be found" in text
    assert f"autocorrelation {ours['autocorrelation']:.2f} and {theirs['autocorrelation']:.2f}" in text
    assert f"vary {ours['block_variance']:.1f} and {theirs['block_variance']:.1f} times as much" in text
    assert f"sync {ours['mild']} of 240 steps, {ours['severe']} of them severe" in text
    assert f"overlap {theirs['mild']} of 240 steps, {theirs['severe']} of them severe" in text
    assert "efficiency {:.1%} {:.1%}".format(*got["efficiencies"]).replace("%", " %") in text


def test_names_that_mean_something_to_markdown_are_shown_as_they_are(run_cli):
    """A file's name is the label of its side, and could hold markup."""
    for name, source in (("a|<b>*_`.json", "torch_cpu"), ("c.json", "torch_next")):
        Path(name).write_bytes(gzip.decompress((DATA / f"{source}.kineto.json.gz").read_bytes()))
    run_cli("compare", "a|<b>*_`.json", "c.json", "-o", "page.md")
    page = Path("page.md").read_text()
    assert "a\\|\\<b\\>\\*\\_\\`.json" in page
    assert "<b>" not in page


def test_every_field_of_a_run_may_be_allowed(run_cli):
    """--allow knows what is compared, also before there is a side to ask."""
    fields = _document(run_cli("compare", "sync", "async", "--json", *SMALL))["baseline"]["fields"]
    allowed = [word for name in fields for word in ("--allow", name)]
    assert 0 == run_cli("compare", "sync", "async", *allowed, *SMALL).exit_code


def test_a_baseline_that_came_meanwhile_is_kept(run_cli, tmp_path, monkeypatch):
    """Another process made it while the block was recorded; with --force it is replaced."""
    from fdprof.session import Session

    block = Session.block

    def meanwhile(self, mode, index):
        (tmp_path / "base.json").write_text("precious", encoding="utf-8")
        return block(self, mode, index)

    monkeypatch.setattr(Session, "block", meanwhile)
    refused = run_cli("compare", "sync", "--save-baseline", "base.json", *SMALL)
    assert (2, "precious") == (refused.exit_code, (tmp_path / "base.json").read_text(encoding="utf-8"))
    assert "base.json has come to exist meanwhile" in refused.stderr
    assert 0 == run_cli("compare", "sync", "--save-baseline", "base.json", "--force", *SMALL).exit_code
    assert "precious" != (tmp_path / "base.json").read_text(encoding="utf-8")


def test_runs_of_too_few_blocks_have_no_interval_to_say_anything_of(run_cli, tmp_path):
    """One block each; six each, recorded apart, have one, and it is wider for that."""
    for blocks, is_said in ((1, False), (6, True)):
        for mode in ("sync", "async"):
            run_cli("run", "stop_flag", "--mode", mode, "--blocks", str(blocks), "--runs", f"{mode}{blocks}", *SMALL)
        (ours,), (theirs,) = ((tmp_path / f"{mode}{blocks}").iterdir() for mode in ("sync", "async"))
        said = " ".join(run_cli("compare", str(ours), str(theirs)).stdout.split())
        assert is_said == ("the intervals include" in said)
