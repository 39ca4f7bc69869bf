"""A run as pandas tables, for notebooks.  The only core module that imports pandas."""

import dataclasses

import pandas as pd

from fdprof.analysis.run_times import COUNTED, OVERRUN, WARMUP, run_times_of
from fdprof.model import Run

_PARTS = {COUNTED: "counted", WARMUP: "warm-up", OVERRUN: "overrun"}


def step_table(run: Run) -> "pd.DataFrame":
    """Return one row a step: block, step, part (counted, warm-up, overrun), the times's times in ns, stale reads.

    A time that this run does not have is a column of missing values, never zero.
    """
    times = run_times_of(run)
    columns = {entry.name: getattr(times, entry.name) for entry in dataclasses.fields(times) if entry.name != "part"}
    frame = pd.DataFrame({name: column for name, column in columns.items() if column is not None})
    for name, column in columns.items():
        if column is None:
            frame[name] = pd.array([pd.NA] * len(frame), dtype="Int64")
    frame.insert(2, "part", pd.Series(times.part).map(_PARTS).astype("category"))
    return frame
