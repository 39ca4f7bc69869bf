"""Reads what `nsys export` writes, sqlite or parquetdir, of schema 2.9 to 3.25, into a Capture.

A schema is what the file has: columns and tables are looked for, not assumed, and what is not there is said in the
capture's limits.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fdprof.api_calls import kind_of
from fdprof.capture import (
    API,
    DEVICE,
    EVENT_RECORDS,
    LINKS,
    NONE,
    OVERHEAD,
    RANGES,
    WAIT_KINDS,
    Capture,
    CopyDirection,
    Device,
    Evidence,
    HostSide,
    Names,
    RangeKind,
    Thread,
    WorkKind,
    by_start,
    join_calls,
)
from fdprof.errors import InputError
from fdprof.importers._nsys_tables import AGAIN, SQLITE_MAGIC, Tables, open_tables
from fdprof.importers.protocol import Progress
from fdprof.model import IntColumn, Table

_RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
_MEMCPY_PEER = "CUPTI_ACTIVITY_KIND_MEMCPY2"
_MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
_GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
_SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
_EVENT = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
_NVTX = "NVTX_EVENTS"
_OVERHEAD = ("PROFILER_OVERHEAD", "CUPTI_ACTIVITY_KIND_OVERHEAD")

_MISSING = np.iinfo(np.int64).min  # a NULL, while columns are read
_NO_ID = 0xFFFFFFFF  # CUPTI's "none" of a stream or event id
_TRACED_CLASSES = (0, 1)  # eventClass: CUDA runtime, CUDA driver; others repeat the same calls
_PUSH_POP, _START_END, _DOMAIN_CREATE = 59, 60, 75
_PAYLOADS = ("int64Value", "uint64Value", "int32Value", "uint32Value")
_MAX_NAME = 10_000
_WARNING = 2  # DIAGNOSTIC_EVENT.severity from which on a message may mean that something is not in the file
_LOST = re.compile(
    r"not all|lost|dropp|overflow|discard|incomplete|fall ?back|not supported|unsupported", re.IGNORECASE
)
_LOSSES_SHOWN = 5

# emit_nvtx of PyTorch puts counters behind an operator's name, which would make every name unique.
_OPERATOR = re.compile(r", (seq|op_id|sizes|input_op_ids) = ")

# CUPTI's CUpti_ActivityMemcpyKind and CUpti_ActivityMemoryKind.
_DIRECTION = {
    1: CopyDirection.TO_DEVICE,
    2: CopyDirection.TO_HOST,
    3: CopyDirection.TO_DEVICE,
    4: CopyDirection.TO_HOST,
    5: CopyDirection.ON_DEVICE,
    6: CopyDirection.ON_DEVICE,
    7: CopyDirection.ON_DEVICE,
    8: CopyDirection.ON_DEVICE,
    9: CopyDirection.ON_HOST,
    10: CopyDirection.BETWEEN_DEVICES,
}
_HOST_SIDE = {0: HostSide.PAGEABLE, 1: HostSide.PINNED, 4: HostSide.MANAGED}

_COPY_NAMES = {
    CopyDirection.UNKNOWN: "copy",
    CopyDirection.TO_HOST: "copy device to host",
    CopyDirection.TO_DEVICE: "copy host to device",
    CopyDirection.ON_DEVICE: "copy on the device",
    CopyDirection.BETWEEN_DEVICES: "copy between devices",
    CopyDirection.ON_HOST: "copy on the host",
}

_PARQUET_TABLES = frozenset({"StringIds", _RUNTIME, _KERNEL, "META_DATA_EXPORT", "TARGET_INFO_GPU"})


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
            rows = tables.read(table, ["name", "value"]).to_pydict()
            entries = {str(name): str(value) for name, value in zip(rows["name"], rows["value"], strict=True)}
            version, schema = entries.get("EXPORT_PRODUCT_VERSION"), entries.get("EXPORT_SCHEMA_VERSION")
            if schema:
                return f"Nsight Systems {version or 'of unknown version'}, schema {schema}"[:200]
    if not known:
        names = ", ".join(repr(name) for name in tables.names()[:5]) or "none"
        raise InputError(f"{path} is not an Nsight Systems export: its tables are {names}", AGAIN)
    return "Nsight Systems, schema unknown"


class _Reader:
    """One pass over the tables; the parts that later tables refer to are kept on the way."""

    def __init__(self, path: Path, tables: Tables, tool: str, progress: Progress) -> None:
        self._path, self._tables, self._tool, self._progress = path, tables, tool, progress
        self._names = Names()
        self._limits: list[str] = []
        self._rows = 0
        self._strings = self._read_strings()

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
        api_process = _process(thread_ids)[api["thread"]] if len(thread_ids) else np.zeros(0, dtype=np.int64)
        api_table = Table.of(API, api)
        device_table, devices = self._device_work(api_process, api_table["correlation"])
        records, sync_ids = self._event_records(api_process, api_table["correlation"])
        links = self._links(api_process, api_table, records, sync_ids)
        self._say_limits(api_table, device_table)
        return Capture(
            source="nsys",
            tool=self._tool,
            names=self._names.all(),
            threads=threads,
            devices=devices,
            api=api_table,
            device=device_table,
            ranges=Table.of(RANGES, ranges),
            links=links,
            event_records=records,
            overhead=Table.of(OVERHEAD, {**overhead, "thread": overhead_of}),
            default_streams=self._default_streams(devices),
            rows=self._rows,
            limits=tuple(self._limits),
        )

    # Tables

    def _columns(
        self, table: str, required: Sequence[str], optional: Sequence[str] = (), text: Sequence[str] = ()
    ) -> dict[str, IntColumn] | None:
        """Return integer columns of a table, None where it is absent; NULL and absent columns are _MISSING.

        InputError when a required column is absent or one holds something other than integers of 64 bits.
        """
        there = self._tables.columns(table)
        if not there:
            return None
        absent = [name for name in required if name not in there]
        if absent:
            raise InputError(
                f"{self._path}, table {table}: no column {', '.join(absent)} ({self._tool})",
                "this version of the export is not known; export it again with a newer nsys",
            )
        wanted = [name for name in (*required, *optional, *text) if name in there]
        read = self._tables.read(table, wanted)
        self._rows += len(read)
        self._progress(f"{table}: {len(read):,} rows")
        columns = {name: self._integers(table, name, read.column(name)) for name in wanted if name not in text}
        columns |= {name: self._texts(table, name, read.column(name)) for name in wanted if name in text}
        for name in (*optional, *text):
            columns.setdefault(name, np.full(len(read), _MISSING, dtype=np.int64))
        return columns

    def _integers(self, table: str, name: str, column: pa.ChunkedArray) -> IntColumn:
        if pa.types.is_null(column.type):
            return np.full(len(column), _MISSING, dtype=np.int64)
        if pa.types.is_unsigned_integer(column.type) and column.type.bit_width == 64:
            column = column.cast(pa.int64(), safe=False)  # ids: only that they differ matters
        if not pa.types.is_integer(column.type) and not pa.types.is_boolean(column.type):
            if column.null_count == len(column):
                return np.full(len(column), _MISSING, dtype=np.int64)
            raise InputError(
                f"{self._path}, table {table}, column {name}: {column.type} values, expected integers of 64 bits", AGAIN
            )
        filled = column.cast(pa.int64()).fill_null(_MISSING) if column.null_count else column.cast(pa.int64())
        return np.asarray(filled.to_numpy(), dtype=np.int64)

    def _texts(self, table: str, name: str, column: pa.ChunkedArray) -> IntColumn:
        """Return for each text its number among the capture's names, _MISSING for NULL."""
        if column.null_count == len(column):
            return np.full(len(column), _MISSING, dtype=np.int64)
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
            raise InputError(f"{self._path}, table {table}, column {name}: {column.type} values, expected text", AGAIN)
        encoded = column.combine_chunks().dictionary_encode()
        number = self._name_numbers(encoded.dictionary)
        indices = encoded.indices.fill_null(len(number)).to_numpy(zero_copy_only=False)
        return np.asarray(np.append(number, _MISSING)[indices], dtype=np.int64)

    def _name_numbers(self, texts: pa.Array) -> IntColumn:
        return np.array([self._names.index(_cut(text)) for text in _decoded(texts)], dtype=np.int64)

    def _read_strings(self) -> tuple[IntColumn, IntColumn]:
        """Return the ids of StringIds, sorted, and the number of each one's name."""
        columns = self._columns("StringIds", ["id"], text=["value"])
        if columns is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        order = np.argsort(columns["id"], kind="stable")
        return columns["id"][order], columns["value"][order]

    def _named(self, ids: IntColumn) -> IntColumn:
        """Return the name's number of each string id, _MISSING for an id that is not in StringIds."""
        known, number = self._strings
        if not len(known):
            return np.full(len(ids), _MISSING, dtype=np.int64)
        at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        return np.where(known[at] == ids, number[at], _MISSING)

    def _timed(self, columns: dict[str, IntColumn], what: str) -> dict[str, IntColumn]:
        """Return the rows that have a start and an end not before it, and say how many have not."""
        start, end = columns["start"], columns["end"]
        whole = (start != _MISSING) & (end != _MISSING) & (end >= start)
        if not whole.all():
            self._limits.append(
                f"{int((~whole).sum()):,} {what} without an end, or with one before their start, left out"
            )
            columns = {name: column[whole] for name, column in columns.items()}
        return columns

    # Parts of the capture

    def _calls(self) -> dict[str, IntColumn]:
        columns = self._columns(
            _RUNTIME, ["start", "end", "globalTid", "correlationId", "nameId"], optional=["eventClass"]
        )
        if columns is None:
            self._limits.append(f"no table {_RUNTIME}: no host call was traced, so nothing can be said of the host")
            columns = {name: np.zeros(0, dtype=np.int64) for name in ("start", "end", "globalTid", "correlationId")}
            columns |= {"nameId": columns["start"], "eventClass": columns["start"]}
        columns = self._timed(columns, "host calls")
        traced = np.isin(columns["eventClass"], _TRACED_CLASSES) | (columns["eventClass"] == _MISSING)
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
        name = self._named(columns["nameId"])
        unknown = self._names.index("(unnamed call)") if (name == _MISSING).any() else NONE
        name = np.where(name == _MISSING, unknown, name)
        return {
            "name": name,
            "kind": self._kinds(name),
            "globalTid": columns["globalTid"],
            "start_ns": columns["start"],
            "end_ns": columns["end"],
            "correlation": columns["correlationId"],
        }

    def _kinds(self, name: IntColumn) -> IntColumn:
        names = self._names.all()
        used = np.unique(name)
        table = np.zeros(len(names) + 1, dtype=np.int64)
        for index in used.tolist():
            table[index] = kind_of(names[index])
        return np.asarray(table[name], dtype=np.int64)

    def _ranges(self) -> dict[str, IntColumn]:
        columns = self._columns(
            _NVTX,
            ["start", "end", "eventType", "globalTid"],
            optional=["textId", "domainId", *_PAYLOADS],
            text=["text"],
        )
        if columns is None:
            self._limits.append("no NVTX ranges in this file: steps have to be inferred and host code has no names")
            columns = {
                name: np.zeros(0, dtype=np.int64)
                for name in ("start", "end", "eventType", "globalTid", "textId", "domainId", "text")
            } | {
                name: np.zeros(0, dtype=np.int64) for name in ("int64Value", "uint64Value", "int32Value", "uint32Value")
            }
        # A registered string has its text in StringIds, and NULL in its place.
        named = np.where(columns["text"] == _MISSING, self._named(columns["textId"]), columns["text"])
        domains = self._domains(columns, named)
        is_range = np.isin(columns["eventType"], (_PUSH_POP, _START_END))
        columns = {name: column[is_range] for name, column in columns.items()} | {"name": named[is_range]}
        columns = self._timed(columns, "ranges")
        payload = np.full(len(columns["start"]), _MISSING)
        for column in _PAYLOADS:
            payload = np.where(payload == _MISSING, columns[column], payload)
        unnamed = self._names.index("(unnamed range)") if (columns["name"] == _MISSING).any() else NONE
        name = np.where(columns["name"] == _MISSING, unnamed, columns["name"])
        name, is_operator = self._operators(name)
        return {
            "kind": np.where(is_operator, int(RangeKind.OPERATOR), int(RangeKind.MARKER)),
            "name": name,
            "domain": _looked_up(domains, _process(columns["globalTid"]), columns["domainId"]),
            "globalTid": columns["globalTid"],
            "start_ns": columns["start"],
            "end_ns": columns["end"],
            "payload": np.where(payload == _MISSING, NONE, payload),
        }

    def _operators(self, name: IntColumn) -> tuple[IntColumn, npt.NDArray[np.bool_]]:
        """Return names without the counters that PyTorch puts behind an operator's, and which names had some."""
        names = self._names.all()
        to = np.arange(len(names) + 1, dtype=np.int64)
        is_operator = np.zeros(len(names) + 1, dtype=bool)
        for index in np.unique(name).tolist():
            match = _OPERATOR.search(names[index])
            if match:
                to[index], is_operator[index] = self._names.index(names[index][: match.start()]), True
        return to[name], is_operator[name]

    def _domains(self, columns: dict[str, IntColumn], named: IntColumn) -> dict[tuple[int, int], int]:
        created = (columns["eventType"] == _DOMAIN_CREATE) & (named != _MISSING)
        rows = zip(
            _process(columns["globalTid"][created]).tolist(),
            columns["domainId"][created].tolist(),
            named[created].tolist(),
            strict=True,
        )
        return {(process, domain): name for process, domain, name in rows}

    def _overhead(self) -> dict[str, IntColumn]:
        parts = [self._columns(table, ["start", "end"], optional=["globalTid"]) for table in _OVERHEAD]
        found = [part for part in parts if part is not None]
        columns = {
            name: np.concatenate([part[name] for part in found]) if found else np.zeros(0, dtype=np.int64)
            for name in ("start", "end", "globalTid")
        }
        columns = self._timed(columns, "rows of the profiler's own overhead")
        return {"start_ns": columns["start"], "end_ns": columns["end"], "globalTid": columns["globalTid"]}

    def _threads(self, ids: IntColumn) -> tuple[Thread, ...]:
        columns = self._columns("ThreadNames", ["globalTid", "nameId"])
        names: dict[int, str] = {}
        if columns is not None and len(columns["globalTid"]):
            every = self._names.all()
            rows = zip(columns["globalTid"].tolist(), self._named(columns["nameId"]).tolist(), strict=True)
            names = {thread: every[name] for thread, name in rows if name != _MISSING}
        return tuple(
            Thread(process, tid & 0xFFFFFF, names.get(tid, ""))
            for tid, process in zip(ids.tolist(), _process(ids).tolist(), strict=True)
        )

    def _device_work(self, api_process: IntColumn, api_correlation: IntColumn) -> tuple[Table, tuple[Device, ...]]:
        common = ["start", "end", "deviceId", "streamId", "correlationId"]
        parts = []
        for table, kind in (
            (_KERNEL, WorkKind.KERNEL),
            (_MEMCPY, WorkKind.COPY),
            (_MEMCPY_PEER, WorkKind.COPY),
            (_MEMSET, WorkKind.MEMSET),
            (_GRAPH, WorkKind.GRAPH),
        ):
            names = ["shortName", "demangledName"] if kind is WorkKind.KERNEL else []
            sizes = ["bytes", "copyKind", "srcKind", "dstKind"] if kind is WorkKind.COPY else []
            sizes = ["bytes"] if kind is WorkKind.MEMSET else sizes
            columns = self._columns(table, common, optional=["globalPid", *names, *sizes])
            if columns is None:
                continue
            columns = self._timed(columns, f"rows of {table}")
            parts.append(self._work(columns, kind))
        if not parts:
            return Table.of_rows(DEVICE, []), ()
        whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        processes = np.unique(api_process)
        if (whole["process"] == _MISSING).any():
            if len(processes) > 1:
                raise InputError(
                    f"{self._path}: device rows do not say which of {len(processes)} processes they belong to "
                    f"({self._tool})",
                    "export the report of one process",
                )
            whole["process"][whole["process"] == _MISSING] = processes[0] if len(processes) else 0
        api = join_calls(api_process, api_correlation, whole["process"], whole["correlation"])
        pairs, device = np.unique(np.stack((whole["process"], whole["device"])), axis=1, return_inverse=True)
        cards = self._device_names()
        devices = tuple(Device(process, number, cards.get((process, number))) for process, number in pairs.T.tolist())
        columns = {**whole, "api": api, "device": device.reshape(-1)}
        del columns["process"], columns["correlation"]
        return Table.of(DEVICE, by_start(columns)[0]), devices

    def _work(self, columns: dict[str, IntColumn], kind: WorkKind) -> dict[str, IntColumn]:
        count = len(columns["start"])
        direction = np.zeros(count, dtype=np.int64)
        host_side = np.zeros(count, dtype=np.int64)
        size = np.full(count, NONE, dtype=np.int64)
        if kind is WorkKind.KERNEL:
            name = self._named(columns["shortName"])
            name = np.where(name == _MISSING, self._named(columns["demangledName"]), name)
            name = np.where(name == _MISSING, self._names.index("(unnamed kernel)"), name)
        elif kind is WorkKind.COPY:
            direction = _mapped(columns["copyKind"], _DIRECTION)
            host = np.where(direction == CopyDirection.TO_HOST, columns["dstKind"], columns["srcKind"])
            is_host = (direction == CopyDirection.TO_HOST) | (direction == CopyDirection.TO_DEVICE)
            host_side = np.where(is_host, _mapped(host, _HOST_SIDE), int(HostSide.UNKNOWN))
            number = np.array([self._names.index(_COPY_NAMES[entry]) for entry in CopyDirection], dtype=np.int64)
            name = number[direction]
        else:
            name = np.full(count, self._names.index("memset" if kind is WorkKind.MEMSET else "graph"))
        if "bytes" in columns:
            size = np.where(columns["bytes"] == _MISSING, NONE, columns["bytes"])
        process = columns["globalPid"]
        return {
            "kind": np.full(count, int(kind), dtype=np.int64),
            "name": name,
            "process": np.where(process == _MISSING, _MISSING, _process(process)),
            "device": columns["deviceId"],
            "stream": columns["streamId"],
            "start_ns": columns["start"],
            "end_ns": columns["end"],
            "correlation": columns["correlationId"],
            "direction": direction,
            "host_side": host_side,
            "size_bytes": size,
        }

    def _device_names(self) -> dict[tuple[int, int], str]:
        """Return the card's name by process and the process's own number for it."""
        gpus = self._columns("TARGET_INFO_GPU", ["id"], text=["name"])
        if gpus is None:
            self._limits.append("no table TARGET_INFO_GPU: the devices have numbers and no names")
            return {}
        every = self._names.all()
        names = {
            gpu: every[name] for gpu, name in zip(gpus["id"].tolist(), gpus["name"].tolist(), strict=True) if name >= 0
        }
        used = self._columns("TARGET_INFO_CUDA_DEVICE", ["gpuId", "cudaId", "pid"])
        if used is None:
            return {}
        rows = zip(used["pid"].tolist(), used["cudaId"].tolist(), used["gpuId"].tolist(), strict=True)
        return {(process, number): names[gpu] for process, number, gpu in rows if gpu in names}

    def _default_streams(self, devices: Sequence[Device]) -> frozenset[tuple[int, int]]:
        columns = self._columns("TARGET_INFO_CUDA_CONTEXT_INFO", ["nullStreamId", "processId", "deviceId"])
        if columns is None:
            return frozenset()
        number = {(device.process, device.device): index for index, device in enumerate(devices)}
        rows = zip(
            columns["processId"].tolist(), columns["deviceId"].tolist(), columns["nullStreamId"].tolist(), strict=True
        )
        return frozenset(
            (number[(process, device)], stream) for process, device, stream in rows if (process, device) in number
        )

    def _event_records(self, api_process: IntColumn, api_correlation: IntColumn) -> tuple[Table, IntColumn]:
        """Return the event records and the id that joins each to its waits (_MISSING: none)."""
        columns = self._columns(_EVENT, ["correlationId", "eventId", "streamId", "globalPid"], optional=["eventSyncId"])
        if columns is None:
            return Table.of_rows(EVENT_RECORDS, []), np.zeros(0, dtype=np.int64)
        process = _process(columns["globalPid"])
        api = join_calls(api_process, api_correlation, process, columns["correlationId"])
        known = api != NONE
        table = Table.of(
            EVENT_RECORDS,
            {"api": api[known], "event": columns["eventId"][known], "stream": _id(columns["streamId"][known])},
        )
        return table, _id(columns["eventSyncId"][known])

    def _links(self, api_process: IntColumn, api: Table, records: Table, sync_ids: IntColumn) -> Table:
        """Return what each wait waited for.

        The stored syncType is not used: exports of 2024 to 2026 number it otherwise than their own ENUM table, so a
        wait is a wait by the name of its call.  Event ids are used again, so a record is proved by eventSyncId alone;
        by event id, the latest record before the wait is inferred.
        """
        columns = self._columns(_SYNC, ["correlationId", "streamId", "globalPid"], optional=["eventId", "eventSyncId"])
        if columns is None:
            return Table.of_rows(LINKS, [])
        process = _process(columns["globalPid"])
        wait = join_calls(api_process, api["correlation"], process, columns["correlationId"])
        is_wait = np.isin(api["kind"], [int(kind) for kind in WAIT_KINDS])
        chosen = (wait != NONE) & is_wait[np.maximum(wait, 0)] if len(is_wait) else np.zeros(len(wait), dtype=bool)
        wait, process = wait[chosen], process[chosen]
        event, sync_id = _id(columns["eventId"][chosen]), _id(columns["eventSyncId"][chosen])
        record_process = api_process[records["api"]]
        proved = join_calls(record_process, sync_ids, process, sync_id)
        inferred = _latest_before(
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
                "stream": _id(columns["streamId"][chosen]),
                "event": event,
                "evidence": evidence,
            },
        )

    def _say_limits(self, api: Table, device: Table) -> None:
        if not self._tables.columns(_SYNC) and np.isin(api["kind"], [int(kind) for kind in WAIT_KINDS]).any():
            self._limits.append(f"no table {_SYNC}: waits are not joined to streams or events")
        if len(api) and not len(device):
            self._limits.append(
                "host calls but no device activity: the tracer saw none (a process forked after CUDA started, say), "
                "which does not mean an idle device"
            )
        if (device["kind"] == WorkKind.GRAPH).any():
            self._limits.append("graphs are traced as wholes: a graph's kernels and the gaps between them are not seen")
        columns = self._columns("DIAGNOSTIC_EVENT", ["severity"], text=["text"])
        if columns is None:
            return
        every = self._names.all()
        numbers = np.unique(columns["text"][(columns["severity"] >= _WARNING) & (columns["text"] >= 0)])
        said = [every[number] for number in numbers.tolist()]
        losses = [text for text in said if _LOST.search(text)]
        self._limits.extend(f"the profiler says: {text}" for text in losses[:_LOSSES_SHOWN])


def _decoded(texts: pa.Array) -> Iterable[str]:
    """Return the texts; bytes that are no UTF-8 become replacement characters."""
    return (bytes(raw.as_buffer()).decode("utf-8", errors="replace") for raw in pc.cast(texts, pa.large_binary()))


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_NAME else text[:_MAX_NAME] + "..."


def _process(global_id: IntColumn) -> IntColumn:
    """Return the process id in a globalTid or globalPid: bits 24 to 47."""
    return np.asarray((global_id >> 24) & 0xFFFFFF, dtype=np.int64)


def _id(column: IntColumn) -> IntColumn:
    """Return ids with both spellings of "none" as -1."""
    return np.where((column == _MISSING) | (column == _NO_ID), NONE, column)


def _mapped(column: IntColumn, known: Mapping[int, int]) -> IntColumn:
    """Return what each value stands for, 0 for one that is not known."""
    result = np.zeros(len(column), dtype=np.int64)
    for value, meaning in known.items():
        result[column == value] = int(meaning)
    return result


def _numbered(*columns: IntColumn) -> tuple[IntColumn, list[npt.NDArray[np.int32]]]:
    """Return the distinct ids of all columns, and each column as indices into them; _MISSING becomes -1."""
    ids = np.unique(np.concatenate(columns))
    ids = ids[ids != _MISSING]
    return ids, [
        np.where(column == _MISSING, NONE, np.searchsorted(ids, column)).astype(np.int32) for column in columns
    ]


def _looked_up(known: dict[tuple[int, int], int], process: IntColumn, number: IntColumn) -> IntColumn:
    result = np.full(len(process), NONE, dtype=np.int64)
    for (its_process, its_number), name in known.items():
        result[(process == its_process) & (number == its_number)] = name
    return result


def _latest_before(
    process: IntColumn, event: IntColumn, time: IntColumn, of_process: IntColumn, of_event: IntColumn, before: IntColumn
) -> IntColumn:
    """Return for each wait the row of the latest record of the same event of its process before it, -1 for none."""
    if not len(event) or not len(of_event):
        return np.full(len(of_event), NONE, dtype=np.int64)
    pairs = np.concatenate((np.stack((process, event)), np.stack((of_process, of_event))), axis=1)
    _, group = np.unique(pairs, axis=1, return_inverse=True)
    group = group.reshape(-1)
    mine, wanted = group[: len(event)], group[len(event) :]
    order = np.lexsort((time, mine))
    # Ranks in time make (group, time) one sortable number.
    times = np.unique(np.concatenate((time, before)))
    key = mine[order] * np.int64(len(times) + 1) + np.searchsorted(times, time[order])
    at = np.searchsorted(key, wanted * np.int64(len(times) + 1) + np.searchsorted(times, before), side="left") - 1
    row = order[np.maximum(at, 0)]
    return np.where((at >= 0) & (mine[row] == wanted) & (of_event != NONE), row, NONE).astype(np.int64)


IMPORTER = NsysImporter()
