# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.stats on samples small enough to work out by hand."""

import numpy as np

from fdprof.analysis.stats import NOTHING, summarize, weighted_median
from fdprof.model import Summary


def _steps(*steps):
    return np.array(steps, dtype=np.int32)


def test_percentiles_interpolate_linearly():
    """The sample 10, 20, 30, 40 in another order."""
    # Percentile p lies at index p * (4 - 1) of the sorted sample: 1.5 -> 25, 2.7 -> 37, 2.97 -> 39.7.
    got = summarize(np.array([40, 10, 30, 20]), _steps(5, 6, 7, 8))
    expected = Summary(count=4, mean=25.0, p50=25.0, p90=37.0, p99=39.7, max=40.0, max_step=5)
    assert (expected.count, expected.mean, expected.max, expected.max_step) == (
        got.count,
        got.mean,
        got.max,
        got.max_step,
    )
    np.testing.assert_allclose([got.p50, got.p90, got.p99], [expected.p50, expected.p90, expected.p99], rtol=1e-12)


def test_one_value_is_its_own_percentiles():
    """A sample of one has the same mean, percentiles and maximum."""
    assert Summary(1, 7.0, 7.0, 7.0, 7.0, 7.0, 3) == summarize(np.array([7]), _steps(3))


def test_the_first_of_equal_maxima_gives_the_step():
    """With 9 at steps 4 and 6, the maximum fell on step 4."""
    assert 4 == summarize(np.array([1, 9, 2, 9]), _steps(3, 4, 5, 6)).max_step


def test_what_was_not_observed_is_none_and_never_zero():
    """No column and an empty sample both give a summary of None."""
    assert NOTHING == summarize(None, _steps())
    assert NOTHING == summarize(np.array([], dtype=np.int64), _steps())
    assert (0, None, None) == (NOTHING.count, NOTHING.mean, NOTHING.max)


def test_half_of_the_weight_lies_up_to_the_weighted_median():
    """Weights 1, 1, 7 of 1, 5, 9: 2 of 9 lie up to 5; of two of one weight it is the smaller; all 0: the least."""
    assert 9 == weighted_median(np.array([5, 9, 1]), np.array([1, 7, 1]))
    assert 3 == weighted_median(np.array([4, 3]), np.array([2, 2]))
    assert 3 == weighted_median(np.array([4, 3]), np.array([0, 0]))
