"""Columns of an export's tables as integers, names as numbers, and what had to be left out."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fdprof.capture import NONE
from fdprof.columns import Names
from fdprof.cupti import NO_ID
from fdprof.errors import InputError
from fdprof.importers._nsys_tables import AGAIN, Tables
from fdprof.importers.protocol import Progress
from fdprof.model import IntColumn

MISSING = int(np.iinfo(np.int64).min)
"""A NULL, or a column that this version of the export has not."""

_MAX_NAME = 10_000
_TIMES = frozenset({"start", "end"})


class Columns:
    """Reads tables of one file; `names`, `limits` and `rows` grow on the way."""

    def __init__(self, path: Path, tables: Tables, tool: str, progress: Progress) -> None:
        self._path, self._tables, self._tool, self._progress = path, tables, tool, progress
        self.names = Names()
        self.limits: list[str] = []
        self.rows = 0
        self._strings = self._read_strings()

    def has(self, table: str) -> bool:
        """Return whether the file has a table."""
        return bool(self._tables.columns(table))

    def first_of(self, table: str, names: Sequence[str]) -> list[str]:
        """Return the first of these columns that a table has; none where it has none."""
        return [name for name in names if name in self._tables.columns(table)][:1]

    def refuse(self, problem: str, hint: str) -> InputError:
        """Return the error that says what is wrong with this file."""
        return InputError(f"{self._path}: {problem} ({self._tool})", hint)

    def read(
        self, table: str, required: Sequence[str], optional: Sequence[str] = (), text: Sequence[str] = ()
    ) -> dict[str, IntColumn] | None:
        """Return integer columns of a table, None where it is absent; NULL and absent columns are MISSING.

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
        self.rows += len(read)
        self._progress(f"{table}: {len(read):,} rows")
        columns = {name: self._integers(table, name, read.column(name)) for name in wanted if name not in text}
        columns |= {name: self._texts(table, name, read.column(name)) for name in wanted if name in text}
        for name in (*optional, *text):
            columns.setdefault(name, np.full(len(read), MISSING, dtype=np.int64))
        return columns

    def _integers(self, table: str, name: str, column: pa.ChunkedArray) -> IntColumn:
        if pa.types.is_null(column.type):
            return np.full(len(column), MISSING, dtype=np.int64)
        if pa.types.is_unsigned_integer(column.type) and column.type.bit_width == 64:
            if name in _TIMES and (pc.max(column).as_py() or 0) > np.iinfo(np.int64).max:
                raise InputError(f"{self._path}, table {table}, column {name}: a time beyond 63 bits", AGAIN)
            column = column.cast(pa.int64(), safe=False)  # ids: only that they differ matters
        if not pa.types.is_integer(column.type) and not pa.types.is_boolean(column.type):
            if column.null_count == len(column):
                return np.full(len(column), MISSING, dtype=np.int64)
            raise InputError(
                f"{self._path}, table {table}, column {name}: {column.type!s:.60} values, expected integers of 64 bits",
                AGAIN,
            )
        return _joined([_numbers(chunk, MISSING) for chunk in column.cast(pa.int64()).chunks])

    def _texts(self, table: str, name: str, column: pa.ChunkedArray) -> IntColumn:
        """Return for each text its number among the capture's names, MISSING for NULL."""
        if column.null_count == len(column):
            return np.full(len(column), MISSING, dtype=np.int64)
        if not is_text(column.type):
            raise InputError(
                f"{self._path}, table {table}, column {name}: {column.type!s:.60} values, expected text", AGAIN
            )
        found = []
        for part in column.chunks:  # each by itself: one dictionary for all would be gone through for each
            chunk = part if pa.types.is_dictionary(part.type) else part.dictionary_encode()
            number = self._name_numbers(chunk.dictionary)
            indices = _numbers(chunk.indices.cast(pa.int64()), len(number))
            found.append(np.append(number, MISSING)[indices])
        return _joined(found)

    def _name_numbers(self, texts: pa.Array) -> IntColumn:
        numbers = (MISSING if text is None else self.names.index(_cut(text)) for text in decoded(texts))
        return np.fromiter(numbers, dtype=np.int64, count=len(texts))

    def _read_strings(self) -> tuple[IntColumn, IntColumn]:
        """Return the ids of StringIds, sorted, and the number of each one's name."""
        columns = self.read("StringIds", ["id"], text=["value"])
        if columns is not None and "value" not in self._tables.columns("StringIds"):
            raise self.refuse("table StringIds has no column value", AGAIN)
        if columns is None:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        order = np.argsort(columns["id"], kind="stable")
        return columns["id"][order], columns["value"][order]

    def named(self, ids: IntColumn) -> IntColumn:
        """Return the name's number of each string id, MISSING for an id that is not in StringIds."""
        known, number = self._strings
        if not len(known):
            return np.full(len(ids), MISSING, dtype=np.int64)
        at = np.minimum(np.searchsorted(known, ids), len(known) - 1)
        return np.where(known[at] == ids, number[at], MISSING)

    def kept(self, columns: dict[str, IntColumn], chosen: npt.NDArray[np.bool_], left: str) -> dict[str, IntColumn]:
        """Return the chosen rows, and say how many others were left out."""
        if chosen.all():
            return columns
        self.limits.append(f"{int((~chosen).sum()):,} {left}, left out")
        return {name: column[chosen] for name, column in columns.items()}

    def timed(self, columns: dict[str, IntColumn], what: str) -> dict[str, IntColumn]:
        """Return the rows that have a start and an end not before it, and say how many have not."""
        start, end = columns["start"], columns["end"]
        whole = (start != MISSING) & (end != MISSING) & (end >= start)
        return self.kept(columns, whole, f"{what} without an end, or with one before their start")


def _joined(parts: Sequence[IntColumn]) -> IntColumn:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _numbers(column: pa.Array, null: int) -> IntColumn:
    """Return an int64 Arrow array as NumPy's, with `null` for NULL.

    Arrow's own to_numpy, fill_null and combine_chunks import pandas, which takes longer than most files do.
    """
    if not len(column):
        return np.zeros(0, dtype=np.int64)
    here = slice(column.offset, column.offset + len(column))
    validity, data = column.buffers()
    values = np.frombuffer(data, dtype=np.int64)[here]
    if not column.null_count:
        return values
    is_valid = np.unpackbits(np.frombuffer(validity, dtype=np.uint8), bitorder="little")[here].astype(bool)
    return np.where(is_valid, values, null)


def is_text(kind: pa.DataType) -> bool:
    """Return whether a column of this type holds texts."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def decoded(texts: pa.Array | pa.ChunkedArray) -> Iterable[str | None]:
    """Return the texts; bytes that are no UTF-8 become replacement characters."""
    try:
        return list(texts.to_pylist())
    except UnicodeDecodeError:
        raws = pc.cast(texts, pa.large_binary())
        return [bytes(raw.as_buffer()).decode("utf-8", errors="replace") if raw.is_valid else None for raw in raws]


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_NAME else text[:_MAX_NAME] + "..."


def process_of(global_id: IntColumn) -> IntColumn:
    """Return the process id in a globalTid or globalPid: bits 24 to 47."""
    return np.asarray((global_id >> 24) & 0xFFFFFF, dtype=np.int64)


def id_of(column: IntColumn) -> IntColumn:
    """Return ids with both spellings of "none" as -1."""
    return np.where((column == MISSING) | (column == NO_ID), NONE, column)
