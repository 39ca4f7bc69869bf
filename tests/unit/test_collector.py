"""fdprof.collector: recording this process from Python.  Without a GPU: ranges, and the refusal where there is none."""

# ruff: noqa: SIM300 - the expected value stands first
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest
from fdprof.ops.collector.build import collector_library

from fdprof import collector as module
from fdprof import markers
from fdprof.capture import RangeKind
from fdprof.collector import Collector
from fdprof.errors import EnvironmentMissing, FdprofError, UsageError

LIMIT_S = 120


@pytest.fixture(autouse=True)
def apart(monkeypatch, tmp_path):
    """Skips where the library cannot be built; recordings go below tmp_path, and this process's variables stay."""
    try:
        collector_library()
    except EnvironmentMissing as error:
        pytest.skip(str(error))
    for variable in ("NVTX_INJECTION64_PATH", "FDPROF_CUPTI"):
        monkeypatch.setenv(variable, "")  # so that what the library sets is taken back
        monkeypatch.delenv(variable)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture
def run(apart):
    """Run Python code, and return what it printed."""

    def made(code, **more):
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code],
            env={**os.environ, **more},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert (0, "") == (done.returncode, done.stderr)
        return done.stdout.splitlines()

    return made


def ranges(capture):
    """Return name, domain and payload of each range, by start."""
    return [
        (capture.names[name], "" if domain < 0 else capture.names[domain], int(payload))
        for name, domain, payload in zip(
            capture.ranges["name"], capture.ranges["domain"], capture.ranges["payload"], strict=True
        )
    ]


# What is recorded


def test_markers_between_start_and_stop_are_in_the_capture():
    """Those before and after are not; an index of a step is its payload."""
    with markers.step(1):
        pass
    with Collector(cuda=False) as collector:
        for index in (7, 8):
            with markers.step(index), markers.transfer("tokens"):
                pass
        with markers.fence():
            pass
    with markers.step(9):
        pass
    capture = collector.capture
    expected = [("step", 7), ("transfer:tokens", -1), ("step", 8), ("transfer:tokens", -1), ("fence", -1)]
    assert [(name, "fdprof", payload) for name, payload in expected] == ranges(capture)
    assert [RangeKind.MARKER] * 5 == capture.ranges["kind"].tolist()
    assert [(os.getpid(), threading.get_native_id())] == [(thread.process, thread.thread) for thread in capture.threads]
    assert ("fdprof", 0, 0) == (capture.source, len(capture.api), len(capture.device))
    assert capture.tool.endswith(", collector")


def test_a_range_that_is_open_at_start_or_stop_is_left_out():
    """'around' began before; 'open' ends after; 'whole' does neither."""
    collector = Collector(cuda=False)
    with markers.transfer("around"):
        collector.start()
    with markers.transfer("whole"):
        pass
    with markers.transfer("open"):
        capture = collector.stop()
    assert ["transfer:whole"] == [name for name, *_ in ranges(capture)]


def test_ranges_of_other_threads_are_theirs():
    """Two threads at once, each with its own name."""
    both = threading.Barrier(2)

    def work(name):
        with markers.transfer(name):
            both.wait()

    with Collector(cuda=False) as collector:
        threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    capture = collector.capture
    expected = {(f"transfer:{name}", thread.native_id) for name, thread in zip("ab", threads, strict=True)}
    assert expected == {
        (capture.names[name], capture.threads[thread].thread)
        for name, thread in zip(capture.ranges["name"], capture.ranges["thread"], strict=True)
    }


def test_nothing_recorded_is_an_empty_capture():
    with Collector(cuda=False) as collector:
        pass
    assert 0 == collector.capture.rows


def test_each_recording_has_its_own_ranges():
    """One collector started twice, and a second one after it."""
    first, second = Collector(cuda=False), Collector(cuda=False)
    for collector, index in ((first, 1), (first, 2), (second, 3)):
        with collector, markers.step(index):
            pass
        # `with` closes the step before the collector.
        assert [("step", "fdprof", index)] == ranges(collector.capture)


def test_ranges_through_nvtx_come_too_and_markers_once(run):
    """In a process whose NVTX was first used after the collector was loaded; here with markers through NVTX as well."""
    code = (
        "from fdprof.collector import Collector\n"
        "collector = Collector(cuda=False)\n"
        "import nvtx\n"
        "from fdprof import markers\n"
        "with collector:\n"
        "    with nvtx.annotate('mine'): pass\n"
        "    with markers.step(3): pass\n"
        "c = collector.capture\n"
        "print(sorted(c.names[n] for n in c.ranges['name']))"
    )
    assert ["['mine', 'step']"] == run(code)
    assert ["['mine', 'step']"] == run(code, NVTX_INJECTION64_PATH=str(collector_library()))


def test_markers_come_where_nvtx_belongs_to_another_tool(run, tmp_path):
    """A tool of NVTX that is not ours, as Nsight is: a library that takes ranges and does nothing with them."""
    source, tool = tmp_path / "tool.cc", tmp_path / "tool.so"
    source.write_text('extern "C" int InitializeInjectionNvtx2(void*) { return 1; }\n')
    subprocess.run(["g++", "-shared", "-fPIC", str(source), "-o", str(tool)], check=True)
    code = (
        "from fdprof import markers\n"
        "print(markers.listens())\n"
        "from fdprof.collector import Collector\n"
        "with Collector(cuda=False) as collector:\n"
        "    with markers.step(3): pass\n"
        "print([collector.capture.names[n] for n in collector.capture.ranges['name']])"
    )
    assert "['step']" == run(code, NVTX_INJECTION64_PATH=str(tool))[-1]


# Its life


def test_it_leaves_no_files(tmp_path):
    """Neither after a recording nor after one that fails."""
    with pytest.raises(ZeroDivisionError), Collector(cuda=False):
        assert [] != list(tmp_path.iterdir())
        raise ZeroDivisionError
    assert [] == list(tmp_path.iterdir())


def test_many_recordings_leak_neither_files_nor_threads():
    """50 of them; the first may open what stays."""

    def held():
        return tuple(len(list(Path("/proc/self", what).iterdir())) for what in ("fd", "task"))

    collector = Collector(cuda=False)
    with collector:
        pass
    before = held()
    for _ in range(50):
        with collector, markers.step(1):
            pass
    assert before == held()


def test_a_second_start_is_refused_and_the_first_recording_goes_on():
    """Of the same collector and of another one; neither is a limit of the capture, nor takes the markers away."""
    with Collector(cuda=False) as collector:
        with pytest.raises(FdprofError, match="started already"):
            collector.start()
        with pytest.raises(FdprofError, match="markers go to _MarkerSink already"):
            Collector(cuda=False).start()
        with markers.step(5):
            pass
    assert [("step", "fdprof", 5)] == ranges(collector.capture)
    assert not any("already" in limit for limit in collector.capture.limits)


def test_a_recording_that_the_library_refuses_changes_nothing(monkeypatch, tmp_path):
    """Markers go nowhere afterwards, no folder is left, and the next start works."""
    collector = Collector(cuda=False)
    monkeypatch.setattr(tempfile, "mkdtemp", lambda prefix: str(tmp_path / "not there"))
    with pytest.raises(EnvironmentMissing, match="the collector cannot start: cannot write below"):
        collector.start()
    assert (False, []) == (markers.listens(), list(tmp_path.iterdir()))
    monkeypatch.undo()
    with collector:
        pass
    assert 0 == collector.capture.rows


def test_markers_of_somebody_elses_sink_are_not_taken(tmp_path):
    """The sink stays, and nothing is recorded."""

    class Sink:
        def push(self, name, payload):
            pass

        def pop(self):
            pass

    markers.attach(Sink())
    try:
        with pytest.raises(UsageError, match="markers go to Sink already"):
            Collector(cuda=False).start()
        assert (True, []) == (markers.listens(), list(tmp_path.iterdir()))
    finally:
        markers.detach()


def test_stop_without_start_and_a_capture_before_one_are_refused():
    """Each says what to do."""
    collector = Collector(cuda=False)
    for refused in (collector.stop, lambda: collector.capture):
        with pytest.raises(FdprofError) as caught:
            refused()
        assert caught.value.hint


def test_stopping_by_hand_within_the_block_is_the_end_of_it():
    with Collector(cuda=False) as collector:
        with markers.step(1):
            pass
        stopped = collector.stop()
        with markers.step(2):
            pass
    assert stopped is collector.capture
    assert [("step", "fdprof", 1)] == ranges(stopped)


def test_an_unknown_graph_trace_is_refused():
    with pytest.raises(FdprofError, match="graph_trace is 'nodes', expected 'graph' or 'node'"):
        Collector(graph_trace="nodes")


def test_a_forked_child_leaves_its_parents_recording_alone(run):
    """It leaves the block by an exception, and may not end what it did not begin; the parent's ranges are all there."""
    output = run(
        "import os\n"
        "from fdprof import markers\n"
        "from fdprof.collector import Collector\n"
        "from fdprof.errors import FdprofError\n"
        "with Collector(cuda=False) as collector:\n"
        "    with markers.step(1): pass\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        with markers.step(99): pass\n"
        "        raise SystemExit\n"
        "    os.waitpid(child, 0)\n"
        "    second = os.fork()\n"
        "    if second == 0:\n"
        "        try: collector.stop()\n"
        "        except FdprofError as error: print(error, flush=True)\n"
        "        os._exit(0)\n"
        "    os.waitpid(second, 0)\n"
        "    with markers.step(2): pass\n"
        "print(os.getpid(), collector.capture.ranges['payload'].tolist())"
    )
    process = output[1].split()[0]
    assert [
        f"the collector records process {process}, from which this one was forked",
        f"{process} [1, 2]",
    ] == output


def test_a_forked_child_can_have_a_recording_of_its_own(run):
    """The markers are its own then, and the parent's stay the parent's."""
    output = run(
        "import os\n"
        "from fdprof import markers\n"
        "from fdprof.collector import Collector\n"
        "with Collector(cuda=False) as collector:\n"
        "    with markers.step(1): pass\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        with Collector(cuda=False) as own:\n"
        "            with markers.step(7): pass\n"
        "        print(own.capture.ranges['payload'].tolist(), flush=True)\n"
        "        os._exit(0)\n"
        "    os.waitpid(child, 0)\n"
        "    with markers.step(2): pass\n"
        "print(collector.capture.ranges['payload'].tolist())"
    )
    assert ["[7]", "[1, 2]"] == output


def test_a_process_that_is_recorded_from_outside_is_not_recorded_twice(run, tmp_path):
    """As under fdprof capture: the outer recording goes on, and holds no error."""
    outer = tmp_path / "outer"
    outer.mkdir()
    output = run(
        "from fdprof import markers\n"
        "from fdprof.collector import Collector\n"
        "from fdprof.errors import FdprofError\n"
        "with markers.step(1): pass\n"
        "try: Collector(cuda=False).start()\n"
        "except FdprofError as error: print(error)\n"
        "with markers.step(2): pass",
        FDPROF_COLLECT_FOLDER=str(outer),
        FDPROF_COLLECT_CUDA="0",
        NVTX_INJECTION64_PATH=str(collector_library()),
    )
    assert ["the collector cannot start: this process is being recorded already"] == output
    (process,) = outer.iterdir()
    capture = module.read_recording([process])
    assert [1, 2] == capture.ranges["payload"].tolist()
    assert not any("already" in limit for limit in capture.limits)


# Without a GPU


def test_without_a_driver_it_says_so_and_what_still_works(monkeypatch, tmp_path):
    """CUPTI's own words would be CUPTI_ERROR_UNKNOWN."""
    if any(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("there is a GPU")
    with pytest.raises(EnvironmentMissing) as caught:
        Collector().start()
    assert "the collector cannot start: there is no NVIDIA driver (libcuda.so.1)" == str(caught.value)
    assert "Collector(cuda=False)" in caught.value.hint
    assert (False, []) == (markers.listens(), list(tmp_path.iterdir()))
