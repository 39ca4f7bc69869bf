"""What two sides' step times say: their ratio, what could be told apart at all, and the verdict."""

from collections.abc import Sequence

import numpy as np

from fdprof.analysis.resampling import detectable_ratio, ratio_of_means
from fdprof.analysis.spread import noise_apart, noise_of_pairs
from fdprof.capture import Inflation
from fdprof.comparison import Estimate, Judgement, Side, Verdict
from fdprof.model import IntColumn
from fdprof.units import counted, percent, ratio

MIN_UNITS = 6
"""Fewer blocks a side give no verdict: of four the bootstrap, on which percentiles rest alone, covers in 85 to 95 of
100 trials, of five in 88 to 94 (benchmarks/results/compare-2026-11-30/interval_kinds.json)."""

APART = 0.035
"""What two recordings of one loop may differ by without a cause, beside their intervals.

Blocks of one call share the machine's state; recordings made apart do not, and no interval knows by how much.  The
mean step of one mode had a standard deviation of 1.2 % over 20 processes on one H200 (docs/measurements.md), so that
95 of 100 pairs of them differ by up to 1.96 × √2 × 1.2 %.
"""

_BATCHES = 10
_LEAST_BATCH = 5

BLOCKS, BATCHES = "blocks", "batches of steps"
"""What is resampled."""

Units = tuple[IntColumn, ...]


def units_of(baseline: Side, candidate: Side) -> tuple[Units, Units, bool]:
    """Return what is resampled on each side, and whether the two ran interleaved and are resampled in pairs.

    Blocks; of a capture, which is one block, ten batches of neighbouring steps (Schmeiser 1982), of five at least.
    """
    if is_interleaved(baseline, candidate):
        return baseline.windows_ns, candidate.windows_ns, True
    return side_units(baseline), side_units(candidate), False


def is_interleaved(baseline: Side, candidate: Side) -> bool:
    """Return whether one call ran the blocks of both sides in turn."""
    return (
        baseline.is_of_the_call_of(candidate)
        and not baseline.shares_blocks_with(candidate)
        and len(baseline.windows_ns) == len(candidate.windows_ns)
    )


def judge(baseline: Side, candidate: Side, same_within: float) -> Judgement:
    """Return ratio, detectable ratio and verdict of two sides that are comparable.

    `same`: the interval lies within 1 / (1 + same_within) and 1 + same_within.  `faster` and `slower`: it does not
    hold 1, and the ratio is beyond both that bound and the smallest detectable one.  Otherwise `inconclusive`, and
    also where a side's measured inflation is larger than what the verdict rests on.
    """
    ours, theirs, interleaved = units_of(baseline, candidate)
    count = (len(ours), len(theirs))
    enough = min(count) >= MIN_UNITS
    estimate = with_interval(ratio_of_means(ours, theirs, interleaved), count, interleaved)
    noise = noise_of_pairs(ours, theirs) if interleaved else noise_apart(ours, theirs)
    detectable = None
    if enough:
        detectable = detectable_ratio(noise.error, noise.differences) * (1 if interleaved else 1 + APART)
    unit = BATCHES if baseline.is_capture or candidate.is_capture else BLOCKS
    verdict, reason = _verdict(estimate, detectable, same_within, min(count), unit, interleaved)
    if verdict is Verdict.INCONCLUSIVE and not interleaved and same_within <= APART and enough:
        reason += (
            f"; recordings made apart may differ by ±{percent(APART)} without a cause, so the verdict same needs a "
            "--same-within above that, or both modes in one call"
        )
    refusal = _refusal(baseline, candidate, verdict, estimate, same_within)
    if refusal is not None:
        reason = f"{reason}; {refusal}" if verdict is Verdict.INCONCLUSIVE else refusal
        verdict = Verdict.INCONCLUSIVE
    return Judgement(
        ratio=estimate,
        units=count,
        unit=unit,
        interleaved=interleaved,
        self_check=float(np.exp(noise.rms)) if noise.differences else None,
        detectable=detectable,
        verdict=verdict,
        reason=reason,
        is_inflated=refusal is not None,
    )


def _refusal(baseline: Side, candidate: Side, verdict: Verdict, estimate: Estimate, same_within: float) -> str | None:
    """Return why a tracer's inflation leaves no verdict, None where it does or there is none anyway.

    An inflation need not be the same on both sides, so it may make an effect of its own size or hide one.
    """
    effect = _factor(estimate.value) - 1
    is_same = verdict is Verdict.SAME or (verdict is Verdict.INCONCLUSIVE and effect < same_within)
    limit = same_within if is_same else effect
    known = [(name, side.inflation) for name, side in (("baseline", baseline), ("candidate", candidate))]
    beyond = [(changed_by(each), name, each) for name, each in known if each is not None and changed_by(each) > limit]
    if not beyond:
        return None
    change, name, inflation = max(beyond, key=lambda entry: entry[0])
    ends = inflation.interval
    interval = "" if ends is None else f", 95 % interval {ratio(ends[0])} to {ratio(ends[1])}"
    beside = f"bound of ±{percent(limit)}" if is_same else f"{percent(limit)} that the sides differ by"
    return (
        f"the tracer may change a step of the {name} by {percent(change)} (measured: {ratio(inflation.ratio)} of a "
        f"step without it{interval}), which is more than the {beside}"
    )


def changed_by(inflation: Inflation) -> float:
    """Return by what share a step may be longer or shorter for being traced: 0.5 for one of 1.5 or of 1 / 1.5.

    The far end of the interval counts; without one, what two processes of one loop may differ by is added.
    """
    ends = inflation.interval or (inflation.ratio * (1 - APART), inflation.ratio * (1 + APART))
    return max(_factor(end) for end in ends) - 1


def _factor(ratio: float) -> float:
    """Return how far a ratio is from 1, whichever side is the baseline."""
    return max(ratio, 1 / ratio)


def with_interval(estimate: Estimate, units: tuple[int, int], interleaved: bool) -> Estimate:
    """Return the estimate with an interval that also holds what recordings made apart may differ by.

    Without one where there are too few units.
    """
    if estimate.interval is None or min(units) < MIN_UNITS:
        return Estimate(estimate.value, None)
    if interleaved:
        return estimate
    low, high = estimate.interval
    return Estimate(estimate.value, (low / (1 + APART), high * (1 + APART)))


def side_units(side: Side) -> Units:
    """Return the blocks of a run, or the batches of a capture."""
    if not side.is_capture:
        return side.windows_ns
    steps = side.steps_ns
    return tuple(np.array_split(steps, min(max(len(steps) // _LEAST_BATCH, 1), _BATCHES)))


def _verdict(
    estimate: Estimate, detectable: float | None, same_within: float, count: int, unit: str, interleaved: bool
) -> tuple[Verdict, str]:
    """Return the verdict and its reason; `count` units, named `unit`, on the side that has fewer."""
    within = f"±{percent(same_within)}"
    if estimate.interval is None or detectable is None:
        return Verdict.INCONCLUSIVE, _too_few(count, unit)
    low, high = estimate.interval
    bound = 1 + same_within
    effect = max(estimate.value, 1 / estimate.value)
    if 1 / bound <= low and high <= bound:
        return Verdict.SAME, f"the whole interval lies within {within}"
    if low <= 1 <= high:
        # Its width falls with the square root of the number of units.
        needed = max(int(np.ceil(count * ((high - low) / 2 / same_within) ** 2)), count + 1)
        more = f": about {needed:,} {unit} a side would bring it inside" if interleaved else ""
        return Verdict.INCONCLUSIVE, f"the interval holds 1 and reaches beyond {within}{more}"
    if effect < bound:
        return Verdict.INCONCLUSIVE, f"the ratio lies within {within}, and its interval reaches beyond"
    if effect < detectable:
        return Verdict.INCONCLUSIVE, (
            f"{unit} differ so much among themselves that only ratios from {ratio(detectable)} on are found reliably"
        )
    return (Verdict.FASTER if high < 1 else Verdict.SLOWER), "the interval does not hold 1"


def _too_few(count: int, unit: str) -> str:
    """Return what there is too little of, and how much would do."""
    if unit == BLOCKS:
        gives = "gives" if count == 1 else "give"
        return f"{counted(count, 'block')} on a side {gives} no interval: record each with --blocks {MIN_UNITS} or more"
    return f"so few steps give no interval: each side needs {MIN_UNITS * _LEAST_BATCH}"


def half_width(baseline: Sequence[IntColumn], candidate: Sequence[IntColumn], interleaved: bool) -> float | None:
    """Return half the width of the interval of the ratio of means, as a share of it; None for too few units."""
    count = len(baseline), len(candidate)
    if min(count) < MIN_UNITS:
        return None
    estimate = with_interval(ratio_of_means(baseline, candidate, interleaved), count, interleaved)
    if estimate.interval is None:
        return None
    low, high = estimate.interval
    return (high - low) / 2 / estimate.value
