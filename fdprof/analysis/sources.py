"""What a capture has to show of its steps' thread, of the idle device, of its streams and of other threads' waits."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.analysis.calls import Flags
from fdprof.analysis.facts import Facts
from fdprof.analysis.idle import ALLOCATE, BLOCKED, CAUSE_NAMES, HOST, HOST_PREFIX, LAUNCH, NOT_CAPTURED, QUEUED, Idle
from fdprof.analysis.intervals import Ns, inside, merged
from fdprof.api_calls import plain_name
from fdprof.capture import NONE, RangeKind, Thread, WorkKind
from fdprof.meanings import Meaning
from fdprof.model import IntColumn

MEANINGS = tuple(Meaning)
"""What `Spans.meaning` indexes."""

_NUMBER = {meaning: number for number, meaning in enumerate(MEANINGS)}
_CAUSES = {
    QUEUED: Meaning.QUEUED,
    BLOCKED: Meaning.BLOCKED,
    ALLOCATE: Meaning.ALLOCATE,
    LAUNCH: Meaning.LAUNCH,
    NOT_CAPTURED: Meaning.NOT_CAPTURED,
    HOST: Meaning.HOST,
}
_OF_CAUSE = np.array([_NUMBER[_CAUSES[cause]] for cause in range(len(_CAUSES))], dtype=np.int64)


class LaneKind(Enum):
    """What a lane shows."""

    RANGES = "ranges"  # markers and operators of the step's thread
    CALLS = "calls"  # of the step's thread into CUDA or HIP
    IDLE = "device idle"  # with its causes, as the ledger has them
    STREAM = "stream"  # of the ledger's device
    OTHER_THREAD = "other thread"  # blocking calls of another thread of the process


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Everything that one thread, stream or the idle device has to show, by start, the longer first."""

    kind: LaneKind
    label: str
    text: Callable[[int], str]  # of a `name`
    start_ns: Ns
    end_ns: Ns
    meaning: IntColumn
    name: IntColumn
    size_bytes: IntColumn
    api: IntColumn  # for a call its row of Capture.api, for device work that of the call that issued it, -1: none
    row: IntColumn  # of Capture.device, -1: no device work

    def __len__(self) -> int:
        return len(self.start_ns)

    def of(self, rows: IntColumn) -> "Source":
        return replace(self, **{name: getattr(self, name)[rows] for name in _COLUMNS})


_COLUMNS = tuple(column.name for column in fields(Source) if column.name not in ("kind", "label", "text"))


def sources_of(facts: Facts) -> list[Source]:
    """Return all that can be drawn, in the order of the lanes."""
    calls, steps = facts.calls, facts.steps
    threads = facts.capture.threads
    process = facts.capture.process_of_threads()
    others = calls.blocks & (calls.thread != steps.thread)
    others &= np.append(process, NONE)[calls.thread] == process[steps.thread]
    return [
        _ranges(facts),
        _calls(facts, LaneKind.CALLS, steps.thread, np.flatnonzero(calls.thread == steps.thread)),
        *([] if facts.ledger.idle is None else [_idle(facts, facts.ledger.idle)]),
        *_streams(facts),
        *(
            _calls(facts, LaneKind.OTHER_THREAD, thread, np.flatnonzero(others & (calls.thread == thread)))
            for thread in np.unique(calls.thread[others]).tolist()
            if 0 <= thread < len(threads)
        ),
    ]


def _source(
    kind: LaneKind,
    label: str,
    text: Callable[[int], str],
    start_ns: Ns,
    end_ns: Ns,
    meaning: Meaning | IntColumn,
    name: npt.NDArray[Any],
    size_bytes: IntColumn | None = None,
    api: IntColumn | None = None,
    row: IntColumn | None = None,
) -> Source:
    """Return a source of these columns, in order; those that are left out hold -1."""
    none = np.full(len(start_ns), NONE, dtype=np.int64)
    columns = {
        "start_ns": start_ns,
        "end_ns": end_ns,
        "meaning": np.full(len(start_ns), _NUMBER[meaning]) if isinstance(meaning, Meaning) else meaning,
        "name": name,
        "size_bytes": none if size_bytes is None else size_bytes,
        "api": none if api is None else api,
        "row": none if row is None else row,
    }
    return Source(kind, label, text, **{key: column.astype(np.int64) for key, column in columns.items()}).of(
        np.lexsort((-end_ns, start_ns))
    )


def _thread_label(thread: Thread) -> str:
    number = f" {thread.thread}" if thread.thread else ""  # a run knows its thread by no number
    return f"host thread{number}" + (f" ({thread.name})" if thread.name else "")


def _ranges(facts: Facts) -> Source:
    ranges = facts.capture.ranges
    rows = np.flatnonzero((ranges["thread"] == facts.steps.thread) & (ranges["kind"] != RangeKind.FRAME))
    return _source(
        LaneKind.RANGES,
        _thread_label(facts.capture.threads[facts.steps.thread]),
        facts.capture.names.__getitem__,
        ranges["start_ns"][rows],
        ranges["end_ns"][rows],
        Meaning.HOST,
        ranges["name"][rows],
    )


def _calls(facts: Facts, kind: LaneKind, thread: int, rows: IntColumn) -> Source:
    calls, names = facts.calls, facts.capture.names
    return _source(
        kind,
        _thread_label(facts.capture.threads[thread]),
        lambda name: plain_name(names[name]),
        calls.start_ns[rows],
        calls.end_ns[rows],
        _meaning_of_calls(facts, rows),
        facts.capture.api["name"][rows],
        api=rows,
    )


def _meaning_of_calls(facts: Facts, rows: IntColumn) -> IntColumn:
    """Return what calls of one thread mean; one inside a wait or an allocation (the driver's) is a part of it."""
    calls = facts.calls

    def within(chosen: Flags) -> Flags:
        outer = rows[chosen[rows]]
        at = inside(*merged(calls.start_ns[outer], calls.end_ns[outer]), calls.start_ns[rows])
        return np.asarray(at != NONE)

    meaning = np.full(len(rows), _NUMBER[Meaning.LAUNCH])
    meaning[calls.allocates[rows] | within(calls.allocates)] = _NUMBER[Meaning.ALLOCATE]
    meaning[calls.blocks[rows] | within(calls.blocks)] = _NUMBER[Meaning.BLOCKED]
    return meaning


def _idle(facts: Facts, idle: Idle) -> Source:
    """Return the ledger's stretches of idle time, those that touch and have one cause as one."""
    start, end = idle.start_ns, idle.end_ns
    name = np.where(idle.cause == HOST, HOST + idle.range_name, idle.cause)
    first = np.append(
        np.full(min(len(start), 1), True),
        (name[1:] != name[:-1]) | (idle.window[1:] != idle.window[:-1]) | (start[1:] != end[:-1]),
    )
    last = np.append(first[1:], np.full(min(len(start), 1), True))
    texts = [CAUSE_NAMES[cause] for cause in range(HOST)] + [f"{HOST_PREFIX}{name}" for name in idle.range_names]
    return _source(
        LaneKind.IDLE, "device idle", texts.__getitem__, start[first], end[last], _OF_CAUSE[idle.cause[first]],
        name[first],
    )  # fmt: skip


def _streams(facts: Facts) -> list[Source]:
    if facts.device is None:
        return []
    work = facts.capture.device
    mine = np.flatnonzero(work["device"] == facts.device)
    found = []
    for stream in np.unique(work["stream"][mine]).tolist():
        rows = mine[work["stream"][mine] == stream]
        is_copy = work["kind"][rows] == WorkKind.COPY
        found.append(
            _source(
                LaneKind.STREAM,
                f"stream {stream}" if stream != NONE else "stream not known",
                facts.capture.names.__getitem__,
                work["start_ns"][rows],
                work["end_ns"][rows],
                np.where(is_copy, _NUMBER[Meaning.COPY], _NUMBER[Meaning.BUSY]),
                work["name"][rows],
                size_bytes=work["size_bytes"][rows],
                api=work["api"][rows],
                row=rows,
            )
        )
    return found
