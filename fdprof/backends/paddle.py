"""The backend on a real GPU through paddlepaddle-gpu 2.6.2 or 3.x and the custom ops of ops/.

Copies are Paddle's own (`copy_`, `.cpu()`), because their host cost is part of the question; kernels, events and the
stop flag are ours.  Paddle's kernels are not used: on a card its wheel has no code for they return zeros in silence.
Paddle's `copy_(src, blocking)` takes blocking as its second positional argument: False is asynchronous.
"""

import ctypes
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.backends.protocol import ClockSample, Event, HostBuffer, LoopPlan
from fdprof.clock import drift_ppm
from fdprof.errors import FdprofError, ScenarioFailed
from fdprof.model import ClockInfo, Environment, Memory, TensorSpec
from fdprof.version import VERSION

INSTALL_PADDLE = "in the checkout: pip install -e '.[paddle]', or use --backend sim"

_ALIGN_ROUNDS = 256

# Decode tensors by the names the ops use for them.
_OP_NAMES = {"sampled_token_ids": "tokens"}


class PaddleBackend:
    """Paddle's current GPU."""

    name = "paddle"

    @classmethod
    def missing(cls) -> tuple[str, str] | None:
        try:
            # Asked first because it is quick: importing Paddle takes seconds.
            ctypes.CDLL("libcuda.so.1")
        except OSError:
            return (
                "no NVIDIA driver (libcuda.so.1 cannot be loaded)",
                "install it, or use --backend sim; `fdprof doctor` lists all that is missing",
            )
        try:
            import paddle
        except ImportError as error:
            return (
                f"Paddle cannot be imported ({error})",
                "in the checkout: pip install -e '.[paddle]', or use --backend sim",
            )
        if not paddle.is_compiled_with_cuda():
            return (
                f"this paddlepaddle {paddle.__version__} is built for the CPU",
                "install paddlepaddle-gpu, or use --backend sim",
            )
        if paddle.device.cuda.device_count() < 1:
            return "Paddle sees no CUDA GPU", "check `nvidia-smi` and CUDA_VISIBLE_DEVICES, or use --backend sim"
        try:
            import fdprof.ops.ops as ops

            ops.load()
        except FdprofError as error:
            return f"the custom ops are not built: {error}", error.hint or "run `fdprof doctor`"
        return None

    def __init__(self, timeout_s: float) -> None:
        import paddle

        import fdprof.ops.ops as ops

        self._paddle, self._ops = paddle, ops
        self._timeout_s = timeout_s
        self.clock_ns = time.perf_counter_ns  # CLOCK_MONOTONIC, the clock the ops align the device with

    def host_work(self, duration_ns: int) -> None:
        if not duration_ns:
            return
        clock = self.clock_ns
        end = clock() + duration_ns
        while clock() < end:
            pass

    def open_loop(self, plan: LoopPlan) -> "PaddleLoop":
        return PaddleLoop(self._paddle, self._ops, plan, self._timeout_s)

    def clock_sample(self) -> ClockSample:
        host_ns, device_ns, error_ns = self._ops.align_clocks(_ALIGN_ROUNDS, self._timeout_s)
        return ClockSample(host_ns, device_ns, error_ns)

    def clock_info(self, samples: Sequence[ClockSample]) -> ClockInfo:
        return ClockInfo(
            host_domain="CLOCK_MONOTONIC",
            device_domain="%globaltimer",
            method=f"ping-pong through mapped memory before and after the block, best of {_ALIGN_ROUNDS}; interpolated",
            error_ns=max(sample.error_ns for sample in samples),
            drift_ppm=drift_ppm(samples),
        )

    def environment(self) -> Environment:
        info = self._ops.device_info()
        return Environment(
            fdprof=VERSION,
            python=platform.python_version(),
            os=f"{platform.system()} {platform.release()}",
            cpu=_cpu_name(),
            cpu_count=os.cpu_count(),
            gpu=info.get("name"),
            driver=_driver_version(),
            cuda=str(info.get("runtime_version")),
            paddle=self._paddle.__version__,
        )

    def caveats(self) -> tuple[str, ...]:
        return (
            "no tracer: the device intervals of copies are not observed; device busy counts kernels by their own "
            "stamps, so device idle includes the copies on the compute stream",
        )


@dataclass(frozen=True, slots=True)
class _PaddleBuffer:
    spec: TensorSpec
    memory: Memory
    tensor: Any
    is_flag: bool


class PaddleLoop:
    """The device side of one block on a GPU (backends.protocol.DeviceLoop)."""

    def __init__(self, paddle: Any, ops: Any, plan: LoopPlan, timeout_s: float) -> None:
        self._paddle, self._ops = paddle, ops
        self._timeout_s = timeout_s
        place = paddle.CUDAPlace(0)
        state = ops.initial_state(plan.sequences, plan.seed, plan.mean_length)
        tensors = {name: paddle.to_tensor(array, place=place) for name, array in state.items()}
        self._stamps = paddle.to_tensor(np.zeros((plan.max_steps, plan.kernels + 1, 2), dtype=np.int64), place=place)
        self._native = ops.DecodeLoop(
            **tensors,
            stamps=self._stamps,
            seed=plan.seed,
            mean_length=plan.mean_length,
            last_step=plan.last_step,
            kernels=plan.kernels,
            kernel_ns=plan.kernel_ns,
        )
        self._tensors = {_shown(name): tensor for name, tensor in tensors.items()}
        self.forward = self._native.forward
        self.update = self._native.update
        self._latch: Any = None
        self._get_stop = ops.get_stop
        ops.synchronize_current(timeout_s)  # the uploads above must not reach into the loop

    def host_buffer(self, spec: TensorSpec, memory: Memory) -> HostBuffer:
        if memory is Memory.PINNED:
            tensor = self._ops.paddle_pinned_tensor(spec.shape, spec.dtype)
        elif memory is Memory.PAGEABLE:
            tensor = self._paddle.to_tensor(np.zeros(spec.shape, spec.dtype), place=self._paddle.CPUPlace())
        else:
            raise ScenarioFailed(f"the paddle backend has no {memory.value} buffers", "use pinned or pageable memory")
        buffer = self._buffer(spec, memory, tensor)
        if spec.name == "not_need_stop":
            self._ops.set_stop(tensor, True)
        return buffer

    def copy(self, spec: TensorSpec, into: HostBuffer) -> None:
        into.tensor.copy_(self._tensors[spec.name], False)  # type: ignore[attr-defined]

    def fetch(self, spec: TensorSpec) -> HostBuffer:
        self._ops.watch_begin(self._timeout_s)
        tensor = self._tensors[spec.name].cpu()
        self._ops.watch_end()
        return self._buffer(spec, Memory.PAGEABLE, tensor)

    def _buffer(self, spec: TensorSpec, memory: Memory, tensor: Any) -> _PaddleBuffer:
        return _PaddleBuffer(spec, memory, tensor, spec.dtype == "bool" and spec.shape == (1,))

    def read(self, buffer: HostBuffer) -> Any:
        assert isinstance(buffer, _PaddleBuffer)
        return self._get_stop(buffer.tensor) if buffer.is_flag else buffer.tensor.numpy()

    def event(self) -> Event:
        return self._ops.Event()  # type: ignore[no-any-return]

    def record(self, event: Event) -> None:
        event.record()  # type: ignore[attr-defined]

    def wait(self, event: Event) -> None:
        event.wait(self._timeout_s)  # type: ignore[attr-defined]

    def synchronize(self) -> None:
        self._ops.synchronize_current(self._timeout_s)

    def hold(self) -> None:
        self._latch = self._ops.Latch(self._timeout_s)
        self._latch.launch()

    def release(self) -> None:
        self._latch.release()

    def stamps(self) -> npt.NDArray[np.int64]:
        self.synchronize()
        return np.asarray(self._stamps.numpy(), dtype=np.int64)

    def close(self) -> None:
        """Wait for queued work, so that no kernel writes memory that is freed here."""
        if self._latch is not None:
            self._latch.release()
        self.synchronize()


def _shown(op_name: str) -> str:
    return next((shown for shown, name in _OP_NAMES.items() if name == op_name), op_name)


def _cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def _driver_version() -> str | None:
    try:
        text = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    words = text.split("\n", 1)[0].split()
    return next((word for word in words if word[:1].isdigit()), None)


BACKEND = PaddleBackend
