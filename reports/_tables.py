"""The tables of a result, whatever its kind: what the CSV and the Parquet reports write."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fdprof.reports.protocol import Analyses, ComparisonResult, Reportable

from fdprof.analysis.inflation import OverheadResult

if TYPE_CHECKING:  # pandas takes half a second to load, which a command that writes no table must not wait for
    from fdprof.tables import Column, Frame


def steps_of(result: Reportable) -> "tuple[Frame, Sequence[Column]]":
    """Return the ledger of a result, one row a step, and its columns; of an overhead its conditions."""
    from fdprof.tables import CONDITIONS, LEDGER, condition_table, ledger_table, stacked

    if isinstance(result, OverheadResult):
        return condition_table(result), CONDITIONS
    if isinstance(result, Analyses):
        return stacked(LEDGER, [ledger_table(entry) for entry in result.results]), LEDGER
    if isinstance(result, ComparisonResult):
        comparison = result.comparison
        sides = (
            ledger_table(comparison.baseline if result.baseline is None else result.baseline, "baseline"),
            ledger_table(comparison.candidate if result.candidate is None else result.candidate, "candidate"),
        )
        return stacked(LEDGER, sides), LEDGER
    return ledger_table(result), LEDGER


def transfers_of(result: Reportable) -> "tuple[Frame, Sequence[Column]]":
    """Return the transfers of a result, one row each, and their columns; a baseline file and an overhead have none."""
    from fdprof.tables import TRANSFERS, stacked, transfer_table

    found: list[Frame] = []
    if isinstance(result, Analyses):
        found = [transfer_table(entry) for entry in result.results]
    elif isinstance(result, ComparisonResult):
        sides = zip(("baseline", "candidate"), result.entries, strict=True)
        found = [transfer_table(entry, side) for side, entry in sides if entry is not None]
    elif not isinstance(result, OverheadResult):
        found = [transfer_table(result)]
    return stacked(TRANSFERS, found), TRANSFERS
