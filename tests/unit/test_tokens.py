# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.tokens: the reference stream, and the simulator's step-by-step state against it."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fdprof.backends.protocol import LoopPlan, tensor_spec
from fdprof.backends.sim import SimBackend
from fdprof.model import Direction, Group, TensorSpec
from fdprof.tokens import (
    IDLE_TOKEN,
    INSERT_TASK,
    INSERTED_REQUESTS,
    STEP_TAGS,
    TOKEN_VALUES,
    Reference,
    StreamSpec,
    accepted_tokens,
    inbox_hash,
    mix64,
    name_tag,
    ordinary_tokens,
    output_lengths,
    payload,
    prompt_lengths,
    sent_arrays,
)


class _stream:  # noqa: N801  called like a function
    """Tokens [steps, sequences] and flags [steps] of a plain stream."""

    def __init__(self, seed, sequences, steps, last_step, mean_length):
        spec = StreamSpec(seed=seed, sequences=sequences, mean_length=mean_length, last_step=last_step)
        reference = Reference(spec, (), steps)
        self.tokens = reference.tokens[:, :, 0]
        self.not_need_stop = reference.stream(tensor_spec("not_need_stop", sequences))[:, 0]


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
    stream = _stream(seed=5, sequences=2, steps=10, last_step=9, mean_length=1)
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
    stream = _stream(seed, sequences, last_step + 1 + extra, last_step, mean_length)
    steps = np.arange(last_step + 1)[:, None]
    assert np.array_equal(
        np.broadcast_to(steps % STEP_TAGS, (last_step + 1, sequences)), stream.tokens[: last_step + 1] % 8
    )


@given(streams)
@settings(deadline=None)
def test_all_rows_end_at_the_last_step_and_idle_after_it(drawn):
    """At the last step every row yields the end id; later steps yield IDLE_TOKEN; the flag turns False there."""
    seed, sequences, last_step, extra, mean_length = drawn
    stream = _stream(seed, sequences, last_step + 1 + extra, last_step, mean_length)
    assert [last_step % 8] * sequences == stream.tokens[last_step].tolist()
    assert (stream.tokens[last_step + 1 :] == IDLE_TOKEN).all()
    assert [True] * last_step + [False] * (extra + 1) == stream.not_need_stop.tolist()


@given(streams)
@settings(deadline=None)
def test_an_end_id_stands_exactly_where_an_output_length_is_used_up(drawn):
    """Walking a row's requests b, b + S, b + 2S, ... by their lengths meets every end id, and no other token is one."""
    seed, sequences, last_step, _, mean_length = drawn
    stream = _stream(seed, sequences, last_step + 1, last_step, mean_length)
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
    whole = _stream(1, 3, 30, 29, 4)
    head = _stream(1, 3, 10, 29, 4)
    assert np.array_equal(whole.tokens[:10], head.tokens)
    assert head.not_need_stop.all()


@given(streams)
@settings(deadline=None, max_examples=40)
def test_the_simulators_state_equals_the_closed_form(drawn):
    """What the simulator's update makes step by step is what the reference computes at once."""
    seed, sequences, last_step, extra, mean_length = drawn
    steps = last_step + 1 + extra
    expected = _stream(seed, sequences, steps, last_step, mean_length)
    names = ("sampled_token_ids", "not_need_stop")
    group = Group("outputs", tuple(tensor_spec(name, sequences) for name in names))
    spec = StreamSpec(seed=seed, sequences=sequences, mean_length=mean_length, last_step=last_step)
    loop = SimBackend(30).open_loop(LoopPlan(spec, (group,), steps, 1, np.zeros(steps, dtype=np.int64)))
    tokens, flags = [], []
    for _ in range(steps):
        loop.update()
        tokens.append(loop.read(loop.fetch(group.tensors[0]))[:, 0])
        flags.append(loop.read(loop.fetch(group.tensors[1])))
    assert np.array_equal(expected.tokens, np.array(tokens))
    assert expected.not_need_stop.tolist() == flags


def _reference(steps, **changes):
    fields = {"seed": 11, "sequences": 3, "mean_length": 6, "last_step": steps - 1}
    return Reference(StreamSpec(**(fields | changes)), (), steps)


def test_a_row_that_filled_a_block_pauses_one_step():
    """With blocks of 2 tokens a row makes two tokens, waits a step, makes two more; the request is not shortened."""
    plain, paused = _reference(60, mean_length=20), _reference(60, mean_length=20, kv_block_tokens=2)
    length = int(output_lengths(11, 1, 20))
    assert length > 4  # so that row 1's first request pauses twice at least
    # Position p of the first request stands at step p + p // 2.
    at = [position + position // 2 for position in range(length)]
    expected = plain.tokens[:length, 1, 0] // STEP_TAGS
    assert expected[:-1].tolist() == (paused.tokens[at, 1, 0] // STEP_TAGS)[:-1].tolist()
    assert [IDLE_TOKEN, IDLE_TOKEN] == paused.tokens[[2, 5], 1, 0].tolist()
    blocked = paused.stream(tensor_spec("is_block_step", 3))
    assert [False, False, True, False, False, True] == blocked[:6, 1].tolist()
    counts = paused.stream(tensor_spec("seq_lens_this_time", 3))
    assert [1, 1, 0, 1, 1, 0] == counts[:6, 1].tolist()


def test_drafted_tokens_are_the_plain_ones_several_a_step():
    """The accepted tokens of a request, one after the other, are the request's tokens whatever the steps were."""
    plain, drafted = _reference(40), _reference(40, draft_tokens=3)
    length = int(output_lengths(11, 0, 6))
    accepted = drafted.stream(tensor_spec("accept_num", 3))[:, 0]
    flat = [token for step in range(40) for token in drafted.tokens[step, 0, : accepted[step]].tolist()]
    # Without the step tags, and without the end id, which is nothing but a tag.
    assert (plain.tokens[: length - 1, 0, 0] // STEP_TAGS).tolist() == [t // STEP_TAGS for t in flat[: length - 1]]
    assert flat[length - 1] < STEP_TAGS
    drawn = accepted_tokens(11, 0, np.arange(40), 3)
    assert (accepted <= drawn).all() and set(range(1, 5)) >= set(accepted[:39].tolist())
    behind = np.arange(4) >= accepted[:, None]
    assert (drafted.tokens[:, 0][behind] == IDLE_TOKEN).all()


def test_lengths_follow_the_accepted_tokens():
    """seq_lens_decoder is prompt plus tokens made so far, prompt_lens the prompt's, real_output_token_num 4 a row."""
    drafted = _reference(12, draft_tokens=3, mean_length=40)
    accepted = drafted.stream(tensor_spec("accept_num", 3))
    prompts = prompt_lengths(11, np.arange(3))
    first = min(int(length) for length in output_lengths(11, np.arange(3), 40))
    assert first > 4  # no request ends at step 0
    assert (prompts + accepted[0]).tolist() == drafted.stream(tensor_spec("seq_lens_decoder", 3))[0].tolist()
    assert prompts.tolist() == drafted.stream(tensor_spec("prompt_lens", 3))[0].tolist()
    assert [12] * 12 == drafted.stream(tensor_spec("real_output_token_num", 3))[:, 0].tolist()


def test_an_inserted_request_takes_its_row_and_depends_on_what_was_sent():
    """At step 4 row 0 starts the inserted request at its first token, drawn with the hash of the sent arrays."""
    group = Group(
        "prefill",
        (TensorSpec(INSERT_TASK, (4,), "int64"), TensorSpec("input_ids", (1, 3), "int64")),
        direction=Direction.TO_DEVICE,
    )
    spec = StreamSpec(seed=11, sequences=3, mean_length=40, last_step=19, insert_every=4)
    reference = Reference(spec, (group,), 20)
    task, ids = sent_arrays(spec, group, 4)
    assert [4, 0, INSERTED_REQUESTS + 4, 0] == task.tolist()
    prompt_hash = inbox_hash([(group.tensors[1], ids)])
    expected = ordinary_tokens(11, INSERTED_REQUESTS + 4, 0, 4, prompt_hash)
    assert int(expected) == reference.tokens[4, 0, 0]
    other = inbox_hash([(group.tensors[1], ids + 1)])
    assert int(expected) != int(ordinary_tokens(11, INSERTED_REQUESTS + 4, 0, 4, other))
    assert [None, 0, 1, 2, 0] == [spec.inserted_row(step) for step in (2, 4, 8, 12, 16)]


def test_a_payload_carries_the_step_in_its_low_bits():
    """int64 and int32 are step modulo 8; float32 is a multiple of 2**-16 whose numerator is; no two steps are alike."""
    steps = np.arange(20)
    for dtype in ("int64", "int32"):
        values = payload(3, TensorSpec("x", (5,), dtype), steps)
        assert np.array_equal(np.repeat(steps[:, None] % 8, 5, axis=1), values % 8)
    floats = payload(3, TensorSpec("x", (5,), "float32"), steps).astype(np.float64) * -(2**16)
    assert np.array_equal(np.repeat(steps[:, None] % 8, 5, axis=1), floats % 8)
    assert not np.array_equal(
        payload(3, TensorSpec("x", (50,), "bool"), 1), payload(3, TensorSpec("x", (50,), "bool"), 2)
    )


def test_name_tag_is_fnv_1a():
    """The published 64-bit FNV-1a hashes of the empty string and of "a"."""
    assert 0xCBF29CE484222325 == name_tag("")
    assert 0xAF63DC4C8601EC8C == name_tag("a")
