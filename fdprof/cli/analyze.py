"""`fdprof analyze`: the step ledger of captures that other tools made, and of fdprof's own runs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from fdprof.cli.captures import DeviceNumber, Look, ProcessId, Progress, StepRange, StepsPart, ThreadId, analyzed
from fdprof.cli.comparands import refuse_report
from fdprof.cli.options import Force, Json, Output, check_output, say, show
from fdprof.errors import FdprofError
from fdprof.units import printable


def analyze(
    captures: Annotated[
        list[Path],
        typer.Argument(
            metavar="CAPTURE...",
            help="Nsight Systems export (sqlite or parquetdir) or report (.nsys-rep, .qdstrm: through nsys), "
            "torch.profiler or paddle.profiler JSON (plain or gzip), or a folder that `fdprof run` or `fdprof capture` "
            "saved.",
        ),
    ],
    steps: StepsPart = None,
    step_range: StepRange = None,
    device: DeviceNumber = None,
    process: ProcessId = None,
    thread: ThreadId = None,
    json: Json = False,
    output: Output = None,
    force: Force = False,
) -> None:
    """Print where a capture's steps spent their time.  What its transfers cost, and what to do first."""
    look = Look.of(steps, step_range, device, process, thread)
    check_output(output, force, captures)

    from fdprof.reports.protocol import Analyses

    progress = Progress(sys.stderr.isatty())
    results, failed = [], []
    for path in captures:
        try:
            refuse_report(path)
            results.append(analyzed(path, look, progress))
        except FdprofError as error:  # one that cannot be used does not cost the others their report
            failed.append(error)
    if results:
        show(results[0] if len(captures) == 1 else Analyses(tuple(results)), json, output, force)
    for other in failed[1:]:
        say(f"fdprof: {printable(str(other))}")
    if failed:
        raise failed[0]
