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

from fdprof.backends.protocol import (
    MADE_IN_PREPARE,
    MADE_IN_UPDATE,
    POISON_BYTE,
    ClockSample,
    Event,
    HostBuffer,
    LoopPlan,
    Publication,
    Stream,
)
from fdprof.clock import drift_ppm
from fdprof.errors import FdprofError, ScenarioFailed
from fdprof.model import ClockInfo, Direction, Environment, GpuState, Group, Memory, Producer, TensorSpec
from fdprof.nvml import Gpu
from fdprof.tokens import INSERT_TASK
from fdprof.version import VERSION

INSTALL_PADDLE = "in the checkout: pip install -e '.[paddle]', or use --backend sim"

_ALIGN_ROUNDS = 256


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
        self._info: dict[str, Any] = ops.device_info()
        self._gpu = Gpu(self._info.get("pci_bus_id", ""))
        self.clock_ns = time.perf_counter_ns  # CLOCK_MONOTONIC, the clock the ops align the device with
        self.thread_cpu_ns = time.thread_time_ns

    def host_work(self, duration_ns: int) -> None:
        if duration_ns <= 0:
            return
        clock = self.clock_ns
        end = clock() + duration_ns
        while clock() < end:
            pass

    def open_loop(self, plan: LoopPlan) -> "PaddleLoop":
        return PaddleLoop(self._paddle, self._ops, plan, self._timeout_s)

    def disturb(self, seed: int | None) -> None:
        """Do nothing: the device's timing is its own."""

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

    def gpu_state(self) -> GpuState | None:
        return self._gpu.state()

    def environment(self) -> Environment:
        info = self._info
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
            *([self._gpu.problem] if self._gpu.problem else []),
        )


@dataclass(slots=True, eq=False)
class _PaddleBuffer:
    """Not frozen: a released buffer drops its tensor, and a drifted one is read differently."""

    spec: TensorSpec
    memory: Memory
    tensor: Any
    is_flag: bool
    is_on_device: bool = False


class PaddleLoop:
    """The device side of one block on a GPU (backends.protocol.DeviceLoop).

    With the CPU build of Paddle it works alike, in the calling thread, but for `hold`: so the tests can run it.
    """

    def __init__(self, paddle: Any, ops: Any, plan: LoopPlan, timeout_s: float) -> None:
        self._paddle, self._ops, self._plan = paddle, ops, plan
        self._timeout_s = timeout_s
        self._place = paddle.CUDAPlace(0) if ops.built_for_cuda else paddle.CPUPlace()
        stream = plan.stream
        made: dict[str, Any] = ops.initial_state(stream.sequences, stream.seed, stream.mean_length)
        made["kernel_ns"] = np.ascontiguousarray(plan.kernel_ns, dtype=np.int64)
        made["stamps"] = np.zeros((plan.max_steps, plan.kernels + 2, 2), dtype=np.int64)
        payloads: dict[Producer, dict[str, Any]] = {producer: {} for producer in Producer}
        inbox: dict[str, Any] = {}
        for group in plan.groups:
            for spec in group.tensors:
                start = np.zeros(spec.shape, dtype=spec.dtype)
                if group.direction is Direction.TO_DEVICE:
                    inbox[spec.name] = np.array([-1, -1, 0, 0], dtype=np.int64) if spec.name == INSERT_TASK else start
                elif spec.name in MADE_IN_PREPARE | MADE_IN_UPDATE:
                    made.setdefault(spec.name, start)
                else:
                    payloads[group.made_by][spec.name] = start
        loop_tensors = self._on_device(made)
        payload_tensors = {producer: self._on_device(arrays) for producer, arrays in payloads.items()}
        inbox_tensors = self._on_device(inbox)
        self._stamps = loop_tensors["stamps"]
        self._tensors = loop_tensors | payload_tensors[Producer.PREPARE] | payload_tensors[Producer.UPDATE]
        self._tensors |= inbox_tensors
        self._native = ops.DecodeLoop(
            loop_tensors,
            seed=stream.seed,
            mean_length=stream.mean_length,
            last_step=stream.last_step,
            kernels=plan.kernels,
            kv_block_tokens=stream.kv_block_tokens,
            draft_tokens=stream.draft_tokens,
            launch=plan.launch.value,
            prepare_payloads=list(payload_tensors[Producer.PREPARE].items()),
            update_payloads=list(payload_tensors[Producer.UPDATE].items()),
            inbox=list(inbox_tensors.items()),
        )
        # The native methods themselves: a Python frame around them would cost about as much as a launch.
        self.prepare = self._native.prepare
        self.forward = self._native.forward
        self.update = self._native.update
        self.stream_wait = ops.stream_wait
        self._latch: Any = None
        self._streams: list[Any] = []
        self._copy_async = ops.copy_async
        self._get_stop = ops.get_stop
        ops.synchronize_current(timeout_s)  # the uploads above must not reach into the loop

    def _on_device(self, arrays: dict[str, Any]) -> dict[str, Any]:
        return {name: self._paddle.to_tensor(array, place=self._place) for name, array in arrays.items()}

    def host_buffer(self, spec: TensorSpec, memory: Memory) -> HostBuffer:
        if memory is Memory.PINNED:
            tensor = self._ops.paddle_pinned_tensor(spec.shape, spec.dtype)  # Paddle's allocator keeps freed memory
        elif memory is Memory.MAPPED:
            tensor = self._ops.pinned_tensor(spec.shape, spec.dtype, mapped=True)
        elif memory is Memory.PAGEABLE:
            tensor = self._paddle.to_tensor(np.zeros(spec.shape, spec.dtype), place=self._paddle.CPUPlace())
        else:
            raise ScenarioFailed(f"the paddle backend has no {memory.value} buffers", "use pinned or pageable memory")
        buffer = self._buffer(spec, memory, tensor)
        if spec.name == "not_need_stop":
            self._ops.set_stop(tensor, True)
        return buffer

    def release_buffer(self, buffer: HostBuffer) -> None:
        assert isinstance(buffer, _PaddleBuffer)
        buffer.tensor = None

    def copy(self, spec: TensorSpec, into: HostBuffer, stream: Stream | None = None) -> None:
        if stream is None:
            into.tensor.copy_(self._tensors[spec.name], False)  # type: ignore[attr-defined]
        else:
            self._copy_async(into.tensor, self._tensors[spec.name], stream.handle)  # type: ignore[attr-defined]

    def fetch(self, spec: TensorSpec) -> HostBuffer:
        self._ops.watch_begin(self._timeout_s)
        tensor = self._tensors[spec.name].cpu()
        self._ops.watch_end()
        return self._buffer(spec, Memory.PAGEABLE, tensor)

    def upload(self, spec: TensorSpec, source: HostBuffer, stream: Stream | None = None) -> None:
        if stream is None:
            self._tensors[spec.name].copy_(source.tensor, False)  # type: ignore[attr-defined]
        else:
            self._copy_async(self._tensors[spec.name], source.tensor, stream.handle)  # type: ignore[attr-defined]

    def store(self, spec: TensorSpec, source: HostBuffer) -> None:
        self._ops.watch_begin(self._timeout_s)
        self._tensors[spec.name].copy_(source.tensor, True)  # type: ignore[attr-defined]
        self._ops.watch_end()

    def publish(self, group: Group, slots: Sequence[Sequence[HostBuffer]]) -> Publication:
        return self._native.publish(  # type: ignore[no-any-return]
            group.name,
            group.made_by.value,
            [self._tensors[spec.name] for spec in group.tensors],
            [[buffer.tensor for buffer in slot] for slot in slots],  # type: ignore[attr-defined]
            self._plan.wait.value,
        )

    def poll(self, publication: Publication, step: int) -> None:
        publication.poll(step, self._timeout_s)  # type: ignore[attr-defined]

    def _buffer(self, spec: TensorSpec, memory: Memory, tensor: Any) -> _PaddleBuffer:
        return _PaddleBuffer(spec, memory, tensor, spec.dtype == "bool" and spec.size_bytes == 1)

    def read(self, buffer: HostBuffer) -> Any:
        assert isinstance(buffer, _PaddleBuffer)
        if buffer.tensor is None:
            raise ScenarioFailed(f"the buffer of {buffer.spec.name} is read after its memory was given back")
        if buffer.is_on_device:
            self._ops.watch_begin(self._timeout_s)
            values = buffer.tensor.numpy()
            self._ops.watch_end()
            return bool(values.reshape(-1)[0]) if buffer.is_flag else values
        return self._get_stop(buffer.tensor) if buffer.is_flag else buffer.tensor.numpy()

    def write(self, buffer: HostBuffer, values: npt.NDArray[Any]) -> None:
        assert isinstance(buffer, _PaddleBuffer)
        if buffer.is_flag:
            self._ops.set_stop(buffer.tensor, bool(np.reshape(values, -1)[0]))
        else:
            self._ops.write_host(buffer.tensor, np.ascontiguousarray(values, dtype=buffer.spec.dtype))

    def index(self, buffer: HostBuffer) -> None:
        assert isinstance(buffer, _PaddleBuffer)
        self._ops.watch_begin(self._timeout_s)  # the move is a blocking copy
        buffer.tensor[0]
        self._ops.watch_end()
        buffer.is_on_device = self.memory_of(buffer) is None

    def memory_of(self, buffer: HostBuffer) -> Memory | None:
        return None if buffer.tensor.place.is_gpu_place() else buffer.memory  # type: ignore[attr-defined]

    def poison(self, buffer: HostBuffer) -> None:
        if self.memory_of(buffer) is not None:
            self._ops.poison(buffer.tensor, POISON_BYTE)  # type: ignore[attr-defined]

    def poisoned(self, buffer: HostBuffer) -> int:
        if self.memory_of(buffer) is None:
            return 0
        values = np.ascontiguousarray(buffer.tensor.numpy()).reshape(-1)  # type: ignore[attr-defined]
        bytes_of_elements = values.view(np.uint8).reshape(values.size, values.itemsize)
        return int((bytes_of_elements == POISON_BYTE).all(axis=1).sum())

    def event(self) -> Event:
        return self._ops.Event(wait=self._plan.wait.value)  # type: ignore[no-any-return]

    def record(self, event: Event, stream: Stream | None = None) -> None:
        event.record(None if stream is None else stream.handle)  # type: ignore[attr-defined]

    def wait(self, event: Event) -> None:
        event.wait(self._timeout_s)  # type: ignore[attr-defined]

    def stream(self) -> Stream:
        made = self._ops.Stream()
        self._streams.append(made)
        return made  # type: ignore[no-any-return]

    def synchronize(self) -> None:
        self._ops.synchronize_current(self._timeout_s)

    def hold(self) -> None:
        self._latch = self._ops.Latch(self._timeout_s)
        self._latch.launch()

    def release(self) -> None:
        self._latch.release()

    def stamps(self) -> npt.NDArray[np.int64]:
        for stream in self._streams:  # an update may have run there
            stream.synchronize(self._timeout_s)
        self.synchronize()
        return np.asarray(self._stamps.numpy(), dtype=np.int64)

    def close(self) -> None:
        """Wait for queued work, so that no kernel writes memory that is freed here."""
        if self._latch is not None:
            self._latch.release()
        self.synchronize()
        for stream in self._streams:
            stream.synchronize(self._timeout_s)


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
