"""Puts the events of a chrome trace together as a Capture: what Kineto's and Paddle's files have in common."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.api_calls import kind_of
from fdprof.capture import (
    API,
    DEVICE,
    NONE,
    OVERHEAD,
    RANGES,
    WORK_KINDS,
    ApiKind,
    CopyDirection,
    Device,
    HostSide,
    RangeKind,
    Thread,
    WorkKind,
)
from fdprof.columns import Names, by_start, join_calls
from fdprof.importers._chrome import Event, Rows, Trace
from fdprof.model import IntColumn, Table

Columns = dict[str, npt.NDArray[Any]]

MAX_NAME = 10_000
"""Longer names are cut."""

_INT64 = 2**63
_NO_ID = 0xFFFFFFFF  # CUPTI's "none" of a stream or event id
# 868, "868", "868(C++)", "stream 7"; no two parts may match the same blanks, or long ones would take for ever
_ID = re.compile(r"(?:stream\s+)?(-?\d{1,18})\s*(?:\(.*\))?", re.ASCII | re.DOTALL)
_SIDE_OF_THREAD = re.compile(r"\((?:C\+\+|Python)\)$")  # Paddle names each host thread twice
_CUDA_NULL_STREAM, _HIP_NULL_STREAM = 7, 0

_DIRECTIONS = {
    "H>D": CopyDirection.TO_DEVICE,
    "H>A": CopyDirection.TO_DEVICE,
    "D>H": CopyDirection.TO_HOST,
    "A>H": CopyDirection.TO_HOST,
    "D>D": CopyDirection.ON_DEVICE,
    "A>D": CopyDirection.ON_DEVICE,
    "D>A": CopyDirection.ON_DEVICE,
    "A>A": CopyDirection.ON_DEVICE,
    "H>H": CopyDirection.ON_HOST,
    "P>P": CopyDirection.BETWEEN_DEVICES,
}
_DIRECTION = re.compile(r"(?:^|[ _])([HDAP])to([HDAP])\b")
_SIDES = re.compile(r"\((?P<source>[\w ]+) -> (?P<target>[\w ]+)\)")
_HOST_SIDES = {"pageable": HostSide.PAGEABLE, "pinned": HostSide.PINNED, "managed": HostSide.MANAGED}


def integer(value: Any) -> int:
    """Return the whole number that a field holds as a number or as text; -1 for anything else."""
    if type(value) is str:
        found = _ID.fullmatch(value.strip())
        return int(found[1]) if found else NONE
    if type(value) is int or (type(value) in (float, Decimal) and -_INT64 < value < _INT64 and value == int(value)):
        return int(value) if -_INT64 < value < _INT64 else NONE
    return NONE


def integers(values: Sequence[Any]) -> IntColumn:
    """Return a column of `integer`."""
    kinds = set(map(type, values))
    if kinds == {int, type(None)}:
        values, kinds = [NONE if value is None else value for value in values], {int}
    if kinds == {int} and max(values) < _INT64 and min(values) > -_INT64:
        return np.array(values, dtype=np.int64)
    if kinds == {type(None)}:
        return np.full(len(values), NONE, dtype=np.int64)
    return np.fromiter(map(integer, values), dtype=np.int64, count=len(values))


def identifier(values: Sequence[Any]) -> IntColumn:
    """Return a column of stream or event ids, -1 where CUPTI says that there is none."""
    column = integers(values)
    return np.where((column < 0) | (column >= _NO_ID), NONE, column).astype(np.int64)


def streams_of(parts: Sequence[tuple[WorkKind, Rows]]) -> IntColumn:
    """Return the stream of each row of device work: its own, or else its track's."""
    return identifier(
        [
            event.tid if event.args is None or event.args.stream is None else event.args.stream
            for _, rows in parts
            for event in rows.events
        ]
    )


def clean(name: str) -> str:
    """Return a name that can be written as UTF-8 and is of a bearable length."""
    if len(name) > MAX_NAME:
        name = name[:MAX_NAME] + "..."
    return name if name.isascii() else name.encode("utf-8", errors="replace").decode("utf-8")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


@lru_cache(maxsize=1024)
def copy_of(name: str, kind: str | None) -> tuple[CopyDirection, HostSide]:
    """Return what a copy's name and its `kind` say: 'Memcpy DtoH (Device -> Pinned)', 'MEMCPY_DtoH', kind 'DtoH'."""
    found = _DIRECTION.search(name) or (_DIRECTION.search(kind) if kind else None)
    direction = _DIRECTIONS.get(f"{found[1]}>{found[2]}", CopyDirection.UNKNOWN) if found else CopyDirection.UNKNOWN
    sides = _SIDES.search(name)
    if sides is None or direction not in (CopyDirection.TO_HOST, CopyDirection.TO_DEVICE):
        return direction, HostSide.UNKNOWN
    host = sides["target"] if direction is CopyDirection.TO_HOST else sides["source"]
    return direction, _HOST_SIDES.get(host.casefold(), HostSide.UNKNOWN)


@dataclass(slots=True)
class Calls:
    """The API table and what its rows are joined by."""

    table: Table
    process: IntColumn


class Assembler:
    """Numbers names, threads and devices of one trace, and makes its tables."""

    def __init__(self, trace: Trace) -> None:
        self.names = Names()
        self.threads: list[Thread] = []
        self.devices: list[Device] = []
        self._thread_of: dict[tuple[int, int], int] = {}
        self._other_ids: dict[Any, int] = {}
        self._thread_names: dict[tuple[int, int], str] = {}
        for event in trace.metadata:
            if event.name == "thread_name" and event.args is not None:
                name = event.args.name
                if isinstance(name, str) and name:
                    self._thread_names[(self._id(event.pid), self._id(event.tid))] = clean(
                        _SIDE_OF_THREAD.sub("", name.strip())
                    )
        self._device_names = _device_names(trace)
        names = set(self._device_names.values())
        # ROCm numbers the devices of the events otherwise than those of the header: cards of one kind have one name.
        self._any_device_name = names.pop() if len(names) == 1 else ""

    def named(self, texts: Sequence[str | None], change: Callable[[str], str] = clean) -> npt.NDArray[np.int32]:
        """Return the numbers of names."""
        numbers = {text: self.names.index(change(text or "")) for text in dict.fromkeys(texts)}
        return np.fromiter(map(numbers.__getitem__, texts), dtype=np.int32, count=len(texts))

    def thread_numbers(self, events: Sequence[Event]) -> npt.NDArray[np.int32]:
        """Return the number of each event's thread."""
        pids, tids = [event.pid for event in events], [event.tid for event in events]
        numbers = {pair: self.thread(*pair) for pair in dict.fromkeys(zip(pids, tids, strict=True))}
        if len(numbers) == 1:
            return np.full(len(pids), next(iter(numbers.values())), dtype=np.int32)
        return np.fromiter(map(numbers.__getitem__, zip(pids, tids, strict=True)), dtype=np.int32, count=len(pids))

    def thread(self, pid: Any, tid: Any) -> int:
        """Return the number of a thread by the file's ids."""
        key = (self._id(pid), self._id(tid))
        if key not in self._thread_of:
            self._thread_of[key] = len(self.threads)
            shown = clean(str(tid)) if tid in self._other_ids else ""
            self.threads.append(Thread(*key, self._thread_names.get(key, shown)))
        return self._thread_of[key]

    def processes(self, threads: npt.NDArray[np.int32]) -> IntColumn:
        """Return the process of each thread number."""
        every = np.array([thread.process for thread in self.threads], dtype=np.int64)
        return every[threads] if len(every) else np.zeros(0, dtype=np.int64)

    def _id(self, value: Any) -> int:
        """Return a process or thread id: the number it is or holds, -1 for none, below -1 for any other text."""
        number = integer(value)
        if number != NONE or value is None or value in (NONE, str(NONE)):
            return number
        return self._other_ids.setdefault(value, NONE - 1 - len(self._other_ids))

    def call_columns(self, rows: Rows, correlation: IntColumn, change: Callable[[str], str] = clean) -> Columns:
        """Return the columns of API, unsorted."""
        name = self.named([event.name for event in rows.events], change)
        every = self.names.all()
        kinds = np.zeros(len(every), dtype=np.int8)
        for number in np.flatnonzero(np.bincount(name)).tolist():  # of these names alone: each step may have its own
            kinds[number] = kind_of(every[number])
        return {
            "name": name,
            "kind": kinds[name] if len(name) else np.zeros(0, dtype=np.int8),
            "thread": self.thread_numbers(rows.events),
            "start_ns": rows.start_ns,
            "end_ns": rows.end_ns,
            "correlation": correlation,
        }

    def calls(self, columns: Columns) -> tuple[Calls, IntColumn]:
        """Return the API table, and the order its rows were taken in."""
        ordered, order = by_start(columns)
        table = Table.of(API, ordered)
        return Calls(table, self.processes(table["thread"])), order

    def hosts(self, calls: Calls, others: Iterable[Table], correlation: IntColumn) -> IntColumn:
        """Return the process that each row of device work belongs to, since the file gives only the device.

        It is the one whose call has the row's correlation id; of several, and where none has, the one with most calls.
        """
        columns = [calls.process, *(self.processes(table["thread"]) for table in others)]
        column = next((column for column in columns if len(column)), np.zeros(0, dtype=np.int64))
        found, counts = np.unique(column, return_counts=True)
        frequent = found[np.argsort(-counts, kind="stable")]
        if len(frequent) < 2 or not len(calls.process):
            return np.full(len(correlation), frequent[0] if len(frequent) else NONE, dtype=np.int64)
        rank = np.empty(len(found), dtype=np.int64)
        rank[np.argsort(-counts, kind="stable")] = np.arange(len(found))
        its = rank[np.searchsorted(found, calls.process)]
        known = calls.table["correlation"]
        order = np.lexsort((its, known))
        order = order[known[order] >= 0]
        if not len(order):
            return np.full(len(correlation), frequent[0], dtype=np.int64)
        # The first of equal ids is of the process with most calls.
        at = np.minimum(np.searchsorted(known[order], correlation, side="left"), len(order) - 1)
        host = np.where(known[order][at] == correlation, frequent[its[order][at]], frequent[0])
        return np.asarray(host, dtype=np.int64)

    def work(
        self,
        parts: Sequence[tuple[WorkKind, Rows]],
        calls: Calls,
        host: IntColumn,
        correlation: IntColumn,
        stream: IntColumn,
        change: Callable[[str], str] = clean,
    ) -> Table:
        """Return the DEVICE table of these rows, whose other columns follow one another in the same order."""
        events = [event for _, rows in parts for event in rows.events]
        args = [entry for _, rows in parts for entry in rows.args()]
        kind = np.concatenate([np.full(len(rows.events), int(kind), dtype=np.int8) for kind, rows in parts])
        numbers = [
            (event.pid if entry.device is None else entry.device) for event, entry in zip(events, args, strict=True)
        ]
        copies = np.flatnonzero(kind == WorkKind.COPY)
        what = [copy_of(events[row].name or "", _text(args[row].kind)) for row in copies.tolist()]
        direction, host_side = np.zeros(len(kind), dtype=np.int8), np.zeros(len(kind), dtype=np.int8)
        direction[copies] = [pair[0] for pair in what]
        host_side[copies] = [pair[1] for pair in what]
        size = integers([entry.bytes for entry in args])
        columns: Columns = {
            "kind": kind,
            "name": self.named([event.name for event in events], change),
            "device": self._numbered_devices(host, integers(numbers)),
            "stream": stream,
            "start_ns": np.concatenate([rows.start_ns for _, rows in parts]),
            "end_ns": np.concatenate([rows.end_ns for _, rows in parts]),
            "api": join_calls(calls.process, calls.table["correlation"], host, correlation),
            "direction": direction,
            "host_side": host_side,
            # A writer that prints bytes as a 32-bit int makes sizes of 2 GiB and more negative.
            "size_bytes": np.maximum(np.where(size < NONE, size + (1 << 32), size), NONE),
        }
        return Table.of(DEVICE, by_start(columns)[0])

    def _numbered_devices(self, process: IntColumn, device: IntColumn) -> npt.NDArray[np.int32]:
        pairs, numbers = np.unique(np.stack((process, device)), axis=1, return_inverse=True)
        self.devices = [
            Device(process_id, number, self._device_name(number)) for process_id, number in pairs.T.tolist()
        ]
        return np.asarray(numbers.reshape(-1), dtype=np.int32)

    def _device_name(self, device: int) -> str | None:
        return self._device_names.get(device, self._any_device_name) or None

    def ranges(self, parts: Sequence[tuple[RangeKind, Rows, Callable[[str], str]]]) -> Table:
        """Return the RANGES table."""
        count = sum(len(rows.events) for _, rows, _ in parts)
        columns: Columns = {
            "kind": np.concatenate([np.full(len(rows.events), int(kind), dtype=np.int8) for kind, rows, _ in parts]),
            "name": np.concatenate(
                [self.named([event.name for event in rows.events], change) for _, rows, change in parts]
            ),
            "domain": np.full(count, NONE, dtype=np.int32),
            "thread": np.concatenate([self.thread_numbers(rows.events) for _, rows, _ in parts]),
            "start_ns": np.concatenate([rows.start_ns for _, rows, _ in parts]),
            "end_ns": np.concatenate([rows.end_ns for _, rows, _ in parts]),
            "payload": np.full(count, NONE, dtype=np.int64),
        }
        return Table.of(RANGES, by_start(columns)[0])

    def overhead(self, rows: Rows) -> Table:
        """Return the OVERHEAD table; the tracer's own thread (pid -1) is none of the process's."""
        known = [event for event in rows.events if integer(event.pid) >= 0]
        numbers = iter(self.thread_numbers(known).tolist())
        thread = [next(numbers) if integer(event.pid) >= 0 else NONE for event in rows.events]
        columns: Columns = {
            "thread": np.array(thread, dtype=np.int32),
            "start_ns": rows.start_ns,
            "end_ns": rows.end_ns,
        }
        return Table.of(OVERHEAD, by_start(columns)[0])

    def default_streams(self, is_hip: bool) -> frozenset[tuple[int, int]]:
        """Return the legacy default stream of each device: neither format says it, CUPTI numbers it 7, HIP 0."""
        return frozenset(
            (index, _HIP_NULL_STREAM if is_hip else _CUDA_NULL_STREAM) for index in range(len(self.devices))
        )


def timed_work(parts: Sequence[tuple[WorkKind, Rows]]) -> tuple[list[tuple[WorkKind, Rows]], list[str]]:
    """Return the rows of device work that have a time, and what to say of the others.

    CUPTI gives 0 for both ends where it could not take a time (CUpti_ActivityKernel, "start").
    """
    timed = [(kind, rows.where((rows.start_ns != 0) | (rows.end_ns != 0))) for kind, rows in parts]
    count = sum(len(rows.events) for _, rows in parts) - sum(len(rows.events) for _, rows in timed)
    return timed, [f"{count:,} device rows begin and end at time 0, which means no time, left out"] if count else []


def work_limits(calls: Table, device: Table, issued: IntColumn) -> list[str]:
    """Return what is missing between host calls and device work; `issued` is each call's row of work, -1 for none."""
    limits = []
    works = np.isin(calls["kind"], [int(kind) for kind in WORK_KINDS])
    without = int((works & (issued == NONE)).sum())
    if not len(calls) and not len(device):
        return ["no CUDA or HIP call and no device activity in this file: it shows the host alone"]
    if not len(calls):
        limits.append("device activity but no host call in this file: nothing can be said of the host's waits")
    elif not len(device):
        limits.append(
            f"host calls but no device activity in this file ({without:,} launches, copies and memsets): "
            "the device was not traced, which does not mean an idle device"
        )
    elif without:
        limits.append(f"{without:,} of {int(works.sum()):,} launches, copies and memsets without device activity")
    alone = int((device["api"] == NONE).sum()) if len(calls) else 0
    if alone:
        limits.append(f"{alone:,} of {len(device):,} device rows without the host call that issued them")
    return limits


def is_hip(trace: Trace, calls: Table, names: Sequence[str]) -> bool:
    """Return whether the device is driven by HIP."""
    about = trace.about
    return (
        about.hip_runtime_version is not None
        or about.roctracer_version is not None
        or any(names[number].startswith("hip") for number in np.unique(calls["name"]).tolist())
    )


def host_waits(calls: Table, *kinds: ApiKind) -> bool:
    """Return whether there are calls of these kinds."""
    return bool(np.isin(calls["kind"], [int(kind) for kind in kinds]).any())


def _device_names(trace: Trace) -> dict[int, str]:
    found = trace.about.deviceProperties or trace.about.computeProperties
    return {
        integer(entry.get("id")): clean(entry["name"])
        for entry in (found if isinstance(found, list) else ())
        if isinstance(entry, dict) and isinstance(entry.get("name"), str)
    }
