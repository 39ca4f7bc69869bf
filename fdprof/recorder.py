"""Turns a running loop into host calls, ranges and steps, and lets those hear the ranges who hear markers.

It sees the modes' calls from outside, by standing in for the device, and knows only the backend protocol.
Its own cost is measured by benchmarks/recorder_cost.py.
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof import markers
from fdprof.backends.protocol import DeviceLoop, Event, HostBuffer, Publication, Stream
from fdprof.errors import ScenarioFailed
from fdprof.model import CALLS, JOURNAL, RANGES, WAITS, BlockLog, CallKind, CallSite, Group, Memory, Table, TensorSpec

_FENCE = "fence"

_PAGEABLE = Memory.PAGEABLE  # a member looked up in each call would cost as much as the clock

_WAITS_A_CPU_SAMPLE = 7
"""A prime, so that the samples go round a step's waits, however many it has."""


class Range:
    """A named stretch of the step's thread; enter and leave it once at a time."""

    __slots__ = ("_append", "_begin", "_clock", "_detail", "_end", "_heard_by", "_index", "_name", "_start", "last")

    def __init__(self, recorder: "Recorder", name: str, detail: str) -> None:
        self._index = recorder.range_index(name, detail)
        self._append = recorder.ranges.append
        self._clock = recorder.clock
        self._name, self._detail = name, detail
        self._hear(markers.listener)
        self._start = 0
        self.last = (0, 0)  # start and end of the pass that ended last, ns

    def _hear(self, listener: markers.Listener | None) -> None:
        """Have the range heard by these.  Kept, because making an NVTX range costs ten times what emitting it does."""
        self._heard_by = listener
        self._begin = None if listener is None else listener.target.beginning(self._name, self._detail or None)
        self._end = None if listener is None else listener.target.end

    def __enter__(self) -> "Range":
        if markers.listener is not self._heard_by:
            self._hear(markers.listener)
        if self._begin is not None:
            self._begin()
        self._start = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end = self._clock()
        self._append((self._index, self._start, end))
        self.last = (self._start, end)
        if self._end is not None:
            self._end()


class Recorder:
    """Collects rows while the loop runs and makes tables of them afterwards."""

    def __init__(self, clock: Callable[[], int], thread_cpu: Callable[[], int]) -> None:
        self.clock = clock
        self.thread_cpu = thread_cpu
        self.calls: list[tuple[int, int, int]] = []
        self.ranges: list[tuple[int, int, int]] = []
        self.waits: list[tuple[int, int, int]] = []  # start, end, CPU time in ns, -1 where it was not sampled
        self._waited_for: list[tuple[int, int, int, int]] = []  # first and last wait, group, value step
        self._sites: list[CallSite] = []
        self._range_names: list[str] = []
        self._range_objects: dict[tuple[str, str], Range] = {}
        self._step_starts: list[int] = []
        self._step_ends: list[int] = []
        self._end_of_step: Callable[[], None] | None = None  # of those who heard it begin

    def range_index(self, name: str, detail: str) -> int:
        """Return a new index for a range name; the detail follows a colon."""
        shown = f"{name}:{detail}" if detail else name
        if not shown.isprintable():
            raise ScenarioFailed(f"a range is named {shown!r}", "name ranges in characters that can be printed")
        self._range_names.append(shown)
        return len(self._range_names) - 1

    def range(self, name: str, detail: str = "") -> Range:
        """Return the range of that name, the same object each time."""
        key = (name, detail)
        found = self._range_objects.get(key)
        if found is None:
            found = self._range_objects[key] = Range(self, name, detail)
        return found

    def call_site(self, name: str, kind: CallKind, subject: str = "") -> int:
        """Return a new index for a host call."""
        self._sites.append(CallSite(name, kind, subject))
        return len(self._sites) - 1

    def begin_step(self, k: int) -> None:
        listener = markers.listener
        if listener is None:
            self._end_of_step = None
        else:
            self._end_of_step = listener.target.end
            listener.target.begin_step(k)
        self._step_starts.append(self.clock())

    def end_step(self) -> None:
        self._step_ends.append(self.clock())
        if self._end_of_step is not None:
            self._end_of_step()

    def waited_for(self, first: int, group: int, value_step: int) -> None:
        """Say for which group's values of which step the waits from number `first` on were."""
        self._waited_for.append((first, len(self.waits), group, value_step))

    def log(
        self, kernels: Table, reads: Table, journal: Table | None = None, tensor_names: tuple[str, ...] = ()
    ) -> BlockLog:
        """Return everything recorded, each row with the step whose window it started in."""
        starts = np.array(self._step_starts, dtype=np.int64)
        return BlockLog(
            call_sites=tuple(self._sites),
            range_names=tuple(self._range_names),
            calls=Table.of(CALLS, _with_step(self.calls, "call", starts)),
            ranges=Table.of(RANGES, _with_step(self.ranges, "range", starts)),
            kernels=kernels,
            reads=reads,
            waits=self._wait_table(starts),
            journal=Table.of_rows(JOURNAL, []) if journal is None else journal,
            tensor_names=tensor_names,
            step_starts_ns=starts,
            step_ends_ns=np.array(self._step_ends, dtype=np.int64),
        )

    def _wait_table(self, starts: npt.NDArray[np.int64]) -> Table:
        rows = np.array(self.waits, dtype=np.int64).reshape(len(self.waits), 3)
        group, value_step = np.full(len(rows), -1), np.full(len(rows), -1)
        for first, last, its_group, its_step in self._waited_for:
            group[first:last], value_step[first:last] = its_group, its_step
        columns = {"start_ns": rows[:, 0], "end_ns": rows[:, 1], "cpu_ns": rows[:, 2]}
        step = np.searchsorted(starts, rows[:, 0], side="right") - 1
        return Table.of(WAITS, columns | {"step": step, "group": group, "value_step": value_step})


def _with_step(
    rows: list[tuple[int, int, int]], index_name: str, starts: npt.NDArray[np.int64]
) -> dict[str, npt.NDArray[np.int64]]:
    matrix = np.array(rows, dtype=np.int64).reshape(len(rows), 3)
    step = np.searchsorted(starts, matrix[:, 1], side="right") - 1
    # What came before the first step belongs to the setting-up.
    matrix, step = matrix[step >= 0], step[step >= 0]
    return {index_name: matrix[:, 0], "start_ns": matrix[:, 1], "end_ns": matrix[:, 2], "step": step}


class _Sites(dict[str, int]):
    """Call sites of one kind by tensor name, made at first use."""

    def __init__(self, recorder: Recorder, name: str, kind: CallKind) -> None:
        super().__init__()
        self._new: Callable[[str], int] = lambda subject: recorder.call_site(name, kind, subject)

    def __missing__(self, subject: str) -> int:
        self[subject] = self._new(subject)
        return self[subject]


class RecordedDevice:
    """A device loop whose calls are recorded; it is given to the mode in place of the real one."""

    def __init__(self, device: DeviceLoop, recorder: Recorder) -> None:
        self._device = device
        self._clock = recorder.clock
        self._thread_cpu = recorder.thread_cpu
        self._append = recorder.calls.append
        self._waits = recorder.waits
        self._prepare = recorder.call_site("prepare", CallKind.LAUNCH)
        self._forward = recorder.call_site("forward", CallKind.LAUNCH)
        self._update = recorder.call_site("update", CallKind.LAUNCH)
        self._record = recorder.call_site("record", CallKind.RECORD)
        self._stream_wait = recorder.call_site("stream_wait", CallKind.RECORD)
        self._wait = recorder.call_site("wait", CallKind.WAIT)
        self._synchronize = recorder.call_site("synchronize", CallKind.WAIT)
        self._poll = recorder.call_site("poll", CallKind.WAIT)
        # By tensor name, one a method: a key with the kind in it would cost an Enum's hash in every call.
        self._copies = _Sites(recorder, "copy", CallKind.COPY)
        self._pageable_copies = _Sites(recorder, "copy", CallKind.BLOCKING_COPY)
        self._uploads = _Sites(recorder, "upload", CallKind.COPY)
        self._fetches = _Sites(recorder, "fetch", CallKind.BLOCKING_COPY)
        self._stores = _Sites(recorder, "store", CallKind.BLOCKING_COPY)
        self._reads = _Sites(recorder, "read", CallKind.READ)
        self._writes = _Sites(recorder, "write", CallKind.WRITE)
        self._allocations = _Sites(recorder, "allocate", CallKind.ALLOCATE)
        self._releases = _Sites(recorder, "release", CallKind.ALLOCATE)
        self._fence = recorder.range(_FENCE)

    def prepare(self) -> None:
        start = self._clock()
        self._device.prepare()
        self._append((self._prepare, start, self._clock()))

    def forward(self) -> None:
        start = self._clock()
        self._device.forward()
        self._append((self._forward, start, self._clock()))

    def update(self, launch_tokens: int = -1, stream: Stream | None = None) -> None:
        start = self._clock()
        self._device.update(launch_tokens, stream)
        self._append((self._update, start, self._clock()))

    def host_buffer(self, spec: TensorSpec, memory: Memory) -> HostBuffer:
        site = self._allocations[spec.name]
        start = self._clock()
        buffer = self._device.host_buffer(spec, memory)
        self._append((site, start, self._clock()))
        return buffer

    def release_buffer(self, buffer: HostBuffer) -> None:
        site = self._releases[buffer.spec.name]
        start = self._clock()
        self._device.release_buffer(buffer)
        self._append((site, start, self._clock()))

    def copy(self, spec: TensorSpec, into: HostBuffer, stream: Stream | None = None) -> None:
        # Whatever its name says, a copy to pageable memory returns when it has ended.
        site = (self._pageable_copies if into.memory is _PAGEABLE else self._copies)[spec.name]
        start = self._clock()
        self._device.copy(spec, into, stream)
        self._append((site, start, self._clock()))

    def fetch(self, spec: TensorSpec) -> HostBuffer:
        site = self._fetches[spec.name]
        start = self._clock()
        buffer = self._device.fetch(spec)
        self._append((site, start, self._clock()))
        return buffer

    def upload(self, spec: TensorSpec, source: HostBuffer, stream: Stream | None = None) -> None:
        site = self._uploads[spec.name]
        start = self._clock()
        self._device.upload(spec, source, stream)
        self._append((site, start, self._clock()))

    def store(self, spec: TensorSpec, source: HostBuffer) -> None:
        site = self._stores[spec.name]
        start = self._clock()
        self._device.store(spec, source)
        self._append((site, start, self._clock()))

    def read(self, buffer: HostBuffer) -> Any:
        site = self._reads[buffer.spec.name]
        start = self._clock()
        value = self._device.read(buffer)
        self._append((site, start, self._clock()))
        return value

    def write(self, buffer: HostBuffer, values: npt.NDArray[Any]) -> None:
        site = self._writes[buffer.spec.name]
        start = self._clock()
        self._device.write(buffer, values)
        self._append((site, start, self._clock()))

    def record(self, event: Event, stream: Stream | None = None) -> None:
        start = self._clock()
        self._device.record(event, stream)
        self._append((self._record, start, self._clock()))

    def stream_wait(self, event: Event, stream: Stream | None = None) -> None:
        start = self._clock()
        self._device.stream_wait(event, stream)
        self._append((self._stream_wait, start, self._clock()))

    def wait(self, event: Event) -> None:
        cpu = self._cpu_before()
        with self._fence as fence:
            self._device.wait(event)
        self._waited(self._wait, fence, cpu)

    def synchronize(self) -> None:
        cpu = self._cpu_before()
        with self._fence as fence:
            self._device.synchronize()
        self._waited(self._synchronize, fence, cpu)

    def poll(self, publication: Publication, step: int) -> None:
        cpu = self._cpu_before()
        with self._fence as fence:
            self._device.poll(publication, step)
        self._waited(self._poll, fence, cpu)

    def _cpu_before(self) -> int | None:
        """Return the thread's CPU time for one wait in seven: unlike the clock it is a system call, up to 1 µs."""
        return None if len(self._waits) % _WAITS_A_CPU_SAMPLE else self._thread_cpu()

    def _waited(self, site: int, fence: Range, cpu_before_ns: int | None) -> None:
        cpu_ns = -1 if cpu_before_ns is None else self._thread_cpu() - cpu_before_ns
        start, end = fence.last
        self._append((site, start, end))
        self._waits.append((start, end, cpu_ns))

    # Outside the timed loop, or not part of what a mode does: nothing to record.

    def publish(self, group: Group, slots: Sequence[Sequence[HostBuffer]]) -> Publication:
        return self._device.publish(group, slots)

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

    def stream(self) -> Stream:
        return self._device.stream()

    def hold(self) -> None:
        self._device.hold()

    def release(self) -> None:
        self._device.release()

    def stamps(self) -> npt.NDArray[np.int64]:
        return self._device.stamps()

    def close(self) -> None:
        self._device.close()
