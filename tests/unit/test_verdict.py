# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.verdict: each verdict where it is due, and its reason."""

import numpy as np
import pytest

from fdprof.analysis.verdict import APART, MIN_UNITS, changed_by, half_width, judge, units_of
from fdprof.capture import Inflation
from fdprof.comparison import Verdict

BOUND = 0.005


def _blocks(*means):
    """Return blocks of one step of so many ns."""
    return [[round(mean)] for mean in means]


def _noisy(ratio, noise, blocks=10, seed=2):
    """Return blocks around 1 ms, the candidate's `ratio` as long."""
    draw = np.random.default_rng(seed)
    ours = 1e6 * (1 + draw.normal(0, noise, blocks))
    return _blocks(*ours), _blocks(*(1e6 * ratio * (1 + draw.normal(0, noise, blocks))))


def _judged(build, ours, theirs, bound=BOUND, **changes):
    return judge(build.a_side(*ours, **changes), build.a_side(*theirs, **changes), bound)


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [
        (0.9, Verdict.FASTER),
        (0.994, Verdict.FASTER),
        (0.996, Verdict.SAME),
        (1.0, Verdict.SAME),
        (1.004, Verdict.SAME),
        (1.006, Verdict.SLOWER),
        (1.1, Verdict.SLOWER),
    ],
)
def test_without_noise_the_equivalence_bound_decides(build, ratio, verdict):
    """±0.5 %: 1 / 1.005 = 0.99502 to 1.005."""
    got = _judged(build, _blocks(*[1e6] * 6), _blocks(*[1e6 * ratio] * 6))
    assert verdict is got.verdict
    assert (ratio, ratio) == pytest.approx(got.ratio.interval)


def test_a_large_effect_in_noise_is_found(build):
    """20 % with blocks that vary by 1 %."""
    assert Verdict.SLOWER is _judged(build, *_noisy(1.2, 0.01)).verdict


def test_no_effect_in_noise_is_inconclusive_and_says_what_would_help(build):
    """Blocks that vary by 2 %: the interval is wider than ±0.5 %, and holds 1."""
    got = _judged(build, *_noisy(1.0, 0.02))
    assert Verdict.INCONCLUSIVE is got.verdict
    assert got.ratio.interval[0] < 1 < got.ratio.interval[1]
    assert "blocks a side would bring it inside" in got.reason


def test_a_difference_that_neighbouring_pairs_show_too_is_inconclusive(build):
    """Ratios of 1.0 and 1.04 in turn: the interval does not hold 1, but neighbours differ by 4 %.

    rms 0.0392, error 0.0392 / √20 = 0.00877 from five differences, t(0.975, 5) + t(0.8, 5) = 2.5706 + 0.9195:
    1.0311 would be found.
    """
    theirs = [1e6 * factor for factor in (1.0, 1.04) * 5]
    got = _judged(build, _blocks(*[1e6] * 10), _blocks(*theirs))
    assert 1 < got.ratio.interval[0]
    assert 1.0311 == pytest.approx(got.detectable, abs=1e-3)
    assert Verdict.INCONCLUSIVE is got.verdict
    assert "differ so much among themselves" in got.reason


def test_times_that_both_sides_drew_alike_are_no_noise(build):
    """Blocks of 1 to 3 ms, and in each pair the candidate takes 0.98 of it: faster, and small differences count."""
    ours = [1e6 * factor for factor in (1, 3, 2, 1.5, 2.5, 1.2)]
    got = _judged(build, _blocks(*ours), _blocks(*(0.98 * each for each in ours)))
    assert Verdict.FASTER is got.verdict
    assert got.detectable < 1.001


def test_a_difference_within_the_bound_whose_interval_reaches_beyond_is_inconclusive(build):
    """Pairs of 1.0035 and 1.0045 in turn with a bound of 0.4 %: 1 is outside, 1.004 inside the interval."""
    theirs = [1e9 * factor for factor in (1.0035, 1.0045, 1.0045, 1.0035) * 3]
    got = _judged(build, _blocks(*[1e9] * 12), _blocks(*theirs), bound=0.0041)
    assert got.ratio.interval[0] > 1
    assert Verdict.INCONCLUSIVE is got.verdict
    assert "lies within" in got.reason


@pytest.mark.parametrize("blocks", range(1, MIN_UNITS))
def test_too_few_blocks_are_inconclusive_whatever_they_say(build, blocks):
    """Half the time without noise, and no verdict."""
    got = _judged(build, _blocks(*[1e6] * blocks), _blocks(*[5e5] * blocks))
    assert (Verdict.INCONCLUSIVE, 0.5, None) == (got.verdict, got.ratio.value, got.ratio.interval)
    gives = "1 block on a side gives" if blocks == 1 else f"{blocks} blocks on a side give"
    assert f"{gives} no interval: record each with --blocks {MIN_UNITS} or more" == got.reason


def test_recordings_made_apart_get_a_wider_interval(build):
    """Blocks that repeat exactly: the interval of 0.9 is what recordings made apart may differ by, each way."""
    got = _judged(build, _blocks(*[1e6] * 6), _blocks(*[9e5] * 6), call="")
    assert (0.9 / (1 + APART), 0.9 * (1 + APART)) == pytest.approx(got.ratio.interval)
    assert 1 + APART == pytest.approx(got.detectable)
    assert Verdict.FASTER is got.verdict
    assert not got.interleaved


def test_recordings_made_apart_cannot_be_the_same_within_less_than_they_may_differ_by(build):
    """Equal to the ns, and still inconclusive at ±0.5 %; with ±5 % they are the same."""
    blocks = _blocks(*[1e6] * 6)
    got = _judged(build, blocks, blocks, call="")
    assert Verdict.INCONCLUSIVE is got.verdict
    assert "recordings made apart" in got.reason
    assert Verdict.SAME is _judged(build, blocks, blocks, bound=0.05, call="").verdict


@pytest.mark.parametrize(("steps", "batches"), [(4, 1), (29, 5), (30, 6), (49, 9), (50, 10), (1003, 10)])
def test_a_capture_is_cut_into_ten_batches_of_five_steps_at_least(build, steps, batches):
    """A capture is one block, so its steps in a row are what is resampled; none is lost."""
    side = build.a_side(range(1, steps + 1), fields={"tracer": "nsys"}, call="")
    ours, _, interleaved = units_of(side, side)
    assert (batches, False) == (len(ours), interleaved)
    assert list(range(1, steps + 1)) == np.concatenate(ours).tolist()


def test_sides_of_one_call_with_as_many_blocks_are_pairs(build):
    """Another call, a block more on one side, or a block that is on both, and they are not."""
    one = build.a_side([1], [2], positions=(0, 3))
    assert units_of(one, build.a_side([1], [2], positions=(1, 2)))[2]
    assert not units_of(one, build.a_side([1], [2], positions=(1, 2), call="another"))[2]
    assert not units_of(one, build.a_side([1], positions=(1,)))[2]
    assert not units_of(one, build.a_side([1], [2], positions=(1, 3)))[2]


def test_half_the_width_of_the_interval_is_a_share_of_the_ratio(build):
    """0.9 made apart: its interval of 0.9 / 1.035 to 0.9 × 1.035 is 0.0619 wide, half of it 3.44 % of 0.9."""
    blocks = [np.array([10**6])] * 6, [np.array([9 * 10**5])] * 6
    assert (1.035 - 1 / 1.035) / 2 == pytest.approx(half_width(*blocks, interleaved=False))
    assert half_width(blocks[0][:5], blocks[1], interleaved=False) is None


def _captures(build, ratio, ours, theirs, bound=BOUND):
    """Judge two captures, the candidate `ratio` as long, with these inflations; steps do not vary."""
    sides = [
        build.a_side([round(1e6 * mean)] * 100, call="", fields={"tracer": "a tool"}, inflation=inflation)
        for mean, inflation in ((1, ours), (ratio, theirs))
    ]
    return judge(*sides, bound)


MEASURED = Inflation(1.08, (1.06, 1.13), "by hand")


@pytest.mark.parametrize("ratio", [0.8, 1.2])
def test_an_effect_beyond_the_measured_inflation_stands(build, ratio):
    """0.8 is a factor of 1.25 and 1.2 one of 1.2, against 1.13 at most."""
    got = _captures(build, ratio, MEASURED, MEASURED)
    assert (Verdict.FASTER if ratio < 1 else Verdict.SLOWER) is got.verdict
    assert not got.is_inflated


@pytest.mark.parametrize(("ratio", "effect"), [(0.9, "11.1 %"), (1.1, "10.0 %")])
@pytest.mark.parametrize("side", [0, 1])
def test_an_inflation_of_either_side_beyond_the_effect_leaves_no_verdict(build, ratio, effect, side):
    """A factor of 1.1, or 1 / 0.9, against the interval's far end, 1.13, though the ratio itself is below."""
    inflations = [None, None]
    inflations[side] = MEASURED
    got = _captures(build, ratio, *inflations)
    assert (Verdict.INCONCLUSIVE, True) == (got.verdict, got.is_inflated)
    which = ("baseline", "candidate")[side]
    assert (
        f"a step of the {which} by 13.0 % (measured: 1.080 of a step without it, 95 % interval 1.060 to" in got.reason
    )
    assert f"more than the {effect} that the sides differ by" in got.reason


def test_without_an_interval_what_two_processes_may_differ_by_is_added(build):
    """1.06 x 1.035 is 1.097 and below 1.1; 1.07 x 1.035 is 1.107 and beyond."""
    assert Verdict.SLOWER is _captures(build, 1.1, None, Inflation(1.06, None, "by hand")).verdict
    got = _captures(build, 1.1, None, Inflation(1.07, None, "by hand"))
    assert Verdict.INCONCLUSIVE is got.verdict
    assert "(measured: 1.070 of a step without it)" in got.reason


def test_the_rule_is_the_same_with_the_sides_swapped(build):
    """Half as long and twice as long are one effect: a factor of 2 against one of 1.6."""
    inflation = Inflation(1.5, (1.4, 1.6), "")
    assert Verdict.FASTER is _captures(build, 0.5, inflation, inflation).verdict
    assert Verdict.SLOWER is _captures(build, 2.0, inflation, inflation).verdict


def test_the_larger_inflation_of_two_is_told(build):
    """Both exceed 1.1, the candidate's by more."""
    got = _captures(build, 1.1, Inflation(1.2, (1.2, 1.2), ""), Inflation(1.3, (1.3, 1.3), ""))
    assert "a step of the candidate by 30.0 %" in got.reason


def test_the_same_needs_an_inflation_within_the_bound(build):
    """Equal captures, bound 5 %, which is beyond what recordings made apart may differ by."""
    assert Verdict.SAME is _captures(build, 1.0, Inflation(1.04, (1.04, 1.04), ""), None, bound=0.05).verdict
    got = _captures(build, 1.0, Inflation(1.06, (1.06, 1.06), ""), None, bound=0.05)
    assert (Verdict.INCONCLUSIVE, True) == (got.verdict, got.is_inflated)
    assert "by 6.0 %" in got.reason and "more than the bound of ±5.0 %" in got.reason


def test_an_inconclusive_comparison_keeps_its_own_reason_and_is_inflated_too(build):
    """Else a gate would pass for being too noisy."""
    got = _captures(build, 1.0, Inflation(1.5, None, ""), None)
    assert (Verdict.INCONCLUSIVE, True) == (got.verdict, got.is_inflated)
    assert "holds 1" in got.reason and "more than the bound" in got.reason


def test_an_inflation_below_one_counts_by_its_factor():
    """0.97 by chance, between 0.9 and 1.04: 1 / 0.9 = 1.111.  Without an interval 0.97 x 0.965 = 0.936: 1.068."""
    assert 1 / 0.9 - 1 == pytest.approx(changed_by(Inflation(0.97, (0.9, 1.04), "")))
    assert 1 / (0.97 * 0.965) - 1 == pytest.approx(changed_by(Inflation(0.97, None, "")))
