# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.resampling: ratios, and intervals that hold the truth as often as they say."""

import numpy as np
import pytest

from fdprof.analysis.resampling import detectable_ratio, ratio_of_means, ratio_of_quantiles


def _units(*lists):
    return [np.array(steps, dtype=np.int64) for steps in lists]


def test_the_ratio_of_means_is_that_of_all_steps():
    """Units of two steps and of one: (10 + 20 + 30) / 3 = 20 against (5 + 5 + 20) / 3 = 10."""
    got = ratio_of_means(_units([10, 20], [30]), _units([5, 5], [20]), paired=True)
    assert 0.5 == got.value


def test_units_that_repeat_exactly_have_an_interval_of_no_width():
    """Nothing varies, so resampling changes nothing."""
    got = ratio_of_means(_units(*[[100, 100]] * 6), _units(*[[80, 80]] * 6), paired=True)
    assert (0.8, (0.8, 0.8)) == (got.value, got.interval)


def test_one_unit_a_side_has_no_interval():
    """There is nothing to resample."""
    assert ratio_of_means(_units([10]), _units([20]), paired=True).interval is None


def test_pairs_that_slow_down_together_have_an_interval_of_no_width():
    """Each pair is 0.9, whatever slowed it: paired the interval is 0.9; unpaired it is wide."""
    ours = _units([1000], [2000], [1500], [1200], [1800], [1100])
    theirs = _units([900], [1800], [1350], [1080], [1620], [990])
    low, high = ratio_of_means(ours, theirs, paired=True).interval
    assert (low, high) == pytest.approx((0.9, 0.9), rel=1e-12)
    low, high = ratio_of_means(ours, theirs, paired=False).interval
    assert high - low > 0.3


@pytest.mark.parametrize("paired", [True, False])
def test_the_interval_of_means_is_at_least_students(paired):
    """Six pairs, five of them equal and one 6 % apart: 1.0 five times and 1.06 once, of means 1.01.

    Their logarithms' errors by the delta method: (b - 1.01) / 1.01 / 6 for the candidate, 0 for the baseline: five of
    -0.00165 and one of 0.00825, squares together 8.17e-5; times 6 / 5 the variance is 9.8e-5, the error 0.0099, and
    t(0.975, 5) = 2.5706 (tables) times it 0.02545: the lower end is 1.01 / 1.02578 = 0.98462, where the bootstrap's
    is 1.0: most resamples without the sixth pair.
    """
    ours, theirs = _units(*[[1000]] * 6), _units(*[[1000]] * 5, [1060])
    low, _ = ratio_of_means(ours, theirs, paired).interval
    assert 0.98462 == pytest.approx(low, abs=1e-5)
    _, high = ratio_of_means(theirs, ours, paired).interval  # the other way round it is the upper end
    assert 1 / 0.98462 == pytest.approx(high, abs=1e-5)


def test_percentiles_of_few_blocks_are_taken_as_wide_as_students_interval():
    """Medians of six units: the plain 95 % interval leaves out the extremes that the expanded one reaches.

    Hesterberg's level for 6 units: Φ(-√(6/5) × 2.5706) = 0.00243, so 99.5 % of resamples lie inside, not 95 %.
    """
    ours, theirs = _units(*[[1000]] * 6), _units([900], [950], [1000], [1050], [1100], [1150])
    estimate = ratio_of_quantiles(ours, theirs, True, 0.5)
    draw = np.random.default_rng(1)
    values = np.array([900, 950, 1000, 1050, 1100, 1150])
    medians = np.median(values[draw.integers(0, 6, (40_000, 6))], axis=1) / 1000
    assert np.quantile(medians, [0.0024, 0.9976]) == pytest.approx(estimate.interval, abs=0.026)
    assert estimate.interval[0] < np.quantile(medians, 0.025) < np.quantile(medians, 0.975) < estimate.interval[1]


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
def test_quantiles_are_numpys(share):
    """Linear interpolation between order statistics, as in the tables."""
    draw = np.random.default_rng(3)
    ours, theirs = ([draw.integers(1000, 2000, size) for size in (7, 12, 30)] for _ in range(2))
    got = ratio_of_quantiles(ours, theirs, True, share)
    expected = np.quantile(np.concatenate(theirs), share) / np.quantile(np.concatenate(ours), share)
    assert expected == pytest.approx(got.value, rel=1e-12)


def test_the_same_data_give_the_same_interval_each_time():
    """A saved comparison, reported again, must not change."""
    draw = np.random.default_rng(4)
    ours, theirs = ([draw.integers(1000, 2000, 20) for _ in range(8)] for _ in range(2))
    assert ratio_of_means(ours, theirs, True) == ratio_of_means(ours, theirs, True)
    assert ratio_of_quantiles(ours, theirs, True, 0.5) == ratio_of_quantiles(ours, theirs, True, 0.5)


@pytest.mark.parametrize("paired", [True, False])
def test_the_interval_holds_the_true_ratio_about_95_times_in_100(paired):
    """Ten blocks a side whose means vary by 1 %; the true ratio is 1.1.

    Of 200 trials 190 are expected, with a standard deviation of 3: 181 to 199 is three of them.
    """
    draw = np.random.default_rng(5)
    held = 0
    for _ in range(200):
        ours = [np.rint(1e6 * (1 + draw.normal(0, 0.01, 1))).astype(np.int64) for _ in range(10)]
        theirs = [np.rint(1.1e6 * (1 + draw.normal(0, 0.01, 1))).astype(np.int64) for _ in range(10)]
        low, high = ratio_of_means(ours, theirs, paired).interval
        held += low <= 1.1 <= high
    assert 181 <= held <= 199


def test_the_detectable_ratio_is_that_of_a_t_test_with_a_power_of_80_per_cent():
    """An error of 0.4472 % that is known from ten differences.

    t(0.975, 10) = 2.2281 and t(0.8, 10) = 0.8791 (tables): exp(3.1072 × 0.004472) = 1.01399.
    """
    assert 1.01399 == pytest.approx(detectable_ratio(0.004472, 10), abs=1e-5)


def test_without_noise_everything_is_detectable():
    """A simulator."""
    assert 1.0 == detectable_ratio(0.0, 6)
