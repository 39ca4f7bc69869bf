"""Turns a running loop into host calls, ranges and steps, and emits the ranges as NVTX.

It sees the modes' calls from outside, by standing in for the device, and knows only the backend protocol.
Its own cost is measured by benchmarks/recorder_cost.py.
"""

from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
import nvtx

from fdprof.backends.protocol import DeviceLoop, Event, HostBuffer
from fdprof.model import CALLS, RANGES, CallKind, CallSite, Capture, Memory, Table, TensorSpec

NVTX_DOMAIN = "fdprof"

_STEP, _FENCE = "step", "fence"


class Range:
    """A named stretch of the step's thread; enter and leave it once at a time."""

    __slots__ = ("_append", "_attributes", "_clock", "_index", "_pop", "_push", "_start", "last")

    def __init__(self, recorder: "Recorder", name: str, detail: str) -> None:
        self._index = recorder.range_index(name, detail)
        self._append = recorder.ranges.append
        self._clock = recorder.clock
        self._push, self._pop = recorder.domain.push_range, recorder.domain.pop_range
        # Cached: building attributes costs ten times what emitting them does.  None when no NVTX tool listens.
        self._attributes = recorder.attributes(name, detail)
        self._start = 0
        self.last = (0, 0)  # start and end of the pass that ended last, ns

    def __enter__(self) -> "Range":
        if self._attributes is not None:
            self._push(self._attributes)
        self._start = self._clock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        end = self._clock()
        self._append((self._index, self._start, end))
        self.last = (self._start, end)
        if self._attributes is not None:
            self._pop()


class Recorder:
    """Collects rows while the loop runs and makes tables of them afterwards."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self.clock = clock
        self.domain = nvtx.get_domain(NVTX_DOMAIN)
        self.calls: list[tuple[int, int, int]] = []
        self.ranges: list[tuple[int, int, int]] = []
        self._sites: list[CallSite] = []
        self._range_names: list[str] = []
        self._range_objects: dict[tuple[str, str], Range] = {}
        self._step_starts: list[int] = []
        self._step_ends: list[int] = []
        self._step_attributes = self.attributes(_STEP, "")

    def attributes(self, name: str, detail: str) -> Any:
        """Return cached NVTX attributes with the detail as category, or None when no NVTX tool listens."""
        return self.domain.get_event_attributes(message=name, category=detail or None)

    @property
    def nvtx_listens(self) -> bool:
        return self._step_attributes is not None

    def range_index(self, name: str, detail: str) -> int:
        """Return a new index for a range name; the detail follows a colon."""
        self._range_names.append(f"{name}:{detail}" if detail else name)
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
        if self._step_attributes is not None:
            self._step_attributes.payload = k
            self.domain.push_range(self._step_attributes)
        self._step_starts.append(self.clock())

    def end_step(self) -> None:
        self._step_ends.append(self.clock())
        if self._step_attributes is not None:
            self.domain.pop_range()

    def capture(self, kernels: Table, reads: Table) -> Capture:
        """Return everything recorded, each row with the step whose window it started in."""
        starts = np.array(self._step_starts, dtype=np.int64)
        return Capture(
            call_sites=tuple(self._sites),
            range_names=tuple(self._range_names),
            calls=Table.of(CALLS, _with_step(self.calls, "call", starts)),
            ranges=Table.of(RANGES, _with_step(self.ranges, "range", starts)),
            kernels=kernels,
            reads=reads,
            step_starts_ns=starts,
            step_ends_ns=np.array(self._step_ends, dtype=np.int64),
        )


def _with_step(
    rows: list[tuple[int, int, int]], index_name: str, starts: npt.NDArray[np.int64]
) -> dict[str, npt.NDArray[np.int64]]:
    matrix = np.array(rows, dtype=np.int64).reshape(len(rows), 3)
    step = np.searchsorted(starts, matrix[:, 1], side="right") - 1
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
        self._recorder = recorder
        self._clock = recorder.clock
        self._append = recorder.calls.append
        self._forward = recorder.call_site("forward", CallKind.LAUNCH)
        self._update = recorder.call_site("update", CallKind.LAUNCH)
        self._record = recorder.call_site("record", CallKind.RECORD)
        self._wait = recorder.call_site("wait", CallKind.WAIT)
        self._synchronize = recorder.call_site("synchronize", CallKind.WAIT)
        # By tensor name, one a method: a key with the kind in it would cost an Enum's hash in every call.
        self._copies = _Sites(recorder, "copy", CallKind.COPY)
        self._fetches = _Sites(recorder, "fetch", CallKind.BLOCKING_COPY)
        self._reads = _Sites(recorder, "read", CallKind.READ)
        self._fence = recorder.range(_FENCE)

    def forward(self) -> None:
        start = self._clock()
        self._device.forward()
        self._append((self._forward, start, self._clock()))

    def update(self) -> None:
        start = self._clock()
        self._device.update()
        self._append((self._update, start, self._clock()))

    def copy(self, spec: TensorSpec, into: HostBuffer) -> None:
        site = self._copies[spec.name]
        start = self._clock()
        self._device.copy(spec, into)
        self._append((site, start, self._clock()))

    def fetch(self, spec: TensorSpec) -> HostBuffer:
        site = self._fetches[spec.name]
        start = self._clock()
        buffer = self._device.fetch(spec)
        self._append((site, start, self._clock()))
        return buffer

    def read(self, buffer: HostBuffer) -> Any:
        site = self._reads[buffer.spec.name]
        start = self._clock()
        value = self._device.read(buffer)
        self._append((site, start, self._clock()))
        return value

    def record(self, event: Event) -> None:
        start = self._clock()
        self._device.record(event)
        self._append((self._record, start, self._clock()))

    def wait(self, event: Event) -> None:
        with self._fence as fence:
            self._device.wait(event)
        self._append((self._wait, *fence.last))

    def synchronize(self) -> None:
        with self._fence as fence:
            self._device.synchronize()
        self._append((self._synchronize, *fence.last))

    # Outside the timed loop: nothing to record.

    def host_buffer(self, spec: TensorSpec, memory: Memory) -> HostBuffer:
        return self._device.host_buffer(spec, memory)

    def event(self) -> Event:
        return self._device.event()

    def hold(self) -> None:
        self._device.hold()

    def release(self) -> None:
        self._device.release()

    def stamps(self) -> npt.NDArray[np.int64]:
        return self._device.stamps()

    def close(self) -> None:
        self._device.close()
