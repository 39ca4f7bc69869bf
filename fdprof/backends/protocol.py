"""What a backend must offer: a host clock, host work, and the device side of one block of the loop.

Modes and scenarios speak only this.  A backend makes time pass: really on a GPU, in virtual time on the simulator.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fdprof.model import ClockInfo, Environment, Memory, TensorSpec

DECODE_TENSORS = ("sampled_token_ids", "not_need_stop", "seq_lens_this_time", "is_block_step", "sequence_number")
"""Device tensors that the update kernel writes each step."""


def tensor_spec(name: str, sequences: int) -> TensorSpec:
    """Return shape and dtype of a decode tensor for a batch of `sequences` rows (FastDeploy's input_batch.py)."""
    shapes: dict[str, tuple[tuple[int, ...], str]] = {
        "sampled_token_ids": ((sequences, 1), "int64"),
        "not_need_stop": ((1,), "bool"),
        "seq_lens_this_time": ((sequences, 1), "int32"),
        "is_block_step": ((sequences,), "bool"),
        "sequence_number": ((1,), "int64"),
    }
    shape, dtype = shapes[name]
    return TensorSpec(name, shape, dtype)


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """What the device is asked to do in one block."""

    sequences: int
    seed: int
    mean_length: int
    last_step: int  # the token budget ends here: every row stops at this step
    max_steps: int  # stamps are kept for this many steps; launching more is an error
    kernels: int  # launches a step before the update
    kernel_ns: int  # how long each of them runs


class HostBuffer(Protocol):
    """Host memory for one tensor."""

    @property
    def spec(self) -> TensorSpec: ...

    @property
    def memory(self) -> Memory: ...


class Event(Protocol):
    """A point in a stream that the host can wait for."""


class DeviceLoop(Protocol):
    """The device side of one block: state, kernels, buffers, copies, events.  All work goes to the compute stream."""

    def forward(self) -> None:
        """Queue the step's kernels."""

    def update(self) -> None:
        """Queue the kernel that makes every row's next token, its stop and not_need_stop."""

    def host_buffer(self, spec: TensorSpec, memory: Memory) -> HostBuffer:
        """Return a host buffer for `spec`; not_need_stop starts as True, the rest as zero."""

    def copy(self, spec: TensorSpec, into: HostBuffer) -> None:
        """Queue the copy of a device tensor into `into`, non-blocking if its memory allows."""

    def fetch(self, spec: TensorSpec) -> HostBuffer:
        """Return the tensor's value in new pageable memory; blocks until it is there (Paddle's `.cpu()`)."""

    def read(self, buffer: HostBuffer) -> Any:
        """Return what the buffer holds now, with no fence: a bool for one-element bool tensors, else a NumPy copy."""

    def event(self) -> Event:
        """Return a new event, timing off."""

    def record(self, event: Event) -> None:
        """Record the event behind all work queued so far."""

    def wait(self, event: Event) -> None:
        """Block the host until the event is done; ScenarioFailed when that takes longer than the timeout."""

    def synchronize(self) -> None:
        """Block the host until all queued work is done; ScenarioFailed when that takes longer than the timeout."""

    def hold(self) -> None:
        """Queue a latch: work queued behind it does not start before `release`."""

    def release(self) -> None:
        """Open the latch."""

    def stamps(self) -> npt.NDArray[np.int64]:
        """Return [max_steps, kernels + 1, 2] start and end stamps in device ns; waits for the device.  0: not run."""

    def close(self) -> None:
        """Free what the block held."""


@dataclass(frozen=True, slots=True)
class ClockSample:
    """One alignment: `device_ns` on the device's clock is `host_ns` on the host's, to within `error_ns`."""

    host_ns: int
    device_ns: int
    error_ns: int


class Backend(Protocol):
    """A source of devices.  `BACKEND` in each file of this folder is a class with these members."""

    name: str

    @classmethod
    def missing(cls) -> tuple[str, str] | None:
        """Return what is missing to use this backend here and how to supply it, or None when it works."""

    def __init__(self, timeout_s: float) -> None: ...

    def clock_ns(self) -> int:
        """Return the host clock."""

    def host_work(self, duration_ns: int) -> None:
        """Keep the host thread busy for so long."""

    def open_loop(self, plan: LoopPlan) -> DeviceLoop: ...

    def clock_sample(self) -> ClockSample:
        """Return one alignment of the device clock with the host clock."""

    def clock_info(self, samples: Sequence[ClockSample]) -> ClockInfo:
        """Return how these alignments were made and what they are worth."""

    def environment(self) -> Environment: ...

    def caveats(self) -> tuple[str, ...]:
        """Return what every report of a run on this backend must say."""
