"""The finding that only a run can show: it samples the CPU time that its thread uses in waits."""

from fdprof.analysis.facts import Facts
from fdprof.analysis.fence import FenceResult
from fdprof.capture import Evidence
from fdprof.finding import Finding, FindingCode
from fdprof.units import percent, us

# A thread that sleeps in its waits uses 2 to 10 % of a core there, one that spins all of it (docs/measurements.md).
_SPINS = 0.5


def run_findings(fence: FenceResult, facts: Facts) -> list[Finding]:
    """Return the finding that waits burn a core, where they do and are long enough to matter."""
    if fence.cpu_ns is None or fence.cpu_share is None or fence.cpu_share < _SPINS:
        return []
    if fence.cpu_ns < facts.is_worth_saying:
        return []
    return [
        Finding(
            code=FindingCode.SPIN_WAIT,
            text=f"the waiting thread uses {us(fence.cpu_ns)} µs of CPU time a step in its waits "
            f"({percent(fence.cpu_share)} of them)",
            certainty=Evidence.PROVED,
            cost_ns_per_step=None,
            evidence={"cpu_ns": fence.cpu_ns, "cpu_share": fence.cpu_share},
            advice="harmless where the core is free; where other threads need it, --wait blocking or yield gives it "
            "back and costs tens of µs at each wake-up",
            steps=facts.steps_of_calls(facts.calls_in_steps(facts.calls.only_waits)),
        )
    ]
