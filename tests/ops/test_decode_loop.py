"""The decode kernels against the plain reference of all values."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fdprof.backends.protocol import MADE_IN_PREPARE, MADE_IN_UPDATE, tensor_spec
from fdprof.errors import ScenarioFailed
from fdprof.model import Direction, Group, TensorSpec
from fdprof.tokens import IDLE_TOKEN, PAYLOAD_DTYPES, Reference, StreamSpec, inbox_hash, sent_arrays

STEPS = 120

PREPARED = tuple(TensorSpec(f"early_{dtype}", (3, 5), dtype) for dtype in PAYLOAD_DTYPES)
UPDATED = (*(TensorSpec(f"late_{dtype}", (70, 29), dtype) for dtype in PAYLOAD_DTYPES), TensorSpec("one", (1,), "bool"))
TASK = TensorSpec("insert_task", (4,), "int64")
SENT = Group(
    "sent",
    (
        TASK,
        TensorSpec("prompt_ids", (1, 1500), "int64"),
        TensorSpec("scalar", (1,), "float32"),
        TensorSpec("flags", (8,), "bool"),
    ),
    direction=Direction.TO_DEVICE,
)


def expected_at(reference: Reference, spec: TensorSpec, step: int) -> npt.NDArray[Any]:
    return np.asarray(reference.stream(spec)[step]).reshape(spec.shape)


def assert_step_is_right(loop: Any, reference: Reference, step: int, payloads: Sequence[TensorSpec] = ()) -> None:
    """Every tensor holds what the reference has at `step`."""
    names = sorted(MADE_IN_PREPARE | MADE_IN_UPDATE)
    specs = [tensor_spec(name, loop.stream.sequences, loop.stream.draft_tokens) for name in names]
    for spec in [*specs, *payloads]:
        got = loop.values(spec.name)
        np.testing.assert_array_equal(expected_at(reference, spec, step), got, f"{spec.name} of step {step}")
        assert spec.dtype == str(got.dtype)
    assert step + 1 == loop.values("sequence_number")[0]


@pytest.mark.parametrize(
    ("sequences", "seed", "mean_length", "last_step", "kv_block_tokens", "draft_tokens"),
    [
        (1, 0, 1, 50, 0, 0),
        (1, 7, 40, 100, 0, 0),
        (3, 2**63 + 5, 1, 119, 0, 0),
        (257, 11, 5, 0, 0, 0),
        (1500, 3, 90, 110, 0, 0),
        (64, 1, 70, 110, 16, 0),
        (5, 9, 30, 77, 1, 0),
        (1500, 9, 30, 77, 4, 0),
        (1, 4, 1, 40, 0, 1),
        (33, 2, 25, 100, 0, 4),
        (7, 5, 40, 60, 8, 2),
    ],
)
@pytest.mark.parametrize("launch", ["kernels", "graph"])
def test_every_tensor_equals_the_reference_step_by_step(
    make_loop: Callable[..., Any],
    sequences: int,
    seed: int,
    mean_length: int,
    last_step: int,
    kv_block_tokens: int,
    draft_tokens: int,
    launch: str,
) -> None:
    """For plain, KV-block and drafted streams, few rows and more than threads, and however forward is launched."""
    loop = make_loop(
        sequences,
        seed,
        mean_length,
        last_step,
        max_steps=STEPS,
        kv_block_tokens=kv_block_tokens,
        draft_tokens=draft_tokens,
        launch=launch,
    )
    reference = Reference(loop.stream, (), STEPS)
    for step in range(STEPS):
        loop.step()
        assert_step_is_right(loop, reference, step)


def test_payloads_of_every_dtype_equal_the_reference(make_loop: Callable[..., Any]) -> None:
    """Both kernels make theirs, each from its name: one element, few, and more than a block has threads."""
    loop = make_loop(prepare_payloads=PREPARED, update_payloads=UPDATED)
    reference = Reference(loop.stream, (), 24)
    for step in range(24):
        loop.step()
        assert_step_is_right(loop, reference, step, (*PREPARED, *UPDATED))


@pytest.mark.parametrize(("kv_block_tokens", "draft_tokens"), [(0, 0), (4, 0), (0, 3)])
def test_an_inserted_request_takes_its_row_and_depends_on_all_that_was_sent(
    make_loop: Callable[..., Any], upload: Callable[..., Any], kv_block_tokens: int, draft_tokens: int
) -> None:
    """The prompt's hash is part of the request's tokens; a request inserted past the last step is not taken."""
    loop = make_loop(
        sequences=3,
        mean_length=9,
        last_step=90,
        max_steps=STEPS,
        kv_block_tokens=kv_block_tokens,
        draft_tokens=draft_tokens,
        inbox=SENT.tensors,
    )
    spec = dataclasses.replace(loop.stream, insert_every=7)
    reference = Reference(spec, [SENT], STEPS)
    for step in range(STEPS):
        arrays = sent_arrays(spec, SENT, step)
        if step == 98:
            arrays[0] = np.array([step, 1, 5, 0])
        for tensor, array in zip(SENT.tensors, arrays, strict=True):
            loop.tensors[tensor.name].copy_(upload(array), False)
        loop.step()
        assert_step_is_right(loop, reference, step)


def test_the_hash_of_the_inbox_is_kept_with_the_row(make_loop: Callable[..., Any], upload: Callable[..., Any]) -> None:
    """As fdprof.tokens.inbox_hash has it; a task of another step changes nothing."""
    loop = make_loop(last_step=20, inbox=SENT.tensors, mean_length=50)
    spec = StreamSpec(seed=1, sequences=4, mean_length=50, last_step=20, insert_every=1)
    arrays = sent_arrays(spec, SENT, 1)
    for tensor, array in zip(SENT.tensors, arrays, strict=True):
        loop.tensors[tensor.name].copy_(upload(array), False)
    loop.step()
    assert loop.values("prompt_hash").tolist() == [0, 0, 0, 0]
    loop.native.prepare()
    expected = inbox_hash(list(zip(SENT.tensors, arrays, strict=True))[1:])
    assert expected == loop.values("prompt_hash").view(np.uint64)[0]
    assert arrays[0][2] == loop.values("request")[0]


def test_only_the_tensors_that_are_given_are_made(make_loop: Callable[..., Any]) -> None:
    """Tokens and stop flag suffice."""
    left_out = (MADE_IN_PREPARE | MADE_IN_UPDATE) - {"sampled_token_ids", "not_need_stop"}
    loop = make_loop(replaced=dict.fromkeys(left_out), draft_tokens=2)
    reference = Reference(loop.stream, (), 24)
    for step in range(24):
        loop.step()
        np.testing.assert_array_equal(reference.tokens[step, :, :1], loop.values("sampled_token_ids"))
    assert not loop.values("not_need_stop")[0]


def test_rows_that_the_host_did_not_launch_for_are_left_as_they_are(make_loop: Callable[..., Any]) -> None:
    """With n rows too few, the last n rows keep their values and state; the others go on."""
    loop = make_loop(sequences=5, mean_length=50, max_steps=8)
    before = {name: loop.values(name) for name in ("request", "position", "length", "sampled_token_ids", "accept_num")}
    loop.step(launch_tokens=3)
    tokens = Reference(loop.stream, (), 1).tokens[0, :, 0]
    assert [*tokens[:3], IDLE_TOKEN, IDLE_TOKEN] == loop.values("sampled_token_ids")[:, 0].tolist()
    assert loop.values("accept_num").tolist() == [1, 1, 1, 0, 0]
    assert loop.values("position").tolist() == [1, 1, 1, 0, 0]
    for name, values in before.items():
        np.testing.assert_array_equal(values[3:], loop.values(name)[3:], name)
    loop.step(launch_tokens=0)
    assert loop.values("position").tolist() == [1, 1, 1, 0, 0]
    loop.step(launch_tokens=5)
    loop.step(launch_tokens=9)
    loop.step(launch_tokens=-1)
    assert loop.values("position").tolist() == [4, 4, 4, 3, 3]


def test_a_paused_row_does_not_count_as_launched_for(make_loop: Callable[..., Any]) -> None:
    """With every row paused, launching for none leaves none out."""
    loop = make_loop(sequences=3, mean_length=2**20, kv_block_tokens=1, max_steps=4)
    loop.step(launch_tokens=3)
    assert loop.values("blocked").tolist() == [True] * 3
    loop.step(launch_tokens=0)
    assert loop.values("blocked").tolist() == [False] * 3


def test_the_budget_ends_rows_that_were_left_out_too(make_loop: Callable[..., Any]) -> None:
    """not_need_stop is false at the last step, and every row is idle after it."""
    loop = make_loop(last_step=2, max_steps=5)
    for launch_tokens in (-1, -1, 1):
        assert loop.values("not_need_stop")[0]
        loop.step(launch_tokens)
    assert not loop.values("not_need_stop")[0]
    loop.step()
    assert loop.values("sampled_token_ids")[:, 0].tolist() == [IDLE_TOKEN] * 4
    assert loop.values("seq_lens_this_time")[:, 0].tolist() == [0] * 4
    assert not loop.values("not_need_stop")[0]


@pytest.mark.parametrize("launch", ["kernels", "graph"])
def test_every_kernel_stamps_its_start_and_end(
    make_loop: Callable[..., Any], upload: Callable[..., Any], launch: str
) -> None:
    """Each kernel lasts at least its step's kernel_ns, and starts after the one before it ended; prepare comes last."""
    kernel_ns = np.array([20_000, 60_000, 40_000], dtype=np.int64)
    loop = make_loop(max_steps=3, kernels=4, launch=launch, replaced={"kernel_ns": upload(kernel_ns)})
    for _ in range(3):
        loop.step()
    stamps = loop.values("stamps")
    assert (stamps > 0).all()
    assert (kernel_ns[:, None] <= (stamps[:, :4, 1] - stamps[:, :4, 0])).all()
    in_order = stamps[:, [5, 0, 1, 2, 3, 4]]
    assert (np.diff(in_order.reshape(-1)) >= 0).all()


def test_kernels_that_do_not_run_leave_no_stamps(make_loop: Callable[..., Any]) -> None:
    """Zero says so: here prepare."""
    loop = make_loop(max_steps=1)
    loop.native.forward()
    loop.native.update()
    assert (loop.values("stamps")[0] > 0).all(axis=1).tolist() == [True, True, True, False]


def test_steps_beyond_the_stamps_are_refused(make_loop: Callable[..., Any]) -> None:
    """Launching step max_steps raises rather than writing past the stamps; the count stays."""
    loop = make_loop(max_steps=2)
    for _ in range(2):
        loop.step()
    for launch in (loop.native.prepare, loop.native.forward, loop.native.update):
        with pytest.raises(ScenarioFailed, match="step 2 has no place in stamps, which hold 2 steps"):
            launch()
    assert loop.native.launched_steps == 2


def test_update_runs_on_a_stream_that_is_given(ops: Any, make_loop: Callable[..., Any]) -> None:
    """After its synchronisation the values are there."""
    loop, stream = make_loop(), ops.Stream()
    loop.native.update(stream=stream)
    stream.synchronize(10.0)
    np.testing.assert_array_equal(Reference(loop.stream, (), 1).tokens[0], loop.values("sampled_token_ids"))


@pytest.mark.parametrize(
    ("name", "array", "expected"),
    [
        ("sampled_token_ids", np.zeros((4, 1), np.int32), r"is int32 \[4, 1\] .* expected int64 \[4, 1\]"),
        ("sampled_token_ids", np.zeros(4, np.int64), r"is int64 \[4\] .* expected int64 \[4, 1\]"),
        ("position", np.zeros(5, np.int32), r"is int32 \[5\] .* expected int32 \[4\]"),
        ("length", np.zeros(4, np.float32), r"is float32 \[4\] .* expected int32 \[4\]"),
        ("not_need_stop", np.zeros(2, np.bool_), r"is bool \[2\] .* expected bool \[1\]"),
        ("accept_tokens", np.zeros((4, 2), np.int64), r"is int64 \[4, 2\] .* expected int64 \[4, 1\]"),
        ("stamps", np.zeros((9, 3, 2), np.int64), r"is int64 \[9, 3, 2\] .* expected int64 \[9, 4, 2\]"),
        ("kernel_ns", np.zeros(7, np.int64), r"is int64 \[7\] .* expected int64 \[24\]"),
        ("prompt_hash", None, "is missing"),
    ],
)
def test_an_unfit_tensor_is_refused_by_name(
    make_loop: Callable[..., Any], upload: Callable[..., Any], name: str, array: Any, expected: str
) -> None:
    """The message says which tensor it is, what it is and what it must be."""
    with pytest.raises(ScenarioFailed, match=f"`{name}` {expected}"):
        make_loop(replaced={name: None if array is None else upload(array)})


def test_payloads_and_inboxes_out_of_range_are_refused(make_loop: Callable[..., Any]) -> None:
    """A dtype without a formula, words that are not whole, and more tensors than fit a kernel's parameters."""
    with pytest.raises(ScenarioFailed, match="payload `p` is float64"):
        make_loop(update_payloads=[TensorSpec("p", (1,), "float64")])
    with pytest.raises(ScenarioFailed, match=r"inbox tensor `p` is bool .* multiples of 4 bytes"):
        make_loop(inbox=[TensorSpec("p", (3,), "bool")])
    with pytest.raises(ScenarioFailed, match="at most 16 payload tensors, got 17"):
        make_loop(prepare_payloads=[TensorSpec(f"p{i}", (1,), "int64") for i in range(17)])


@pytest.mark.parametrize(
    "fault",
    [{"mean_length": 0}, {"last_step": -1}, {"kernels": -1}, {"draft_tokens": -1}, {"kv_block_tokens": -1}],
)
def test_numbers_out_of_range_are_refused(ops: Any, make_loop: Callable[..., Any], fault: dict[str, int]) -> None:
    """ValueError, as for any argument out of range."""
    fit = make_loop()
    numbers = {"seed": 1, "mean_length": 8, "last_step": 20, "kernels": 2}
    with pytest.raises(ValueError, match="mean_length must be"):
        ops.DecodeLoop(fit.tensors, **{**numbers, **fault})
    with pytest.raises(ValueError, match="launch must be 'kernels' or 'graph', got 'once'"):
        ops.DecodeLoop(fit.tensors, **numbers, launch="once")


@pytest.mark.gpu
def test_a_loop_on_the_device_refuses_host_tensors(gpu_ops: Any, make_loop: Callable[..., Any]) -> None:
    """A kernel could not reach pageable memory."""
    import paddle

    tokens = paddle.to_tensor(np.zeros((4, 1), np.int64), place=paddle.CPUPlace())
    with pytest.raises(ScenarioFailed, match=r"`sampled_token_ids` is .* on cpu, expected .* on gpu:0"):
        make_loop(replaced={"sampled_token_ids": tokens})
