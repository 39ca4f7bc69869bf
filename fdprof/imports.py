"""Finds the importer of a file by what is in it, reads it, and checks that what came out can be added up.

The folder of `fdprof capture` is no format of its own: it holds a capture of any of them, and says how that was taken.
"""

import gc
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from fdprof import captured, plugins
from fdprof.capture import Capture
from fdprof.errors import InputError
from fdprof.importers.protocol import HEAD_BYTES, Importer, Progress
from fdprof.model import Table

GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WBITS = 16 + zlib.MAX_WBITS

MAX_SPAN_NS = 1 << 53
"""104 days.  Times further apart are no capture's, and doubles could not hold sums of them to the ns."""

_MAX_TOGETHER_NS = 1 << 62  # what rows of one kind may last together: sums of int64 stay right
_NS_PER_DAY = 86_400 * 10**9
_AGAIN = "take the capture again"
_WHAT = "give the path of a capture or of a run's folder"


def import_capture(path: Path, progress: Progress) -> Capture:
    """Return the capture in a file or folder; InputError when no importer knows it or it cannot be used."""
    try:
        is_captured = captured.is_captured(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    if not is_captured:
        return _import(path, progress)
    record = captured.load(path)
    return captured.described(_import(path / record.capture, progress), record)


def _import(path: Path, progress: Progress) -> Capture:
    # Loaded one by one: what another format needs takes longer to import than a small capture to read.
    importers: Iterator[Importer] = (plugins.load("importers", name) for name in plugins.names("importers"))
    try:
        head = _head(path)
        importer = next((importer for importer in importers if importer.sniff(path, head)), None)
        seen = "" if importer else _seen(path, head)
    except OSError as error:
        raise _unreadable(path, error) from error
    except zlib.error as error:
        raise InputError(f"{path} is damaged: it begins as gzip data and is none: {error}", _AGAIN) from error
    if importer is None:
        known = [plugins.load("importers", name).format for name in plugins.names("importers")]
        hint = "it reads: " + "; ".join([*known, captured.FORMAT])
        raise InputError(f"{path} is of no format that fdprof reads ({seen})", hint)
    with _no_collection():
        capture = importer.read(path, progress)
    _check_times(path, capture)
    return capture


def _unreadable(path: Path, error: OSError) -> InputError:
    return InputError(f"cannot read {path}: {error.strerror or error}", _AGAIN)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Keep Python's cyclic collector still: a file's events all live until they are columns, and it would walk them."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _head(path: Path) -> bytes:
    """Return the first bytes of a file, unpacked if it is gzip; none of a folder."""
    if path.is_dir():
        return b""
    if not path.exists():
        raise InputError(f"{path} does not exist", _WHAT)
    if not path.is_file():
        raise InputError(f"{path} is no regular file", _WHAT)
    with path.open("rb") as file:
        raw = file.read(HEAD_BYTES)
    if not raw:
        raise InputError(f"{path} is empty", _AGAIN)
    if raw.startswith(GZIP_MAGIC):
        # Not by gzip, which says nothing of a file that ends early: its reader can say where.
        return zlib.decompressobj(wbits=_GZIP_WBITS).decompress(raw, HEAD_BYTES)
    return raw


def _seen(path: Path, head: bytes) -> str:
    """Return what the input looks like, for the message."""
    if path.is_dir():
        names = ", ".join(sorted(entry.name for entry in path.iterdir())[:4]) or "nothing"
        return f"a folder with {names}"
    start = head[:16]
    return f"it begins with {start.decode('ascii')!r}" if start.isascii() else f"it begins with bytes {start.hex(' ')}"


def _check_times(path: Path, capture: Capture) -> None:
    """Raise InputError where a row ends before it begins, or where times are too far apart to be added up."""
    tables = {"host call": capture.api, "device row": capture.device, "range": capture.ranges}
    every = {name: table for name, table in (tables | {"overhead row": capture.overhead}).items() if len(table)}
    for name, table in every.items():
        backward = np.flatnonzero(table["end_ns"] < table["start_ns"])
        if len(backward):
            raise InputError(f"{path}: {_row(capture, name, table, int(backward[0]))} ends before it begins", _AGAIN)
    if not every:
        return
    if capture.time_error_ns > MAX_SPAN_NS:
        raise InputError(f"{path}: its times are off by up to {capture.time_error_ns:,} ns, as it says itself", _AGAIN)
    first = {name: int(np.argmin(table["start_ns"])) for name, table in every.items()}
    last = {name: int(np.argmax(table["end_ns"])) for name, table in every.items()}
    early = min(every, key=lambda name: int(every[name]["start_ns"][first[name]]))
    late = max(every, key=lambda name: int(every[name]["end_ns"][last[name]]))
    span_ns = int(every[late]["end_ns"][last[late]]) - int(every[early]["start_ns"][first[early]])
    if span_ns > MAX_SPAN_NS:
        raise InputError(
            f"{path}: {_row(capture, early, every[early], first[early])} and "
            f"{_row(capture, late, every[late], last[late])} are {span_ns / _NS_PER_DAY:,.0f} days apart, more than a "
            "capture lasts",
            f"leave out the rows whose times are wrong, or {_AGAIN}",
        )
    for name, table in every.items():
        if name != "range" and float((table["end_ns"] - table["start_ns"]).sum(dtype=np.float64)) > _MAX_TOGETHER_NS:
            raise InputError(f"{path}: its {len(table):,} {name}s last more than 146 years together", _AGAIN)


def _row(capture: Capture, kind: str, table: Table, row: int) -> str:
    """Return a row in words: its kind, its name and its times."""
    name = f" {capture.names[int(table['name'][row])]!r:.60}" if "name" in table.columns else ""
    return f"the {kind}{name} of {int(table['start_ns'][row])} to {int(table['end_ns'][row])} ns"
