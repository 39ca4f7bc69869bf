"""Findings that only a run can show or must show otherwise: it knows its mode, and samples its thread's CPU time."""

from fdprof.analysis.facts import Facts
from fdprof.analysis.fence import FenceResult
from fdprof.analysis.findings.waits import DEFER, FENCE, at_most, is_worth
from fdprof.capture import Evidence
from fdprof.finding import Finding, FindingCode
from fdprof.model import Memory, Run
from fdprof.units import percent, us

# A thread that sleeps in its waits uses 2 to 10 % of a core there, one that spins all of it (docs/measurements.md).
_SPINS = 0.5


def run_findings(run: Run, fence: FenceResult, facts: Facts) -> list[Finding]:
    """Return the findings about a run's copies, whose device intervals it does not know, and about its waits."""
    found = (_blocking_copies(run, facts), _early_fence(run, fence, facts), _spin(fence, facts))
    return [finding for finding in found if finding is not None]


def _blocking_copies(run: Run, facts: Facts) -> Finding | None:
    copies = [site for site in facts.stalls.sites if site.is_copy]
    blocked = sum(site.blocked_ns for site in copies)
    cost = at_most(facts, blocked)
    if run.memory is not Memory.PAGEABLE or not is_worth(facts, cost, blocked):
        return None
    count = sum(site.per_step for site in copies)
    return Finding(
        code=FindingCode.PAGEABLE_DESTINATION,
        text=f"{count:.2f} copies a step to pageable host memory hold the host for {us(blocked)} µs",
        certainty=Evidence.PROVED,
        cost_ns_per_step=cost,
        evidence={"copies_per_step": count, "issue_ns": blocked},
        advice=FENCE,
    )


def _early_fence(run: Run, fence: FenceResult, facts: Facts) -> Finding | None:
    waited = fence.wait_ns or 0.0
    cost = at_most(facts, waited)
    if run.lag or not is_worth(facts, cost, waited):
        return None
    return Finding(
        code=FindingCode.FENCE_AFTER_COPY,
        text=f"the host waits for its copies in the step that issues them, for {us(waited)} µs (lag 0)",
        certainty=Evidence.PROVED,
        cost_ns_per_step=cost,
        evidence={"wait_ns": waited, "lag": 0},
        advice=DEFER,
    )


def _spin(fence: FenceResult, facts: Facts) -> Finding | None:
    if fence.cpu_ns is None or fence.cpu_share is None or fence.cpu_share < _SPINS:
        return None
    if fence.cpu_ns < facts.is_worth_saying:
        return None
    return Finding(
        code=FindingCode.SPIN_WAIT,
        text=f"the waiting thread uses {us(fence.cpu_ns)} µs of CPU time a step in its waits "
        f"({percent(fence.cpu_share)} of them)",
        certainty=Evidence.PROVED,
        cost_ns_per_step=None,
        evidence={"cpu_ns": fence.cpu_ns, "cpu_share": fence.cpu_share},
        advice="harmless where the core is free; where other threads need it, --wait blocking or yield gives it "
        "back and costs tens of µs at each wake-up",
    )
