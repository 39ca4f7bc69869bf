"""The paddle backend's loop through the methods of DeviceLoop; without a GPU it runs on Paddle's CPU build."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from fdprof.backends.paddle import PaddleLoop
from fdprof.backends.protocol import LoopPlan, tensor_spec
from fdprof.errors import ScenarioFailed
from fdprof.model import Direction, Group, Launch, Memory, Producer, TensorSpec, WaitStyle
from fdprof.tokens import INSERT_TASK, Reference, StreamSpec, sent_arrays

STEPS = 30
TOKENS, FLAG = tensor_spec("sampled_token_ids", 5), tensor_spec("not_need_stop", 5)
LOGPROBS = TensorSpec("logprobs", (5, 6), "float32")
NEEDED = Group(
    "counts", (tensor_spec("seq_lens_this_time", 5), TensorSpec("max_len", (9,), "int32")), made_by=Producer.PREPARE
)
OUTPUT = Group("output", (TOKENS, FLAG, LOGPROBS))
SENT = Group(
    "sent", (TensorSpec(INSERT_TASK, (4,), "int64"), TensorSpec("ids", (1, 40), "int64")), direction=Direction.TO_DEVICE
)
STREAM = StreamSpec(seed=3, sequences=5, mean_length=9, last_step=25, kv_block_tokens=4, insert_every=4)


@pytest.fixture
def make(ops: Any) -> Iterator[Callable[..., PaddleLoop]]:
    """Makes a loop with a group from each kernel and one to the device."""
    import paddle

    made = []

    def open_loop(wait: WaitStyle = WaitStyle.SPIN, launch: Launch = Launch.KERNELS) -> PaddleLoop:
        kernel_ns = np.full(STEPS, 1_000, dtype=np.int64)
        plan = LoopPlan(STREAM, (NEEDED, OUTPUT, SENT), STEPS, 2, kernel_ns, launch=launch, wait=wait)
        made.append(PaddleLoop(paddle, ops, plan, 10.0))
        return made[-1]

    yield open_loop
    for loop in made:
        loop.close()


def send(loop: PaddleLoop, step: int, memory: Memory, stream: Any = None) -> list[Any]:
    """Send what belongs to `step` and return the buffers, which must live until it has arrived."""
    buffers = [loop.host_buffer(spec, memory) for spec in SENT.tensors]
    for spec, buffer, array in zip(SENT.tensors, buffers, sent_arrays(STREAM, SENT, step), strict=True):
        loop.write(buffer, array)
        if memory is Memory.PAGEABLE:
            loop.store(spec, buffer)
        else:
            loop.upload(spec, buffer, stream)
    return buffers


def assert_right(reference: Reference, spec: TensorSpec, step: int, got: Any) -> None:
    expected = reference.stream(spec)[step].reshape(spec.shape)
    np.testing.assert_array_equal(expected if spec is not FLAG else expected[0], got, f"{spec.name} of step {step}")


@pytest.mark.parametrize("memory", [Memory.PINNED, Memory.MAPPED, Memory.PAGEABLE])
@pytest.mark.parametrize("wait", list(WaitStyle))
def test_copied_values_equal_the_reference(make: Callable[..., PaddleLoop], memory: Memory, wait: WaitStyle) -> None:
    """Behind an event, in every memory and style, with requests inserted by uploads and by blocking copies."""
    loop, reference = make(wait, Launch.GRAPH), Reference(STREAM, (NEEDED, OUTPUT, SENT), STEPS)
    specs = NEEDED.tensors + OUTPUT.tensors
    buffers = [loop.host_buffer(spec, memory) for spec in specs]
    for step in range(STEPS):
        sent = send(loop, step, memory)
        loop.prepare()
        loop.forward()
        loop.update()
        for spec, buffer in zip(specs, buffers, strict=True):
            loop.copy(spec, buffer)
        event = loop.event()
        loop.record(event)
        loop.wait(event)
        for spec, buffer in zip(specs, buffers, strict=True):
            assert_right(reference, spec, step, loop.read(buffer))
        for buffer in sent:
            loop.release_buffer(buffer)


def test_streams_of_our_own_carry_copies_both_ways(make: Callable[..., PaddleLoop]) -> None:
    """Uploads go ahead of prepare and copies follow update by events alone; update may run there too."""
    loop, reference = make(), Reference(STREAM, (NEEDED, OUTPUT, SENT), STEPS)
    stream, sent_all, updated, copied = loop.stream(), loop.event(), loop.event(), loop.event()
    buffer = loop.host_buffer(TOKENS, Memory.PINNED)
    for step in range(STEPS):
        sent = send(loop, step, Memory.PINNED, stream)
        loop.record(sent_all, stream)
        loop.stream_wait(sent_all)
        loop.prepare()
        loop.forward()
        loop.record(updated)
        loop.stream_wait(updated, stream)
        loop.update(stream=stream)
        loop.copy(TOKENS, buffer, stream)
        loop.record(copied, stream)
        loop.stream_wait(copied)
        loop.wait(copied)
        assert_right(reference, TOKENS, step, loop.read(buffer))
        del sent


def test_fetched_values_equal_the_reference(make: Callable[..., PaddleLoop]) -> None:
    """fetch needs no fence."""
    loop = make()
    loop.prepare()
    loop.update()
    for spec in NEEDED.tensors + OUTPUT.tensors:
        fetched = loop.fetch(spec)
        assert fetched.memory is Memory.PAGEABLE
        assert_right(Reference(STREAM, (), 1), spec, 0, loop.read(fetched))


def test_published_values_equal_the_reference(make: Callable[..., PaddleLoop]) -> None:
    """Groups of both kernels, in two slots."""
    loop, reference = make(), Reference(STREAM, (NEEDED, OUTPUT, SENT), STEPS)
    groups = (NEEDED, OUTPUT)
    slots = [[[loop.host_buffer(spec, Memory.MAPPED) for spec in group.tensors] for _ in range(2)] for group in groups]
    published = [loop.publish(group, held) for group, held in zip(groups, slots, strict=True)]
    for step in range(STEPS):
        sent = send(loop, step, Memory.PAGEABLE)
        loop.prepare()
        loop.forward()
        loop.update()
        for group, publication, held in zip(groups, published, slots, strict=True):
            loop.poll(publication, step)
            for spec, buffer in zip(group.tensors, held[step % 2], strict=True):
                assert_right(reference, spec, step, loop.read(buffer))
        del sent


@pytest.mark.parametrize("memory", [Memory.PINNED, Memory.MAPPED, Memory.PAGEABLE])
def test_poison_counts_what_was_not_overwritten(make: Callable[..., PaddleLoop], memory: Memory) -> None:
    """All elements after poison, none after a copy."""
    loop = make()
    loop.prepare()
    loop.update()
    for spec in NEEDED.tensors + OUTPUT.tensors:
        buffer = loop.host_buffer(spec, memory)
        assert loop.poisoned(buffer) == 0
        loop.poison(buffer)
        assert int(np.prod(spec.shape)) == loop.poisoned(buffer)
        loop.copy(spec, buffer)
        loop.synchronize()
        assert loop.poisoned(buffer) == 0


def test_what_is_written_is_read(make: Callable[..., PaddleLoop]) -> None:
    """Flags start true, the rest zero; a read is a copy of its own."""
    loop = make()
    flag, logprobs = loop.host_buffer(FLAG, Memory.PINNED), loop.host_buffer(LOGPROBS, Memory.PINNED)
    assert loop.read(flag) is True
    loop.write(flag, np.array([False]))
    assert loop.read(flag) is False
    before = loop.read(logprobs)
    loop.write(logprobs, np.ones(LOGPROBS.shape, dtype=np.float32))
    assert (before == 0).all()
    assert (loop.read(logprobs) == 1).all()


def test_a_released_buffer_cannot_be_read(make: Callable[..., PaddleLoop]) -> None:
    """Its memory may hold another tensor by then."""
    loop = make()
    buffer = loop.host_buffer(TOKENS, Memory.PINNED)
    loop.release_buffer(buffer)
    with pytest.raises(ScenarioFailed, match="sampled_token_ids is read after its memory was given back"):
        loop.read(buffer)


def test_unknown_memory_is_refused(make: Callable[..., PaddleLoop]) -> None:
    """There is no way to make it."""
    with pytest.raises(ScenarioFailed, match="has no unknown buffers"):
        make().host_buffer(TOKENS, Memory.UNKNOWN)


def test_stamps_have_a_place_for_every_kernel(make: Callable[..., PaddleLoop]) -> None:
    """The forward pass, update and prepare of each step that ran."""
    loop = make(launch=Launch.GRAPH)
    loop.prepare()
    loop.forward()
    loop.update()
    stamps = loop.stamps()
    assert stamps.shape == (STEPS, 4, 2)
    assert (stamps[0] > 0).all()
    assert (stamps[1:] == 0).all()


@pytest.mark.parametrize("memory", [Memory.MAPPED, Memory.PAGEABLE])
def test_indexing_leaves_memory_that_is_not_paddles_pinned_one(make: Callable[..., PaddleLoop], memory: Memory) -> None:
    """Only Paddle's own pinned tensors move."""
    loop = make()
    buffer = loop.host_buffer(TOKENS, memory)
    loop.index(buffer)
    assert memory is loop.memory_of(buffer)


@pytest.mark.gpu
def test_indexing_moves_a_pinned_buffer_and_reads_still_work(gpu_ops: Any, make: Callable[..., PaddleLoop]) -> None:
    """It is on the device then (Paddle #78835): not poisoned, and a read of it gives what later copies bring."""
    loop, reference = make(), Reference(STREAM, (), STEPS)
    for spec in (TOKENS, FLAG):
        buffer = loop.host_buffer(spec, Memory.PINNED)
        assert loop.memory_of(buffer) is Memory.PINNED
        loop.index(buffer)
        assert loop.memory_of(buffer) is None
        loop.poison(buffer)
        assert loop.poisoned(buffer) == 0
        loop.update()
        loop.copy(spec, buffer)
        assert_right(reference, spec, loop._native.launched_steps - 1, loop.read(buffer))
