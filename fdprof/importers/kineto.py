"""Reads the chrome traces of torch.profiler (Kineto), of 2020 to 2026, for CUDA and for HIP."""

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
    CopyDirection,
    Evidence,
    HostSide,
    RangeKind,
    WorkKind,
)
from fdprof.columns import join_calls
from fdprof.importers import paddle_trace
from fdprof.importers._chrome import Rows, Trace, is_json, is_paddle_head, read_trace
from fdprof.importers._chrome_rows import (
    Assembler,
    Calls,
    Columns,
    clean,
    host_waits,
    identifier,
    integer,
    integers,
    is_hip,
    streams_of,
    timed_work,
    work_limits,
)
from fdprof.importers.protocol import Progress
from fdprof.joinable import joinable
from fdprof.model import IntColumn, Table

# Categories of today, and those of 2020 to 2022.
_CALLS = ("cuda_runtime", "cuda_driver", "runtime", "driver")
_WORK = {
    WorkKind.KERNEL: ("kernel",),
    WorkKind.COPY: ("gpu_memcpy", "memcpy"),
    WorkKind.MEMSET: ("gpu_memset", "memset"),
}
_MARKERS = ("user_annotation",)  # gpu_user_annotation shows the same ranges again, as the device sees them
_OPERATORS = ("cpu_op", "operator")
_FRAMES = ("python_function",)
_SYNCS = ("cuda_sync",)

_STEP = re.compile(r"ProfilerStep#\d+")
_OTHER_DEVICES = {
    "mtia_": "MTIA",
    "xpu_": "Intel XPU",
    "hpu_": "Habana HPU",
    "privateuse1_": "a PrivateUse1 device",
    "glow_": "Glow",
}

_SYNC_KINDS = {
    "event sync": ApiKind.EVENT_WAIT,
    "stream sync": ApiKind.STREAM_SYNC,
    "context sync": ApiKind.DEVICE_SYNC,
    "stream wait event": ApiKind.STREAM_WAIT,
}
_LINKED = [int(kind) for kind in WAIT_KINDS | {ApiKind.STREAM_WAIT}]
_BY_EVENT = [int(ApiKind.EVENT_WAIT), int(ApiKind.STREAM_WAIT)]


class KinetoImporter:
    """Chrome traces of torch.profiler; any other JSON too, to refuse it by name."""

    format = "torch.profiler chrome trace (JSON or JSON.gz)"

    def sniff(self, path: Path, head: bytes) -> bool:
        return is_json(head) and not is_paddle_head(head)

    def read(self, path: Path, progress: Progress) -> Capture:
        trace = read_trace(path, progress)
        # The start of a file need not tell whose it is: keys come in any order.
        return paddle_trace.capture_of(trace) if trace.is_paddle() else _Reader(trace).capture()


class _Reader:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._made = Assembler(trace)
        self._limits: list[str] = []

    def capture(self) -> Capture:
        trace, made = self._trace, self._made
        called, overhead = trace.rows(*_CALLS), trace.rows("overhead")
        self._refuse_other_devices(called)
        parts, untimed = timed_work([(kind, trace.rows(*categories)) for kind, categories in _WORK.items()])
        operators = trace.rows(*_OPERATORS)
        ranges = self._ranges(operators)
        calls, _ = made.calls(made.call_columns(called, integers([args.correlation for args in called.args()])))

        syncs = trace.rows(*_SYNCS)
        correlation = integers([args.correlation for args in syncs.args()])
        host = made.hosts(calls, [ranges], correlation)
        calls, wait = self._with_waits(calls, syncs, host, correlation, operators)
        links, records = self._links(calls, syncs, host, wait)

        args = [entry for _, rows in parts for entry in rows.args()]
        correlation = integers([entry.correlation for entry in args])
        host = made.hosts(calls, [ranges], correlation)
        device = made.work(parts, calls, host, correlation, streams_of(parts))
        issued = join_calls(host, correlation, calls.process, calls.table["correlation"])
        self._limits[:0] = work_limits(calls.table, device, issued) + untimed
        self._say_limits(calls.table, device, syncs, links)
        hip = is_hip(trace, calls.table, made.names.all())
        overhead_table = made.overhead(overhead)
        whole = all(not (table["start_ns"] % 1000).any() for table in (calls.table, device, ranges))
        capture = Capture(
            source="kineto",
            tool=_tool(trace),
            names=made.names.all(),
            threads=tuple(made.threads),
            devices=tuple(made.devices),
            api=calls.table,
            device=device,
            ranges=ranges,
            links=links,
            event_records=records,
            overhead=overhead_table,
            default_streams=made.default_streams(hip),
            # Before 2024 Kineto cut times off at the µs.
            time_error_ns=1000 if whole else 0,
            rows=len(trace.events),
            limits=tuple(self._limits),
        )
        return joinable(capture)

    def _refuse_other_devices(self, called: Rows) -> None:
        found = {
            name: sum(
                len(numbers) for category, numbers in self._trace.categories.items() if category.startswith(start)
            )
            for start, name in _OTHER_DEVICES.items()
        }
        found = {name: count for name, count in found.items() if count}
        if found and not called.events:
            what = " and ".join(f"{count:,} rows of {name}" for name, count in found.items())
            raise self._trace.refuse(
                f"holds {what} and no call of CUDA or HIP: fdprof knows no other device",
                "give a trace of a CUDA or HIP device",
            )

    def _ranges(self, operators: Rows) -> Table:
        trace = self._trace
        # ProfilerStep#N was an operator until 2021.
        names = [event.name for event in operators.events]
        steps = {name for name in dict.fromkeys(names) if name is not None and _STEP.match(name)}
        is_step = np.array([name in steps for name in names], dtype=bool)
        return self._made.ranges(
            [
                (RangeKind.MARKER, trace.rows(*_MARKERS), clean),
                (RangeKind.MARKER, operators.where(is_step), clean),
                (RangeKind.OPERATOR, operators.where(~is_step), clean),
                (RangeKind.FRAME, trace.rows(*_FRAMES), clean),
            ]
        )

    def _with_waits(
        self, calls: Calls, syncs: Rows, host: IntColumn, correlation: IntColumn, operators: Rows
    ) -> tuple[Calls, IntColumn]:
        """Return the calls, with the waits that only cuda_sync rows know, and the row of API of each cuda_sync row.

        Such a row stands in for a call that the file has lost: it has the call's time, to within a µs.
        """
        made, table = self._made, calls.table
        wait = join_calls(calls.process, table["correlation"], host, correlation)
        args = syncs.args()
        kind = np.array(
            [
                _SYNC_KINDS.get(_text(entry.sync_kind, event.name), ApiKind.OTHER)
                for event, entry in zip(syncs.events, args, strict=True)
            ],
            dtype=np.int8,
        )
        lost = np.flatnonzero((wait == NONE) & (kind != ApiKind.OTHER))
        if not len(lost):
            return calls, wait
        self._limits.append(
            f"waits known from cuda_sync rows alone, since their host calls are not here: {len(lost):,}"
        )
        thread_of = {
            integer(entry.external): event for event, entry in zip(operators.events, operators.args(), strict=True)
        }
        thread = []
        for row in lost.tolist():
            operator = thread_of.get(integer(args[row].external))
            thread.append(made.thread(operator.pid, operator.tid) if operator else made.thread(int(host[row]), None))
        added: Columns = {
            "name": made.named([syncs.events[row].name for row in lost.tolist()]),
            "kind": kind[lost],
            "thread": np.array(thread, dtype=np.int32),
            "start_ns": syncs.start_ns[lost],
            "end_ns": syncs.end_ns[lost],
            "correlation": np.full(len(lost), NONE),  # of a call that is not here; such rows may all have one
        }
        merged, order = made.calls({name: np.concatenate((table[name], added[name])) for name in added})
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
        wait = np.where(wait == NONE, NONE, place[wait])
        wait[lost] = place[len(table) :]
        return merged, wait

    def _links(self, calls: Calls, syncs: Rows, host: IntColumn, wait: IntColumn) -> tuple[Table, Table]:
        """Return what each wait waited for, and the event records with what the waits tell of their events.

        A record is proved by the id of its call, which Kineto looks up itself; it gives -1 where it found none.
        """
        table, args = calls.table, syncs.args()
        kind = table["kind"][wait] if len(table) else np.zeros(len(wait), dtype=np.int8)
        chosen = (wait != NONE) & np.isin(kind, _LINKED)
        recorded = integers([entry.wait_record for entry in args])
        record = join_calls(calls.process, table["correlation"], host, recorded)
        by_event = np.isin(kind, _BY_EVENT)
        stream = np.where(
            by_event,
            identifier([entry.wait_stream for entry in args]),
            identifier([entry.stream for entry in args]),
        )
        event = identifier([entry.wait_event for entry in args])
        links = {
            "wait": wait,
            "record": record,
            "stream": stream,
            "event": event,
            "evidence": np.where(by_event & (recorded >= 0), int(Evidence.PROVED), int(Evidence.UNKNOWN)),
        }
        # A query of an event (no wait) tells of its record, too.
        known = dict(
            zip(
                record.tolist(),
                zip(event.tolist(), identifier([e.wait_stream for e in args]).tolist(), strict=True),
                strict=True,
            )
        )
        rows = np.flatnonzero(table["kind"] == ApiKind.EVENT_RECORD).tolist()
        told = [(row, *known.get(row, (NONE, NONE))) for row in rows]
        return (
            Table.of(LINKS, {name: column[chosen] for name, column in links.items()}),
            Table.of_rows(EVENT_RECORDS, told),
        )

    def _say_limits(self, calls: Table, device: Table, syncs: Rows, links: Table) -> None:
        if not syncs.events and host_waits(calls, *WAIT_KINDS):
            self._limits.append("no cuda_sync rows in this file: waits are not joined to the events they wait for")
        by_event = np.isin(calls["kind"][links["wait"]], _BY_EVENT) if len(links) else np.zeros(0, dtype=bool)
        unknown = int((links["evidence"][by_event] == Evidence.UNKNOWN).sum())
        if unknown:
            self._limits.append(
                f"{unknown:,} of {int(by_event.sum()):,} waits for an event do not say where it was recorded "
                "(Kineto gives no such link on CUDA 12.9 and later)"
            )
        to_or_from_host = np.isin(device["direction"], [int(CopyDirection.TO_HOST), int(CopyDirection.TO_DEVICE)])
        unsaid = int((to_or_from_host & (device["host_side"] == HostSide.UNKNOWN)).sum())
        if unsaid:
            self._limits.append(
                f"{unsaid:,} of {int(to_or_from_host.sum()):,} copies from or to the host do not say whether their "
                "host memory is pinned or pageable"
            )


def _text(*values: Any) -> str:
    return next((value.casefold() for value in values if isinstance(value, str)), "")


def _tool(trace: Trace) -> str:
    about = trace.about
    schema = integer(about.schemaVersion)
    words = ["Kineto" if schema == NONE else f"Kineto schema {schema}"]
    cuda, hip = integer(about.cuda_runtime_version), integer(about.hip_runtime_version)
    if cuda > 0:
        words.append(f"CUDA {cuda // 1000}.{cuda % 1000 // 10}")
    if hip > 0:
        words.append(f"HIP {hip // 10_000_000}.{hip // 100_000 % 100}.{hip % 100_000}")
    return ", ".join(words)


IMPORTER = KinetoImporter()
