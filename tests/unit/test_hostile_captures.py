"""`fdprof analyze` of files made to break it: a refusal that says what and where, or a right table; nothing else.

What must hold of every accepted file is in tests/hostile_files.py: the ledger adds up, nothing is below zero, the JSON
report is strict JSON and the terminal gets no control character.
"""

# ruff: noqa: SIM300 - the expected value stands first
import gzip
import json
import os
import re
import shutil
import sqlite3
import struct
import sys
import tracemalloc
from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fdprof.analysis import intervals
from fdprof.analysis.steps import Choice
from fdprof.columns import Names
from fdprof.errors import EnvironmentMissing, InputError, UsageError
from fdprof.importers import _chrome
from fdprof.imports import import_capture
from fdprof.nsys_tool import find_nsys

RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
NVTX = "NVTX_EVENTS"
BIG = 2**63 - 1
KINDS = ("sqlite", "parquet", "kineto", "kineto_gzip", "paddle", "run", "tables")
# `make fuzz` asks for more.
MUTATED = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "100")), deadline=None, suppress_health_check=list(HealthCheck)
)
EVIL = [
    "\x1b[31mred\x1b[0m",
    "[red]x[/red]",
    "[/]",
    "a\x00b",
    "\u202eevil",
    ":red_heart: std:key:x",
    "\x9b2J\x07\r\n",
    "\u2028",
]


def say_nothing(line):
    """The progress of a test."""


@pytest.fixture(scope="module")
def good(tmp_path_factory, hostile):
    """The good capture of every kind, and its report."""
    folder = tmp_path_factory.mktemp("good")
    paths = {kind: hostile.write_good(kind, folder) for kind in KINDS}
    return {kind: (path, hostile.outcome(path)) for kind, path in paths.items()}


@pytest.fixture
def tables(hostile):
    """The tables of a good nsys export."""
    return hostile.nsys_tables()


@pytest.fixture
def sqlite(tmp_path, hostile, tables):
    """Write an sqlite export with some tables in place of the good ones and return its path."""

    def write(*statements, **changes):
        content = {name: rows for name, rows in (tables | changes).items() if rows is not None}
        return hostile.write_sqlite(tmp_path / "export.sqlite", content, *statements)

    return write


@pytest.fixture
def parquet(tmp_path, hostile, tables):
    """Write a parquetdir export with some tables in place of the good ones and return its path."""

    def write(**changes):
        return hostile.write_parquet(tmp_path / "export", tables | changes)

    return write


@pytest.fixture
def trace(tmp_path, hostile):
    """Write a Kineto trace with changed events and return its path."""

    def write(change=lambda event: {}, steps=12, more=(), old=None, new=None, **top):
        events = [event | change(event) for event in hostile.kineto_events(steps)]
        text = json.dumps(hostile.kineto_document([*events, *more]) | top)
        path = tmp_path / "trace.json"
        path.write_text(text if old is None else text.replace(old, new), encoding="utf-8")
        return path

    return write


@pytest.fixture
def refused(hostile):
    """Return the sentence that refuses a file."""

    def read(path, choice=None, **part):
        with pytest.raises(InputError) as caught:
            hostile.examined(path, choice, **part)
        assert caught.value.hint
        assert len(str(caught.value)) < 1000
        return str(caught.value)

    return read


def only(category, **changes):
    """Return a change of the events of one category."""
    return lambda event: changes if event.get("cat") == category else {}


# Good files, cut


@pytest.mark.parametrize("kind", KINDS)
def test_the_good_files_are_read(good, kind):
    """12 steps; the other tests damage these."""
    assert 12 == good[kind][1]["steps"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_cut_at_any_byte_is_refused_or_gives_the_same_table(good, kind, hostile, tmp_path):
    """At about 40 places of each file of the capture, the first and last bytes among them."""
    path, whole = good[kind]
    copy = tmp_path / path.name
    if path.is_dir():
        shutil.copytree(path, copy)
    for file in hostile.files_of(path):
        content = file.read_bytes()
        places = {0, 1, 2, 15, 16, 99, 100, 101, len(content) - 1, len(content) - 2}
        places |= set(range(3, len(content), max(len(content) // (30 if path.is_file() else 4), 1)))
        damaged = copy / file.relative_to(path) if path.is_dir() else copy
        for place in sorted(place for place in places if 0 <= place < len(content)):
            damaged.write_bytes(content[:place])
            assert hostile.outcome(copy) in (None, whole), f"{file.name} cut at {place}"
        damaged.write_bytes(content)
    assert whole == hostile.outcome(copy)


@pytest.mark.parametrize("kind", ["sqlite", "kineto", "kineto_gzip", "paddle"])
def test_the_refusal_of_a_cut_file_names_it_and_says_what_to_do(good, kind, tmp_path, refused):
    """Half of it."""
    content = good[kind][0].read_bytes()
    path = tmp_path / "half"
    path.write_bytes(content[: len(content) // 2])
    said = refused(path)
    assert str(path) in said
    assert "truncated" in said


@pytest.mark.parametrize("name", ["h200/torch_item.nsys.sqlite", "h200/torch_item.kineto.json.gz"])
def test_a_real_file_cut_in_places_is_refused(captures, name, tmp_path, hostile):
    """Eight places, among them page limits of SQLite."""
    content = (captures / name).read_bytes()
    path = tmp_path / "cut"
    for place in range(len(content) // 9 // 4096 * 4096 + 1, len(content), len(content) // 9):
        for at in (place, place // 4096 * 4096):
            path.write_bytes(content[:at])
            assert hostile.outcome(path) is None


# What is no capture at all


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        b"\x1f\x8b",
        b"\x1f\x8b\x08\x08\x00\x00\x00\x00\x00\x00" + b"n" * 5000,
        b"SQLite format 3\x00",
        b"SQLite format 3\x00" + b"\xff" * 4096,
        b"PAR1",
        b"{",
        b"[",
        b"[]",
        b"{}",
        b'"text"',
        b"null",
        b"[1, 2]",
        b"[[]]",
        b'{"traceEvents": {}}',
        b'{"traceEvents": "\\ud800"}',
        b'{"traceEvents": [{"ph": "X", "args": "\\ud800"}]}',
        b'{"traceEvents": [null]}',
        b'{"traceEvents": []}',
        b"[" + b"{}," * 10_000 + b"{}]",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"PK\x03\x04",
        b"\x7fELF",
        b"%PDF-1.7",
        b"name,ts,dur\n1,2,3\n",
        b"\xff\xfe{\x00}\x00",
        b"\x89HDF\r\n\x1a\n",
    ],
    ids=lambda content: repr(content[:20]),
)
def test_what_is_no_capture_is_refused(content, tmp_path, refused):
    """Empty, headers alone, other tools' files, JSON of something else."""
    path = tmp_path / "file"
    path.write_bytes(content)
    said = refused(path)
    assert str(path) in said or said.startswith("the capture holds no CUDA or HIP call")  # analysis knows no file


def test_pipes_devices_and_what_does_not_exist_are_refused_at_once(tmp_path, refused):
    """A pipe without a writer would be waited for without end."""
    os.mkfifo(tmp_path / "pipe")
    for path, what in (
        (tmp_path / "pipe", "no regular file"),
        (tmp_path / "nothing", "does not exist"),
        (tmp_path / ("n" * 300), "too long"),
    ):
        assert what in refused(path)
    if os.path.exists("/dev/zero"):  # noqa: PTH110
        from pathlib import Path

        assert "no regular file" in refused(Path("/dev/zero"))


def test_a_loop_of_links_is_refused(tmp_path, refused):
    """It leads nowhere, as a file and in a folder."""
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    assert str(loop) in refused(loop)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "run.json").symlink_to(tmp_path / "folder" / "run.json")
    assert "is of no format" in refused(tmp_path / "folder")


def test_a_folder_of_junk_is_refused(tmp_path, refused):
    """By some of the names in it."""
    for name in ("a.txt", "b\x1b[31m", "c.parquet"):
        (tmp_path / name).write_bytes(b"junk")
    assert "a folder with a.txt" in refused(tmp_path)


def test_a_file_that_may_not_be_read_is_refused(tmp_path, refused):
    """With the system's reason."""
    path = tmp_path / "locked"
    path.write_bytes(b"{}")
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read everything")
    assert "Permission denied" in refused(path)


@pytest.mark.parametrize("name", ["StringIds.parquet", f"{RUNTIME}.parquet"])
def test_a_pipe_or_a_folder_in_place_of_a_table_is_refused(parquet, refused, name):
    """Neither is opened."""
    file = parquet() / name
    file.unlink()
    os.mkfifo(file)
    assert "no regular file" in refused(file.parent)
    file.unlink()
    file.mkdir()
    assert "no regular file" in refused(file.parent)


@pytest.mark.parametrize("name", ["block-000/block.json", "block-000/calls.parquet"])
def test_a_pipe_in_a_run_is_refused(good, tmp_path, refused, name):
    """As it is in a parquetdir."""
    folder = shutil.copytree(good["run"][0], tmp_path / "run")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    assert "no regular file" in refused(folder)


def test_a_report_of_nsys_needs_nsys(tmp_path, monkeypatch, hostile):
    """Exit code 6, with the command that exports it."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("FDPROF_NSYS", raising=False)
    if find_nsys() is not None:
        pytest.skip("nsys is in one of NVIDIA's folders")
    path = tmp_path / "report.nsys-rep"
    path.write_bytes(b"NVIDIA Tegra Profiler Report 2026@1@1@1-1.\n" + b"\xff" * 100)
    with pytest.raises(EnvironmentMissing, match="there is no nsys here") as caught:
        hostile.examined(path)
    assert "nsys export" in caught.value.hint


@pytest.mark.parametrize("does", ["exit 3", "exit 0", "printf '\\377\\376' >&2; exit 1", 'printf x > "$7"'])
def test_an_nsys_that_fails_is_reported_as_the_file_s_problem(tmp_path, monkeypatch, refused, does):
    """It fails, writes nothing, says something that is no UTF-8, or writes what is no export."""
    tool = tmp_path / "nsys"
    version = "NVIDIA Nsight Systems version 2026.1.1.1-1"
    tool.write_text(f"#!/bin/sh\n[ $1 = --version ] && echo {version} && exit\n{does}\n", encoding="utf-8")
    tool.chmod(0o755)
    monkeypatch.setenv("FDPROF_NSYS", str(tool))
    path = tmp_path / "report.nsys-rep"
    path.write_bytes(b"NVIDIA Tegra Profiler Report 2026@1@1@1-1.\n")
    assert str(path) in refused(path)


# Expansion


def test_a_gzip_bomb_is_refused_by_its_ratio(tmp_path, monkeypatch, refused):
    """The limit is 200:1 once 64 MB are unpacked; here from 1 MB on, so that the test is quick."""
    monkeypatch.setattr(_chrome, "CHECKED_FROM_BYTES", 1 << 20)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * (50 << 20)))
    tracemalloc.start()
    assert "expands more than 200:1" in refused(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30 << 20


def test_more_json_than_the_limit_is_refused(tmp_path, monkeypatch, refused):
    """4 GiB, plain and packed; here 1 MB."""
    monkeypatch.setattr(_chrome, "MAX_BYTES", 1 << 20)
    path = tmp_path / "large.json"
    content = b'{"traceEvents": [' + b"1," * (1 << 20)
    path.write_bytes(content)
    assert "has more than" in refused(path)
    path.write_bytes(gzip.compress(content))
    assert "expands to more than" in refused(path)


def test_millions_of_empty_events_are_refused_before_they_are_made(tmp_path, monkeypatch, refused):
    """Three bytes would become 88 of memory each; from 64 MB on, here from 1 MB."""
    monkeypatch.setattr(_chrome, "CHECKED_FROM_BYTES", 1 << 20)
    path = tmp_path / "empty.json"
    for content in (b"[" + b"{}," * 1_000_000 + b"{}]", b'{"deviceProperties": [' + b"[]," * 1_000_000 + b"[]]}"):
        path.write_bytes(content)
        assert "little but brackets" in refused(path)


def test_four_gib_of_name_are_refused_without_being_read(tmp_path, refused):
    """A sparse file whose name never ends: over the limit of JSON, and no more than the limit is asked for."""
    path = tmp_path / "name.json"
    with path.open("wb") as file:
        file.write(b'{"traceEvents": [{"name": "')
        file.truncate(5 << 30)
    tracemalloc.start()
    assert "more than 4 GiB" in refused(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_a_run_length_code_of_more_rows_than_the_file_has_room_for_is_refused(parquet, tables, refused):
    """A million equal rows take a few hundred bytes a column."""
    column = pa.array(np.full(1_000_000, 5, dtype=np.int64))
    bomb = pa.table(dict.fromkeys(tables[KERNEL][0], column))
    assert "1,000,000 rows in" in refused(parquet(**{KERNEL: bomb}))


def test_a_text_that_many_rows_share_stays_one_text(parquet, tables, hostile):
    """90,000 ranges share a name of 1 MB: as texts of their own they would take 90 GB."""
    rows = 90_000
    shared = {
        "start": np.arange(rows),
        "end": np.arange(rows) + 5,
        "eventType": np.full(rows, 59),
        "globalTid": np.full(rows, hostile.GLOBAL_TID),
        "textId": np.full(rows, 5),
        "domainId": np.zeros(rows, dtype=np.int64),
    }
    text = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, dtype=np.int32)), pa.array(["x" * 1_000_000]))
    document = hostile.examined(parquet(**{NVTX: pa.table(shared | {"text": text})}))
    assert "no step marker" in document["steps_found_by"]


def test_pages_that_are_used_again_and_again_do_not_multiply(sqlite, refused):
    """A tree whose inner pages all point to one page: 40 bytes a level, and 60 times the rows."""
    path = sqlite()
    with sqlite3.connect(path) as connection:
        root = connection.execute(f"SELECT rootpage FROM sqlite_master WHERE name = '{RUNTIME}'").fetchone()[0]
        size = connection.execute("PRAGMA page_size").fetchone()[0]
    connection.close()
    content = bytearray(path.read_bytes())
    pages = len(content) // size
    content += content[(root - 1) * size : root * size]  # the leaf, copied to a page of its own
    child = pages + 1
    for _ in range(5):
        content += _inner_page(size, child)
        child += 1
    content[(root - 1) * size : root * size] = _inner_page(size, child)
    content[28:32] = struct.pack(">I", len(content) // size)
    path.write_bytes(content)
    assert "more rows than the file has room for" in refused(path)


def _inner_page(size, child):
    """Return an inner page of a table's tree whose 60 cells all point to one child."""
    cells = b"".join(struct.pack(">I", child) + bytes([number + 1]) for number in range(60))
    begin = size - len(cells)
    header = struct.pack(">BHHHBI", 5, 0, 60, begin, 0, child)
    pointers = b"".join(struct.pack(">H", begin + 5 * number) for number in range(60))
    return (header + pointers).ljust(begin, b"\0") + cells


# SQL in the file


def test_views_and_virtual_tables_in_place_of_tables_are_refused(sqlite, refused):
    """A view runs what the file says, and a virtual table what its module does."""
    view = sqlite(f"CREATE VIEW {KERNEL} AS SELECT * FROM {NVTX}", **{KERNEL: None})
    assert f"{KERNEL} is a view" in refused(view)
    virtual = sqlite("CREATE VIRTUAL TABLE StringIds USING fts5(id, value)", StringIds=None)
    assert "StringIds is a virtual table" in refused(virtual)


def test_a_virtual_table_behind_a_comment_is_refused(sqlite, refused):
    """The text of a table in the schema is what SQLite runs, and it may be edited."""
    path = sqlite(
        "CREATE VIRTUAL TABLE StringIds USING fts5(id, value)",
        "PRAGMA writable_schema = ON",
        "UPDATE sqlite_master SET sql = 'create/**/virtual table StringIds using fts5(id, value)' "
        "WHERE name = 'StringIds'",
        StringIds=None,
    )
    assert "StringIds is a virtual table" in refused(path)


def test_triggers_and_other_views_are_never_run(sqlite, hostile, good):
    """The table is the good one's, and the file is as it was."""
    path = sqlite(
        "CREATE TRIGGER t AFTER INSERT ON StringIds BEGIN DELETE FROM StringIds; END",
        "CREATE VIEW endless AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT * FROM n",
        "CREATE VIEW loads AS SELECT load_extension('/tmp/x.so')",
        f"CREATE INDEX i ON {RUNTIME}(abs(start))",
    )
    before = path.read_bytes()
    assert good["sqlite"][1] == hostile.outcome(path)
    assert before == path.read_bytes()
    assert ["export.sqlite"] == sorted(entry.name for entry in path.parent.iterdir())


def test_generated_columns_are_not_computed(sqlite, refused):
    """They count as absent."""
    path = sqlite(
        "CREATE TABLE StringIds(id INTEGER, value TEXT GENERATED ALWAYS AS (hex(zeroblob(100000000))) VIRTUAL)",
        "INSERT INTO StringIds(id) VALUES (1)",
        StringIds=None,
    )
    assert "StringIds has no column value" in refused(path)


def test_a_file_that_is_being_written_is_refused(sqlite, refused):
    """Its log lies beside it, and is left alone."""
    path = sqlite()
    log = path.with_name(path.name + "-wal")
    log.write_bytes(b"frames")
    assert "is still being written" in refused(path)
    assert b"frames" == log.read_bytes()


# Values of the wrong type or size


@pytest.mark.parametrize("value", ["x", 1e300, -1e300, 0.5, b"", b"\xff\xfe", "1" * 400], ids=repr)
@pytest.mark.parametrize(("table", "column"), [(RUNTIME, "start"), (KERNEL, "streamId"), (NVTX, "globalTid")])
def test_a_value_that_is_no_integer_is_refused_by_its_column(sqlite, tables, hostile, refused, value, table, column):
    """SQLite stores anything in any column."""
    said = refused(sqlite(**{table: hostile.changed(tables[table], {column: value}, [3])}))
    assert table in said


@pytest.mark.parametrize("value", ["x", 1e300, b"\xff"], ids=repr)
def test_a_wrong_type_far_into_a_table_is_refused(sqlite, hostile, refused, value):
    """Types are looked at in parts of 65,536 rows."""
    rows = hostile.nsys_tables(22_000)[RUNTIME]
    assert 65_536 < len(rows)
    rows[-2]["start"] = value
    assert RUNTIME in refused(sqlite(**{RUNTIME: rows}))


def test_names_that_are_no_text_are_refused_and_invalid_utf_8_is_replaced(sqlite, tables, hostile, refused):
    """A name with a NUL is one name, not its beginning."""
    assert "StringIds" in refused(sqlite(StringIds=hostile.changed(tables["StringIds"], {"value": b"\xff"}, [3])))
    path = sqlite("UPDATE StringIds SET value = CAST(x'6b00ff6b' AS TEXT) WHERE id = 4")
    assert "k\x00\ufffdk" in import_capture(path, say_nothing).names


@pytest.mark.parametrize(
    "changes",
    [
        {RUNTIME: {"start": -BIG, "end": BIG}},
        {RUNTIME: {"end": BIG}},
        {KERNEL: {"start": -BIG, "end": BIG}},
        {KERNEL: {"end": 2**62}},
        {NVTX: {"start": -BIG}},
        {NVTX: {"end": BIG}},
        {MEMCPY: {"end": 2**53 + 10**7}},
    ],
    ids=str,
)
@pytest.mark.parametrize("at", [None, [0], [11]], ids=["all", "first", "last"])
def test_times_that_no_capture_spans_are_refused_by_row(sqlite, tables, hostile, refused, changes, at):
    """Sums of them would overflow, or lose ns: 104 days are the limit, and the two rows are named."""
    said = refused(sqlite(**{name: hostile.changed(tables[name], entries, at) for name, entries in changes.items()}))
    assert "days apart" in said


def test_many_long_rows_cannot_make_a_sum_overflow(trace, refused):
    """Each is within 104 days; 1,200 of them together last 2**63 ns."""
    more = [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaStreamSynchronize", "pid": 1, "tid": n, "ts": 1100, "dur": 8e12}
        for n in range(1200)
    ]
    assert "last more than 146 years together" in refused(trace(more=more))


def test_the_largest_times_are_as_good_as_small_ones(sqlite, tables, hostile, good):
    """All of them 2**62 later: the same table."""
    moved = {
        name: [row | {key: row[key] + 2**62 for key in ("start", "end") if key in row} for row in rows]
        for name, rows in tables.items()
    }
    assert good["sqlite"][1] == hostile.outcome(sqlite(**moved))


@pytest.mark.parametrize("identifier", [BIG, -BIG, -1, 0, 2**62 + 5])
def test_any_ids_are_read(sqlite, tables, hostile, identifier):
    """Of threads, correlations, streams, strings; a device's number has 16 bits."""
    for table, column in (
        (RUNTIME, "globalTid"),
        (RUNTIME, "correlationId"),
        (RUNTIME, "nameId"),
        (RUNTIME, "eventClass"),
        (KERNEL, "correlationId"),
        (KERNEL, "streamId"),
        (KERNEL, "globalPid"),
        (KERNEL, "deviceId"),
        (MEMCPY, "bytes"),
        (MEMCPY, "copyKind"),
        (SYNC, "correlationId"),
        (NVTX, "domainId"),
        (NVTX, "textId"),
        ("TARGET_INFO_CUDA_DEVICE", "pid"),
    ):
        document = hostile.outcome(sqlite(**{table: hostile.changed(tables[table], {column: identifier})}))
        assert document is None or document["steps"] >= 1, (table, column)


def test_rows_without_an_end_a_thread_or_a_device_are_left_out_and_counted(sqlite, tables, hostile):
    """NULL in a column that a row cannot do without; ranges never closed among them."""
    document = hostile.outcome(
        sqlite(
            **{
                RUNTIME: hostile.changed(tables[RUNTIME], {"globalTid": None}, [33, 34]),
                KERNEL: hostile.changed(tables[KERNEL], {"deviceId": None}, [11]),
                MEMCPY: hostile.changed(tables[MEMCPY], {"end": 5}, [11]),
                NVTX: hostile.changed(tables[NVTX], {"end": None}, [11]),
            }
        )
    )
    assert 11 == document["steps"]
    said = " ".join(document["limits"])
    assert "2 host calls without a thread, left out" in said
    assert f"1 rows of {KERNEL} without the number of a device, left out" in said
    assert f"1 rows of {MEMCPY} without an end, or with one before their start, left out" in said
    assert "1 ranges without an end, or with one before their start, left out" in said


def test_device_rows_at_time_zero_have_no_time(sqlite, tables, hostile, trace):
    """CUPTI writes 0 where it could take none; the row would lead its launch by its whole age."""
    path = sqlite(**{KERNEL: hostile.changed(tables[KERNEL], {"start": 0, "end": 0}, [3])})
    assert any("which means no time" in limit for limit in hostile.outcome(path)["limits"])
    seen = []

    def first(event):
        if event.get("cat") == "kernel":
            seen.append(event)
        return {"ts": 0, "dur": 0} if event.get("cat") == "kernel" and len(seen) == 1 else {}

    document = hostile.outcome(trace(first))
    assert any("1 device rows begin and end at time 0" in limit for limit in document["limits"])
    assert abs(document["launch_lead_ns"]) < 100_000


def test_unsigned_times_beyond_63_bits_are_refused(parquet, tables, refused):
    """As ids they are read; as times they would turn negative."""
    content = pa.Table.from_pylist(tables[RUNTIME])
    wrong = content.set_column(0, "start", pa.array([2**64 - 5] * len(content), pa.uint64()))
    assert "a time beyond 63 bits" in refused(parquet(**{RUNTIME: wrong}))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.5] * 36),
        pa.array([{"a": 1}] * 36),
        pa.array([[1]] * 36),
        pa.array([1] * 36).cast(pa.timestamp("ns")),
        pa.array(["1"] * 36),
        pa.array([b"1"] * 36),
    ],
    ids=lambda column: str(column.type),
)
def test_a_parquet_column_of_another_type_is_refused(parquet, tables, refused, column):
    """By table and column."""
    content = pa.Table.from_pylist(tables[RUNTIME]).set_column(0, "start", column)
    assert f"table {RUNTIME}, column start" in refused(parquet(**{RUNTIME: content}))


def test_two_columns_of_one_name_are_refused(parquet, refused):
    """Parquet allows them."""
    twice = pa.table([pa.array([1]), pa.array([1])], names=["start", "start"])
    assert "two columns of one name" in refused(parquet(**{KERNEL: twice}))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"ts": 1005', '"ts": NaN'),
        ('"ts": 1005', '"ts": -Infinity'),
        ('"ts": 1005', '"ts": 1e999'),
        ('"ts": 1005', '"ts": 1e99999999999999999999'),
        ('"ts": 1005', '"ts": -0.001'),
        ('"ts": 1005', '"ts": ' + "9" * 30),
        ('"ts": 1005', '"ts": ' + "9" * 4200),
        ('"ts": 1005', '"ts": ' + "9" * 6000),
        ('"ts": 1005', '"ts": true'),
        ('"ts": 1005', '"ts": "1005"'),
        ('"ts": 1005', '"ts": null'),
        ('"ts": 1005', '"ts": ' + "[" * 980 + "]" * 980),
        ('"dur": 3.125', '"dur": -3.125'),
        ('"dur": 3.125', '"dur": 9007199254740993'),
        ('"dur": 3.125', '"dur": {}'),
    ],
    ids=lambda text: text[:24],
)
def test_a_time_that_is_none_is_refused_by_its_event(trace, refused, old, new):
    """NaN, infinite, negative, huge, of another type: of all such events the first is named."""
    assert re.search(r"event \d+ of traceEvents|nested too deeply|out of all range", refused(trace(old=old, new=new)))


@pytest.mark.parametrize(
    "value", [None, True, "", "x", -1, 1e30, 10**30, [], {}, [[]], float("nan"), "\ud800", " " * 50]
)
@pytest.mark.parametrize("key", ["correlation", "device", "stream", "bytes", "External id"])
def test_args_may_be_anything(trace, hostile, key, value):
    """They are looked at where they are what they should be."""

    def change(event):
        return {"args": event["args"] | {key: value}} if event.get("args") else {}

    assert 12 == hostile.outcome(trace(change))["steps"]


@pytest.mark.parametrize("kind", ["kineto", "paddle"])
def test_ids_may_be_anything(good, hostile, tmp_path, kind):
    """pid and tid as text, fractions, huge, absent."""
    for value in ("x", "", " " * 100, 0.5, 10**30, -5, 2**64, None, "7(x)", "stream 7"):
        document = json.loads(good[kind][0].read_text(encoding="utf-8"))
        for key in ("pid", "tid"):
            for event in document["traceEvents"]:
                if event.get("cat") in ("cuda_runtime", "user_annotation", "CudaRuntime", "ProfileStep"):
                    event[key] = value
        path = hostile.write_json(tmp_path / "trace.json", document)
        assert 12 == hostile.outcome(path)["steps"], value


@pytest.mark.parametrize("number", [2**31, 2**32, -1, BIG, -BIG, 2**62])
@pytest.mark.parametrize(
    "place", ["calls call", "calls end_ns", "kernels kernel", "kernels start_ns", "steps start_ns", "ranges step"]
)
def test_any_number_in_a_run_s_tables_is_refused_or_harmless(good, tmp_path, hostile, place, number):
    """64 bits where the column has 32, steps that are not there, times that are none."""
    table, column = place.split()
    folder = shutil.copytree(good["run"][0], tmp_path / "run")
    file = folder / "block-000" / f"{table}.parquet"
    content = pq.read_table(file)
    values = content[column].to_numpy().astype(np.int64)
    values[len(values) // 2] = number
    at = content.column_names.index(column)
    pq.write_table(content.set_column(at, column, pa.array(values)), file)
    hostile.outcome(folder)


@pytest.mark.parametrize("kernels", [0, 1, 2**31, 2**62, BIG])
def test_any_number_of_kernels_in_a_run_s_parameters_is_read(good, tmp_path, hostile, kernels):
    """It says which launch a kernel belongs to."""
    folder = shutil.copytree(good["run"][0], tmp_path / "run")
    document = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    document["params"]["kernels"] = kernels
    hostile.write_json(folder / "run.json", document)
    assert 12 == hostile.outcome(folder)["steps"]


# Steps


def test_steps_of_no_length_are_steps(sqlite, tables, hostile):
    """Ranges one behind the other, all ranges, or everything at one time: windows of 0 ns."""
    still = {"start": 5, "end": 5}
    behind = [row | {"start": 5, "end": 5 + (number == 11)} for number, row in enumerate(tables[NVTX])]
    assert hostile.outcome(sqlite(**{NVTX: behind}))["ledger"]["max"]["window_ns"] <= 1
    document = hostile.outcome(sqlite(**{NVTX: hostile.changed(tables[NVTX], still)}))
    assert 0 == document["ledger"]["max"]["window_ns"]
    changes = {name: hostile.changed(tables[name], still) for name in (NVTX, RUNTIME, KERNEL, MEMCPY)}
    document = hostile.outcome(sqlite(**changes))
    assert (0, "unknown") == (document["ledger"]["max"]["window_ns"], document["bound"])
    changes[NVTX] = hostile.changed(changes[NVTX], {"eventType": 1})
    assert 0 == hostile.outcome(sqlite(**changes))["ledger"]["max"]["window_ns"]


def test_one_step_is_a_ledger(sqlite, hostile):
    """Its window is its own range."""
    document = hostile.outcome(sqlite(**hostile.nsys_tables(1)))
    assert (1, 90_000) == (document["steps"], document["ledger"]["mean"]["window_ns"])


def test_everything_at_time_zero_is_a_ledger(trace, hostile):
    """Host rows at 0; the device rows have no time there."""
    document = hostile.outcome(trace(lambda event: {"ts": 0, "dur": 0}))
    assert 0 == document["ledger"]["max"]["window_ns"]
    assert "without" in str(document["limits"]) or "left out" in str(document["limits"])


@pytest.mark.parametrize(
    ("choice", "part"),
    [
        (Choice(process=-1), {}),
        (Choice(process=10**30), {}),
        (Choice(thread=0), {}),
        (Choice(step_range=re.compile("nothing")), {}),
        (Choice(step_range=re.compile(r"^\b$")), {}),
        (Choice(device=7), {}),
        (Choice(device=-(10**30)), {}),
        (Choice(), {"first": 12}),
        (Choice(), {"first": 10**9}),
    ],
    ids=str,
)
def test_a_choice_that_is_not_there_is_refused(good, hostile, choice, part):
    """With what there is."""
    with pytest.raises((InputError, UsageError)) as caught:
        hostile.examined(good["sqlite"][0], choice, **part)
    assert caught.value.hint


@pytest.mark.parametrize("pattern", [".", "", "step", "(?i)DECODE", r"(d|e|c|o)+_step", r"\Z", "^decode_step$"])
def test_any_expression_that_finds_ranges_makes_steps(good, hostile, pattern):
    """Also one that matches everywhere."""
    assert 12 == hostile.examined(good["kineto"][0], Choice(step_range=re.compile(pattern)))["steps"]


# Many


def test_a_million_ranges_in_one_another_take_a_few_passes(monkeypatch, tmp_path, hostile):
    """The time is linear: sorts and searches are counted, not seconds, and Python never loops over the ranges."""
    depth = 1_000_000
    starts = np.arange(depth, dtype=np.int64)
    nesting = intervals.Nesting(starts, 3 * depth - starts)
    assert depth - 1 == nesting.innermost(np.array([depth]))[0]
    assert (np.arange(-1, depth - 1) == nesting.parents()).all()
    # The same as a file, 50,000 deep so that the file is small.
    sizes = Counter()
    real = np.argsort

    def counted(values, *args, **kwargs):
        sizes[len(values) >= 40_000] += 1
        return real(values, *args, **kwargs)

    monkeypatch.setattr(np, "argsort", counted)
    deep = 50_000
    more = [
        {"ph": "X", "cat": "cpu_op", "name": "n", "pid": hostile.PID, "tid": hostile.TID}
        | {"ts": 1000 + number / 1000, "dur": 1000 - number / 500}
        for number in range(deep)
    ]
    path = hostile.write_json(tmp_path / "deep.json", hostile.kineto_document([*hostile.kineto_events(), *more]))
    assert 12 == hostile.outcome(path)["steps"]
    assert sizes[True] < 40


def test_a_range_that_is_open_when_the_next_begins_is_cut_into_few_stretches():
    """Of n ranges that overlap without nesting there are at most 2 n - 1 stretches."""
    count = 200_000
    starts = np.arange(count, dtype=np.int64) * 2
    nesting = intervals.Nesting(starts, starts + count)
    assert len(nesting._starts) <= 2 * count - 1


def test_a_million_names_are_numbered_once_each(tmp_path, hostile, tables, monkeypatch):
    """A million texts in StringIds, of which 200,000 ranges use one each."""
    count, looked_up = 1_000_000, Counter()
    real = Names.index

    def index(self, name):
        looked_up[None] += 1
        return real(self, name)

    monkeypatch.setattr(Names, "index", index)
    path = hostile.write_sqlite(tmp_path / "names.sqlite", tables)
    with sqlite3.connect(path) as connection:
        connection.execute(
            f"WITH RECURSIVE n(x) AS (SELECT 10 UNION ALL SELECT x + 1 FROM n WHERE x < {count}) "
            "INSERT INTO StringIds SELECT x, 'range ' || x FROM n"
        )
        connection.execute(
            f"INSERT INTO {NVTX}(start, end, eventType, globalTid, textId, domainId) "
            f"SELECT 1000000 + id, 1000000 + id, 59, {hostile.GLOBAL_TID}, id, 0 FROM StringIds "
            "WHERE id >= 10 LIMIT 200000"
        )
    connection.close()
    document = hostile.outcome(path)
    assert 12 == document["steps"]
    assert document["rows"] > count
    assert looked_up[None] < 1.1 * count


def _calls_of_analysis(action):
    """Return how many Python functions of fdprof an action calls: work, whatever the machine."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        count += event == "c_call" or event == "call"

    sys.setprofile(profile)
    try:
        action()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("what", ["pids", "tids", "streams", "devices", "sites", "sizes", "correlations", "names"])
def test_twice_as_many_of_anything_take_at_most_twice_the_work(what, trace, hostile):
    """Thousands of processes, threads, streams, devices, sites, sizes: calls are counted, and rows that masks touch."""
    touched = []
    work = []
    for steps in (150, 300):
        path = trace(steps=steps)
        document = json.loads(path.read_text(encoding="utf-8"))
        for number, event in enumerate(document["traceEvents"]):
            _vary(event, what, number)
        hostile.write_json(path, document)
        with _counting_masks() as masks:
            work.append(_calls_of_analysis(lambda path=path: hostile.outcome(path)))
        touched.append(masks.rows)
    assert work[1] < 2.3 * work[0]
    assert touched[1] < 2.6 * touched[0]


def _vary(event, what, number):
    args, category = event.get("args", {}), event.get("cat")
    is_host = category in ("cuda_runtime", "user_annotation")
    if what == "pids" and is_host:
        event["pid"] = number // 6
    elif what == "tids" and is_host:
        event["tid"] = number // 6
    elif what == "streams" and "stream" in args:
        args["stream"] = number // 6 + 10
    elif what == "devices" and "device" in args:
        args["device"] = number // 6
    elif what == "sites" and category == "user_annotation":
        event["name"] = f"decode_step {number}"
    elif what == "sizes" and "bytes" in args:
        args["bytes"] = number
    elif what == "correlations" and "correlation" in args:
        args["correlation"] = 1
    elif what == "names" and category in ("kernel", "cuda_runtime"):
        event["name"] += f" {number}"


class _counting_masks:  # noqa: N801 - used as a context
    """Counts the rows that np.flatnonzero looks at, which every mask over a table goes through."""

    def __enter__(self):
        self.rows = 0
        self._real = np.flatnonzero

        def counted(values):
            self.rows += np.size(values)
            return self._real(values)

        np.flatnonzero = counted
        return self

    def __exit__(self, *error):
        np.flatnonzero = self._real


def test_links_to_themselves_and_ids_used_again_are_no_loop(sqlite, tables, hostile):
    """Waits joined to launches, one correlation for all calls, one event recorded by all.

    Where all calls have one id nothing tells what any of them issued; -1 is none.
    """
    events = [
        {"correlationId": 1, "eventId": 1, "streamId": 7, "globalPid": hostile.GLOBAL_PID, "eventSyncId": 1}
        for _ in range(12)
    ]
    for number in (1, 3, -1, BIG):
        path = sqlite(
            **{
                SYNC: hostile.changed(tables[SYNC], {"correlationId": number, "eventId": 1, "eventSyncId": 1}),
                RUNTIME: hostile.changed(tables[RUNTIME], {"correlationId": number}),
                "CUPTI_ACTIVITY_KIND_CUDA_EVENT": events,
            }
        )
        found = hostile.outcome(path)
        assert (None if number in (1, 3, BIG) else 12) == (found and found["steps"])


# Names


@pytest.mark.parametrize("name", EVIL, ids=ascii)
@pytest.mark.parametrize("kind", ["sqlite", "kineto", "paddle"])
def test_no_name_reaches_the_terminal_raw(kind, name, hostile, tmp_path):
    """Of kernels, ranges, steps, devices and versions: escaped, and not taken for markup or emoji."""
    if kind == "sqlite":
        content = hostile.nsys_tables(kernel=name, marker=f"decode {name}")
        content["TARGET_INFO_GPU"][0]["name"] = name
        content["META_DATA_EXPORT"][0]["value"] = name
        path = hostile.write_sqlite(tmp_path / "evil.sqlite", content)
    elif kind == "kineto":
        document = hostile.kineto_document(hostile.kineto_events(kernel=name, marker=f"decode {name}"))
        document["deviceProperties"][0]["name"] = name
        path = hostile.write_json(tmp_path / "evil.json", document)
    else:
        document = hostile.paddle_document(hostile.paddle_events(kernel=name)) | {"schemaVersion": name}
        document["traceEvents"][0] |= {"cat": "UserDefined", "name": name}
        path = hostile.write_json(tmp_path / "evil.json", document)
    choice = Choice(step_range=None if kind == "paddle" else re.compile("^decode"))
    assert hostile.examined(path, choice)["steps"] >= 11


@pytest.mark.parametrize("name", EVIL, ids=ascii)
def test_no_message_reaches_the_terminal_raw(name, run_cli, hostile, tmp_path):
    """Of SQLite about a name in the file, of fdprof about a path."""
    path = hostile.write_sqlite(
        tmp_path / "evil.sqlite",
        hostile.nsys_tables(),
        "CREATE VIEW v AS SELECT 1",
        "PRAGMA writable_schema = ON",
        f"UPDATE sqlite_master SET sql = 'x', name = CAST(x'{name.encode().hex()}' AS TEXT) WHERE name = 'v'",
    )
    result = run_cli("analyze", str(path))
    assert 4 == result.exit_code
    hostile.assert_printable(result.stderr)
    result = run_cli("analyze", name.replace("\0", "") + "/nothing")
    assert 4 == result.exit_code
    hostile.assert_printable(result.stderr)


def test_long_names_are_cut(trace, hostile):
    """1 MB each: the reports stay small."""
    document = hostile.outcome(
        trace(lambda event: {"name": event["name"] + "x" * 1_000_000} if event.get("cat") == "kernel" else {})
    )
    assert len(json.dumps(document)) < 200_000


@pytest.mark.parametrize(
    "name", ["cudaX" + "_v1" * 3300 + "x", "context_0" * 1100, "step[" * 2000, "((" * 5000, "#1" * 5000]
)
def test_no_name_keeps_a_pattern_busy(trace, hostile, name):
    """Of 10,000 characters, in every role: patterns of fdprof look at a name once (this took minutes)."""
    category = ("cuda_runtime", "user_annotation", "kernel", "gpu_memcpy")
    path = trace(lambda event: {"name": event["name"] + name} if event.get("cat") in category else {}, steps=6)
    hostile.outcome(path)


def test_blanks_in_an_id_keep_no_pattern_busy(trace, hostile):
    """A million of them, which took hours."""
    path = trace(lambda event: {"tid": " " * 1_000_000 + "x"} if event.get("cat") == "kernel" else {}, steps=2)
    assert 2 == hostile.outcome(path)["steps"]


# The command line


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--steps", "x"], 2),
        (["--steps", ":"], 2),
        (["--steps", "-1:5"], 2),
        (["--steps", "5:5"], 2),
        (["--steps", "9" * 30 + ":"], 2),
        (["--steps", "100:"], 2),
        (["--steps", "0:1"], 0),
        (["--step-range", "("], 2),
        (["--step-range", "(" * 5000], 2),
        (["--step-range", "a{99999999999999}"], 2),
        (["--step-range", "[[a]"], 4),
        (["--step-range", "\x1b\\[31m"], 4),
        (["--step-range", "nothing"], 4),
        (["--step-range", ""], 2),
        (["--device", "9" * 30], 2),
        (["--device", "x"], 2),
        (["--process", "-" + "9" * 30], 2),
        (["--thread", "0"], 2),
        (["--json"], 0),
    ],
    ids=str,
)
def test_any_option_ends_in_a_report_or_a_sentence(good, run_cli, hostile, arguments, code):
    """Exit codes 0, 2 and 4, and what is said names the file."""
    path = good["sqlite"][0]
    result = run_cli("analyze", str(path), *arguments)
    assert code == result.exit_code, result.stderr
    assert "Traceback" not in result.stderr
    hostile.assert_printable(result.stderr.replace("╭", ""))
    if code == 4:
        assert str(path) in result.stderr
    if code == 0 and "--json" in arguments:
        hostile.strict_json(result.stdout)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are counted by /proc")  # noqa: PTH112
@pytest.mark.parametrize("kind", KINDS)
def test_no_file_stays_open(good, tmp_path, kind, hostile):
    """Whole and damaged ones: a hundred captures in one call are within the limit of open files."""
    path = good[kind][0]
    half = tmp_path / "half"
    if path.is_file():
        content = path.read_bytes()
        half.write_bytes(content[: len(content) // 2] + b"\xff" * (len(content) // 2))

    def opened():
        return len(os.listdir("/proc/self/fd"))  # noqa: PTH208

    hostile.outcome(path)
    before = opened()
    for _ in range(5):
        hostile.outcome(path)
        hostile.outcome(half)
    assert before == opened()


def test_of_several_files_the_wrong_one_is_named(good, run_cli, tmp_path):
    """Analysis does not know the file, the command line does."""
    (tmp_path / "empty.json").write_text('{"traceEvents": []}', encoding="utf-8")
    result = run_cli("analyze", str(good["kineto"][0]), "empty.json")
    assert 4 == result.exit_code
    assert "empty.json: the capture holds no CUDA or HIP call" in result.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_written_beside_the_input(good, kind, run_cli):
    """No log, no lock, no cache; the bytes are as they were."""
    path = good[kind][0]

    def state():
        return {entry: entry.stat().st_mtime_ns for entry in path.parent.rglob("*")}

    before = state()
    assert 0 == run_cli("analyze", str(path)).exit_code
    assert before == state()


# Anything


@pytest.mark.parametrize("kind", KINDS)
def test_any_change_of_bytes_is_refused_or_gives_a_ledger_that_adds_up(good, kind, hostile, tmp_path):
    """Bytes changed, put in, taken out or doubled anywhere in any file of a capture."""
    path, _ = good[kind]
    copy = tmp_path / path.name
    if path.is_dir():
        shutil.copytree(path, copy)
    contents = {file: file.read_bytes() for file in hostile.files_of(path)}

    @MUTATED
    @given(data=st.data())
    def change(data):
        file = data.draw(st.sampled_from(sorted(contents)))
        changed = hostile.mutated(contents[file], data.draw(hostile.MUTATIONS))
        damaged = copy / file.relative_to(path) if path.is_dir() else copy
        damaged.write_bytes(changed)
        hostile.outcome(copy)
        damaged.write_bytes(contents[file])

    change()


@MUTATED
@given(data=st.data())
def test_any_value_in_an_export_is_refused_or_gives_a_ledger_that_adds_up(hostile, tmp_path, data):
    """Integers of 64 bits, fractions, texts, bytes and NULL in any column of any table."""
    content = hostile.nsys_tables(4)
    for _ in range(data.draw(st.integers(1, 4))):
        table = data.draw(st.sampled_from(sorted(content)))
        column = data.draw(st.sampled_from(sorted(content[table][0])))
        at = data.draw(st.one_of(st.none(), st.lists(st.integers(0, 11), max_size=3)))
        content[table] = hostile.changed(content[table], {column: data.draw(hostile.CELLS)}, at)
    hostile.outcome(hostile.write_sqlite(tmp_path / "any.sqlite", content))


@MUTATED
@given(data=st.data())
@pytest.mark.parametrize("kind", ["kineto", "paddle"])
def test_any_value_in_a_trace_is_refused_or_gives_a_ledger_that_adds_up(hostile, tmp_path, kind, data):
    """Any JSON in any key of any event, and NaN and halves of UTF-16 pairs."""
    events = hostile.kineto_events(4) if kind == "kineto" else hostile.paddle_events(4)
    for _ in range(data.draw(st.integers(1, 4))):
        event = data.draw(st.sampled_from(events))
        args = event.get("args")
        place = data.draw(st.sampled_from([event, args if isinstance(args, dict) else event]))
        place[data.draw(st.sampled_from([*sorted(place), "ts"]))] = data.draw(hostile.JSON)
    document = hostile.kineto_document(events) if kind == "kineto" else hostile.paddle_document(events)
    hostile.outcome(hostile.write_json(tmp_path / "any.json", document))
