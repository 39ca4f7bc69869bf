"""fdprof.tracers.fdprof: commands run under the collector.  Without a GPU they have ranges only."""

# ruff: noqa: SIM300 - the expected value stands first
import shutil
import sys
from dataclasses import replace

import pytest
from fdprof.ops.collector.build import collector_library

from fdprof.errors import EnvironmentMissing, UsageError
from fdprof.imports import import_capture
from fdprof.supervision import Ended
from fdprof.tracers.fdprof import TRACER
from fdprof.tracers.protocol import CUDA_PROFILER_API, Request

STEPS = "from fdprof import markers\nfor i in range(5):\n    with markers.step(i): pass\n"
TWICE = "import nvtx\nfor _ in range(2):\n    with nvtx.annotate('part'):\n        with nvtx.annotate('in it'): pass\n"
NO_CUDA = (("FDPROF_COLLECT_CUDA", "0"),)


def say_nothing(line):
    """The progress of a test."""


def python(code):
    return (sys.executable, "-c", code)


@pytest.fixture
def request_of(tmp_path):
    """Make a request; its folder is empty."""
    folder = tmp_path / "taken"
    folder.mkdir()

    def made(command, **more):
        return Request(command=command, folder=folder, limit_s=120, quiet=True, **more)

    return made


@pytest.fixture
def take(request_of):
    """Run a command under the tracer; skips where the library cannot be built."""
    try:
        collector_library()
    except EnvironmentMissing as error:
        pytest.skip(str(error))

    def made(command, **more):
        return TRACER.take(request_of(command, **more))

    return made


def ranges(path):
    capture = import_capture(path, say_nothing)
    return [capture.names[number] for number in capture.ranges["name"]]


# What is taken


def test_a_command_of_steps_is_one_capture(take, request_of):
    """5 steps; the folder holds the capture and no raw rows any more."""
    taken = take(python(STEPS))
    (path,) = taken.captures
    assert [path] == list(path.parent.iterdir())
    assert ["step"] * 5 == ranges(path)
    assert (0, Ended.EXIT, (), python(STEPS)) == (
        taken.outcome.exit_code,
        taken.outcome.ended,
        taken.notes,
        taken.arguments,
    )
    assert taken.tool.startswith("fdprof ") and taken.tool.endswith(", collector")


def test_a_command_that_fails_gives_its_exit_code_and_its_capture(take):
    taken = take(python(STEPS + "raise SystemExit(7)"))
    assert (7, ["step"] * 5) == (taken.outcome.exit_code, ranges(taken.captures[0]))


def test_every_process_of_a_command_is_in_its_one_capture(take):
    """A shell that starts two: neither the shell nor `true` uses NVTX, and they are not there."""
    code = "import nvtx\nwith nvtx.annotate('{}'): pass"
    script = (
        f'"{sys.executable}" -c "{code.format("first")}" & "{sys.executable}" -c "{code.format("second")}"; wait; true'
    )
    taken = take(("sh", "-c", script))
    (path,) = taken.captures
    assert ["first", "second"] == sorted(ranges(path))
    assert 2 == len({thread.process for thread in import_capture(path, say_nothing).threads})


def test_each_time_of_a_range_is_a_capture_of_its_own(take):
    taken = take(python(TWICE), capture_range="part", repeat=2)
    assert [["part", "in it"]] * 2 == [ranges(path) for path in taken.captures]
    assert ["capture-1", "capture-2"] == [path.name for path in taken.captures]
    assert () == taken.notes


@pytest.mark.parametrize(("name", "repeat", "count"), [("part", 3, 2), ("never", 1, 0), (CUDA_PROFILER_API, 1, 0)])
def test_a_range_that_began_less_often_than_asked_is_said(take, name, repeat, count):
    taken = take(python(TWICE), capture_range=name, repeat=repeat)
    assert count == len(taken.captures)
    assert (f"the range {name} did not begin often enough: {count} of {repeat} captures were taken",) == taken.notes


def test_a_command_that_uses_neither_cuda_nor_nvtx_leaves_no_capture_and_says_why(take):
    taken = take(("true",))
    assert ((), ("no process of the command used CUDA or NVTX",)) == (taken.captures, taken.notes)


def test_a_command_that_is_killed_leaves_what_was_flushed_and_says_so(take):
    """It waits for its own rows; the limit names no number of a process that could be read as a result."""
    code = (
        "import os, signal, time\n"
        + STEPS
        + "path = f\"{os.environ['FDPROF_COLLECT_FOLDER']}/{os.getpid()}-1/ranges\"\n"
        "while os.path.getsize(path) < 5 * 40: time.sleep(0.01)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    taken = take(python(code), environment=(*NO_CUDA, ("FDPROF_COLLECT_FLUSH_MS", "20")))
    assert (137, Ended.SIGNAL) == (taken.outcome.exit_code, taken.outcome.ended)
    assert ["step"] * 5 == ranges(taken.captures[0])
    limits = import_capture(taken.captures[0], say_nothing).limits
    assert "only ranges were recorded: CUDA was not traced" == limits[0]
    assert "ended before the collector could" in limits[1]


def test_without_cuda_the_capture_says_that_it_was_not_asked_for(take):
    """And not that something was missing."""
    (path,) = take(python(STEPS), environment=NO_CUDA).captures
    assert ("only ranges were recorded: CUDA was not traced",) == import_capture(path, say_nothing).limits


def test_a_process_whose_cuda_could_not_be_traced_is_a_note(take):
    """The library leaves the reason in a file, since there is nobody to raise to."""
    code = "import os, pathlib\npathlib.Path(os.environ['FDPROF_COLLECT_FOLDER'], '7.error').write_text('no CUPTI\\n')"
    assert ("the collector could not start: no CUPTI",) == take(python(code)).notes


# What cannot be taken


def test_a_good_request_has_nothing_missing(request_of):
    try:
        collector_library()
    except EnvironmentMissing as error:
        pytest.skip(str(error))
    assert TRACER.missing(request_of(("true",))) is None


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"command": ("no-such-command-anywhere",)}, "no-such-command-anywhere"),
        ({"graph_trace": "nodes"}, "no graph trace is named 'nodes'"),
        ({"repeat": 2}, "2 captures of one command need a range to repeat"),
    ],
)
def test_a_request_that_means_nothing_is_refused_before_anything_is_built(request_of, more, said):
    """By a usage error that says what to do."""
    problem = TRACER.missing(replace(request_of(("true",)), **more))
    assert isinstance(problem, UsageError)
    assert said in str(problem) and problem.hint


def test_a_machine_without_a_compiler_is_told_so(request_of, monkeypatch, tmp_path):
    """Neither g++ nor a library that was built before."""
    monkeypatch.setenv("FDPROF_CACHE_DIR", str(tmp_path / "cache"))
    which = shutil.which
    monkeypatch.setattr(shutil, "which", lambda name, **more: None if name == "g++" else which(name, **more))
    problem = TRACER.missing(request_of(("true",)))
    assert isinstance(problem, EnvironmentMissing)
    assert "g++" in str(problem) or "headers" in str(problem)
    assert problem.hint


def test_a_machine_without_cudas_headers_is_told_so(request_of, monkeypatch):
    """Which ones, and where to get them."""
    monkeypatch.setattr("fdprof.ops.collector.build.header_folders", list)
    problem = TRACER.missing(request_of(("true",)))
    assert isinstance(problem, EnvironmentMissing)
    assert "there is no cupti.h and no" in str(problem) and "CUDA_HOME" in problem.hint
