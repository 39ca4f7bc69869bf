# ruff: noqa: SIM300 - the expected value stands first
"""Who hears a range of fdprof's, as fdprof.markers states it: the NVTX tool of the start, and a collector; each once.

Ranges of markers and of recorders, made in every order with what else there is: NVTX used by somebody else, a collector
started, stopped and started again.  Each order has a process of its own, since a process binds NVTX once.
"""

import itertools
import json
import os
import subprocess
import sys

import pytest
from fdprof.ops.collector.build import collector_library

from fdprof.errors import EnvironmentMissing

LIMIT_S = 300
EVENTS = ("nvtx", "marker", "recorder", "start")
ORDERS = list(itertools.permutations(EVENTS))


@pytest.fixture(scope="module")
def collector():
    """The path of the collector's library; skips where it cannot be built."""
    try:
        return collector_library()
    except EnvironmentMissing as error:
        pytest.skip(str(error))


# The process.  A range is known by a number that no other range has.  NVTX is bound after the fork; where a tool is
# there, before it, by the import of fdprof.markers.
CODE = r"""
import itertools, json, os, sys, time
import nvtx
from fdprof import markers
from fdprof.collector import Collector
from fdprof.recorder import Recorder

class Life:
    def __init__(self, first):
        self.numbers = itertools.count(first)
        self.all, self.wanted, self.captured = [], [], []
        self.recorders, self.collector = [], None

    def made(self, *names):
        self.all += names
        if self.collector is not None:
            self.wanted += names

    def nvtx(self):
        with nvtx.annotate("of somebody else", domain="else"): pass

    def marker(self):
        n = next(self.numbers)
        with markers.step(n), markers.transfer(str(n)): pass
        self.made(f"step {n}", f"transfer:{n}")

    def recorder(self):
        self.recorders.append(Recorder(time.monotonic_ns, time.thread_time_ns))
        self.record()

    def record(self):
        for recorder in self.recorders:
            n = next(self.numbers)
            recorder.begin_step(n)
            with recorder.range(f"range{n}"), recorder.range("again"): pass
            recorder.end_step()
            self.made(f"step {n}", f"range{n}", "again")

    def start(self):
        self.collector = Collector(cuda=False)
        self.collector.start()

    def stop(self):
        capture, self.collector = self.collector.stop(), None
        for name, domain, payload in zip(*(capture.ranges[c] for c in ("name", "domain", "payload"))):
            if domain >= 0 and capture.names[domain] == "fdprof":
                self.captured.append(capture.names[name] + (f" {payload}" if payload >= 0 else ""))

    def everything(self):
        for action in (self.nvtx, self.record, self.marker, self.recorder):
            action()

def live(order, first):
    life = Life(first)
    for event in order:
        getattr(life, event)()
    for action in (life.everything, life.stop, life.everything, life.start, life.everything, life.stop):
        action()
    print(json.dumps({name: sorted(getattr(life, name)) for name in ("all", "wanted", "captured")}), flush=True)

for number, order in enumerate(json.loads(sys.argv[1])):
    child = os.fork()
    if child == 0:
        live(order, 1000 * (number + 1))
        os._exit(0)
    assert 0 == os.waitpid(child, 0)[1], order
"""


def _lives(orders, **variables):
    """Return what each order came to: all ranges that were made, those in a recording, and those that it has."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NVTX_", "CUDA_INJ", "LD_PRE"))}
    command = [sys.executable, "-W", "ignore", "-c", CODE, json.dumps(orders)]
    done = subprocess.run(command, env=kept | variables, capture_output=True, text=True, timeout=LIMIT_S)
    assert (0, "") == (done.returncode, done.stderr)
    lives = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(orders) == len(lives)
    assert all(len(life["all"]) > len(life["wanted"]) > 0 for life in lives)
    return lives


def _taped(tape):
    """Return the ranges of the domain fdprof that an NVTX tool was told of."""
    pushed = [line.split(" ")[3:] for line in tape.read_text(encoding="utf-8").splitlines() if " fdprof push " in line]
    return [name if payload == "-" else f"{name} {payload}" for name, payload in pushed]


def test_a_collector_gets_every_range_once_in_every_order(collector):
    """Where no NVTX tool is."""
    for order, life in zip(ORDERS, _lives(ORDERS), strict=True):
        assert life["wanted"] == life["captured"], order


@pytest.mark.parametrize("flags", [(), ("-DCALLS_DOMAINS_DISABLED",)], ids=["enabled", "calls domains disabled"])
def test_an_nvtx_tool_and_a_collector_get_every_range_once_each(collector, make_nvtx_tool, tmp_path, flags):
    """The tool those outside of the recordings too."""
    tape = tmp_path / "tape"
    lives = _lives(ORDERS, NVTX_INJECTION64_PATH=str(make_nvtx_tool(*flags)), TAPE=str(tape))
    for order, life in zip(ORDERS, lives, strict=True):
        assert life["wanted"] == life["captured"], order
    assert sorted(name for life in lives for name in life["all"]) == sorted(_taped(tape))


def test_a_collector_that_is_the_nvtx_tool_gets_every_range_once(collector):
    """Somebody else's variable names its library, and Python starts it: NVTX brings the ranges."""
    for order, life in zip(ORDERS, _lives(ORDERS, NVTX_INJECTION64_PATH=str(collector)), strict=True):
        assert life["wanted"] == life["captured"], order


def test_nothing_is_emitted_where_nvtx_is_disabled_and_a_collector_gets_all(collector, make_nvtx_tool, tmp_path):
    """NVTX_DISABLE is the nvtx package's own switch."""
    tape = tmp_path / "tape"
    tool = str(make_nvtx_tool())
    for life in _lives(ORDERS[:4], NVTX_INJECTION64_PATH=tool, TAPE=str(tape), NVTX_DISABLE="1"):
        assert life["wanted"] == life["captured"]
    assert [] == (_taped(tape) if tape.exists() else [])


def _printed(code, **variables):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NVTX_", "CUDA_INJ", "LD_PRE"))}
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, env=kept | variables, capture_output=True, text=True, timeout=LIMIT_S)
    assert (0, "") == (done.returncode, done.stderr)
    return done.stdout.splitlines()


def test_nvtx_used_before_fdprof_is_imported_takes_no_range_away(collector):
    """It is bound to nobody then, for good."""
    code = """
import time, nvtx
with nvtx.annotate("mine"): pass
import fdprof
from fdprof.recorder import Recorder
with fdprof.Collector(cuda=False) as collector:
    recorder = Recorder(time.monotonic_ns, time.thread_time_ns)
    recorder.begin_step(1)
    with recorder.range("host", "schedule"), fdprof.fence(): pass
    recorder.end_step()
print(sorted(collector.capture.names[n] for n in collector.capture.ranges["name"]))
"""
    assert ["['fence', 'host:schedule', 'step']"] == _printed(code)


def test_a_block_of_a_session_is_recorded_after_one_that_was_bare(collector):
    """As `fdprof overhead` runs them in one process: 2 steps of warm-up, 6 counted, no overrun, each with its index."""
    code = """
from fdprof import Collector
from fdprof.params import Extent, LoopParams
from fdprof.session import Session, open_backend
backend, _ = open_backend("sim", 30.0)
session = Session(backend, "stop_flag", LoopParams(sequences=4), Extent(steps=6, warmup=2))
assert not session.new_run("sync").environment.nvtx
session.block("sync", 0)
with Collector(cuda=False) as collector:
    assert session.new_run("sync").environment.nvtx
    session.block("sync", 1)
ranges = collector.capture.ranges
names = [collector.capture.names[n] for n in ranges["name"]]
print([int(p) for n, p in zip(names, ranges["payload"]) if n == "step"], names.count("host:schedule"))
"""
    assert ["[0, 1, 2, 3, 4, 5, 6, 7] 8"] == _printed(code)


def test_a_recorder_leaves_nvtx_to_those_who_use_it(collector):
    """A bare loop binds NVTX to nobody, so that a library's ranges are heard by the collector that is started later."""
    code = """
import time, nvtx
from fdprof.collector import Collector
from fdprof.recorder import Recorder
recorder = Recorder(time.monotonic_ns, time.thread_time_ns)
with recorder.range("bare"): pass
with Collector(cuda=False) as collector:
    with nvtx.annotate("library"): pass
print([collector.capture.names[n] for n in collector.capture.ranges["name"]])
"""
    assert ["['library']"] == _printed(code)


LIBRARY = """
#include <nvtx3/nvToolsExt.h>
extern "C" void use_nvtx() { nvtxRangePushA("of a library"); nvtxRangePop(); }
"""


def test_a_library_bound_to_the_collector_says_nothing_of_who_gets_the_markers(collector, make_nvtx_tool, tmp_path):
    """Each library binds an NVTX of its own: Python's belongs to a tool whose variable is gone, this one's to us."""
    from fdprof.ops.toolkit import header_folders

    source, library, tape = (tmp_path / name for name in ("library.cc", "library.so", "tape"))
    source.write_text(LIBRARY, encoding="utf-8")
    includes = [f"-I{folder}" for folder in header_folders()]
    subprocess.run(["g++", "-shared", "-fPIC", *includes, str(source), "-o", str(library), "-ldl"], check=True)
    code = f"""
import ctypes, os
import fdprof
fdprof.step
del os.environ["NVTX_INJECTION64_PATH"]
for number in (1, 2):
    with fdprof.Collector(cuda=False) as collector:
        ctypes.CDLL({str(library)!r}).use_nvtx()
        with fdprof.step(number): pass
    print(sorted(collector.capture.names[n] for n in collector.capture.ranges["name"]))
"""
    assert ["['of a library', 'step']"] * 2 == _printed(
        code, NVTX_INJECTION64_PATH=str(make_nvtx_tool()), TAPE=str(tape)
    )
    assert ["step 1", "step 2"] == _taped(tape)
