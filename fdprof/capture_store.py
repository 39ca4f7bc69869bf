"""A Capture as a folder: tables.json, and one Parquet file a table.

CAPTURE/tables.json     everything that is not a column, with schema_version
CAPTURE/api.parquet     and device, ranges, links, event_records, overhead, untimed_copies where there are any
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fdprof import folders
from fdprof.capture import (
    API,
    DEVICE,
    EVENT_RECORDS,
    LINKS,
    OVERHEAD,
    RANGES,
    UNTIMED_COPIES,
    ApiKind,
    Capture,
    CopyDirection,
    Device,
    Evidence,
    HostSide,
    RangeKind,
    Thread,
    WorkKind,
)
from fdprof.documents import damage_in, entries, natural, read_json, text, write_json
from fdprof.errors import InputError, UsageError
from fdprof.model import Schema, Table
from fdprof.parquet import read_table, write_table

# History of the format.  1: first.
SCHEMA_VERSION = 1

KIND = "capture tables"
_FILE = "tables.json"
_HINT = "take the capture again with fdprof capture"

_TABLES: Mapping[str, Schema] = {
    "api": API,
    "device": DEVICE,
    "ranges": RANGES,
    "links": LINKS,
    "event_records": EVENT_RECORDS,
    "overhead": OVERHEAD,
    "untimed_copies": UNTIMED_COPIES,
}
_ENUMS = {
    ("api", "kind"): len(ApiKind),
    ("device", "kind"): len(WorkKind),
    ("device", "direction"): len(CopyDirection),
    ("device", "host_side"): len(HostSide),
    ("untimed_copies", "direction"): len(CopyDirection),
    ("untimed_copies", "host_side"): len(HostSide),
    ("ranges", "kind"): len(RangeKind),
    ("links", "evidence"): len(Evidence),
}


def save_capture(capture: Capture, folder: Path) -> None:
    """Save a capture as a folder, which `fdprof analyze` reads; UsageError when it exists or cannot be written."""
    try:
        is_there = os.path.lexists(folder)  # a dangling link too: nothing can be renamed to it
    except ValueError:  # a null byte
        is_there = False
    if is_there or not folders.make(folder, lambda scratch: _write(capture, scratch)):
        raise UsageError(f"{folder} exists", "give the name of a folder that is to be made")


def _write(capture: Capture, folder: Path) -> None:
    rows = {}
    for name in _TABLES:
        table: Table | None = getattr(capture, name)
        if table is not None:
            write_table(folder / f"{name}.parquet", table.columns)
            rows[name] = len(table)
    document = {
        "schema_version": SCHEMA_VERSION,
        "kind": KIND,
        "source": capture.source,
        "tool": capture.tool,
        "rows_of_tables": rows,
        "names": list(capture.names),
        "threads": [{"process": t.process, "thread": t.thread, "name": t.name} for t in capture.threads],
        "devices": [{"process": d.process, "device": d.device, "name": d.name} for d in capture.devices],
        "default_streams": sorted(list(pair) for pair in capture.default_streams),
        "non_blocking_streams": sorted(list(pair) for pair in capture.non_blocking_streams),
        "time_error_ns": capture.time_error_ns,
        "rows": capture.rows,
        "limits": list(capture.limits),
    }
    write_json(folder / _FILE, document)


def holds_capture(folder: Path) -> bool:
    """Return whether a folder is one that `save_capture` wrote."""
    return (folder / _FILE).is_file()


def load_capture(folder: Path) -> Capture:
    """Return a saved capture; InputError, naming file and place, where it is damaged or newer than this fdprof."""
    path = folder / _FILE
    document = read_json(path, _HINT)
    with damage_in(path, _HINT):
        if document["kind"] != KIND:
            raise ValueError(f"kind is {document['kind']!r:.40}, expected {KIND!r}")
        version = natural(document["schema_version"])
        if not 1 <= version <= SCHEMA_VERSION:
            raise InputError(
                f"{path} has schema_version {version}, this fdprof reads 1 to {SCHEMA_VERSION}",
                "read it with the fdprof that wrote it, or a newer one",
            )
        names = tuple(text(name) for name in entries(document["names"]))
        threads = tuple(
            Thread(natural(t["process"]), natural(t["thread"]), text(t["name"])) for t in entries(document["threads"])
        )
        devices = tuple(
            Device(natural(d["process"]), natural(d["device"]), None if d["name"] is None else text(d["name"]))
            for d in entries(document["devices"])
        )
        rows = {name: natural(count) for name, count in document["rows_of_tables"].items()}
        if not set(_TABLES) - {"untimed_copies"} <= set(rows) <= set(_TABLES):
            raise ValueError(f"rows_of_tables names {', '.join(sorted(rows)) or 'no table'}")
        tables = {
            name: read_table(folder / f"{name}.parquet", _TABLES[name], count, _HINT) for name, count in rows.items()
        }
        _check_references(folder, tables, len(names), len(threads), len(devices))
        return Capture(
            source=text(document["source"]),
            tool=text(document["tool"]),
            names=names,
            threads=threads,
            devices=devices,
            api=tables["api"],
            device=tables["device"],
            ranges=tables["ranges"],
            links=tables["links"],
            event_records=tables["event_records"],
            overhead=tables["overhead"],
            default_streams=_pairs(document["default_streams"]),
            non_blocking_streams=_pairs(document["non_blocking_streams"]),
            untimed_copies=tables.get("untimed_copies"),
            time_error_ns=natural(document["time_error_ns"]),
            rows=natural(document["rows"]),
            limits=tuple(text(limit) for limit in entries(document["limits"])),
        )


def _pairs(value: Any) -> frozenset[tuple[int, int]]:
    """Return pairs of device and stream."""
    found = set()
    for pair in entries(value):
        device, stream = entries(pair)
        found.add((natural(device), natural(stream)))
    return frozenset(found)


def _check_references(folder: Path, tables: Mapping[str, Table], names: int, threads: int, devices: int) -> None:
    """Raise InputError where a row points at something that is not there."""
    calls = len(tables["api"])
    limits: dict[tuple[str, str], tuple[int, int]] = {
        ("api", "name"): (0, names),
        ("api", "thread"): (0, threads),
        ("device", "name"): (0, names),
        ("device", "device"): (0, devices),
        ("device", "api"): (-1, calls),
        ("ranges", "name"): (0, names),
        ("ranges", "domain"): (-1, names),
        ("ranges", "thread"): (-1, threads),
        ("links", "wait"): (0, calls),
        ("links", "record"): (-1, calls),
        ("event_records", "api"): (0, calls),
        ("overhead", "thread"): (-1, threads),
        ("untimed_copies", "api"): (0, calls),
    } | {place: (0, count) for place, count in _ENUMS.items()}
    for (name, column), (lowest, limit) in limits.items():
        values: Any = tables[name][column] if name in tables else np.zeros(0)
        if len(values) and not lowest <= int(values.min()) <= int(values.max()) < limit:
            got, expected = f"{values.min()} to {values.max()}", f"{lowest} to {limit - 1}"
            raise InputError(f"{folder / name}.parquet: {column} is {got}, expected {expected}", _HINT)
    for name in ("api", "device", "ranges"):
        start = tables[name]["start_ns"]
        if (start[1:] < start[:-1]).any():
            raise InputError(f"{folder / name}.parquet: rows are not by start", _HINT)
