"""The longest steps of a ledger, each with what most of its idle time is for."""

from dataclasses import dataclass

import numpy as np

from fdprof.analysis.ledger import Ledger

_LONGEST = 5


@dataclass(frozen=True, slots=True)
class WorstStep:
    """One of the longest steps; `position` is among the analysed ones, from 0, and `step` its own number."""

    position: int
    step: int
    window_ns: int
    device_idle_ns: int | None
    host_blocked_ns: int | None
    largest_cause: str | None
    largest_cause_ns: int | None


def longest_steps(ledger: Ledger) -> tuple[WorstStep, ...]:
    """Return the longest steps, the longest first."""
    found = []
    for position in np.argsort(-ledger.window_ns, kind="stable")[:_LONGEST].tolist():
        causes = ledger.causes_of(position)
        largest = max(causes, key=causes.__getitem__) if causes else None
        idle, blocked = ledger.device_idle_ns, ledger.host_blocked_ns
        found.append(
            WorstStep(
                position=position,
                step=int(ledger.step[position]),
                window_ns=int(ledger.window_ns[position]),
                device_idle_ns=None if idle is None else int(idle[position]),
                host_blocked_ns=None if blocked is None else int(blocked[position]),
                largest_cause=largest,
                largest_cause_ns=None if largest is None else causes[largest],
            )
        )
    return tuple(found)
