# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.audit over a tiny device whose copies land when the test says so."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fdprof.audit import Audit
from fdprof.backends.protocol import POISON_BYTE
from fdprof.model import JOURNAL, Act, Group, Memory, Producer, TensorSpec

TOKENS, FLAG = TensorSpec("tokens", (4,), "int64"), TensorSpec("flag", (1,), "bool")
COUNT, TASK = TensorSpec("count", (2,), "int32"), TensorSpec("task", (2,), "int64")
MADE = {"tokens": [81, 89, 97, 105], "flag": [True], "count": [1, 0], "task": [0, 0]}
ONE_ROW = np.ones(10, dtype=np.int64)


@dataclass(eq=False)
class Buffer:
    """Host memory, and where it is now."""

    spec: TensorSpec
    memory: Memory
    array: np.ndarray[Any, Any]
    now: Memory | None

    @property
    def raw(self):
        return self.array.view(np.uint8).reshape(self.array.size, self.array.itemsize)


class Thing:
    """An event, a stream or a publication."""


class Device:
    """Keeps a list of its calls; a copy brings its values only when `land` is called."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        return lambda *arguments: self.calls.append((name, *arguments))

    def host_buffer(self, spec, memory):
        return Buffer(spec, memory, np.zeros(spec.shape, spec.dtype), memory)

    def fetch(self, spec):
        return Buffer(spec, Memory.PAGEABLE, np.array(MADE[spec.name], spec.dtype), Memory.PAGEABLE)

    def land(self, buffer, elements=None):
        buffer.array[:elements] = MADE[buffer.spec.name][:elements]

    def poison(self, buffer):
        self.calls.append(("poison", buffer))
        buffer.raw[:] = POISON_BYTE

    def poisoned(self, buffer):
        return int((buffer.raw == POISON_BYTE).all(axis=1).sum())

    def read(self, buffer):
        return bool(buffer.raw[0, 0]) if buffer.spec is FLAG else buffer.array.copy()

    def memory_of(self, buffer):
        return buffer.now

    def event(self):
        return Thing()

    def record(self, event, stream=None):
        """Keep nothing: only the audit holds on to the event."""

    def stream(self):
        return Thing()

    def publish(self, group, slots):
        return Thing()


@pytest.fixture
def device():
    return Device()


@pytest.fixture
def audit(device):
    return Audit(device)


def _rows(audit, *columns, active_rows=ONE_ROW):
    """Return the journal's rows: the act, then the columns that are asked for."""
    journal, acts = audit.journal(active_rows), list(Act)
    names = [acts[number] for number in journal["act"].tolist()]
    return list(zip(names, *(journal[name].tolist() for name in columns), strict=True))


def _details(audit, act, active_rows=ONE_ROW):
    return [detail for name, detail in _rows(audit, "detail", active_rows=active_rows) if name is act]


# Poison.


def test_a_buffer_is_poisoned_before_each_copy_into_it(device, audit):
    """Poison, copy, poison, copy: never after the copy was queued, when its values may be there already."""
    buffer = audit.host_buffer(TOKENS, Memory.PINNED)
    audit.copy(TOKENS, buffer)
    audit.copy(TOKENS, buffer)
    assert [("poison", buffer), ("copy", TOKENS, buffer, None)] * 2 == device.calls


def test_a_read_before_the_copy_finds_every_element_poisoned(audit):
    """Four tokens of nothing but poison; the tensor is told of once."""
    buffer = audit.host_buffer(TOKENS, Memory.PINNED)
    audit.copy(TOKENS, buffer)
    assert [int.from_bytes(bytes([POISON_BYTE] * 8), "little", signed=True)] * 4 == audit.read(buffer).tolist()
    assert [4] == _details(audit, Act.READ)
    assert frozenset({"tokens"}) == audit.take_poisoned()
    assert frozenset() == audit.take_poisoned()


def test_a_read_of_half_a_copy_finds_the_rest_poisoned(device, audit):
    """Three of four tokens have landed."""
    buffer = audit.host_buffer(TOKENS, Memory.PINNED)
    audit.copy(TOKENS, buffer)
    device.land(buffer, 3)
    audit.read(buffer)
    assert [1] == _details(audit, Act.READ)
    assert frozenset({"tokens"}) == audit.take_poisoned()


def test_an_element_with_a_byte_of_its_own_is_not_poison(device, audit):
    """Poison is counted by whole elements: one that is torn is for the check of the values to find."""
    buffer = audit.host_buffer(TOKENS, Memory.PINNED)
    audit.copy(TOKENS, buffer)
    device.land(buffer)
    buffer.raw[2, 1:] = POISON_BYTE
    audit.read(buffer)
    assert [0] == _details(audit, Act.READ)
    assert frozenset() == audit.take_poisoned()


def test_a_read_behind_the_copy_finds_no_poison(device, audit):
    """All four tokens are there, and come back as they are."""
    buffer = audit.host_buffer(TOKENS, Memory.PINNED)
    audit.copy(TOKENS, buffer)
    device.land(buffer)
    assert MADE["tokens"] == audit.read(buffer).tolist()
    assert [0] == _details(audit, Act.READ)
    assert frozenset() == audit.take_poisoned()


def test_a_poisoned_flag_is_seen_though_it_reads_as_true(device, audit):
    """A flag comes back as a bool, and poison is as true as True: its byte tells them apart."""
    buffer = audit.host_buffer(FLAG, Memory.PINNED)
    audit.copy(FLAG, buffer)
    assert audit.read(buffer) is True
    assert frozenset({"flag"}) == audit.take_poisoned()
    device.land(buffer)
    assert audit.read(buffer) is True
    assert frozenset() == audit.take_poisoned()
    assert [1, 0] == _details(audit, Act.READ)


def test_buffers_to_be_published_into_are_poisoned_at_once_and_after_each_read(device, audit):
    """Nothing is copied into mapped memory, so that the poison must lie there before the kernel is launched."""
    slots = [[audit.host_buffer(TOKENS, Memory.MAPPED), audit.host_buffer(FLAG, Memory.MAPPED)] for _ in range(2)]
    audit.publish(Group("outputs", (TOKENS, FLAG)), slots)
    assert [("poison", buffer) for slot in slots for buffer in slot] == device.calls
    device.land(slots[1][0])
    assert MADE["tokens"] == audit.read(slots[1][0]).tolist()
    audit.read(slots[1][0])
    assert [0, 4] == _details(audit, Act.READ)
    assert [("poison", slots[1][0])] * 2 == device.calls[4:]


def test_a_pinned_buffer_keeps_its_values_after_the_read(device, audit):
    """It is poisoned before the next copy, and until then whoever reads it again finds the same."""
    buffer = audit.host_buffer(TOKENS, Memory.PINNED)
    device.land(buffer)
    assert MADE["tokens"] == audit.read(buffer).tolist() == audit.read(buffer).tolist()
    assert [] == device.calls


# Drift.


@pytest.mark.parametrize(("now", "detail"), [(None, -1), (Memory.PAGEABLE, list(Memory).index(Memory.PAGEABLE))])
def test_a_drift_is_noted_once_behind_the_read_that_found_it(audit, now, detail):
    """The detail says where the buffer is now: -1 on the device, else the memory's index."""
    buffer = audit.host_buffer(TOKENS, Memory.PINNED)
    audit.read(buffer)
    buffer.now = now
    audit.read(buffer)
    audit.read(buffer)
    expected = [(Act.READ, 0), (Act.READ, 0), (Act.DRIFT, detail), (Act.READ, 0)]
    assert expected == _rows(audit, "detail")[1:]


def test_each_buffer_drifts_for_itself(audit):
    """Two buffers of one tensor are two drifts, and a third that stayed is none."""
    buffers = [audit.host_buffer(TOKENS, Memory.PINNED) for _ in range(3)]
    for buffer in buffers[:2]:
        buffer.now = None
    for buffer in buffers:
        audit.read(buffer)
    numbers = [number for act, number in _rows(audit, "buffer") if act is Act.ALLOCATE]
    assert numbers[:2] == [number for act, number in _rows(audit, "buffer") if act is Act.DRIFT]


# Rows launched for.


def test_an_update_notes_how_many_active_rows_it_was_not_launched_for(audit):
    """Launched for 3 of 4: one short.  For all, for 4 of 4 and for 5 of 4: none.  For 0 of 2: two."""
    for step, launched in enumerate((3, -1, 4, 5, 0)):
        audit.step = step
        audit.update(launched)
    active = np.array([4, 4, 4, 4, 2])
    assert [1, 0, 0, 0, 2] == _details(audit, Act.UPDATE, active)
    assert [1, 0, 0, 0, 2] == _details(audit, Act.UPDATE, active)  # asking changes nothing


def test_active_rows_are_those_of_the_updates_own_step(audit):
    """Steps 0 and 1 had no update: step 2 has 7 active rows."""
    audit.step = 2
    audit.update(3)
    assert [4] == _details(audit, Act.UPDATE, np.array([3, 3, 7]))


# The journal.


def test_every_call_is_journalled_in_order_with_what_it_was_about(device, audit):
    """Streams, buffers and events are numbered as they appear; -1 where an act has none."""
    side, event = audit.stream(), audit.event()
    source = audit.host_buffer(TASK, Memory.PINNED)  # 0
    target = audit.host_buffer(TOKENS, Memory.PAGEABLE)  # 1
    audit.write(source, np.array([1, 2]))
    audit.upload(TASK, source, side)  # the stream is 1 + 2: 0 is the compute stream
    audit.record(event, side)  # 3
    audit.stream_wait(event)
    audit.store(TASK, source)
    audit.prepare()
    audit.forward()
    audit.update(-1, side)
    audit.copy(TOKENS, target)
    audit.step = 1
    audit.wait(event)
    audit.synchronize()
    audit.read(audit.fetch(COUNT))  # 4
    audit.release_buffer(target)
    memories = list(Memory)
    assert [
        # act, step, stream, tensor, buffer, event, detail; tensors are task, tokens, count
        (Act.ALLOCATE, 0, 0, 0, 0, -1, memories.index(Memory.PINNED)),
        (Act.ALLOCATE, 0, 0, 1, 1, -1, memories.index(Memory.PAGEABLE)),
        (Act.WRITE, 0, 0, 0, 0, -1, 0),
        (Act.UPLOAD, 0, 3, 0, 0, -1, 0),
        (Act.RECORD, 0, 3, -1, -1, 3, 0),
        (Act.STREAM_WAIT, 0, 0, -1, -1, 3, 0),
        (Act.STORE, 0, 0, 0, 0, -1, 0),
        (Act.PREPARE, 0, 0, -1, -1, -1, 0),
        (Act.FORWARD, 0, 0, -1, -1, -1, 0),
        (Act.UPDATE, 0, 3, -1, -1, -1, 0),
        (Act.COPY, 0, 0, 1, 1, -1, 0),
        (Act.WAIT, 1, 0, -1, -1, 3, 0),
        (Act.SYNCHRONIZE, 1, 0, -1, -1, -1, 0),
        (Act.FETCH, 1, 0, 2, 4, -1, 0),
        (Act.READ, 1, 0, 2, 4, -1, 0),
        (Act.RELEASE, 1, 0, 1, 1, -1, 0),
    ] == _rows(audit, *list(JOURNAL)[1:])
    assert ("task", "tokens", "count") == audit.tensor_names
    # And the device was asked for the same, with the same arguments.
    assert ("upload", TASK, source, side) in device.calls
    assert ("update", -1, side) in device.calls
    assert ("stream_wait", event, None) in device.calls
    assert ("release_buffer", target) in device.calls


def test_a_publication_is_noted_behind_its_kernel_with_the_slot_of_the_step(audit):
    """Step 3 of two slots goes to slot 1; the other kernel's publication is not touched."""
    slots = [[audit.host_buffer(TOKENS, Memory.MAPPED), audit.host_buffer(FLAG, Memory.MAPPED)] for _ in range(2)]
    counts = [[audit.host_buffer(COUNT, Memory.MAPPED)]]
    outputs = audit.publish(Group("outputs", (TOKENS, FLAG)), slots)
    audit.publish(Group("counts", (COUNT,), made_by=Producer.PREPARE), counts)
    # Buffers 0 to 3 and 4, then publications 5 and 6; tensors 0 to 2.
    audit.step = 3
    audit.update()
    audit.prepare()
    audit.poll(outputs, 3)
    assert [
        (Act.UPDATE, 3, -1, -1, -1, 0),
        (Act.PUBLISH, 3, 0, 2, 5, 0),
        (Act.PUBLISH, 3, 1, 3, 5, 0),
        (Act.PREPARE, 3, -1, -1, -1, 0),
        (Act.PUBLISH, 3, 2, 4, 6, 0),
        (Act.POLL, 3, -1, -1, 5, 3),
    ] == _rows(audit, "step", "tensor", "buffer", "event", "detail")[5:]


def test_a_publication_is_in_the_stream_of_its_kernel(audit):
    """The kernel that publishes was launched on a side stream."""
    audit.publish(Group("outputs", (TOKENS,)), [[audit.host_buffer(TOKENS, Memory.MAPPED)]])
    audit.update(-1, audit.stream())
    (_, launched), (_, published) = _rows(audit, "stream")[1:]
    assert 0 < launched
    assert launched == published


def test_numbers_stay_with_their_objects(audit):
    """The same event has the same number, and a new one another, also where the old one was dropped meanwhile."""
    kept = audit.event()
    audit.record(kept)
    for _ in range(20):
        audit.record(audit.event())  # dropped at once: Python may give its address to the next one
    audit.wait(kept)
    numbers = [number for _, number in _rows(audit, "event")]
    assert numbers[0] == numbers[-1]
    assert 21 == len(set(numbers))
