"""Groups that their kernels write to mapped memory, and the wait for them."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fdprof.backends.protocol import tensor_spec
from fdprof.errors import ScenarioFailed
from fdprof.model import TensorSpec
from fdprof.tokens import PAYLOAD_DTYPES, Reference

LONG_S = 10.0
SOON_S = 0.1

PAYLOADS = tuple(TensorSpec(f"payload_{dtype}", (67, 3), dtype) for dtype in PAYLOAD_DTYPES)
NOW = (tensor_spec("seq_lens_this_time", 6), tensor_spec("is_block_step", 6))
LATER = (tensor_spec("sampled_token_ids", 6), tensor_spec("not_need_stop", 6), *PAYLOADS)


def slots_of(ops: Any, specs: tuple[TensorSpec, ...], count: int) -> list[list[Any]]:
    return [[ops.pinned_tensor(spec.shape, spec.dtype, mapped=True) for spec in specs] for _ in range(count)]


@pytest.fixture
def loop(make_loop: Callable[..., Any]) -> Any:
    """Six rows, which pause for blocks, and a payload of each dtype made by update."""
    return make_loop(sequences=6, kv_block_tokens=3, update_payloads=PAYLOADS)


def publish(loop: Any, name: str, made_by: str, specs: tuple[TensorSpec, ...], slots: Any, wait: str = "spin") -> Any:
    return loop.native.publish(name, made_by, [loop.tensors[spec.name] for spec in specs], slots, wait)


@pytest.mark.parametrize("wait", ["spin", "poll", "yield"])
@pytest.mark.parametrize("launch", ["kernels", "graph"])
def test_each_step_is_published_to_the_slot_in_turn(
    ops: Any, make_loop: Callable[..., Any], wait: str, launch: str
) -> None:
    """Two groups of different kernels, slots and numbers; whole words and what is left over of one."""
    loop = make_loop(sequences=6, kv_block_tokens=3, update_payloads=PAYLOADS, launch=launch)
    early, late = slots_of(ops, NOW, 3), slots_of(ops, LATER, 2)
    now = publish(loop, "now", "prepare", NOW, early, wait)
    later = publish(loop, "later", "update", LATER, late, wait)
    reference = Reference(loop.stream, (), 24)
    for step in range(24):
        loop.step()
        now.poll(step, LONG_S)
        later.poll(step, LONG_S)
        for specs, slot in ((NOW, early[step % 3]), (LATER, late[step % 2])):
            for spec, tensor in zip(specs, slot, strict=True):
                expected = reference.stream(spec)[step].reshape(spec.shape)
                np.testing.assert_array_equal(expected, tensor.numpy(), f"{spec.name} of step {step}")
    assert (now.published_steps, later.published_steps) == (24, 24)


def test_an_earlier_step_stays_published(ops: Any, loop: Any) -> None:
    """The number says up to which step, so a late reader does not wait; its slot still has the values."""
    slots = slots_of(ops, LATER, 2)
    later = publish(loop, "later", "update", LATER, slots)
    for _ in range(2):
        loop.step()
    later.poll(1, LONG_S)
    later.poll(0, LONG_S)
    expected = Reference(loop.stream, (), 2).tokens[:, :, 0]
    assert expected.tolist() == [slot[0].numpy()[:, 0].tolist() for slot in slots]


@pytest.mark.parametrize("wait", ["spin", "poll", "yield"])
def test_a_step_that_is_never_published_ends_in_a_timeout(ops: Any, loop: Any, wait: str) -> None:
    """The error names the group; the loop goes on working."""
    later = publish(loop, "later", "update", LATER, slots_of(ops, LATER, 1), wait)
    loop.step()
    start = time.monotonic()
    with pytest.raises(ScenarioFailed, match=r"published values of group 'later' did not end within 0\.1 s"):
        later.poll(1, SOON_S)
    assert SOON_S <= time.monotonic() - start < LONG_S
    loop.step()
    later.poll(1, LONG_S)


def test_a_poll_lets_other_threads_run(ops: Any, loop: Any) -> None:
    """The step that is waited for is launched by another thread."""
    import threading

    later = publish(loop, "later", "update", LATER, slots_of(ops, LATER, 1))
    thread = threading.Timer(0.05, loop.step)
    thread.start()
    later.poll(0, LONG_S)
    thread.join()
    assert later.published_steps == 1


def test_a_publication_cannot_be_slept_on(ops: Any, loop: Any) -> None:
    """No event comes with it."""
    with pytest.raises(ScenarioFailed, match="group 'later' cannot be waited for in the style 'blocking'") as caught:
        publish(loop, "later", "update", LATER, slots_of(ops, LATER, 1), "blocking")
    assert "yield" in str(caught.value.hint)


def test_unfit_publications_are_refused(ops: Any, loop: Any) -> None:
    """Slots of another size, no slots, uneven slots, an unknown kernel, too many groups, and a loop that has begun."""
    fit = slots_of(ops, LATER, 1)
    with pytest.raises(ScenarioFailed, match=r"group 'g' cannot go from int64 \[6, 1\] .* to int32"):
        publish(loop, "g", "update", LATER, slots_of(ops, NOW + LATER[2:], 1))
    with pytest.raises(ValueError, match="a tensor and a slot at least"):
        publish(loop, "g", "update", LATER, [])
    with pytest.raises(ValueError, match="has 6 tensors and a slot of 1"):
        publish(loop, "g", "update", LATER, [fit[0][:1]])
    with pytest.raises(ValueError, match="made_by must be"):
        publish(loop, "g", "forward", LATER, fit)
    with pytest.raises(ValueError, match="wait must be"):
        publish(loop, "g", "update", LATER, fit, "sleep")
    for group in range(8):
        publish(loop, f"g{group}", "prepare", NOW, slots_of(ops, NOW, 1))
    with pytest.raises(ScenarioFailed, match="at most 8 groups"):
        publish(loop, "g", "update", LATER, fit)
    loop.step()
    with pytest.raises(ScenarioFailed, match="comes after 1 steps were launched"):
        publish(loop, "g", "update", LATER, fit)


@pytest.mark.gpu
def test_slots_must_be_mapped(gpu_ops: Any, loop: Any) -> None:
    """The kernel could not reach pageable memory."""
    slots = [[gpu_ops.pinned_tensor(spec.shape, spec.dtype) for spec in LATER]]
    with pytest.raises(ScenarioFailed, match="is not mapped"):
        publish(loop, "later", "update", LATER, slots)


@pytest.mark.gpu
def test_a_poll_behind_a_latch_ends_and_the_next_step_works(gpu_ops: Any, loop: Any) -> None:
    """The timeout ends the latch as every other wait does."""
    later = publish(loop, "later", "update", LATER, slots_of(gpu_ops, LATER, 1))
    latch = gpu_ops.Latch(30.0)
    latch.launch()
    loop.step()
    with pytest.raises(ScenarioFailed, match="group 'later'"):
        later.poll(0, SOON_S)
    gpu_ops.synchronize_current(LONG_S)
    loop.step()
    later.poll(1, LONG_S)
