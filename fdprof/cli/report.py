"""`fdprof report`: a saved run or comparison again."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fdprof.cli.comparands import of_runs
from fdprof.cli.options import Force, Json, Output, check_output, show
from fdprof.cli.recording import require_right
from fdprof.errors import InputError

if TYPE_CHECKING:  # NumPy is behind them, and --help must not wait for NumPy
    from fdprof.analysis.results import RunResult
    from fdprof.comparison import Policy
    from fdprof.model import Run
    from fdprof.reports.protocol import ComparisonResult, Reportable


def report(
    run: Annotated[Path, typer.Argument(help="A folder that `fdprof run` or `fdprof compare` saved.")],
    json: Json = False,
    output: Output = None,
    force: Force = False,
) -> None:
    """Print a saved run or comparison."""
    from fdprof import store
    from fdprof.analysis.results import result_of

    check_output(output, force, [run])
    sides = store.load_any(run)
    for side in sides:
        if not side.blocks:
            there = [str(folder) for folder, other in zip(store.sides_of(run), sides, strict=False) if other.blocks]
            hint = f"fdprof report {there[0]} has what was finished" if there else "record it again"
            raise InputError(f"{run} was interrupted and holds no finished block of {side.mode}", hint)
    shown: Reportable
    try:
        if len(sides) == 1:
            shown = result_of(sides[0])
            results = [shown]
        else:
            shown, results = _compared(sides, store.load_policy(run))
    except (ArithmeticError, LookupError, ValueError) as error:  # every entry is of its kind, but they do not fit
        raise InputError(
            f"{run} contradicts itself: {type(error).__name__}: {error}", "the run folder is damaged; record it again"
        ) from error
    show(shown, json, output)
    require_right(results)


def _compared(sides: "Sequence[Run]", policy: "Policy") -> "tuple[ComparisonResult, list[RunResult]]":
    """Return the comparison of two saved runs under a policy, and their results."""
    from fdprof.analysis.compare import compare
    from fdprof.analysis.results import RunResult
    from fdprof.reports.protocol import ComparisonResult

    baseline, candidate = of_runs(sides)
    comparison = compare(baseline.side, candidate.side, policy)
    results = [entry.result for entry in (baseline, candidate) if isinstance(entry.result, RunResult)]
    return ComparisonResult(comparison, baseline.result, candidate.result), results
