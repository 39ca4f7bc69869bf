# ruff: noqa: SIM300 - the expected value stands first
"""The ledger and the transfers as CSV and Parquet: what is written is what is read back, whatever names there are."""

import csv
import importlib.util
import io
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fdprof.reports.protocol import Analyses, ComparisonResult

from fdprof import plugins
from fdprof.analysis.capture_result import CaptureResult, analyze
from fdprof.analysis.inflation import OverheadResult
from fdprof.analysis.results import RunResult
from fdprof.analysis.steps import Choice
from fdprof.tables import CONDITIONS, LEDGER, SCHEMA_VERSION, TRANSFERS, condition_table, ledger_table, transfer_table
from fdprof.units import printable
from fdprof.version import VERSION

ROOT = Path(__file__).parents[2]
CSV, TRANSFERS_CSV = plugins.load("reports", "csv"), plugins.load("reports", "transfers_csv")
PARQUET, TRANSFERS_PARQUET = plugins.load("reports", "parquet"), plugins.load("reports", "transfers_parquet")
PAIRS = {"steps": (CSV, PARQUET), "transfers": (TRANSFERS_CSV, TRANSFERS_PARQUET)}


def _cases():
    spec = importlib.util.spec_from_file_location("fdprof_tests_table_cases", ROOT / "tests" / "golden_cases.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


NAMES = _cases().HOSTILE
CASES = _cases().Cases(None).names
WITH_TRANSFERS = [name for name in CASES if name != "overhead"]
every_case = pytest.mark.parametrize("case", CASES)
every_table = pytest.mark.parametrize(
    ("rows", "case"), [*(("steps", name) for name in CASES), *(("transfers", name) for name in WITH_TRANSFERS)]
)

FORMULAS = (
    "=1+1",
    "=cmd|' /C calc'!A0",
    "+1",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    " =1",
    "＝1+1",
    "＋1",
    "－1",
    "＠SUM(A1)",
    "'=1",
    "'plain",
)


def cells(text):
    """Return the rows of a CSV text by the standard library, each a dict."""
    return list(csv.DictReader(io.StringIO(text, newline="")))


def plain(cell):
    """Return the text that was written as this cell: as docs/tables.md says."""
    return cell.removeprefix("'")


def read(content):
    """Return a Parquet file's table and what it says of itself."""
    table = pq.read_table(io.BytesIO(content))
    said = {key.decode(): value.decode() for key, value in table.schema.metadata.items() if key != b"pandas"}
    return table, said


def named(build, name, other="b"):
    """Return the analysis of a loop whose ranges, transfers and file bear this name."""
    calls = [("cudaLaunchKernel", 1, 3), ("cudaMemcpy", 20, 70)]
    work = [("kernel gemm", 10, 60, 0), ("D2H pageable 4", 62, 66, 1)]
    ranges = [(name, 15, 75), (other, 80, 90)]
    capture = build.a_loop(4, 100, calls, work, ranges)
    return analyze(capture, name, Choice())


# What is shown of what


def test_the_endings_and_what_they_hold():
    """An overhead has conditions and no transfers; every other kind has both."""
    every = {RunResult, ComparisonResult, CaptureResult, Analyses, OverheadResult}
    endings = [report.suffix for pair in PAIRS.values() for report in pair]
    assert [".csv", ".parquet", ".transfers.csv", ".transfers.parquet"] == endings
    assert every == set(CSV.renders) == set(PARQUET.renders)
    assert every - {OverheadResult} == set(TRANSFERS_CSV.renders) == set(TRANSFERS_PARQUET.renders)


def columns_of(result, rows):
    if rows == "transfers":
        return TRANSFERS
    return CONDITIONS if isinstance(result, OverheadResult) else LEDGER


@every_table
def test_csv_and_parquet_hold_the_same(cases, rows, case):
    """Cell by cell: both of the one table, with its columns in order."""
    result = cases[case]
    as_csv, as_parquet = (report.render(result) for report in PAIRS[rows])
    written, table = cells(as_csv), read(as_parquet)[0]
    columns = columns_of(result, rows)
    assert [column.name for column in columns] == next(csv.reader(io.StringIO(as_csv))) == table.column_names
    assert len(written) == table.num_rows
    for column in columns:
        texts = [row[column.name] for row in written]
        values = table[column.name].to_pylist()
        if column.dtype == "string":
            assert [None if value is None else printable(value) for value in values] == [
                plain(text) if text else None for text in texts
            ]
        elif column.dtype == "object":
            assert [None if value is None else dict(value) for value in values] == [
                json.loads(text) if text else None for text in texts
            ]
        elif column.dtype == "boolean":
            assert values == [{"true": True, "false": False, "": None}[text] for text in texts], column.name
        else:
            assert values == [None if not text else json.loads(text) for text in texts], column.name


@every_case
def test_a_csv_file_is_as_it_was(cases, golden, case):
    """Whole: the ledger."""
    golden("csv", f"{case}.csv", CSV.render(cases[case]))


@pytest.mark.parametrize("case", WITH_TRANSFERS)
def test_a_csv_file_of_transfers_is_as_it_was(cases, golden, case):
    """Whole."""
    golden("csv", f"{case}.transfers.csv", TRANSFERS_CSV.render(cases[case]))


def test_a_comparison_has_the_rows_of_both_sides(cases):
    """6 blocks of 12 steps each; two tensors each."""
    rows = cells(CSV.render(cases["comparison"]))
    sides = Counter((row["side"], row["label"]) for row in rows)
    assert {("baseline", "sync"): 72, ("candidate", "async"): 72} == sides
    transfers = cells(TRANSFERS_CSV.render(cases["comparison"]))
    assert ["baseline", "baseline", "candidate", "candidate"] == [row["side"] for row in transfers]


def test_a_side_from_a_file_has_its_step_times_and_no_transfers(cases):
    """Times by block, and nothing else is known."""
    result = cases["comparison_baseline_file"]
    rows = cells(CSV.render(result))
    ours = [row for row in rows if row["side"] == "baseline"]
    assert [str(ns) for ns in result.comparison.baseline.steps_ns.tolist()] == [row["window_ns"] for row in ours]
    known = {"side", "label", "block", "position", "window_ns"}
    assert known == {name for row in ours for name, cell in row.items() if cell}
    assert {"candidate"} == {row["side"] for row in cells(TRANSFERS_CSV.render(result))}
    both = replace(result, candidate=None)
    assert [] == cells(TRANSFERS_CSV.render(both)) and 0 == read(TRANSFERS_PARQUET.render(both))[0].num_rows


def test_several_captures_are_told_apart_by_their_files(cases):
    """In the order of the call; places begin anew in each."""
    rows = cells(CSV.render(cases["analyses"]))
    steps = [len(entry.facts.steps) for entry in cases["analyses"].results]
    labels = ["stop_flag_sync.sqlite"] * steps[0] + ["stop_flag_overlap.sqlite"] * steps[1]
    assert labels == [row["label"] for row in rows]
    assert [str(at) for count in steps for at in range(count)] == [row["position"] for row in rows]


# CSV


@every_case
def test_pandas_reads_a_csv_file_back_with_its_numbers(cases, case):
    """Integers beside missing ones stay integers, floats are the same."""
    result = cases[case]
    text = CSV.render(result)
    frame = pd.read_csv(io.StringIO(text), dtype_backend="numpy_nullable")
    tables = [condition_table(result)] if isinstance(result, OverheadResult) else []
    if isinstance(result, ComparisonResult):
        tables = [
            ledger_table(entry or side)
            for entry, side in (
                (result.baseline, result.comparison.baseline),
                (result.candidate, result.comparison.candidate),
            )
        ]
    elif isinstance(result, Analyses):
        tables = [ledger_table(entry) for entry in result.results]
    elif not tables:
        tables = [ledger_table(result)]
    made = pd.concat(tables, ignore_index=True)
    numbers = [name for name, dtype in made.dtypes.items() if str(dtype) in ("Int64", "Float64")]
    assert numbers
    for name in numbers:
        assert made[name].isna().tolist() == frame[name].isna().tolist()
        assert made[name].dropna().tolist() == pytest.approx(frame[name].dropna().tolist(), rel=1e-15, abs=0)
    times = [name for name in numbers if str(made[name].dtype) == "Int64" and made[name].notna().any()]
    assert times and {"Int64"} == {str(frame[name].dtype) for name in times}


@pytest.mark.parametrize("name", (*NAMES, *FORMULAS), ids=range(len(NAMES) + len(FORMULAS)))
def test_any_name_comes_back_from_csv_and_is_one_line(build, name):
    """As it is shown on a terminal, by the standard library and by pandas; no cell is a formula."""
    result = named(build, name)
    text = CSV.render(result)
    assert 1 + 4 == len(text.splitlines()) == text.count("\n")
    rows = cells(text)
    assert [printable(name)] * 4 == [plain(row["label"]) for row in rows]
    assert [plain(label) for label in pd.read_csv(io.StringIO(text))["label"]] == [printable(name)] * 4
    for row in [*rows, *cells(TRANSFERS_CSV.render(result))]:
        for column, cell in row.items():
            is_number = cell.lstrip("-").replace(".", "").replace("e", "").isdigit()
            assert is_number or not cell.lstrip().startswith(tuple("=+-@\t\r＝＋－＠")), (column, cell)
            assert cell.isprintable()
    ranges = [json.loads(row["idle_host_by_range_ns"]) for row in rows]
    assert all(sum(entry.values()) == int(row["idle_host_ns"]) for entry, row in zip(ranges, rows, strict=True))
    assert all({"b", "decode_step"} <= entry.keys() for entry in ranges)


def test_a_name_that_needs_nothing_is_written_as_it_is(build):
    """No quotes, no prefix; and one with a comma and quotes as RFC 4180 has it."""
    line = CSV.render(named(build, "std:key:x")).splitlines()[1]
    assert line.startswith(",std:key:x,,0,0,0,100000,")
    line = CSV.render(named(build, 'a, "b"')).splitlines()[1]
    assert line.startswith(',"a, ""b""",,0,0,0,100000,')


def test_a_csv_file_is_utf8_with_lines_that_end_in_lf(build):
    """And without a byte order mark."""
    text = CSV.render(named(build, "核心"))
    assert text.endswith("\n") and "\r" not in text
    assert text.encode().startswith(b"side,label,")
    assert "核心".encode() in text.encode()


def test_a_number_below_0_is_no_formula(build):
    """A launch lead may be; it is written as a number."""
    (row, *_) = cells(CSV.render(named(build, "a")))
    # The kernel starts 7 µs after its call returned, the copy 8 µs before: mean -0.5 µs.
    assert "-500.0" == row["launch_lead_ns"]


def test_what_was_not_observed_is_an_empty_cell(cases):
    """And never 0."""
    for row in cells(CSV.render(cases["analysis_no_device"])):
        assert "" == row["device_busy_ns"] == row["idle_queued_ns"] == row["idle_host_by_range_ns"] == row["run_ahead"]
        assert int(row["window_ns"]) > 0


# Parquet


@every_table
def test_a_parquet_file_says_what_it_is(cases, rows, case):
    """Version, kind and source in its metadata, each column its meaning; dtypes are exact."""
    result = cases[case]
    content = PAIRS[rows][1].render(result)
    assert isinstance(content, bytes)
    table, said = read(content)
    document = json.loads(plugins.load("reports", "json").render(result))
    assert {
        "fdprof.version": VERSION,
        "fdprof.schema_version": str(SCHEMA_VERSION),
        "fdprof.kind": document["kind"],
        "fdprof.source": document["source"] or "",
        "fdprof.rows": "conditions" if isinstance(result, OverheadResult) else rows,
    } == said
    types = {
        "Int64": pa.int64(),
        "Float64": pa.float64(),
        "boolean": pa.bool_(),
        "string": pa.string(),
        "object": pa.map_(pa.string(), pa.int64()),
    }
    for column in columns_of(result, rows):
        field = table.schema.field(column.name)
        assert (types[column.dtype], column.meaning) == (field.type, field.metadata[b"meaning"].decode())


@every_case
def test_pandas_reads_a_parquet_file_back_as_it_was(cases, case):
    """With pandas' dtypes that know missing values, and maps as pairs."""
    result = cases[case]
    frame = pd.read_parquet(io.BytesIO(PARQUET.render(result)))
    columns = columns_of(result, "steps")
    assert [(column.name, column.dtype) for column in columns] == [
        (name, str(dtype)) for name, dtype in frame.dtypes.items()
    ]
    if isinstance(result, RunResult | CaptureResult):
        made = ledger_table(result)
        for column in columns:
            if column.dtype == "object":
                assert made[column.name].tolist() == [
                    None if value is None else dict(value) for value in frame[column.name]
                ]
            else:
                pd.testing.assert_series_equal(made[column.name], frame[column.name])


@pytest.mark.parametrize("name", (*NAMES, *FORMULAS), ids=range(len(NAMES) + len(FORMULAS)))
def test_any_name_comes_back_from_parquet_as_it_was(build, name):
    """Nothing is escaped there: no spreadsheet and no terminal reads it."""
    result = named(build, name)
    table = read(PARQUET.render(result))[0]
    assert [name] * 4 == table["label"].to_pylist()
    frame = ledger_table(result)
    ranges = [dict(pairs) for pairs in table["idle_host_by_range_ns"].to_pylist()]
    assert frame["idle_host_by_range_ns"].tolist() == ranges
    transfers = read(TRANSFERS_PARQUET.render(result))[0]
    assert transfer_table(result)["name"].tolist() == transfers["name"].to_pylist()


def test_a_file_whose_name_is_no_text_is_written(cases):
    """The bytes of such a name are escaped, in every format."""
    result = replace(cases["analysis"], path="caf\udce9.sqlite")
    assert {"caf\\udce9.sqlite"} == set(read(PARQUET.render(result))[0]["label"].to_pylist())
    assert {"caf\\udce9.sqlite"} == {row["label"] for row in cells(CSV.render(result))}


def test_several_captures_of_several_tools_have_no_one_source(cases):
    """Null in JSON, empty in Parquet."""
    first, second = cases["analyses"].results
    capture = replace(second.facts.capture, source="kineto")
    mixed = Analyses((first, replace(second, facts=replace(second.facts, capture=capture))))
    assert "" == read(PARQUET.render(mixed))[1]["fdprof.source"]
    assert json.loads(plugins.load("reports", "json").render(mixed))["source"] is None
    assert "nsys" == read(PARQUET.render(cases["analyses"]))[1]["fdprof.source"]


# On the command line


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.transfers.csv", "x.transfers.parquet"])
def test_a_runs_tables_are_written_by_their_endings(run_cli, name):
    """`fdprof run -o`, and `fdprof report` of what it saved writes the same again."""
    done = run_cli("run", "stop_flag", "--backend", "sim", "--steps", "5", "--warmup", "1", "-o", name)
    assert (0, True) == (done.exit_code, f"wrote {name}" in done.stderr)
    written = Path(name).read_bytes()
    (saved,) = Path("runs").iterdir()
    assert 0 == run_cli("report", str(saved), "-o", name, "--force").exit_code
    assert written == Path(name).read_bytes()
    rows = 5 if ".transfers" not in name else 2
    found = cells(written.decode()) if name.endswith("csv") else read(written)[0].to_pylist()
    assert rows == len(found)
