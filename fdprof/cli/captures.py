"""What commands that read captures share: how steps are found, and progress on long reads."""

import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from fdprof.cli.options import say
from fdprof.errors import FdprofError, UsageError
from fdprof.units import printable

_QUIET_S = 1.0
_A_LINE_S = 0.5

StepRange = Annotated[
    str | None, typer.Option("--step-range", help="Regular expression: the ranges it is found in are the steps.")
]


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
