# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.spread: how step times vary, worked out by hand."""

import numpy as np
import pytest

from fdprof.analysis.spread import noise_apart, noise_of_pairs, spread_of


def _blocks(*lists):
    return [np.array(steps, dtype=np.int64) for steps in lists]


def _spread(*blocks, units=None):
    blocks = _blocks(*blocks)
    return spread_of(blocks, blocks if units is None else _blocks(*units))


def test_steps_that_alternate_have_a_negative_autocorrelation():
    """90 110 90 110: the products of neighbours are -100 three times over squares of 100 four times: -0.75."""
    assert -0.75 == _spread([90, 110, 90, 110]).autocorrelation


def test_the_autocorrelation_does_not_reach_over_the_blocks():
    """In each block 90 90 110 110: neighbours give 100 - 100 + 100 of 400, whatever the level of the block."""
    low, high = [90, 90, 110, 110], [1090, 1090, 1110, 1110]
    assert 0.25 == pytest.approx(_spread(low, high).autocorrelation)


def test_the_autocorrelation_of_a_capture_is_that_of_its_steps_and_not_of_its_batches():
    """90 90 110 110 is one block, cut into batches of two: 0.25 all the same."""
    assert 0.25 == _spread([90, 90, 110, 110], units=[[90, 90], [110, 110]]).autocorrelation


def test_means_are_held_against_those_of_independent_steps():
    """Four blocks of four steps with squares of 400 in each: the variance inside is 1,600 / (16 - 4) = 400 / 3.

    Their means 100, 110, 100, 110 have a variance of 100 / 3; those of four independent steps one of 100 / 3: once.
    """
    blocks = [[90, 110, 90, 110], [100, 120, 100, 120]] * 2
    assert 1.0 == pytest.approx(_spread(*blocks).block_variance)


def test_steps_beyond_tukeys_fences_are_counted():
    """Quartiles 100 and 110: the inner fences are 85 and 125, the outer ones 70 and 140; 84, 126 and 141 are out."""
    steps = [100] * 50 + [110] * 50 + [84, 85, 125, 126, 141]
    got = _spread(steps)
    assert (3, 1) == (got.mild, got.severe)


def test_where_most_steps_are_equal_none_is_an_outlier():
    """An interquartile range of 0 has no fences: the rule would flag whatever differs by 1 ns."""
    assert 0 == _spread([100] * 99 + [500]).mild


def test_a_block_that_stands_out_is_named():
    """Means 100, 102, 101, 103, 150, 102: the fifth."""
    assert (4,) == _spread([100], [102], [101], [103], [150], [102]).blocks


def test_steps_that_do_not_vary_have_no_autocorrelation():
    """None, not 0."""
    got = _spread([100] * 5, [100] * 5, [100] * 5, [100] * 5)
    assert (None, None, 0, 0, ()) == (got.autocorrelation, got.block_variance, got.mild, got.severe, got.blocks)


def test_the_noise_of_pairs_is_that_of_neighbouring_ratios():
    """Ratios 1.1, 1.1 × 1.02, 1.1, 1.1 / 1.02, and a fifth without a neighbour: logarithms differ by ±ln 1.02.

    The rms is ln 1.02, the variance of one pair half its square, and the mean of five has a fifth of that.
    """
    ours = _blocks([1000], [2000], [3000], [5100], [999])
    theirs = _blocks([1100], [2244], [3300], [5500], [5])
    got = noise_of_pairs(ours, theirs)
    assert 2 == got.differences
    assert np.log(1.02) == pytest.approx(got.rms)
    assert np.log(1.02) / np.sqrt(10) == pytest.approx(got.error)


def test_what_both_sides_of_a_pair_share_is_no_noise():
    """Blocks of 1, 3, 2 and 9 µs with a ratio of 0.8 in each pair."""
    ours = _blocks([1000], [3000], [2000], [9000])
    got = noise_of_pairs(ours, [block * 8 // 10 for block in ours])
    assert 0.0 == pytest.approx(got.rms, abs=1e-12)


def test_the_noise_of_sides_made_apart_comes_from_neighbours_on_each():
    """Baseline: pairs (100, 110) and (200, 220), ln 1.1 each; candidate: (100, 100), none.

    Mean squares ln² 1.1 and 0: half their sum under the root is the rms; the error has a half over four units.
    """
    got = noise_apart(_blocks([100], [110], [200], [220]), _blocks([100], [100]))
    assert 3 == got.differences
    assert np.log(1.1) / np.sqrt(2) == pytest.approx(got.rms)
    assert np.log(1.1) / np.sqrt(8) == pytest.approx(got.error)


def test_one_unit_has_no_neighbour():
    """Nothing is known of its noise."""
    one = _blocks([100])
    assert (0.0, 0, 0.0) == (noise_apart(one, one).rms, noise_apart(one, one).differences, noise_of_pairs(one, one).rms)
