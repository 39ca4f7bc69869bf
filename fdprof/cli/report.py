"""`fdprof report`: a saved run or comparison again."""

from pathlib import Path
from typing import Annotated

import typer

from fdprof.cli.options import Force, Json, Output, check_output, show
from fdprof.cli.recording import require_right
from fdprof.errors import InputError


def report(
    run: Annotated[Path, typer.Argument(help="A folder that `fdprof run` or `fdprof compare` saved.")],
    json: Json = False,
    output: Output = None,
    force: Force = False,
) -> None:
    """Print a saved run or comparison."""
    from fdprof import store
    from fdprof.analysis.results import result_of
    from fdprof.reports.protocol import ComparisonResult

    check_output(output, force)
    sides = store.load_any(run)
    for side in sides:
        if not side.blocks:
            raise InputError(f"{run} holds no finished block of {side.mode}", "it was interrupted; record it again")
    try:
        results = [result_of(side) for side in sides]
    except (ArithmeticError, LookupError, ValueError) as error:  # every entry is of its kind, but they do not fit
        raise InputError(
            f"{run} contradicts itself: {type(error).__name__}: {error}", "the run folder is damaged; record it again"
        ) from error
    show(results[0] if len(results) == 1 else ComparisonResult.of(results[0], results[1]), json, output)
    require_right(results)
