"""The tables of an Nsight Systems export, from an sqlite file or a folder of parquet files, as Arrow columns.

The file is somebody else's: it is opened read-only, only ordinary tables are read, and nothing that it contains (views,
triggers, generated columns, virtual tables) is ever run.
"""

import re
import shlex
import sqlite3
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import adbc_driver_manager as adbc
import adbc_driver_sqlite
import pyarrow as pa

from fdprof.errors import InputError
from fdprof.parquet import opened

_GZIP_MAGIC = b"\x1f\x8b"

AGAIN = "export it again: nsys export --type sqlite --force-overwrite true REPORT.nsys-rep"
_AGAIN_PARQUET = "export it again: nsys export --type parquetdir --force-overwrite true REPORT.nsys-rep"
SQLITE_MAGIC = b"SQLite format 3\0"

# An export writes each table under its name, or with the version of its layout behind it.
_VERSIONED = re.compile(r"(?P<name>.+?)(_V(?P<version>\d{1,3}))?")
_WHOLE_FILE_COUNTED = (24, 92)  # header fields that are equal when the page count beside them is to be trusted
_BATCH_ROWS = 65_536
_ORDINARY = re.compile(r"CREATE TABLE ", re.IGNORECASE)  # as SQLite itself writes it; virtual tables begin otherwise

# A row of SQLite has at least a byte a column and five of its own, of Parquet in practice several: a file that gives
# much more than it can hold (pages used twice, a run-length code of a billion rows, compressed zeros) is damaged.
_MAX_EXPANSION = 32
_MAX_ROWS_A_BYTE = 4
_MAX_UNPACKED = 200
_CHECKED_FROM_BYTES = 64 << 20
_CHECKED_FROM_ROWS = 100_000


class Tables(Protocol):
    """Tables by their unversioned names."""

    def names(self) -> list[str]:
        """Return the names of all tables, as the file has them."""

    def columns(self, table: str) -> frozenset[str]:
        """Return a table's column names; empty when there is no such table."""

    def read(self, table: str, columns: Iterable[str]) -> pa.Table:
        """Return these columns of a table, all of its rows; InputError when they cannot be read."""


def open_tables(path: Path) -> Tables:
    """Return the tables of an sqlite file or a folder of parquet files."""
    return _ParquetTables(path) if path.is_dir() else _SqliteTables(path)


def _newest(names: Iterable[str]) -> dict[str, str]:
    """Return the table to read by its unversioned name: the one of the highest version.

    CUPTI_ACTIVITY_KIND_MEMCPY2 (peer copies) is a table of its own and no version of CUPTI_ACTIVITY_KIND_MEMCPY.
    """
    found: dict[str, tuple[int, str]] = {}
    for name in names:
        match = _VERSIONED.fullmatch(name)
        if match is None:
            continue
        version = int(match["version"] or 0)
        if match["name"] not in found or version > found[match["name"]][0]:
            found[match["name"]] = (version, name)
    return {name: table for name, (_, table) in found.items()}


class _SqliteTables:
    def __init__(self, path: Path) -> None:
        self._path = path
        _require_whole(path)
        # immutable: SQLite neither locks nor writes a file beside it, so a read-only folder will do.
        self._uri = path.resolve().as_uri() + "?mode=ro&immutable=1"
        self._columns: dict[str, frozenset[str]] = {}
        self._most_bytes = _CHECKED_FROM_BYTES + _MAX_EXPANSION * path.stat().st_size
        try:
            connection = sqlite3.connect(self._uri, uri=True)
            try:
                self._tables = self._ordinary(connection)
            finally:
                connection.close()
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from error

    def names(self) -> list[str]:
        return list(self._tables.values())

    def columns(self, table: str) -> frozenset[str]:
        return self._columns.get(self._tables.get(table, ""), frozenset())

    def read(self, table: str, columns: Iterable[str]) -> pa.Table:
        name = self._tables[table]
        wanted = ", ".join(_quoted(column) for column in columns)
        try:
            # Opened for each table and closed again: whoever reads many captures has a limit of open files.
            with (
                adbc_driver_sqlite.connect(self._uri) as database,
                adbc.AdbcConnection(database) as connection,
                adbc.AdbcStatement(connection) as statement,
            ):
                statement.set_options(**{"adbc.sqlite.query.batch_rows": str(_BATCH_ROWS)})
                # An index need not hold what its table does.
                statement.set_sql_query(f"SELECT {wanted} FROM main.{_quoted(name)} NOT INDEXED")
                stream, _ = statement.execute_query()
                with pa.RecordBatchReader._import_from_c(stream.address) as reader:
                    return self._bounded(reader, name)
        except (adbc.Error, pa.ArrowException, OSError) as error:
            raise self._unreadable(error, name) from error

    def _bounded(self, reader: pa.RecordBatchReader, table: str) -> pa.Table:
        """Return all batches; InputError when they hold more than the file has room for."""
        batches, size_bytes = [], 0
        for batch in reader:
            size_bytes += batch.nbytes
            if size_bytes > self._most_bytes:
                raise InputError(
                    f"{self._path}, table {table}: more rows than the file has room for, so it is damaged", AGAIN
                )
            batches.append(batch)
        return pa.Table.from_batches(batches, reader.schema)

    def _ordinary(self, connection: sqlite3.Connection) -> dict[str, str]:
        connection.execute("PRAGMA trusted_schema = OFF")
        tables = []
        for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master"):
            if not isinstance(name, str) or name.startswith("sqlite_"):
                continue
            if kind == "view" or (kind == "table" and not _ORDINARY.match(str(sql))):
                if _is_known(name):
                    what = "a view" if kind == "view" else "a virtual table"
                    raise InputError(f"{self._path}: {name} is {what}; an export has only tables", AGAIN)
            elif kind == "table":
                tables.append(name)
        for name in tables:
            # hidden: 0 is an ordinary column; generated ones would be computed by what the file says.
            rows = connection.execute(f"PRAGMA table_xinfo({_quoted(name)})").fetchall()
            self._columns[name] = frozenset(row[1] for row in rows if row[6] == 0)
        return _newest(tables)

    def _unreadable(self, error: Exception, table: str | None = None) -> InputError:
        where = f"{self._path}, table {table}" if table else str(self._path)
        return InputError(f"cannot read {where}: {_sentence(error)}", AGAIN)


class _ParquetTables:
    def __init__(self, path: Path) -> None:
        self._path = path
        files = sorted(path.glob("*.parquet"))
        for file in files:
            if not file.is_file():  # a pipe would be waited for
                raise InputError(f"{file} is no regular file", _AGAIN_PARQUET)
        self._tables = _newest(file.stem for file in files)
        self._schemas: dict[str, pa.Schema] = {}

    def names(self) -> list[str]:
        return list(self._tables.values())

    def columns(self, table: str) -> frozenset[str]:
        if table not in self._tables:
            return frozenset()
        if table not in self._schemas:
            self._schemas[table] = self._schema(self._file(table))
        return frozenset(self._schemas[table].names)

    def read(self, table: str, columns: Iterable[str]) -> pa.Table:
        import pyarrow.parquet as pq  # takes as long to import as a small sqlite file to read

        file = self._file(table)
        # A text that a million rows share stays one text.
        texts = [field.name for field in self._schemas[table] if field.type in (pa.string(), pa.large_string())]
        try:
            with opened(file) as source:
                return pq.read_table(source, columns=list(columns), read_dictionary=texts)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self._unreadable(error, file) from error

    def _schema(self, file: Path) -> pa.Schema:
        """Return a file's schema; InputError when it says that it holds more than its size allows."""
        import pyarrow.parquet as pq

        try:
            size_bytes = file.stat().st_size
            with opened(file) as source:
                found = pq.read_metadata(source)
            schema = found.schema.to_arrow_schema()
            unpacked = sum(found.row_group(number).total_byte_size for number in range(found.num_row_groups))
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise self._unreadable(error, file) from error
        if found.num_rows > max(_CHECKED_FROM_ROWS, _MAX_ROWS_A_BYTE * size_bytes):
            raise InputError(f"{file} has {found.num_rows:,} rows in {size_bytes:,} bytes: damaged", _AGAIN_PARQUET)
        if unpacked > max(_CHECKED_FROM_BYTES, _MAX_UNPACKED * size_bytes):
            raise InputError(f"{file} expands more than {_MAX_UNPACKED}:1, which no export does", _AGAIN_PARQUET)
        if len(set(schema.names)) < len(schema.names):
            raise InputError(f"{file} has two columns of one name", _AGAIN_PARQUET)
        return schema

    def _file(self, table: str) -> Path:
        return self._path / f"{self._tables[table]}.parquet"

    def _unreadable(self, error: Exception, file: Path) -> InputError:
        return InputError(f"cannot read {file}: {_sentence(error)}", _AGAIN_PARQUET)


def _is_known(name: str) -> bool:
    return name.startswith(("CUPTI_", "NVTX_", "StringIds", "TARGET_INFO_", "META_DATA_", "EXPORT_META", "CUDA_"))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _sentence(error: Exception) -> str:
    """Return the first line of a library's error; the rest is about its own insides."""
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _require_whole(path: Path) -> None:
    """Raise InputError when the file is shorter than its header says, or is still being written.

    SQLite itself notices a missing page only when it needs it, and would read the tables before it as if all were well.
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            header = file.read(100)
        journals = [path.with_name(path.name + ending) for ending in ("-wal", "-journal")]
        unfinished = [journal for journal in journals if journal.exists() and journal.stat().st_size]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}", "check the path") from error
    if header.startswith(_GZIP_MAGIC):
        raise InputError(
            f"{path} is an export that was packed with gzip", f"unpack it first: gunzip -k {shlex.quote(str(path))}"
        )
    if unfinished:
        raise InputError(
            f"{path} is still being written: {unfinished[0].name} lies beside it", "wait for its export, or repeat it"
        )
    if len(header) < 100:
        raise InputError(f"{path} is truncated: {size:,} bytes, its header alone has 100", AGAIN)
    page_bytes, pages = struct.unpack(">H", header[16:18])[0], struct.unpack(">I", header[28:32])[0]
    expected = (65_536 if page_bytes == 1 else page_bytes) * pages
    changed, valid_for = (header[at : at + 4] for at in _WHOLE_FILE_COUNTED)
    if changed == valid_for and size < expected:
        raise InputError(f"{path} is truncated: {size:,} bytes of {expected:,}", AGAIN)
