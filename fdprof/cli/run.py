"""`fdprof run`: one scenario in one mode."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from fdprof.cli.captures import again
from fdprof.cli.options import (
    Backend,
    Force,
    Json,
    Output,
    Runs,
    Save,
    WorkOf,
    check_blocks,
    check_output,
    options_of,
    show,
)
from fdprof.cli.recording import Recording, require_right
from fdprof.params import Extent, LoopParams


def command_for(params_type: type[LoopParams]) -> Callable[..., None]:
    """Return the command with the options of a scenario's parameters."""

    @options_of(params_type, Extent)
    def run(
        scenario: Annotated[
            str, typer.Argument(help="A name that `fdprof scenarios` lists, or the path of a .py file with your own.")
        ],
        mode: Annotated[str, typer.Option("--mode", help="A name that `fdprof modes` lists.")] = "async",
        backend: Backend = "auto",
        blocks: Annotated[int, typer.Option("--blocks", help="Passes of the loop.")] = 1,
        fault: Annotated[
            str | None,
            typer.Option("--fault", help="Do one known thing wrong: a name that `fdprof hazards --list` gives."),
        ] = None,
        audit: Annotated[
            bool, typer.Option("--audit", help="Look for hazards: poison buffers, follow every call. Costs time.")
        ] = False,
        disturb: Annotated[
            int | None,
            typer.Option("--disturb", help="On sim: let copies land late, and put the host off, by this seed."),
        ] = None,
        work_of: WorkOf = None,
        json: Json = False,
        output: Output = None,
        force: Force = False,
        runs: Runs = Path("runs"),
        save: Save = True,
        **options: Any,
    ) -> None:
        """Run a decode loop and print the times of its steps.  More options: fdprof run SCENARIO --help."""
        check_blocks(blocks)
        recording = Recording(scenario, [mode], backend, params_type, options, fault, audit, disturb, work_of)
        check_output(output, force)
        (recorded,) = recording.record([0] * blocks, runs if save else None)

        from fdprof.analysis.results import result_of

        result = replace(result_of(recorded), again=again(recording.folders[0]) if recording.folders else None)
        with recording.reported():
            show(result, json, output, force)
        require_right([result])
        recording.end_if_stopped()

    return run
