"""The decode kernels against the plain reference of the token stream."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fdprof.errors import ScenarioFailed
from fdprof.tokens import IDLE_TOKEN, reference_stream

STEPS = 200


@pytest.mark.parametrize(
    ("sequences", "seed", "mean_length", "last_step"),
    [(1, 0, 1, 50), (1, 7, 40, 150), (3, 2**63 + 5, 1, 199), (64, 1, 70, 180), (257, 11, 5, 0), (1500, 3, 90, 190)],
)
def test_kernels_yield_the_reference_stream_step_by_step(
    make_loop: Callable[..., Any], sequences: int, seed: int, mean_length: int, last_step: int
) -> None:
    """Tokens and stop flag of every step equal the closed form, for one row, odd counts and more rows than threads."""
    expected = reference_stream(seed, sequences, STEPS, last_step, mean_length)
    loop = make_loop(sequences, seed, mean_length, last_step, max_steps=STEPS)
    for step in range(STEPS):
        loop.native.forward()
        loop.native.update()
        np.testing.assert_array_equal(expected.tokens[step], loop.values("tokens")[:, 0], f"step {step}")
        assert expected.not_need_stop[step] == loop.values("not_need_stop")[0], f"step {step}"
        assert step + 1 == loop.values("sequence_number")[0]


def test_a_row_needs_a_new_block_after_each_64_tokens_of_a_request(make_loop: Callable[..., Any]) -> None:
    """is_block_step is true where a live row's next position is a positive multiple of 64, and only there."""
    loop = make_loop(sequences=8, mean_length=300, last_step=150, max_steps=160)
    seen = False
    for _ in range(160):
        loop.native.update()
        live = loop.values("request") >= 0
        position = loop.values("position")
        expected = live & (position > 0) & (position % 64 == 0)
        np.testing.assert_array_equal(expected, loop.values("is_block_step"))
        np.testing.assert_array_equal(live.astype(np.int32), loop.values("seq_lens_this_time")[:, 0])
        seen = seen or bool(expected.any())
    assert seen


def test_rows_are_idle_after_the_last_step(make_loop: Callable[..., Any]) -> None:
    """Past last_step every token is IDLE_TOKEN and the loop wants to stop."""
    loop = make_loop(last_step=2, max_steps=5)
    for _ in range(5):
        loop.native.update()
    assert loop.values("tokens")[:, 0].tolist() == [IDLE_TOKEN] * 4
    assert not loop.values("not_need_stop")[0]


def test_every_kernel_stamps_its_start_and_end(make_loop: Callable[..., Any]) -> None:
    """Each kernel lasts at least kernel_ns, and starts after the one before it ended."""
    kernel_ns = 20_000
    loop = make_loop(max_steps=3, kernels=4, kernel_ns=kernel_ns)
    for _ in range(3):
        loop.native.forward()
        loop.native.update()
    stamps = loop.values("stamps")
    assert (stamps > 0).all()
    assert (kernel_ns <= (stamps[:, :-1, 1] - stamps[:, :-1, 0])).all()
    assert (np.diff(stamps.reshape(-1)) >= 0).all()


def test_steps_beyond_the_stamps_are_refused(make_loop: Callable[..., Any]) -> None:
    """Launching step max_steps raises rather than writing past the stamps; the count stays."""
    loop = make_loop(max_steps=2)
    for _ in range(2):
        loop.native.forward()
        loop.native.update()
    for launch in (loop.native.forward, loop.native.update):
        with pytest.raises(ScenarioFailed, match="step 2 has no place in stamps, which hold 2 steps"):
            launch()
    assert loop.native.launched_steps == 2


@pytest.mark.parametrize(
    ("name", "array", "expected"),
    [
        ("tokens", np.zeros((4, 1), np.int32), r"`tokens` is int32 \[4, 1\] .* expected int64 \[4, 1\]"),
        ("tokens", np.zeros(4, np.int64), r"`tokens` is int64 \[4\] .* expected int64 \[4, 1\]"),
        ("request", np.zeros(5, np.int64), r"`request` is int64 \[5\] .* expected int64 \[4\]"),
        ("length", np.zeros(4, np.float32), r"`length` is float32 \[4\] .* expected int32 \[4\]"),
        ("not_need_stop", np.zeros(2, np.bool_), r"`not_need_stop` is bool \[2\] .* expected bool \[1\]"),
        ("stamps", np.zeros((9, 2, 2), np.int64), r"`stamps` is int64 \[9, 2, 2\] .* expected int64 \[9, 3, 2\]"),
    ],
)
def test_an_unfit_tensor_is_refused_by_name(
    make_loop: Callable[..., Any], upload: Callable[..., Any], name: str, array: Any, expected: str
) -> None:
    """The message says which tensor it is, what it is and what it must be."""
    with pytest.raises(ScenarioFailed, match=expected):
        make_loop(**{name: upload(array)})


@pytest.mark.parametrize("fault", [{"mean_length": 0}, {"last_step": -1}, {"kernels": -1}, {"kernel_ns": -1}])
def test_numbers_out_of_range_are_refused(ops: Any, make_loop: Callable[..., Any], fault: dict[str, int]) -> None:
    """ValueError, as for any argument out of range."""
    fit = make_loop()
    numbers = {"seed": 1, "mean_length": 8, "last_step": 20, "kernels": 2, "kernel_ns": 0}
    with pytest.raises(ValueError, match="mean_length must be"):
        ops.DecodeLoop(**fit.tensors, **{**numbers, **fault})


@pytest.mark.gpu
def test_a_loop_on_the_device_refuses_host_tensors(gpu_ops: Any, make_loop: Callable[..., Any]) -> None:
    """A kernel could not reach pageable memory."""
    import paddle

    tokens = paddle.to_tensor(np.zeros((4, 1), np.int64), place=paddle.CPUPlace())
    with pytest.raises(ScenarioFailed, match=r"`tokens` is .* on cpu, expected .* on gpu:0"):
        make_loop(tokens=tokens)
