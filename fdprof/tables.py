"""Results as pandas tables, for notebooks and for CSV and Parquet.  The only core module that imports pandas.

Every column is declared once, with its dtype and its meaning; docs/tables.md lists them.  What was not observed is a
missing value, never zero.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.idle import ALLOCATE, BLOCKED, HOST, LAUNCH, NOT_CAPTURED, QUEUED, Idle
from fdprof.analysis.inflation import OverheadResult
from fdprof.analysis.results import RunResult
from fdprof.analysis.run_times import COUNTED, OVERRUN, WARMUP, run_times_of
from fdprof.capture import NONE
from fdprof.comparison import Side
from fdprof.model import Run

# History of the tables.  1: first.
SCHEMA_VERSION = 1

Frame = pd.DataFrame

INTEGER, REAL, TRUTH, TEXT = "Int64", "Float64", "boolean", "string"
"""The dtypes of columns: pandas' own that know missing values."""

MAP = "object"
"""A column of dicts from name to integer."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: its name, with the unit of its numbers, its dtype, and what it means."""

    name: str
    dtype: str
    meaning: str


_SIDE = Column("side", TEXT, "of a comparison: baseline or candidate")
_LABEL = Column("label", TEXT, "the mode of a run, the file of a capture")

LEDGER = (
    _SIDE,
    _LABEL,
    Column("block", INTEGER, "of a run: the block, from 0"),
    Column("position", INTEGER, "place of the step among those of its run or analysis that count, from 0"),
    Column("step", INTEGER, "the step's own number; of a run it begins anew in every block"),
    Column("start_ns", INTEGER, "start of the step on the clock of the recording"),
    Column("window_ns", INTEGER, "the step: from its start to the start of the next"),
    Column("device_busy_ns", INTEGER, "union of kernels, copies, memsets and graphs of one device"),
    Column("compute_ns", INTEGER, "of it, more than copies run"),
    Column("copy_alone_ns", INTEGER, "of it, nothing but copies run; missing where copies have no times, as in a run"),
    Column("device_idle_ns", INTEGER, "window less device busy: the sum of the six idle_..._ns behind it"),
    Column("idle_queued_ns", INTEGER, "idle, and the work that ends the gap was issued already"),
    Column("idle_blocked_ns", INTEGER, "idle while the host waits for the device"),
    Column("idle_allocate_ns", INTEGER, "idle while the host allocates, page-locks or frees memory"),
    Column("idle_launch_ns", INTEGER, "idle while the host is inside another API call"),
    Column("idle_host_ns", INTEGER, "idle while the host runs code outside API calls"),
    Column("idle_not_captured_ns", INTEGER, "instead of the others, where the device must have worked and has no row"),
    Column(
        "idle_host_by_range_ns", MAP, "idle_host_ns by the innermost range of that code; the empty name: outside all"
    ),
    Column("host_blocked_ns", INTEGER, "union of the calls in which the host waits for the device"),
    Column("harmful_wait_ns", INTEGER, "the part of host blocked that is idle_blocked_ns"),
    Column("harmless_wait_ns", INTEGER, "the rest of host blocked"),
    Column("run_ahead", TRUTH, "the next step's first launch was issued before this one's device work had ended"),
    Column(
        "launch_lead_ns", REAL, "start of device work less the return of the call that issued it, mean of the step's"
    ),
    Column("launch_ns", INTEGER, "of a run: host inside launch calls"),
    Column("issue_ns", INTEGER, "of a run: host inside the calls that start transfers; a blocking copy waits in there"),
    Column("host_work_ns", INTEGER, "of a run: the scenario's own host work"),
    Column("fence_wait_ns", INTEGER, "of a run: host inside event and stream waits"),
    Column("other_host_ns", INTEGER, "of a run: the rest of the window"),
    Column("reads_stale", INTEGER, "of a run: reads in this step with a stale value"),
)
"""One row a step that counts."""

TRANSFERS = (
    _SIDE,
    _LABEL,
    Column("name", TEXT, "of a run the tensor, of a capture the range or operator that makes the call"),
    Column("group", TEXT, "of a run: the transfers that share its event and its place of reading"),
    Column("direction", TEXT, "device to host, or host to device"),
    Column("memory", TEXT, "host memory: pageable, pinned, mapped, managed or unknown"),
    Column("size_bytes", INTEGER, "size of one copy"),
    Column("per_step", REAL, "of a capture: copies a step"),
    Column("bytes_per_step", REAL, "of a capture: bytes a step"),
    Column("stream", INTEGER, "of a capture: the tracer's number of the stream"),
    Column("is_default_stream", TRUTH, "of a capture: it is a default stream"),
    Column("lag", REAL, "steps from issue to read, of a capture to the wait, mean"),
    Column("issue_ns", REAL, "host inside the calls that start it, mean a step"),
    Column("copy_ns", REAL, "device moving its bytes, mean a step"),
    Column("wait_ns", REAL, "host in the waits that cover it, mean a step; one that covers several stands at each"),
    Column(
        "blocking_share",
        REAL,
        "of a capture: share of the calls that block: by their name, or as they returned after the copy's end",
    ),
    Column("unawaited", INTEGER, "of a capture: copies to the host that no wait in the steps covers"),
    Column("wait_after_ns", REAL, "of a capture: median from the return of the copy's call to the begin of its wait"),
    Column("behind_ns", REAL, "of a capture: waits right behind these calls, mean a step"),
    Column("certainty", TEXT, "of a capture: how sure it is which wait covers the copies: proved, inferred or unknown"),
)
"""One row a transfer, as the reports list them."""

CONDITIONS = (
    Column("name", TEXT, "name of the condition"),
    Column("tool", TEXT, "the tracer, with its version; none: bare"),
    Column("unit", TEXT, "what is resampled: rounds, or blocks of one process"),
    Column("units", INTEGER, "how many of them, on the side that has fewer"),
    Column("mean_step_ns", REAL, "mean step"),
    Column("added_ns_per_step", REAL, "mean step less the bare one's"),
    Column("ratio", REAL, "mean step / bare mean step"),
    Column("ratio_low", REAL, "low end of its 95 % interval"),
    Column("ratio_high", REAL, "high end of its 95 % interval"),
    Column("p50_ratio", REAL, "median step / bare median step"),
    Column("smallest_visible_ratio", REAL, "the smallest ratio above 1 that so many units would find 4 times out of 5"),
    Column("missing", TEXT, "why it has no numbers, or not those of every round"),
)
"""One row a condition of `fdprof overhead`."""

_CAUSES = {
    "idle_queued_ns": QUEUED,
    "idle_blocked_ns": BLOCKED,
    "idle_allocate_ns": ALLOCATE,
    "idle_launch_ns": LAUNCH,
    "idle_host_ns": HOST,
    "idle_not_captured_ns": NOT_CAPTURED,
}

_OF_RUNS = ("launch_ns", "issue_ns", "host_work_ns", "fence_wait_ns", "other_host_ns", "reads_stale", "host_blocked_ns")
"""Columns of the ledger that a run takes from its own times."""

_OF_LEDGERS = (
    "start_ns",
    "window_ns",
    "device_busy_ns",
    "compute_ns",
    "copy_alone_ns",
    "device_idle_ns",
    "host_blocked_ns",
    "harmful_wait_ns",
    "harmless_wait_ns",
    "launch_lead_ns",
)

_PARTS = {COUNTED: "counted", WARMUP: "warm-up", OVERRUN: "overrun"}

Values = npt.NDArray[Any] | Sequence[Any] | None
"""A column's values; None: none was observed."""


def ledger_table(result: RunResult | CaptureResult | Side, side: str | None = None) -> Frame:
    """Return one row a step that counts, with the columns of LEDGER; `side` names its side of a comparison.

    A Side, as a baseline file has it, knows the lengths of its steps and nothing else of them.
    """
    if isinstance(result, Side):
        return _windows(result, side)
    facts = result.facts
    if facts is None:
        return _frame(LEDGER, {}, 0)
    ledger = facts.ledger
    rows = len(ledger)
    values: dict[str, Values] = {name: getattr(ledger, name) for name in _OF_LEDGERS}
    values |= {"position": np.arange(rows), "step": ledger.step, "run_ahead": _run_ahead(ledger.run_ahead, rows)}
    if ledger.idle is not None:
        nothing = np.zeros(rows, dtype=np.int64)
        values |= {name: ledger.causes.get(cause, nothing) for name, cause in _CAUSES.items()}
        values["idle_host_by_range_ns"] = _by_range(ledger.idle, rows)
    if isinstance(result, RunResult):
        times = result.times
        values |= {name: times.counted(name) for name in _OF_RUNS}
        values["block"] = times.counted("block")
    return _frame(LEDGER, {**values, **_names(rows, side, _label(result))}, rows)


def transfer_table(result: RunResult | CaptureResult, side: str | None = None) -> Frame:
    """Return one row a transfer, with the columns of TRANSFERS; times are means a step."""
    entries = _transfers(result)
    rows = len(entries)
    values: dict[str, Values] = {column.name: [entry.get(column.name) for entry in entries] for column in TRANSFERS}
    return _frame(TRANSFERS, {**values, **_names(rows, side, _label(result))}, rows)


def condition_table(result: OverheadResult) -> Frame:
    """Return one row a condition of `fdprof overhead`, with the columns of CONDITIONS."""
    entries = []
    for condition in result.conditions:
        entry: dict[str, Any] = {name: getattr(condition, name) for name in ("name", "tool", "unit", "missing")}
        if condition.cost is not None:
            cost = condition.cost
            low, high = cost.ratio.interval or (None, None)
            entry |= {
                "units": cost.units,
                "mean_step_ns": cost.mean_step_ns,
                "added_ns_per_step": cost.added_ns,
                "ratio": cost.ratio.value,
                "ratio_low": low,
                "ratio_high": high,
                "p50_ratio": cost.p50_ratio,
                "smallest_visible_ratio": cost.smallest_visible,
            }
        entries.append(entry)
    values = {column.name: [entry.get(column.name) for entry in entries] for column in CONDITIONS}
    return _frame(CONDITIONS, values, len(entries))


def stacked(columns: Sequence[Column], frames: Sequence[Frame]) -> Frame:
    """Return tables of these columns below one another."""
    return pd.concat(frames, ignore_index=True) if frames else _frame(columns, {}, 0)


def step_table(run: Run) -> Frame:
    """Return one row a step: block, step, part (counted, warm-up, overrun), the times's times in ns, stale reads.

    A time that this run does not have is a column of missing values, never zero.
    """
    times = run_times_of(run)
    columns = {entry.name: getattr(times, entry.name) for entry in dataclasses.fields(times) if entry.name != "part"}
    missing = _series(INTEGER, None, len(times.step))
    frame = pd.DataFrame({name: missing if column is None else column for name, column in columns.items()})
    frame.insert(2, "part", pd.Series(times.part).map(_PARTS).astype("category"))
    return frame


def _windows(side: Side, name: str | None) -> Frame:
    windows = side.windows_ns
    lengths = [len(block) for block in windows]
    rows = sum(lengths)
    values: dict[str, Values] = {
        "block": None if side.is_capture else np.repeat(np.arange(len(windows)), lengths),
        "position": np.arange(rows),
        "window_ns": side.steps_ns,
    }
    return _frame(LEDGER, {**values, **_names(rows, name, side.label)}, rows)


def _label(result: RunResult | CaptureResult) -> str:
    return result.run.mode if isinstance(result, RunResult) else result.path


def _names(rows: int, side: str | None, label: str) -> dict[str, Values]:
    return {"side": None if side is None else [side] * rows, "label": [label] * rows}


def _run_ahead(ahead: npt.NDArray[np.bool_] | None, rows: int) -> Values:
    """Return whether the host ran ahead, by step; the last has no next step."""
    return None if ahead is None else [*ahead.tolist(), *[None] * (rows - len(ahead))]


def _by_range(idle: Idle, rows: int) -> list[dict[str, int]]:
    """Return each step's idle time in host code by range, in the order of time."""
    found: list[dict[str, int]] = [{} for _ in range(rows)]
    names = [_text(name) for name in idle.range_names]
    chosen = np.flatnonzero(idle.cause == HOST)
    columns = (idle.window[chosen], idle.range_name[chosen], (idle.end_ns - idle.start_ns)[chosen])
    for window, range_, ns in zip(*(column.tolist() for column in columns), strict=True):
        name = names[range_]
        found[window][name] = found[window].get(name, 0) + ns
    return found


def _transfers(result: RunResult | CaptureResult) -> list[dict[str, Any]]:
    """Return the transfers; what a capture does not know of one is None."""
    if isinstance(result, RunResult):
        return [dataclasses.asdict(transfer) for transfer in result.transfers]
    entries = []
    for transfer in result.facts.transfers:
        entry = dataclasses.asdict(transfer) | {"certainty": transfer.evidence.name.lower()}
        if transfer.size_bytes == NONE:
            entry |= {"size_bytes": None, "bytes_per_step": None}
        if transfer.stream == NONE:
            entry |= {"stream": None, "is_default_stream": None}
        if transfer.issue_ns is None:
            entry["blocking_share"] = None
        entries.append(entry)
    return entries


def _frame(columns: Sequence[Column], values: Mapping[str, Values], rows: int) -> Frame:
    return pd.DataFrame({column.name: _series(column.dtype, values.get(column.name), rows) for column in columns})


def _series(dtype: str, values: Values, rows: int) -> "pd.Series[Any]":
    if values is None:
        values = [None] * rows
    elif dtype == TEXT:
        values = [None if value is None else _text(value) for value in values]
    return pd.Series(values, dtype=dtype)


def _text(value: str) -> str:
    """Return a text that UTF-8 can hold: a file's name may have bytes that are none."""
    return value.encode("utf-8", "backslashreplace").decode()
