# ruff: noqa: SIM300 - the expected value stands first
"""Captures with the real nsys, which needs no GPU for NVTX ranges and for how a command ends."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from fdprof.errors import EnvironmentMissing, UsageError
from fdprof.imports import import_capture
from fdprof.nsys_tool import export, find_nsys, importer_problem, make_report
from fdprof.supervision import Ended
from fdprof.tracers._nsys_session import known
from fdprof.tracers.nsys import TRACER
from fdprof.tracers.protocol import Request

STEPS = """
import nvtx, sys
for capture in range(int(sys.argv[1])):
    with nvtx.annotate("capture", domain="engine"):
        for k in range(3):
            with nvtx.annotate("step", domain="engine", payload=k):
                pass
"""

DRIVER = """
import sys
from pathlib import Path
from fdprof.tracers.nsys import TRACER
from fdprof.tracers.protocol import Request
taken = TRACER.take(Request(command=tuple(sys.argv[2:]), folder=Path(sys.argv[1]), limit_s=600))
print(taken.outcome.exit_code, taken.outcome.ended.value, len(taken.captures), flush=True)
"""


@pytest.fixture
def nsys():
    """The nsys of this machine."""
    try:
        found = find_nsys()
    except EnvironmentMissing as error:
        pytest.skip(str(error))
    if found is None:
        pytest.skip("there is no nsys on PATH, in NVIDIA's folders or in FDPROF_NSYS")
    return found


@pytest.fixture
def whole(nsys):
    """An nsys that can write reports."""
    problem = importer_problem(nsys)
    if problem is not None:
        pytest.skip(str(problem))
    return nsys


@pytest.fixture
def bare(nsys, tmp_path, monkeypatch):
    """An nsys without its importer: the target's programs alone, linked into a folder of their own."""
    folder = tmp_path / "installed" / nsys.path.parent.name
    try:
        shutil.copytree(nsys.path.parent, folder, copy_function=os.link)
    except (OSError, shutil.Error):
        pytest.skip("nsys lies on another file system and is too large to be copied")
    monkeypatch.setenv("FDPROF_NSYS", str(folder / "nsys"))
    return folder / "nsys"


@pytest.fixture
def request_of(tmp_path):
    """Make a request for a shell's or a Python program's text."""
    folder = tmp_path / "taken"
    folder.mkdir()

    def make(*command, **fields):
        return Request(command=command, folder=folder, **({"limit_s": 600.0} | fields))

    return make


def names(capture):
    return [capture.names[index] for index in capture.ranges["name"].tolist()]


def is_of_old_nsys(taken):
    return any("older than the NVTX" in note for note in taken.notes)


def test_the_commands_output_is_its_own_and_its_exit_code_is_passed_on(whole, request_of, capfd):
    """What nsys says goes elsewhere; the report stays beside its export, for nsys's own window."""
    taken = TRACER.take(request_of("sh", "-c", "echo out; echo err >&2; exit 3"))
    assert ("out\n", "err\n") == capfd.readouterr()
    assert (3, Ended.EXIT) == (taken.outcome.exit_code, taken.outcome.ended)
    (capture,) = taken.captures
    assert "report.sqlite" == capture.name
    assert ["report.nsys-rep", "report.sqlite"] == sorted(path.name for path in capture.parent.iterdir())
    assert taken.tool == f"Nsight Systems {whole.version}"
    assert (str(whole.path), "profile") == taken.arguments[:2]
    assert ("sh", "-c", "echo out; echo err >&2; exit 3") == taken.arguments[-3:]
    assert import_capture(capture, lambda _: None).tool.startswith("Nsight Systems")


def test_quiet_moves_the_commands_output_to_standard_error(whole, request_of, capfd):
    """Standard output is fdprof's, for JSON."""
    TRACER.take(request_of("sh", "-c", "echo out", quiet=True))
    assert ("", "out\n") == capfd.readouterr()


@pytest.mark.parametrize("before", ["/tmp", None])
def test_the_command_keeps_its_temporary_folder_and_nsys_leaves_nothing_there(
    whole, request_of, capfd, tmp_path, monkeypatch, before
):
    """nsys keeps its files where TMPDIR says, and leaves locks; the command gets the TMPDIR it had, or none."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    if before is None:
        monkeypatch.delenv("TMPDIR", raising=False)
    else:
        monkeypatch.setenv("TMPDIR", before)
    TRACER.take(request_of("sh", "-c", 'echo "${TMPDIR-none}"'))
    assert f"{before or 'none'}\n" == capfd.readouterr().out
    assert [] == list(scratch.iterdir())


def test_more_variables_reach_the_command(whole, request_of, capfd):
    """TMPDIR among them, with what a shell would take for its own."""
    environment = (("TMPDIR", "/tmp/a b'c$HOME"), ("WORD", "hello"))
    TRACER.take(request_of("sh", "-c", 'echo "$TMPDIR $WORD"', environment=environment))
    assert "/tmp/a b'c$HOME hello\n" == capfd.readouterr().out


def test_a_command_that_a_signal_ends_leaves_its_capture(whole, request_of):
    """nsys tells of the signal as a shell does, by 128 + 9."""
    taken = TRACER.take(request_of("sh", "-c", "kill -9 $$"))
    assert (137, Ended.SIGNAL, 1) == (taken.outcome.exit_code, taken.outcome.ended, len(taken.captures))


def test_a_command_past_its_limit_is_ended_and_leaves_its_capture(whole, request_of, tmp_path):
    """It is ended first, so that nsys can write what it has recorded."""
    os.mkfifo(tmp_path / "fifo")
    waits = f"trap 'exit 0' INT; while :; do read -r _ < {tmp_path / 'fifo'}; done"
    taken = TRACER.take(request_of("bash", "-c", waits, limit_s=3.0))
    assert (124, Ended.LIMIT, 1) == (taken.outcome.exit_code, taken.outcome.ended, len(taken.captures))


def test_what_the_command_leaves_running_is_not_waited_for(whole, request_of, tmp_path):
    """A daemon with a session of its own would keep nsys waiting for ever; it is ended and named."""
    os.mkfifo(tmp_path / "fifo")
    daemon = f"setsid sh -c 'exec cat {tmp_path / 'fifo'}' & exit 0"
    taken = TRACER.take(request_of("sh", "-c", daemon))
    assert (0, Ended.EXIT, 1) == (taken.outcome.exit_code, taken.outcome.ended, len(taken.captures))
    assert any("cat" in left for left in taken.outcome.left)


def test_ctrl_c_ends_the_command_and_leaves_its_capture(whole, tmp_path):
    """The command says when it runs; nothing of it is left after."""
    os.mkfifo(tmp_path / "fifo")
    waits = f"echo ready $$; while :; do read -r _ < {tmp_path / 'fifo'}; done"
    (tmp_path / "taken").mkdir()
    command = [sys.executable, "-c", DRIVER, str(tmp_path / "taken"), "bash", "-c", waits]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as driver:
        ready, pid = driver.stdout.readline().split()
        driver.send_signal(signal.SIGINT)
        assert ("ready", "130 interrupted 1\n") == (ready, driver.stdout.read())
    assert not Path(f"/proc/{pid}").exists()


def test_two_at_once_do_not_disturb_each_other(whole, tmp_path):
    """Two people may share a machine."""
    commands = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        commands.append([sys.executable, "-c", DRIVER, str(tmp_path / name), "sh", "-c", "exit 4"])
    drivers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for command in commands]
    assert ["4 exit 1\n", "4 exit 1\n"] == [driver.communicate()[0] for driver in drivers]


def test_ranges_are_in_the_capture_or_their_loss_is_told(whole, request_of):
    """nsys 2024.2 records none of the ranges of nvtx 0.2.12 and later, and says so in words nobody reads."""
    taken = TRACER.take(request_of(sys.executable, "-c", STEPS, "1"))
    capture = import_capture(taken.captures[0], lambda _: None)
    assert ([] if is_of_old_nsys(taken) else ["capture", "step", "step", "step"]) == names(capture)


def test_each_capture_range_is_a_capture_and_the_command_goes_on(whole, request_of):
    """Two of the three that come; each has its three steps."""
    probe = TRACER.take(request_of(sys.executable, "-c", STEPS, "1"))
    if is_of_old_nsys(probe):
        pytest.skip(f"nsys {whole.version} does not understand the package nvtx of this Python")
    for path in list(probe.captures[0].parent.iterdir()):
        path.unlink()
    ends = STEPS + "raise SystemExit(5)"
    taken = TRACER.take(request_of(sys.executable, "-c", ends, "3", capture_range="capture@engine", repeat=2))
    assert 5 == taken.outcome.exit_code
    assert ["report-1.sqlite", "report-2.sqlite"] == [path.name for path in taken.captures]
    for path in taken.captures:
        assert 3 == names(import_capture(path, lambda _: None)).count("step")


def test_a_capture_range_that_never_begins_captures_nothing_and_is_named(whole, request_of):
    """The command's own end is told all the same."""
    taken = TRACER.take(request_of("sh", "-c", "exit 6", capture_range="no_such_range"))
    assert (6, ()) == (taken.outcome.exit_code, taken.captures)
    assert any("no_such_range did not begin often enough: 0 of 1" in note for note in taken.notes)


def test_a_capture_that_may_take_more_than_five_minutes_is_noted(whole, request_of):
    """Nsight Systems does not promise that it works; it is no reason to refuse."""
    taken = TRACER.take(request_of("true", limit_s=301.0))
    assert any("more than 5 minutes" in note for note in taken.notes)


def test_without_the_importer_a_capture_is_refused_before_the_command_runs(bare, request_of):
    """A run of an hour would be lost."""
    problem = TRACER.missing(request_of("true"))
    assert isinstance(problem, EnvironmentMissing)
    assert "QdstrmImporter is not installed" in str(problem)


def test_a_recording_that_could_not_be_made_a_report_is_kept_and_says_how_to_finish_it(bare, request_of):
    """It is the capture; the note names no folder that will be gone, the error the commands."""
    taken = TRACER.take(request_of("sh", "-c", "exit 7"))
    assert (7, Ended.EXIT) == (taken.outcome.exit_code, taken.outcome.ended)
    (recording,) = taken.captures
    assert "report.qdstrm" == recording.name
    assert any("report.qdstrm is what nsys recorded, not yet a report" in note for note in taken.notes)
    assert not any(str(recording.parent) in note for note in taken.notes)
    with pytest.raises(EnvironmentMissing) as raised:
        import_capture(recording, lambda _: None)
    assert f"QdstrmImporter -i {recording}" in raised.value.hint


def test_a_recording_is_read_by_another_nsys_and_once_it_is_finished_without_any(
    whole, bare, request_of, tmp_path, monkeypatch
):
    """First the whole nsys imports it on the way; then its export lies beside it, as by the commands of the error."""
    (recording,) = TRACER.take(request_of("true")).captures
    report, by_hand = tmp_path / "made.nsys-rep", recording.with_suffix(".sqlite")
    monkeypatch.setenv("FDPROF_NSYS", str(whole.path))
    assert import_capture(recording, lambda _: None).tool.startswith("Nsight Systems")
    make_report(whole, recording, report)
    export(whole, report, by_hand)
    monkeypatch.setenv("FDPROF_NSYS", str(bare))
    assert import_capture(recording, lambda _: None).tool.startswith("Nsight Systems")


def test_an_importer_that_dies_leaves_the_recording(bare, whole, request_of):
    """It answers to --version and fails at its work, as with a full disk."""
    importer = bare.parent.parent / whole.importer.parent.name / "QdstrmImporter"
    importer.parent.mkdir()
    importer.write_text('#!/bin/sh\n[ "$1" = --version ] && exit 0\necho "no space" >&2\nexit 9\n', encoding="ascii")
    importer.chmod(0o755)
    assert None is TRACER.missing(request_of("true"))
    taken = TRACER.take(request_of("true"))
    assert ["report.qdstrm"] == [path.name for path in taken.captures]
    assert any("exit code 9): no space" in note for note in taken.notes)


def test_an_nsys_that_does_not_start_the_command_is_an_error_with_its_words(tmp_path, request_of, monkeypatch):
    """Its exit code would pass for the command's."""
    broken = tmp_path / "nsys"
    broken.write_text(
        textwrap.dedent("""\
            #!/bin/sh
            case "$1" in
            --version) echo 'NVIDIA Nsight Systems version 2030.1.1' ;;
            profile) [ "$2" = --help ] && exit 0; echo 'unrecognised option' >&2; exit 1 ;;
            esac
        """),
        encoding="ascii",
    )
    broken.chmod(0o755)
    monkeypatch.setenv("FDPROF_NSYS", str(broken))
    with pytest.raises(EnvironmentMissing, match=r"did not start the command \(exit code 1\): unrecognised option"):
        TRACER.take(request_of("true"))


@pytest.mark.parametrize(
    ("command", "fields", "said"),
    [
        (("no-such-command-here",), {}, "no-such-command-here"),
        (("true",), {"repeat": 3}, "need a range to repeat"),
        (("true",), {"graph_trace": "all"}, "no graph trace is named 'all'"),
    ],
)
def test_what_cannot_be_carried_out_is_a_usage_error(nsys, request_of, command, fields, said):
    """Said before anything runs."""
    problem = TRACER.missing(request_of(*command, **fields))
    assert isinstance(problem, UsageError)
    assert said in str(problem)


def test_options_that_a_version_has_not_are_left_out():
    """2024.2 has no --cuda-event-trace, and would stop at it."""
    options = ("--trace=cuda,nvtx", "--cuda-event-trace=false")
    assert ("--trace=cuda,nvtx",) == known(options, frozenset({"--trace", "--sample"}))


def test_a_second_pass_without_cuda_says_that_it_saw_no_call(whole, request_of):
    """It runs, with the options that this nsys has, and has no time in it."""
    found = TRACER.diagnose(request_of("true"))
    assert ((), 0) == (found.calls, found.exit_code)
    assert found.notes
    assert any(argument.startswith("--cudabacktrace=all:20000") for argument in found.arguments)
    assert not any("_ns" in field for field in found.__slots__ if field != "threshold_ns")
