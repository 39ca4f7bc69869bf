"""The real torch.profiler: a torch without CUDA is recorded from its import, one with CUDA from its first use."""

# ruff: noqa: SIM300
import importlib.util
import json
import os
import subprocess
import sys

import pytest

from fdprof.imports import import_capture
from fdprof.supervision import Ended
from fdprof.tracers.protocol import Request
from fdprof.tracers.torch import TRACER

PYTHON = os.environ.get("FDPROF_TEST_TORCH_PYTHON") or sys.executable
"""Torch weighs too much to be installed with every test run: a Python elsewhere that has it will do."""

if PYTHON == sys.executable and importlib.util.find_spec("torch") is None:
    pytest.skip(
        "torch is not installed here, and FDPROF_TEST_TORCH_PYTHON names no Python that has it", allow_module_level=True
    )

WORK = """
import os, signal, sys, threading, torch
from torch.profiler import record_function
if torch.version.cuda: torch.cuda.init()
def work(name):
    with record_function(name): return int((torch.ones(3) + 1).sum())
"""


@pytest.fixture(scope="module")
def is_cuda():
    """Whether that torch has CUDA; one that has it and no GPU records nothing."""
    code = "import torch; print(torch.version.cuda is not None, torch.cuda.is_available())"
    done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    if "True False" == done.stdout.strip():
        pytest.skip("this torch is built for CUDA, and there is no GPU")
    return done.stdout.startswith("True")


@pytest.fixture
def take(tmp_path, capfd, is_cuda):
    """Take a program; return what was taken, what it printed, and the names of its marks and operators."""

    def run(program, before=WORK):
        folder = tmp_path / "taken"
        folder.mkdir()
        request = Request(command=(PYTHON, "-c", before + program), folder=folder, limit_s=300)
        assert TRACER.missing(request) is None
        taken = TRACER.take(request)
        events = json.loads(taken.captures[0].read_text())["traceEvents"] if taken.captures else []
        names = [event["name"] for event in events if event.get("cat") in ("user_annotation", "cpu_op")]
        return taken, capfd.readouterr(), names

    return run


def test_marks_and_operators_of_all_threads_are_recorded(take):
    """A decode loop often runs beside the main thread."""
    taken, printed, names = take(
        "t = threading.Thread(target=work, args=('beside',)); t.start(); t.join(); print(work('main'))"
    )
    assert (0, "6\n") == (taken.outcome.exit_code, printed.out)
    assert (1, 1, 2) == (names.count("beside"), names.count("main"), names.count("aten::add"))
    assert taken.tool.startswith("torch.profiler 2.")


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
    """And the program ends as it would have."""
    taken, _, names = take("work('main')\n" + end)
    assert (exit_code, ended) == (taken.outcome.exit_code, taken.outcome.ended)
    assert 1 == names.count("main")


def test_a_profiler_of_the_programs_own_ends_ours_and_works(take):
    """Two at once end the process with a segmentation fault (torch 2.13): ours gives way, and says so."""
    taken, printed, names = take("""
work("before")
from torch.profiler import profile
for _ in range(2):
    with profile() as own: work("within")
print([event.count for event in own.key_averages() if event.key == "within"])
work("after")
""")
    assert (0, "[1]\n") == (taken.outcome.exit_code, printed.out)
    assert (1, 0, 0) == (names.count("before"), names.count("within"), names.count("after"))
    assert any("of its own" in note for note in taken.notes)


def test_torch_may_be_imported_in_any_thread(take):
    """The recording begins there, and ends in the main thread."""
    before = f"import threading\ndef load(): exec({WORK!r}, globals())\n"
    run = "t = threading.Thread(target=load); t.start(); t.join(); work('main')"
    taken, _, names = take(run, before=before)
    assert (0, 1) == (taken.outcome.exit_code, names.count("main"))


def test_a_trace_without_cuda_is_read_and_said_to_be_one(take, is_cuda):
    """The importer takes it for what it is."""
    if is_cuda:
        pytest.skip("this torch has CUDA")
    taken, _, _ = take("[work('decode_step') for _ in range(8)]")
    assert any("no CUDA device" in note for note in taken.notes)
    capture = import_capture(taken.captures[0], lambda _: None)
    assert ("kineto", 0, 0) == (capture.source, len(capture.api), len(capture.device))
    assert 8 == list(capture.ranges["name"]).count(capture.names.index("decode_step"))
