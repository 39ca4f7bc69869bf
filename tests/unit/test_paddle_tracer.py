"""The real paddle.profiler, without a GPU."""

# ruff: noqa: SIM300
import importlib.util
import json
import sys

import pytest

from fdprof.imports import import_capture
from fdprof.supervision import Ended
from fdprof.tracers.paddle import TRACER
from fdprof.tracers.protocol import Request

if importlib.util.find_spec("paddle") is None:
    pytest.skip("Paddle is not installed", allow_module_level=True)

WORK = """
import os, signal, sys, threading, warnings
warnings.simplefilter("ignore")
import paddle
from paddle import profiler
def work(name):
    with profiler.RecordEvent(name): return int((paddle.ones([3]) + 1).sum())
"""


@pytest.fixture
def take(tmp_path, capfd, monkeypatch):
    """Take a program in an empty folder; return what was taken, what it printed, and the names in the trace."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")

    def run(program):
        folder = tmp_path / "taken"
        folder.mkdir()
        request = Request(command=(sys.executable, "-c", WORK + program), folder=folder, limit_s=300)
        assert TRACER.missing(request) is None
        taken = TRACER.take(request)
        assert [] == list((tmp_path / "work").iterdir())  # Paddle's own default leaves a folder there
        events = json.loads(taken.captures[0].read_text())["traceEvents"] if taken.captures else []
        return taken, capfd.readouterr(), [event["name"].split("[")[0] for event in events if "name" in event]

    return run


def test_marks_of_all_threads_are_recorded(take):
    """A decode loop often runs beside the main thread."""
    taken, printed, names = take(
        "t = threading.Thread(target=work, args=('beside',)); t.start(); t.join(); print(work('main'))"
    )
    assert (0, "6\n") == (taken.outcome.exit_code, printed.out)
    assert (1, 1) == (names.count("beside"), names.count("main"))
    assert taken.tool.startswith("paddle.profiler ")


@pytest.mark.parametrize(
    ("end", "exit_code", "ended"),
    [
        ("sys.exit(3)", 3, Ended.EXIT),
        ("raise ValueError(1)", 1, Ended.EXIT),
        ("os.kill(os.getpid(), signal.SIGINT)\nwhile True: pass", 130, Ended.SIGNAL),
        ("os.kill(os.getpid(), signal.SIGTERM)\nwhile True: pass", 143, Ended.SIGNAL),
    ],
)
def test_the_trace_is_written_whatever_ends_the_program(take, end, exit_code, ended):
    """Also at SIGTERM, which Paddle takes below Python to print where it was."""
    taken, _, names = take("work('main')\n" + end)
    assert (exit_code, ended) == (taken.outcome.exit_code, taken.outcome.ended)
    assert 1 == names.count("main")


def test_a_profiler_of_the_programs_own_ends_ours_and_works(take):
    """A second one beside ours would get nothing from Paddle's core: ours gives way, and says so."""
    taken, printed, names = take("""
work("before")
with profiler.Profiler(targets=[profiler.ProfilerTarget.CPU], on_trace_ready=lambda p: None) as own: work("within")
print(own.profiler_result is not None)
work("after")
""")
    assert (0, "True\n") == (taken.outcome.exit_code, printed.out)
    assert (1, 0, 0) == (names.count("before"), names.count("within"), names.count("after"))
    assert any("of its own" in note for note in taken.notes)


def test_a_trace_without_cuda_is_read_and_said_to_be_one(take):
    """The importer takes it for what it is."""
    taken, _, _ = take("[work('decode_step') for _ in range(8)]")
    if any("no CUDA device" in note for note in taken.notes):
        capture = import_capture(taken.captures[0], lambda _: None)
        assert ("paddle_trace", 0, 0) == (capture.source, len(capture.api), len(capture.device))
        assert 8 == list(capture.ranges["name"]).count(capture.names.index("decode_step"))
    else:
        pytest.skip("this Paddle is built with CUDA")
