"""Ratios of step times with bootstrap intervals.  What is resampled are blocks: neighbouring steps are alike.

The interval is the percentile interval of Efron and Tibshirani, expanded for small samples as in Hesterberg, "What
Teachers Should Know About the Bootstrap" (The American Statistician 69, 2015): without that ten blocks cover in 83 to
92 of 100 trials instead of 95.  Of means it is then widened, where need be, to Student's interval of the same blocks:
where noise comes in lumps (bursts, a clock of two speeds) percentiles of ten blocks still cover in 90 only
(benchmarks/results/compare-2026-11-30/interval_kinds.json).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.comparison import Estimate
from fdprof.model import IntColumn

CONFIDENCE = 0.95
_POWER = 0.8

_RESAMPLES = 9_999
_QUANTILE_RESAMPLES = 1_999  # each takes a search in every block

_SEED = 6176  # any: a saved comparison must give the same numbers again

Numbers = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
_Statistic = Callable[[Indices], Numbers]  # [..., units] -> [...]


def ratio_of_means(baseline: Sequence[IntColumn], candidate: Sequence[IntColumn], paired: bool) -> Estimate:
    """Return the ratio of mean step times.

    `baseline` and `candidate` are the step times of each unit.  `paired`: the units ran side by side and are
    resampled together, so that what slows both cancels.
    """
    drawn = _ratio(_mean_of(baseline), _mean_of(candidate), len(baseline), len(candidate), paired, _RESAMPLES)
    if drawn.interval is None or drawn.interval[0] == drawn.interval[1]:
        return drawn
    low, high = _student(drawn.value, baseline, candidate, paired)
    return Estimate(drawn.value, (min(low, drawn.interval[0]), max(high, drawn.interval[1])))


def ratio_of_quantiles(
    baseline: Sequence[IntColumn], candidate: Sequence[IntColumn], paired: bool, share: float
) -> Estimate:
    """Return the ratio of a quantile of all step times, linearly interpolated: 0.5 for medians."""
    sides = _quantile_of(baseline, share), _quantile_of(candidate, share)
    return _ratio(*sides, len(baseline), len(candidate), paired, _QUANTILE_RESAMPLES)


def detectable_ratio(error: float, differences: int) -> float:
    """Return the smallest ratio above 1 that a comparison finds 4 times out of 5 at 95 % confidence.

    `error`: standard error of the logarithm of the ratio, known from so many differences.
    """
    if not error:
        return 1.0

    from scipy.special import stdtrit  # here, as scipy takes longer to load than a simulator without noise to compare

    return float(np.exp((stdtrit(differences, (1 + CONFIDENCE) / 2) + stdtrit(differences, _POWER)) * error))


def _ratio(
    baseline: _Statistic, candidate: _Statistic, ours: int, theirs: int, paired: bool, resamples: int
) -> Estimate:
    every = np.arange(ours), np.arange(theirs)
    value = float(candidate(every[1]) / baseline(every[0]))
    units = min(ours, theirs)
    if units < 2:
        return Estimate(value, None)
    singles = [statistic(side[:, None]) for statistic, side in ((baseline, every[0]), (candidate, every[1]))]
    if all(np.ptp(of_one) == 0 for of_one in singles):  # a simulator without noise: there is nothing to resample
        return Estimate(value, (value, value))

    from scipy.stats import bootstrap

    def statistic(ours: Indices, theirs: Indices, axis: int = -1) -> Numbers:
        return candidate(np.moveaxis(theirs, axis, -1)) / baseline(np.moveaxis(ours, axis, -1))

    drawn: Any = bootstrap(
        every,
        statistic,
        paired=paired,
        vectorized=True,
        n_resamples=resamples,
        confidence_level=_expanded(units),
        method="percentile",
        rng=np.random.default_rng(_SEED),
    )
    return Estimate(value, (float(drawn.confidence_interval.low), float(drawn.confidence_interval.high)))


def _student(
    ratio: float, baseline: Sequence[IntColumn], candidate: Sequence[IntColumn], paired: bool
) -> tuple[float, float]:
    """Return Student's 95 % interval of a ratio of means, by the delta method for its logarithm."""
    from scipy.special import stdtrit

    ours, theirs = _relative_errors(baseline), _relative_errors(candidate)
    terms = [theirs - ours] if paired else [ours, theirs]
    error = np.sqrt(sum(len(term) / (len(term) - 1) * (term**2).sum() for term in terms))
    reach = np.exp(stdtrit(min(len(ours), len(theirs)) - 1, (1 + CONFIDENCE) / 2) * error)
    return float(ratio / reach), float(ratio * reach)


def _relative_errors(units: Sequence[IntColumn]) -> Numbers:
    """Return what each unit adds to the relative error of the mean of all steps; their sum is 0."""
    sums = np.array([unit.sum() for unit in units], dtype=np.float64)
    counts = np.array([len(unit) for unit in units], dtype=np.float64)
    mean = sums.sum() / counts.sum()
    return np.asarray((sums - mean * counts) / (mean * counts.sum()))


def _expanded(units: int) -> float:
    """Return the confidence at which percentiles of so few units have the width that a t interval would have."""
    from scipy.special import ndtr, stdtrit

    return float(1 - 2 * ndtr(-np.sqrt(units / (units - 1)) * stdtrit(units - 1, (1 + CONFIDENCE) / 2)))


def _mean_of(units: Sequence[IntColumn]) -> _Statistic:
    sums = np.array([unit.sum() for unit in units], dtype=np.float64)
    counts = np.array([len(unit) for unit in units], dtype=np.float64)
    return lambda drawn: np.asarray(sums[drawn].sum(axis=-1) / counts[drawn].sum(axis=-1))


def _quantile_of(units: Sequence[IntColumn], share: float) -> _Statistic:
    """Return the quantile of the steps of drawn units, without laying their steps out: by bisection of their values."""
    values = np.unique(np.concatenate(units))
    each = [np.sort(unit) for unit in units]
    lengths = np.array([len(unit) for unit in units])

    def ranked(times: Indices, rank: Indices) -> Numbers:
        """Return the value of this rank, from 0, among the steps of each unit taken so many times: [draws]."""
        low, high = np.zeros(len(rank), dtype=np.int64), np.full(len(rank), len(values) - 1)
        while (low < high).any():
            middle = (low + high) // 2
            upto = sum(
                count * np.searchsorted(unit, values[middle], "right") for count, unit in zip(times, each, strict=True)
            )
            low, high = np.where(upto > rank, low, middle + 1), np.where(upto > rank, middle, high)
        return values[low].astype(np.float64)

    def quantile(drawn: Indices) -> Numbers:
        rows = drawn.reshape(-1, drawn.shape[-1])
        times = np.zeros((len(units), len(rows)), dtype=np.int64)
        np.add.at(times, (rows, np.arange(len(rows))[:, None]), 1)
        last = lengths @ times - 1
        at = last * share
        below = np.floor(at).astype(np.int64)
        low, high = ranked(times, below), ranked(times, np.minimum(below + 1, last))
        return np.asarray(low + (high - low) * (at - below)).reshape(drawn.shape[:-1])

    return quantile
