"""How the step times of one side vary: from step to step, from block to block, and which stand out."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fdprof.comparison import Spread
from fdprof.model import IntColumn

_MILD, _SEVERE = 1.5, 3.0
"""Tukey's fences in interquartile ranges (Exploratory Data Analysis, 1977).  What is beyond is told, and stays."""

_MIN_BLOCKS = 4


def spread_of(blocks: Sequence[IntColumn], units: Sequence[IntColumn]) -> Spread:
    """Return the spread of the step times of these blocks; `units` are what is resampled of them.

    The autocorrelation is that at lag 1 around each block's mean.  `block_variance` is the variance of the units' means
    as a multiple of that of means of independent steps with the variance that the steps have inside the units.
    """
    steps = np.concatenate(blocks)
    centred = [block - block.mean() for block in blocks]
    squares = sum(float((block**2).sum()) for block in centred)
    lagged = sum(float((block[1:] * block[:-1]).sum()) for block in centred)
    means = np.array([unit.mean() for unit in units])
    return Spread(
        autocorrelation=lagged / squares if squares > 0 else None,
        block_variance=_variance_of_means(units, means) if len(units) >= _MIN_BLOCKS else None,
        mild=int(_beyond(steps, _MILD).sum()),
        severe=int(_beyond(steps, _SEVERE).sum()),
        blocks=tuple(np.flatnonzero(_beyond(means, _MILD)).tolist()) if len(units) >= _MIN_BLOCKS else (),
    )


def _variance_of_means(units: Sequence[IntColumn], means: npt.NDArray[np.float64]) -> float | None:
    steps = sum(len(unit) for unit in units)
    inside = sum(float(((unit - mean) ** 2).sum()) for unit, mean in zip(units, means, strict=True))
    if not inside or steps == len(units):
        return None
    return float(means.var(ddof=1)) * steps / len(units) / (inside / (steps - len(units)))


@dataclass(frozen=True, slots=True)
class Noise:
    """What noise alone makes of a comparison: `rms` of so many differences of logarithms that should be 0, and the
    standard `error` of the logarithm of the ratio that follows."""

    rms: float
    differences: int
    error: float


def noise_of_pairs(ours: Sequence[IntColumn], theirs: Sequence[IntColumn]) -> Noise:
    """Return the noise of units that ran in pairs: the ratios of two neighbouring pairs differ by it alone.

    Whatever the true ratio is, it cancels, and so does what the units of a pair share, as times drawn alike.
    """
    logs = _logs(theirs) - _logs(ours)
    differences = _neighbours(logs)
    rms = float(np.sqrt((differences**2).mean())) if len(differences) else 0.0
    return Noise(rms, len(differences), float(rms / np.sqrt(2 * len(ours))))


def noise_apart(ours: Sequence[IntColumn], theirs: Sequence[IntColumn]) -> Noise:
    """Return the noise of sides by themselves: neighbouring units of one side differ by it alone."""
    sides = [_neighbours(_logs(units)) for units in (ours, theirs)]
    squares = [float((each**2).mean()) if len(each) else 0.0 for each in sides]
    error = np.sqrt(squares[0] / 2 / len(ours) + squares[1] / 2 / len(theirs))
    return Noise(float(np.sqrt(sum(squares) / 2)), sum(len(each) for each in sides), float(error))


def _logs(units: Sequence[IntColumn]) -> npt.NDArray[np.float64]:
    return np.log([unit.mean() for unit in units])


def _neighbours(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the differences of the second from the first, the fourth from the third and so on."""
    even = values[: len(values) // 2 * 2]
    return even[1::2] - even[::2]


def _beyond(values: npt.NDArray[np.float64] | IntColumn, ranges: float) -> npt.NDArray[np.bool_]:
    """Return which values lie beyond so many interquartile ranges; none where most are equal."""
    low, high = np.percentile(values, [25, 75])
    reach = ranges * (high - low)
    if not reach:
        return np.zeros(len(values), dtype=bool)
    return np.asarray((values < low - reach) | (values > high + reach))
