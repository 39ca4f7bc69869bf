"""A decode loop in PyTorch, to be captured by Nsight Systems and by torch.profiler: the same loop, two tools.

usage: python benchmarks/torch_loop.py item|cpu|fence|next [--kineto TRACE.json] [--steps 60]

Each step runs device work of about 500 µs and two small kernels, moves 64 ids and a flag to the host, and works 200 µs
on the host.  `item` and `cpu` copy as people write it, `fence` waits for an event in the same step, `next` one step
later.
Steps are marked decode_step, as an NVTX range and as a record_function.  CUDA's profiler is started and stopped around
the counted steps (nsys profile -c cudaProfilerApi).
"""

import argparse
import time

import torch
from torch.profiler import ProfilerActivity, profile, record_function

_DEVICE_US, _HOST_US, _ROWS = 500, 200, 64


def _cycles(microseconds: int) -> int:
    """Return how many cycles torch.cuda._sleep needs for a time, measured here."""
    torch.cuda._sleep(1_000_000)
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    torch.cuda._sleep(10_000_000)
    end.record()
    torch.cuda.synchronize()
    return int(10_000_000 * microseconds / (start.elapsed_time(end) * 1000))


class _Loop:
    def __init__(self, variant: str) -> None:
        self.variant = variant
        self.cycles = _cycles(_DEVICE_US)
        self.ids = torch.zeros(_ROWS, dtype=torch.int64, device="cuda")
        self.host_ids = [torch.zeros(_ROWS, dtype=torch.int64).pin_memory() for _ in range(2)]
        self.host_flag = [torch.zeros(1, dtype=torch.bool).pin_memory() for _ in range(2)]
        self.events = [torch.cuda.Event() for _ in range(2)]
        self.checksum = 0

    def step(self, k: int) -> None:
        with self._range("forward"):
            torch.cuda._sleep(self.cycles)
            self.ids.add_(1)
            flag = self.ids.max() > 0
        with self._range("transfer"):
            self._transfer(k, flag)
        with self._range("host"):
            until = time.perf_counter_ns() + _HOST_US * 1000
            while time.perf_counter_ns() < until:
                pass
        if self.variant in ("fence", "next"):
            with self._range("fence"):
                read = k if self.variant == "fence" else k - 1
                if read >= 0:
                    self.events[read % 2].synchronize()
                    self.checksum += int(self.host_ids[read % 2][0])

    def _transfer(self, k: int, flag: torch.Tensor) -> None:
        if self.variant == "item":
            self.checksum += int(self.ids.cpu()[0])
            bool(flag.item())
        elif self.variant == "cpu":
            self.checksum += int(self.ids.cpu()[0])
            bool(flag.cpu()[0] if flag.dim() else flag.cpu())
        else:
            self.host_ids[k % 2].copy_(self.ids, non_blocking=True)
            self.host_flag[k % 2].copy_(flag.reshape(1), non_blocking=True)
            self.events[k % 2].record()

    def _range(self, name: str) -> "_Both":
        return _Both(name)


class _Both:
    """A range for both tools: NVTX and record_function."""

    def __init__(self, name: str) -> None:
        self._name, self._function = name, record_function(name)

    def __enter__(self) -> None:
        torch.cuda.nvtx.range_push(self._name)
        self._function.__enter__()

    def __exit__(self, *error: object) -> None:
        self._function.__exit__(*error)
        torch.cuda.nvtx.range_pop()


def _run(loop: _Loop, first: int, steps: int) -> None:
    for k in range(first, first + steps):
        with _Both("decode_step"):
            loop.step(k)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("variant", choices=("item", "cpu", "fence", "next"))
    parser.add_argument("--kineto")
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()
    loop = _Loop(options.variant)
    _run(loop, 0, 10)
    torch.cuda.synchronize()
    if options.kineto is None:
        torch.cuda.profiler.start()
        _run(loop, 10, options.steps)
        torch.cuda.synchronize()
        torch.cuda.profiler.stop()
        return
    config = torch._C._profiler._ExperimentalConfig(enable_cuda_sync_events=True)
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, experimental_config=config) as tracer:
        _run(loop, 10, options.steps)
        torch.cuda.synchronize()
    tracer.export_chrome_trace(options.kineto)


if __name__ == "__main__":
    main()
