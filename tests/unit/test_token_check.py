# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.token_check on a stream of four steps and two rows written out by hand."""

import numpy as np
import pytest

from fdprof.model import WrongValue
from fdprof.modes.protocol import Values
from fdprof.token_check import Read, check_tokens, digest_of
from fdprof.tokens import IDLE_TOKEN, StreamSpec

LAST = 3
ROWS = [[80, 160], [81, 161], [82, 162], [3, 3], [IDLE_TOKEN, IDLE_TOKEN]]
FLAGS = [True, True, True, False, False]


class _Reference:
    """A reference of the rows above."""

    spec = StreamSpec(seed=0, sequences=2, mean_length=1, last_step=LAST)

    def stream(self, tensor):
        return np.array(ROWS) if tensor.name == "sampled_token_ids" else np.array(FLAGS)[:, None]


@pytest.fixture
def check(build):
    """Return the check and the READS rows, without digests, of (value step, tokens, flag) reads made in that step."""
    group = build.outputs(2)

    def run(reads, launched=LAST + 1, stop_seen=True, poisoned=frozenset()):
        listed = [
            Read(
                step,
                group,
                Values(step, {"sampled_token_ids": np.array(tokens)[:, None], "not_need_stop": flag}),
                poisoned,
            )
            for step, tokens, flag in reads
        ]
        result, table = check_tokens((group,), listed, _Reference(), launched, stop_seen)
        shown = [name for name in table.columns if name != "digest"]
        return result, list(zip(*(table[name].tolist() for name in shown), strict=True))

    return run


@pytest.mark.parametrize(
    ("tokens", "flag", "is_equal"),
    [
        (np.array([[80], [160]]), True, True),
        (np.array([[80], [160]], dtype=np.int32), np.array([True]), True),  # what held the values does not matter
        (np.array([[80], [161]]), True, False),
        (np.array([[160], [80]]), True, False),
        (np.array([[80], [160]]), False, False),
    ],
)
def test_equal_values_have_equal_digests_and_others_have_not(build, tokens, flag, is_equal):
    """Of tokens and flag of one read; a digest fits the column of a table."""
    group = build.outputs(2)
    first = Read(0, group, Values(0, {"sampled_token_ids": np.array(ROWS[0]).reshape(2, 1), "not_need_stop": True}))
    other = Read(5, group, Values(4, {"sampled_token_ids": tokens, "not_need_stop": flag}))
    assert is_equal == (digest_of(first) == digest_of(other))
    assert 0 <= digest_of(other) < 2**63


def _right(*steps):
    return [(step, ROWS[step], FLAGS[step]) for step in steps]


def test_all_right(check):
    """Four reads of two tokens and a flag are twelve values, all right."""
    got, rows = check(_right(0, 1, 2, 3))
    assert (12, 12, 4, 0, 0) == (got.values, got.right, got.reads, got.stale_reads, got.wrong_reads)
    assert got.first_wrong is None
    assert got.is_right
    assert [(0, 0, 0, 3, 0, 0), (1, 1, 0, 3, 0, 0), (2, 2, 0, 3, 0, 0), (3, 3, 0, 3, 0, 0)] == rows


def test_another_steps_values_are_stale(check):
    """Step 2 read step 1's tokens: two stale values, one stale read; the flag was True in both."""
    got, rows = check([*_right(0, 1), (2, ROWS[1], True), *_right(3)])
    assert (12, 10, 1, 0) == (got.values, got.right, got.stale_reads, got.wrong_reads)
    assert (2, 2, 0, 1, 2, 0) == rows[2]
    assert WrongValue(2, 0, "sampled_token_ids", 82, 81) == got.first_wrong
    assert not got.is_right


def test_a_torn_read_is_stale_in_the_rows_that_are_late(check):
    """Row 0 has step 2's token, row 1 still step 1's: one value stale, and the first wrong is row 1."""
    got, rows = check([*_right(0, 1), (2, [82, 161], True), *_right(3)])
    assert (2, 2, 0, 2, 1, 0) == rows[2]
    assert WrongValue(2, 1, "sampled_token_ids", 162, 161) == got.first_wrong


def test_a_buffers_initial_values_are_stale(check):
    """At step 0 nothing was copied yet: zeros in the tokens are the buffer's own."""
    got, rows = check([(0, [0, 0], True), *_right(1, 2, 3)])
    assert (0, 0, 0, 1, 2, 0) == rows[0]
    assert (1, 0) == (got.stale_reads, got.wrong_reads)


def test_a_flag_still_true_at_the_stop_is_stale(check):
    """The flag belongs to no row, so the first wrong value names no sequence."""
    got, rows = check([*_right(0, 1, 2), (3, ROWS[3], True)])
    assert (3, 3, 0, 2, 1, 0) == rows[3]
    assert WrongValue(3, None, "not_need_stop", 0, 1) == got.first_wrong


def test_a_value_of_no_step_is_wrong_and_not_stale(check):
    """7777 was never made; a later step's value, too, is wrong."""
    got, rows = check([*_right(0), (1, [7777, 162], True), *_right(2, 3)])
    assert (1, 1, 0, 1, 0, 2) == rows[1]
    assert (0, 1) == (got.stale_reads, got.wrong_reads)


def test_the_other_rows_old_value_is_wrong(check):
    """Stale means the same row's earlier value: row 0 with row 1's is wrong."""
    _, rows = check([*_right(0, 1), (2, [161, 162], True), *_right(3)])
    assert (2, 2, 0, 2, 0, 1) == rows[2]


def test_a_read_with_both_counts_as_both(check):
    """Row 0 stale, row 1 wrong: one stale read and one wrong read."""
    got, rows = check([*_right(0, 1), (2, [81, 7777], True), *_right(3)])
    assert (2, 2, 0, 1, 1, 1) == rows[2]
    assert (12, 10, 1, 1) == (got.values, got.right, got.stale_reads, got.wrong_reads)


def test_a_step_that_was_not_read_is_missing(check):
    """Three of four reads: nine of twelve values right, though nothing read was wrong."""
    got, _ = check(_right(0, 2, 3))
    assert (12, 9, 3, 0, 0) == (got.values, got.right, got.reads, got.stale_reads, got.wrong_reads)
    assert got.first_wrong is None
    assert not got.is_right


def test_the_first_wrong_value_is_that_of_the_earliest_step(check):
    """Step 1 is read after step 2, both wrong: step 1 is the first."""
    got, _ = check([*_right(0), (2, [7777, 162], True), (1, [81, 8888], True), *_right(3)])
    assert WrongValue(1, 1, "sampled_token_ids", 161, 8888) == got.first_wrong


def test_steps_launched_after_the_last_are_overrun(check):
    """One step too many of two rows: two tokens; its read of IDLE_TOKEN is right and adds three values."""
    got, _ = check(_right(0, 1, 2, 3, 4), launched=5)
    assert (15, 15, 2) == (got.values, got.right, got.overrun_tokens)
    assert got.is_right


def test_a_loop_broken_off_has_no_negative_overrun(check):
    """Two of four steps launched: no overrun, and the values of the others are missing."""
    got, _ = check(_right(0, 1), launched=2, stop_seen=False)
    assert (12, 6, 0) == (got.values, got.right, got.overrun_tokens)
    assert not got.is_right


def test_a_stop_that_was_not_seen_is_not_right(check):
    """All values right, but the loop did not end by the flag."""
    got, _ = check(_right(0, 1, 2, 3), stop_seen=False)
    assert got.values == got.right
    assert not got.is_right


def test_poison_is_stale_even_where_the_flag_reads_as_true(check):
    """The flag's byte was the poison, which reads as True like the reference: one stale value of each read."""
    got, rows = check(_right(0, 1, 2, 3), poisoned=frozenset({"not_need_stop"}))
    # At step 3 the reference is False: what came out as False can be no poison, and is counted as wrong.
    assert (12, 8, 3, 1) == (got.values, got.right, got.stale_reads, got.wrong_reads)
    assert (0, 0, 0, 2, 1, 0) == rows[0]
    assert not got.is_right


def test_poison_in_an_array_is_stale(check):
    """All bytes 0xA5 are no value of any step: the copy had not reached that row."""
    poison = int(np.frombuffer(b"\xa5" * 8, dtype=np.int64)[0])
    _, rows = check([*_right(0), (1, [poison, 161], True), *_right(2, 3)])
    assert (1, 1, 0, 2, 1, 0) == rows[1]
