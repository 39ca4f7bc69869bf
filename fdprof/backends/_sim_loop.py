"""The device side of one block on the simulator: what each call costs the host, and what it queues on the device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.backends import protocol
from fdprof.backends._adversary import Adversary
from fdprof.backends._decode_state import DecodeState
from fdprof.backends._des import Engine, Op, Simulator, Stream
from fdprof.backends.protocol import POISON_BYTE, Event, HostBuffer, LoopPlan, Publication
from fdprof.errors import ScenarioFailed
from fdprof.model import Group, Launch, Memory, Producer, TensorSpec, WaitStyle
from fdprof.profiles.profile import DeviceProfile

_COLD_AFTER_NS = 30_000

Array = npt.NDArray[Any]


@dataclass(slots=True, eq=False)
class _SimEvent:
    """An event: the operation recorded last, if any."""

    op: Op | None = None


@dataclass(slots=True, eq=False)
class _SimBuffer:
    """Host memory for one tensor; once it was indexed, its values lie in `on_device` instead."""

    spec: TensorSpec
    memory: Memory
    array: Array
    on_device: Array | None = None

    @property
    def is_flag(self) -> bool:
        return self.array.dtype == np.bool_ and self.array.size == 1

    @property
    def values(self) -> Array:
        return self.array if self.on_device is None else self.on_device


@dataclass(slots=True, eq=False)
class _SimPublication:
    """A published group: its slots, and what the host sees of its sequence number."""

    group: Group
    slots: Sequence[Sequence[_SimBuffer]]
    number: int = 0
    last_visible_ns: int = 0


class SimLoop:
    """The device side of one block in virtual time (backends.protocol.DeviceLoop)."""

    def __init__(
        self,
        simulator: Simulator,
        profile: DeviceProfile,
        plan: LoopPlan,
        timeout_ns: int,
        adversary: Adversary | None = None,
    ) -> None:
        self._sim = simulator
        self._card, self._host = profile.card, profile.host
        self._plan = plan
        self._timeout_ns = timeout_ns
        self._compute = Stream()
        self._streams = [self._compute]
        self._to_host, self._to_device, self._on_device = Engine(), Engine(), Engine()
        self._stamps = np.zeros((plan.max_steps, plan.kernels + 2, 2), dtype=np.int64)
        self._launched = 0
        self._has_begun = False
        self._last_call_ns = 0
        self._warm: set[str] = set()
        self._has_failed = False
        self._latch: Op | None = None
        self._state = DecodeState(plan)
        self._publications: dict[Producer, list[_SimPublication]] = {producer: [] for producer in Producer}
        self._pool: dict[tuple[tuple[int, ...], str, Memory], list[Array]] = {}
        self._wake_ns = {
            WaitStyle.SPIN: self._card.wake_ns,
            WaitStyle.POLL: self._card.wake_poll_ns,
            WaitStyle.YIELD: self._card.wake_yield_ns,
        }
        # Steps of the first one's length are near enough: the adversary only needs a scale.
        step_ns = plan.kernels * int(plan.kernel_ns[0]) + self._card.update_ns
        self._disturber = None if adversary is None else adversary.schedule(step_ns)

    # The kernels of a step.

    def prepare(self) -> None:
        self._has_begun = True
        self._sim.advance(self._host.between_calls_ns)
        self._launch_one(self._compute, Producer.PREPARE, self._card.prepare_ns, self._state.prepare)

    def forward(self) -> None:
        self._has_begun = True
        self._sim.advance(self._host.between_calls_ns)
        step, kernels = self._launchable_step(), self._plan.kernels
        stamps = self._stamps[step, :kernels]

        def stamp(op: Op) -> None:
            assert op.starts_ns is not None and op.ends_ns is not None
            stamps[:, 0] = op.starts_ns
            stamps[:, 1] = op.ends_ns

        duration = int(self._plan.kernel_ns[step]) + self._card.kernel_overhead_ns
        self._launch(self._compute, kernels, duration, stamp, self._plan.launch is Launch.GRAPH)

    def update(self, launch_tokens: int = -1, stream: protocol.Stream | None = None) -> None:
        self._sim.advance(self._host.between_calls_ns)
        state = self._state
        self._launch_one(
            self._stream(stream), Producer.UPDATE, self._card.update_ns, lambda: state.advance(launch_tokens)
        )
        self._launched += 1

    def _launch_one(self, stream: Stream, producer: Producer, duration_ns: int, run: Callable[[], None]) -> None:
        """Launch the kernel that makes the producer's tensors."""
        publications = self._publications[producer]
        kernel = self._plan.kernels + (0 if producer is Producer.UPDATE else 1)
        stamp = self._stamps[self._launchable_step(), kernel]

        def effect(op: Op) -> None:
            assert op.starts_ns is not None and op.ends_ns is not None
            stamp[0], stamp[1] = op.starts_ns[0], op.ends_ns[0]
            step = self._state.step
            run()
            for publication in publications:
                self._show(publication, step, op.ends_ns[0])

        self._launch(stream, 1, duration_ns + len(publications) * self._card.publish_ns, effect)

    def _launchable_step(self) -> int:
        if self._launched >= self._plan.max_steps:
            raise ScenarioFailed(
                f"step {self._launched} was launched, but stamps are kept for {self._plan.max_steps} steps"
            )
        return self._launched

    def _launch(
        self, stream: Stream, count: int, duration_ns: int, effect: Callable[[Op], None], is_graph: bool = False
    ) -> None:
        depth, launches = self._card.launch_queue_depth, 1 if is_graph else count
        if stream.pending_launches + launches > depth:
            # A full launch queue blocks the launching call until kernels have ended.
            limit = max(depth - launches, 0)
            self._block_until(lambda: stream.pending_launches <= limit, "a launch")
        host, now = self._host, self._sim.now_ns
        # The latency counts from the start of each launch call; a queued kernel does not feel it.
        if is_graph:
            call_ns = host.graph_launch_ns
            issued = [now + self._card.graph_start_ns] * count
        else:
            first, each = now + host.launch_call_ns + self._card.kernel_start_ns, host.kernel_launch_ns
            call_ns = host.launch_call_ns + count * each
            issued = [first + i * each for i in range(count)]
        self._sim.queue(stream, Op("kernel", duration_ns, issued, effect, is_graph=is_graph))
        self._sim.advance(call_ns)

    # Host memory.

    def host_buffer(self, spec: TensorSpec, memory: Memory) -> HostBuffer:
        if self._has_begun:  # what is made before the loop is outside of what is timed
            self._enter("allocate")
            self._sim.advance(0 if memory is Memory.PAGEABLE else self._host.allocate_ns(spec.size_bytes))
        released = self._pool.get((spec.shape, spec.dtype, memory))
        if released:
            return _SimBuffer(spec, memory, released.pop())
        array = np.zeros(spec.shape, dtype=spec.dtype)
        if spec.name == "not_need_stop":
            array[:] = True
        return _SimBuffer(spec, memory, array)

    def release_buffer(self, buffer: HostBuffer) -> None:
        assert isinstance(buffer, _SimBuffer)
        pool = self._pool.setdefault((buffer.spec.shape, buffer.spec.dtype, buffer.memory), [])
        if any(array is buffer.array for array in pool):
            raise ScenarioFailed(f"the buffer of {buffer.spec.name} was given back twice", "give each back once")
        pool.append(buffer.array)
        if self._has_begun:
            self._sim.advance(self._host.release_ns)

    def read(self, buffer: HostBuffer) -> Any:
        self._enter("read")
        assert isinstance(buffer, _SimBuffer)
        if buffer.on_device is not None:
            array = self._fetched(buffer.on_device, f"the copy of {buffer.spec.name}")
        else:
            host = self._host
            self._sim.advance(host.read_flag_ns if buffer.is_flag else host.read_ns(buffer.spec.size_bytes))
            array = buffer.array.copy()
        return bool(array.flat[0]) if buffer.is_flag else array

    def write(self, buffer: HostBuffer, values: Array) -> None:
        self._enter("write")
        assert isinstance(buffer, _SimBuffer)
        host = self._host
        self._sim.advance(host.write_flag_ns if buffer.is_flag else host.write_ns(buffer.spec.size_bytes))
        buffer.values[...] = np.asarray(values).reshape(buffer.spec.shape)

    def index(self, buffer: HostBuffer) -> None:
        assert isinstance(buffer, _SimBuffer)
        self._sim.advance(self._host.between_calls_ns)
        if buffer.on_device is not None:
            return
        # The data transform moves the tensor by a copy that blocks (Paddle's data_transform.cc).
        buffer.on_device = np.empty_like(buffer.array)
        self._store(buffer.array, buffer.on_device, f"the move of {buffer.spec.name} to the device")

    def memory_of(self, buffer: HostBuffer) -> Memory | None:
        assert isinstance(buffer, _SimBuffer)
        return buffer.memory if buffer.on_device is None else None

    # The audit takes no virtual time: an audited run has the times of one that is not.

    def poison(self, buffer: HostBuffer) -> None:
        assert isinstance(buffer, _SimBuffer)
        buffer.values.reshape(-1).view(np.uint8)[:] = POISON_BYTE

    def poisoned(self, buffer: HostBuffer) -> int:
        assert isinstance(buffer, _SimBuffer)
        elements = buffer.values.reshape(-1)
        found = elements.view(np.uint8).reshape(elements.size, elements.itemsize) == POISON_BYTE
        return int(np.count_nonzero(found.all(axis=1)))

    def _enter(self, kind: str) -> None:
        """Spend what comes before a call: more, if no call of its kind was made since the host last did other things.

        Its code and data have then left the caches, or the core its pace: seen in every call on the H200's host.
        """
        now_ns = self._sim.now_ns
        if now_ns - self._last_call_ns > _COLD_AFTER_NS:
            self._warm.clear()
        cold_ns = 0 if kind in self._warm else self._host.cold_ns
        self._warm.add(kind)
        self._sim.advance(self._host.between_calls_ns + cold_ns)
        self._last_call_ns = self._sim.now_ns

    # Copies.

    def copy(self, spec: TensorSpec, into: HostBuffer, stream: protocol.Stream | None = None) -> None:
        self._enter("copy")
        assert isinstance(into, _SimBuffer)
        source, queue, call_ns = self._state.tensors[spec.name], self._stream(stream), self._host.copy_call_ns
        if into.on_device is not None:
            self._queue_copy(source, into.on_device, call_ns, queue, self._on_device)
        elif into.memory is Memory.PAGEABLE:
            self._blocking_copy(source, into.array, call_ns, 0, queue, f"the copy of {spec.name}")
            return
        else:
            self._queue_copy(source, into.array, call_ns, queue, self._to_host)
        self._sim.advance(call_ns)

    def fetch(self, spec: TensorSpec) -> HostBuffer:
        self._sim.advance(self._host.between_calls_ns)
        array = self._fetched(self._state.tensors[spec.name], f"the copy of {spec.name}")
        return _SimBuffer(spec, Memory.PAGEABLE, array)

    def _fetched(self, source: Array, what: str) -> Array:
        # The legacy default stream waits for the compute stream and for no other: it runs like one more copy in it.
        array = np.empty_like(source)
        self._blocking_copy(source, array, self._host.fetch_before_ns, self._host.fetch_after_ns, self._compute, what)
        return array

    def upload(self, spec: TensorSpec, source: HostBuffer, stream: protocol.Stream | None = None) -> None:
        assert isinstance(source, _SimBuffer)
        if source.memory is Memory.PAGEABLE:
            self._blocking_upload(spec, source, self._stream(stream))
            return
        self._enter("upload")
        target, call_ns = self._state.tensors[spec.name], self._host.upload_call_ns
        self._queue_upload(source.values, target, call_ns, self._stream(stream))
        self._sim.advance(call_ns)

    def store(self, spec: TensorSpec, source: HostBuffer) -> None:
        assert isinstance(source, _SimBuffer)
        self._blocking_upload(spec, source, self._compute)

    def _blocking_upload(self, spec: TensorSpec, source: _SimBuffer, stream: Stream) -> None:
        self._enter("store")
        self._store(source.values, self._state.tensors[spec.name], f"the copy of {spec.name}", stream)

    def _store(self, source: Array, target: Array, what: str, stream: Stream | None = None) -> None:
        """Copy to the device, and return when the copy has ended."""
        self._sim.advance(self._host.store_before_ns)
        op = self._queue_upload(source, target, 0, stream or self._compute)
        self._block_until(lambda: op.end_ns is not None, what)
        self._sim.advance(self._card.wake_ns + self._host.store_after_ns)

    def _queue_copy(self, source: Array, target: Array, call_ns: int, stream: Stream, engine: Engine) -> Op:
        """Queue a copy that moves what `source` holds when it ends."""

        def land(op: Op) -> None:
            target[...] = source

        size = source.nbytes
        duration = self._card.h2d_ns(size) if engine is self._to_device else self._card.copy_ns(size)
        op = Op("copy", duration, (self._sim.now_ns + call_ns + self._card.copy_start_ns,), land, engine)
        if self._disturber is not None:
            self._disturber.disturb_copy(op, source, target)
        return self._sim.queue(stream, op)

    def _queue_upload(self, source: Array, target: Array, call_ns: int, stream: Stream) -> Op:
        return self._queue_copy(source, target, call_ns, stream, self._to_device)

    def _blocking_copy(
        self, source: Array, target: Array, before_ns: int, after_ns: int, stream: Stream, what: str
    ) -> None:
        """Copy through pageable staging: the call returns after the copy and the staging have ended."""
        self._sim.advance(before_ns)
        op = self._queue_copy(source, target, 0, stream, self._to_host)
        self._block_until(lambda: op.end_ns is not None, what)
        self._sim.advance(self._card.staging_ns(source.nbytes) + self._card.wake_ns + after_ns)

    # Mapped memory.

    def publish(self, group: Group, slots: Sequence[Sequence[HostBuffer]]) -> Publication:
        buffers = [[buffer for buffer in slot if isinstance(buffer, _SimBuffer)] for slot in slots]
        publication = _SimPublication(group, buffers)
        self._publications[group.made_by].append(publication)
        return publication

    def _show(self, publication: _SimPublication, step: int, end_ns: int) -> None:
        """Write the values of `step`, made by a kernel that ended just now, to its slot; then the number."""
        slot = publication.slots[step % len(publication.slots)]
        # Copies: the next kernel may overwrite the tensors before the host sees these.
        pairs = [(self._state.tensors[buffer.spec.name].copy(), buffer.array) for buffer in slot]
        visible_ns = end_ns + self._card.publish_visible_ns
        if self._disturber is not None:
            visible_ns += self._disturber.delay_ns()
        # The device's writes appear in order: not before those of the step before.
        earliest_ns = max(end_ns, publication.last_visible_ns)
        publication.last_visible_ns = visible_ns = max(visible_ns, earliest_ns)
        if self._disturber is not None:
            first, rest = self._disturber.torn(pairs)
            self._sim.at(self._disturber.between_ns(earliest_ns, visible_ns), first.move)
            self._sim.at(self._disturber.between_ns(earliest_ns, visible_ns), rest.move)

        def land() -> None:
            for values, array in pairs:
                array[...] = values
            publication.number = step + 1

        self._sim.at(visible_ns, land)

    def poll(self, publication: Publication, step: int) -> None:
        self._sim.advance(self._host.between_calls_ns)
        assert isinstance(publication, _SimPublication)
        if self._plan.wait is WaitStyle.BLOCKING:
            raise ScenarioFailed(
                f"a sequence number in mapped memory cannot be waited for in style {self._plan.wait.value}: "
                "there is no event to sleep on",
                "wait in another style, or use a mode that copies",
            )
        self._block_until(lambda: publication.number > step, f"the publication of {publication.group.name}")
        self._sim.advance(self._host.poll_call_ns)
        self._put_off()

    # Events and streams.

    def event(self) -> Event:
        return _SimEvent()

    def record(self, event: Event, stream: protocol.Stream | None = None) -> None:
        self._sim.advance(self._host.between_calls_ns)
        assert isinstance(event, _SimEvent)
        event.op = self._sim.queue(self._stream(stream), Op("event", 0, (self._sim.now_ns + self._host.record_ns,)))
        self._sim.advance(self._host.record_ns)

    def wait(self, event: Event) -> None:
        self._sim.advance(self._host.between_calls_ns)
        op = _recorded(event)
        self._sim.advance(self._host.wait_call_ns)
        if op.end_ns is None:
            self._wait_for(op)
        self._put_off()

    def _wait_for(self, op: Op) -> None:
        waited_ns = self._block_until(lambda: op.end_ns is not None, "the fence")
        if self._plan.wait is not WaitStyle.BLOCKING:
            self._sim.advance(self._wake_ns[self._plan.wait])
            return
        wake_ns, cpu_permille = self._card.blocking_wake(waited_ns)
        self._sim.advance(wake_ns)
        whole_ns = waited_ns + wake_ns
        self._sim.slept_ns += whole_ns - whole_ns * cpu_permille // 1000

    def stream(self) -> protocol.Stream:
        stream = Stream()
        self._streams.append(stream)
        return stream

    def stream_wait(self, event: Event, stream: protocol.Stream | None = None) -> None:
        self._sim.advance(self._host.between_calls_ns)
        issued = (self._sim.now_ns + self._host.record_ns,)
        wait = Op("wait", self._card.stream_wait_ns, issued, awaited=_recorded(event))
        self._sim.queue(self._stream(stream), wait)
        self._sim.advance(self._host.record_ns)

    def synchronize(self) -> None:
        self._sim.advance(self._host.between_calls_ns)
        self._sim.advance(self._host.wait_call_ns)
        if self._compute.queue:
            self._block_until(lambda: not self._compute.queue, "the stream synchronisation")
            self._sim.advance(self._card.wake_ns)
        self._put_off()

    def _put_off(self) -> None:
        """Let the adversary keep the host thread from running for a while, as an operating system may."""
        if self._disturber is not None:
            self._sim.advance(self._disturber.delay_ns())

    def hold(self) -> None:
        self._latch = self._sim.queue(self._compute, Op("latch", 0, (self._sim.now_ns,)))

    def release(self) -> None:
        assert self._latch is not None
        self._sim.end_latch(self._compute, self._latch)

    def stamps(self) -> npt.NDArray[np.int64]:
        self._wait_for_all()
        return self._stamps

    def close(self) -> None:
        if not self._has_failed:  # work that did not end in time once is not waited for again
            self._wait_for_all()

    def _wait_for_all(self) -> None:
        self._block_until(lambda: not any(stream.queue for stream in self._streams), "the end of the loop")

    def _block_until(self, is_done: Callable[[], bool], what: str) -> int:
        try:
            return self._sim.block_until(is_done, self._timeout_ns, what)
        except ScenarioFailed:
            self._has_failed = True
            raise

    def _stream(self, stream: protocol.Stream | None) -> Stream:
        if stream is None:
            return self._compute
        assert isinstance(stream, Stream)
        return stream


def _recorded(event: Event) -> Op:
    assert isinstance(event, _SimEvent)
    if event.op is None:
        raise ScenarioFailed("the event was never recorded", "record it after the copies and before the wait")
    return event.op
