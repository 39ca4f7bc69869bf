"""What a mean step is made of, as the reports draw it: each part with its meaning and ns.

It divides and subtracts what analysis summed up, and computes nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.results import RunResult
from fdprof.analysis.sides import COMPUTE, COPY_ALONE
from fdprof.comparison import Side
from fdprof.meanings import Meaning, meaning_of_part


@dataclass(frozen=True, slots=True)
class Part:
    """One part of a mean step, ns."""

    name: str
    meaning: Meaning
    ns: float


def parts_of_result(result: RunResult | CaptureResult) -> tuple[Part, ...]:
    """Return the parts of a result's mean step, device busy first, then idle by cause; none without device rows."""
    facts = result.facts
    busy = result.summaries["device_busy_ns"].mean
    if facts is None or busy is None or result.idle_by_cause_ns is None:
        return ()
    alone = facts.copy_alone_ns or 0.0  # not known of a run: then it is in the idle time
    entries = {COMPUTE: busy - alone, COPY_ALONE: alone, **result.idle_by_cause_ns}
    return tuple(Part(name, _meaning(name), ns) for name, ns in entries.items() if ns > 0)


def parts_of_side(side: Side) -> tuple[Part, ...]:
    """Return the parts of a side's mean step; none where there are no device rows."""
    steps = len(side.steps_ns)
    if side.parts_ns is None or not steps:
        return ()
    return tuple(Part(name, _meaning(name), ns / steps) for name, ns in side.parts_ns.items() if ns > 0)


def by_meaning(parts: Sequence[Part]) -> dict[Meaning, float]:
    """Return the ns of each meaning that has any, in the order of the meanings."""
    sums = {meaning: sum(part.ns for part in parts if part.meaning is meaning) for meaning in Meaning}
    return {meaning: ns for meaning, ns in sums.items() if ns > 0}


def _meaning(name: str) -> Meaning:
    """Return the meaning of a part; a baseline file that a person wrote may name others."""
    try:
        return meaning_of_part(name)
    except ValueError:
        return Meaning.NOT_CAPTURED
