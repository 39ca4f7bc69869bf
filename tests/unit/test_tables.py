# ruff: noqa: SIM300 - the expected value stands first
"""Results as pandas tables: a row a step whose times add up to the ns, and missing where nothing was observed."""

import gzip
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from fdprof import plugins
from fdprof.analysis.capture_result import analyze
from fdprof.analysis.results import result_of
from fdprof.analysis.steps import Choice
from fdprof.imports import import_capture
from fdprof.tables import (
    CONDITIONS,
    INTEGER,
    LEDGER,
    MAP,
    REAL,
    TEXT,
    TRANSFERS,
    TRUTH,
    condition_table,
    ledger_table,
    stacked,
    step_table,
    transfer_table,
)

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "h200-2026-11-30"
CAUSES = [column.name for column in LEDGER if re.fullmatch(r"idle_[a-z_]+_ns", column.name) and column.dtype == INTEGER]
OF_RUNS = ["launch_ns", "issue_ns", "host_work_ns", "fence_wait_ns", "other_host_ns", "reads_stale"]
ALL = {"ledger": LEDGER, "transfers": TRANSFERS, "conditions": CONDITIONS}


def recorded(make_session, mode="sync", scenario="stop_flag", blocks=1, **options):
    """Return the result of a run of so many blocks."""
    session = make_session(scenario, **({"steps": 6, "warmup": 2} | options))
    run = session.new_run(mode)
    return result_of(replace(run, blocks=tuple(session.block(mode, number) for number in range(blocks))))


def missing(frame, *names):
    """Return which of these columns, of all by default, have no value at all."""
    return [name for name in names or frame.columns if frame[name].isna().all()]


def require_sums(frame):
    """The account of every step, to the ns."""
    seen = frame[frame["device_busy_ns"].notna()]
    assert (seen["device_busy_ns"] + seen["device_idle_ns"] == seen["window_ns"]).all()
    assert (seen[CAUSES].sum(axis=1) == seen["device_idle_ns"]).all()
    assert (seen["idle_host_by_range_ns"].map(lambda ranges: sum(ranges.values())) == seen["idle_host_ns"]).all()
    alone = seen["copy_alone_ns"].fillna(0)  # missing: compute is all that is known of the device
    assert (seen["compute_ns"] + alone == seen["device_busy_ns"]).all()
    blocked = seen[seen["host_blocked_ns"].notna()]
    assert (blocked["harmful_wait_ns"] + blocked["harmless_wait_ns"] == blocked["host_blocked_ns"]).all()
    assert (seen["harmful_wait_ns"] == seen["idle_blocked_ns"]).all()


# The declarations


@pytest.mark.parametrize("columns", ALL.values(), ids=ALL)
def test_every_column_is_declared_once_and_says_its_unit(columns):
    """A number is a count, a share or a ratio, or its name ends in its unit."""
    names = [column.name for column in columns]
    assert len(set(names)) == len(names)
    assert {column.dtype for column in columns} <= {INTEGER, REAL, TRUTH, TEXT, MAP}
    plain = {"block", "position", "step", "reads_stale", "per_step", "stream", "lag", "unawaited", "units"}
    for column in columns:
        assert column.meaning
        if column.dtype in (INTEGER, REAL, MAP):
            has_unit = re.search(r"_ns$|_bytes$|_share$|ratio|_per_step$", column.name)
            assert has_unit or column.name in plain, column.name


def test_the_six_causes_are_columns():
    """Those of the ledger's definition; the map of ranges is no seventh."""
    causes = ["queued", "blocked", "allocate", "launch", "host", "not_captured"]
    assert [f"idle_{cause}_ns" for cause in causes] == CAUSES


def test_the_documentation_lists_every_column_in_order(request):
    """docs/tables.md is made of the declarations: pytest --update-golden writes its tables again."""
    path = ROOT / "docs" / "tables.md"
    page = path.read_text(encoding="utf-8")
    for name, columns in ALL.items():
        rows = "".join(f"| `{column.name}` | {column.dtype} | {column.meaning} |\n" for column in columns)
        mark = f"<!-- columns: {name} -->\n"
        table = f"{mark}| column | dtype | meaning |\n|---|---|---|\n{rows}"
        if request.config.getoption("--update-golden"):
            page = re.sub(rf"{mark}(\|.*\n)*", lambda _, table=table: table, page)
            path.write_text(page, encoding="utf-8")
        assert f"{table}\n" in page


# The ledger


@pytest.mark.parametrize("scenario", plugins.names("scenarios"))
@pytest.mark.parametrize("mode", plugins.names("modes"))
def test_a_runs_steps_add_up_to_the_ns(make_session, scenario, mode):
    """In every scenario and mode; a loop that reads a wrong flag may stop before its counted steps."""
    result = recorded(make_session, mode, scenario, blocks=2)
    frame = ledger_table(result)
    assert result.run.counted_steps == len(frame)
    assert [(column.name, column.dtype) for column in LEDGER] == [
        (name, str(dtype)) for name, dtype in frame.dtypes.items()
    ]
    require_sums(frame)
    if len(frame):
        means = {name: result.summaries[name].mean for name in ("window_ns", "device_idle_ns", "launch_ns")}
        assert means == pytest.approx({name: frame[name].mean() for name in means})


def test_a_run_has_a_row_a_counted_step_and_says_its_block(make_session):
    """2 warm-up steps are left out of each block; places count on, numbers begin anew in every block."""
    frame = ledger_table(recorded(make_session, blocks=2, steps=3))
    assert [0, 0, 0, 1, 1, 1] == frame["block"].tolist()
    assert [2, 3, 4, 2, 3, 4] == frame["step"].tolist()
    assert [0, 1, 2, 3, 4, 5] == frame["position"].tolist()
    assert ["sync"] * 6 == frame["label"].tolist()
    assert ["side"] == missing(frame, "side", "label", "block")


def test_what_a_run_does_not_know_is_missing_and_not_0(make_session):
    """sync makes no fence, and without a tracer copies have no times on the device."""
    frame = ledger_table(recorded(make_session))
    assert ["fence_wait_ns", "copy_alone_ns"] == missing(frame, "fence_wait_ns", "copy_alone_ns", "issue_ns")
    assert (frame["idle_allocate_ns"] == 0).all()  # known: the steps allocate nothing


def test_blocking_that_a_run_has_no_call_for_is_missing(make_session):
    """unfenced waits nowhere but in launches, which may hold waits unseen."""
    frame = ledger_table(recorded(make_session, "unfenced"))
    columns = ["host_blocked_ns", "harmful_wait_ns", "harmless_wait_ns"]
    assert columns == missing(frame, *columns)


def test_a_run_without_counted_steps_has_no_row(cases):
    """And all columns."""
    frame = ledger_table(replace(cases["run"], facts=None))
    assert (0, [column.name for column in LEDGER]) == (len(frame), list(frame.columns))


def test_a_step_of_a_capture_has_the_times_of_its_own(build):
    """Each step is 100 µs; its times are in the loop's own notation below.

    Device: kernel 10 to 60, copy 62 to 66, so busy 50 + 4, of that compute 50 and copies alone 4; idle 46.
    Gaps: 66 of one step to 10 of the next, and 60 to 62.  The launch 1 to 3 returns at 3 and the kernel starts at 10:
    queued 7; the copy's call at 4 to 70 had been entered, so 60 to 62 lie in a blocking call: blocked 2, and 66 to 70
    too: blocked 4 more.  The launch's own 2 are launch.  Host code: 70 to 100 and 0 to 1, of that 80 to 90 in `host`.
    """
    calls = [("cudaLaunchKernel", 1, 3), ("cudaMemcpy", 4, 70)]
    work = [("kernel gemm", 10, 60, 0), ("D2H pageable 4", 62, 66, 1)]
    result = analyze(build.a_loop(4, 100, calls, work, [("host", 80, 90)]), "a.sqlite", Choice())
    frame = ledger_table(result)
    require_sums(frame)
    row = frame.iloc[1]
    expected = {
        "position": 1,
        "step": 1,
        "start_ns": 100_000,
        "window_ns": 100_000,
        "device_busy_ns": 54_000,
        "compute_ns": 50_000,
        "copy_alone_ns": 4_000,
        "device_idle_ns": 46_000,
        "idle_queued_ns": 7_000,
        "idle_blocked_ns": 6_000,
        "idle_allocate_ns": 0,
        "idle_launch_ns": 2_000,
        "idle_host_ns": 31_000,
        "idle_not_captured_ns": 0,
        "idle_host_by_range_ns": {"decode_step": 21_000, "host": 10_000},
        "host_blocked_ns": 66_000,
        "harmful_wait_ns": 6_000,
        "harmless_wait_ns": 60_000,
        "run_ahead": False,
        # The kernel starts 7 after its call returned, the copy 8 before: mean of 7 and -8.
        "launch_lead_ns": -500.0,
    }
    assert expected == {name: row[name] for name in expected}
    assert ["side", "block", *OF_RUNS] == missing(frame, "side", "label", "block", *OF_RUNS)


def test_whether_the_host_ran_ahead_of_the_last_step_is_missing(build):
    """There is no next step whose launch could have been early."""
    calls, work = [("cudaLaunchKernel", 1, 3)], [("kernel a", 10, 120, 0)]
    frame = ledger_table(analyze(build.a_loop(3, 100, calls, work), "a", Choice()))
    # Each kernel ends 20 µs behind the next step's start, and that step launches 1 µs behind it.
    assert [True, True] == frame["run_ahead"].tolist()[:2]
    assert frame["run_ahead"].isna().tolist() == [False, False, True]


def test_a_step_without_launches_has_no_launch_lead(build):
    """A mean of nothing is missing and no NaN, which sums would take along."""
    calls = [("cudaLaunchKernel", 1, 3), ("cudaEventQuery", 101, 103), ("cudaLaunchKernel", 201, 203)]
    ranges = [("decode_step", at, at + 100) for at in (0, 100, 200)]
    capture = build.a_capture(calls, [("kernel a", 10, 20, 0), ("kernel a", 210, 220, 2)], ranges)
    frame = ledger_table(analyze(capture, "a", Choice()))
    assert [False, True, False] == frame["launch_lead_ns"].isna().tolist()
    assert 7.0 == frame["launch_lead_ns"].mean()


def test_a_capture_without_device_work_has_its_windows_and_no_account(cases):
    """Nothing is said of a device that was not seen."""
    frame = ledger_table(cases["analysis_no_device"])
    assert not frame["window_ns"].isna().any() and not frame["host_blocked_ns"].isna().any()
    unknown = ["device_busy_ns", "device_idle_ns", *CAUSES, "idle_host_by_range_ns", "harmful_wait_ns", "run_ahead"]
    assert unknown == missing(frame, *unknown)


def test_the_steps_of_every_capture_add_up_to_the_ns(tmp_path):
    """Of the H200, by every importer."""
    for path in sorted(DATA.rglob("*.gz")):
        read = path
        if path.name.endswith(".sqlite.gz"):
            read = tmp_path / "capture.sqlite"
            read.write_bytes(gzip.decompress(path.read_bytes()))
        result = analyze(import_capture(read, lambda _: None), path.name, Choice())
        frame = ledger_table(result)
        assert len(result.facts.steps) == len(frame) > 1, path
        require_sums(frame)
        ranges = pd.DataFrame(frame["idle_host_by_range_ns"].tolist()).fillna(0).mean().to_dict()
        by_range = {f"host:{name}": ns for name, ns in ranges.items()}
        expected = {name: ns for name, ns in result.idle_by_cause_ns.items() if name.startswith("host:")}
        assert expected == pytest.approx(by_range), path


def test_a_side_from_a_file_has_its_windows_alone(cases):
    """By block; a run's blocks have numbers, a capture has none."""
    side = cases["comparison"].comparison.baseline
    frame = ledger_table(side, "baseline")
    assert ["baseline"] * len(side.steps_ns) == frame["side"].tolist()
    assert side.steps_ns.tolist() == frame["window_ns"].tolist()
    assert [block for block in range(6) for _ in range(12)] == frame["block"].tolist()
    known = {"side", "label", "block", "position", "window_ns"}
    assert {column.name for column in LEDGER} - known == set(missing(frame))
    captured = ledger_table(cases["comparison_captures"].comparison.baseline)
    assert ["side", "block", "step"] == missing(captured, "side", "label", "block", "position", "step")


def test_tables_below_one_another_keep_their_dtypes(cases):
    """Also where a column of one has no value at all."""
    first, second = ledger_table(cases["run"], "baseline"), ledger_table(cases["analysis"], "candidate")
    both = stacked(LEDGER, [first, second])
    assert [str(dtype) for dtype in first.dtypes] == [str(dtype) for dtype in both.dtypes]
    assert list(range(len(first) + len(second))) == both.index.tolist()
    assert (0, list(first.columns)) == (len(stacked(LEDGER, [])), list(stacked(LEDGER, []).columns))


# Transfers and conditions


def test_a_run_has_a_row_a_tensor(make_session):
    """As its report lists them; what only a tracer knows is missing."""
    frame = transfer_table(recorded(make_session, "overlap"))
    assert ["sampled_token_ids", "not_need_stop"] == frame["name"].tolist()
    assert [512, 1] == frame["size_bytes"].tolist()  # 64 rows of int64, and one flag
    assert [1.0, 1.0] == frame["lag"].tolist()
    assert ["copy_ns", "stream", "certainty"] == missing(frame, "issue_ns", "copy_ns", "wait_ns", "stream", "certainty")


def test_a_capture_has_a_row_a_kind_of_copy(cases):
    """With the same numbers as its report."""
    result = cases["analysis"]
    frame = transfer_table(result, "candidate")
    assert [entry.size_bytes for entry in result.facts.transfers] == frame["size_bytes"].tolist()
    assert [entry.copy_ns for entry in result.facts.transfers] == frame["copy_ns"].tolist()
    assert {entry.evidence.name.lower() for entry in result.facts.transfers} == set(frame["certainty"])
    assert {"candidate"} == set(frame["side"])
    assert ["group"] == missing(frame, "group", "direction", "memory")


def test_what_a_capture_does_not_know_of_a_transfer_is_missing(build):
    """A copy without a size, whose call is not in the capture and whose stream it does not name."""
    work = [("kernel gemm", 10, 60, 0), ("D2H pinned", 62, 64, None, -1)]
    capture = build.a_loop(6, 100, [("cudaLaunchKernel", 1, 3), ("cudaEventSynchronize", 20, 70)], work)
    frame = transfer_table(analyze(capture, "x", Choice()))
    unknown = ["size_bytes", "bytes_per_step", "stream", "is_default_stream", "issue_ns", "blocking_share"]
    assert unknown == missing(frame, *unknown)
    assert [2_000.0] == frame["copy_ns"].tolist()


def test_an_overhead_has_a_row_a_condition(cases):
    """One that could not run has its reason and no numbers."""
    frame = condition_table(cases["overhead"])
    assert ["bare", "nvtx", "nsys-graph", "fdprof-in-process", "torch"] == frame["name"].tolist()
    assert [1.02, 1.12] == frame.loc[2, ["ratio_low", "ratio_high"]].tolist()
    assert "torch is not installed" == frame.loc[4, "missing"]
    assert frame.loc[4, "units":"smallest_visible_ratio"].isna().all()


def test_names_that_are_no_text_become_text(cases):
    """The file system's bytes reach Python as lone surrogates, which no UTF-8 file can hold."""
    result = replace(cases["analysis"], path="caf\udce9.sqlite")
    assert {"caf\\udce9.sqlite"} == set(ledger_table(result)["label"]) == set(transfer_table(result)["label"])


# Of all steps of a run


def test_a_step_table_says_which_steps_count(make_session):
    """Two blocks of 2 warm-up and 3 counted steps; overlap runs one more, whose tokens are overrun."""
    run = recorded(make_session, "overlap", blocks=2, steps=3).run
    frame = step_table(run)
    parts = ["warm-up"] * 2 + ["counted"] * 3 + ["overrun"]
    assert parts * 2 == frame["part"].tolist()
    assert ["block", "step", "part", "window_ns"] == list(frame.columns[:4])
    counted = frame[frame["part"] == "counted"]
    assert ledger_table(result_of(run))["window_ns"].tolist() == counted["window_ns"].tolist()


def test_no_other_module_loads_pandas():
    """A report file is looked at for its ending before anything is run, and pandas takes half a second."""
    code = (
        "import sys; from fdprof import plugins; "
        "[plugins.load('reports', name) for name in plugins.names('reports')]; "
        "print(*sorted({'pandas', 'pyarrow'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "" == done.stdout.strip()
