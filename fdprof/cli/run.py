"""`fdprof run`: one scenario in one mode."""

from pathlib import Path
from typing import Annotated, Any

import typer

from fdprof.cli.options import Backend, Force, Json, Output, Runs, Save, check_output, options_of, show
from fdprof.cli.recording import Recording
from fdprof.params import Extent, LoopParams


@options_of(LoopParams, Extent)
def run(
    scenario: Annotated[str, typer.Argument(help="A name that `fdprof scenarios` lists.")],
    mode: Annotated[str, typer.Option("--mode", help="A name that `fdprof modes` lists.")] = "async",
    backend: Backend = "auto",
    blocks: Annotated[int, typer.Option("--blocks", help="Passes of the loop.")] = 1,
    json: Json = False,
    output: Output = None,
    force: Force = False,
    runs: Runs = Path("runs"),
    save: Save = True,
    **options: Any,
) -> None:
    """Run a decode loop and print the times of its steps."""
    recording = Recording(scenario, [mode], backend, blocks, options)
    check_output(output, force)
    results = recording.record([0] * blocks, runs if save else None)
    show(results[0], json, output)
    recording.conclude(results)
