"""The discrete-event core of the simulator: one host thread, in-order streams, copy engines, in virtual time.

It knows durations and order, not what the work means; data moves in the `effect` of an operation, at its end.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache

from fdprof.errors import ScenarioFailed

Action = Callable[[], None]


@dataclass(slots=True)
class Op:
    """One piece of work in a stream.  `end_ns` is None until it has ended."""

    kind: str  # "kernel", "copy", "event", "wait" or "latch"
    duration_ns: int  # of each of its parts; of a wait: how long the news of the event's end takes
    issued_ns: Sequence[int]  # earliest start of each of its parts by the host's launches
    effect: Callable[[Op], None] | None = None
    engine: Engine | None = None  # of a copy
    awaited: Op | None = None  # of a wait: the event, in this stream or another
    is_graph: bool = False  # kernels of one launch, with the gap of a graph's nodes between them
    early: tuple[int, Action] | None = None  # of a copy: what happens so long after its start, before it ends
    starts_ns: list[int] | None = None
    ends_ns: list[int] | None = None
    end_ns: int | None = None
    is_open: bool = False  # of a latch
    at_end: list[Action] = field(default_factory=list)  # waits of other streams

    @property
    def launches(self) -> int:
        """How many entries of the launch queue it takes."""
        if self.kind != "kernel":
            return 0
        return 1 if self.is_graph else len(self.issued_ns)


class Engine:
    """A copy engine, for one direction: one copy at a time, first ready first served."""

    def __init__(self) -> None:
        self.free_ns = 0
        self.is_busy = False
        self.waiting: deque[Action] = deque()


class Stream:
    """Operations that run in the order they were queued."""

    def __init__(self) -> None:
        self.queue: deque[Op] = deque()
        self.last_kind = "none"  # of the last work: events and waits take no device time and so open no gap
        self.last_end_ns = 0
        self.held_until_ns = 0  # by the last wait
        self.pending_launches = 0


class Simulator:
    """Virtual time.  `gap_ns(before, after)` is the device's idle time between two operations of one stream."""

    def __init__(self, gap_ns: Callable[[str, str], int], graph_gap_ns: int = 0) -> None:
        self.now_ns = 0
        self.slept_ns = 0  # of the host thread: time in which it used no CPU
        self._gap_ns = cache(gap_ns)
        self._graph_gap_ns = graph_gap_ns
        self._heap: list[tuple[int, int, Action]] = []
        self._sequence = 0

    def advance(self, duration_ns: int) -> None:
        """Let the host thread spend so long; the device goes on meanwhile."""
        target = self.now_ns + duration_ns
        while self._heap and self._heap[0][0] <= target:
            self._run_next()
        self.now_ns = target

    def block_until(self, is_done: Callable[[], bool], timeout_ns: int, what: str) -> int:
        """Block the host until `is_done` and return for how long.

        ScenarioFailed when nothing can make it so within the timeout.
        """
        start = self.now_ns
        deadline = start + timeout_ns
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
        return self.now_ns - start

    def queue(self, stream: Stream, op: Op) -> Op:
        """Append `op` to the stream."""
        stream.pending_launches += op.launches
        stream.queue.append(op)
        if len(stream.queue) == 1:
            self._start_head(stream)
        return op

    def end_latch(self, stream: Stream, op: Op) -> None:
        """Open a latch now; its stream goes on at once or, if it has not come to the latch yet, through it."""
        op.is_open = True
        if stream.queue[0] is op:
            self._finish(stream, op, self.now_ns)

    def at(self, time_ns: int, action: Action) -> None:
        """Run `action` at that time, after what was put there before."""
        self._sequence += 1
        heapq.heappush(self._heap, (time_ns, self._sequence, action))

    def _run_next(self) -> None:
        _, _, action = heapq.heappop(self._heap)
        action()

    def _start_head(self, stream: Stream) -> None:
        op = stream.queue[0]
        kind = op.kind
        free = max(stream.last_end_ns, stream.held_until_ns, op.issued_ns[0])
        if kind == "latch":
            if op.is_open:
                self.at(free, lambda: self._finish(stream, op, free))
        elif kind == "event":
            self.at(free, lambda: self._finish(stream, op, free))
        elif kind == "wait":
            assert op.awaited is not None
            if op.awaited.end_ns is None:
                op.awaited.at_end.append(lambda: self._end_wait(stream, op, free))
            else:
                self._end_wait(stream, op, free)
        else:
            ready = max(free, stream.last_end_ns + self._gap_ns(stream.last_kind, kind))
            if op.engine is None:
                self._run_kernels(stream, op, ready)
            else:
                engine = op.engine
                self.at(ready, lambda: self._offer_copy(stream, op, engine, ready))

    def _end_wait(self, stream: Stream, op: Op, free: int) -> None:
        assert op.awaited is not None and op.awaited.end_ns is not None
        end = max(free, op.awaited.end_ns + op.duration_ns)
        self.at(end, lambda: self._finish(stream, op, end))

    def _run_kernels(self, stream: Stream, op: Op, ready: int) -> None:
        """Place the op's kernels one after another; each also waits for its own launch."""
        gap = self._graph_gap_ns if op.is_graph else self._gap_ns("kernel", "kernel")
        duration = op.duration_ns
        starts, ends = [], []
        free = ready - gap
        for issued in op.issued_ns:
            start = max(free + gap, issued)
            free = start + duration
            starts.append(start)
            ends.append(free)
        op.starts_ns, op.ends_ns = starts, ends
        self.at(free, lambda: self._finish(stream, op, free))

    def _offer_copy(self, stream: Stream, op: Op, engine: Engine, ready: int) -> None:
        if engine.is_busy:
            engine.waiting.append(lambda: self._run_copy(stream, op, engine, max(ready, engine.free_ns)))
        else:
            self._run_copy(stream, op, engine, max(ready, engine.free_ns))

    def _run_copy(self, stream: Stream, op: Op, engine: Engine, start: int) -> None:
        engine.is_busy = True
        end = start + op.duration_ns
        op.starts_ns, op.ends_ns = [start], [end]
        if op.early is not None:
            after_ns, action = op.early
            self.at(start + after_ns, action)

        def finish() -> None:
            engine.is_busy, engine.free_ns = False, end
            if engine.waiting:
                engine.waiting.popleft()()
            self._finish(stream, op, end)

        self.at(end, finish)

    def _finish(self, stream: Stream, op: Op, end: int) -> None:
        op.end_ns = end
        stream.queue.popleft()
        if op.kind == "wait":
            stream.held_until_ns = end
        elif op.kind != "event":
            stream.last_kind, stream.last_end_ns = op.kind, end
            stream.pending_launches -= op.launches
        if op.effect is not None:
            op.effect(op)
        for action in op.at_end:
            action()
        if stream.queue:
            self._start_head(stream)
