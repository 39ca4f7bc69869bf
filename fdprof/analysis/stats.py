"""Plain statistics of samples that are kept."""

import numpy as np
import numpy.typing as npt

from fdprof.model import Summary

NOTHING = Summary(0, None, None, None, None, None, None)


def summarize(values: npt.NDArray[np.int64] | None, steps: npt.NDArray[np.int32] | npt.NDArray[np.int64]) -> Summary:
    """Return count, mean, percentiles (linear interpolation) and the maximum with the step it fell on.

    `steps` gives the step index of each value.  No values: a summary of None.
    """
    if values is None or not len(values):
        return NOTHING
    p50, p90, p99 = np.percentile(values, [50, 90, 99])
    worst = int(np.argmax(values))
    return Summary(
        len(values), float(values.mean()), float(p50), float(p90), float(p99), float(values[worst]), int(steps[worst])
    )


def weighted_median(values: npt.NDArray[np.int64], weights: npt.NDArray[np.int64]) -> int:
    """Return the least value up to which half of the weight lies: of 1, 5, 9 with weights 1, 1, 7 it is 9."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    return int(values[order][np.searchsorted(reached, reached[-1] / 2)])
