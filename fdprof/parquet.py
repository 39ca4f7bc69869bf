"""Tables of integers as Parquet files, read with every number checked against its schema."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from fdprof.documents import require_file
from fdprof.errors import InputError
from fdprof.model import Schema, Table

if TYPE_CHECKING:
    import pyarrow as pa

_MAX_ROWS_A_BYTE = 4  # a row of any table has times or ids of its own
_CHECKED_FROM_ROWS = 100_000


def opened(path: Path) -> pa.NativeFile:
    """Return the file, open for Arrow's readers; OSError where it cannot be.

    Of a path Arrow makes a URI where it looks like one, and a home of "~".  Of a file of Python's it lets go in one of
    its threads, some time after it was read: if Python ends just then, the process aborts (33 of 120 did:
    docs/measurements.md; apache/arrow#34314) or hangs (#50482).
    """
    import pyarrow as pa

    return pa.OSFile(os.fsencode(path))


def write_table(path: Path, columns: Mapping[str, npt.ArrayLike]) -> None:
    """Write columns of one length."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with path.open("wb") as file:  # no path, as for `opened`; what is written is written in this thread
        pq.write_table(pa.table(dict(columns)), file)


def read_table(path: Path, schema: Schema, rows: int, hint: str, without: str | None = None) -> Table:
    """Return the table of `rows` rows; the column `without` is not in the file, and not observed.

    InputError, with the hint, when the file has another count, a column is missing or does not fit its dtype.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    require_file(path, hint)
    try:
        # The count first: a few bytes of a run-length code may stand for any number of rows.
        with opened(path) as file:
            found = pq.read_metadata(file).num_rows
        if found != rows:
            raise InputError(f"{path} has {found} rows, the document beside it says {rows}", hint)
        if found > max(_CHECKED_FROM_ROWS, _MAX_ROWS_A_BYTE * path.stat().st_size):
            raise InputError(f"{path} has more rows than its size allows: {found:,}", hint)
        with opened(path) as file:
            table = pq.read_table(file)
        there = [column for column in schema if column != without]
        for column in there:
            if not pa.types.is_integer(table[column].type) or table[column].null_count:
                raise InputError(f"{path}: column {column} is not all integers", hint)
        columns = {column: table[column].to_numpy() for column in there}
        if without is not None:
            columns[without] = np.full(rows, -1)
        for column, dtype in schema.items():
            low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
            values = columns[column]
            if len(values) and not low <= int(values.min()) <= int(values.max()) <= high:
                raise InputError(f"{path}: column {column} has numbers beyond {dtype}", hint)
        return Table.of(schema, columns)
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        raise InputError(f"cannot read {path}: {(str(error).splitlines() or ['?'])[0]:.300}", hint) from error
