# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.timeline and what it is made of: every span of the chosen steps once, whole, in its lane."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdprof.analysis.capture_result import analyze
from fdprof.analysis.facts import facts_of
from fdprof.analysis.intervals import covered, inside
from fdprof.analysis.ledger import device_of
from fdprof.analysis.levels import levels_of
from fdprof.analysis.results import result_of
from fdprof.analysis.sides import COMPUTE, COPY_ALONE
from fdprof.analysis.steps import Choice, find_steps
from fdprof.analysis.timeline import MEANINGS, LaneKind, steps_to_draw, timeline_of
from fdprof.capture import NONE, Evidence, RangeKind, Thread
from fdprof.errors import InputError
from fdprof.finding import Finding, FindingCode
from fdprof.imports import import_capture
from fdprof.meanings import Meaning, meaning_of_part

US = 1_000
DATA = Path(__file__).parents[1] / "data" / "h200-2026-11-30" / "both-ways"
LOOPS = sorted(DATA.glob("*.fdprof"))

CALLS = [
    ("cudaLaunchKernel", 0, 5),
    ("cudaMemcpyAsync_v3020", 10, 14),
    ("cudaEventRecord", 15, 16),
    ("cudaEventSynchronize", 20, 65),
]
WORK = [("kernel gemm", 8, 50, 0), ("D2H pinned 256", 52, 60, 1)]
RANGES = [("forward", 0, 6), ("fence", 19, 66)]
"""One step of 100 µs with a copy that is waited for in it."""


def facts(capture):
    steps = find_steps(capture, Choice())
    return facts_of(capture, steps, device_of(capture, steps))


def a_step_with_a_fence(build, steps=2, **more):
    """Each step's wait is linked to its own record of event 1 on stream 7."""
    records = [(2 + 4 * step, 1, 7) for step in range(steps)]
    links = [(3 + 4 * step, 2 + 4 * step, 7, 1, Evidence.PROVED) for step in range(steps)]
    return build.a_loop(steps, 100, CALLS, WORK, RANGES, records=records, links=links, **more)


def drawn(timeline, kind=None):
    """Return (lane, depth, name, start, end, meaning) of the spans in µs, of one kind of lane or of all."""
    spans = timeline.spans
    rows = zip(spans.lane, spans.name, spans.start_ns, spans.end_ns, spans.meaning, strict=True)
    return [
        (lane.kind, lane.depth, timeline.names[name], start / US, end / US, MEANINGS[meaning])
        for lane, name, start, end, meaning in ((timeline.lanes[at], *rest) for at, *rest in rows)
        if kind is None or lane.kind is kind
    ]


def of(timeline, kind):
    """Return name, start, end and meaning of the spans in lanes of this kind."""
    return [entry[2:] for entry in drawn(timeline, kind)]


# The spans of one hand-made step


def test_the_calls_of_a_step_are_spans_with_their_plain_names_and_meanings(build):
    """A wait blocks; a copy that does not block, a record and a launch are other calls; no ABI suffix is shown."""
    assert [
        ("cudaLaunchKernel", 0, 5, Meaning.LAUNCH),
        ("cudaMemcpyAsync", 10, 14, Meaning.LAUNCH),
        ("cudaEventRecord", 15, 16, Meaning.LAUNCH),
        ("cudaEventSynchronize", 20, 65, Meaning.BLOCKED),
    ] == of(timeline_of(facts(a_step_with_a_fence(build)), np.array([0])), LaneKind.CALLS)


def test_the_ranges_of_a_step_are_on_a_lane_for_each_depth(build):
    """The step's own range holds the two others; the next step's range does not touch the window 0-100."""
    timeline = timeline_of(facts(a_step_with_a_fence(build)), np.array([0]))
    assert [
        (LaneKind.RANGES, 0, "decode_step", 0, 100, Meaning.HOST),
        (LaneKind.RANGES, 1, "forward", 0, 6, Meaning.HOST),
        (LaneKind.RANGES, 1, "fence", 19, 66, Meaning.HOST),
    ] == drawn(timeline, LaneKind.RANGES)
    assert [
        ("host thread 11", 0),
        ("host thread 11", 1),
        ("host thread 11", 0),
        ("device idle", 0),
        ("stream 7", 0),
    ] == [(lane.label, lane.depth) for lane in timeline.lanes]


def test_the_idle_device_is_drawn_as_the_ledger_has_it(build):
    """Idle 0-8: in the launch to 5, then queued.  50-52: the copy was queued.  60-100: in the wait to 65 (5), in
    `fence` to 66 (1), then in decode_step; the gap goes on to 108, behind the window.
    """
    assert [
        ("launch", 0, 5, Meaning.LAUNCH),
        ("queued", 5, 8, Meaning.QUEUED),
        ("queued", 50, 52, Meaning.QUEUED),
        ("blocked", 60, 65, Meaning.BLOCKED),
        ("host:fence", 65, 66, Meaning.HOST),
        ("host:decode_step", 66, 100, Meaning.HOST),
    ] == of(timeline_of(facts(a_step_with_a_fence(build)), np.array([0])), LaneKind.IDLE)


def test_the_work_of_a_stream_is_busy_and_its_copies_are_copies_with_their_size(build):
    timeline = timeline_of(facts(a_step_with_a_fence(build)), np.array([0]))
    assert [("kernel gemm", 8, 50, Meaning.BUSY), ("D2H pinned 256", 52, 60, Meaning.COPY)] == of(
        timeline, LaneKind.STREAM
    )
    assert [256] == timeline.spans.size_bytes[timeline.spans.size_bytes != NONE].tolist()


def test_a_span_of_device_work_knows_the_call_that_issued_it(build):
    """The kernel is of the launch and the copy of the copy's call; no other span is issued by anything."""
    timeline = timeline_of(facts(a_step_with_a_fence(build)), np.array([0]))
    names = [timeline.names[number] for number in timeline.spans.name]
    issued = timeline.spans.issued_by
    assert {"kernel gemm": "cudaLaunchKernel", "D2H pinned 256": "cudaMemcpyAsync"} == {
        names[at]: names[issued[at]] for at in np.flatnonzero(issued != NONE)
    }


def test_the_steps_of_a_timeline_keep_their_positions_numbers_and_windows(build):
    """ProfilerStep#7 is at position 0; a position given twice counts once, and they come in order."""
    ranges = [(f"ProfilerStep#{7 + step}", 100 * step, 100 * step + 100) for step in range(3)]
    timeline = timeline_of(facts(build.a_capture([("cudaLaunchKernel", 0, 5)], ranges=ranges)), np.array([2, 0, 2]))
    assert ([0, 2], [7, 9]) == (timeline.positions.tolist(), timeline.numbers.tolist())
    assert ([0, 200], [100, 300]) == (timeline.starts_ns.tolist(), timeline.ends_ns.tolist())


# What touches a window


def test_a_span_that_reaches_into_two_windows_is_there_once_and_whole(build):
    """A kernel of 90-120 in windows 0-100 and 100-200: with either step, and once with both."""
    capture = build.a_loop(2, 100, [("cudaLaunchKernel", 80, 85)], [("kernel", 90, 120, 0)])
    for positions, starts in ((np.array([0]), [90]), (np.array([1]), [90, 190]), (None, [90, 190])):
        found = of(timeline_of(facts(capture), positions), LaneKind.STREAM)
        assert [(start, start + 30) for start in starts] == [(start, end) for _, start, end, _ in found]


def test_a_span_that_only_meets_a_window_does_not_touch_it(build):
    """A launch of 50-100 ends where the window 100-200 begins, and one of 200-250 begins where it ends."""
    calls = [("cudaLaunchKernel", 50, 100), ("cudaLaunchKernel", 150, 160), ("cudaLaunchKernel", 200, 250)]
    ranges = [("decode_step", start, start + 100) for start in (0, 100, 200)]
    timeline = timeline_of(facts(build.a_capture(calls, ranges=ranges, unit=US)), np.array([1]))
    assert [(150, 160)] == [entry[1:3] for entry in of(timeline, LaneKind.CALLS)]


@pytest.mark.parametrize(("at", "step"), [(99, 0), (100, 1), (199, 1)])
def test_a_call_without_length_is_in_the_window_that_holds_its_time(build, at, step):
    ranges = [("decode_step", 0, 100), ("decode_step", 100, 200)]
    known = facts(build.a_capture([("cudaEventQuery", at, at)], ranges=ranges))
    shown = [len(of(timeline_of(known, np.array([number])), LaneKind.CALLS)) for number in (0, 1)]
    assert [int(step == 0), int(step == 1)] == shown


def test_work_of_a_call_outside_the_chosen_steps_is_issued_by_nothing_there(build):
    """The kernel of 110-120 in the second step was launched in the first, which is not drawn."""
    capture = build.a_loop(2, 100, [("cudaLaunchKernel", 80, 85)], [("kernel", 110, 120, 0)])
    timeline = timeline_of(facts(capture), np.array([1]))
    launches = of(timeline, LaneKind.CALLS)
    assert [("cudaLaunchKernel", 180, 185, Meaning.LAUNCH)] == launches
    assert [NONE] * len(timeline.spans) == timeline.spans.issued_by.tolist()


def test_no_step_gives_a_timeline_of_none(build):
    timeline = timeline_of(facts(a_step_with_a_fence(build)), np.zeros(0, dtype=np.int64))
    assert (0, 0, 0) == (len(timeline.positions), len(timeline.spans), len(timeline.flows))


# Lanes


def test_kernels_that_overlap_on_one_stream_are_on_two_lanes(build):
    """A graph's nodes 10-30 and 20-40 run side by side on stream 7; the one of 45-50 is on the first lane again."""
    work = [("kernel a", 10, 30, 0), ("kernel b", 20, 40, 0), ("kernel c", 45, 50, 0)]
    timeline = timeline_of(facts(build.a_loop(1, 100, [("cudaGraphLaunch", 0, 5)], work)))
    assert [("kernel a", 0), ("kernel b", 1), ("kernel c", 0)] == [
        (name, depth) for _, depth, name, *_ in drawn(timeline, LaneKind.STREAM)
    ]


def test_the_drivers_call_inside_a_wait_is_a_part_of_that_wait(build):
    """The inner one does not count as a second wait, and is no launch either; it lies a level deeper."""
    calls = [
        ("cudaStreamSynchronize", 10, 50),
        ("cuStreamSynchronize", 12, 48),
        ("cudaMalloc", 60, 80),
        ("cuMemAlloc", 61, 79),
    ]
    timeline = timeline_of(facts(build.a_loop(1, 100, calls)))
    assert [
        (0, "cudaStreamSynchronize", Meaning.BLOCKED),
        (1, "cuStreamSynchronize", Meaning.BLOCKED),
        (0, "cudaMalloc", Meaning.ALLOCATE),
        (1, "cuMemAlloc", Meaning.ALLOCATE),
    ] == [(depth, name, meaning) for _, depth, name, _, _, meaning in drawn(timeline, LaneKind.CALLS)]


def test_waits_of_the_processes_other_threads_have_a_lane_each_and_those_of_other_processes_none(build):
    """Thread 12 waits and launches, thread 13 is of another process: only the wait of 12 is drawn."""
    calls = [
        ("cudaLaunchKernel", 0, 5, 0),
        ("cudaStreamSynchronize", 10, 50, 1),
        ("cudaLaunchKernel", 60, 65, 1),
        ("cudaStreamSynchronize", 10, 50, 2),
    ]
    threads = (Thread(1, 11, "main"), Thread(1, 12, "worker"), Thread(2, 13))
    timeline = timeline_of(facts(build.a_loop(1, 100, calls, threads=threads)))
    assert [("cudaStreamSynchronize", 10, 50, Meaning.BLOCKED)] == of(timeline, LaneKind.OTHER_THREAD)
    assert ["host thread 12 (worker)"] == [lane.label for lane in timeline.lanes if lane.kind is LaneKind.OTHER_THREAD]


def test_a_capture_without_device_work_has_no_lane_for_the_device(build):
    """An idle lane would say that the device was idle."""
    timeline = timeline_of(facts(build.a_loop(2, 100, [("cudaLaunchKernel", 0, 5)])))
    assert {LaneKind.RANGES, LaneKind.CALLS} == {lane.kind for lane in timeline.lanes}
    assert 0 == len(timeline.flows)


def test_a_device_that_is_never_idle_has_an_empty_lane_for_it(build):
    """Kernels of 0-100 and 100-200 leave nothing; that the lane is empty says so."""
    capture = build.a_loop(2, 100, [("cudaLaunchKernel", 0, 5)], [("kernel", 0, 100, 0)])
    timeline = timeline_of(facts(capture))
    assert LaneKind.IDLE in {lane.kind for lane in timeline.lanes}
    assert [] == of(timeline, LaneKind.IDLE)


def test_work_of_another_device_is_not_drawn(build):
    """The ledger is of one device: with another's kernels idle and busy would not fill the window."""
    work = [("kernel a", 10, 30, 0, 7, 0), ("kernel b", 12, 50, 1, 7, 1), ("kernel c", 60, 80, 0, 7, 0)]
    capture = build.a_loop(1, 100, [("cudaLaunchKernel", 0, 5), ("cudaLaunchKernel", 6, 8)], work)
    known = facts(capture)
    assert ["kernel a", "kernel c"] == [name for name, *_ in of(timeline_of(known), LaneKind.STREAM)]
    check_device(known)


def test_python_frames_are_not_drawn(build):
    """As in the ledger: they are not what a person or a framework names a part of a step."""
    ranges = [("model.py(7)", 5, 50, RangeKind.FRAME), ("aten::add", 6, 20, RangeKind.OPERATOR)]
    timeline = timeline_of(facts(build.a_loop(1, 100, [("cudaLaunchKernel", 0, 5)], ranges=ranges)))
    assert ["decode_step", "aten::add"] == [name for name, *_ in of(timeline, LaneKind.RANGES)]


def test_names_are_kept_as_they_are_whatever_they_hold(build):
    """Escaping is the reports' work."""
    hostile = ["<b>&amp;</b>", "\x1b[31mred", "‮gnirts", '=cmd|"x"', "a,b\nc", "核心 🚀", ""]
    ranges = [(name, 10 * at, 10 * at + 5) for at, name in enumerate(hostile)]
    timeline = timeline_of(facts(build.a_loop(1, 100, [("cudaLaunchKernel", 0, 5)], ranges=ranges)))
    assert set(hostile) <= {name for name, *_ in of(timeline, LaneKind.RANGES)}


# Levels


def levels(*spans):
    """Return the levels of spans that come by start."""
    starts, ends = (np.array([span[at] for span in spans], dtype=np.int64) for at in (0, 1))
    return levels_of(starts, ends).tolist()


def test_nested_spans_are_on_the_level_of_their_depth():
    assert [0, 1, 1, 2] == levels((0, 10), (1, 4), (5, 9), (6, 7))


def test_spans_that_touch_share_a_level():
    assert [0, 0, 0] == levels((0, 5), (5, 9), (9, 9))


def test_spans_that_cross_are_on_two_levels_and_free_theirs_where_they_end():
    """0-10 and 5-15 cross; 12-20 crosses the second and takes the level of the first, by depth it would be 1 too."""
    assert [0, 1, 0] == levels((0, 10), (5, 15), (12, 20))


def test_a_span_takes_the_level_of_one_that_ends_where_it_begins():
    """Among spans that cross too: 10-20 follows 0-10."""
    assert [0, 1, 0] == levels((0, 10), (5, 15), (10, 20))


def test_a_stretch_that_crosses_does_not_change_the_levels_of_another():
    """The nested pair of 100-110 keeps its depths."""
    assert [0, 1, 0, 0, 1] == levels((0, 10), (5, 15), (12, 20), (100, 110), (101, 102))


def test_an_empty_span_lies_in_what_is_open_at_its_time():
    """At 3 inside 0-10, at 10 inside nothing; two at one time share a level, as they take no room."""
    assert [0, 1, 1, 0] == levels((0, 10), (3, 3), (3, 3), (10, 10))


def test_no_spans_have_no_levels():
    assert [] == levels()


some_spans = st.lists(
    st.tuples(st.integers(0, 30), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1])), max_size=25
).map(lambda spans: sorted(spans, key=lambda span: (span[0], -span[1])))


@given(some_spans)
def test_spans_of_one_level_never_overlap(spans):
    of_level = {}
    for (start, end), level in zip(spans, levels(*spans), strict=True):
        for other_start, other_end in of_level.setdefault(level, []):
            assert not (start < other_end and other_start < end), (spans, level)
        of_level[level].append((start, end))


# Flows


def met(timeline):
    """Return the flows as names of issue, copy and wait, None for those that are not there."""
    names = [timeline.names[number] for number in timeline.spans.name]
    flows = timeline.flows
    return [
        tuple(None if span == NONE else names[span] for span in row)
        for row in zip(flows.issue, flows.copy, flows.wait, strict=True)
    ]


def test_a_copy_flows_from_its_call_over_the_device_to_its_wait(build):
    flow = ("cudaMemcpyAsync", "D2H pinned 256", "cudaEventSynchronize")
    timeline = timeline_of(facts(a_step_with_a_fence(build)))
    assert [flow, flow] == met(timeline)
    start = timeline.spans.start_ns // US
    flows = timeline.flows
    assert [(10, 52, 20), (110, 152, 120)] == [
        tuple(start[span]) for span in np.stack((flows.issue, flows.copy, flows.wait), axis=1)
    ]


def test_a_fence_that_covers_several_copies_is_the_wait_of_each(build):
    calls = [("cudaMemcpyAsync", 0, 5), ("cudaMemcpyAsync", 6, 9), ("cudaStreamSynchronize", 40, 80)]
    work = [("D2H pinned 4", 50, 55, 0), ("D2H pinned 8", 56, 60, 1)]
    timeline = timeline_of(facts(build.a_loop(1, 100, calls, work)))
    assert [("cudaMemcpyAsync", f"D2H pinned {size}", "cudaStreamSynchronize") for size in (4, 8)] == met(timeline)
    assert 1 == len(set(timeline.flows.wait.tolist()))


def test_a_copy_that_blocks_has_no_wait_but_its_own_call(build):
    calls = [("cudaMemcpy", 0, 50), ("cudaStreamSynchronize", 60, 80)]
    timeline = timeline_of(facts(build.a_loop(1, 100, calls, [("D2H pageable 4", 40, 45, 0)])))
    assert [("cudaMemcpy", "D2H pageable 4", None)] == met(timeline)


def test_a_wait_in_a_step_that_is_not_drawn_is_not_in_the_flow(build):
    """The copy of step 0 is waited for in step 1 at 120: with step 0 alone there is no wait."""
    calls = [("cudaMemcpyAsync", 50, 55), ("cudaStreamSynchronize", 120, 130)]
    ranges = [("decode_step", 0, 100), ("decode_step", 100, 200)]
    capture = build.a_capture(calls, [("D2H pinned 4", 60, 65, 0)], ranges)
    assert [("cudaMemcpyAsync", "D2H pinned 4", None)] == met(timeline_of(facts(capture), np.array([0])))
    assert [("cudaMemcpyAsync", "D2H pinned 4", "cudaStreamSynchronize")] == met(timeline_of(facts(capture)))
    assert [] == met(timeline_of(facts(capture), np.array([1])))


def test_a_wait_that_began_before_the_copys_call_is_not_its_wait(build):
    """A link that a broken file gives: the wait of 0-5 for an event that is recorded at 30, behind the copy at 20."""
    calls = [("cudaEventSynchronize", 0, 5), ("cudaMemcpyAsync", 20, 25), ("cudaEventRecord", 30, 31)]
    links, records = [(0, 2, 7, 1, Evidence.PROVED)], [(2, 1, 7)]
    capture = build.a_loop(1, 100, calls, [("D2H pinned 4", 40, 45, 1)], links=links, records=records)
    assert [("cudaMemcpyAsync", "D2H pinned 4", None)] == met(timeline_of(facts(capture)))


def test_a_copy_whose_call_is_not_in_the_capture_flows_from_nowhere(build):
    calls = [("cudaLaunchKernel", 0, 5), ("cudaStreamSynchronize", 60, 80)]
    work = [("kernel", 6, 10, 0), ("D2H pinned 4", 40, 45, None)]
    assert [(None, "D2H pinned 4", None)] == met(timeline_of(facts(build.a_loop(1, 100, calls, work))))


def test_a_copy_on_the_device_is_no_transfer(build):
    calls = [("cudaMemcpyAsync", 0, 5)]
    timeline = timeline_of(facts(build.a_loop(1, 100, calls, [("D2D 4", 40, 45, 0)])))
    assert (0, [("D2D 4", 40, 45, Meaning.COPY)]) == (len(timeline.flows), of(timeline, LaneKind.STREAM))


def test_the_copies_of_a_run_have_flows_without_a_copy(make_session):
    """A run has no device rows of copies: each flows from its call to its fence."""
    session = make_session(steps=6)
    run = session.new_run("async")
    run = replace(run, blocks=(session.block("async", 0),))
    timeline = timeline_of(result_of(run).facts)
    flows = timeline.flows
    assert {NONE} == set(flows.copy.tolist())
    assert 12 == len(flows)  # tokens and flag of 6 steps
    assert (flows.issue != NONE).all()
    known = flows.wait != NONE
    assert known.sum() >= 10  # the last step's may be waited for behind it
    assert (timeline.spans.start_ns[flows.issue[known]] < timeline.spans.start_ns[flows.wait[known]]).all()


# Exactness


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.tuples(st.integers(0, 190), st.integers(0, 40), st.integers(0, 2)), max_size=8),
    st.lists(st.tuples(st.integers(0, 190), st.integers(0, 30)), max_size=6),
)
def test_idle_and_busy_spans_fill_each_window_to_the_ns(build, work, waits):
    """Random kernels on three streams and random waits in two windows of 100 ns."""
    calls = [("cudaLaunchKernel", 0, 1), *(("cudaStreamSynchronize", start, start + ns) for start, ns in waits)]
    rows = [("kernel", start, start + ns, 0, stream) for start, ns, stream in work]
    ranges = [("decode_step", 0, 100), ("decode_step", 100, 200)]
    check_device(facts(build.a_capture(calls, [("kernel", 50, 60, 0), *rows], ranges)))


def check_device(known):
    """Check of every window that idle and the streams' union fill it, and idle by name against the ledger's causes."""
    timeline = timeline_of(known)
    spans, ledger = timeline.spans, known.ledger
    kind = np.array([list(LaneKind).index(lane.kind) for lane in timeline.lanes])[spans.lane]
    idle, busy = (np.flatnonzero(kind == list(LaneKind).index(each)) for each in (LaneKind.IDLE, LaneKind.STREAM))
    starts, ends = timeline.starts_ns, timeline.ends_ns
    idle_ns, busy_ns = (covered(spans.start_ns[its], spans.end_ns[its], starts, ends) for its in (idle, busy))
    assert (ends - starts).tolist() == (idle_ns + busy_ns).tolist()
    window = inside(starts, ends, spans.start_ns[idle])
    length = (spans.end_ns - spans.start_ns)[idle]
    for position in range(len(starts)):
        found = {}
        for at in np.flatnonzero(window == position).tolist():
            name = timeline.names[spans.name[idle[at]]]
            assert MEANINGS[spans.meaning[idle[at]]] is meaning_of_part(name)
            found[name] = found.get(name, 0) + int(length[at])
        assert ledger.causes_of(position) == found
    assert length.sum() == idle_ns.sum()  # they do not overlap


def check_calls_and_flows(known):
    """Check that every blocking call of the step's thread is there, that lanes hold no overlap, and flows' order."""
    timeline, calls, steps = timeline_of(known), known.calls, known.steps
    spans = timeline.spans
    mine = calls.waits_of_thread(steps.thread)
    touches = [
        (start, end)
        for start, end in zip(calls.start_ns[mine].tolist(), calls.end_ns[mine].tolist(), strict=True)
        if ((steps.starts_ns < end) & (steps.ends_ns > start)).any()
    ]
    shown = {
        (int(start), int(end))
        for lane, start, end, meaning in zip(spans.lane, spans.start_ns, spans.end_ns, spans.meaning, strict=True)
        if timeline.lanes[lane].kind is LaneKind.CALLS and MEANINGS[meaning] is Meaning.BLOCKED
    }
    assert set(touches) <= shown
    assert (np.diff(spans.start_ns) >= 0).all()
    for lane in range(len(timeline.lanes)):
        its = spans.lane == lane
        assert (spans.start_ns[its][1:] >= spans.end_ns[its][:-1]).all(), timeline.lanes[lane]
    flows = timeline.flows
    known_both = (flows.issue != NONE) & (flows.wait != NONE)
    assert (spans.start_ns[flows.issue[known_both]] < spans.start_ns[flows.wait[known_both]]).all()
    device = np.flatnonzero(spans.issued_by != NONE)
    lag = spans.start_ns[device] - spans.start_ns[spans.issued_by[device]]
    assert (lag >= -known.capture.time_error_ns - US).all()  # two clocks


@pytest.mark.parametrize("path", LOOPS, ids=lambda path: path.stem)
def test_a_real_loop_is_drawn_to_the_ns(path):
    known = analyze(import_capture(path, lambda text: None), path.name, Choice()).facts
    check_device(known)
    check_calls_and_flows(known)
    timeline = timeline_of(known)
    assert len(timeline.flows) == round(sum(entry.per_step for entry in known.transfers) * len(known.steps))


def test_every_real_capture_is_drawn_to_the_ns(captures):
    """Also those that are cut, of one step or of many, and those of frameworks with deep ranges."""
    drawn_ones = 0
    for path in sorted(captures.glob("*/*.*")):
        try:
            known = analyze(import_capture(path, lambda text: None), path.name, Choice()).facts
        except InputError:
            continue
        if known.device is not None:
            check_device(known)
        check_calls_and_flows(known)
        drawn_ones += 1
    assert drawn_ones > 10


# Which steps are drawn


def a_finding(*steps):
    return Finding(FindingCode.NO_FENCE, "text", Evidence.PROVED, None, {}, "advice", steps=steps)


def even(build, steps=40):
    """Return facts of steps with 3 spans each: the step's range, a launch, and the host's code around it as idle.

    Work ends before the loop's begin, so each window is idle: launch 0-5, then host code to 100.
    """
    ranges = [("decode_step", 1_000 + 100 * step, 1_100 + 100 * step) for step in range(steps)]
    calls = [("cudaLaunchKernel", 0, 5), *(("cudaEventQuery", 1_000 + 100 * k, 1_005 + 100 * k) for k in range(steps))]
    return facts(build.a_capture(calls, [("kernel", 6, 9, 0)], ranges))


def test_all_steps_are_drawn_where_they_fit(build):
    """40 steps of a range, a call, and idle time in the call and behind it: 160 spans."""
    known = even(build)
    assert 160 == len(timeline_of(known).spans)
    assert list(range(40)) == steps_to_draw(known, (), (), 160).tolist()


def test_else_the_first_the_longest_and_those_of_findings_are_drawn_with_their_neighbours(build):
    """Of 44 spans there is room for 11 steps: 0 and 1; the median, the first of equals, is 19 of 40 with 18 and 20; 30
    is a worst one and 10 a finding's.
    """
    known = even(build)
    assert [0, 1, 9, 10, 11, 18, 19, 20] == steps_to_draw(known, [a_finding(10)], [], 32).tolist()
    chosen = steps_to_draw(known, [a_finding(10)], [30], 44)
    assert [0, 1, 9, 10, 11, 18, 19, 20, 29, 30, 31] == chosen.tolist()
    assert 44 >= len(timeline_of(known, chosen).spans)


@pytest.mark.parametrize("most", [0, 3, 4, 5, 17, 60, 100, 159])
def test_never_more_spans_are_drawn_than_asked_for_and_room_is_used(build, most):
    known = even(build)
    chosen = steps_to_draw(known, [a_finding(7, 3)], [39], most)
    count = len(timeline_of(known, chosen).spans)
    assert most - 4 < count <= most or (count == 0 and most < 4)
    assert sorted(set(chosen.tolist())) == chosen.tolist()


def test_calls_without_length_count_in_their_own_step_alone(build):
    """Ten steps of a range and two empty calls, 3 spans each: room for 15 is room for 5 steps."""
    ranges = [("decode_step", 100 * step, 100 * step + 100) for step in range(10)]
    calls = [("cudaEventQuery", at, at) for step in range(10) for at in (100 * step, 100 * step + 50)]
    known = facts(build.a_capture(calls, ranges=ranges))
    assert 30 == len(timeline_of(known).spans)
    chosen = steps_to_draw(known, [], [], 15)
    assert (5, 15) == (len(chosen), len(timeline_of(known, chosen).spans))


def test_steps_beyond_the_wanted_ones_are_spread_evenly(build):
    """With room for 20 of 40 steps no stretch of 13 goes without one."""
    chosen = steps_to_draw(even(build), [], [], 80)
    assert 20 == len(chosen)
    assert max(np.diff([-1, *chosen.tolist(), 40])) <= 13


# Meanings


def test_every_part_of_a_step_has_a_meaning():
    """The causes of idle time, as the ledger and the bridge name them, and both parts of busy time."""
    assert {
        "queued": Meaning.QUEUED,
        "blocked": Meaning.BLOCKED,
        "allocate": Meaning.ALLOCATE,
        "launch": Meaning.LAUNCH,
        "not captured": Meaning.NOT_CAPTURED,
        "host:": Meaning.HOST,
        "host:busy:compute": Meaning.HOST,
        COMPUTE: Meaning.BUSY,
        COPY_ALONE: Meaning.COPY,
    } == {
        name: meaning_of_part(name)
        for name in (
            *("queued", "blocked", "allocate", "launch", "not captured", "host:", "host:busy:compute"),
            *(COMPUTE, COPY_ALONE),
        )
    }


def test_what_is_no_part_has_no_meaning():
    with pytest.raises(ValueError, match="forward"):
        meaning_of_part("forward")
