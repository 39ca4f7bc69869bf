"""The collector on a real GPU: what it records is held against the loop's own account of the same kernels."""

# ruff: noqa: SIM300
import ctypes
import json
import subprocess
import sys

import numpy as np
import pytest

from fdprof.analysis.run_times import counted_windows
from fdprof.backends.paddle import PaddleBackend
from fdprof.capture import ApiKind, Evidence, HostSide, WorkKind
from fdprof.collector import Collector
from fdprof.params import Extent, LoopParams
from fdprof.session import Session

pytestmark = pytest.mark.gpu


@pytest.fixture(scope="module")
def session():
    """A loop of 20 kernels a step, 200 µs of device work and no host work, warmed up."""
    params = LoopParams(device_us=200, schedule_us=0, save_output_us=0, kernels=20)
    made = Session(PaddleBackend(30.0), "stop_flag", params, Extent(steps=60, warmup=5, timeout=30.0))
    made.block("overlap", 0)
    return made


def recorded(session, mode="overlap", **options):
    """Return a block, and the capture of it."""
    collector = Collector(**options)
    collector.start()
    try:
        block = session.block(mode, 1)
    finally:
        capture = collector.stop()
    return block, capture


def named(capture, part):
    return np.array([part in name for name in capture.names], dtype=bool)


def test_every_kernel_of_the_loop_is_recorded_when_it_ran(session):
    """The loop's kernels stamp %globaltimer inside; CUPTI's start and end, on the host's clock, lie around them.

    A stamp may be off by the alignment's error and a tick of 1 µs, and is taken a little after the start.
    """
    block, capture = recorded(session)
    is_ours = named(capture, "spin_kernel") | named(capture, "update_kernel")
    rows = np.flatnonzero((capture.device["kind"] == WorkKind.KERNEL) & is_ours[capture.device["name"]])
    stamps = block.log.kernels
    # Before the loop the session measures the device's work with kernels of its own: ours are the last.
    rows = rows[np.argsort(capture.device["start_ns"][rows])][-len(stamps["start_ns"]) :]
    order = np.argsort(stamps["start_ns"])
    error_ns = block.clock.error_ns + 2_000
    assert len(stamps["start_ns"]) == len(rows)
    assert (np.abs(stamps["start_ns"][order] - capture.device["start_ns"][rows]) < error_ns).all()
    assert (np.abs(stamps["end_ns"][order] - capture.device["end_ns"][rows]) < error_ns).all()
    assert () == capture.limits[1:]  # the first says that there are no NVTX ranges


def test_every_kernel_and_copy_has_its_call_and_starts_after_it_began(session):
    """One clock for both sides: no device work starts before the call that issued it."""
    _, capture = recorded(session)
    api = capture.device["api"]
    assert (api >= 0).all()
    assert (capture.device["start_ns"] >= capture.api["start_ns"][api]).all()
    copies = capture.device["kind"] == WorkKind.COPY
    assert {int(HostSide.PINNED)} <= set(capture.device["host_side"][copies].tolist())


def test_every_event_wait_is_joined_to_its_record(session):
    """overlap waits for one event a step, recorded one step before."""
    _, capture = recorded(session)
    waits = np.flatnonzero(capture.api["kind"] == ApiKind.EVENT_WAIT)
    links = capture.links
    joined = links["wait"][links["evidence"] == Evidence.PROVED]
    assert set(waits.tolist()) <= set(joined.tolist())
    assert (capture.api["start_ns"][links["record"][links["evidence"] == Evidence.PROVED]] > 0).all()


def test_a_graph_is_one_piece_of_work_or_all_its_kernels():
    """20 kernels a step replayed as one graph: 'graph' sees the graph, 'node' sees the kernels."""
    params = LoopParams(device_us=200, schedule_us=0, save_output_us=0, kernels=20, launch="graph")
    session = Session(PaddleBackend(30.0), "stop_flag", params, Extent(steps=30, warmup=5, timeout=30.0))
    session.block("overlap", 0)
    counts = {}
    for trace in ("graph", "node"):
        _, capture = recorded(session, graph_trace=trace)
        kind = capture.device["kind"]
        counts[trace] = int((kind == WorkKind.GRAPH).sum()), int((kind == WorkKind.KERNEL).sum())
    assert counts["graph"][0] >= 35
    assert 0 == counts["node"][0]
    assert counts["node"][1] - counts["graph"][1] == 20 * counts["graph"][0]


def test_the_bare_speed_comes_back_after_the_stop(session):
    """CUPTI is taken out of the process: blocks behind a recording take what blocks before any took, within 5 %."""
    mean = lambda block: float(counted_windows(block).mean())  # noqa: E731
    before = np.mean([mean(session.block("overlap", index)) for index in range(2, 6)])
    recorded(session)
    after = np.mean([mean(session.block("overlap", index)) for index in range(2, 6)])
    assert after / before == pytest.approx(1, abs=0.05)


def test_calls_into_the_driver_are_recorded_and_those_inside_a_runtime_call_are_not_twice(session):
    """cuMemsetD8 of this test is a call of its own; a launch by the runtime calls the driver inside and is one call."""
    cuda = ctypes.CDLL("libcuda.so.1")
    address = ctypes.c_uint64()
    collector = Collector()
    collector.start()
    try:
        session.block("overlap", 1)
        assert 0 == cuda.cuMemAlloc_v2(ctypes.byref(address), 1024)
        assert 0 == cuda.cuMemsetD8_v2(address, 1, 1024)
        assert 0 == cuda.cuMemFree_v2(address)
    finally:
        capture = collector.stop()
    called = [capture.names[name] for name in capture.api["name"].tolist()]
    assert 1 == sum(name.startswith("cuMemsetD8") for name in called)
    assert 0 == sum(name.startswith("cuLaunch") for name in called)
    memsets = np.flatnonzero(capture.device["kind"] == WorkKind.MEMSET)
    assert (capture.device["api"][memsets] >= 0).all()


_BESIDE_TORCH = """
import torch
from torch.profiler import profile
from fdprof.collector import Collector
from fdprof.errors import EnvironmentMissing
x = torch.ones(1000, device="cuda")
with Collector() as collector:
    (x * 2).sum().item()
names = [collector.capture.names[i] for i in collector.capture.device["name"]]
print(any("elementwise" in name for name in names))
with profile():
    (x * 2).sum().item()
    try:
        Collector().start()
    except EnvironmentMissing as error:
        print("another tool" in str(error))
"""


def test_it_works_beside_torch_and_says_when_torchs_profiler_holds_cupti():
    """One CUPTI client at a time, in a process of its own, which keeps what torch leaves behind."""
    pytest.importorskip("torch")
    command = [sys.executable, "-c", _BESIDE_TORCH]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert ["True", "True"] == done.stdout.split()


_AFTER_A_FAILURE = """
import ctypes, json
from fdprof.collector import Collector
cuda = ctypes.CDLL("libcuda.so.1")
context, device, host = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
collector = Collector()
done = [cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)]
done.append(cuda.cuMemAlloc_v2(ctypes.byref(device), ctypes.c_size_t(4096)))
done.append(cuda.cuMemAllocHost_v2(ctypes.byref(host), ctypes.c_size_t(4096)))
collector.start()
try:
    for size in (8, 16):
        done.append(cuda.cuMemcpyDtoH_v2(host, device, ctypes.c_size_t(size)))
    done.append(cuda.cuEventSynchronize(None))
    for size in (32, 64, 128):
        done.append(cuda.cuMemcpyDtoH_v2(host, device, ctypes.c_size_t(size)))
finally:
    capture = collector.stop()
called = [capture.names[name] for name in capture.api["name"].tolist()]
issued = [row for row, name in enumerate(called) if name.startswith("cuMemcpyDtoH")]
sizes, joined = (capture.device[name].tolist() for name in ("size_bytes", "api"))
print(json.dumps([done, issued, sizes, joined, capture.limits]))
"""


def test_after_a_call_that_fails_each_copy_has_its_own_call_or_is_left_out():
    """Copies 1 and 2 come before cuEventSynchronize(NULL), which fails with 400, and 3 to 5 after it.

    libcupti 13.0 then gives the later calls the failing one's id: the capture ends there, and says so.  In a process of
    its own: its thread keeps the id.
    """
    command = [sys.executable, "-c", _AFTER_A_FAILURE]
    out = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    done, issued, sizes, joined, limits = json.loads(out)
    assert [0] * 7 + [400] + [0] * 3 == done
    assert sizes in ([8, 16], [8, 16, 32, 64, 128])
    assert issued == joined
    assert (2 == len(sizes)) == any("share their correlation ids" in limit for limit in limits)
