"""`fdprof report`: a saved run or comparison again."""

from pathlib import Path
from typing import Annotated

import typer

from fdprof.cli.options import Force, Json, Output, check_output, show
from fdprof.cli.run import wrong


def report(
    run: Annotated[Path, typer.Argument(help="A folder that `fdprof run` or `fdprof compare` saved.")],
    json: Json = False,
    output: Output = None,
    force: Force = False,
) -> None:
    """Print a saved run or comparison."""
    from fdprof import store
    from fdprof.analysis.results import compare, result_of
    from fdprof.errors import InputError, WrongResult
    from fdprof.reports.protocol import ComparisonResult

    check_output(output, force)
    loaded = store.load_any(run)
    for side in loaded:
        if not side.blocks:
            raise InputError(
                f"{run} holds no finished block of {side.mode}", "the run was interrupted; record it again"
            )
    results = [result_of(side) for side in loaded]
    if len(results) == 1:
        show(results[0], json, output)
    else:
        show(ComparisonResult(compare(results[0], results[1]), results[0], results[1]), json, output)
    for result in results:
        if not result.is_right:
            raise WrongResult(*wrong(result))
