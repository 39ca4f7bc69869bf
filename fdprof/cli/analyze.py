"""`fdprof analyze`: the step ledger of captures that other tools made, and of fdprof's own runs."""

import re
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from fdprof.cli.options import Force, Json, Output, check_output, say, show
from fdprof.errors import FdprofError, UsageError
from fdprof.units import printable

_QUIET_S = 1.0
_A_LINE_S = 0.5


def analyze(
    captures: Annotated[
        list[Path],
        typer.Argument(
            metavar="CAPTURE...",
            help="Nsight Systems export (sqlite or parquetdir), torch.profiler or paddle.profiler JSON (plain or "
            "gzip), or a folder that `fdprof run` saved.",
        ),
    ],
    steps: Annotated[
        str | None, typer.Option("--steps", help="A:B, only steps A to B - 1, counted from 0; either may be left out.")
    ] = None,
    step_range: Annotated[
        str | None, typer.Option("--step-range", help="Regular expression: the ranges it is found in are the steps.")
    ] = None,
    device: Annotated[int | None, typer.Option("--device", help="Device number, as its process counts.")] = None,
    process: Annotated[int | None, typer.Option("--process", help="Process id, where there are several.")] = None,
    thread: Annotated[int | None, typer.Option("--thread", help="Thread id, where several have steps.")] = None,
    json: Json = False,
    output: Output = None,
    force: Force = False,
) -> None:
    """Print where a capture's steps spent their time.  What its transfers cost, and what to do first."""
    first, last = _part(steps)
    pattern = _pattern(step_range)
    check_output(output, force)

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
            capture = import_capture(path, progress)
            progress(f"{path}: {capture.rows:,} rows read; computing the ledger")
            results.append(analyze_capture(capture, str(path), choice, device, first, last))
        except FdprofError as error:
            # Analysis does not know the file; and one that cannot be used does not cost the others their report.
            message = str(error) if str(path) in str(error) else f"{path}: {error}"
            failed.append(type(error)(message, error.hint))
    if results:
        show(results[0] if len(captures) == 1 else Analyses(tuple(results)), json, output)
    for other in failed[1:]:
        say(f"fdprof: {printable(str(other))}")
    if failed:
        raise failed[0]


class Progress:
    """Prints lines for a person once the work has taken a second, at most two lines a second."""

    def __init__(self, is_watched: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_watched, self._clock = is_watched, clock
        self._next = clock() + _QUIET_S

    def __call__(self, text: str) -> None:
        now = self._clock()
        if now >= self._next and self._is_watched:
            self._next = now + _A_LINE_S
            say(printable(text))


def _part(steps: str | None) -> tuple[int | None, int | None]:
    if steps is None:
        return None, None
    match = re.fullmatch(r"(\d{0,9}):(\d{0,9})", steps)
    if match is None or steps == ":":
        raise UsageError(f"--steps is {steps!r}, expected A:B", "for example --steps 10:60, --steps 10: or --steps :60")
    first, last = (int(number) if number else None for number in match.groups())
    if last is not None and last <= (first or 0):
        raise UsageError(f"--steps is {steps!r}: B is not above A", "for example --steps 10:60")
    return first, last


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if text is None:
        return None
    if not text:
        raise UsageError("--step-range is empty, which every range matches", r"for example --step-range '^my_step$'")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # "[[" may mean something else one day
            return re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(
            f"--step-range {text!r} is no regular expression: {error}", r"for example --step-range '^my_step$'"
        ) from error
