"""fdprof.capture_store and the importer of its folders: what was saved comes back, what is damaged is refused by name.

A folder that is accepted has to give a ledger that adds up, as any capture has (tests/hostile_files.py).
"""

# ruff: noqa: SIM300 - the expected value stands first
import json
import os
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fdprof import capture_store
from fdprof.capture import UNTIMED_COPIES, Device
from fdprof.capture_store import SCHEMA_VERSION, holds_capture, load_capture, save_capture
from fdprof.errors import InputError, UsageError
from fdprof.imports import import_capture
from fdprof.model import Table
from fdprof.recorded_capture import read_recording

TABLES = ("api", "device", "ranges", "links", "event_records", "overhead")
MUTATED = settings(
    max_examples=int(os.environ.get("FUZZ_EXAMPLES", "60")), deadline=None, suppress_health_check=list(HealthCheck)
)


def say_nothing(line):
    """The progress of a test."""


@pytest.fixture(scope="module")
def capture(tmp_path_factory, a_process, a_recorded_loop):
    """A small loop of every kind of row."""
    rows = a_recorded_loop(12)
    rows["overhead"] = [{"start_ns": 1_500, "end_ns": 1_501, "thread": 100, "kind": 1 << 16}]
    rows["contexts"] = [{"context": 1, "device": 0, "null_stream": 7}]
    rows["streams"] = [{"context": 1, "stream": 13, "flag": 2}]
    return read_recording([a_process(tmp_path_factory.mktemp("recording"), unit=1_000, **rows)])


@pytest.fixture(scope="module")
def good(tmp_path_factory, capture):
    """Its folder, not to be changed."""
    folder = tmp_path_factory.mktemp("made") / "good"
    save_capture(capture, folder)
    return folder


@pytest.fixture
def saved(good, tmp_path):
    """A copy of it."""
    return shutil.copytree(good, tmp_path / "capture")


@pytest.fixture
def refused(hostile):
    """Return the sentence that refuses a folder."""

    def read(path):
        with pytest.raises(InputError) as caught:
            hostile.examined(path)
        assert caught.value.hint
        assert len(str(caught.value)) < 1000
        return str(caught.value)

    return read


def with_document(folder, change):
    """Change tables.json, by a function or by entries."""
    path = folder / "tables.json"
    document = json.loads(path.read_text())
    document = change(document) if callable(change) else document | change
    path.write_text(json.dumps(document))
    return folder


def with_column(folder, table, column, values):
    """Put other values in the first rows of a column."""
    path = folder / f"{table}.parquet"
    content = pq.read_table(path)
    new = content[column].to_numpy().astype(np.int64)
    new[: len(values)] = values
    pq.write_table(content.set_column(content.schema.get_field_index(column), column, pa.array(new)), path)
    return folder


def fields(capture):
    """Return a capture's fields, tables as their columns, to be compared."""
    found = {}
    for name in capture.__slots__:
        value = getattr(capture, name)
        found[name] = (
            {key: column.tolist() for key, column in value.columns.items()}
            if name in capture_store._TABLES and value is not None
            else value
        )
    return found


# There and back


def test_a_saved_capture_comes_back_as_it_was(capture, good):
    """Every field and every cell, with the same types."""
    back = load_capture(good)
    assert fields(capture) == fields(back)
    for name in TABLES:
        for column, values in getattr(capture, name).columns.items():
            assert values.dtype == getattr(back, name)[column].dtype


def test_the_folder_is_found_by_what_is_in_it(capture, good, tmp_path):
    """By the importers' common way; an empty folder is no capture."""
    assert fields(capture) == fields(import_capture(good, say_nothing))
    assert (True, False) == (holds_capture(good), holds_capture(tmp_path))


def test_what_a_process_did_as_two_programs_stays_joined(tmp_path, a_process, a_recorded_loop):
    """Each program's ids begin anew; a saved capture's work is joined already, so that they need not tell it apart."""
    folders = [a_process(tmp_path / name, unit=1_000, **a_recorded_loop(3)) for name in ("first", "second")]
    captured = read_recording(folders)
    assert (12, 0) == (len(captured.device), int((captured.device["api"] < 0).sum()))
    save_capture(captured, tmp_path / "saved")
    assert fields(captured) == fields(import_capture(tmp_path / "saved", say_nothing))


def test_an_empty_capture_comes_back(build, tmp_path):
    """No name, no thread, no row."""
    empty = build.a_capture(threads=(), devices=())
    save_capture(empty, tmp_path / "empty")
    assert fields(empty) == fields(load_capture(tmp_path / "empty"))


def test_what_only_other_sources_have_comes_back_too(build, tmp_path):
    """Copies without times, the format's rounding, limits, and a device without a name."""
    untimed = Table.of_rows(UNTIMED_COPIES, [(0, 1, 2, 64)])
    capture = build.a_capture(
        [("cudaMemcpyAsync", 1, 2)],
        untimed_copies=untimed,
        time_error_ns=500,
        limits=("a", "ü"),
        devices=(Device(1, 0),),
    )
    save_capture(capture, tmp_path / "more")
    assert fields(capture) == fields(load_capture(tmp_path / "more"))


def test_a_capture_is_saved_whole_or_not_at_all(capture, tmp_path, monkeypatch):
    """tables.json is written last, and the folder has its name only then."""

    def interrupted(path, document):
        assert all((path.parent / f"{name}.parquet").exists() for name in TABLES)
        raise KeyboardInterrupt

    monkeypatch.setattr("fdprof.capture_store.write_json", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save_capture(capture, tmp_path / "capture")
    assert [] == list(tmp_path.iterdir())


def test_what_is_there_is_not_overwritten(capture, tmp_path):
    """Neither a capture nor anything else of that name, a link to nowhere too; and a name that cannot be is refused."""
    (tmp_path / "dangling").symlink_to("nowhere")
    for folder in (tmp_path, tmp_path / "dangling"):
        with pytest.raises(UsageError, match="exists"):
            save_capture(capture, folder)
    with pytest.raises(UsageError, match="cannot write"):
        save_capture(capture, tmp_path / ("n" * 300))


# Hostile folders: the document


@pytest.mark.parametrize("content", ["", "{", "null", "[]", "7", '"x"', "\0", "{}", '{"kind": null}', "[" * 100_000])
def test_what_is_no_document_is_refused(saved, refused, content):
    (saved / "tables.json").write_text(content)
    assert "tables.json" in refused(saved)


def test_a_newer_version_is_refused_with_both_versions(saved, refused):
    sentence = refused(with_document(saved, {"schema_version": SCHEMA_VERSION + 1}))
    assert f"has schema_version {SCHEMA_VERSION + 1}, this fdprof reads 1 to {SCHEMA_VERSION}" in sentence


@pytest.mark.parametrize("version", [0, -1, None, "1", 1.0, True, 2**64])
def test_a_version_that_is_none_is_refused(saved, refused, version):
    assert "tables.json" in refused(with_document(saved, {"schema_version": version}))


@pytest.mark.parametrize(
    "entry",
    [
        "schema_version",
        "kind",
        "source",
        "tool",
        "rows_of_tables",
        "names",
        "threads",
        "devices",
        "default_streams",
        "non_blocking_streams",
        "time_error_ns",
        "rows",
        "limits",
    ],
)
@pytest.mark.parametrize("value", ["missing", None, {"a": [[]]}, [None], [[1]], -1, "\x1b[31m"])
def test_an_entry_that_is_missing_or_of_another_kind_is_refused(saved, refused, entry, value):
    """None of these values is right for any entry."""

    def change(document):
        return (
            {key: old for key, old in document.items() if key != entry}
            if value == "missing"
            else document | {entry: value}
        )

    assert "tables.json" in refused(with_document(saved, change))


@pytest.mark.parametrize(
    "change",
    [
        {"threads": [{"process": 1, "thread": 1}]},
        {"threads": [{"process": -1, "thread": 1, "name": ""}]},
        {"threads": [{"process": 1, "thread": 1, "name": None}]},
        {"devices": [{"process": 1, "device": 1.5, "name": None}]},
        {"devices": [{"process": 1, "device": 0, "name": "\x1b"}]},
        {"default_streams": [[0, 7, 7]]},
        {"default_streams": [["0", 7]]},
        {"default_streams": [0]},
        {"names": ["a", "b\n"]},
        {"names": ["\ud800"]},
    ],
)
def test_a_wrong_part_of_an_entry_is_refused(saved, refused, change):
    assert "tables.json" in refused(with_document(saved, change))


@pytest.mark.parametrize(
    "rows",
    [{}, {"api": 48}, {"API": 48}, {"../api": 48}, {"other": 1}, [], "api", dict.fromkeys(TABLES)],
)
def test_a_list_of_tables_that_lacks_one_or_has_another_is_refused(saved, refused, rows):
    """A name outside of the list is never opened as a file."""
    assert "tables.json" in refused(with_document(saved, {"rows_of_tables": rows}))


# The tables


@pytest.mark.parametrize("name", TABLES)
def test_a_missing_table_is_refused_by_name(saved, refused, name):
    (saved / f"{name}.parquet").unlink()
    assert f"{name}.parquet" in refused(saved)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("share", [0, 0.3, 0.999])
def test_a_cut_table_is_refused_by_name(saved, refused, name, share):
    path = saved / f"{name}.parquet"
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    assert f"{name}.parquet" in refused(saved)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("more", [-1, 1, 10**9])
def test_a_count_that_is_not_the_tables_is_refused(saved, refused, name, more):
    """Each table has rows, so that one less is no negative count."""

    def change(document):
        rows = document["rows_of_tables"]
        assert rows[name] >= 1
        return document | {"rows_of_tables": rows | {name: rows[name] + more}}

    assert f"{name}.parquet has" in refused(with_document(saved, change))


def test_a_run_length_code_of_more_rows_than_the_file_has_room_for_is_refused(saved, refused):
    """A billion rows need few bytes where all are alike; ten million are enough to show it."""
    rows = 10_000_000
    path = saved / "overhead.parquet"
    zero = pa.array(np.zeros(rows, dtype=np.int64))
    pq.write_table(pa.table(dict.fromkeys(("thread", "start_ns", "end_ns"), zero)), path)
    assert path.stat().st_size < rows // 50

    def change(document):
        return document | {"rows_of_tables": document["rows_of_tables"] | {"overhead": rows}}

    assert "more rows than its size allows" in refused(with_document(saved, change))


@pytest.mark.parametrize("kind", ["pipe", "folder", "loop"])
@pytest.mark.parametrize("name", ["tables.json", "api.parquet", "overhead.parquet"])
def test_something_else_in_place_of_a_file_is_refused_and_not_waited_for(saved, refused, kind, name):
    path = saved / name
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to(path)
    # Without tables.json as a file it is a folder of no format.
    assert (name if name != "tables.json" else "no format that fdprof reads") in refused(saved)


def test_a_link_to_the_same_file_is_as_good_as_the_file(saved, capture, tmp_path):
    """Captures may lie in a store of their own."""
    elsewhere = tmp_path / "elsewhere.parquet"
    (saved / "api.parquet").rename(elsewhere)
    (saved / "api.parquet").symlink_to(elsewhere)
    assert fields(capture) == fields(load_capture(saved))


@pytest.mark.parametrize(
    ("table", "column", "values"),
    [
        ("api", "kind", [13]),
        ("api", "kind", [-1]),
        ("device", "kind", [4]),
        ("device", "direction", [6]),
        ("device", "host_side", [4]),
        ("ranges", "kind", [3]),
        ("links", "evidence", [3]),
        ("links", "evidence", [-1]),
        ("api", "kind", [128]),
        ("api", "kind", [256]),
        ("api", "name", [10**6]),
        ("api", "name", [-1]),
        ("api", "thread", [1]),
        ("api", "thread", [-1]),
        ("device", "name", [-1]),
        ("device", "device", [1]),
        ("device", "api", [48]),
        ("device", "api", [-2]),
        ("ranges", "name", [2**31]),
        ("ranges", "domain", [-2]),
        ("ranges", "thread", [1]),
        ("links", "wait", [-1]),
        ("links", "wait", [2**62]),
        ("links", "record", [48]),
        ("event_records", "api", [-1]),
        ("overhead", "thread", [1]),
    ],
)
def test_a_number_that_stands_for_nothing_is_refused_with_its_table_and_column(saved, refused, table, column, values):
    """12 steps of 4 calls: rows of api are 0 to 47; one thread and one device; enums as in capture.py."""
    sentence = refused(with_column(saved, table, column, values))
    assert f"{table}.parquet" in sentence and column in sentence


@pytest.mark.parametrize("table", ["api", "device", "ranges"])
def test_rows_that_are_not_by_start_are_refused(saved, refused, table):
    """Everything that searches them relies on it."""
    start = pq.read_table(saved / f"{table}.parquet")["start_ns"].to_numpy()
    assert "not by start" in refused(with_column(saved, table, "start_ns", [start[1] + 1]))


@pytest.mark.parametrize("table", ["api", "device", "ranges", "overhead"])
def test_a_row_that_ends_before_it_begins_is_refused(saved, refused, table):
    assert "ends before it begins" in refused(with_column(saved, table, "end_ns", [0]))


@pytest.mark.parametrize("values", [[-(2**63)], [-(2**62)]])
def test_times_too_far_apart_are_refused(saved, refused, values):
    assert "days apart" in refused(with_column(saved, "api", "start_ns", values))


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.0] * 12),
        pa.array(["1"] * 12),
        pa.array([None, *range(11)], type=pa.int64()),
        pa.array([[1]] * 12),
        pa.array([2**64 - 1] * 12, type=pa.uint64()),
        pa.nulls(12),
    ],
)
def test_a_column_that_is_not_all_integers_of_its_size_is_refused(saved, refused, column):
    path = saved / "ranges.parquet"
    content = pq.read_table(path)
    pq.write_table(content.set_column(content.schema.get_field_index("payload"), "payload", column), path)
    assert "column payload" in refused(saved)


def test_a_missing_column_is_refused_and_one_more_is_not_read(saved, refused, capture):
    path = saved / "ranges.parquet"
    content = pq.read_table(path)
    pq.write_table(content.append_column("more", pa.array(["x"] * 12)), path)
    assert fields(capture) == fields(load_capture(saved))
    pq.write_table(content.drop_columns(["payload"]), path)
    assert "ranges.parquet" in refused(saved)


def test_two_columns_of_one_name_are_refused(saved, refused):
    path = saved / "ranges.parquet"
    content = pq.read_table(path)
    pq.write_table(content.append_column("payload", content["payload"]), path)
    assert "ranges.parquet" in refused(saved)


@MUTATED
@given(data=st.data())
def test_any_change_of_any_file_is_refused_or_gives_a_ledger_that_adds_up(good, hostile, tmp_path_factory, data):
    """Bytes set, flipped, inserted, deleted or doubled in one of the files."""
    folder = shutil.copytree(good, tmp_path_factory.mktemp("mutated") / "capture")
    path = data.draw(st.sampled_from(hostile.files_of(folder)), label="file")
    path.write_bytes(hostile.mutated(path.read_bytes(), data.draw(hostile.MUTATIONS, label="changes")))
    hostile.outcome(folder)


@MUTATED
@given(data=st.data())
def test_any_numbers_in_a_column_are_refused_or_give_a_ledger_that_adds_up(good, hostile, tmp_path_factory, data):
    """Valid Parquet of the right types with any numbers of 64 bits."""
    folder = shutil.copytree(good, tmp_path_factory.mktemp("numbers") / "capture")
    table = data.draw(st.sampled_from(TABLES))
    content = pq.read_table(folder / f"{table}.parquet")
    column = data.draw(st.sampled_from(content.column_names))
    numbers = st.one_of(
        st.sampled_from([0, -1, 1, 2**31, 2**53, 2**63 - 1, -(2**63)]),
        st.integers(-(2**63), 2**63 - 1),
        st.integers(-2, 50),
    )
    count = min(3, len(content))
    with_column(folder, table, column, data.draw(st.lists(numbers, min_size=1, max_size=count)))
    hostile.outcome(folder)
