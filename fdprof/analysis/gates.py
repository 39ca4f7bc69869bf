"""Gates for CI: conditions that a comparison has to meet, each passed, failed or open."""

from collections.abc import Mapping

from fdprof.comparison import Estimate, GateResult, Judgement, Outcome, Policy, Verdict
from fdprof.units import ratio


def gates_of(policy: Policy, judgement: Judgement | None, ratios: Mapping[str, Estimate]) -> tuple[GateResult, ...]:
    """Return the gates that the policy asks for; without a judgement, because times were not compared, all are open.

    A limit is passed where the whole interval lies at or below it, failed where it lies above, and open between: a
    point without its interval would pass and fail by luck.
    """
    found = [_verdict(verdict, judgement) for verdict in sorted(policy.fail_if, key=lambda entry: entry.value)]
    for option, limit, name in (
        ("--max-ratio", policy.max_ratio, "mean"),
        ("--max-p99-ratio", policy.max_p99_ratio, "p99"),
    ):
        if limit is not None:
            found.append(_limit(f"{option} {limit:g}", limit, name, ratios.get(name)))
    return tuple(found)


def _verdict(unwanted: Verdict, judgement: Judgement | None) -> GateResult:
    option = f"--fail-if {unwanted.value}"
    if judgement is None:
        return GateResult(option, Outcome.OPEN, "times were not compared")
    verdict = judgement.verdict
    if verdict is unwanted:
        return GateResult(option, Outcome.FAILED, f"the verdict is {verdict.value}: {judgement.reason}")
    outcome = Outcome.OPEN if verdict is Verdict.INCONCLUSIVE else Outcome.PASSED
    return GateResult(option, outcome, f"the verdict is {verdict.value}: {judgement.reason}")


def _limit(option: str, limit: float, name: str, estimate: Estimate | None) -> GateResult:
    if estimate is None:
        return GateResult(option, Outcome.OPEN, "times were not compared")
    if estimate.interval is None:
        return GateResult(option, Outcome.OPEN, f"there is no interval of the ratio of the {name}: too few samples")
    low, high = estimate.interval
    outcome = Outcome.PASSED if high <= limit else Outcome.FAILED if low > limit else Outcome.OPEN
    text = f"the ratio of the {name} is {ratio(estimate.value)} ({ratio(low)} to {ratio(high)})"
    return GateResult(option, outcome, text)
