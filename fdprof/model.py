"""The frozen records at the centre: what a step moves, what was recorded, what was found.

Times are integer nanoseconds on the host clock of the run, sizes are bytes, and None means "not observed", never zero.
No I/O, no Paddle, no pandas here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.errors import FdprofError

IntColumn = npt.NDArray[np.int64]


class Memory(Enum):
    """Where the host side of a transfer lies, and so whether the copy can be asynchronous at all."""

    PAGEABLE = "pageable"  # a copy blocks its caller until it has ended, whatever its name
    PINNED = "pinned"  # page-locked: the copy engine can write it while the host goes on
    MAPPED = "mapped"  # page-locked and addressable by kernels
    UNKNOWN = "unknown"  # the source of this record cannot tell


class CallKind(Enum):
    """What a recorded host call does to the host thread."""

    LAUNCH = "launch"  # returns once the work is queued
    COPY = "copy"  # returns once the copy is queued
    BLOCKING_COPY = "blocking_copy"  # returns when the value is where it goes
    RECORD = "record"  # event record, or a stream told to wait for an event: the host does not wait
    WAIT = "wait"  # fence: returns when the event, the stream or the polled sequence number is there
    READ = "read"  # host memory only
    WRITE = "write"  # host memory only
    ALLOCATE = "allocate"  # host memory; page-locking new memory may wait for the device


class Direction(Enum):
    """Which way a group's transfers go."""

    TO_HOST = "device to host"
    TO_DEVICE = "host to device"


class Producer(Enum):
    """The kernel that makes the values of a group to the host."""

    PREPARE = "prepare"  # pre-processing, before the forward pass
    UPDATE = "update"  # sampling and update, after it


class WaitStyle(Enum):
    """How the host thread waits at a fence."""

    SPIN = "spin"  # cudaEventSynchronize that spins in the driver
    BLOCKING = "blocking"  # cudaEventBlockingSync: the thread sleeps, and wakes later
    POLL = "poll"  # query, again and again
    YIELD = "yield"  # query, and give the core to others between two queries


class Launch(Enum):
    """How the kernels of a forward pass are launched."""

    KERNELS = "kernels"  # one launch a kernel
    GRAPH = "graph"  # captured once as a CUDA graph and replayed


HOST_RANGE = "host"
"""The range a scenario puts its own host work in; a detail may follow, as in host:schedule."""

BLOCKING_KINDS = frozenset({CallKind.BLOCKING_COPY, CallKind.WAIT})
"""Calls in which the host cannot go on until the device gets somewhere (`host blocked`)."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One tensor that a step moves between device and host."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def elements(self) -> int:
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        return self.elements * np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class Group:
    """Transfers that share one event and one place where the host reads them (or, to the device, writes them).

    `needed_in_step`: the engine needs the values in the step that makes them, so no mode may defer their read.
    `per_step`: names of the tensors whose pinned buffers are made anew for each copy and dropped after the read.
    `op_memory`: an op of the engine carries the group itself, into that memory, and synchronises the stream at once,
    whatever the mode is; None: the mode carries it.
    """

    name: str
    tensors: tuple[TensorSpec, ...]
    direction: Direction = Direction.TO_HOST
    made_by: Producer = Producer.UPDATE
    needed_in_step: bool = False
    per_step: tuple[str, ...] = ()
    op_memory: Memory | None = None

    @property
    def size_bytes(self) -> int:
        return sum(tensor.size_bytes for tensor in self.tensors)


Schema = Mapping[str, str]

CALLS: Schema = {"call": "int32", "start_ns": "int64", "end_ns": "int64", "step": "int32"}
"""Host calls. `call` indexes BlockLog.call_sites; `step` is the window the call started in."""

RANGES: Schema = {"range": "int32", "start_ns": "int64", "end_ns": "int64", "step": "int32"}
"""Named ranges of the step's thread. `range` indexes BlockLog.range_names."""

KERNELS: Schema = {"step": "int32", "kernel": "int32", "start_ns": "int64", "end_ns": "int64"}
"""Kernels by their own device stamps, on the host clock. `kernel` counts within the step; the last is the update."""

READS: Schema = {
    "step": "int32",
    "value_step": "int32",
    "group": "int32",
    "right": "int32",
    "stale": "int32",
    "wrong": "int32",
    "digest": "int64",
}
"""One row a read of a group: at `step` the host took the values of `value_step`; values right, stale and wrong, and a
digest of all of them, by which two runs' streams are compared (-1: a run saved before there were digests)."""


WAITS: Schema = {
    "start_ns": "int64",
    "end_ns": "int64",
    "cpu_ns": "int64",
    "step": "int32",
    "group": "int32",
    "value_step": "int32",
}
"""Fences: the wait as in CALLS, the CPU time that the waiting thread used in it (thread time, not wall time; -1 where
it was not sampled), and the group and step whose values it was for; -1 for both where it was for none (a guard before
memory is reused)."""

JOURNAL: Schema = {
    "act": "int32",
    "step": "int32",
    "stream": "int32",
    "tensor": "int32",
    "buffer": "int32",
    "event": "int32",
    "detail": "int64",
}
"""What the step's thread asked of the device and did to host memory, in program order; kept only in an audited run.

`act` indexes Act; `tensor` indexes BlockLog.tensor_names; streams, buffers and events are numbered as they appear,
-1 where the act has none.  Stream 0 is the compute stream.  `detail` is said at each act.
"""


class Act(Enum):
    """One act of the journal.  Device work is queued in its stream and runs in that stream's order."""

    PREPARE = "prepare"  # a kernel; it writes the tensors of PREPARE groups
    FORWARD = "forward"  # kernels that touch no transferred tensor
    UPDATE = "update"  # a kernel; it writes the tensors of UPDATE groups; detail: launch_tokens, -1 for all
    COPY = "copy"  # queued, tensor to buffer
    FETCH = "fetch"  # blocking, tensor to buffer, on the legacy default stream
    UPLOAD = "upload"  # queued, buffer to tensor
    STORE = "store"  # blocking, buffer to tensor, on the legacy default stream
    PUBLISH = "publish"  # the kernel before it in this step also writes tensor to the mapped buffer
    RECORD = "record"
    STREAM_WAIT = "stream_wait"  # later work of the stream waits for the event
    WAIT = "wait"  # the host waits for the event
    SYNCHRONIZE = "synchronize"  # the host waits for the stream
    POLL = "poll"  # the host waits for the number that follows the published values; detail: the values' step
    READ = "read"  # the host reads the buffer; detail: elements that still held the poison
    WRITE = "write"  # the host writes the buffer
    ALLOCATE = "allocate"  # detail: index of the buffer's Memory
    RELEASE = "release"  # the buffer's memory may be handed out again
    DRIFT = "drift"  # the buffer was found in other memory than it was made in; detail: index of that Memory


class HazardCode(Enum):
    """What can go wrong with an asynchronous transfer, by the order of what was done; `meaning` says it in words."""

    meaning: str

    def __new__(cls, value: str, meaning: str) -> HazardCode:
        code = object.__new__(cls)
        code._value_ = value
        code.meaning = meaning
        return code

    READ_BEFORE_FENCE = "read-before-fence", "the host read a buffer and had not waited for the copy into it"
    WRONG_EVENT = "wrong-event", "the host waited for an event that says nothing of the copy it then read"
    EVENT_RECORDED_AGAIN = (
        "event-recorded-again",
        "the awaited event was recorded again since it guarded the copy, so the wait is for later work",
    )
    RING_TOO_SHALLOW = "ring-too-shallow", "a copy was queued into a buffer whose values had not been read"
    SOURCE_REWRITTEN = "source-rewritten", "the host wrote a buffer that a copy to the device may still have to read"
    BUFFER_RECYCLED = "buffer-recycled", "memory was given back that a copy may still write or read"
    WRITE_LOST = "write-lost", "the host wrote a buffer that a copy from the device may still overwrite"
    PINNED_DRIFTED = "pinned-drifted", "a host buffer was found on the device"
    STALE_COUNT = "stale-count", "fewer rows were launched for than were active"
    COPY_UNORDERED = "copy-unordered", "a copy read a tensor without waiting for the kernel that makes it"
    TENSOR_OVERWRITTEN = "tensor-overwritten", "a kernel overwrote a tensor that a copy may still be reading"


@dataclass(frozen=True, slots=True)
class Hazard:
    """One act that the order of a block did not make safe.

    `is_proved`: a value that was not right was read in the same step; otherwise the harm is possible by the order of
    the acts, and this time the timing prevented it or nothing looked.
    """

    code: HazardCode
    step: int
    tensor: str | None
    is_proved: bool


@dataclass(frozen=True, slots=True)
class Table:
    """Columns of one length with declared names and dtypes."""

    columns: Mapping[str, npt.NDArray[Any]]

    @classmethod
    def of(cls, schema: Schema, columns: Mapping[str, npt.ArrayLike]) -> Table:
        """Return the table of `columns` under `schema`; FdprofError when one is missing, extra or uneven."""
        if set(columns) != set(schema):
            raise FdprofError(f"table has columns {sorted(columns)}, expected {sorted(schema)}")
        arrays = {name: np.ascontiguousarray(columns[name], dtype=dtype) for name, dtype in schema.items()}
        lengths = {len(array) for array in arrays.values()}
        if len(lengths) > 1:
            raise FdprofError(f"table columns differ in length: {sorted(lengths)}")
        return cls(arrays)

    @classmethod
    def of_rows(cls, schema: Schema, rows: Sequence[tuple[int, ...]]) -> Table:
        """Return the table of row tuples whose order is the schema's."""
        matrix = np.array(rows, dtype=np.int64).reshape(len(rows), len(schema))
        return cls.of(schema, {name: matrix[:, i] for i, name in enumerate(schema)})

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self.columns[name]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Table):
            return NotImplemented
        return self.columns.keys() == other.columns.keys() and all(
            np.array_equal(self[name], other[name]) for name in self.columns
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class CallSite:
    """A host call as the recorder names it: `copy sampled_token_ids`, kind COPY."""

    name: str
    kind: CallKind
    subject: str  # the tensor or group it is about; empty where it is about none


@dataclass(frozen=True, slots=True)
class BlockLog:
    """What one block recorded, raw.  Everything else is derived from it."""

    call_sites: tuple[CallSite, ...]
    range_names: tuple[str, ...]
    calls: Table
    ranges: Table
    kernels: Table
    reads: Table
    waits: Table
    journal: Table  # empty unless the run was audited
    tensor_names: tuple[str, ...]
    step_starts_ns: IntColumn  # [launched steps]
    step_ends_ns: IntColumn  # [launched steps], the end of each step's own range

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BlockLog):
            return NotImplemented
        return (
            (self.call_sites, self.range_names, self.tensor_names)
            == (other.call_sites, other.range_names, other.tensor_names)
            and all(
                getattr(self, name) == getattr(other, name)
                for name in ("calls", "ranges", "kernels", "reads", "waits", "journal")
            )
            and np.array_equal(self.step_starts_ns, other.step_starts_ns)
            and np.array_equal(self.step_ends_ns, other.step_ends_ns)
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True)
class ClockInfo:
    """How device stamps were put on the host clock of one block.

    `error_ns` bounds the distance of an aligned stamp from the true host time; `drift_ppm` is what the two clocks
    drifted apart between the alignment before and the one after, None where there was only one.
    """

    host_domain: str
    device_domain: str
    method: str
    error_ns: int
    drift_ppm: float | None


@dataclass(frozen=True, slots=True)
class WrongValue:
    """The first value of a block that the reference does not have there.  `sequence` is None for a value of no row."""

    step: int
    sequence: int | None
    tensor: str
    expected: float  # an int for integer tensors and flags
    got: float


@dataclass(frozen=True, slots=True)
class TokenCheck:
    """What the host read in one block against the reference of fdprof.tokens.

    `values` counts what had to be read (every tensor of every step up to the stop, and what was read beyond), `right`
    what was.  A read of a group is stale when a value in it is the one of an earlier step or the buffer's initial one,
    and wrong when a value is of no step.  `overrun_tokens` were computed after a sequence's stop was known on the
    device but not yet on the host.
    """

    values: int
    right: int
    reads: int
    stale_reads: int
    wrong_reads: int
    first_wrong: WrongValue | None
    overrun_tokens: int
    stop_seen: bool

    @property
    def is_right(self) -> bool:
        return self.values == self.right and self.stop_seen


@dataclass(frozen=True, slots=True)
class GpuState:
    """What NVML said of the GPU at one moment; None where it would not say.

    `throttle`: why the clocks were not higher then, by NVML's names (nvml.h, nvmlClocksEventReason*).
    """

    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    temperature_c: int | None
    power_mw: int | None
    throttle: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Block:
    """One pass of the loop: warm-up steps, counted steps, and any overrun steps after the stop."""

    index: int
    position: int  # where it ran among all blocks of the call, so that interleaving can be seen
    warmup: int
    steps: int
    log: BlockLog
    clock: ClockInfo
    tokens: TokenCheck
    gpu: tuple[GpuState, ...] = ()  # before and after it; empty where nothing could be read


@dataclass(frozen=True, slots=True)
class Environment:
    """Where a run was made.  Unknown entries are None."""

    fdprof: str
    python: str
    os: str
    cpu: str
    cpu_count: int | None
    gpu: str | None = None
    driver: str | None = None
    cuda: str | None = None
    paddle: str | None = None
    profile: str | None = None  # the simulator's device profile
    nvtx: bool = False  # an NVTX tool was listening


@dataclass(frozen=True, slots=True)
class DeviceWork:
    """`kernel_ns` to ask each kernel for, and the step's device work in ns that this gives, as measured."""

    kernel_ns: int
    step_ns: int


@dataclass(frozen=True, slots=True)
class Run:
    """One scenario in one mode on one backend: one or more blocks."""

    id: str
    scenario: str
    mode: str
    backend: str
    created: str  # ISO 8601, UTC
    params: Mapping[str, Any]
    groups: tuple[Group, ...]
    memory: Memory
    lag: int
    environment: Environment
    device_work_ns: int  # one step's device work queued back to back, measured before the loop
    host_work_ns: int  # one step's host work
    caveats: tuple[str, ...]
    fault: str | None = None  # of the hazard laboratory; the run is wrong on purpose
    audited: bool = False  # its blocks have a journal
    interrupted: bool = False
    call: str = ""  # the same for runs whose blocks one call interleaved; empty: not known
    work: DeviceWork | None = None  # what its kernels were asked for, before times are drawn; None: not known
    blocks: tuple[Block, ...] = field(default=(), repr=False)

    @property
    def is_simulated(self) -> bool:
        return self.environment.profile is not None

    @property
    def limit_ns(self) -> int:
        """The shortest possible step: the longer of the step's device work and host work."""
        return max(self.device_work_ns, self.host_work_ns)

    def memory_of(self, group: Group) -> Memory:
        """Return the host memory of a group: mapped memory serves only what goes to the host."""
        if group.op_memory is not None:
            return group.op_memory
        if group.direction is Direction.TO_DEVICE and self.memory is Memory.MAPPED:
            return Memory.PINNED
        return self.memory

    @property
    def counted_steps(self) -> int:
        """The counted steps that ran: a loop that reads a wrong flag stops early."""
        return sum(min(block.steps, max(len(block.log.step_starts_ns) - block.warmup, 0)) for block in self.blocks)


@dataclass(frozen=True, slots=True)
class Summary:
    """A sample of one quantity; ns unless its name says otherwise.  None where nothing was observed."""

    count: int
    mean: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None
    max_step: int | None  # index of the step with the largest value
