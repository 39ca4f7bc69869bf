"""Runs somebody's command to its end, bounded by a limit, and says how it ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Ended(Enum):
    """What ended a command."""

    EXIT = "exit"  # by itself, whatever its exit code
    SIGNAL = "signal"  # a signal that did not come from here
    LIMIT = "limit"  # it ran past its limit and was ended
    INTERRUPTED = "interrupted"  # Ctrl-C


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a command ended. `exit_code` is the one to pass on: 128 + the signal's number where a signal ended it."""

    exit_code: int
    ended: Ended
