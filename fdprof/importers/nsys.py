"""Reads what `nsys export` writes, sqlite or parquetdir, of schema 2.9 to 3.25, into a Capture.

A schema is what the file has: columns and tables are looked for, not assumed, and what is not there is said in the
capture's limits.
"""

import re
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fdprof.api_calls import kind_of
from fdprof.capture import (
    API,
    EVENT_RECORDS,
    LINKS,
    NONE,
    OVERHEAD,
    RANGES,
    WAIT_KINDS,
    Capture,
    Evidence,
    RangeKind,
    Thread,
    WorkKind,
)
from fdprof.columns import by_start, join_calls, latest_before
from fdprof.errors import InputError
from fdprof.importers._nsys_columns import MISSING, Columns, decoded, id_of, is_text, process_of
from fdprof.importers._nsys_tables import AGAIN, SQLITE_MAGIC, Tables, open_tables
from fdprof.importers._nsys_work import default_streams, device_work, non_blocking_streams
from fdprof.importers.protocol import Progress
from fdprof.joinable import joinable
from fdprof.model import IntColumn, Table

_RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
_SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
_EVENT = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
_NVTX = "NVTX_EVENTS"
_OVERHEAD = ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD")

_TRACED_CLASSES = (0, 1)  # eventClass: CUDA runtime, CUDA driver; others repeat the same calls
_PUSH_POP, _START_END, _DOMAIN_CREATE = 59, 60, 75
_PAYLOADS = ("int64Value", "uint64Value", "int32Value", "uint32Value")
_WARNING = 2  # DIAGNOSTIC_EVENT.severity from which on a message may mean that something is not in the file
_LOST = re.compile(
    r"not all|lost|dropp|overflow|discard|incomplete|fall ?back|not supported|unsupported", re.IGNORECASE
)
_LOSSES_SHOWN = 5
_FEW = 64

# emit_nvtx of PyTorch puts counters behind an operator's name, which would make every name unique.
_OPERATOR = re.compile(r", (seq|op_id|sizes|input_op_ids) = ")

_PARQUET_TABLES = frozenset(
    {"StringIds", _RUNTIME, "CUPTI_ACTIVITY_KIND_KERNEL", "META_DATA_EXPORT", "TARGET_INFO_GPU"}
)


class NsysImporter:
    """Nsight Systems exports."""

    format = "Nsight Systems export (sqlite or parquetdir)"

    def sniff(self, path: Path, head: bytes) -> bool:
        if path.is_dir():
            return any((path / f"{table}.parquet").exists() for table in _PARQUET_TABLES)
        return head.startswith(SQLITE_MAGIC)

    def read(self, path: Path, progress: Progress) -> Capture:
        tables = open_tables(path)
        tool = _tool(tables, path)
        return _Reader(path, tables, tool, progress).capture()


def _tool(tables: Tables, path: Path) -> str:
    """Return product and schema version; InputError when no table of an export is there."""
    known = [
        name for name in tables.names() if name.startswith(("CUPTI_", "NVTX_", "TARGET_INFO_", "META_DATA_EXPORT"))
    ]
    for table in ("META_DATA_EXPORT", "EXPORT_META_DATA"):
        if {"name", "value"} <= tables.columns(table):
            read = tables.read(table, ["name", "value"])
            if not all(is_text(column.type) for column in read.columns):
                continue
            entries = dict(zip(*(decoded(column) for column in read.columns), strict=True))
            version, schema = entries.get("EXPORT_PRODUCT_VERSION"), entries.get("EXPORT_SCHEMA_VERSION")
            if schema:
                return f"Nsight Systems {version or 'of unknown version'}, schema {schema}"[:200]
    if not known:
        names = ", ".join(f"{name!r:.60}" for name in tables.names()[:5]) or "none"
        raise InputError(f"{path} is not an Nsight Systems export: its tables are {names}", AGAIN)
    return "Nsight Systems, schema unknown"


class _Reader:
    """One pass over the tables; the parts that later tables refer to are kept on the way."""

    def __init__(self, path: Path, tables: Tables, tool: str, progress: Progress) -> None:
        self._tool = tool
        self._source = Columns(path, tables, tool, progress)

    def capture(self) -> Capture:
        calls = self._calls()
        ranges = self._ranges()
        overhead = self._overhead()
        thread_ids, (calls_of, ranges_of, overhead_of) = _numbered(
            calls.pop("globalTid"), ranges.pop("globalTid"), overhead.pop("globalTid")
        )
        api, _ = by_start({**calls, "thread": calls_of})
        ranges, _ = by_start({**ranges, "thread": ranges_of})
        threads = self._threads(thread_ids)
        api_process = process_of(thread_ids)[api["thread"]] if len(thread_ids) else np.zeros(0, dtype=np.int64)
        api_table = Table.of(API, api)
        device_table, devices = device_work(self._source, api_process, api_table["correlation"])
        records, sync_ids = self._event_records(api_process, api_table["correlation"])
        links = self._links(api_process, api_table, records, sync_ids)
        self._say_limits(api_table, device_table)
        capture = Capture(
            source="nsys",
            tool=self._tool,
            names=self._source.names.all(),
            threads=threads,
            devices=devices,
            api=api_table,
            device=device_table,
            ranges=Table.of(RANGES, ranges),
            links=links,
            event_records=records,
            overhead=Table.of(OVERHEAD, {**overhead, "thread": overhead_of}),
            default_streams=default_streams(self._source, devices),
            non_blocking_streams=non_blocking_streams(self._source, devices),
            rows=self._source.rows,
            limits=tuple(self._source.limits),
        )
        return joinable(capture)

    def _calls(self) -> dict[str, IntColumn]:
        columns = self._source.read(
            _RUNTIME, ["start", "end", "globalTid", "correlationId", "nameId"], optional=["eventClass"]
        )
        if columns is None:
            self._source.limits.append(
                f"no table {_RUNTIME}: no host call was traced, so nothing can be said of the host"
            )
            columns = {name: np.zeros(0, dtype=np.int64) for name in ("start", "end", "globalTid", "correlationId")}
            columns |= {"nameId": columns["start"], "eventClass": columns["start"]}
        columns = self._source.timed(columns, "host calls")
        columns = self._source.kept(columns, columns["globalTid"] != MISSING, "host calls without a thread")
        traced = np.isin(columns["eventClass"], _TRACED_CLASSES) | (columns["eventClass"] == MISSING)
        if not traced.all():
            # Exports of 2022 hold some calls a second time under another class, with the same correlation.
            repeats = join_calls(
                columns["globalTid"][traced],
                columns["correlationId"][traced],
                columns["globalTid"],
                columns["correlationId"],
            )
            keep = traced | (repeats == NONE)
            columns = {name: column[keep] for name, column in columns.items()}
        name = self._source.named(columns["nameId"])
        unknown = self._source.names.index("(unnamed call)") if (name == MISSING).any() else NONE
        name = np.where(name == MISSING, unknown, name)
        return {
            "name": name,
            "kind": self._kinds(name),
            "globalTid": columns["globalTid"],
            "start_ns": columns["start"],
            "end_ns": columns["end"],
            "correlation": columns["correlationId"],
        }

    def _kinds(self, name: IntColumn) -> IntColumn:
        names = self._source.names.all()
        used = np.flatnonzero(np.bincount(name))
        table = np.zeros(len(names) + 1, dtype=np.int64)
        for index in used.tolist():
            table[index] = kind_of(names[index])
        return np.asarray(table[name], dtype=np.int64)

    def _ranges(self) -> dict[str, IntColumn]:
        columns = self._source.read(
            _NVTX,
            ["start", "end", "eventType", "globalTid"],
            optional=["textId", "domainId", *_PAYLOADS],
            text=["text"],
        )
        if columns is None:
            self._source.limits.append(
                "no NVTX ranges in this file: steps have to be inferred and host code has no names"
            )
            columns = {
                name: np.zeros(0, dtype=np.int64)
                for name in ("start", "end", "eventType", "globalTid", "textId", "domainId", "text")
            } | {
                name: np.zeros(0, dtype=np.int64) for name in ("int64Value", "uint64Value", "int32Value", "uint32Value")
            }
        # A registered string has its text in StringIds, and NULL in its place.
        named = np.where(columns["text"] == MISSING, self._source.named(columns["textId"]), columns["text"])
        domains = self._domains(columns, named)
        is_range = np.isin(columns["eventType"], (_PUSH_POP, _START_END))
        columns = {name: column[is_range] for name, column in columns.items()} | {"name": named[is_range]}
        columns = self._source.timed(columns, "ranges")
        payload = np.full(len(columns["start"]), MISSING)
        for column in _PAYLOADS:
            payload = np.where(payload == MISSING, columns[column], payload)
        unnamed = self._source.names.index("(unnamed range)") if (columns["name"] == MISSING).any() else NONE
        name = np.where(columns["name"] == MISSING, unnamed, columns["name"])
        name, is_operator = self._operators(name)
        return {
            "kind": np.where(is_operator, int(RangeKind.OPERATOR), int(RangeKind.MARKER)),
            "name": name,
            "domain": _looked_up(domains, process_of(columns["globalTid"]), columns["domainId"]),
            "globalTid": columns["globalTid"],
            "start_ns": columns["start"],
            "end_ns": columns["end"],
            "payload": np.where(payload == MISSING, NONE, payload),
        }

    def _operators(self, name: IntColumn) -> tuple[IntColumn, npt.NDArray[np.bool_]]:
        """Return names without the counters that PyTorch puts behind an operator's, and which names had some."""
        names = self._source.names.all()
        to = np.arange(len(names) + 1, dtype=np.int64)
        is_operator = np.zeros(len(names) + 1, dtype=bool)
        for index in np.flatnonzero(np.bincount(name)).tolist():
            match = _OPERATOR.search(names[index])
            if match:
                to[index], is_operator[index] = self._source.names.index(names[index][: match.start()]), True
        return to[name], is_operator[name]

    def _domains(self, columns: dict[str, IntColumn], named: IntColumn) -> dict[tuple[int, int], int]:
        created = (columns["eventType"] == _DOMAIN_CREATE) & (named != MISSING)
        rows = zip(
            process_of(columns["globalTid"][created]).tolist(),
            columns["domainId"][created].tolist(),
            named[created].tolist(),
            strict=True,
        )
        return {(process, domain): name for process, domain, name in rows}

    def _overhead(self) -> dict[str, IntColumn]:
        parts = [self._source.read(table, ["start", "end"], optional=["globalTid"]) for table in _OVERHEAD]
        found = [part for part in parts if part is not None]
        columns = {
            name: np.concatenate([part[name] for part in found]) if found else np.zeros(0, dtype=np.int64)
            for name in ("start", "end", "globalTid")
        }
        columns = self._source.timed(columns, "rows of the profiler's own overhead")
        return {"start_ns": columns["start"], "end_ns": columns["end"], "globalTid": columns["globalTid"]}

    def _threads(self, ids: IntColumn) -> tuple[Thread, ...]:
        columns = self._source.read("ThreadNames", ["globalTid", "nameId"])
        names: dict[int, str] = {}
        if columns is not None and len(columns["globalTid"]):
            every = self._source.names.all()
            rows = zip(columns["globalTid"].tolist(), self._source.named(columns["nameId"]).tolist(), strict=True)
            names = {thread: every[name] for thread, name in rows if name != MISSING}
        return tuple(
            Thread(process, tid & 0xFFFFFF, names.get(tid, ""))
            for tid, process in zip(ids.tolist(), process_of(ids).tolist(), strict=True)
        )

    def _event_records(self, api_process: IntColumn, api_correlation: IntColumn) -> tuple[Table, IntColumn]:
        """Return the event records and the id that joins each to its waits (MISSING: none)."""
        columns = self._source.read(
            _EVENT, ["correlationId", "eventId", "streamId", "globalPid"], optional=["eventSyncId"]
        )
        if columns is None:
            return Table.of_rows(EVENT_RECORDS, []), np.zeros(0, dtype=np.int64)
        process = process_of(columns["globalPid"])
        api = join_calls(api_process, api_correlation, process, columns["correlationId"])
        known = api != NONE
        table = Table.of(
            EVENT_RECORDS,
            {"api": api[known], "event": columns["eventId"][known], "stream": id_of(columns["streamId"][known])},
        )
        return table, id_of(columns["eventSyncId"][known])

    def _links(self, api_process: IntColumn, api: Table, records: Table, sync_ids: IntColumn) -> Table:
        """Return what each wait waited for.

        The stored syncType is not used: exports of 2024 to 2026 number it otherwise than their own ENUM table, so a
        wait is a wait by the name of its call.  Event ids are used again, so a record is proved by eventSyncId alone;
        by event id, the latest record before the wait is inferred.
        """
        columns = self._source.read(
            _SYNC, ["correlationId", "streamId", "globalPid"], optional=["eventId", "eventSyncId"]
        )
        if columns is None:
            return Table.of_rows(LINKS, [])
        process = process_of(columns["globalPid"])
        wait = join_calls(api_process, api["correlation"], process, columns["correlationId"])
        is_wait = np.isin(api["kind"], [int(kind) for kind in WAIT_KINDS])
        chosen = (wait != NONE) & is_wait[np.maximum(wait, 0)] if len(is_wait) else np.zeros(len(wait), dtype=bool)
        wait, process = wait[chosen], process[chosen]
        event, sync_id = id_of(columns["eventId"][chosen]), id_of(columns["eventSyncId"][chosen])
        record_process = api_process[records["api"]]
        proved = join_calls(record_process, sync_ids, process, sync_id)
        inferred = latest_before(
            record_process, records["event"], api["start_ns"][records["api"]], process, event, api["start_ns"][wait]
        )
        row = np.where(proved != NONE, proved, inferred)
        evidence = np.where(
            proved != NONE, Evidence.PROVED, np.where(inferred != NONE, Evidence.INFERRED, Evidence.UNKNOWN)
        )
        return Table.of(
            LINKS,
            {
                "wait": wait,
                "record": np.where(row != NONE, records["api"][row] if len(records) else NONE, NONE),
                "stream": id_of(columns["streamId"][chosen]),
                "event": event,
                "evidence": evidence,
            },
        )

    def _say_limits(self, api: Table, device: Table) -> None:
        if not self._source.has(_SYNC) and np.isin(api["kind"], [int(kind) for kind in WAIT_KINDS]).any():
            self._source.limits.append(f"no table {_SYNC}: waits are not joined to streams or events")
        if len(api) and not len(device):
            self._source.limits.append(
                "host calls but no device activity: the tracer saw none (a process forked after CUDA started, say), "
                "which does not mean an idle device"
            )
        if (device["kind"] == WorkKind.GRAPH).any():
            self._source.limits.append(
                "graphs are traced as wholes: a graph's kernels and the gaps between them are not seen"
            )
        columns = self._source.read("DIAGNOSTIC_EVENT", ["severity"], text=["text"])
        if columns is None:
            return
        every = self._source.names.all()
        numbers = np.unique(columns["text"][(columns["severity"] >= _WARNING) & (columns["text"] >= 0)])
        said = [every[number] for number in numbers.tolist()]
        losses = [text for text in said if _LOST.search(text)]
        self._source.limits.extend(f"the profiler says: {text}" for text in losses[:_LOSSES_SHOWN])


def _numbered(*columns: IntColumn) -> tuple[IntColumn, list[npt.NDArray[np.int32]]]:
    """Return the distinct ids of all columns, and each column as indices into them; MISSING becomes -1."""
    ids = np.unique(np.concatenate(columns))
    ids = ids[ids != MISSING]
    return ids, [np.where(column == MISSING, NONE, np.searchsorted(ids, column)).astype(np.int32) for column in columns]


def _looked_up(known: dict[tuple[int, int], int], process: IntColumn, number: IntColumn) -> IntColumn:
    if len(known) <= _FEW:
        result = np.full(len(process), NONE, dtype=np.int64)
        for (its_process, its_number), name in known.items():
            result[(process == its_process) & (number == its_number)] = name
        return result
    pairs, row = np.unique(np.stack((process, number)), axis=1, return_inverse=True)
    names = np.array([known.get(pair, NONE) for pair in zip(*pairs.tolist(), strict=True)], dtype=np.int64)
    return names[row.reshape(-1)]


IMPORTER = NsysImporter()
