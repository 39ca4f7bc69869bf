"""What only a GPU can show: who waits for whom, and that every wait ends."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fdprof.errors import ScenarioFailed
from fdprof.tokens import Reference

pytestmark = pytest.mark.gpu

HELD_S = 30.0  # a latch that is not released in a test; the test's own timeouts are far shorter
SOON_S = 0.2
LONG_S = 10.0


def assert_a_run_works(make_loop: Callable[..., Any], ops: Any) -> None:
    loop = make_loop(kernels=2, kernel_ns=300_000)
    expected = Reference(loop.stream, (), 10).tokens
    for step in range(10):
        loop.native.forward()
        loop.native.update()
        ops.synchronize_current(LONG_S)
        np.testing.assert_array_equal(expected[step], loop.values("sampled_token_ids"))
    stamps = loop.values("stamps")[:10, :2]
    assert (stamps[..., 1] - stamps[..., 0] >= 300_000).all()


def test_a_copy_to_pinned_memory_returns_before_the_device_is_done(gpu_ops: Any, upload: Callable[..., Any]) -> None:
    """The latch still holds the stream when copy_async and record have returned; the value comes after release."""
    values = np.arange(64, dtype=np.int64)
    source, target = upload(values), gpu_ops.pinned_tensor([64], "int64")
    event, latch = gpu_ops.Event(), gpu_ops.Latch(HELD_S)
    latch.launch()
    gpu_ops.copy_async(target, source)
    event.record()
    assert event.query() is False
    assert target.numpy().tolist() == [0] * 64
    latch.release()
    event.wait(LONG_S)
    assert values.tolist() == target.numpy().tolist()
    assert latch.timed_out is False


def test_another_stream_waits_for_an_event(gpu_ops: Any, upload: Callable[..., Any]) -> None:
    """wait_event orders the copy stream behind the latch on the compute stream, without the host."""
    source, target = upload(np.full(4, 7, np.int64)), gpu_ops.pinned_tensor([4], "int64")
    produced, copied = gpu_ops.Event(), gpu_ops.Event(wait="blocking")
    stream, latch = gpu_ops.Stream(), gpu_ops.Latch(HELD_S)
    latch.launch()
    produced.record()
    stream.wait_event(produced)
    gpu_ops.copy_async(target, source, stream.handle)
    copied.record(stream.handle)
    assert copied.query() is False
    assert stream.query() is False
    latch.release()
    copied.wait(LONG_S)
    assert target.numpy().tolist() == [7] * 4


@pytest.mark.parametrize("wait", ["spin", "blocking", "poll", "yield"])
def test_a_wait_behind_a_latch_never_released_raises_and_the_next_run_works(
    gpu_ops: Any, make_loop: Callable[..., Any], wait: str
) -> None:
    """The watchdog ends the latch, the wait returns, whatever its style, and nothing of the abort remains."""
    event, latch = gpu_ops.Event(wait=wait), gpu_ops.Latch(HELD_S)
    latch.launch()
    event.record()
    with pytest.raises(ScenarioFailed, match=r"did not end within 0\.2 s") as caught:
        event.wait(SOON_S)
    assert "latch" in str(caught.value.hint)
    assert latch.timed_out is True
    assert_a_run_works(make_loop, gpu_ops)


def test_a_stream_synchronisation_is_bounded_alike(gpu_ops: Any, make_loop: Callable[..., Any]) -> None:
    """synchronize_current and Stream.synchronize use the same watchdog."""
    gpu_ops.Latch(HELD_S)  # never launched: must not matter
    latch = gpu_ops.Latch(HELD_S)
    latch.launch()
    with pytest.raises(ScenarioFailed, match="did not end within"):
        gpu_ops.synchronize_current(SOON_S)
    stream, other = gpu_ops.Stream(), gpu_ops.Latch(HELD_S)
    other.launch(stream.handle)
    with pytest.raises(ScenarioFailed, match="did not end within"):
        stream.synchronize(SOON_S)
    assert_a_run_works(make_loop, gpu_ops)


def test_a_guard_ends_paddles_own_blocking_read(gpu_ops: Any, upload: Callable[..., Any]) -> None:
    """Tensor.cpu() has no timeout; the guard gives it one."""
    source, latch = upload(np.arange(4)), gpu_ops.Latch(HELD_S)
    latch.launch()
    with pytest.raises(ScenarioFailed, match="did not end within its timeout"), gpu_ops.guard(SOON_S):
        source.cpu()


def test_a_long_kernel_is_ended_by_a_passed_timeout(gpu_ops: Any, make_loop: Callable[..., Any]) -> None:
    """A spin kernel of a minute looks at the abort word every 200 us."""
    loop = make_loop(kernels=1, kernel_ns=60_000_000_000)
    loop.native.forward()
    with pytest.raises(ScenarioFailed, match="did not end within"):
        gpu_ops.synchronize_current(SOON_S)
    assert_a_run_works(make_loop, gpu_ops)


def test_a_latch_ends_by_its_own_timeout(gpu_ops: Any) -> None:
    """So that a forgotten latch cannot hang the device."""
    latch, event = gpu_ops.Latch(SOON_S), gpu_ops.Event()
    latch.launch()
    event.record()
    event.wait(LONG_S)
    assert latch.timed_out is True
    with pytest.raises(ScenarioFailed, match="launched before"):
        latch.launch()


def test_elapsed_ns_of_an_event_not_complete_says_so(gpu_ops: Any) -> None:
    """The third cause, which needs a device that is behind."""
    start, end, latch = gpu_ops.Event(timing=True), gpu_ops.Event(timing=True), gpu_ops.Latch(HELD_S)
    start.record()
    start.wait(LONG_S)
    latch.launch()
    end.record()
    with pytest.raises(ScenarioFailed, match="the end event is not complete yet"):
        end.elapsed_ns(start)
    latch.release()
    end.wait(LONG_S)
    assert end.elapsed_ns(start) > 0


def test_clocks_are_aligned_within_5_us(gpu_ops: Any) -> None:
    """A mapped ping-pong takes about 3 us on an H200, and half of it is the error."""
    assert gpu_ops.align_clocks()[2] < 5_000


def test_stamps_on_the_host_clock_lie_between_launch_and_wake_up(gpu_ops: Any, make_loop: Callable[..., Any]) -> None:
    """One alignment suffices for a run this short, within its error and a microsecond of drift."""
    import time

    host_ns, device_ns, error_ns = gpu_ops.align_clocks()
    loop = make_loop(kernels=3, kernel_ns=50_000)
    before_ns = time.perf_counter_ns()
    loop.native.forward()
    loop.native.update()
    gpu_ops.synchronize_current(LONG_S)
    after_ns = time.perf_counter_ns()
    stamps = loop.values("stamps")[0, :4] - device_ns + host_ns  # prepare did not run
    assert before_ns - error_ns - 1_000 <= stamps.min()
    assert stamps.max() <= after_ns + error_ns + 1_000
