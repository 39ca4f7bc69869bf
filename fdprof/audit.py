"""Watches a mode's calls to the device for hazards: keeps a journal of them, and poisons buffers before each copy.

It stands in for the device like the recorder does.  An audited run's tokens are checked more sharply, because a read
that came before its copy finds the poison even where the older value would look right; its times include the audit.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.backends.protocol import POISON_BYTE, DeviceLoop, Event, HostBuffer, Publication, Stream
from fdprof.model import JOURNAL, Act, Group, Memory, Producer, Table, TensorSpec

_ACTS = {act: number for number, act in enumerate(Act)}
_MEMORIES = {memory: number for number, memory in enumerate(Memory)}
_ON_DEVICE = -1
_NONE = -1


@dataclass(slots=True)
class _Published:
    """A publication and what it writes where."""

    number: int
    publication: Publication
    group: Group
    slots: Sequence[Sequence[HostBuffer]]


class Audit:
    """A device loop whose calls are journalled (backends.protocol.DeviceLoop); `step` is set by who runs the loop."""

    def __init__(self, device: DeviceLoop) -> None:
        self.step = 0
        self._device = device
        self._rows: list[tuple[int, ...]] = []
        self._tensors: dict[str, int] = {}
        self._numbers: dict[int, int] = {}
        self._kept: list[object] = []  # an object that died could give its id to another
        self._published: list[_Published] = []
        self._poisoned: set[str] = set()
        self._drifted: set[int] = set()

    @property
    def tensor_names(self) -> tuple[str, ...]:
        return tuple(self._tensors)

    def take_poisoned(self) -> frozenset[str]:
        """Return the tensors that were read with poison in them since the last call."""
        found = frozenset(self._poisoned)
        self._poisoned.clear()
        return found

    def journal(self, active_rows: npt.NDArray[np.int64]) -> Table:
        """Return what happened, with the rows that each update was launched for too few of as its detail.

        `active_rows`: how many rows were active at each step, by the reference.
        """
        table = Table.of_rows(JOURNAL, self._rows)
        updates = table["act"] == _ACTS[Act.UPDATE]
        launched = table["detail"][updates]
        active = active_rows[table["step"][updates]]
        table["detail"][updates] = np.where(launched < 0, 0, np.maximum(active - launched, 0))
        return table

    def _number(self, thing: object) -> int:
        found = self._numbers.get(id(thing))
        if found is None:
            found = self._numbers[id(thing)] = len(self._kept)
            self._kept.append(thing)
        return found

    def _note(
        self,
        act: Act,
        stream: Stream | None = None,
        spec: TensorSpec | None = None,
        buffer: HostBuffer | None = None,
        event: int = _NONE,
        detail: int = 0,
    ) -> None:
        self._rows.append(
            (
                _ACTS[act],
                self.step,
                0 if stream is None else 1 + self._number(stream),
                _NONE if spec is None else self._tensors.setdefault(spec.name, len(self._tensors)),
                _NONE if buffer is None else self._number(buffer),
                event,
                detail,
            )
        )

    def prepare(self) -> None:
        self._device.prepare()
        self._note(Act.PREPARE)
        self._note_published(Producer.PREPARE, None)

    def forward(self) -> None:
        self._device.forward()
        self._note(Act.FORWARD)

    def update(self, launch_tokens: int = -1, stream: Stream | None = None) -> None:
        self._device.update(launch_tokens, stream)
        self._note(Act.UPDATE, stream, detail=launch_tokens)
        self._note_published(Producer.UPDATE, stream)

    def _note_published(self, producer: Producer, stream: Stream | None) -> None:
        for published in self._published:
            if published.group.made_by is producer:
                buffers = published.slots[self.step % len(published.slots)]
                for buffer in buffers:
                    self._note(Act.PUBLISH, stream, buffer.spec, buffer, published.number)

    def host_buffer(self, spec: TensorSpec, memory: Memory) -> HostBuffer:
        buffer = self._device.host_buffer(spec, memory)
        self._note(Act.ALLOCATE, None, spec, buffer, detail=_MEMORIES[memory])
        return buffer

    def release_buffer(self, buffer: HostBuffer) -> None:
        self._note(Act.RELEASE, None, buffer.spec, buffer)
        self._device.release_buffer(buffer)

    def copy(self, spec: TensorSpec, into: HostBuffer, stream: Stream | None = None) -> None:
        self._device.poison(into)
        self._device.copy(spec, into, stream)
        self._note(Act.COPY, stream, spec, into)

    def fetch(self, spec: TensorSpec) -> HostBuffer:
        buffer = self._device.fetch(spec)
        self._note(Act.FETCH, None, spec, buffer)
        return buffer

    def upload(self, spec: TensorSpec, source: HostBuffer, stream: Stream | None = None) -> None:
        self._device.upload(spec, source, stream)
        self._note(Act.UPLOAD, stream, spec, source)

    def store(self, spec: TensorSpec, source: HostBuffer) -> None:
        self._device.store(spec, source)
        self._note(Act.STORE, None, spec, source)

    def publish(self, group: Group, slots: Sequence[Sequence[HostBuffer]]) -> Publication:
        publication = self._device.publish(group, slots)
        self._published.append(_Published(self._number(publication), publication, group, slots))
        for slot in slots:
            self._poison(slot)
        return publication

    def poll(self, publication: Publication, step: int) -> None:
        self._device.poll(publication, step)
        self._note(Act.POLL, event=self._number(publication), detail=step)

    def read(self, buffer: HostBuffer) -> Any:
        # A flag comes back as a bool, so that its byte must be looked at before.
        is_flag_poisoned = buffer.spec.size_bytes == 1 and self._device.poisoned(buffer) > 0
        value = self._device.read(buffer)
        poisoned = int(is_flag_poisoned) if isinstance(value, bool) else _poisoned_elements(value)
        if poisoned:
            self._poisoned.add(buffer.spec.name)
        self._note(Act.READ, None, buffer.spec, buffer, detail=poisoned)
        now = self._device.memory_of(buffer)
        if now is not buffer.memory and id(buffer) not in self._drifted:
            self._drifted.add(id(buffer))
            detail = _ON_DEVICE if now is None else _MEMORIES[now]
            self._note(Act.DRIFT, None, buffer.spec, buffer, detail=detail)
        if buffer.memory is Memory.MAPPED:
            self._poison([buffer])  # here, because the kernel that writes it next is launched before anything is copied
        return value

    def _poison(self, buffers: Iterable[HostBuffer]) -> None:
        for buffer in buffers:
            self._device.poison(buffer)

    def write(self, buffer: HostBuffer, values: npt.NDArray[Any]) -> None:
        self._note(Act.WRITE, None, buffer.spec, buffer)
        self._device.write(buffer, values)

    def index(self, buffer: HostBuffer) -> None:
        self._device.index(buffer)

    def memory_of(self, buffer: HostBuffer) -> Memory | None:
        return self._device.memory_of(buffer)

    def poison(self, buffer: HostBuffer) -> None:
        self._device.poison(buffer)

    def poisoned(self, buffer: HostBuffer) -> int:
        return self._device.poisoned(buffer)

    def event(self) -> Event:
        return self._device.event()

    def record(self, event: Event, stream: Stream | None = None) -> None:
        self._device.record(event, stream)
        self._note(Act.RECORD, stream, event=self._number(event))

    def wait(self, event: Event) -> None:
        self._device.wait(event)
        self._note(Act.WAIT, event=self._number(event))

    def stream(self) -> Stream:
        return self._device.stream()

    def stream_wait(self, event: Event, stream: Stream | None = None) -> None:
        self._device.stream_wait(event, stream)
        self._note(Act.STREAM_WAIT, stream, event=self._number(event))

    def synchronize(self) -> None:
        self._device.synchronize()
        self._note(Act.SYNCHRONIZE)

    def hold(self) -> None:
        self._device.hold()

    def release(self) -> None:
        self._device.release()

    def stamps(self) -> npt.NDArray[np.int64]:
        return self._device.stamps()

    def close(self) -> None:
        self._device.close()


def _poisoned_elements(value: npt.NDArray[Any]) -> int:
    """Return how many elements of an array that was read are nothing but poison."""
    raw = np.ascontiguousarray(value).reshape(-1).view(np.uint8).reshape(value.size, value.itemsize)
    return int((raw == POISON_BYTE).all(axis=1).sum())
