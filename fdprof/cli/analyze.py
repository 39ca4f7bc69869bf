"""`fdprof analyze`: the step ledger of captures that other tools made, and of fdprof's own runs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fdprof.cli.captures import Progress, StepRange, naming, step_pattern, steps_part
from fdprof.cli.options import Force, Json, Output, check_output, say, show
from fdprof.errors import FdprofError
from fdprof.units import printable


def analyze(
    captures: Annotated[
        list[Path],
        typer.Argument(
            metavar="CAPTURE...",
            help="Nsight Systems export (sqlite or parquetdir), torch.profiler or paddle.profiler JSON (plain or "
            "gzip), or a folder that `fdprof run` or `fdprof capture` saved.",
        ),
    ],
    steps: Annotated[
        str | None, typer.Option("--steps", help="A:B, only steps A to B - 1, counted from 0; either may be left out.")
    ] = None,
    step_range: StepRange = None,
    device: Annotated[int | None, typer.Option("--device", help="Device number, as its process counts.")] = None,
    process: Annotated[int | None, typer.Option("--process", help="Process id, where there are several.")] = None,
    thread: Annotated[int | None, typer.Option("--thread", help="Thread id, where several have steps.")] = None,
    json: Json = False,
    output: Output = None,
    force: Force = False,
) -> None:
    """Print where a capture's steps spent their time.  What its transfers cost, and what to do first."""
    first, last = steps_part(steps)
    pattern = step_pattern(step_range)
    check_output(output, force, captures)

    from fdprof.analysis.capture_result import analyze as analyze_capture
    from fdprof.analysis.steps import Choice
    from fdprof.imports import import_capture
    from fdprof.reports.protocol import Analyses

    choice = Choice(process=process, thread=thread, device=device, step_range=pattern)
    progress = Progress(sys.stderr.isatty())
    results, failed = [], []
    for path in captures:
        progress(f"reading {path}")
        try:
            with naming(path):
                capture = import_capture(path, progress)
                progress(f"{path}: {capture.rows:,} rows read; computing the ledger")
                results.append(analyze_capture(capture, str(path), choice, device, first, last))
        except FdprofError as error:  # one that cannot be used does not cost the others their report
            failed.append(error)
    if results:
        show(results[0] if len(captures) == 1 else Analyses(tuple(results)), json, output)
    for other in failed[1:]:
        say(f"fdprof: {printable(str(other))}")
    if failed:
        raise failed[0]
