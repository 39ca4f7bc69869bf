"""Finds what the order of a block's acts did not make safe, from the journal alone.

It follows happens-before: queued work runs in its stream's order; an event carries what was before its record to
whoever waits for it; a blocking copy on the legacy default stream waits for the compute stream and for no stream made
beside it (CUDA runtime API, "Stream synchronization behavior").  Whatever may still be in flight by that order is
taken to be, however the times fell in this run: a race that luck hid is found too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from fdprof.model import Act, Block, Direction, Group, Hazard, HazardCode, Memory, Producer

Clock = dict[int, int]
"""By stream, the number of the newest operation known to be done or to come first."""

_ACTS = list(Act)
_PAGEABLE = list(Memory).index(Memory.PAGEABLE)
_COMPUTE, _HOST = 0, -1


@dataclass(frozen=True, slots=True)
class _Work:
    """Operation `number` of a stream."""

    stream: int
    number: int

    def is_in(self, clock: Clock) -> bool:
        return clock.get(self.stream, 0) >= self.number


@dataclass(slots=True)
class _Guard:
    """The first record behind a copy: the event, and how often it had been recorded then."""

    event: int
    records: int


@dataclass(slots=True)
class _Buffer:
    is_pageable: bool = False
    landing: _Work | None = None  # the newest copy into it
    guard: _Guard | None = None
    is_unread: bool = False
    is_overwritten: bool = False  # before it was read
    leaving: list[_Work] = field(default_factory=list)  # copies out of it


@dataclass(slots=True)
class _Published:
    """One step's publication of a group: what came before its kernel, and the buffers that kernel writes."""

    before: Clock
    work: _Work
    buffers: list[_Buffer] = field(default_factory=list)


@dataclass(slots=True)
class _Tensor:
    made: _Work | None = None  # the kernel or copy that wrote its newest value
    readers: list[_Work] = field(default_factory=list)  # of that value


@dataclass(frozen=True, slots=True)
class _Row:
    act: Act
    step: int
    stream: int
    tensor: int
    buffer: int
    event: int
    detail: int


def find_hazards(block: Block, groups: Sequence[Group]) -> tuple[Hazard, ...]:
    """Return the hazards of an audited block in the order they happened; none where there is no journal.

    `groups`: the transfers of the loop; they say which kernel makes each tensor.
    """
    journal, log = block.log.journal, block.log
    follower = _Follower(log.tensor_names, groups)
    columns = [journal[name].tolist() for name in ("act", "step", "stream", "tensor", "buffer", "event", "detail")]
    for number, *rest in zip(*columns, strict=True):
        follower.follow(_Row(_ACTS[number], *rest))
    not_right = (log.reads["stale"] > 0) | (log.reads["wrong"] > 0)
    harmed = set(np.unique(log.reads["step"][not_right]).tolist())
    names = log.tensor_names
    return tuple(
        Hazard(code, step, names[tensor] if tensor >= 0 else None, step in harmed)
        for code, step, tensor in follower.found
    )


class _Follower:
    """Knows, act by act, what must be done by now."""

    def __init__(self, tensor_names: Sequence[str], groups: Sequence[Group]) -> None:
        numbers = {name: number for number, name in enumerate(tensor_names)}
        self._makes: dict[Act, list[int]] = {
            act: [
                numbers[tensor.name]
                for group in groups
                if group.direction is Direction.TO_HOST and group.made_by is producer
                for tensor in group.tensors
                if tensor.name in numbers
            ]
            for act, producer in ((Act.PREPARE, Producer.PREPARE), (Act.UPDATE, Producer.UPDATE))
        }
        self._inbox = [
            numbers[tensor.name]
            for group in groups
            if group.direction is Direction.TO_DEVICE
            for tensor in group.tensors
            if tensor.name in numbers
        ]
        self.found: list[tuple[HazardCode, int, int]] = []
        self._issued: Clock = {}
        self._clocks: dict[int, Clock] = {_HOST: {}}  # by stream; the host's is what it knows to be done
        self._events: dict[int, Clock] = {}
        self._records: dict[int, int] = {}
        self._unguarded: dict[int, list[_Buffer]] = {}  # by stream, copied since its last record
        self._buffers: dict[int, _Buffer] = {}
        self._tensors: dict[int, _Tensor] = {}
        self._kernel_before: Clock = {}  # what came before the newest kernel that makes tensors
        self._published: dict[tuple[int, int], _Published] = {}
        self._waited: set[int] | None = None  # events waited for straight before the reads that follow
        self._before_waits: Clock = {}  # what the host knew before them

    def follow(self, row: _Row) -> None:
        """Take in the next act."""
        handler = getattr(self, f"_{row.act.value}")
        handler(row)
        if row.act not in (Act.READ, Act.WAIT, Act.POLL, Act.DRIFT):
            self._waited = None

    def _report(self, code: HazardCode, row: _Row, tensor: int | None = None) -> None:
        self.found.append((code, row.step, row.tensor if tensor is None else tensor))

    def _clock(self, stream: int) -> Clock:
        return self._clocks.setdefault(stream, {})

    def _queue(self, stream: int) -> tuple[_Work, Clock]:
        """Return a new operation of the stream and what is ordered before it."""
        clock = self._clock(stream)
        _join(clock, self._clocks[_HOST])  # the host knew it to be done when it queued this
        before = dict(clock)
        number = self._issued[stream] = self._issued.get(stream, 0) + 1
        clock[stream] = number
        return _Work(stream, number), before

    # Kernels

    def _prepare(self, row: _Row) -> None:
        self._run_kernel(row)

    def _update(self, row: _Row) -> None:
        if row.detail > 0:
            self._report(HazardCode.STALE_COUNT, row)
        self._run_kernel(row)

    def _forward(self, row: _Row) -> None:
        self._queue(row.stream)

    def _run_kernel(self, row: _Row) -> None:
        """Let the kernel overwrite its tensors: nothing may still be reading them."""
        work, before = self._queue(row.stream)
        self._kernel_before = before
        if row.act is Act.PREPARE:
            for number in self._inbox:
                self._read_tensor(number, row, work, before)
        for number in self._makes[row.act]:
            self._write_tensor(number, row, work, before)

    def _publish(self, row: _Row) -> None:
        # The acts between the kernel and this one are other publications of it, so the kernel is the newest.
        work = _Work(row.stream, self._issued[row.stream])
        self._land(row, work)
        published = self._published.setdefault((row.event, row.step), _Published(self._kernel_before, work))
        published.buffers.append(self._buffer(row.buffer))

    # Copies

    def _copy(self, row: _Row) -> None:
        work, before = self._queue(row.stream)
        self._read_tensor(row.tensor, row, work, before)
        self._land(row, work)
        buffer = self._buffer(row.buffer)
        self._unguarded.setdefault(row.stream, []).append(buffer)
        if buffer.is_pageable:
            # Asynchronous in name: the call returns when the bytes are there (CUDA runtime API, memcpy behaviour).
            _join(self._clocks[_HOST], self._clock(row.stream))

    def _land(self, row: _Row, work: _Work) -> None:
        """Let the work write the buffer: what is in it must have been read."""
        buffer = self._buffer(row.buffer)
        if buffer.is_unread:
            self._report(HazardCode.RING_TOO_SHALLOW, row)
            buffer.is_overwritten = True
        buffer.landing, buffer.is_unread, buffer.guard = work, True, None

    def _fetch(self, row: _Row) -> None:
        work, before = self._queue_legacy()
        self._read_tensor(row.tensor, row, work, before)
        self._buffer(row.buffer).landing = work

    def _upload(self, row: _Row) -> None:
        work, before = self._queue(row.stream)
        self._write_tensor(row.tensor, row, work, before)
        self._buffer(row.buffer).leaving.append(work)

    def _store(self, row: _Row) -> None:
        work, before = self._queue_legacy()
        self._write_tensor(row.tensor, row, work, before)

    def _queue_legacy(self) -> tuple[_Work, Clock]:
        """Return a blocking copy: behind all work of the compute stream, and done when its call returns."""
        work, before = self._queue(_COMPUTE)
        _join(self._clocks[_HOST], self._clock(_COMPUTE))
        return work, before

    def _read_tensor(self, number: int, row: _Row, work: _Work, before: Clock) -> None:
        tensor = self._tensor(number)
        if tensor.made is not None and not tensor.made.is_in(before):
            self._report(HazardCode.COPY_UNORDERED, row, number)
        tensor.readers.append(work)

    def _write_tensor(self, number: int, row: _Row, work: _Work, before: Clock) -> None:
        tensor = self._tensor(number)
        if any(not reader.is_in(before) for reader in tensor.readers):
            self._report(HazardCode.TENSOR_OVERWRITTEN, row, number)
        tensor.made, tensor.readers = work, []

    # Events and waits

    def _record(self, row: _Row) -> None:
        self._events[row.event] = dict(self._clock(row.stream))
        records = self._records[row.event] = self._records.get(row.event, 0) + 1
        for buffer in self._unguarded.pop(row.stream, []):
            buffer.guard = _Guard(row.event, records)

    def _stream_wait(self, row: _Row) -> None:
        _join(self._clock(row.stream), self._events[row.event])

    def _wait(self, row: _Row) -> None:
        self._begin_waits()
        _join(self._clocks[_HOST], self._events[row.event])
        self._waited = (self._waited or set()) | {row.event}

    def _begin_waits(self) -> None:
        if self._waited is None:
            self._before_waits = dict(self._clocks[_HOST])

    def _synchronize(self, row: _Row) -> None:
        _join(self._clocks[_HOST], self._clock(_COMPUTE))

    def _poll(self, row: _Row) -> None:
        # The number says that these values are there and that the kernel had begun, not that it has ended.
        self._begin_waits()
        published = self._published[row.event, row.detail]
        _join(self._clocks[_HOST], published.before)
        for buffer in published.buffers:
            if buffer.landing == published.work:
                buffer.landing = None
        self._waited = self._waited or set()

    # Host memory

    def _read(self, row: _Row) -> None:
        buffer, known = self._buffer(row.buffer), self._clocks[_HOST]
        if buffer.is_overwritten:
            # Reported when the copy was queued; that no wait was for it follows.  Its own values are still unread.
            buffer.is_overwritten = False
            return
        buffer.is_unread = False
        if buffer.landing is None or (self._waited is not None and buffer.landing.is_in(self._before_waits)):
            return  # whatever was waited for just now, it was there before
        guard = buffer.guard
        if guard is not None and guard.event in (self._waited or set()) and self._records[guard.event] > guard.records:
            self._report(HazardCode.EVENT_RECORDED_AGAIN, row)
        elif not buffer.landing.is_in(known):
            self._report(HazardCode.READ_BEFORE_FENCE if self._waited is None else HazardCode.WRONG_EVENT, row)

    def _write(self, row: _Row) -> None:
        buffer, known = self._buffer(row.buffer), self._clocks[_HOST]
        if buffer.landing is not None and not buffer.landing.is_in(known):
            self._report(HazardCode.WRITE_LOST, row)
        if any(not work.is_in(known) for work in buffer.leaving):
            self._report(HazardCode.SOURCE_REWRITTEN, row)
        buffer.leaving.clear()

    def _allocate(self, row: _Row) -> None:
        self._buffers[row.buffer] = _Buffer(is_pageable=row.detail == _PAGEABLE)

    def _release(self, row: _Row) -> None:
        buffer, known = self._buffer(row.buffer), self._clocks[_HOST]
        works = [*buffer.leaving, *([buffer.landing] if buffer.landing else [])]
        if any(not work.is_in(known) for work in works):
            self._report(HazardCode.BUFFER_RECYCLED, row)
        buffer.is_unread = False

    def _drift(self, row: _Row) -> None:
        self._report(HazardCode.PINNED_DRIFTED, row)

    def _buffer(self, number: int) -> _Buffer:
        return self._buffers.setdefault(number, _Buffer())

    def _tensor(self, number: int) -> _Tensor:
        return self._tensors.setdefault(number, _Tensor())


def _join(clock: Clock, other: Clock) -> None:
    """Add what the other knows."""
    for stream, number in other.items():
        if clock.get(stream, 0) < number:
            clock[stream] = number
