# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.tokens: the reference stream, and the simulator's step-by-step state against it."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fdprof.backends.protocol import LoopPlan, tensor_spec
from fdprof.backends.sim import SimBackend
from fdprof.tokens import IDLE_TOKEN, STEP_TAGS, TOKEN_VALUES, mix64, ordinary_tokens, output_lengths, reference_stream

streams = st.tuples(
    st.integers(0, 2**63 - 1),  # seed
    st.integers(1, 6),  # sequences
    st.integers(0, 40),  # last step
    st.integers(0, 12),  # steps launched beyond it
    st.integers(1, 20),  # mean length
)


def test_mix64_is_splitmix64():
    """The published first outputs of SplitMix64 seeded with 1234567 come out."""
    # mix64 adds the increment first, so the state before the first output is the seed itself.
    increment = 0x9E3779B97F4A7C15
    assert 6457827717110365317 == int(mix64(1234567))
    assert 3203168211198807973 == int(mix64(1234567 + increment))


def test_mix64_wraps_at_64_bits():
    """The state after the last 64-bit number is the first again."""
    # (2**64 - increment) + increment = 0 in 64 bits, and the finaliser maps 0 to 0.
    assert 0 == int(mix64(2**64 - 0x9E3779B97F4A7C15))


def test_output_lengths_lie_between_one_and_twice_the_mean_less_one():
    """Lengths are uniform on 1 .. 2 * mean - 1: with a mean of 3 each of 1 to 5 occurs, and nothing else."""
    assert set(output_lengths(7, np.arange(1000), 3).tolist()) == {1, 2, 3, 4, 5}


def test_a_mean_length_of_one_makes_every_token_an_end():
    """All outputs are one token long, so step k yields the end-of-sequence id k % 8 in every row."""
    stream = reference_stream(seed=5, sequences=2, steps=10, last_step=9, mean_length=1)
    assert [0, 1, 2, 3, 4, 5, 6, 7, 0, 1] == stream.tokens[:, 0].tolist()
    assert [0, 1, 2, 3, 4, 5, 6, 7, 0, 1] == stream.tokens[:, 1].tolist()


def test_ordinary_tokens_are_no_end_ids_and_fit_their_range():
    """An ordinary token lies in [8, 8 * (TOKEN_VALUES + 1))."""
    tokens = ordinary_tokens(3, np.arange(5000), np.arange(5000), np.arange(5000))
    assert tokens.min() >= 8
    assert tokens.max() < 8 * (TOKEN_VALUES + 1)


@given(streams)
@settings(deadline=None)
def test_low_bits_of_every_live_token_are_the_step_tag(drawn):
    """Up to the last step, token % 8 == step % 8 in every row."""
    seed, sequences, last_step, extra, mean_length = drawn
    stream = reference_stream(seed, sequences, last_step + 1 + extra, last_step, mean_length)
    steps = np.arange(last_step + 1)[:, None]
    assert np.array_equal(
        np.broadcast_to(steps % STEP_TAGS, (last_step + 1, sequences)), stream.tokens[: last_step + 1] % 8
    )


@given(streams)
@settings(deadline=None)
def test_all_rows_end_at_the_last_step_and_idle_after_it(drawn):
    """At the last step every row yields the end id; later steps yield IDLE_TOKEN; the flag turns False there."""
    seed, sequences, last_step, extra, mean_length = drawn
    stream = reference_stream(seed, sequences, last_step + 1 + extra, last_step, mean_length)
    assert [last_step % 8] * sequences == stream.tokens[last_step].tolist()
    assert (stream.tokens[last_step + 1 :] == IDLE_TOKEN).all()
    assert [True] * last_step + [False] * (extra + 1) == stream.not_need_stop.tolist()


@given(streams)
@settings(deadline=None)
def test_an_end_id_stands_exactly_where_an_output_length_is_used_up(drawn):
    """Walking a row's requests b, b + S, b + 2S, ... by their lengths meets every end id, and no other token is one."""
    seed, sequences, last_step, _, mean_length = drawn
    stream = reference_stream(seed, sequences, last_step + 1, last_step, mean_length)
    for row in range(sequences):
        ends, request, step = set(), row, -1
        while True:
            step += int(output_lengths(seed, request, mean_length))
            if step >= last_step:
                break
            ends.add(step)
            request += sequences
        ends.add(last_step)
        assert set(np.flatnonzero(stream.tokens[:, row] < STEP_TAGS).tolist()) == ends


def test_fewer_steps_than_the_budget_give_the_head_of_the_stream():
    """A loop broken off before its last step has the same tokens up to there, and its flag is still True."""
    whole = reference_stream(1, 3, 30, 29, 4)
    head = reference_stream(1, 3, 10, 29, 4)
    assert np.array_equal(whole.tokens[:10], head.tokens)
    assert head.not_need_stop.all()


@given(streams)
@settings(deadline=None, max_examples=40)
def test_the_simulators_state_equals_the_closed_form(drawn):
    """What the simulator's update makes step by step is what reference_stream computes at once."""
    seed, sequences, last_step, extra, mean_length = drawn
    steps = last_step + 1 + extra
    expected = reference_stream(seed, sequences, steps, last_step, mean_length)
    loop = SimBackend(30).open_loop(LoopPlan(sequences, seed, mean_length, last_step, steps, kernels=1, kernel_ns=0))
    tokens, flags, lengths = [], [], []
    for _ in range(steps):
        loop.update()
        tokens.append(loop.read(loop.fetch(tensor_spec("sampled_token_ids", sequences)))[:, 0])
        flags.append(loop.read(loop.fetch(tensor_spec("not_need_stop", sequences))))
        lengths.append(loop.read(loop.fetch(tensor_spec("seq_lens_this_time", sequences)))[:, 0])
    assert np.array_equal(expected.tokens, np.array(tokens))
    assert expected.not_need_stop.tolist() == flags
    # A row that still has a request takes one token at the next step.
    assert np.array_equal(np.repeat(expected.not_need_stop[:, None], sequences, axis=1), np.array(lengths) == 1)
