"""Finds where the warm-up of a series of step times ends: its last early change-point, not a constant number of steps.

After Barrett et al., "Virtual machine warmup blows hot and cold" (OOPSLA 2017): warm-up ends where the level last
changes.  Here it is looked for in the first half only, and a change in the middle of a run is drift, which stays.
"""

import numpy as np
import numpy.typing as npt

from fdprof.model import IntColumn

_MIN_STEPS = 20

_SIGNIFICANT = 4.5
"""In long-run standard errors.  Some hundred positions are tried, of which chance takes one beyond 4.5 in one of 4,000
series of 200 independent steps (benchmarks/results/compare-2026-11-30/interval_kinds.json)."""

_CLIPPED_AT = 10.0
"""Robust standard deviations a step counts for at most: one stall of the machine is no change of level."""

_LEAST_SCALE = 0.001
"""Of the median.  Below it a simulator's steps, which repeat exactly, would differ by rounding alone."""

_MAD_TO_SD = 1.4826


def warm_up_of(windows_ns: IntColumn) -> int:
    """Return how many leading steps belong to the warm-up: 0 to half of them."""
    count = len(windows_ns)
    if count < _MIN_STEPS:
        return 0
    first, end = 0, count
    while (at := _change_point(_scaled(windows_ns[first:end]))) > 0:
        if first + at <= count // 2:
            first += at
        else:  # drift, behind which nothing is looked for
            end = first + at
    return first


def _scaled(windows_ns: IntColumn) -> npt.NDArray[np.float64]:
    """Return distances from the median in robust standard deviations, clipped."""
    median = float(np.median(windows_ns))
    scale = max(_MAD_TO_SD * float(np.median(np.abs(windows_ns - median))), _LEAST_SCALE * median, 1.0)
    return np.clip((windows_ns - median) / scale, -_CLIPPED_AT, _CLIPPED_AT)


def _change_point(values: npt.NDArray[np.float64]) -> int:
    """Return the number of values before the most significant change of level; 0 for none."""
    count = len(values)
    if count < 2:
        return 0
    settled = values[count // 2 :]
    # Neighbouring steps are alike, so the error of a mean comes from the means of batches (Schmeiser 1982).
    size = max(int(len(settled) ** 0.5), 1)
    batches = settled[: len(settled) // size * size].reshape(-1, size).mean(axis=1)
    error = max(float(batches.std()) * size**0.5, float(settled.std()), 1.0)
    first = np.arange(1, count)
    sums = np.cumsum(values)
    before = sums[first - 1] / first
    after = (sums[-1] - sums[first - 1]) / (count - first)
    distance = np.abs(before - after) / (error * np.sqrt(1 / first + 1 / (count - first)))
    at = int(np.argmax(distance))
    return int(first[at]) if distance[at] > _SIGNIFICANT else 0
