"""Findings about the capture itself: what it lacks, and what taking it cost."""

import numpy as np

from fdprof.analysis.facts import MOSTLY_OUTSIDE, NOISE, Facts
from fdprof.analysis.idle import NOT_CAPTURED
from fdprof.analysis.intervals import covered
from fdprof.capture import NONE, Evidence
from fdprof.finding import Finding, FindingCode
from fdprof.units import counted, percent, ratio, us


def quality_findings(facts: Facts) -> list[Finding]:
    """Return what makes the other numbers doubtful."""
    found = [
        _no_device_rows(facts),
        _cut(facts),
        _outside(facts),
        _unmatched(facts),
        _inferred(facts),
        _inflation(facts),
    ]
    return [finding for finding in found if finding is not None]


def _no_device_rows(facts: Facts) -> Finding | None:
    if facts.device is not None:
        return None
    return Finding(
        code=FindingCode.NO_DEVICE_ROWS,
        text=f"{len(facts.capture.api):,} host calls and no device activity: the tracer did not see the device, which "
        "does not mean that it was idle",
        certainty=Evidence.PROVED,
        cost_ns_per_step=None,
        evidence={"calls": len(facts.capture.api)},
        advice="trace the process that launches from its start: a process forked after CUDA started is lost "
        "(nsys profile --trace-fork-before-exec=true, or spawn instead of fork)",
    )


def _cut(facts: Facts) -> Finding | None:
    share = facts.not_captured_share
    if share < NOISE:
        return None
    spent = share * facts.window_ns
    return Finding(
        code=FindingCode.CAPTURE_CUT,
        text=f"{us(spent)} µs a step ({percent(share)}) the host waited for device work that is not in this capture: "
        "the device was not idle then, its rows are missing",
        certainty=Evidence.INFERRED,
        cost_ns_per_step=None,
        evidence={"not_captured_ns": spent, "share": share},
        advice="capture whole steps: begin before the first launch of a step and end after a synchronisation",
        steps=facts.steps_with_most(facts.ledger.causes.get(NOT_CAPTURED)),
    )


def _outside(facts: Facts) -> Finding | None:
    share = facts.outside_share
    if share < MOSTLY_OUTSIDE or facts.not_captured_share >= NOISE:  # the latter says more
        return None
    return Finding(
        code=FindingCode.CAPTURE_CUT,
        text=f"{percent(share)} of the device work that the steps issue runs outside all of them: the host is far "
        f"ahead of the device, and {counted(len(facts.steps), 'step')} cannot show both",
        certainty=Evidence.PROVED,
        cost_ns_per_step=None,
        evidence={"share": share, "steps": len(facts.steps)},
        advice="capture more steps in a row; if that does not help, nothing in the loop waits for the device",
    )


def _unmatched(facts: Facts) -> Finding | None:
    """Launches without a device row, and device rows without a launch: rows that the tracer dropped or cut off."""
    lacking = facts.calls_in_steps(facts.calls.lacks_row)
    work = facts.capture.device
    orphans = int(np.count_nonzero((work["api"] == NONE) & (work["device"] == facts.device)))
    rows = int(np.count_nonzero(work["device"] == facts.device))
    calls = len(facts.calls_in_steps(facts.calls.gives_work))
    if (len(lacking) < NOISE * max(calls, 1) or not len(lacking)) and (orphans < NOISE * max(rows, 1) or not orphans):
        return None
    return Finding(
        code=FindingCode.CAPTURE_CUT,
        text=f"rows are missing: of {calls:,} calls in the steps that give the device work {len(lacking):,} have no "
        f"device row, of {rows:,} device rows {orphans:,} have no call",
        certainty=Evidence.PROVED,
        cost_ns_per_step=None,
        evidence={"calls_without_rows": len(lacking), "rows_without_calls": orphans, "calls": calls, "rows": rows},
        advice="idle time without a known call is not `queued` even where it was; capture whole steps, "
        "with larger buffers",
        steps=facts.first_steps_of(lacking),
    )


def _inferred(facts: Facts) -> Finding | None:
    if facts.steps.evidence is Evidence.PROVED:
        return None
    return Finding(
        code=FindingCode.STEPS_INFERRED,
        text=facts.steps.found_by,
        certainty=facts.steps.evidence,
        cost_ns_per_step=None,
        evidence={"steps": len(facts.steps)},
        advice="mark the steps with an NVTX range or record_function named decode_step, or name yours: "
        "--step-range REGEX",
    )


def _inflation(facts: Facts) -> Finding | None:
    """What the tracer costs a step: as measured without it, and the time that it says it held the thread up itself."""
    overhead = facts.capture.overhead
    mine = overhead["thread"] == facts.steps.thread
    own_ns = covered(overhead["start_ns"][mine], overhead["end_ns"][mine], facts.steps.starts_ns, facts.steps.ends_ns)
    spent = float(own_ns.mean())
    reported = f"the profiler reports {us(spent)} µs a step of its own work on the step's thread"
    measured = facts.capture.inflation
    added = 0.0 if measured is None else facts.window_ns * (1 - 1 / measured.ratio)
    low, high = (None, None) if measured is None else measured.interval or (None, None)
    # Where the interval holds 1 the tracer may cost nothing.
    if measured is not None and added >= facts.is_worth_saying and (low is None or low > 1):
        also = f"; {reported}" if spent >= facts.is_worth_saying else ""
        interval = "" if low is None else f" (95 % interval {ratio(low)} to {ratio(high)})"
        return Finding(
            code=FindingCode.PROFILER_INFLATION,
            text=f"a step takes {ratio(measured.ratio)} times as long as without the profiler{interval}, "
            f"{us(added)} µs more; {measured.how}{also}",
            certainty=Evidence.PROVED,
            cost_ns_per_step=added,
            evidence={
                "ratio": measured.ratio,
                "ratio_low": low,
                "ratio_high": high,
                "added_ns": added,
                "overhead_ns": spent,
            },
            advice="differences smaller than that say nothing; trace less, or compare runs without a profiler",
            steps=facts.steps_with_most(own_ns),
        )
    if spent < facts.is_worth_saying:
        return None
    return Finding(
        code=FindingCode.PROFILER_INFLATION,
        text=reported,
        certainty=Evidence.PROVED,
        cost_ns_per_step=facts.at_most_idle(spent),
        evidence={"overhead_ns": spent},
        advice="leave out the steps in which it worked (--steps A:B), or trace less",
        steps=facts.steps_with_most(own_ns),
    )
