"""The backend without a GPU: a discrete-event model in virtual time, driven by a measured device profile.

Step times are not scripted: they follow from the profile's costs and from what scenario and mode do.  The model is a
host thread, one compute stream, one copy engine from device to host, launches that cost host time and start with a
latency, gaps between operations, blocking copies through pageable staging, and a wake-up after each wait.
The decode state is real: the same scenario and mode code runs, and its tokens are checked like a GPU's.
"""

import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.backends._des import Engine, Op, Simulator, Stream
from fdprof.backends.protocol import ClockSample, Event, HostBuffer, LoopPlan
from fdprof.errors import ScenarioFailed
from fdprof.model import ClockInfo, Environment, Memory, TensorSpec
from fdprof.profiles.profile import DeviceProfile, load_profile
from fdprof.tokens import IDLE_TOKEN, KV_BLOCK_TOKENS, STEP_TAGS, ordinary_tokens, output_lengths
from fdprof.version import VERSION

_NS_PER_S = 1_000_000_000


class SimBackend:
    """Virtual time on a modelled device."""

    name = "sim"

    @classmethod
    def missing(cls) -> tuple[str, str] | None:
        return None

    def __init__(self, timeout_s: float, profile: str = "h200") -> None:
        self.profile: DeviceProfile = load_profile(profile)
        self._timeout_ns = round(timeout_s * _NS_PER_S)
        self._simulator = Simulator(self.profile.gap_ns)

    def clock_ns(self) -> int:
        return self._simulator.now_ns

    def host_work(self, duration_ns: int) -> None:
        if not duration_ns:
            return
        self._simulator.advance(duration_ns + self.profile.host.work_call_ns)

    def open_loop(self, plan: LoopPlan) -> "SimLoop":
        return SimLoop(self._simulator, self.profile, plan, self._timeout_ns)

    def clock_sample(self) -> ClockSample:
        now = self._simulator.now_ns
        return ClockSample(host_ns=now, device_ns=now, error_ns=0)

    def clock_info(self, samples: Sequence[ClockSample]) -> ClockInfo:
        return ClockInfo("virtual time", "virtual time", "one clock: virtual time", 0, None)

    def environment(self) -> Environment:
        return Environment(
            fdprof=VERSION,
            python=platform.python_version(),
            os=platform.system(),
            cpu="simulated",
            cpu_count=os.cpu_count(),
            gpu=f"{self.profile.gpu} (simulated)",
            profile=self.profile.name,
        )

    def caveats(self) -> tuple[str, ...]:
        return (
            f"simulated: no GPU was used; every time comes from a model with the measured costs of profile "
            f"{self.profile.name} ({self.profile.gpu}, {self.profile.framework})",
        )


@dataclass(slots=True)
class _SimEvent:
    """An event: the operation recorded last, if any."""

    op: Op | None = None


@dataclass(frozen=True, slots=True)
class _SimBuffer:
    spec: TensorSpec
    memory: Memory
    array: npt.NDArray[Any]


class SimLoop:
    """The device side of one block in virtual time (backends.protocol.DeviceLoop)."""

    def __init__(self, simulator: Simulator, profile: DeviceProfile, plan: LoopPlan, timeout_ns: int) -> None:
        self._sim = simulator
        self._card, self._host = profile.card, profile.host
        self._plan = plan
        self._timeout_ns = timeout_ns
        self._compute = Stream()
        self._to_host = Engine()
        self._stamps = np.zeros((plan.max_steps, plan.kernels + 1, 2), dtype=np.int64)
        self._launched = 0
        self._latch: Op | None = None
        self._state = _DecodeState(plan)

    def forward(self) -> None:
        self._sim.advance(self._host.between_calls_ns)
        kernels, step = self._plan.kernels, self._launched
        if step >= self._plan.max_steps:
            raise ScenarioFailed(f"step {step} was launched, but stamps are kept for {self._plan.max_steps} steps")
        stamps = self._stamps

        def stamp(op: Op) -> None:
            assert op.starts_ns is not None and op.ends_ns is not None
            stamps[step, :kernels, 0] = op.starts_ns
            stamps[step, :kernels, 1] = op.ends_ns

        self._launch(kernels, self._plan.kernel_ns + self._card.kernel_overhead_ns, stamp)

    def update(self) -> None:
        self._sim.advance(self._host.between_calls_ns)
        step = self._launched
        self._launched += 1
        stamps, state = self._stamps, self._state

        def advance(op: Op) -> None:
            assert op.starts_ns is not None and op.ends_ns is not None
            stamps[step, -1] = op.starts_ns[0], op.ends_ns[0]
            state.advance()

        self._launch(1, self._card.update_ns, advance)

    def _launch(self, count: int, duration_ns: int, effect: Any) -> None:
        stream, depth = self._compute, self._card.launch_queue_depth
        if stream.pending_launches + count > depth:
            # A full launch queue blocks the launching call until kernels have ended.
            limit = max(depth - count, 0)
            self._sim.block_until(lambda: stream.pending_launches <= limit, self._timeout_ns, "a launch")
        first = self._sim.now_ns + self._host.launch_call_ns
        each = self._host.kernel_launch_ns
        # The latency counts from the start of each launch call; a queued kernel does not feel it.
        issued = [first + i * each + self._card.kernel_start_ns for i in range(count)]
        stream.pending_launches += count
        self._sim.queue(stream, Op("kernel", duration_ns, issued, effect))
        self._sim.advance(self._host.launch_call_ns + count * each)

    def host_buffer(self, spec: TensorSpec, memory: Memory) -> HostBuffer:
        array = np.zeros(spec.shape, dtype=spec.dtype)
        if spec.name == "not_need_stop":
            array[:] = True
        return _SimBuffer(spec, memory, array)

    def copy(self, spec: TensorSpec, into: HostBuffer) -> None:
        self._sim.advance(self._host.between_calls_ns)
        assert isinstance(into, _SimBuffer)
        if into.memory is Memory.PAGEABLE:
            self._blocking_copy(spec, into.array, self._host.copy_call_ns, 0)
            return
        self._queue_copy(spec, into.array, self._sim.now_ns + self._host.copy_call_ns + self._card.copy_start_ns)
        self._sim.advance(self._host.copy_call_ns)

    def fetch(self, spec: TensorSpec) -> HostBuffer:
        self._sim.advance(self._host.between_calls_ns)
        array = np.empty(spec.shape, dtype=spec.dtype)
        self._blocking_copy(spec, array, self._host.fetch_before_ns, self._host.fetch_after_ns)
        return _SimBuffer(spec, Memory.PAGEABLE, array)

    def _queue_copy(self, spec: TensorSpec, array: npt.NDArray[Any], issued_ns: int) -> Op:
        source = self._state.tensors[spec.name]

        def land(op: Op) -> None:
            array[...] = source

        duration = self._card.copy_ns(spec.size_bytes)
        return self._sim.queue(self._compute, Op("copy", duration, (issued_ns,), land, self._to_host))

    def _blocking_copy(self, spec: TensorSpec, array: npt.NDArray[Any], before_ns: int, after_ns: int) -> None:
        """Copy through pageable staging: the call returns after the copy and the staging have ended."""
        self._sim.advance(before_ns)
        op = self._queue_copy(spec, array, self._sim.now_ns + self._card.copy_start_ns)
        self._sim.block_until(lambda: op.end_ns is not None, self._timeout_ns, f"the copy of {spec.name}")
        self._sim.advance(self._card.staging_ns(spec.size_bytes) + self._card.wake_ns + after_ns)

    def read(self, buffer: HostBuffer) -> Any:
        self._sim.advance(self._host.between_calls_ns)
        assert isinstance(buffer, _SimBuffer)
        if buffer.array.dtype == np.bool_ and buffer.array.size == 1:
            self._sim.advance(self._host.read_flag_ns)
            return bool(buffer.array.flat[0])
        self._sim.advance(self._host.read_array_ns)
        return buffer.array.copy()

    def event(self) -> Event:
        return _SimEvent()

    def record(self, event: Event) -> None:
        self._sim.advance(self._host.between_calls_ns)
        assert isinstance(event, _SimEvent)
        event.op = self._sim.queue(self._compute, Op("event", 0, (self._sim.now_ns + self._host.record_ns,)))
        self._sim.advance(self._host.record_ns)

    def wait(self, event: Event) -> None:
        self._sim.advance(self._host.between_calls_ns)
        assert isinstance(event, _SimEvent)
        op = event.op
        if op is None:
            raise ScenarioFailed("the event was never recorded", "record it after the copies and before the wait")
        self._sim.advance(self._host.wait_call_ns)
        if op.end_ns is None:
            self._sim.block_until(lambda: op.end_ns is not None, self._timeout_ns, "the fence")
            self._sim.advance(self._card.wake_ns)

    def synchronize(self) -> None:
        self._sim.advance(self._host.between_calls_ns)
        self._sim.advance(self._host.wait_call_ns)
        if self._compute.queue:
            self._sim.block_until(lambda: not self._compute.queue, self._timeout_ns, "the stream synchronisation")
            self._sim.advance(self._card.wake_ns)

    def hold(self) -> None:
        self._latch = self._sim.queue(self._compute, Op("latch", 0, (self._sim.now_ns,)))

    def release(self) -> None:
        assert self._latch is not None
        self._sim.end_latch(self._compute, self._latch)

    def stamps(self) -> npt.NDArray[np.int64]:
        if self._compute.queue:
            self._sim.block_until(lambda: not self._compute.queue, self._timeout_ns, "the end of the loop")
        return self._stamps

    def close(self) -> None:
        return None


class _DecodeState:
    """The decode state of a batch, advanced one step at a time as the update kernel does (ops/csrc)."""

    def __init__(self, plan: LoopPlan) -> None:
        rows = plan.sequences
        self._plan = plan
        self._request = np.arange(rows, dtype=np.int64)
        self._position = np.zeros(rows, dtype=np.int64)
        self._length = output_lengths(plan.seed, self._request, plan.mean_length)
        self.tensors: dict[str, npt.NDArray[Any]] = {
            "sampled_token_ids": np.full((rows, 1), IDLE_TOKEN, dtype=np.int64),
            "not_need_stop": np.array([True]),
            "seq_lens_this_time": np.ones((rows, 1), dtype=np.int32),
            "is_block_step": np.zeros(rows, dtype=np.bool_),
            "sequence_number": np.zeros(1, dtype=np.int64),
        }

    def advance(self) -> None:
        plan, tensors = self._plan, self.tensors
        step = int(tensors["sequence_number"][0])
        live = self._request >= 0
        stops = live & ((self._position == self._length - 1) | (step >= plan.last_step))
        token = ordinary_tokens(plan.seed, self._request, self._position, step)
        token[stops] = step % STEP_TAGS
        token[~live] = IDLE_TOKEN
        tensors["sampled_token_ids"][:, 0] = token

        self._position[live] += 1
        if stops.any():
            if step >= plan.last_step:
                self._request[stops] = -1
            else:
                self._request[stops] += plan.sequences
                self._length[stops] = output_lengths(plan.seed, self._request[stops], plan.mean_length)
            self._position[stops] = 0
            live = self._request >= 0
        tensors["seq_lens_this_time"][:, 0] = live
        tensors["is_block_step"][:] = live & (self._position > 0) & (self._position % KV_BLOCK_TOKENS == 0)
        tensors["not_need_stop"][0] = live.any()
        tensors["sequence_number"][0] = step + 1


BACKEND = SimBackend
