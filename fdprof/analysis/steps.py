"""Finds the decode steps of a capture: by the markers that engines and profilers set, else by the launch pattern.

A step is counted once, on the host thread that marks it; a marker's copy on the device's rows is no step.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from fdprof.analysis.repetition import first_of_period, period_of
from fdprof.capture import NONE, WORK_KINDS, ApiKind, Capture, Evidence, RangeKind
from fdprof.errors import InputError, UsageError
from fdprof.model import IntColumn
from fdprof.units import counted, shown, us

_FDPROF_DOMAIN = "fdprof"

_MARKERS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("fdprof's own step ranges", re.compile(r"^step( \((warm-up|overrun)\))?$")),
    ("ranges named {}", re.compile(r"^(decode_step|step)$")),
    ("torch.profiler's ProfilerStep#N", re.compile(r"^ProfilerStep\s?#\d+$")),
    ("paddle.profiler's ProfileStep#N", re.compile(r"^ProfileStep#\d+$")),
    ("SGLang's step[...]", re.compile(r"^step\[.*\]$")),
    ("vLLM's execute_...", re.compile(r"^execute_\w+.*$")),
)
"""Tried in this order; the first that is there marks the steps.  The first counts in fdprof's own NVTX domain only."""

_NUMBER = re.compile(r"#(\d{1,18})$")
_NOT_DECODE = re.compile(
    r"^step \(|^step\[(?!.*DECODE).*\]$|context_0*[1-9]\d*|^execute_new_0*[1-9]\d*_", re.IGNORECASE
)
"""SGLang writes the forward mode into its marker, vLLM how many requests are in their prompt (context, or new)."""

# Of threads, processes and names so many are listed.
_SHOWN = 8
_LIMITS_SAID = 2

# From this many steps on a last one that is shorter than this share of the others is not whole.
_FEW, _WHOLE = 3, 0.5

# From this share of equal differences on, the numbers of markers count the steps.
_COUNTS = 0.5

# The share of a thread's calls, in time, that an inferred loop has to cover.
_MOST = 0.5

# Two neighbouring markers may overlap by what the formats round.
_TOUCHING_NS = 1_000

WHOLE_CAPTURE = "taking the whole capture as one window: there is no step marker and no repeating launch pattern"


@dataclass(frozen=True, slots=True)
class Steps:
    """Windows of the decode steps, in order, on one host thread.

    `ends_ns` is where the next marked iteration begins, or the end of its own range where none follows.  `evidence` is
    PROVED for markers, INFERRED for a launch pattern, UNKNOWN where the whole capture is one window.
    """

    thread: int  # index into Capture.threads
    starts_ns: IntColumn
    ends_ns: IntColumn
    numbers: IntColumn  # as the marker gives them, else from 0
    evidence: Evidence
    found_by: str
    left_out: int = 0  # marked iterations that are not decode steps
    notes: tuple[str, ...] = ()
    blocks: IntColumn | None = None  # of a run of several blocks, each of which numbers its steps anew

    def __len__(self) -> int:
        return len(self.starts_ns)

    def part(self, first: int | None, last: int | None) -> "Steps":
        """Return steps first..last - 1 by their position; UsageError when none is left."""
        chosen = slice(first, last)
        if not len(self.starts_ns[chosen]):
            raise UsageError(f"--steps {first or 0}:{last if last is not None else ''} selects no step", _has(self))
        return self.where(chosen)

    def where(self, chosen: slice | npt.NDArray[np.bool_]) -> "Steps":
        """Return the chosen steps."""
        blocks = None if self.blocks is None else self.blocks[chosen]
        return replace(
            self,
            starts_ns=self.starts_ns[chosen],
            ends_ns=self.ends_ns[chosen],
            numbers=self.numbers[chosen],
            blocks=blocks,
        )

    def label(self, position: int) -> str:
        """Return what a step is called: its number, '41', or of several blocks the block's before it, '2:41'."""
        number = str(int(self.numbers[position]))
        return number if self.blocks is None else f"{int(self.blocks[position])}:{number}"


def _has(steps: Steps) -> str:
    return f"the capture has {len(steps):,}: give A:B with 0 <= A < B <= {len(steps)}"


@dataclass(frozen=True, slots=True)
class Choice:
    """What to look at where a capture holds more than one thing; None: whatever has the most steps."""

    process: int | None = None
    thread: int | None = None
    device: int | None = None  # the number that a process gives a device: a process that has one
    step_range: re.Pattern[str] | None = None


def find_steps(capture: Capture, choice: Choice) -> Steps:
    """Return the decode steps; InputError when the capture holds neither ranges nor calls on the chosen thread."""
    if not len(capture.api):
        activity = "" if len(capture.device) else " and no device activity"
        ranges = f", only {counted(len(capture.ranges), 'range')}" if len(capture.ranges) else ""
        said = capture.limits[-_LIMITS_SAID:]
        raise InputError(
            f"the capture holds no CUDA or HIP call{activity}{ranges}" + "".join(f"; {shown(limit)}" for limit in said),
            "did the traced process use the GPU, and inside the capture range?  By hand, trace CUDA too: "
            "nsys profile -t cuda,nvtx, or ProfilerActivity.CUDA of torch.profiler",
        )
    candidates = _candidate_threads(capture, choice)
    marked = _marked(capture, choice, candidates)
    if marked is not None:
        return replace(marked, notes=(*_other_processes(capture, marked.thread), *marked.notes))
    if choice.step_range is not None:
        raise InputError(
            f"no range matches --step-range {choice.step_range.pattern!r}",
            f"ranges in the capture: {_some_names(capture)}",
        )
    inferred = _inferred(capture, candidates)
    return replace(inferred, notes=_other_processes(capture, inferred.thread))


def _other_processes(capture: Capture, thread: int) -> tuple[str, ...]:
    """Return a note on the processes that are not looked at."""
    mine = capture.threads[thread].process
    used = {capture.threads[index].process for index in np.unique(capture.api["thread"]).tolist() if index >= 0}
    others = sorted(used - {mine})
    if not others:
        return ()
    return (
        f"this is process {mine}; the capture also holds process {some([str(process) for process in others])}, "
        "which --process chooses",
    )


def _candidate_threads(capture: Capture, choice: Choice) -> npt.NDArray[np.bool_]:
    """Return which threads may be looked at; UsageError when the choice leaves none."""
    uses = {device.process for device in capture.devices if device.device == choice.device}
    named = [
        (choice.process is None or thread.process == choice.process)
        and (choice.thread is None or thread.thread == choice.thread)
        for thread in capture.threads
    ]
    if not any(named) and (choice.process is not None or choice.thread is not None):
        there = [f"{thread.process}/{thread.thread}" for thread in capture.threads]
        raise UsageError("no such --process or --thread in the capture", f"process/thread pairs there: {some(there)}")
    # Device 0 of one process may be another card than device 0 of the next, so the process decides.
    if choice.device is not None:
        named = [is_named and thread.process in uses for is_named, thread in zip(named, capture.threads, strict=True)]
        if not any(named):
            there = [f"{device.process}/{device.device}" for device in capture.devices]
            who = "the chosen process gives" if choice.process is not None or choice.thread is not None else "there is"
            raise UsageError(f"{who} no work to --device {choice.device}", f"process/device pairs there: {some(there)}")
    return np.array(named, dtype=bool)


def some(entries: Sequence[str]) -> str:
    """Return the first entries as a list in words, and how many more there are."""
    shown = ", ".join(entries[:_SHOWN]) or "none"
    return shown if len(entries) <= _SHOWN else f"{shown} and {len(entries) - _SHOWN:,} more"


def _some_names(capture: Capture) -> str:
    """Return the names of ranges, a person's own before the framework's, the frequent before the rare."""
    found: dict[str, None] = {}
    for kind in (RangeKind.MARKER, RangeKind.OPERATOR):
        names, counts = np.unique(capture.ranges["name"][capture.ranges["kind"] == kind], return_counts=True)
        order = np.argsort(-counts, kind="stable")
        found |= dict.fromkeys(f"{capture.names[index][:60]!r}" for index in names[order].tolist())
    return some(list(found))


def _marked(capture: Capture, choice: Choice, candidates: npt.NDArray[np.bool_]) -> Steps | None:
    ranges = capture.ranges
    if not len(ranges) or not len(candidates):
        return None
    here = candidates[ranges["thread"]] & (ranges["thread"] >= 0)
    if choice.step_range is not None:
        pattern = choice.step_range
        matches = _named(capture, pattern.search, ranges["name"][here])
        return _steps_of(capture, here & matches[ranges["name"]], "ranges that match --step-range")
    here &= ranges["kind"] == RangeKind.MARKER
    for found_by, pattern in _MARKERS:
        chosen = here & _named(capture, pattern.match, ranges["name"][here])[ranges["name"]]
        if found_by == _MARKERS[0][0]:
            domains = np.append(_named(capture, _FDPROF_DOMAIN.__eq__, ranges["domain"][chosen]), False)
            chosen &= domains[ranges["domain"]]
        if chosen.any():
            return _steps_of(capture, chosen, found_by)
    return None


def _named(capture: Capture, test: Callable[[str], object], used: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
    """Return for each name of the capture whether it passes; only those that are used are tried."""
    passes = np.zeros(len(capture.names), dtype=np.bool_)
    for index in np.unique(used[used >= 0]).tolist():
        passes[index] = bool(test(capture.names[index]))
    return passes


def marked_steps(capture: Capture, choice: Choice) -> Steps | None:
    """Return the steps that ranges mark, None where none do; also of a capture without any call."""
    return _marked(capture, choice, _candidate_threads(capture, choice))


def _steps_of(capture: Capture, chosen: npt.NDArray[np.bool_], found_by: str) -> Steps | None:
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return None
    ranges = capture.ranges
    threads, counts = np.unique(ranges["thread"][rows], return_counts=True)
    thread = int(threads[np.argmax(counts)])
    others = [pair for pair in zip(threads.tolist(), counts.tolist(), strict=True) if pair[0] != thread]
    notes = tuple(
        f"thread {capture.threads[other].thread} of process {capture.threads[other].process} has {count:,} steps too; "
        "--thread or --process chooses it"
        for other, count in others[:_SHOWN]
    )
    if len(others) > _SHOWN:
        notes += (f"{len(others) - _SHOWN:,} more threads have steps too",)
    rows = rows[ranges["thread"][rows] == thread]
    starts, ends = ranges["start_ns"][rows], ranges["end_ns"][rows]
    # A marker inside another (decode_step in step, say) is no step of its own.
    latest = np.maximum.accumulate(ends)[:-1]
    outer = np.append(True, (starts[1:] >= latest - _TOUCHING_NS) & (ends[1:] > latest))
    rows, starts, ends = rows[outer], starts[outer], ends[outer]
    names = [capture.names[index] for index in ranges["name"][rows].tolist()]
    numbers = _numbers(names, ranges["payload"][rows])
    closes = _closes(numbers, len(rows))
    window_ends = np.where(closes, np.maximum(ends, starts), np.append(starts[1:], ends[-1:]))
    passes = int(closes.sum())
    if passes > 1:
        notes += (
            f"the steps' numbers break off {counted(passes - 1, 'time')}: the step before ends with its own range",
        )
    is_decode = np.array([_NOT_DECODE.search(name) is None for name in names], dtype=bool)
    if not is_decode.any():
        is_decode[:] = True
        notes += ("no marker says decode: every marked iteration counts as a step",)
    left_out = int((~is_decode).sum())
    # The last window ends with its own range.  Where a range is only a part of its step, that is no whole step.
    window, usual = window_ends - starts, is_decode & ~closes
    if np.count_nonzero(usual) >= _FEW - 1:
        short = is_decode & closes & (window < _WHOLE * np.median(window[usual]))
        is_decode &= ~short
        notes += tuple(
            f"the {'last step' if passes == 1 else 'last step before a break'} has only its own range "
            f"({us(length)} µs) and is left out"
            for length in window[short].tolist()[:_SHOWN]
        )
    return Steps(
        thread=thread,
        starts_ns=starts[is_decode],
        ends_ns=window_ends[is_decode],
        numbers=_distinct(numbers, is_decode),
        evidence=Evidence.PROVED,
        found_by=found_by.format(" or ".join(sorted(set(names))[:2])) if "{}" in found_by else found_by,
        left_out=left_out,
        notes=notes,
    )


def _numbers(names: list[str], payload: IntColumn) -> IntColumn | None:
    """Return the numbers that the markers give: N of ProfilerStep#N, the payload of fdprof's ranges; None: not all."""
    found = [_NUMBER.search(name) for name in names]
    if all(found):
        return np.array([int(match[1]) for match in found if match], dtype=np.int64)
    return payload if len(payload) and (payload >= 0).all() else None


def _closes(numbers: IntColumn | None, count: int) -> npt.NDArray[np.bool_]:
    """Return which steps are not followed by the next one: the last, and those where the numbers break off.

    They begin anew in each pass of a loop, and leave some out where a profiler's schedule skipped steps: what lies
    between is no part of a step.  Numbers that do not mostly go up by the same are no count of steps.
    """
    closes = np.zeros(count, dtype=bool)
    closes[-1:] = True
    if numbers is not None and count > _FEW:
        change = np.diff(numbers)
        usual = np.median(change)
        if usual > 0 and np.mean(change == usual) >= _COUNTS:
            closes[:-1] = change != usual
    return closes


def _distinct(numbers: IntColumn | None, is_decode: npt.NDArray[np.bool_]) -> IntColumn:
    """Return the steps' own numbers where they tell steps apart, else their positions, as --steps counts."""
    if numbers is not None and (np.diff(numbers) > 0).all():
        return numbers[is_decode]
    return np.arange(np.count_nonzero(is_decode), dtype=np.int64)


def _inferred(capture: Capture, candidates: npt.NDArray[np.bool_]) -> Steps:
    """Return the repetitions of the launch pattern of the thread that launches most; else one window of everything."""
    api = capture.api
    is_work = candidates[api["thread"]] & np.isin(api["kind"], [int(kind) for kind in WORK_KINDS])
    here = is_work if is_work.any() else candidates[api["thread"]]
    if not here.any():
        raise InputError("the chosen thread makes no CUDA or HIP call", "choose another --thread")
    thread = int(np.argmax(np.bincount(api["thread"][here], minlength=len(capture.threads))))
    rows = np.flatnonzero(here & (api["thread"] == thread))
    pattern = _what_is_launched(capture, rows)
    period = period_of(pattern)
    every = np.flatnonzero(api["thread"] == thread)
    begin, end = int(api["start_ns"][every[0]]), int(api["end_ns"][every].max())
    starts = np.zeros(0, dtype=np.int64)
    if period is not None:
        first = first_of_period(pattern, period, api["start_ns"][rows], api["end_ns"][rows])
        starts = api["start_ns"][rows[first]]
    # A loop is most of what its thread does; what repeats for a moment is something else.
    if len(starts) < 2 or starts[-1] - starts[0] < _MOST * (int(api["end_ns"][rows].max()) - begin):
        end = max(end, _last_device_ns(capture, rows))
        return Steps(
            thread,
            np.array([begin], dtype=np.int64),
            np.array([end], dtype=np.int64),
            np.zeros(1, dtype=np.int64),
            Evidence.UNKNOWN,
            WHOLE_CAPTURE,
        )
    return Steps(
        thread,
        starts[:-1],
        starts[1:],
        np.arange(len(starts) - 1, dtype=np.int64),
        Evidence.INFERRED,
        f"a pattern of {period:,} calls that repeats, since there is no step marker",
    )


def _last_device_ns(capture: Capture, rows: IntColumn) -> int:
    ends = capture.device["end_ns"][np.isin(capture.device["api"], rows)]
    return int(ends.max()) if len(ends) else 0


def _what_is_launched(capture: Capture, rows: IntColumn) -> IntColumn:
    """Return a number for what each call gives the device: the call's name and its first device row's."""
    api, device = capture.api, capture.device
    first = np.full(len(api) + 1, NONE, dtype=np.int64)
    first[device["api"][::-1]] = device["name"][::-1]  # the first row of a call is written last
    size = len(capture.names) + 1
    code = api["name"][rows].astype(np.int64) * size + first[rows] + 1
    code[api["kind"][rows] == ApiKind.GRAPH_LAUNCH] = -1  # one graph is as good as another: the engine picks by batch
    return np.asarray(np.unique(code, return_inverse=True)[1], dtype=np.int64)
