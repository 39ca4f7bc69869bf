"""What a backend must offer: a host clock, host work, and the device side of one block of the loop.

Modes and scenarios speak only this.  A backend makes time pass: really on a GPU, in virtual time on the simulator.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fdprof.model import ClockInfo, Environment, GpuState, Group, Launch, Memory, TensorSpec, WaitStyle
from fdprof.tokens import StreamSpec

POISON_BYTE = 0xA5
"""What an audited run fills host buffers with before each copy: no bool, token, count or payload has these bytes."""


def tensor_spec(name: str, sequences: int, draft_tokens: int = 0) -> TensorSpec:
    """Return shape and dtype of a decode tensor for a batch of `sequences` rows (FastDeploy's input_batch.py)."""
    shapes: dict[str, tuple[tuple[int, ...], str]] = {
        "sampled_token_ids": ((sequences, 1), "int64"),
        "not_need_stop": ((1,), "bool"),
        "seq_lens_this_time": ((sequences, 1), "int32"),
        "is_block_step": ((sequences,), "bool"),
        "accept_tokens": ((sequences, draft_tokens + 1), "int64"),
        "accept_num": ((sequences,), "int32"),
        "seq_lens_decoder": ((sequences, 1), "int32"),
        "prompt_lens": ((sequences, 1), "int64"),
        "real_output_token_num": ((1,), "int32"),
    }
    shape, dtype = shapes[name]
    return TensorSpec(name, shape, dtype)


MADE_IN_PREPARE = frozenset({"seq_lens_this_time", "is_block_step", "real_output_token_num"})
MADE_IN_UPDATE = frozenset(
    {"sampled_token_ids", "not_need_stop", "accept_tokens", "accept_num", "seq_lens_decoder", "prompt_lens"}
)
"""Tensors that have a meaning to the loop, by the kernel that makes them.  A tensor of any other name is a payload
(fdprof.tokens.payload), made by the kernel that its group names."""


@dataclass(frozen=True, slots=True)
class LoopPlan:
    """What the device is asked to do in one block."""

    stream: StreamSpec
    groups: tuple[Group, ...]
    max_steps: int  # stamps are kept for this many steps; launching more is an error
    kernels: int  # kernels of a step's forward pass
    kernel_ns: npt.NDArray[np.int64]  # [max_steps], how long each of them runs at each step
    launch: Launch = Launch.KERNELS
    wait: WaitStyle = WaitStyle.SPIN


class HostBuffer(Protocol):
    """Host memory for one tensor."""

    @property
    def spec(self) -> TensorSpec: ...

    @property
    def memory(self) -> Memory: ...


class Event(Protocol):
    """A point in a stream that the host or another stream can wait for."""


class Stream(Protocol):
    """A non-blocking stream beside the compute stream: unordered with it but for events."""


class Publication(Protocol):
    """A group that its kernel writes to mapped memory by itself, and the sequence number that says so."""


class DeviceLoop(Protocol):
    """The device side of one block: state, kernels, buffers, copies, events.

    Work goes to the compute stream where no stream is given (None).  A step is prepare (if the scenario has it),
    forward, update; each is launched once a step and reads the step's number on the device.
    """

    def prepare(self) -> None:
        """Queue the pre-processing kernel: it takes in an inserted request and makes the PREPARE tensors."""

    def forward(self) -> None:
        """Queue the step's kernels, one by one or as one CUDA graph, as the plan says."""

    def update(self, launch_tokens: int = -1, stream: Stream | None = None) -> None:
        """Queue the kernel that makes every row's next tokens, its stop, and the UPDATE tensors; count the step.

        `launch_tokens` is how many rows the host launched for (-1: all).  With fewer than the rows that are active,
        as many rows at the end of the batch are not computed: their values stay those of an earlier step.
        """

    def host_buffer(self, spec: TensorSpec, memory: Memory) -> HostBuffer:
        """Return a host buffer for `spec`, pinned, mapped or pageable; not_need_stop starts as True, the rest as zero.

        It may reuse the memory of a released buffer, whatever that holds.
        """

    def release_buffer(self, buffer: HostBuffer) -> None:
        """Give the buffer's memory back: the next host_buffer of its kind may get it at once."""

    def copy(self, spec: TensorSpec, into: HostBuffer, stream: Stream | None = None) -> None:
        """Queue the copy of a device tensor into `into`, non-blocking if its memory allows."""

    def fetch(self, spec: TensorSpec) -> HostBuffer:
        """Return the tensor's value in new pageable memory; blocks until it is there (Paddle's `.cpu()`).

        It runs on the legacy default stream: it waits for the compute stream and for no stream made by `stream()`.
        """

    def upload(self, spec: TensorSpec, source: HostBuffer, stream: Stream | None = None) -> None:
        """Queue the copy of a host buffer to a device tensor; the source is read when the copy runs, not now."""

    def store(self, spec: TensorSpec, source: HostBuffer) -> None:
        """Copy a host buffer to a device tensor and block until it is there; on the legacy default stream."""

    def publish(self, group: Group, slots: Sequence[Sequence[HostBuffer]]) -> Publication:
        """Let the group's kernel write its tensors to mapped memory: those of step s to the buffers of slot s % slots.

        The kernel writes the values, then a system-scope fence, then the sequence number s + 1.  Call it before the
        first step.
        """

    def poll(self, publication: Publication, step: int) -> None:
        """Wait until the values of `step` are published; ScenarioFailed when that takes longer than the timeout."""

    def read(self, buffer: HostBuffer) -> Any:
        """Return what the buffer holds now, with no fence: a bool for one-element bool tensors, else a NumPy copy."""

    def write(self, buffer: HostBuffer, values: npt.NDArray[Any]) -> None:
        """Write a host buffer, with no fence; a flag is written by set_stop."""

    def index(self, buffer: HostBuffer) -> None:
        """Index the buffer in Python (`tensor[0]`): what moves one of Paddle's pinned tensors to the device for good.

        Every later copy into it is then one from device to device, and a read of it one that blocks.
        """

    def memory_of(self, buffer: HostBuffer) -> Memory | None:
        """Return where the buffer's memory is now; None: on the device."""

    def poison(self, buffer: HostBuffer) -> None:
        """Fill a host buffer with POISON_BYTE."""

    def poisoned(self, buffer: HostBuffer) -> int:
        """Return how many elements of the buffer are all POISON_BYTE now."""

    def event(self) -> Event:
        """Return a new event, timing off, that is waited for in the plan's style."""

    def record(self, event: Event, stream: Stream | None = None) -> None:
        """Record the event behind all work queued in the stream so far."""

    def wait(self, event: Event) -> None:
        """Block the host until the event is done; ScenarioFailed when that takes longer than the timeout."""

    def stream(self) -> Stream:
        """Return a new non-blocking stream."""

    def stream_wait(self, event: Event, stream: Stream | None = None) -> None:
        """Make later work of the stream wait for the event; the host does not wait."""

    def synchronize(self) -> None:
        """Block the host until the compute stream is done; ScenarioFailed when that takes longer than the timeout."""

    def hold(self) -> None:
        """Queue a latch: work queued behind it does not start before `release`."""

    def release(self) -> None:
        """Open the latch."""

    def stamps(self) -> npt.NDArray[np.int64]:
        """Return [max_steps, kernels + 2, 2] start and end stamps in device ns; waits for the device.  0: not run.

        The kernels of the forward pass come first, then update, then prepare.
        """

    def close(self) -> None:
        """Wait for all work and free what the block held."""


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

    def thread_cpu_ns(self) -> int:
        """Return the CPU time that the calling thread has used."""

    def host_work(self, duration_ns: int) -> None:
        """Keep the host thread busy for so long."""

    def open_loop(self, plan: LoopPlan) -> DeviceLoop: ...

    def disturb(self, seed: int | None) -> None:
        """Delay the copies of later loops as far as the backend's model allows, by this seed; None: no longer.

        A real device does nothing here: its timing is its own.
        """

    def clock_sample(self) -> ClockSample:
        """Return one alignment of the device clock with the host clock."""

    def clock_info(self, samples: Sequence[ClockSample]) -> ClockInfo:
        """Return how these alignments were made and what they are worth."""

    def gpu_state(self) -> GpuState | None:
        """Return the GPU's clocks and what holds them down; None where there is none, or none that can be asked."""

    def environment(self) -> Environment: ...

    def caveats(self) -> tuple[str, ...]:
        """Return what every report of a run on this backend must say."""
