"""`fdprof report`: a saved run or comparison again, or a capture, in any format."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fdprof.cli.captures import DeviceNumber, Look, ProcessId, Progress, StepRange, StepsPart, ThreadId, again, analyzed
from fdprof.cli.comparands import of_runs, refuse_report
from fdprof.cli.options import Force, Json, Output, check_output, show
from fdprof.cli.recording import require_right
from fdprof.cli.saved_loop import is_given
from fdprof.errors import InputError, UsageError

if TYPE_CHECKING:  # NumPy is behind them, and --help must not wait for NumPy
    from fdprof.analysis.results import RunResult
    from fdprof.comparison import Policy
    from fdprof.model import Run
    from fdprof.reports.protocol import ComparisonResult, Reportable


def report(
    ctx: typer.Context,
    recording: Annotated[
        Path,
        typer.Argument(
            metavar="RUN|CAPTURE|COMPARISON",
            help="A folder that `fdprof run`, `compare` or `capture` saved, or a capture as `fdprof analyze` reads it.",
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
    """Print a saved run, comparison or capture, and with -o write it in any format.

    --steps, --step-range, --device, --process and --thread are for captures.
    """
    look = Look.of(steps, step_range, device, process, thread)
    check_output(output, force, [recording])

    from fdprof import store

    if store.holds_run(recording):
        for option in ("steps", "step_range", "device", "process", "thread"):
            if is_given(ctx, option):
                name = option.replace("_", "-")
                side = store.sides_of(recording)[0]
                a_run = side if side.is_dir() else recording
                raise UsageError(f"--{name} is for captures", f"fdprof analyze {a_run} reads a run as one")
        shown, results = _saved(recording)
    else:
        refuse_report(recording)
        shown, results = analyzed(recording, look, Progress(sys.stderr.isatty())), []
    show(shown, json, output, force)
    require_right(results)


def _saved(run: Path) -> "tuple[Reportable, list[RunResult]]":
    """Return what a saved run or comparison comes to, and its results."""
    from fdprof import store
    from fdprof.analysis.results import result_of

    sides = store.load_any(run)
    for side in sides:
        if not side.blocks:
            there = [str(folder) for folder, other in zip(store.sides_of(run), sides, strict=False) if other.blocks]
            hint = f"fdprof report {there[0]} has what was finished" if there else "record it again"
            raise InputError(f"{run} was interrupted and holds no finished block of {side.mode}", hint)
    try:
        if len(sides) == 1:
            result = replace(result_of(sides[0]), again=again(run))
            return result, [result]
        return _compared(sides, store.sides_of(run), store.load_policy(run))
    except (ArithmeticError, LookupError, ValueError) as error:  # every entry is of its kind, but they do not fit
        raise InputError(
            f"{run} contradicts itself: {type(error).__name__}: {error}", "the run folder is damaged; record it again"
        ) from error


def _compared(
    sides: "Sequence[Run]", folders: Sequence[Path], policy: "Policy"
) -> "tuple[ComparisonResult, list[RunResult]]":
    """Return the comparison of runs that are saved in these folders, under a policy, and their results."""
    from fdprof.analysis.compare import compare
    from fdprof.analysis.results import RunResult
    from fdprof.reports.protocol import ComparisonResult

    baseline, candidate = of_runs(sides, folders)
    comparison = compare(baseline.side, candidate.side, policy)
    results = [entry.result for entry in (baseline, candidate) if isinstance(entry.result, RunResult)]
    return ComparisonResult(comparison, baseline.result, candidate.result), results
