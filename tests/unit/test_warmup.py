# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.warmup: where a warm-up ends, on series whose change-point is known."""

import numpy as np
import pytest

from fdprof.analysis.sides import settled, warm_up_of_blocks
from fdprof.analysis.warmup import warm_up_of


def _steps(*levels, noise=0.0, seed=1):
    """Return step times of (count, level) stretches, with normal noise of so many ns."""
    draw = np.random.default_rng(seed)
    steps = np.concatenate([np.full(count, float(level)) for count, level in levels])
    return np.rint(steps + draw.normal(0, noise, len(steps)) if noise else steps).astype(np.int64)


@pytest.mark.parametrize("slow", [1, 3, 20, 60, 99])
@pytest.mark.parametrize("level", [1_300_000, 800_000])
def test_a_first_level_that_differs_is_the_warm_up(slow, level):
    """200 steps of 1 ms, the first `slow` of them 30 % longer or 20 % shorter: exactly those."""
    assert slow == warm_up_of(_steps((slow, level), (200 - slow, 1_000_000)))


@pytest.mark.parametrize("slow", [20, 60])
def test_noise_moves_the_end_of_the_warm_up_by_a_few_steps_at_most(slow):
    """3 % longer with noise of 1 %: three standard deviations, found to within 5 steps."""
    found = warm_up_of(_steps((slow, 1_030_000), (200 - slow, 1_000_000), noise=10_000))
    assert abs(found - slow) <= 5


def test_two_levels_of_warm_up_are_both_left_out():
    """10 steps at twice the time, then 20 at one and a half."""
    assert 30 == warm_up_of(_steps((10, 2_000_000), (20, 1_500_000), (170, 1_000_000)))


def test_steps_that_are_all_alike_have_no_warm_up():
    """A simulator without noise."""
    assert 0 == warm_up_of(_steps((200, 1_000_000)))


def test_rounding_is_no_change_of_level():
    """A first step 20 ns shorter than a millisecond."""
    assert 0 == warm_up_of(_steps((1, 999_980), (199, 1_000_000)))


def test_a_change_in_the_second_half_is_drift_and_stays():
    """120 of 200 steps at one level, then another: not the beginning."""
    assert warm_up_of(_steps((120, 1_000_000), (80, 1_200_000), noise=5_000)) == 0


def test_one_stall_in_the_middle_is_no_change_of_level():
    """Step 40 takes a hundred times as long; what lies before it is no warm-up."""
    steps = _steps((200, 1_000_000), noise=10_000)
    steps[40] *= 100
    assert 0 == warm_up_of(steps)


def test_fewer_than_20_steps_are_too_few_to_say():
    """19 steps with an obvious first one."""
    assert 0 == warm_up_of(_steps((1, 9_000_000), (18, 1_000_000)))
    assert 1 == warm_up_of(_steps((1, 9_000_000), (19, 1_000_000)))


def test_chance_finds_a_change_of_level_rarely():
    """Of 300 series of 200 independent steps at most 3 have any step left out."""
    found = [warm_up_of(_steps((200, 1_000_000), noise=10_000, seed=seed)) for seed in range(300)]
    assert sum(more > 0 for more in found) <= 3


def test_steps_that_wander_have_no_warm_up():
    """AR(1) of 0.9: long-run errors count, not those of independent steps. Of 100 series at most 10 are shortened."""
    draw = np.random.default_rng(7)
    found = 0
    for _ in range(100):
        level, steps = 0.0, []
        for shock in draw.normal(0, 1, 300):
            level = 0.9 * level + shock
            steps.append(round(1_000_000 + 5_000 * level))
        found += warm_up_of(np.array(steps[100:])) > 0
    assert found <= 10


def test_a_host_that_is_slow_in_some_blocks_is_no_warm_up():
    """The first 50 steps of two of five blocks are slow: the median over the blocks, step by step, is level."""
    level = _steps((200, 1_000_000))
    slow = _steps((50, 1_400_000), (150, 1_000_000))
    assert 0 == warm_up_of_blocks([level, slow, level, slow, level])
    assert 50 == warm_up_of_blocks([slow, slow, level, slow, level])


def test_blocks_without_counted_steps_have_none():
    """A loop that stopped before its first counted step."""
    assert 0 == warm_up_of_blocks([np.zeros(0, dtype=np.int64)])
    assert 0 == warm_up_of_blocks([])


def test_a_settled_run_counts_fewer_steps_and_as_many_in_all(build):
    """30 steps from 0, the first 5 counted ones twice as long: warm-up 2 becomes 7, and 28 steps become 23."""
    windows = [100_000] * 2 + [200_000] * 5 + [100_000] * 23
    starts = np.concatenate(([0], np.cumsum(windows))).tolist()
    run = build.a_run(build.a_block(build.a_log(starts[:-1], starts[-1]), warmup=2))
    later, more = settled(run)
    assert (5, 7, 23) == (more, later.blocks[0].warmup, later.blocks[0].steps)
