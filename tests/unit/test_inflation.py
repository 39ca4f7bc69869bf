# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.inflation: what tracing costs, by made step times."""

import itertools

import numpy as np
import pytest

from fdprof.analysis.inflation import bare_cost, cost_of, inflation_of, marked_windows, process_sd
from fdprof.analysis.steps import Choice, find_steps
from fdprof.analysis.verdict import MIN_UNITS
from fdprof.capture import Inflation
from fdprof.errors import InputError


def _units(*means):
    """Return units of one step of so many ns."""
    return [np.array([round(mean)], dtype=np.int64) for mean in means]


def test_means_medians_and_the_added_time_are_of_all_steps():
    """Bare 100, 100, 100, 300: mean 150, median 100.  Traced 110, 110, 110, 330: 165 and 110, so 1.1 and 15 ns."""
    bare = [np.array([100, 100]), np.array([100, 300])]
    traced = [np.array([110, 110]), np.array([110, 330])]
    got = cost_of(bare, traced, paired=True)
    assert (165.0, 15.0, 2) == (got.mean_step_ns, got.added_ns, got.units)
    assert (1.1, 1.1) == pytest.approx((got.ratio.value, got.p50_ratio))


def test_the_median_does_not_follow_a_few_long_steps():
    """One of ten steps five times as long: the mean is 1.4 times, the median the same."""
    got = cost_of([np.full(10, 100)] * 6, [np.array([100] * 9 + [500])] * 6, paired=True)
    assert (1.4, 1.0) == (got.ratio.value, got.p50_ratio)


@pytest.mark.parametrize("units", range(1, MIN_UNITS))
def test_too_few_rounds_give_a_ratio_without_interval(units):
    """Neither an interval nor the smallest visible ratio."""
    got = cost_of(_units(*[1e6] * units), _units(*[1.05e6] * units), paired=True)
    assert (1.05, None, None) == (got.ratio.value, got.ratio.interval, got.smallest_visible)


def test_six_rounds_without_noise_give_an_interval_without_width():
    """And every ratio above 1 would be seen."""
    got = cost_of(_units(*[1e6] * 6), _units(*[1.05e6] * 6), paired=True)
    assert ((1.05, 1.05), 1.0) == (got.ratio.interval, got.smallest_visible)


def test_the_smallest_visible_ratio_follows_from_how_rounds_differ():
    """Ratios of 1.0 and 1.04 in turn, ten rounds: 1.0311, as worked out in test_verdict.py."""
    got = cost_of(_units(*[1e6] * 10), _units(*(1e6 * factor for factor in (1.0, 1.04) * 5)), paired=True)
    assert 1.0311 == pytest.approx(got.smallest_visible, abs=1e-3)
    assert 1.02 == pytest.approx(got.ratio.value)


def test_a_drift_that_both_share_does_not_widen_the_interval():
    """Rounds that get slower by half, traced always 1.05: in pairs that is exact, apart it is not."""
    bare = [1e6 * (1 + 0.1 * number) for number in range(6)]
    traced = [1.05 * mean for mean in bare]
    low, high = cost_of(_units(*bare), _units(*traced), paired=True).ratio.interval
    assert high - low < 1e-5
    low, high = cost_of(_units(*bare), _units(*traced), paired=False).ratio.interval
    assert high - low > 0.1


@pytest.mark.parametrize("truth", [1.0, 1.02, 1.3])
def test_the_interval_holds_the_true_ratio_in_19_of_20_trials(truth):
    """Processes that vary by 1.2 %, as on the H200; of 200 trials of 8 rounds 180 at least must hold it."""
    draw = np.random.default_rng(6)
    held = 0
    for _ in range(200):
        bare = 1e6 * (1 + draw.normal(0, 0.012, 8))
        traced = 1e6 * truth * (1 + draw.normal(0, 0.012, 8))
        low, high = cost_of(_units(*bare), _units(*traced), paired=True).ratio.interval
        held += low <= truth <= high
    assert held >= 180


def test_the_bare_loop_is_its_own_measure():
    """Ratio 1, nothing added, and no interval of a thing against itself."""
    got = bare_cost(_units(100, 300))
    assert (200.0, 1.0, None, 0.0) == (got.mean_step_ns, got.ratio.value, got.ratio.interval, got.added_ns)


def test_processes_differ_by_the_standard_deviation_of_their_means():
    """99 and 101: sd 1.414 of 100.  One process says nothing."""
    assert 0.01414 == pytest.approx(process_sd(_units(99, 101)), abs=1e-5)
    assert process_sd(_units(99)) is None


def test_the_inflation_of_a_capture_has_ratio_interval_and_how():
    """1.08 without noise."""
    got = inflation_of(_units(*[1e6] * 6), _units(*[1.08e6] * 6), "six rounds")
    assert Inflation(1.08, (1.08, 1.08), "six rounds") == got
    assert inflation_of(_units(1e6), _units(1.08e6), "one round").interval is None


def test_steps_are_found_where_only_ranges_were_traced(build):
    """No call is in the capture, so that its other numbers cannot be made; its steps of 100, 100 and 70 ns can."""
    ranges = [("decode_step", 0, 90), ("decode_step", 100, 190), ("decode_step", 200, 270)]
    capture = build.a_capture(ranges=ranges)
    assert [100, 100, 70] == marked_windows(capture, Choice()).tolist()
    with pytest.raises(InputError, match="no CUDA or HIP call"):
        find_steps(capture, Choice())


def test_the_warm_up_is_left_out_of_marked_steps(build):
    """Ten steps of 300 ns, then 40 of 100."""
    starts = np.concatenate(([0], np.cumsum([300] * 10 + [100] * 40))).tolist()
    ranges = [("decode_step", start, end) for start, end in itertools.pairwise(starts)]
    assert [100] * 40 == marked_windows(build.a_capture(ranges=ranges), Choice()).tolist()


@pytest.mark.parametrize("ranges", [[], [("something", 0, 90)]])
def test_a_capture_without_marked_steps_says_how_to_mark_them(build, ranges):
    """A launch pattern cannot be found where no launch was traced."""
    with pytest.raises(InputError, match="no marked steps") as raised:
        marked_windows(build.a_capture(ranges=ranges), Choice())
    assert "fdprof.step" in raised.value.hint
