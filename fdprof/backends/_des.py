"""The discrete-event core of the simulator: one host thread, in-order streams, copy engines, in virtual time.

It knows durations and order, not what the work means; data moves in the `effect` of an operation, at its end.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fdprof.errors import ScenarioFailed


@dataclass(slots=True)
class Op:
    """One piece of work in a stream.  `end_ns` is None until it has ended."""

    kind: str  # "kernel", "copy", "event" or "latch"
    duration_ns: int
    issued_ns: Sequence[int]  # earliest start of each of its parts by the host's launches
    effect: Callable[[Op], None] | None = None
    engine: Engine | None = None
    starts_ns: list[int] | None = None
    ends_ns: list[int] | None = None
    end_ns: int | None = None


class Engine:
    """A copy engine: one copy at a time, first ready first served."""

    def __init__(self) -> None:
        self.free_ns = 0
        self.is_busy = False
        self.waiting: deque[Callable[[], None]] = deque()


class Stream:
    """Operations that run in the order they were queued."""

    def __init__(self) -> None:
        self.queue: deque[Op] = deque()
        self.head_started = False
        self.last_kind = "none"
        self.last_end_ns = 0
        self.pending_launches = 0


class Simulator:
    """Virtual time.  `gap_ns(before, after)` is the device's idle time between two operations of one stream."""

    def __init__(self, gap_ns: Callable[[str, str], int]) -> None:
        self.now_ns = 0
        self._gap_ns = gap_ns
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0

    def advance(self, duration_ns: int) -> None:
        """Let the host thread spend so long; the device goes on meanwhile."""
        target = self.now_ns + duration_ns
        while self._heap and self._heap[0][0] <= target:
            self._run_next()
        self.now_ns = target

    def block_until(self, is_done: Callable[[], bool], timeout_ns: int, what: str) -> None:
        """Block the host until `is_done`; ScenarioFailed when nothing can make it so within the timeout."""
        deadline = self.now_ns + timeout_ns
        while not is_done():
            if not self._heap or self._heap[0][0] > deadline:
                self.now_ns = deadline
                raise ScenarioFailed(
                    f"{what} did not end within {timeout_ns / 1e9:g} s",
                    "raise --timeout if the device work of a step is meant to be that long",
                )
            at = self._heap[0][0]
            self._run_next()
            self.now_ns = max(self.now_ns, at)

    def queue(self, stream: Stream, op: Op) -> Op:
        """Append `op` to the stream."""
        stream.queue.append(op)
        if len(stream.queue) == 1:
            self._start_head(stream)
        return op

    def end_latch(self, stream: Stream, op: Op) -> None:
        """End a latch now; it must be at the head of its stream."""
        assert stream.queue[0] is op, "the latch is not at the head of its stream"
        self._finish(stream, op, self.now_ns)

    def _at(self, time_ns: int, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (time_ns, self._sequence, action))

    def _run_next(self) -> None:
        _, _, action = heapq.heappop(self._heap)
        action()

    def _start_head(self, stream: Stream) -> None:
        op = stream.queue[0]
        if op.kind == "latch":
            return  # ends when the host says so
        if op.kind == "event":
            end = max(stream.last_end_ns, op.issued_ns[0])
            self._at(end, lambda: self._finish(stream, op, end))
            return
        ready = max(stream.last_end_ns + self._gap_ns(stream.last_kind, op.kind), op.issued_ns[0])
        if op.engine is None:
            self._run_kernels(stream, op, ready)
        else:
            engine = op.engine
            self._at(ready, lambda: self._offer_copy(stream, op, engine, ready))

    def _run_kernels(self, stream: Stream, op: Op, ready: int) -> None:
        """Place the op's kernels one after another; each also waits for its own launch."""
        gap = self._gap_ns("kernel", "kernel")
        starts, ends = [], []
        free = ready - gap
        for issued in op.issued_ns:
            start = max(free + gap, issued)
            free = start + op.duration_ns
            starts.append(start)
            ends.append(free)
        op.starts_ns, op.ends_ns = starts, ends
        self._at(free, lambda: self._finish(stream, op, free))

    def _offer_copy(self, stream: Stream, op: Op, engine: Engine, ready: int) -> None:
        if engine.is_busy:
            engine.waiting.append(lambda: self._run_copy(stream, op, engine, max(ready, engine.free_ns)))
        else:
            self._run_copy(stream, op, engine, max(ready, engine.free_ns))

    def _run_copy(self, stream: Stream, op: Op, engine: Engine, start: int) -> None:
        engine.is_busy = True
        end = start + op.duration_ns
        op.starts_ns, op.ends_ns = [start], [end]

        def finish() -> None:
            engine.is_busy, engine.free_ns = False, end
            if engine.waiting:
                engine.waiting.popleft()()
            self._finish(stream, op, end)

        self._at(end, finish)

    def _finish(self, stream: Stream, op: Op, end: int) -> None:
        op.end_ns = end
        stream.queue.popleft()
        if op.kind != "event":  # an event takes no device time and so opens no gap
            stream.last_kind, stream.last_end_ns = op.kind, end
            if op.kind == "kernel":
                stream.pending_launches -= len(op.issued_ns)
        if op.effect is not None:
            op.effect(op)
        if stream.queue:
            self._start_head(stream)
