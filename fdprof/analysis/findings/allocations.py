"""The finding that memory is allocated, page-locked or freed within the steps."""

import numpy as np

from fdprof.analysis.facts import Facts
from fdprof.capture import Evidence
from fdprof.finding import Finding, FindingCode
from fdprof.units import us


def allocation_findings(facts: Facts) -> list[Finding]:
    """Return the finding, where allocations cost the mean step or make one step long."""
    rows = facts.calls_in_steps(facts.calls.allocates)
    if not len(rows):
        return []
    spent = facts.time_in(rows)
    durations = (facts.calls.end_ns - facts.calls.start_ns)[rows]
    longest = int(np.argmax(durations))
    # One allocation of 12 ms in a hundred steps hides in the mean and is what the slowest step is made of.
    if spent < facts.is_worth_saying and durations[longest] < 0.1 * facts.window_ns:
        return []
    names = np.bincount(facts.capture.api["name"][rows], weights=durations)
    call = facts.capture.names[int(np.argmax(names))]
    where = facts.step_of(int(facts.calls.start_ns[rows[longest]]))
    return [
        Finding(
            code=FindingCode.ALLOCATION_IN_STEP,
            text=f"{len(rows) / len(facts.steps):.2f} allocations or frees a step (most time: {call}), "
            f"{us(spent)} µs a step; longest {us(int(durations[longest]))} µs in step {facts.steps.label(where)}",
            certainty=Evidence.PROVED,
            cost_ns_per_step=facts.at_most_idle(spent),
            evidence={
                "per_step": len(rows) / len(facts.steps),
                "ns": spent,
                "max_ns": int(durations[longest]),
                "max_step": int(facts.steps.numbers[where]),
            },
            advice="allocate and page-lock before the loop and use the memory again; page-locking may wait for the "
            "device",
            subject=f"{call} in the step",
            steps=facts.steps_of_calls(rows),
        )
    ]
