"""Everything that a report of one capture shows.  Derived, never stored."""

from dataclasses import dataclass

import numpy as np

from fdprof.analysis.facts import Facts, facts_of
from fdprof.analysis.findings import findings_of
from fdprof.analysis.headline import headline_of
from fdprof.analysis.ledger import COLUMNS, Ledger, device_of
from fdprof.analysis.longest import WorstStep, longest_steps
from fdprof.analysis.stats import NOTHING, summarize
from fdprof.analysis.steps import Choice, find_steps
from fdprof.capture import Capture
from fdprof.finding import Finding
from fdprof.model import Summary
from fdprof.units import us

# From this many times the median on, in at least this many steps, a first step is taken for a warm-up.
_WARM_UP = 1.5
_MIN_STEPS = 10


@dataclass(frozen=True, slots=True)
class CaptureResult:
    """The analysis of one capture: its facts, their summaries, and what follows from them."""

    path: str
    first: int  # position in the capture, as --steps counts, of the first step that was analysed
    facts: Facts
    summaries: dict[str, Summary]
    idle_by_cause_ns: dict[str, float] | None  # mean per step, the largest first
    residual_ns: int | None  # the largest of any step; not 0 is a bug
    worst: tuple[WorstStep, ...]
    findings: tuple[Finding, ...]
    headline: tuple[str, str, str]
    limits: tuple[str, ...]
    again: str | None = None  # the command that analyses it again, which takes --steps; None: it was not kept


def analyze(
    capture: Capture,
    path: str,
    choice: Choice,
    device: int | None = None,
    first: int | None = None,
    last: int | None = None,
) -> CaptureResult:
    """Return the analysis of steps first..last - 1 (all by default); `device` is the process's own device number."""
    steps = find_steps(capture, choice)
    if first is not None or last is not None:
        steps = steps.part(first, last)
    facts = facts_of(capture, steps, device_of(capture, steps, device))
    ledger = facts.ledger
    findings = findings_of(facts)
    summaries = {
        name: NOTHING if getattr(ledger, name) is None else summarize(getattr(ledger, name), ledger.step)
        for name in COLUMNS
    }
    return CaptureResult(
        path=path,
        first=first or 0,
        facts=facts,
        summaries=summaries,
        idle_by_cause_ns=None if ledger.idle is None else ledger.mean_causes(),
        residual_ns=ledger.largest_residual_ns,
        worst=longest_steps(ledger),
        findings=findings,
        headline=headline_of(facts, findings),
        limits=(*capture.limits, *steps.notes, *_first_step(ledger), *_unseen(facts)),
    )


def _first_step(ledger: Ledger) -> tuple[str, ...]:
    """Return a note where the first step is a warm-up, which a capture does not mark."""
    if len(ledger) < _MIN_STEPS:
        return ()
    median, first = float(np.median(ledger.window_ns)), int(ledger.window_ns[0])
    if not median or first < _WARM_UP * median:
        return ()
    return (
        f"the first step took {first / median:.1f} times the median and is counted, as every step of a capture is: "
        "--steps 1: leaves it out",
    )


def _unseen(facts: Facts) -> tuple[str, ...]:
    """Return a note where the host may have polled memory, which leaves no call."""
    if facts.unseen_wait_ns < facts.is_worth_saying or not facts.unseen_wait_ns:
        return ()
    return (
        f"{us(facts.unseen_wait_ns)} µs a step lie in ranges named for waiting that hold no waiting call, as where the "
        "host polls memory: they count as host code in the ledger, and not as work in the limit",
    )
