"""`fdprof capture` through the command line; the tracer here runs the command and takes what it puts in a folder."""

# ruff: noqa: SIM300
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import fdprof.tracers
from fdprof import plugins
from fdprof.backends.paddle import PaddleBackend
from fdprof.cli.tracing import tracer_for
from fdprof.errors import EnvironmentMissing, UsageError
from fdprof.tracers.protocol import Request

DATA = Path(__file__).parents[1] / "data" / "h200-2026-11-30"
TRACE = DATA / "torch_fence.kineto.json.gz"
OTHER = DATA / "torch_cpu.kineto.json.gz"
COPY = f"cp {TRACE} $TAKEN/trace.json.gz"

TRACER = '''
"""Takes what the command copies into the folder $TAKEN."""

import json
import os
import signal

from fdprof import supervision
from fdprof.errors import EnvironmentMissing
from fdprof.tracers.protocol import Taken


class Found:
    def text_lines(self):
        return ("waits in forward", "called\\x1b[2J by run")


class Tracer:
    tool = "replayer"
    prelude = ""

    def missing(self, request):
        return EnvironmentMissing("graphs are not seen", "use another") if request.graph_trace == "node" else None

    def take(self, request):
        (request.folder / "request.txt").write_text(repr(request))
        environment = (("TAKEN", str(request.folder)), ("QUIET", str(request.quiet)))
        outcome = supervision.run(
            request.command, limit_s=request.limit_s, quiet=request.quiet, environment=environment, grace_s=600
        )
        if "late" in request.command:  # a signal that comes when the command has ended and nothing is saved yet
            os.kill(os.getpid(), signal.SIGTERM)
        captures = tuple(sorted(request.folder.glob("*.gz")))
        notes = () if captures else (f"finish by hand: finish {request.folder}/raw",)
        (request.folder / "request.txt").unlink()
        return Taken(outcome, captures, "replayer 1", ("replayer", *request.command), notes)

    def diagnose(self, request):
        assert not list(request.folder.iterdir())
        supervision.run(request.command, limit_s=request.limit_s, environment=(("TAKEN", str(request.folder)),))
        return Found()


TRACER = Tracer()
'''

MAIN = """
import sys
import fdprof.tracers
fdprof.tracers.__path__.append(sys.argv.pop(1))
from fdprof.__main__ import main
main()
"""

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/stat").exists(), reason="processes are found in /proc, as on Linux"
)


@pytest.fixture
def plugin_folder(tmp_path_factory):
    """A folder with one more tracer."""
    folder = tmp_path_factory.mktemp("tracers")
    (folder / "replayer.py").write_text(TRACER)
    return folder


@pytest.fixture
def capture(run_cli, plugin_folder, monkeypatch):
    """Run `fdprof capture` with that tracer, in an empty folder."""
    monkeypatch.setattr(fdprof.tracers, "__path__", [*fdprof.tracers.__path__, str(plugin_folder)])
    monkeypatch.delitem(sys.modules, "fdprof.tracers.replayer", raising=False)
    return lambda *arguments: run_cli("capture", "--with", "replayer", *arguments)


def folders(runs="runs"):
    return sorted(Path(runs).iterdir()) if Path(runs).exists() else []


def record(folder):
    return json.loads((folder / "capture.json").read_text())


def test_a_command_is_run_saved_and_analyzed(capture, run_cli):
    """The report is that of the capture, and the folder is analyzed again to the same."""
    done = capture("--", "sh", "-c", COPY)
    assert 0 == done.exit_code, done.stderr
    (folder,) = folders()
    assert done.stdout.splitlines()[0] and f"{folder}: Kineto" in done.stdout
    assert done.stdout == run_cli("analyze", str(folder)).stdout
    assert {"capture.json", "trace.json.gz"} == {entry.name for entry in folder.iterdir()}
    assert "-capture-sh" in folder.name
    assert ["tracer replayer: as asked for", f"saved {folder}"] == done.stderr.splitlines()
    document = record(folder)
    assert ("replayer", "replayer 1", 0, "exit") == tuple(document[k] for k in ("tracer", "tool", "exit_code", "ended"))
    assert ["sh", "-c", COPY] == document["command"]
    assert ["replayer", "sh", "-c", COPY] == document["arguments"]


def test_json_is_the_only_thing_on_standard_output(capture, capfd):
    """The command's own output goes to standard error then."""
    done = capture("--json", "--", "sh", "-c", f"{COPY}; echo said by the command")
    document = json.loads(done.stdout)
    assert ("analysis", "kineto") == (document["kind"], document["source"])
    output, errors = capfd.readouterr()
    assert ("", "said by the command\n") == (output, errors)


def test_the_commands_output_is_not_touched_without_json(capture, capfd):
    """As under any other tool."""
    capture("--", "sh", "-c", f"{COPY}; echo out; echo err >&2")
    assert ("out\n", "err\n") == tuple(capfd.readouterr())


def test_steps_and_step_range_are_those_of_analyze(capture):
    """Counted from 0; a range is named by a regular expression."""
    done = capture("--steps", "10:20", "--step-range", "^decode_step$", "--json", "--", "sh", "-c", COPY)
    assert 10 == json.loads(done.stdout)["steps"]


def test_the_exit_code_is_the_commands_after_the_report(capture):
    """What it captured is worth seeing, and says that the command failed."""
    done = capture("--", "sh", "-c", f"{COPY}; exit 3")
    assert 3 == done.exit_code
    assert "the command failed with exit code 3" in done.stdout
    assert "fdprof: the command ended with exit code 3" in done.stderr
    assert 3 == record(folders()[0])["exit_code"]


def test_a_command_that_a_signal_ended_is_reported(capture):
    """128 and the signal's number, as in a shell."""
    done = capture("--", "sh", "-c", f"{COPY}; kill -SEGV $$")
    assert 139 == done.exit_code
    assert "fdprof: the command was ended by signal 11 (SIGSEGV)" in done.stderr
    assert "a signal ended the command (exit code 139)" in done.stdout


def test_a_command_that_runs_past_the_limit_is_ended_and_reported(capture):
    """Exit 124, as of timeout(1)."""
    done = capture("--limit", "1", "--", "bash", "-c", f"{COPY}; exec sleep 1000")
    assert 124 == done.exit_code
    assert "fdprof: the command ran past --limit 1 s and was ended" in done.stderr
    assert "ran past the limit of the capture" in done.stdout
    assert "limit" == record(folders()[0])["ended"]


def test_a_signal_behind_the_command_ends_it_once_the_capture_is_saved(capture):
    """SIGTERM: exit 143, the capture is there, and no analysis is begun."""
    done = capture("--", "sh", "-c", COPY, "late")
    assert 143 == done.exit_code, done.stderr
    (folder,) = folders()
    assert ("exit", 0) == tuple(record(folder)[key] for key in ("ended", "exit_code"))
    assert "" == done.stdout


def test_what_the_command_leaves_running_is_ended_and_said(capture):
    """It would disturb the next measurement."""
    done = capture("--", "sh", "-c", f"{COPY}; sleep 1000 &")
    assert 0 == done.exit_code
    assert "fdprof: ended what the command had left running: sleep (" in done.stderr


def test_no_capture_is_exit_4_with_the_reason_and_what_is_left_is_kept(capture):
    """What the tracer's note names lies where it then says."""
    done = capture("--", "sh", "-c", "echo half > $TAKEN/raw")
    (folder,) = folders()
    assert 4 == done.exit_code
    assert folder.name.endswith("-capture-sh-unfinished")
    assert f"fdprof: nothing was captured: finish by hand: finish {folder}/raw" in done.stderr
    assert "half\n" == (folder / "raw").read_text()


def test_no_capture_of_a_command_that_failed_is_its_own_exit_code(capture):
    """Its failure is the reason; nothing is left behind, not even the folder for it."""
    done = capture("--", "sh", "-c", "exit 7")
    assert 7 == done.exit_code
    assert "fdprof: nothing was captured: finish by hand" in done.stderr
    assert not Path("runs").exists()


def test_a_capture_that_cannot_be_used_is_exit_4_or_the_commands_own(capture):
    """It is saved all the same."""
    done = capture("--", "sh", "-c", "echo nonsense > $TAKEN/x.gz")
    assert 4 == done.exit_code
    assert "is of no format that fdprof reads" in done.stderr
    assert 9 == capture("--", "sh", "-c", "echo nonsense > $TAKEN/x.gz; exit 9").exit_code
    assert 2 == len(folders())


def test_several_captures_are_several_folders_and_one_report(capture):
    """With --repeat, each range is a capture of its own."""
    done = capture(
        "--repeat", "2", "--capture-range", "cudaProfilerApi", "--json", "--", "sh", "-c",
        f"cp {TRACE} $TAKEN/1.json.gz; cp {OTHER} $TAKEN/2.json.gz",
    )  # fmt: skip
    assert 0 == done.exit_code
    assert "analyses" == json.loads(done.stdout)["kind"]
    assert ["1.json.gz", "2.json.gz"] == [record(folder)["capture"] for folder in folders()]


def test_nothing_is_kept_with_no_save(capture, monkeypatch, tmp_path):
    """Neither a folder of runs nor anything in the one for temporary files."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    done = capture("--no-save", "--", "sh", "-c", COPY)
    assert 0 == done.exit_code, done.stderr
    assert [] == list(scratch.iterdir())
    assert not Path("runs").exists()
    assert "saved" not in done.stderr
    assert str(scratch) not in done.stdout


def test_the_report_is_written_too(capture):
    """-o, and --force where it exists; what cannot be written is refused before the command runs."""
    assert 0 == capture("-o", "report.md", "--", "sh", "-c", COPY).exit_code
    assert Path("report.md").read_text().startswith("#")
    done = capture("-o", "report.md", "--", "touch", "ran")
    assert (2, False) == (done.exit_code, Path("ran").exists())


def test_a_second_pass_with_back_traces_is_printed_and_saved(capture):
    """In a folder of its own; what it prints drives no terminal."""
    done = capture("--diagnose", "--", "sh", "-c", f"{COPY}; echo pass >> passes")
    assert 0 == done.exit_code, done.stderr
    lines = ["waits in forward", r"called\x1b[2J by run"]
    assert lines == done.stdout.splitlines()[-2:]
    assert lines == (folders()[0] / "diagnosis.txt").read_text().splitlines()
    assert ["pass", "pass"] == Path("passes").read_text().split()


def test_two_captures_are_compared_by_the_tracer_inside(capture, run_cli):
    """A captured folder is a side like the file in it."""
    for trace in (TRACE, OTHER):
        assert 0 == capture("--", "sh", "-c", f"cp {trace} $TAKEN/trace.json.gz").exit_code
    by_folder = run_cli("compare", *map(str, folders()), "--json")
    by_file = run_cli("compare", str(TRACE), str(OTHER), "--json")
    assert by_file.exit_code == by_folder.exit_code
    of_file, of_folder = json.loads(by_file.stdout), json.loads(by_folder.stdout)
    for key in ("ratio", "verdict", "mismatches"):
        assert of_file[key] == of_folder[key]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "nothing to capture"),
        (["--"], "nothing to capture"),
        (["stop_flg"], "did you mean stop_flag?"),
        (["ls", "-l"], "did you mean the command: fdprof capture --with replayer -- ls -l"),
        (["stop_flag", "--", "ls"], "'stop_flag' stands before the --"),
        (["stop_flag", "async"], "more than a scenario"),
        (["stop_flag", "--mode", "asink"], "did you mean async?"),
        (["stop_flag", "--kernels", "0"], "--kernels is 0, expected 1 to 1,000"),
        (["--mode", "sync", "--", "ls"], "--mode changes nothing"),
        (["--limit", "0", "--", "ls"], "--limit is 0"),
        (["--limit", "nan", "--", "ls"], "--limit is nan"),
        (["--limit", "1e9", "--", "ls"], "--limit is 1e+09"),
        (["--graph-trace", "nodes", "--", "ls"], "choose one of: graph, node"),
        (["--repeat", "0", "--capture-range", "x", "--", "ls"], "--repeat is 0"),
        (["--repeat", "2", "--", "ls"], "--repeat 2 without a capture range"),
        (["--capture-range", "", "--", "ls"], "--capture-range is ''"),
        (["--steps", "5", "--", "ls"], "--steps is '5', expected A:B"),
        (["--step-range", "(", "--", "ls"], "is no regular expression"),
        (["--", "no-such-command"], "no command is named 'no-such-command'"),
        (["--", "./no-such-command"], "no command is named"),
    ],
)
def test_a_wrong_call_is_exit_2_with_what_to_write(capture, arguments, message):
    """Before anything runs, and before a folder is made."""
    done = capture(*arguments)
    assert 2 == done.exit_code, done.stderr
    assert message in done.stderr
    assert not Path("runs").exists()


def test_a_script_that_is_no_scenario_is_not_run_to_find_out(capture):
    """It may be the engine that was meant; the hint is the command."""
    Path("engine.py").write_text("from pathlib import Path\nPath('ran').touch()\n")
    done = capture("engine.py", "--steps", "3")
    assert 2 == done.exit_code
    assert "engine.py defines no SCENARIO" in done.stderr
    assert "fdprof capture --with replayer -- python engine.py --steps 3" in done.stderr
    assert not Path("ran").exists()


def test_a_tracer_that_cannot_do_it_says_so_before_anything_runs(capture):
    """Its own reason and exit code."""
    done = capture("--graph-trace", "node", "--", "touch", "ran")
    assert (6, False) == (done.exit_code, Path("ran").exists())
    assert "graphs are not seen" in done.stderr
    assert not Path("runs").exists()


def test_an_unknown_tracer_is_told_the_known_ones(run_cli):
    """Those in the folder of tracers, and auto."""
    done = run_cli("capture", "--with", "perf", "--", "ls")
    assert 2 == done.exit_code
    assert "choose one of: auto, " in done.stderr


def test_help_is_that_of_the_form_in_use(run_cli):
    """A scenario's own options, or the part of the steps; what stands behind the -- is the command's."""
    assert "--top-logprobs" not in run_cli("capture", "--help").stdout
    options = run_cli("capture", "logprobs", "--help").stdout
    assert all(f"{name} " in options for name in ("--top-logprobs", "--mode", "--warmup"))
    of_command = run_cli("capture", "--help", "--", "ls").stdout
    assert "A:B, only steps A to B - 1" in of_command and "--warmup" not in of_command


@pytest.mark.skipif(PaddleBackend.missing() is None, reason="a GPU with Paddle works here")
def test_a_scenario_without_a_gpu_is_exit_6_before_anything_runs(capture):
    """The simulator's device work is nothing that a profiler could see."""
    done = capture("stop_flag", "--mode", "sync")
    assert 6 == done.exit_code
    assert f"a scenario is captured on a GPU with Paddle: {PaddleBackend.missing()[0]}" in done.stderr
    assert "--backend sim" not in done.stderr
    assert not Path("runs").exists()


def test_a_scenario_is_the_command_that_runs_it(monkeypatch, capture):
    """Only what differs from the usual is given; its own report stays off standard output; its warm-up is left out."""
    monkeypatch.setattr(PaddleBackend, "missing", classmethod(lambda cls: None))
    # In place of the loop, which needs a GPU: what this Python is asked to run is written down, and a trace copied.
    stand_in = Path("python").resolve()
    stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > words\nenv | grep QUIET >> words\n{COPY}\n')
    stand_in.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stand_in))
    done = capture("logprobs", "--mode", "sync", "--device-us", "250", "--steps", "30", "--warmup", "5", "--json")
    assert 0 == done.exit_code, done.stderr
    words = "-m fdprof run logprobs --mode sync --device-us 250.0 --steps 30 --warmup 5 --backend paddle --no-save"
    assert [*words.split(), "QUIET=True"] == Path("words").read_text().split("\n")[:-1]
    assert 60 - 5 == json.loads(done.stdout)["steps"]
    (folder,) = folders()
    assert folder.name.endswith("-capture-logprobs-sync")
    assert ("logprobs", "sync") == (record(folder)["scenario"], record(folder)["mode"])


@pytest.fixture
def loops(monkeypatch):
    """Let scenarios run on the simulator, though captured as on a GPU; return the command lines so far."""
    monkeypatch.setattr(PaddleBackend, "missing", classmethod(lambda cls: None))
    stand_in, words = Path("python").resolve(), Path("words").resolve()
    on_sim = 'set -- $(echo "$@" | sed "s/--backend paddle/--backend sim/")'
    script = f'echo "$@" >> {words}\n{on_sim}\n[ -z "$TAKEN" ] || {COPY}\nexec {sys.executable} "$@"\n'
    stand_in.write_text(f"#!/bin/sh\n{script}")
    stand_in.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stand_in))
    return lambda: words.read_text().splitlines()


SMALL = ("--kernels", "2", "--steps", "30", "--warmup", "5")


def test_a_capture_and_its_inflation_run_the_kernels_that_a_bare_process_calibrated(run_cli, capture, loops):
    """First that process, then the captured one, a bare and a traced one; the capture says so, and how it is run again.

    Virtual times: exactly 1.
    """
    done = capture("stop_flag", *SMALL, "--measure-inflation", "--rounds", "1")
    assert 0 == done.exit_code, done.stderr
    first, *others = loops()
    assert "--blocks 1 " in first and "--work-of" not in first
    assert 3 == len(others)
    (given,) = {line.partition(" --work-of ")[2] for line in others}
    assert "/calibration/" in given
    (folder,) = folders()
    document = record(folder)
    assert "--work-of" not in document["command"]
    assert ["--work-of", given] == document["arguments"][-2:]
    assert ["its kernels are those that a bare process calibrated, as in all processes of its inflation"] == (
        document["notes"]
    )
    assert 1.0 == document["inflation"]["ratio"]
    assert "of the same kernels" in document["inflation"]["how"]


def test_a_capture_alone_calibrates_as_it_is_traced(capture, loops):
    """One process: the device work asked for is that of the traced loop."""
    done = capture("stop_flag", *SMALL)
    assert 0 == done.exit_code, done.stderr
    (line,) = loops()
    assert "--work-of" not in line
    assert [] == record(folders()[0])["notes"]


def test_a_capture_takes_the_kernels_of_a_saved_run(run_cli, capture, loops):
    """Then nothing is calibrated for the inflation either, and the record of the command has it."""
    assert 0 == run_cli("run", "stop_flag", *SMALL, "--backend", "sim", "--runs", "bare").exit_code
    (bare,) = folders("bare")
    done = capture("stop_flag", *SMALL, "--work-of", str(bare), "--measure-inflation", "--rounds", "1")
    assert 0 == done.exit_code, done.stderr
    assert 3 == len(loops())
    assert all(f"--work-of {bare}" in line for line in loops())
    assert ["--work-of", str(bare)] == record(folders()[0])["command"][-2:]


def test_a_loop_that_cannot_be_calibrated_is_captured_without_an_inflation(capture, loops):
    """It reads wrong values, exit code 5, which is the command's own; the capture stands."""
    done = capture("stop_flag", "--mode", "unfenced", *SMALL, "--measure-inflation")
    assert 5 == done.exit_code
    assert "the inflation is not measured: under bare the loop's process ended with exit code 5" in done.stderr
    assert 2 == len(loops())
    (folder,) = folders()
    assert (None, []) == (record(folder)["inflation"], record(folder)["notes"])


def _request(folder, *command):
    return Request(command=command, folder=folder, limit_s=10)


class _Missing:
    """A tracer that lacks something."""

    def __init__(self, name, problem):
        self.tool, self.problem = name, problem

    def missing(self, request):
        return self.problem


@pytest.mark.parametrize(
    ("nsys", "fdprof_", "chosen", "why"),
    [
        (None, None, "nsys", "it works here"),
        (EnvironmentMissing("not on PATH"), None, "fdprof", "nsys cannot: not on PATH"),
    ],
)
def test_auto_takes_nsys_or_else_our_own_and_says_why(monkeypatch, tmp_path, nsys, fdprof_, chosen, why):
    """The reason is the one that the tracer gives."""
    tracers = {"nsys": _Missing("nsys", nsys), "fdprof": _Missing("fdprof", fdprof_)}
    monkeypatch.setattr(plugins, "load", lambda kind, name, others=(): tracers[name])
    assert (chosen, tracers[chosen], why) == tracer_for("auto", _request(tmp_path, "ls"))


@pytest.mark.parametrize(
    ("problems", "kind"),
    [
        ((EnvironmentMissing("no nsys", "install it"), EnvironmentMissing("no CUPTI")), EnvironmentMissing),
        ((UsageError("wrong range", "another"), UsageError("wrong too")), UsageError),
    ],
)
def test_auto_names_every_problem_when_nothing_works(monkeypatch, tmp_path, problems, kind):
    """Exit 6 where something is missing, 2 where the request is wrong; the hint is for the one tried first."""
    tracers = {name: _Missing(name, problem) for name, problem in zip(("nsys", "fdprof"), problems, strict=True)}
    monkeypatch.setattr(plugins, "load", lambda kind, name, others=(): tracers[name])
    with pytest.raises(kind) as caught:
        tracer_for("auto", _request(tmp_path, "ls"))
    assert f"nsys: {problems[0]}; fdprof: {problems[1]}" in str(caught.value)
    assert problems[0].hint == caught.value.hint


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_the_command_and_what_was_captured_is_reported(tmp_path, plugin_folder, number, code):
    """Sent to the whole process group, as Ctrl-C is; nothing half-written stays."""
    name = signal.Signals(number).name.removeprefix("SIG")
    os.mkfifo(tmp_path / "fifo")
    script = f"trap 'exit 0' {name}; {COPY}; echo ready; while :; do read -r -t 1000 <> fifo; done"
    started = subprocess.Popen(
        [sys.executable, "-c", MAIN, str(plugin_folder), "capture", "--with", "replayer", "--", "bash", "-c", script],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert "ready\n" == started.stdout.readline()
    os.killpg(started.pid, number)
    output, errors = started.communicate()
    assert code == started.returncode, errors
    assert "the capture was interrupted" in " ".join(output.split())
    (folder,) = folders(tmp_path / "runs")
    assert ("interrupted", code) == (record(folder)["ended"], record(folder)["exit_code"])


def test_the_real_nsys_is_used_where_it_is(run_cli):
    """A command without CUDA has nothing to analyze: exit 4, or 6 where nsys lacks its importer."""
    if shutil.which("nsys") is None or "nsys" not in plugins.names("tracers"):
        pytest.skip("nsys is not on PATH")
    done = run_cli("capture", "--with", "nsys", "--", "true")
    assert done.exit_code in (4, 6), done.stderr
    assert [] == [entry for entry in folders() if entry.name.startswith(".part-")]


def test_a_scenarios_file_that_is_not_there_is_named(run_cli):
    """It is no command either, so none is proposed."""
    done = run_cli("capture", "my_loop.py")
    assert 2 == done.exit_code
    assert "there is no file my_loop.py" in done.stderr
    assert "did you mean" not in done.stderr
