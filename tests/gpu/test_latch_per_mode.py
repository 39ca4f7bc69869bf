"""Which mode's calls return before the device is done: proved with a latch kernel, never with a sleep."""

import numpy as np
import pytest

from fdprof import plugins
from fdprof.backends.protocol import LoopPlan
from fdprof.params import LoopParams
from fdprof.tokens import Reference, StreamSpec

pytestmark = pytest.mark.gpu

STREAM = StreamSpec(seed=3, sequences=64, mean_length=8, last_step=9)
GROUP = plugins.load("scenarios", "stop_flag").groups(LoopParams())[0]
PLAN = LoopPlan(STREAM, (GROUP,), max_steps=10, kernels=2, kernel_ns=np.full(10, 10_000, dtype=np.int64))
RETURNS_AT_ONCE = {name: name not in ("sync", "sync-pinned") for name in plugins.names("modes")}


@pytest.fixture(scope="module")
def backend():
    from fdprof.backends.paddle import PaddleBackend

    return PaddleBackend(30.0)


@pytest.mark.parametrize("name", plugins.names("modes"))
def test_a_transfer_returns_before_the_device_is_done_only_in_the_asynchronous_modes(backend, name):
    """The latch opens by itself after 1 s; a call that returns with it still shut did not wait for the device."""
    from fdprof.ops import ops

    device = backend.open_loop(PLAN)
    mode = plugins.load("modes", name)(device, [GROUP])
    latch = ops.Latch(1.0)
    latch.launch()
    device.forward()
    device.update()
    mode.transfer(GROUP, 0)
    returned_with_latch_shut = not latch.timed_out
    latch.release()
    assert RETURNS_AT_ONCE[name] == returned_with_latch_shut
    device.synchronize()
    device.close()


@pytest.mark.parametrize("name", ["async", "overlap", "overlap-copy-stream", "mapped"])
def test_the_fence_waits_for_the_device_and_then_the_tokens_are_right(backend, name):
    """With the latch shut the fence returns only once the latch has timed out, and the values are those of the step."""
    from fdprof.ops import ops

    device = backend.open_loop(PLAN)
    mode = plugins.load("modes", name)(device, [GROUP])
    latch = ops.Latch(1.0)
    latch.launch()
    device.forward()
    device.update()
    mode.transfer(GROUP, 0)
    values = mode.read(GROUP, mode.lag)
    assert latch.timed_out
    expected = Reference(STREAM, (GROUP,), 1).tokens[0].reshape(-1)
    assert np.array_equal(expected, values["sampled_token_ids"].reshape(-1))
    device.close()


def test_an_unfenced_read_behind_a_shut_latch_is_stale(backend):
    """The buffer still holds its initial zeros: no copy can have reached it."""
    from fdprof.ops import ops

    device = backend.open_loop(PLAN)
    mode = plugins.load("modes", "unfenced")(device, [GROUP])
    latch = ops.Latch(5.0)
    latch.launch()
    device.forward()
    device.update()
    mode.transfer(GROUP, 0)
    values = mode.read(GROUP, 0)
    assert not latch.timed_out
    latch.release()
    assert not values["sampled_token_ids"].any()
    device.close()
