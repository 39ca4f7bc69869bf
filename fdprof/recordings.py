"""What the collector wrote: files of rows (ops/collector/csrc/rows.h), one folder a process and recording.

A process that was killed left rows without an end: they are read up to where every file has them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fdprof.documents import damage_in, entries, natural, read_json, text
from fdprof.errors import InputError
from fdprof.version import VERSION

_DAMAGED = "take the capture again"
# One more number where a process became another program, or had the id of one that had ended.
_FOLDER = re.compile(r"(?P<process>\d{1,9})-(?P<number>\d{1,6})(-\d{1,6})?")
_ROWS: Mapping[str, Sequence[tuple[str, str]]] = {
    "api": [
        ("start_ns", "<u8"),
        ("end_ns", "<u8"),
        ("thread", "<u4"),
        ("correlation", "<u4"),
        ("callback", "<u4"),
        ("domain", "<u4"),
    ],
    "work": [
        ("start_ns", "<u8"),
        ("end_ns", "<u8"),
        ("bytes", "<u8"),
        ("correlation", "<u4"),
        ("device", "<u4"),
        ("context", "<u4"),
        ("stream", "<u4"),
        ("name", "<u4"),
        ("kind", "u1"),
        ("copy", "u1"),
        ("from", "u1"),
        ("to", "u1"),
    ],
    "ranges": [
        ("start_ns", "<u8"),
        ("end_ns", "<u8"),
        ("payload", "<i8"),
        ("thread", "<u4"),
        ("name", "<u4"),
        ("domain", "<u4"),
        ("reserved", "<u4"),
    ],
    "syncs": [
        ("start_ns", "<u8"),
        ("end_ns", "<u8"),
        ("event_sync", "<u8"),
        ("correlation", "<u4"),
        ("type", "<u4"),
        ("context", "<u4"),
        ("stream", "<u4"),
        ("event", "<u4"),
        ("reserved", "<u4"),
    ],
    "events": [
        ("event_sync", "<u8"),
        ("correlation", "<u4"),
        ("context", "<u4"),
        ("stream", "<u4"),
        ("event", "<u4"),
    ],
    "overhead": [("start_ns", "<u8"), ("end_ns", "<u8"), ("thread", "<u4"), ("kind", "<u4")],
    "contexts": [("context", "<u4"), ("device", "<u4"), ("null_stream", "<u4"), ("reserved", "<u4")],
    "streams": [("context", "<u4"), ("stream", "<u4"), ("flag", "<u4"), ("reserved", "<u4")],
}

Rows = npt.NDArray[np.void]


def row_sizes() -> tuple[int, ...]:
    """Return the size of each table's row in bytes, in the order of rows.h, to hold against the library's."""
    return tuple(np.dtype(list(fields)).itemsize for fields in _ROWS.values())


def recordings_in(folder: Path) -> list[list[Path]]:
    """Return the folders of each recording, in order: one of each process that took part in it."""
    found: dict[int, list[Path]] = {}
    for path in sorted(folder.iterdir()):
        match = _FOLDER.fullmatch(path.name)
        if match and (path / "begin.json").exists():
            found.setdefault(int(match["number"]), []).append(path)
    return [found[number] for number in sorted(found)]


def errors_in(folder: Path) -> tuple[str, ...]:
    """Return why processes that were to be recorded could not be, each reason once."""
    texts = (path.read_text(encoding="utf-8", errors="replace").strip() for path in sorted(folder.glob("*.error")))
    return tuple(dict.fromkeys(texts))


@dataclass(frozen=True, slots=True)
class Process:
    """One process of a recording, as its files have it."""

    number: int
    rows: Mapping[str, Rows]
    names: Mapping[int, str]
    callbacks: Mapping[tuple[int, int], str]
    threads: Mapping[int, str]
    devices: tuple[str, ...]
    tool: str
    limits: tuple[str, ...]


def read_process(folder: Path) -> Process:
    """Return what one folder holds; InputError, naming the file, where it is damaged."""
    begin = read_json(folder / "begin.json", _DAMAGED)
    rows = {name: _read_rows(folder / name, list(fields)) for name, fields in _ROWS.items()}
    with damage_in(folder / "begin.json", _DAMAGED):
        number = natural(begin["process"])
    end = folder / "end.json"
    if not end.exists():
        tool = f"fdprof {VERSION}, collector"
        limits = [
            f"process {number} ended before the collector could: what it did in its last second, or more where CUPTI "
            "held records back, is missing"
        ]
        return Process(number, _up_to_where_all_are(rows), *_texts(folder), {}, (), tool, tuple(limits))
    document = read_json(end, _DAMAGED)
    with damage_in(end, _DAMAGED):
        cupti = text(document["cupti"]).split(",")[0]
        counts = {name: natural(document[name]) for name in ("dropped", "untimed", "not_written")}
        devices = tuple(text(name) for name in entries(document["devices"]))
        error = text(document["error"])
    limits = []
    if counts["dropped"]:
        limits.append(f"process {number}: CUPTI dropped {counts['dropped']:,} records")
    if counts["untimed"]:
        limits.append(f"process {number}: {counts['untimed']:,} pieces of device work were not over at the end")
    if counts["not_written"]:
        limits.append(f"process {number}: {counts['not_written']:,} rows could not be written: the disk was full, say")
    if error:
        limits.append(f"process {number}: CUDA was not traced: {error}")
    threads = {int(key): name for key, name in _lines(folder / "threads", 1)}
    tool = f"fdprof {VERSION}, collector{', ' + cupti if cupti else ''}"
    return Process(number, rows, *_texts(folder), threads, devices, tool, tuple(limits))


def _up_to_where_all_are(rows: Mapping[str, Rows]) -> dict[str, Rows]:
    """Return the rows up to the last time that is in the files of host calls and of device work.

    What CUPTI still held is missing of one kind or the other, and a step without its calls would look idle.
    """
    last = [int(rows[name]["end_ns"].max()) for name in ("api", "work") if len(rows[name])]
    if not last:
        return dict(rows)
    timed = {name: part for name, part in rows.items() if "end_ns" in (part.dtype.names or ())}
    return {**rows, **{name: part[part["end_ns"] <= min(last)] for name, part in timed.items()}}


def _read_rows(path: Path, fields: list[tuple[str, str]]) -> Rows:
    dtype = np.dtype(fields)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}", _DAMAGED) from error
    # A process that was killed while it wrote leaves a part of a row.
    return np.frombuffer(data, dtype=dtype, count=len(data) // dtype.itemsize)


def _lines(path: Path, keys: int) -> list[tuple[str, str]]:
    """Return the lines of a file of names: as many numbers as said, then the text."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}", _DAMAGED) from error
    found = []
    for line in lines[:-1]:  # what follows the last line break was cut off
        parts = line.split(" ", keys)
        if len(parts) != keys + 1 or not all(part.isdecimal() for part in parts[:keys]):
            raise InputError(f"{path}: the line {line[:60]!r} is not numbers and a name", _DAMAGED)
        found.append((" ".join(parts[:keys]), "".join(c if c.isprintable() else "?" for c in parts[keys])))
    return found


def _texts(folder: Path) -> tuple[dict[int, str], dict[tuple[int, int], str]]:
    names = {int(key): name for key, name in _lines(folder / "names", 1)}
    callbacks = {}
    for key, name in _lines(folder / "callbacks", 2):
        domain, callback = key.split(" ")
        callbacks[int(domain), int(callback)] = name
    return names, callbacks
