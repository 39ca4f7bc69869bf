"""Events and streams: what they refuse to answer, and what they say."""

import time
from typing import Any

import pytest

from fdprof.errors import ScenarioFailed


def test_an_event_that_was_never_recorded_gives_no_answer(ops: Any) -> None:
    """CUDA would say "complete" (eyalroz/cuda-api-wrappers #226), and the reader would take stale values for new."""
    event = ops.Event()
    with pytest.raises(ScenarioFailed, match=r"Event\.query: the event was never recorded"):
        event.query()
    with pytest.raises(ScenarioFailed, match=r"Event\.wait: the event was never recorded"):
        event.wait(1.0)
    with pytest.raises(ScenarioFailed, match=r"Stream\.wait_event: the event was never recorded"):
        ops.Stream().wait_event(event)
    with pytest.raises(ScenarioFailed, match=r"the event was never recorded"):
        ops.stream_wait(event)


@pytest.mark.parametrize("wait", ["spin", "blocking", "poll", "yield"])
def test_a_recorded_event_completes(ops: Any, wait: str) -> None:
    """With nothing queued before it, wait returns and query is then true."""
    event = ops.Event(wait=wait)
    event.record()
    event.wait(10.0)
    assert event.query() is True


def test_elapsed_ns_says_which_event_is_unfit_and_why(ops: Any) -> None:
    """One sentence for each cause and side."""
    timed, untimed, unrecorded = ops.Event(timing=True), ops.Event(), ops.Event(timing=True)
    timed.record()
    untimed.record()
    timed.wait(10.0)
    with pytest.raises(ScenarioFailed, match="the end event was made without timing"):
        untimed.elapsed_ns(timed)
    with pytest.raises(ScenarioFailed, match="the start event was made without timing"):
        timed.elapsed_ns(untimed)
    with pytest.raises(ScenarioFailed, match="the end event was never recorded"):
        unrecorded.elapsed_ns(timed)
    with pytest.raises(ScenarioFailed, match="the start event was never recorded"):
        timed.elapsed_ns(unrecorded)


def test_elapsed_ns_covers_the_work_between_two_events(ops: Any, make_loop: Any) -> None:
    """Four kernels of 100 us each lie between: at least 400 us, less CUDA's resolution of 1 us."""
    loop = make_loop(kernels=4, kernel_ns=100_000)
    start, end = ops.Event(timing=True), ops.Event(timing=True)
    start.record()
    loop.native.forward()
    end.record()
    end.wait(10.0)
    assert end.elapsed_ns(start) >= 4 * 100_000 - 1_000


def test_an_unknown_way_to_wait_is_refused(ops: Any) -> None:
    """ValueError naming the choices."""
    with pytest.raises(ValueError, match="wait must be 'spin', 'blocking', 'poll' or 'yield', got 'sleep'"):
        ops.Event(wait="sleep")


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, float("nan"), 1e12])
def test_a_timeout_out_of_range_is_refused(ops: Any, timeout_s: float) -> None:
    """Every wait has a timeout, and none is for ever."""
    event = ops.Event()
    event.record()
    with pytest.raises(ValueError, match="timeout_s must be above 0"):
        event.wait(timeout_s)


def test_a_stream_of_its_own_is_idle_at_first(ops: Any) -> None:
    """query is true, and synchronize returns."""
    stream = ops.Stream()
    assert stream.query() is True
    stream.synchronize(10.0)
    assert ops.built_for_cuda == (stream.handle != 0)


def test_any_stream_can_wait_for_a_recorded_event(ops: Any) -> None:
    """Paddle's current one by default; the host does not wait."""
    event, stream = ops.Event(), ops.Stream()
    event.record(stream.handle)
    ops.stream_wait(event)
    ops.stream_wait(event, stream)
    ops.synchronize_current(10.0)
    stream.synchronize(10.0)


def test_align_clocks_lies_between_two_reads_of_the_host_clock(ops: Any) -> None:
    """host_ns is of the clock behind time.perf_counter_ns; without CUDA the device's clock is the same one."""
    before = time.perf_counter_ns()
    host_ns, device_ns, error_ns = ops.align_clocks(rounds=8, timeout_s=10.0)
    assert before <= host_ns <= time.perf_counter_ns()
    if not ops.built_for_cuda:
        assert (host_ns, 0) == (device_ns, error_ns)
    with pytest.raises(ValueError, match="rounds must be at least 1"):
        ops.align_clocks(rounds=0)


def test_device_info_is_empty_without_a_device(ops: Any) -> None:
    """With one, it names the card and CUDA's versions."""
    expected = {"name", "compute_capability", "driver_version", "runtime_version", "sm_count"}
    assert (expected if ops.built_for_cuda else set()) == set(ops.device_info())


def test_a_latch_cannot_block_a_host(ops: Any) -> None:
    """Without CUDA launch raises; making and releasing one is harmless."""
    if ops.built_for_cuda:
        pytest.skip("the ops are built for CUDA, where a latch has a device to block")
    latch = ops.Latch(1.0)
    with pytest.raises(ScenarioFailed, match="a host cannot block itself"):
        latch.launch()
    latch.release()
    assert latch.timed_out is False
