"""Make test data of captures: keep what fdprof reads, and nothing that names a machine or a person.

usage: python benchmarks/scrub_capture.py IN OUT      (an nsys sqlite export or a chrome trace; either may be gzip)

An export keeps the tables that the importer reads, the text that those tables point to, and the versions; a trace
keeps its events and the keys about the device.
"""

import gzip
import json
import sqlite3
import sys
import tempfile
from pathlib import Path

_TABLES = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId",
    "CUPTI_ACTIVITY_KIND_KERNEL": "start end deviceId streamId correlationId globalPid shortName demangledName",
    "CUPTI_ACTIVITY_KIND_MEMCPY": "start end deviceId streamId correlationId globalPid bytes copyKind srcKind dstKind",
    "CUPTI_ACTIVITY_KIND_MEMSET": "start end deviceId streamId correlationId globalPid bytes",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": "start end deviceId streamId correlationId globalPid",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": "correlationId streamId globalPid syncType eventId eventSyncId",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "streamId correlationId globalPid eventId eventSyncId",
    "NVTX_EVENTS": "start end eventType globalTid domainId text textId int64Value uint64Value",
    "PROFILER_OVERHEAD": "start end globalTid nameId",
    "DIAGNOSTIC_EVENT": "severity text",
    "TARGET_INFO_GPU": "id name",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid",
    "TARGET_INFO_CUDA_CONTEXT_INFO": "nullStreamId processId deviceId contextId",
    "TARGET_INFO_CUDA_STREAM": "streamId processId contextId flag",
}
_STRINGS = ("nameId", "shortName", "demangledName", "textId")
_VERSIONS = ("EXPORT_PRODUCT_VERSION", "EXPORT_SCHEMA_VERSION")
# A diagnostic may quote a path or a host; these say what is not in the file, and nothing else.
_DIAGNOSTICS = ("Not all NVTX events", "Not all CUDA events")
_KEPT_KEYS = ("schemaVersion", "displayTimeUnit", "baseTimeNanoseconds", "deviceProperties", "cuda_runtime_version")
_KEPT_METADATA = ("process_name", "thread_name", "process_labels", "process_sort_index", "thread_sort_index")


def _unpacked(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data


def _sqlite(data: bytes) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "in.sqlite"), Path(folder, "out.sqlite")
        source.write_bytes(data)
        old, new = sqlite3.connect(source), sqlite3.connect(target)
        used: set[int] = set()
        for table, wanted in _TABLES.items():
            there = [row[1] for row in old.execute(f"PRAGMA table_info({table})")]
            columns = [column for column in wanted.split() if column in there]
            if not columns:
                continue
            rows = old.execute(f"SELECT {', '.join(columns)} FROM {table}").fetchall()
            if table == "DIAGNOSTIC_EVENT":
                rows = [row for row in rows if str(row[1]).startswith(_DIAGNOSTICS)]
            new.execute(f"CREATE TABLE {table} ({', '.join(columns)})")
            new.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(columns))})", rows)
            for index, column in enumerate(columns):
                if column in _STRINGS:
                    used |= {row[index] for row in rows if row[index] is not None}
        new.execute("CREATE TABLE StringIds (id, value)")
        strings = old.execute("SELECT id, value FROM StringIds").fetchall()
        new.executemany("INSERT INTO StringIds VALUES (?, ?)", [row for row in strings if row[0] in used])
        new.execute("CREATE TABLE META_DATA_EXPORT (name, value)")
        versions = [row for row in old.execute("SELECT name, value FROM META_DATA_EXPORT") if row[0] in _VERSIONS]
        new.executemany("INSERT INTO META_DATA_EXPORT VALUES (?, ?)", versions)
        new.commit()
        new.execute("VACUUM")
        new.close()
        old.close()
        return target.read_bytes()


def _trace(data: bytes) -> bytes:
    document = json.loads(data)
    kept = {key: document[key] for key in _KEPT_KEYS if key in document}
    events = [
        event for event in document["traceEvents"] if event.get("ph") != "M" or event.get("name") in _KEPT_METADATA
    ]
    return json.dumps({**kept, "traceEvents": events}, separators=(",", ":")).encode()


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    data = _unpacked(Path(sys.argv[1]))
    clean = _sqlite(data) if data.startswith(b"SQLite format 3\0") else _trace(data)
    with Path(sys.argv[2]).open("wb") as file, gzip.GzipFile("", "wb", 9, file, 0) as packed:  # no name, no time
        packed.write(clean)


if __name__ == "__main__":
    main()
