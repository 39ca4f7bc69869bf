"""The three sentences at the top: what to do first, or that transfers are not this loop's problem."""

from fdprof.analysis.facts import Bound, Facts
from fdprof.analysis.findings.bound import busiest_host_range
from fdprof.analysis.idle import ALLOCATE, BLOCKED, HOST, LAUNCH, NOT_CAPTURED, QUEUED
from fdprof.capture import Evidence
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
    if facts.bound is Bound.WAITS:
        first = next((finding for finding in findings if finding.code in _FIRST), None)
        # Where steps are guessed or calls return behind their work, "ahead" may be another iteration's.
        runs_ahead = (facts.run_ahead_share or 0.0) > 0.5 and (facts.launch_lead_ns or 0.0) > 0
        how = "the host runs ahead of the device, and still" if runs_ahead else "host and device take turns:"
        return (
            _begun(
                facts,
                f"{how} of {us(window)} µs a step the device idles {us(_idle(facts))} µs "
                f"({percent(_idle(facts) / window)}); with no wait at all the step would be at most {us(gain)} µs "
                f"shorter ({percent(gain / window)}).",
            ),
            _where(facts),
            f"First, {first.subject}: {first.advice}." if first else _NOTHING_STANDS_OUT,
        )
    bound = next(finding for finding in findings if finding.code in _WORDS)
    return (
        _begun(
            facts,
            f"transfers are not this loop's problem: with no wait at all a step of {us(window)} µs would be at most "
            f"{us(gain)} µs shorter ({percent(gain / window)}).",
        ),
        f"It is {_WORDS[bound.code]}: {bound.text}.",
        f"What helps: {bound.advice}.",
    )


_NOTHING_STANDS_OUT = "First: put host work beside device work; no single wait stands out."


def _begun(facts: Facts, sentence: str) -> str:
    """Return the sentence with a capital, or behind the doubt that its steps are a guess."""
    if facts.steps.evidence is Evidence.INFERRED:
        return f"If the calls that repeat are the step (no marker says so), {sentence}"
    return sentence[0].upper() + sentence[1:]


# Causes of less than this share of the idle time are left to the table.
_SHOWN = 0.15
_WORDS_OF_CAUSES = {
    QUEUED: "queued",
    ALLOCATE: "allocate",
    LAUNCH: "launch",
    NOT_CAPTURED: "not captured",
    HOST: "host code",
}

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
    blocked = float(facts.ledger.blocked_ns.mean())
    causes = [(cause, float(ns.mean())) for cause, ns in facts.ledger.causes.items() if cause != BLOCKED]
    causes = sorted((entry for entry in causes if entry[1] >= _SHOWN * _idle(facts)), key=lambda entry: -entry[1])
    rest = [f"{us(ns)} µs {_WORDS_OF_CAUSES[cause]}" for cause, ns in causes]
    busiest = busiest_host_range(facts)
    if busiest is not None and busiest[0]:
        rest = [f"{text} (most in {busiest[0]!r})" if text.endswith("host code") else text for text in rest]
    return (
        f"The host is blocked {us(blocked)} µs a step, {us(harmful_ns)} µs of it with an idle device; the other idle "
        f"is mostly {_listed(rest) or 'short'}."
    )


def _listed(entries: list[str]) -> str:
    """Return 'a', 'a and b' or 'a, b and c'."""
    return " and ".join([", ".join(entries[:-1]), *entries[-1:]] if len(entries) > 1 else entries)


def _cannot_say(facts: Facts, findings: tuple[Finding, ...]) -> tuple[str, str, str]:
    doubts = (FindingCode.NO_DEVICE_ROWS, FindingCode.CAPTURE_CUT, FindingCode.STEPS_INFERRED)
    doubt = next((finding for finding in findings if finding.code in doubts), None)
    blocked = float(facts.ledger.blocked_ns.mean())
    calls = round(facts.stalls.calls_per_step * len(facts.steps))
    return (
        "This capture cannot say what transfers cost a step"
        + (f": {doubt.text}." if doubt else ": it holds no whole step."),
        f"What it does show: the host is blocked {us(blocked * len(facts.steps))} of "
        f"{us(facts.window_ns * len(facts.steps))} µs, in {counted(calls, 'call')}.",
        f"First: {doubt.advice}." if doubt else "First: capture whole steps.",
    )
