"""Fixtures of the ops' tests: the built ops, and decode loops made from them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest


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

    def values(self, name: str) -> npt.NDArray[Any]:
        return np.asarray(self.tensors[name].numpy())


@pytest.fixture
def make_loop(ops: Any, upload: Callable[[npt.NDArray[Any]], Any]) -> Callable[..., Loop]:
    """Makes a loop; `replaced` puts other tensors in place of some."""

    def make(
        sequences: int = 4,
        seed: int = 1,
        mean_length: int = 8,
        last_step: int = 20,
        max_steps: int = 24,
        kernels: int = 2,
        kernel_ns: int = 0,
        **replaced: Any,
    ) -> Loop:
        tensors = {name: upload(array) for name, array in ops.initial_state(sequences, seed, mean_length).items()}
        tensors["stamps"] = upload(np.zeros((max_steps, kernels + 1, 2), dtype=np.int64))
        tensors.update(replaced)
        native = ops.DecodeLoop(
            **tensors, seed=seed, mean_length=mean_length, last_step=last_step, kernels=kernels, kernel_ns=kernel_ns
        )
        return Loop(native, tensors)

    return make
