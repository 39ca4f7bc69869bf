"""What commands that read captures share: which steps are looked at, the analysis, and progress on long reads."""

import re
import shlex
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fdprof.cli.options import say
from fdprof.errors import FdprofError, UsageError
from fdprof.units import printable

if TYPE_CHECKING:  # NumPy is behind it, and --help must not wait for NumPy
    from fdprof.analysis.capture_result import CaptureResult

_QUIET_S = 1.0
_A_LINE_S = 0.5

StepRange = Annotated[
    str | None, typer.Option("--step-range", help="Regular expression: the ranges it is found in are the steps.")
]

StepsPart = Annotated[
    str | None, typer.Option("--steps", help="A:B, only steps A to B - 1, counted from 0; either may be left out.")
]
DeviceNumber = Annotated[int | None, typer.Option("--device", help="Device number, as its process counts.")]
ProcessId = Annotated[int | None, typer.Option("--process", help="Process id, where there are several.")]
ThreadId = Annotated[int | None, typer.Option("--thread", help="Thread id, where several have steps.")]


@dataclass(frozen=True, slots=True)
class Look:
    """What of a capture is looked at: the values of these options."""

    pattern: re.Pattern[str] | None
    part: tuple[int | None, int | None]
    device: int | None
    process: int | None
    thread: int | None

    @classmethod
    def of(
        cls, steps: str | None, step_range: str | None, device: int | None, process: int | None, thread: int | None
    ) -> "Look":
        """Return the checked options; UsageError for the first that is wrong."""
        return cls(step_pattern(step_range), steps_part(steps), device, process, thread)


def again(
    path: Path,
    pattern: re.Pattern[str] | None = None,
    device: int | None = None,
    process: int | None = None,
    thread: int | None = None,
) -> str | None:
    """Return the command that analyses a saved run or a capture again, for a shell; --steps can be added to it.

    None where it could not be printed: a path may hold a line break.
    """
    given = {
        "--step-range": None if pattern is None else pattern.pattern,
        "--device": device,
        "--process": process,
        "--thread": thread,
    }
    name = f"./{path}" if str(path).startswith("-") else str(path)
    options = [word for option, value in given.items() if value is not None for word in (option, str(value))]
    command = shlex.join(["fdprof", "analyze", name, *options])
    return command if printable(command) == command else None


def analyzed(path: Path, look: Look, progress: "Progress") -> "CaptureResult":
    """Return the analysis of a capture, its errors naming the file."""
    from fdprof.analysis.capture_result import analyze
    from fdprof.analysis.steps import Choice
    from fdprof.imports import import_capture

    choice = Choice(process=look.process, thread=look.thread, device=look.device, step_range=look.pattern)
    progress(f"reading {path}")
    with naming(path):
        capture = import_capture(path, progress)
        progress(f"{path}: {capture.rows:,} rows read; computing the ledger")
        result = analyze(capture, str(path), choice, look.device, *look.part)
    return replace(result, again=again(path, look.pattern, look.device, look.process, look.thread))


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Name the file in errors of the analysis, which does not know it."""
    try:
        yield
    except FdprofError as error:
        if str(path) in str(error):
            raise
        raise type(error)(f"{path}: {error}", error.hint) from error


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


def step_pattern(text: str | None) -> re.Pattern[str] | None:
    """Return the pattern of --step-range; UsageError where it is none."""
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


def steps_part(steps: str | None) -> tuple[int | None, int | None]:
    """Return A and B of --steps A:B, None for one that is left out; UsageError where it is no such thing."""
    if steps is None:
        return None, None
    match = re.fullmatch(r"(\d{0,9}):(\d{0,9})", steps)
    if match is None or steps == ":":
        raise UsageError(f"--steps is {steps!r}, expected A:B", "for example --steps 10:60, --steps 10: or --steps :60")
    first, last = (int(number) if number else None for number in match.groups())
    if last is not None and last <= (first or 0):
        raise UsageError(f"--steps is {steps!r}: B is not above A", "for example --steps 10:60")
    return first, last
