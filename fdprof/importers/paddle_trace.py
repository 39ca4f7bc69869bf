"""Reads the chrome traces of paddle.profiler, schema 1.0.0 to 1.0.2."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from fdprof.capture import (
    EVENT_RECORDS,
    LINKS,
    NONE,
    WAIT_KINDS,
    ApiKind,
    Capture,
    RangeKind,
    WorkKind,
)
from fdprof.columns import join_calls
from fdprof.errors import InputError
from fdprof.importers._chrome import Rows, Trace, is_paddle_head, read_trace
from fdprof.importers._chrome_rows import (
    Assembler,
    clean,
    host_waits,
    integers,
    is_hip,
    streams_of,
    timed_work,
    work_limits,
)
from fdprof.importers.protocol import Progress
from fdprof.joinable import joinable
from fdprof.model import IntColumn, Table

_CALLS = ("cudaruntime",)
_WORK = {WorkKind.KERNEL: ("kernel",), WorkKind.COPY: ("memcpy",), WorkKind.MEMSET: ("memset",)}
_MARKERS = ("profilestep", "userdefined", "pythonuserdefined")
_OPERATORS = (
    "operator",
    "operatorinner",
    "dataloader",
    "forward",
    "backward",
    "optimization",
    "communication",
    "pythonop",
)

_DURATION = re.compile(r"\[[0-9.]+ (us|ms)\]$")
_RELATIVE = re.compile(r"(\d{1,12}(?:\.\d{1,9})?) us", re.ASCII)
_MAX_RELATIVE_US = 1e12
_ERROR_NS = 1000
"""ts is cut off at the µs; start_time is finer, but went through a 32-bit float."""

_FLOAT32_DIGITS = 24  # bits


class PaddleTraceImporter:
    """Chrome traces of paddle.profiler."""

    format = "paddle.profiler chrome trace (JSON or JSON.gz)"

    def sniff(self, path: Path, head: bytes) -> bool:
        return is_paddle_head(head)

    def read(self, path: Path, progress: Progress) -> Capture:
        trace = read_trace(path, progress)
        if not trace.is_paddle():
            raise InputError(
                f"{path} is a chrome trace, but not of paddle.profiler: its schemaVersion is no text",
                "let fdprof find the format by itself",
            )
        return capture_of(trace)


def capture_of(trace: Trace) -> Capture:
    """Return the capture of a trace that paddle.profiler wrote; InputError where a time cannot be used."""
    made = Assembler(trace)
    clock = _Clock(trace)
    called = clock.rows(_CALLS)
    parts, untimed = timed_work([(kind, clock.rows(categories)) for kind, categories in _WORK.items()])
    ranges = made.ranges(
        [
            (RangeKind.MARKER, clock.rows(_MARKERS), _plain),
            (RangeKind.OPERATOR, clock.rows(_OPERATORS), _plain),
        ]
    )
    correlation = integers([args.paddle_correlation for args in called.args()])
    calls, _ = made.calls(made.call_columns(called, correlation, _plain))
    args = [entry for _, rows in parts for entry in rows.args()]
    correlation = integers([entry.paddle_correlation for entry in args])
    host = made.hosts(calls, [ranges], correlation)
    streams = streams_of(parts)
    devices = integers([event.pid for _, rows in parts for event in rows.events])
    parts = _apart(parts, devices, streams)
    device = made.work(parts, calls, host, correlation, streams, _plain)
    issued = join_calls(host, correlation, calls.process, calls.table["correlation"])
    version = trace.about.schemaVersion
    capture = Capture(
        source="paddle_trace",
        tool=f"paddle.profiler schema {clean(version)[:20]}" if isinstance(version, str) else "paddle.profiler",
        names=made.names.all(),
        threads=tuple(made.threads),
        devices=tuple(made.devices),
        api=calls.table,
        device=device,
        ranges=ranges,
        links=Table.of_rows(LINKS, []),
        event_records=Table.of_rows(
            EVENT_RECORDS,
            [(row, NONE, NONE) for row in np.flatnonzero(calls.table["kind"] == ApiKind.EVENT_RECORD).tolist()],
        ),
        overhead=made.overhead(Rows([], *(np.zeros(0, dtype=np.int64),) * 2)),
        default_streams=made.default_streams(is_hip(trace, calls.table, made.names.all())),
        time_error_ns=_ERROR_NS,
        rows=len(trace.events),
        limits=(*_limits(calls.table, device, issued), *untimed),
    )
    return joinable(capture)


def _limits(calls: Table, device: Table, issued: IntColumn) -> list[str]:
    limits = work_limits(calls, device, issued)
    if (device["kind"] == WorkKind.COPY).any():
        limits.append("paddle.profiler does not say whether the host memory of a copy is pinned or pageable")
    if host_waits(calls, *WAIT_KINDS):
        limits.append(
            "paddle.profiler writes no synchronisation rows: waits are not joined to the events they wait for"
        )
    return limits


def _plain(name: str) -> str:
    """Return a name without the duration that Paddle puts behind it, which would make every name unique."""
    return clean(_DURATION.sub("", name))


class _Clock:
    """The finer of a row's two starts: ts in whole µs, or start_time in ns since the first row.

    start_time is taken where ts agrees to within 1 µs and the step of a 32-bit float of its size.  What it counts from
    is the largest ts - start_time of the small ones, whose float is exact: ts is cut off, so none can be above it.
    """

    def __init__(self, trace: Trace) -> None:
        self._rows = {group: trace.rows(*group) for group in (_CALLS, _MARKERS, _OPERATORS, *_WORK.values())}
        self._relative = {group: _relative_ns(rows) for group, rows in self._rows.items()}
        self._base: int | None = None
        start = np.concatenate([rows.start_ns for rows in self._rows.values()])
        relative = np.concatenate(list(self._relative.values()))
        known = relative != NONE
        if known.any():
            difference = (start - relative)[known]
            exact = difference[_float32_step_ns(relative[known]) <= 1]
            difference = exact if len(exact) else difference
            middle = int(np.median(difference))
            self._base = int(difference[difference <= middle + _ERROR_NS].max())

    def rows(self, group: tuple[str, ...]) -> Rows:
        """Return the rows of one of the groups of categories above."""
        rows, relative = self._rows[group], self._relative[group]
        if self._base is None:
            return rows
        start = self._base + relative
        step = _float32_step_ns(relative)
        late = start - rows.start_ns
        finer = (relative != NONE) & (step < _ERROR_NS) & (late >= -_ERROR_NS - step) & (late <= _ERROR_NS + step)
        start = np.where(finer, start, rows.start_ns)
        return Rows(rows.events, start, start + (rows.end_ns - rows.start_ns))


def _relative_ns(rows: Rows) -> IntColumn:
    """Return start_time in ns, -1 where there is none."""
    texts = [args.start_time for args in rows.args()]
    try:
        us = np.array([float(text[:-3]) for text in texts], dtype=np.float64)  # "7545.255 us"
    except (TypeError, ValueError):
        us = np.fromiter(map(_us, texts), dtype=np.float64, count=len(texts))
    usable = (us >= 0) & (us < _MAX_RELATIVE_US)
    return np.where(usable, np.rint(np.where(usable, us, 0) * 1000), NONE).astype(np.int64)


def _us(text: Any) -> float:
    found = _RELATIVE.fullmatch(text) if isinstance(text, str) else None
    return float(found[1]) if found else float("nan")


def _float32_step_ns(ns: IntColumn) -> IntColumn:
    """Return how far a 32-bit float of as many µs may be off, in ns, rounded up."""
    exponent = np.frexp(np.maximum(ns, 1) / 1000)[1]
    return np.asarray(np.ceil(np.ldexp(1000.0, exponent - _FLOAT32_DIGITS)), dtype=np.int64)


def _apart(parts: list[tuple[WorkKind, Rows]], device: IntColumn, stream: IntColumn) -> list[tuple[WorkKind, Rows]]:
    """Return the rows of device work without the overlaps on one stream that are only rounding.

    A row is moved behind the one before it where the two overlap by no more than times may be off.
    """
    start = np.concatenate([rows.start_ns for _, rows in parts])
    end = np.concatenate([rows.end_ns for _, rows in parts])
    order = np.lexsort((end, start, stream, device))
    before, after = order[:-1], order[1:]
    same = (device[before] == device[after]) & (stream[before] == stream[after])
    if not (same & (start[after] < end[before])).any():
        return parts
    starts, ends, rows_in_order = start.tolist(), end.tolist(), order.tolist()
    for one, other, is_same in zip(rows_in_order, rows_in_order[1:], same.tolist(), strict=False):
        free = ends[one]
        if is_same and starts[other] < free <= starts[other] + 2 * _ERROR_NS:  # each may be off by one error
            ends[other] += free - starts[other]  # durations are right to the ns
            starts[other] = free
    start, end = np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)
    cuts = np.cumsum([len(rows.events) for _, rows in parts])[:-1]
    return [
        (kind, Rows(rows.events, one, other))
        for (kind, rows), one, other in zip(parts, np.split(start, cuts), np.split(end, cuts), strict=True)
    ]


IMPORTER = PaddleTraceImporter()
