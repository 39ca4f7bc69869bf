"""The three sentences at the top: what to do first, or that transfers are not this loop's problem."""

from fdprof.analysis.facts import Bound, Facts
from fdprof.analysis.idle import BLOCKED, CAUSE_NAMES, HOST_PREFIX
from fdprof.finding import Finding, FindingCode
from fdprof.units import counted, percent, us

_FIRST = (
    FindingCode.PAGEABLE_DESTINATION,
    FindingCode.BLOCKING_COPY,
    FindingCode.FENCE_AFTER_COPY,
    FindingCode.HIDDEN_SYNC,
    FindingCode.BLOCKING_UPLOAD,
    FindingCode.SEVERAL_WAITS,
    FindingCode.ALLOCATION_IN_STEP,
)


def headline_of(facts: Facts, findings: tuple[Finding, ...]) -> tuple[str, str, str]:
    """Return three sentences: the answer, where the time is, and what to do."""
    if facts.bound is Bound.UNKNOWN:
        return _cannot_say(facts, findings)
    gain, window = facts.gain_ns or 0.0, facts.window_ns
    if facts.bound is Bound.ALTERNATING:
        first = next((finding for finding in findings if finding.code in _FIRST), None)
        return (
            f"Host and device take turns: of {us(window)} µs a step the device idles {us(_idle(facts))} µs "
            f"({percent(_idle(facts) / window)}), and at most {us(gain)} µs ({percent(gain / window)}) could be "
            "gained.",
            _where(facts),
            f"First: {first.advice}."
            if first
            else "First: put host work beside device work: no single wait stands out.",
        )
    bound = next(
        f for f in findings if f.code in (FindingCode.DEVICE_BOUND, FindingCode.LAUNCH_BOUND, FindingCode.HOST_BOUND)
    )
    return (
        f"Transfers are not this loop's problem: with no wait at all a step would be at most {us(gain)} of "
        f"{us(window)} µs shorter ({percent(gain / window)}).",
        f"It is {_WORDS[bound.code]}: {bound.text}.",
        f"What helps: {bound.advice}.",
    )


_NOTHING_STANDS_OUT = "First: put host work beside device work; no single wait stands out."

_WORDS = {
    FindingCode.DEVICE_BOUND: "device-bound",
    FindingCode.LAUNCH_BOUND: "launch-bound",
    FindingCode.HOST_BOUND: "host-bound",
}


def _idle(facts: Facts) -> float:
    idle = facts.ledger.device_idle_ns
    return 0.0 if idle is None else float(idle.mean())


def _where(facts: Facts) -> str:
    harmful = facts.ledger.harmful_wait_ns
    harmful_ns = 0.0 if harmful is None else float(harmful.mean())
    blocked = float(facts.ledger.host_blocked_ns.mean())
    most = [(name, ns) for name, ns in facts.ledger.mean_causes().items() if name != CAUSE_NAMES[BLOCKED]][:2]
    rest = " and ".join(f"{us(ns)} µs {_in_words(name)}" for name, ns in most if ns)
    behind = ", pushed behind the wait" if blocked and most and most[0][0].startswith(HOST_PREFIX) else ""
    return (
        f"The host is blocked {us(blocked)} µs a step, and that starves the device for {us(harmful_ns)} µs; "
        f"most of the other idle is {rest}{behind}."
    )


def _in_words(cause: str) -> str:
    if cause.startswith(HOST_PREFIX):
        name = cause.removeprefix(HOST_PREFIX)
        return f"host code in {name!r}" if name else "host code outside all ranges"
    return {
        "queued": "start latency",
        "launch": "host calls (launches and copies)",
        "allocate": "allocation",
        "not captured": "missing from the capture",
    }[cause]


def _cannot_say(facts: Facts, findings: tuple[Finding, ...]) -> tuple[str, str, str]:
    doubts = (FindingCode.NO_DEVICE_ROWS, FindingCode.CAPTURE_CUT, FindingCode.STEPS_INFERRED)
    doubt = next((finding for finding in findings if finding.code in doubts), None)
    blocked = float(facts.ledger.host_blocked_ns.mean())
    calls = round(facts.stalls.calls_per_step * len(facts.steps))
    return (
        "This capture cannot say what transfers cost a step"
        + (f": {doubt.text}." if doubt else ": it holds no whole step."),
        f"What it does show: the host is blocked {us(blocked * len(facts.steps))} of "
        f"{us(facts.window_ns * len(facts.steps))} µs, in {counted(calls, 'call')}.",
        f"First: {doubt.advice}." if doubt else "First: capture whole steps.",
    )
