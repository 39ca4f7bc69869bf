"""Finds the importer of a file by what is in it, and reads it."""

import gc
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fdprof import plugins
from fdprof.capture import Capture
from fdprof.errors import InputError
from fdprof.importers.protocol import HEAD_BYTES, Importer, Progress

GZIP_MAGIC = b"\x1f\x8b"


def import_capture(path: Path, progress: Progress) -> Capture:
    """Return the capture in a file or folder; InputError when no importer knows it or it cannot be used."""
    importers: list[Importer] = [plugins.load("importers", name) for name in plugins.names("importers")]
    head = _head(path)
    for importer in importers:
        if importer.sniff(path, head):
            with _no_collection():
                return importer.read(path, progress)
    known = "; ".join(importer.format for importer in importers)
    raise InputError(f"{path} is of no format that fdprof reads ({_seen(path, head)})", f"it reads: {known}")


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
    try:
        if path.is_dir():
            return b""
        if not path.exists():
            raise InputError(f"{path} does not exist", "give the path of a capture or of a run's folder")
        if not path.is_file():
            raise InputError(f"{path} is no regular file", "give the path of a capture or of a run's folder")
        with path.open("rb") as file:
            raw = file.read(HEAD_BYTES)
        if not raw:
            raise InputError(f"{path} is empty", "take the capture again")
        if raw.startswith(GZIP_MAGIC):
            with gzip.open(path) as unpacked:
                return unpacked.read(HEAD_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot read {path}: {error}", "take the capture again") from error
    return raw


def _seen(path: Path, head: bytes) -> str:
    """Return what the input looks like, for the message."""
    if path.is_dir():
        names = ", ".join(sorted(entry.name for entry in path.iterdir())[:4]) or "nothing"
        return f"a folder with {names}"
    start = head[:16]
    return f"it begins with {start.decode('ascii')!r}" if start.isascii() else f"it begins with bytes {start.hex(' ')}"
