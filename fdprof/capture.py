"""The columnar Capture: what a tracer saw of a process, whichever tool it was.

Times are integer ns on one clock of the capture, sizes are bytes; -1 in an integer column means "not observed".
A million rows stay columns and never become a million objects.  No I/O here, and no knowledge of any format.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from fdprof.model import IntColumn, Schema, Table

NONE = -1
"""No such row, or not observed."""


class ApiKind(IntEnum):
    """What a host call asks of the device; `BLOCKING_API` says which of them make the host wait."""

    OTHER = 0
    LAUNCH = 1  # of one kernel
    GRAPH_LAUNCH = 2
    COPY = 3  # asynchronous by its name; judged by its own copy's time as well
    BLOCKING_COPY = 4  # synchronous by its name
    MEMSET = 5  # asynchronous to the host (CUDA runtime API, "API synchronization behavior")
    ALLOCATE = 6  # device or host memory, freeing it, host registration
    EVENT_RECORD = 7
    STREAM_WAIT = 8  # a stream told to wait for an event: the host goes on
    EVENT_QUERY = 9  # an event or a stream asked whether it is done: the host goes on
    EVENT_WAIT = 10  # the host waits for an event
    STREAM_SYNC = 11  # the host waits for a stream
    DEVICE_SYNC = 12  # the host waits for a device or a context


WAIT_KINDS = frozenset({ApiKind.EVENT_WAIT, ApiKind.STREAM_SYNC, ApiKind.DEVICE_SYNC})
"""Calls that do nothing but wait."""

COPY_KINDS = frozenset({ApiKind.COPY, ApiKind.BLOCKING_COPY})

WORK_KINDS = frozenset({ApiKind.LAUNCH, ApiKind.GRAPH_LAUNCH, ApiKind.MEMSET}) | COPY_KINDS
"""Calls that give the device something to do, so that a device row is expected of each."""


class WorkKind(IntEnum):
    """What one row of device work is."""

    KERNEL = 0
    COPY = 1
    MEMSET = 2
    GRAPH = 3  # one launch of a whole graph, where the tracer did not look into it


class CopyDirection(IntEnum):
    """Which way a copy goes; UNKNOWN for other device work too."""

    UNKNOWN = 0
    TO_HOST = 1
    TO_DEVICE = 2
    ON_DEVICE = 3
    BETWEEN_DEVICES = 4
    ON_HOST = 5


class HostSide(IntEnum):
    """The host memory of a copy."""

    UNKNOWN = 0
    PAGEABLE = 1
    PINNED = 2
    MANAGED = 3


class RangeKind(IntEnum):
    """Where a range comes from: what a person marked, an operator of the framework, or a Python frame."""

    MARKER = 0
    OPERATOR = 1
    FRAME = 2


class Evidence(IntEnum):
    """How sure a statement is: read off the file, deduced from names, order or time, or neither."""

    UNKNOWN = 0
    INFERRED = 1
    PROVED = 2


API: Schema = {
    "name": "int32",
    "kind": "int8",
    "thread": "int32",
    "start_ns": "int64",
    "end_ns": "int64",
    "correlation": "int64",
}
"""Host calls into CUDA or HIP, by start. `name` indexes Capture.names, `kind` is an ApiKind, `thread` indexes
Capture.threads, `correlation` is the tracer's own id, unique within a process."""

DEVICE: Schema = {
    "kind": "int8",
    "name": "int32",
    "device": "int32",
    "stream": "int64",
    "start_ns": "int64",
    "end_ns": "int64",
    "api": "int64",
    "direction": "int8",
    "host_side": "int8",
    "size_bytes": "int64",
}
"""Device work, by start. `kind` is a WorkKind, `device` indexes Capture.devices, `api` is the row of API that issued it
(-1: not in the capture; many rows may share one call: a graph), `direction` is a CopyDirection, `host_side` a HostSide,
`size_bytes` of a copy or memset."""

UNTIMED_COPIES: Schema = {"api": "int64", "direction": "int8", "host_side": "int8", "size_bytes": "int64"}
"""Copies of which the call is known and the time on the device is not, by row of API; columns as in DEVICE."""

RANGES: Schema = {
    "kind": "int8",
    "name": "int32",
    "domain": "int32",
    "thread": "int32",
    "start_ns": "int64",
    "end_ns": "int64",
    "payload": "int64",
}
"""Named ranges of host threads, by start, the longer first. `kind` is a RangeKind, `domain` indexes Capture.names (-1:
none), `payload` is a number given with the range (-1: none)."""

LINKS: Schema = {"wait": "int64", "record": "int64", "stream": "int64", "event": "int64", "evidence": "int8"}
"""What a wait waited for. `wait` is a row of API, `record` the row of API that recorded the awaited event (-1: unknown
or no event), `stream` the awaited stream (-1: unknown or all), `event` the tracer's id of the event, `evidence` an
Evidence of the record."""

EVENT_RECORDS: Schema = {"api": "int64", "event": "int64", "stream": "int64"}
"""Event records: the row of API, the tracer's id of the event (ids are used again) and the stream."""

OVERHEAD: Schema = {"thread": "int32", "start_ns": "int64", "end_ns": "int64"}
"""Times in which the tracer says that it held a thread up itself. `thread` may be -1."""


@dataclass(frozen=True, slots=True)
class Thread:
    """A host thread: the process's id as the tracer gives it, the thread's, and its name if it has one."""

    process: int
    thread: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class Device:
    """A device as one process numbers it; two processes may number the same card alike or differently."""

    process: int
    device: int
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Inflation:
    """How much longer a step is under the tracer than without it: ratio of mean steps, and its 95 % interval.

    `how` says in words what was held against what.
    """

    ratio: float
    interval: tuple[float, float] | None  # None: too few runs for one
    how: str


@dataclass(frozen=True, slots=True)
class Capture:
    """One or more processes as a tracer saw them.  `limits` says what the file cannot tell, or lost."""

    source: str  # the importer's name
    tool: str  # product and version, as the file gives them
    names: tuple[str, ...]
    threads: tuple[Thread, ...]
    devices: tuple[Device, ...]
    api: Table
    device: Table
    ranges: Table
    links: Table
    event_records: Table
    overhead: Table
    default_streams: frozenset[tuple[int, int]] = frozenset()  # (index into devices, stream): the legacy default stream
    non_blocking_streams: frozenset[tuple[int, int]] = frozenset()  # those that do not wait for it, where that is told
    untimed_copies: Table | None = None  # instead of device rows, of which copies then have none
    time_error_ns: int = 0  # how far a time may be off by the format's own rounding
    rows: int = 0  # rows of the file that were read
    inflation: Inflation | None = None  # None: not measured
    asked_limit_ns: int | None = None  # of a run: the shortest possible step, by the work that it was asked for
    limits: tuple[str, ...] = field(default=())

    @property
    def times_copies(self) -> bool:
        """Whether copies have device rows, so that the lack of one means something."""
        return self.untimed_copies is None

    def kinds(self, *wanted: ApiKind) -> npt.NDArray[np.bool_]:
        """Return which rows of API are of these kinds."""
        return np.isin(self.api["kind"], [int(kind) for kind in wanted])

    def process_of_threads(self) -> IntColumn:
        """Return the process of each thread."""
        return np.array([thread.process for thread in self.threads], dtype=np.int64)
