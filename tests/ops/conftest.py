"""Fixtures of the ops' tests: the built ops, and decode loops made from them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from fdprof.backends.protocol import MADE_IN_PREPARE, MADE_IN_UPDATE, tensor_spec
from fdprof.model import TensorSpec
from fdprof.tokens import StreamSpec

DECODE_TENSORS = tuple(sorted(MADE_IN_PREPARE | MADE_IN_UPDATE))


@pytest.fixture(scope="session")
def ops() -> Any:
    """The ops module with the native part loaded; skips without Paddle."""
    pytest.importorskip("paddle", reason="the ops need Paddle, which is not installed")
    from fdprof.ops import ops

    ops.load()
    return ops


@pytest.fixture
def gpu_ops(ops: Any) -> Any:
    """The ops built for CUDA; skips without a GPU."""
    import paddle

    if not ops.built_for_cuda or paddle.device.cuda.device_count() < 1:
        pytest.skip("needs a CUDA GPU and a Paddle built for CUDA")
    return ops


@pytest.fixture
def upload(ops: Any) -> Callable[[npt.NDArray[Any]], Any]:
    """Makes a tensor from an array where the kernels run."""
    import paddle

    place = paddle.CUDAPlace(0) if ops.built_for_cuda else paddle.CPUPlace()
    return lambda array: paddle.to_tensor(array, place=place)


@dataclass
class Loop:
    """A decode loop and its tensors by name."""

    native: Any
    tensors: dict[str, Any]
    stream: StreamSpec

    def values(self, name: str) -> npt.NDArray[Any]:
        return np.asarray(self.tensors[name].numpy())

    def step(self, launch_tokens: int = -1) -> None:
        self.native.prepare()
        self.native.forward()
        self.native.update(launch_tokens)


@pytest.fixture
def make_loop(ops: Any, upload: Callable[[npt.NDArray[Any]], Any]) -> Callable[..., Loop]:
    """Makes a loop with every decode tensor; `replaced` puts other tensors in place of some, None leaves one out."""

    def make(
        sequences: int = 4,
        seed: int = 1,
        mean_length: int = 8,
        last_step: int = 20,
        max_steps: int = 24,
        kernels: int = 2,
        kernel_ns: int = 0,
        kv_block_tokens: int = 0,
        draft_tokens: int = 0,
        launch: str = "kernels",
        prepare_payloads: Sequence[TensorSpec] = (),
        update_payloads: Sequence[TensorSpec] = (),
        inbox: Sequence[TensorSpec] = (),
        replaced: dict[str, Any] | None = None,
        **changed: Any,
    ) -> Loop:
        def zeros(specs: Sequence[TensorSpec]) -> dict[str, Any]:
            return {spec.name: upload(np.zeros(spec.shape, spec.dtype)) for spec in specs}

        loop = zeros([tensor_spec(name, sequences, draft_tokens) for name in DECODE_TENSORS])
        loop |= {name: upload(array) for name, array in ops.initial_state(sequences, seed, mean_length).items()}
        loop["stamps"] = upload(np.zeros((max_steps, kernels + 2, 2), dtype=np.int64))
        loop["kernel_ns"] = upload(np.full(max_steps, kernel_ns, dtype=np.int64))
        loop |= replaced or {}
        loop = {name: tensor for name, tensor in loop.items() if tensor is not None}
        prepared, updated, sent = zeros(prepare_payloads), zeros(update_payloads), zeros(inbox)
        numbers = {
            "seed": seed,
            "mean_length": mean_length,
            "last_step": last_step,
            "kernels": kernels,
            "kv_block_tokens": kv_block_tokens,
            "draft_tokens": draft_tokens,
            "launch": launch,
            **changed,
        }
        native = ops.DecodeLoop(
            loop,
            **numbers,
            prepare_payloads=list(prepared.items()),
            update_payloads=list(updated.items()),
            inbox=list(sent.items()),
        )
        stream = StreamSpec(
            seed=seed,
            sequences=sequences,
            mean_length=mean_length,
            last_step=last_step,
            kv_block_tokens=kv_block_tokens,
            draft_tokens=draft_tokens,
        )
        return Loop(native, loop | prepared | updated | sent, stream)

    return make
