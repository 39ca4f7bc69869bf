"""Tiny makers, so that each test shows only what matters to it.  Tests get this module as the fixture `build`."""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from fdprof import capture as seen
from fdprof.analysis.steps import Steps
from fdprof.api_calls import kind_of
from fdprof.backends.protocol import HostBuffer, tensor_spec
from fdprof.columns import Names, by_start
from fdprof.comparison import NO_TRACER, Blocked, Side
from fdprof.model import (
    CALLS,
    JOURNAL,
    KERNELS,
    RANGES,
    READS,
    WAITS,
    Block,
    BlockLog,
    CallKind,
    CallSite,
    ClockInfo,
    Environment,
    Group,
    Memory,
    Run,
    Table,
    TensorSpec,
    TokenCheck,
)
from fdprof.profiles.profile import CardCosts, DeviceProfile, HostCosts

SITES = tuple(CallSite(kind.value, kind, "") for kind in CallKind)
"""One call site a kind, in the order of CallKind."""

ENVIRONMENT = Environment(fdprof="0", python="3", os="os", cpu="cpu", cpu_count=1)


class FakeClock:
    """A clock that stands still until it is set."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class FakeDevice:
    """A device loop whose every call takes 7 ns of the fake clock; `fails` names the call that raises instead."""

    def __init__(self, clock: FakeClock, fails: str = "") -> None:
        self._clock, self._fails = clock, fails

    def _spend(self, name: str) -> None:
        self._clock.now += 7
        if name == self._fails:
            raise RuntimeError(name)

    def forward(self) -> None:
        self._spend("forward")

    def prepare(self) -> None:
        self._spend("prepare")

    def update(self, launch_tokens: int = -1, stream: object = None) -> None:
        self._spend("update")

    def copy(self, spec: TensorSpec, into: HostBuffer, stream: object = None) -> None:
        self._spend("copy")

    def fetch(self, spec: TensorSpec) -> str:
        self._spend("fetch")
        return f"fetched {spec.name}"

    def upload(self, spec: TensorSpec, source: HostBuffer, stream: object = None) -> None:
        self._spend("upload")

    def store(self, spec: TensorSpec, source: HostBuffer) -> None:
        self._spend("store")

    def write(self, buffer: HostBuffer, values: object) -> None:
        self._spend("write")

    def host_buffer(self, spec: TensorSpec, memory: Memory) -> str:
        self._spend("host_buffer")
        return f"buffer of {spec.name}"

    def record(self, event: object, stream: object = None) -> None:
        self._spend("record")

    def stream_wait(self, event: object, stream: object = None) -> None:
        self._spend("stream_wait")

    def poll(self, publication: object, step: int) -> None:
        self._spend("poll")

    def wait(self, event: object) -> None:
        self._spend("wait")

    def synchronize(self) -> None:
        self._spend("synchronize")


def outputs(sequences: int) -> Group:
    """Return the group of stop_flag: tokens, then the flag."""
    return Group("outputs", (tensor_spec("sampled_token_ids", sequences), tensor_spec("not_need_stop", sequences)))


def a_log(
    starts: Sequence[int],
    last_end: int,
    calls: Sequence[tuple[CallKind, int, int, int]] = (),
    kernels: Sequence[tuple[int, int]] = (),
    reads: Sequence[tuple[int, ...]] = (),
    ranges: Sequence[tuple[str, int, int, int]] = (),
    waits: Sequence[tuple[int, ...]] = (),
    journal: Sequence[tuple[int, ...]] = (),
    tensor_names: Sequence[str] = (),
) -> BlockLog:
    """Return a block log of steps at `starts`, with rows as annotated.

    Calls are (kind, start, end, step), kernels (start, end), ranges (name, start, end, step); reads, waits and journal
    as in READS, WAITS and JOURNAL.
    """
    kinds, names = list(CallKind), sorted({name for name, *_ in ranges})
    return BlockLog(
        call_sites=SITES,
        range_names=tuple(names),
        calls=Table.of_rows(CALLS, [(kinds.index(kind), start, end, step) for kind, start, end, step in calls]),
        ranges=Table.of_rows(RANGES, [(names.index(name), start, end, step) for name, start, end, step in ranges]),
        kernels=Table.of_rows(KERNELS, [(0, index, start, end) for index, (start, end) in enumerate(kernels)]),
        reads=Table.of_rows(READS, reads),
        waits=Table.of_rows(WAITS, waits),
        journal=Table.of_rows(JOURNAL, journal),
        tensor_names=tuple(tensor_names),
        step_starts_ns=np.array(starts, dtype=np.int64),
        # Each step's own range ends 1 ns before the next starts: a window that used it would be 1 ns short.
        step_ends_ns=np.array([*(start - 1 for start in starts[1:]), last_end], dtype=np.int64),
    )


def a_block(log: BlockLog, warmup: int = 0, steps: int | None = None, index: int = 0, **tokens: Any) -> Block:
    """Return a block of right tokens; `tokens` overrides fields of its check."""
    check = {
        "values": 4,
        "right": 4,
        "reads": 2,
        "stale_reads": 0,
        "wrong_reads": 0,
        "first_wrong": None,
        "overrun_tokens": 0,
        "stop_seen": True,
    }
    return Block(
        index=index,
        position=index,
        warmup=warmup,
        steps=len(log.step_starts_ns) - warmup if steps is None else steps,
        log=log,
        clock=ClockInfo("host", "device", "method", 10 + index, None),
        tokens=TokenCheck(**(check | tokens)),
    )


def a_run(*blocks: Block, **changes: Any) -> Run:
    """Return a run of these blocks; `changes` overrides its other fields."""
    fields: dict[str, Any] = {
        "id": "a-run",
        "scenario": "stop_flag",
        "mode": "sync",
        "backend": "sim",
        "created": "2025-01-01T00:00:00+00:00",
        "params": {"sequences": 2, "kernels": 1},
        "groups": (outputs(2),),
        "memory": Memory.PAGEABLE,
        "lag": 0,
        "environment": ENVIRONMENT,
        "device_work_ns": 50,
        "host_work_ns": 20,
        "caveats": (),
    }
    return Run(**(fields | changes), blocks=blocks)


_POSITIONS = itertools.count()


def a_side(*blocks: Sequence[int], **changes: Any) -> Side:
    """Return a side with these step times, ns, one list a block.

    All sides are of one call unless `changes` says so, and no two of them share a position in it.
    """
    fields: dict[str, Any] = {
        "label": "side",
        "source": "sim",
        "fields": {"tracer": NO_TRACER},
        "call": "one call",
        "positions": tuple(next(_POSITIONS) for _ in blocks),
        "windows_ns": tuple(np.array(block, dtype=np.int64) for block in blocks),
        "left_out": 0,
        "parts_ns": None,
        "blocked": Blocked(0, 0),
        "means_ns": {},
        "limit_ns": None,
        "tokens": None,
        "is_right": None,
        "doubts": (),
    }
    return Side(**(fields | changes))


_WORK = {
    "kernel": (seen.WorkKind.KERNEL, seen.CopyDirection.UNKNOWN),
    "memset": (seen.WorkKind.MEMSET, seen.CopyDirection.UNKNOWN),
    "graph": (seen.WorkKind.GRAPH, seen.CopyDirection.UNKNOWN),
    "D2H": (seen.WorkKind.COPY, seen.CopyDirection.TO_HOST),
    "H2D": (seen.WorkKind.COPY, seen.CopyDirection.TO_DEVICE),
    "D2D": (seen.WorkKind.COPY, seen.CopyDirection.ON_DEVICE),
}


def _filled(row: Sequence[Any], *defaults: Any) -> tuple[Any, ...]:
    """Return a row of three cells or more with defaults for those it lacks."""
    return (*row, *defaults[len(row) - 3 :])


def a_capture(
    calls: Sequence[tuple[Any, ...]] = (),
    work: Sequence[tuple[Any, ...]] = (),
    ranges: Sequence[tuple[Any, ...]] = (),
    links: Sequence[tuple[int, ...]] = (),
    records: Sequence[tuple[int, int, int]] = (),
    overhead: Sequence[tuple[int, int, int]] = (),
    unit: int = 1,
    **changes: Any,
) -> seen.Capture:
    """Return what a tracer saw, in the notation of the public reports; times are in `unit` ns.

    Calls are (name, start, end[, thread[, correlation]]).  Work is (what, start, end[, call[, stream[, device]]]), what
    being 'kernel', 'kernel gemm', 'graph', 'memset 64', 'D2H pageable 4', 'H2D pinned 128' or 'D2D 8', and call the
    number of the call among `calls` (None: not in the capture).  Ranges are (name, start, end[, kind[, thread[,
    payload[, domain]]]]).  Links (wait, record, stream, event, evidence) and records (call, event, stream) name calls
    by their number too, -1 for none.  All threads and devices are of process 1; `changes` overrides other fields.
    """
    names = Names()
    calls = [_filled(call, 0, number) for number, call in enumerate(calls)]
    work = [_filled(row, None, 7, 0) for row in work]
    ranges = [_filled(row, seen.RangeKind.MARKER, 0, seen.NONE, "") for row in ranges]
    api, order = _by_start(
        seen.API,
        [
            (names.index(name), kind_of(name), thread, start * unit, end * unit, id_)
            for name, start, end, thread, id_ in calls
        ],
    )
    row_of = np.append(np.argsort(order), seen.NONE)  # of a call's number; of -1 it is -1
    device = []
    for what, start, end, call, stream, number in work:
        first, *rest = what.split()
        side = next((side for side in seen.HostSide if side.name.lower() in rest), seen.HostSide.UNKNOWN)
        sizes = [] if first == "kernel" else [int(word) for word in rest if word.isdecimal()]  # a kernel has a name
        size_bytes = next(iter(sizes), seen.NONE)
        kind, direction = _WORK[first]
        issued = row_of[seen.NONE if call is None else call]
        device.append(
            (kind, names.index(what), number, stream, start * unit, end * unit, issued, direction, side, size_bytes)
        )
    marks = [
        (
            kind,
            names.index(name),
            names.index(domain) if domain else seen.NONE,
            thread,
            start * unit,
            end * unit,
            payload,
        )
        for name, start, end, kind, thread, payload, domain in ranges
    ]
    threads = 1 + max([call[3] for call in calls] + [row[4] for row in ranges], default=0)
    fields: dict[str, Any] = {
        "source": "builders",
        "tool": "tests",
        "threads": tuple(seen.Thread(1, 11 + thread) for thread in range(threads)),
        "devices": tuple(seen.Device(1, device) for device in range(1 + max([row[5] for row in work], default=0))),
    }
    return seen.Capture(
        api=api,
        device=_by_start(seen.DEVICE, device)[0],
        ranges=_by_start(seen.RANGES, marks)[0],
        links=Table.of_rows(seen.LINKS, [(row_of[wait], row_of[record], *rest) for wait, record, *rest in links]),
        event_records=Table.of_rows(seen.EVENT_RECORDS, [(row_of[call], *rest) for call, *rest in records]),
        overhead=Table.of_rows(seen.OVERHEAD, [(thread, start * unit, end * unit) for thread, start, end in overhead]),
        names=names.all(),
        **(fields | changes),
    )


def a_loop(
    steps: int,
    length: int,
    calls: Sequence[tuple[Any, ...]] = (),
    work: Sequence[tuple[Any, ...]] = (),
    ranges: Sequence[tuple[Any, ...]] = (),
    unit: int = 1_000,
    **more: Any,
) -> seen.Capture:
    """Return a capture of steps that are all alike, `length` long and each in a range decode_step; times in µs.

    The call of a row of work is the number of the call within its step; `more` is not repeated.
    """

    def at(step: int, row: tuple[Any, ...]) -> tuple[Any, ...]:
        return (row[0], row[1] + step * length, row[2] + step * length, *row[3:])

    def issued(step: int, row: tuple[Any, ...]) -> tuple[Any, ...]:
        _, _, _, call, *rest = _filled(row, None)
        return (*row[:3], None if call is None else call + step * len(calls), *rest)

    numbers = range(steps)
    return a_capture(
        [at(step, call) for step in numbers for call in calls],
        [at(step, issued(step, row)) for step in numbers for row in work],
        [at(step, row) for step in numbers for row in [("decode_step", 0, length), *ranges]],
        unit=unit,
        **more,
    )


def _by_start(schema: Any, rows: Sequence[tuple[Any, ...]]) -> tuple[Table, Any]:
    columns, order = by_start(Table.of_rows(schema, rows).columns)
    return Table.of(schema, columns), order


def windows(*spans: tuple[int, int], thread: int = 0, unit: int = 1) -> Steps:
    """Return steps with these windows, on this thread of a capture."""
    starts, ends = (np.array([span[at] for span in spans], dtype=np.int64) * unit for at in (0, 1))
    return Steps(thread, starts, ends, np.arange(len(spans)), seen.Evidence.PROVED, "a test")


def round_profile() -> DeviceProfile:
    """Return a profile of round, made-up costs.  No copy of the tests is large enough to be bound by bandwidth."""
    card = CardCosts(
        kernel_start_ns=600,
        kernel_gap_ns=100,
        kernel_overhead_ns=0,
        update_ns=300,
        kernel_to_copy_ns=500,
        copy_to_copy_ns=100,
        copy_to_kernel_ns=300,
        copy_start_ns=200,
        copy_floor_ns=150,
        copy_bytes_per_us=1_000_000,
        wake_ns=250,
        staging_floor_ns=240,
        staging_bytes_per_us=1_000_000,
        launch_queue_depth=1024,
        prepare_ns=200,
        graph_start_ns=700,
        graph_node_gap_ns=40,
        stream_wait_ns=120,
        h2d_floor_ns=160,
        publish_ns=60,
        publish_visible_ns=80,
        wake_poll_ns=270,
        wake_yield_ns=400,
        wake_blocking=((1000, 2000, 500), (11_000, 4000, 100)),
    )
    host = HostCosts(
        launch_call_ns=50,
        kernel_launch_ns=20,
        copy_call_ns=1000,
        fetch_before_ns=3000,
        fetch_after_ns=2000,
        record_ns=70,
        wait_call_ns=50,
        read_flag_ns=30,
        read_array_ns=150,
        work_call_ns=10,
        between_calls_ns=10,
        graph_launch_ns=90,
        upload_call_ns=1100,
        store_before_ns=2500,
        store_after_ns=1500,
        allocate_pinned_ns=900,
        allocate_bytes_per_us=1_000_000,
        release_ns=0,
        cold_ns=0,
        poll_call_ns=40,
        write_flag_ns=25,
        write_array_ns=130,
        read_bytes_per_us=1_000_000,
    )
    return DeviceProfile("round", "made-up GPU", "made-up framework", "this file", card, host)
