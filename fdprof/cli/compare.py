"""`fdprof compare`: two modes of one scenario, in interleaved blocks."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from fdprof.cli.options import Backend, Force, Json, Output, Runs, Save, check_output, options_of, show
from fdprof.cli.recording import Recording
from fdprof.params import Extent, LoopParams


def command_for(params_type: type[LoopParams]) -> Callable[..., None]:
    """Return the command with the options of a scenario's parameters."""

    @options_of(params_type, Extent)
    def compare(
        baseline: Annotated[str, typer.Argument(help="A mode.")],
        candidate: Annotated[str, typer.Argument(help="A mode; the same one twice is an A/A check.")],
        scenario: Annotated[
            str, typer.Option("--scenario", help="A name that `fdprof scenarios` lists, or the path of a .py file.")
        ] = "stop_flag",
        backend: Backend = "auto",
        blocks: Annotated[
            int, typer.Option("--blocks", help="Passes of the loop on each side, in the order A B B A.")
        ] = 4,
        json: Json = False,
        output: Output = None,
        force: Force = False,
        runs: Runs = Path("runs"),
        save: Save = True,
        **options: Any,
    ) -> None:
        """Compare two modes of a decode loop.  Ratios are candidate / baseline."""
        recording = Recording(scenario, [baseline, candidate], backend, blocks, params_type, options)
        check_output(output, force)

        from fdprof.reports.protocol import ComparisonResult
        from fdprof.session import abba

        results = recording.record(abba(blocks), runs if save else None)
        show(ComparisonResult.of(results[0], results[1]), json, output)
        recording.conclude(results)

    return compare
