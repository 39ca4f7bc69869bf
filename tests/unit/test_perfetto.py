# ruff: noqa: SIM300 - the expected value stands first
"""reports/perfetto.py: the trace read back, by the package's own messages and where it can be had by its processor."""

import builtins
import shutil
from collections import Counter, defaultdict
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from fdprof.reports._perfetto.slices import nested
from fdprof.reports._perfetto.trace import EventType, Trace
from fdprof.reports.perfetto import REPORT
from fdprof.reports.protocol import EVERY, Analyses, ComparisonResult

from fdprof.analysis.capture_result import analyze
from fdprof.analysis.inflation import OverheadResult
from fdprof.analysis.steps import Choice
from fdprof.analysis.timeline import MEANINGS, timeline_of
from fdprof.capture import Evidence
from fdprof.errors import EnvironmentMissing

US = 1_000


@pytest.fixture(scope="module")
def messages():
    """The package's messages; without the package there is no report to test."""
    return pytest.importorskip(
        "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="the package perfetto is not installed"
    )


HOSTILE = (
    "<script>alert(1)</script>",
    "\x1b[31mred\x1b[0m\x07",
    "‮gnirts‬",
    "核心\u3000カーネル 🚀",
    '=HYPERLINK("http://example.com")',
    "a, 'b' \"c\"\r\n\td",
    "\x00nul\x00",
    "",
    "k" * 5_000,
)


class Read:
    """A trace read back: tracks, slices, instants, counters and flows, in ns and by name.

    It knows of Perfetto's format what its documentation says: descriptors, interning by sequence, begin and end.
    """

    def __init__(self, messages, data):
        trace = messages.Trace()
        assert len(data) == trace.ParseFromString(data)
        self.tracks = {}
        self.slices, self.instants, self.counters = [], [], defaultdict(list)
        self.flows = defaultdict(list)  # (time, place in the file, name of the slice or instant), by id
        self.last = Counter()
        self.times = defaultdict(list)
        interned, open_slices = {}, defaultdict(list)
        types = messages.TrackEvent
        for place, packet in enumerate(trace.packet):
            if packet.HasField("track_descriptor"):
                descriptor = packet.track_descriptor
                assert descriptor.uuid not in self.tracks
                assert descriptor.parent_uuid in (0, *self.tracks)
                self.tracks[descriptor.uuid] = descriptor
                continue
            sequence = packet.trusted_packet_sequence_id
            assert sequence > 0
            if packet.sequence_flags & messages.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED:
                data = packet.interned_data
                tables = (data.event_names, data.event_categories, data.debug_annotation_names)
                assert sequence not in interned
                interned[sequence] = [{entry.iid: entry.name for entry in table} for table in tables]
                assert all(0 not in table for table in interned[sequence])
                continue
            assert packet.sequence_flags & messages.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
            names, categories, notes = interned[sequence]
            event = packet.track_event
            assert event.track_uuid in self.tracks
            self.times[sequence].append(packet.timestamp)
            shown = SimpleNamespace(
                track=event.track_uuid,
                name=names[event.name_iid] if event.name_iid else None,
                category=[categories[iid] for iid in event.category_iids],
                start=packet.timestamp,
                end=None,
                depth=len(open_slices[event.track_uuid]),
                notes={notes[entry.name_iid]: self._value(entry) for entry in event.debug_annotations},
            )
            if event.type == types.TYPE_SLICE_BEGIN:
                open_slices[event.track_uuid].append(shown)
                self.slices.append(shown)
            elif event.type == types.TYPE_SLICE_END:
                open_slices[event.track_uuid].pop().end = packet.timestamp
            elif event.type == types.TYPE_INSTANT:
                self.instants.append(shown)
            else:
                assert types.TYPE_COUNTER == event.type
                self.counters[event.track_uuid].append((packet.timestamp, event.counter_value))
            for flow in (*event.flow_ids, *event.terminating_flow_ids):
                self.flows[flow].append((packet.timestamp, place, shown.name))
            self.last.update(event.terminating_flow_ids)
        assert not any(open_slices.values())

    @staticmethod
    def _value(annotation):
        return getattr(annotation, annotation.WhichOneof("value"))

    def name(self, track):
        """Return a track's name without its number."""
        return self.tracks[track].name.split(". ", 1)[-1]

    def groups(self):
        return [track for track in self.tracks.values() if track.HasField("process")]

    def on(self, label, group=None):
        """Return (name, start, end) of the slices on the tracks of this name, of one group or of all."""
        return [(entry.name, entry.start, entry.end) for entry in self._on(self.slices, label, group)]

    def _on(self, entries, label, group):
        parents = {group.uuid} if group else {entry.uuid for entry in self.groups()}
        return [
            entry
            for entry in entries
            if self.name(entry.track) == label and self.tracks[entry.track].parent_uuid in parents
        ]

    def points(self, label, group=None):
        return self._on(self.instants, label, group)

    def counter(self, name, group=None):
        """Return the values of a counter in order of time."""
        for track, values in self.counters.items():
            parent = self.tracks[self.tracks[track].parent_uuid]
            if self.tracks[track].name == name and (group is None or parent.parent_uuid == group.uuid):
                return values
        raise KeyError(name)


@pytest.fixture
def read(messages):
    """Render a result and read it back."""
    return lambda result: Read(messages, REPORT.render(result))


def a_loop(build, steps=2, **more):
    """Return a loop of 100 µs a step with a copy that is waited for at 20-65, as test_timeline.py works it out."""
    calls = [
        ("cudaLaunchKernel", 0, 5),
        ("cudaMemcpyAsync_v3020", 10, 14),
        ("cudaEventRecord", 15, 16),
        ("cudaEventSynchronize", 20, 65),
    ]
    work = [("kernel gemm", 8, 50, 0), ("D2H pinned 256", 52, 60, 1)]
    records = [(2 + 4 * step, 1, 7) for step in range(steps)]
    links = [(3 + 4 * step, 2 + 4 * step, 7, 1, Evidence.PROVED) for step in range(steps)]
    ranges = [("forward", 0, 6), ("fence", 19, 66)]
    return build.a_loop(steps, 100, calls, work, ranges, records=records, links=links, **more)


def analysed(capture, path="a capture.json"):
    return analyze(capture, path, Choice())


def in_us(slices):
    return [(name, start / US, end / US) for name, start, end in slices]


# What a trace holds


def test_the_steps_are_slices_with_their_numbers(build, read):
    trace = read(analysed(a_loop(build)))
    assert [("step 0", 0, 100), ("step 1", 100, 200)] == in_us(trace.on("steps"))


def test_the_ranges_of_a_thread_nest_on_one_track(build, read):
    """Both steps: the step's own range at depth 0 and the two others in it."""
    trace = read(analysed(a_loop(build)))
    assert [
        ("decode_step", 0, 100),
        ("forward", 0, 6),
        ("fence", 19, 66),
        ("decode_step", 100, 200),
        ("forward", 100, 106),
        ("fence", 119, 166),
    ] == in_us(trace.on("host thread 11, ranges"))
    assert {"decode_step": 0, "forward": 1, "fence": 1} == {
        entry.name: entry.depth for entry in trace._on(trace.slices, "host thread 11, ranges", None)
    }


def test_calls_idle_time_and_work_have_their_meaning_as_category(build, read):
    """Of the first step: the wait is blocked, the copy copies; idle 60-65 is in the wait."""
    trace = read(analysed(a_loop(build, steps=1)))
    assert {
        ("cudaEventSynchronize", "blocked"),
        ("cudaMemcpyAsync", "launch"),
        ("kernel gemm", "busy"),
        ("D2H pinned 256", "copy"),
        ("host:fence", "host"),
        ("queued", "queued"),
        ("step 0", "step"),
    } <= {(entry.name, *entry.category) for entry in trace.slices}
    assert [("blocked", 60, 65)] == [entry for entry in in_us(trace.on("device idle")) if entry[0] == "blocked"]


def test_a_slice_says_its_step_its_ns_and_its_bytes(build, read):
    """The copy of 256 bytes takes 8,000 ns in step 1; a kernel has no size, and none is shown."""
    trace = read(analysed(a_loop(build)))
    copy, kernel = (
        next(entry for entry in trace.slices if entry.name == name and entry.start > 100 * US)
        for name in ("D2H pinned 256", "kernel gemm")
    )
    assert {"step": 1, "duration_ns": 8_000, "size_bytes": 256} == copy.notes
    assert {"step": 1, "duration_ns": 42_000} == kernel.notes


def test_a_copy_flows_from_its_call_to_the_copy_to_where_its_wait_returns(build, read):
    """Issued at 10, copied from 52, known at 65; a launch flows to its kernel, 0 to 8."""
    trace = read(analysed(a_loop(build, steps=1)))
    assert [
        [(0, "cudaLaunchKernel"), (8, "kernel gemm")],
        [(10, "cudaMemcpyAsync"), (52, "D2H pinned 256"), (65, "wait returns")],
    ] == sorted([(time / US, name) for time, _, name in flow] for flow in trace.flows.values())
    (returns,) = trace.points("host thread 11, calls")
    assert ("wait returns", ["blocked"], 1) == (returns.name, returns.category, returns.depth)


def test_a_fence_of_two_copies_ends_both_flows_in_one_event(build, read):
    calls = [("cudaMemcpyAsync", 0, 5), ("cudaMemcpyAsync", 6, 9), ("cudaStreamSynchronize", 40, 80)]
    work = [("D2H pinned 4", 50, 55, 0), ("D2H pinned 8", 56, 60, 1)]
    trace = read(analysed(build.a_loop(1, 100, calls, work)))
    assert [80 * US] * 2 == [flow[-1][0] for flow in trace.flows.values()]
    assert 1 == len(trace.points("host thread 11, calls"))


def test_a_graph_flows_to_its_first_kernel_alone(build, read):
    """Else one launch would have as many arrows as the graph has nodes."""
    work = [("kernel a", 10, 20, 0), ("kernel b", 20, 30, 0), ("kernel c", 30, 40, 0)]
    trace = read(analysed(build.a_loop(1, 100, [("cudaGraphLaunch", 0, 5)], work)))
    assert [["cudaGraphLaunch", "kernel a"]] == [[name for *_, name in flow] for flow in trace.flows.values()]


def test_work_that_began_before_its_call_by_the_clocks_error_has_no_arrow(build, read):
    """A reader would draw it backwards."""
    calls = [("cudaLaunchKernel", 10, 15), ("cudaMemcpyAsync", 20, 25), ("cudaStreamSynchronize", 40, 60)]
    work = [("kernel", 9, 12, 0), ("D2H pinned 4", 61, 62, 1)]
    trace = read(analysed(build.a_loop(1, 100, calls, work)))
    assert [["cudaMemcpyAsync", "wait returns"]] == [[name for *_, name in flow] for flow in trace.flows.values()]


def test_a_copy_that_began_before_its_call_is_left_out_of_its_flow(build, read):
    """Call and wait are of one clock and stay; the copy at 9 would be drawn before its call at 10."""
    calls = [("cudaMemcpyAsync", 10, 15), ("cudaStreamSynchronize", 40, 60)]
    trace = read(analysed(build.a_loop(1, 100, calls, [("D2H pinned 4", 9, 20, 0)])))
    assert [["cudaMemcpyAsync", "wait returns"]] == [[name for *_, name in flow] for flow in trace.flows.values()]


def test_counters_hold_each_steps_times_and_fall_to_0_behind_the_last(build, read):
    """Step 0: busy 42 + 8 of 100; idle 50 as test_timeline.py has it, in the second step too."""
    trace = read(analysed(a_loop(build)))
    expected = {
        "device busy": 50,
        "device busy: copies alone": 8,
        "device idle: blocked": 5,
        "device idle: launch": 5,
        "device idle: queued": 5,
        "device idle: host": 35,
        "host blocked": 45,
    }
    assert {name: [(0, us * US), (100 * US, us * US), (200 * US, 0)] for name, us in expected.items()} == {
        trace.tracks[track].name: values for track, values in trace.counters.items()
    }


def test_counters_are_in_ns_and_in_a_group_of_their_own(build, read, messages):
    trace = read(analysed(a_loop(build)))
    for track in trace.counters:
        assert messages.CounterDescriptor.UNIT_TIME_NS == trace.tracks[track].counter.unit
        assert "each step's time" == trace.name(trace.tracks[track].parent_uuid)


def test_a_counter_is_0_between_steps_that_do_not_touch(build, read):
    """Prefill between 100 and 300 is no decode step."""
    ranges = [("step[DECODE]", 0, 100), ("step[EXTEND]", 100, 300), ("step[DECODE]", 300, 400)]
    calls = [("cudaLaunchKernel", 0, 10), ("cudaStreamSynchronize", 20, 60), ("cudaStreamSynchronize", 320, 330)]
    trace = read(analysed(build.a_capture(calls, [("kernel", 12, 50, 0)], ranges)))
    assert [(0, 40), (100, 0), (300, 10), (400, 0)] == trace.counter("host blocked")


def test_a_capture_without_device_work_has_no_counter_of_the_device(build, read):
    """Unobserved is not 0."""
    trace = read(analysed(build.a_loop(2, 100, [("cudaStreamSynchronize", 10, 30)])))
    assert ["host blocked"] == [trace.tracks[track].name for track in trace.counters]


def test_findings_stand_at_the_steps_that_show_them(build, read):
    result = analysed(a_loop(build, steps=4))
    (finding, *_) = result.findings
    assert finding.steps
    points = read(result).points("findings")
    assert sorted((finding.code.value, at * 100 * US) for finding in result.findings for at in finding.steps) == sorted(
        (point.name, point.start) for point in points
    )
    first = next(point for point in points if point.name == finding.code.value)
    assert {
        "step": first.start // (100 * US),
        "text": finding.text,
        "advice": finding.advice,
        "certainty": finding.certainty.name.lower(),
        "cost_ns_per_step": finding.cost_ns_per_step,
    } == first.notes


def test_the_group_of_a_capture_says_its_three_sentences_and_its_shift(build, read):
    result = analysed(a_loop(build))
    (group,) = read(result).groups()
    assert "a capture.json" == group.process.process_name
    for sentence in result.headline:
        assert sentence in group.description
    assert "begins at 0 ns" in group.description


# Time


def test_times_are_shifted_so_that_the_first_step_begins_at_0(build, read):
    """The capture's clock is at 5 s there; the shift is said."""
    ranges = [("decode_step", 5_000_000_000, 5_000_000_100)]
    result = analysed(build.a_capture([("cudaLaunchKernel", 5_000_000_010, 5_000_000_020)], ranges=ranges))
    trace = read(result)
    assert [("step 0", 0, 100)] == trace.on("steps")
    assert [("cudaLaunchKernel", 10, 20)] == trace.on("host thread 11, calls")
    assert "shifted by -5000000000 ns" in trace.groups()[0].description


def test_what_began_before_the_first_step_is_whole_and_no_time_is_negative(build, read):
    """A range of 1,000-1,500 around a step of 1,200-1,300: 200 ns before it, so the clock's 0 is 1 ms before it."""
    ranges = [("engine", 1_000, 1_500), ("decode_step", 1_200, 1_300)]
    result = analysed(build.a_capture([("cudaLaunchKernel", 1_210, 1_220)], ranges=ranges))
    trace = read(result)
    assert [("step 0", 1_000_000, 1_000_100)] == trace.on("steps")
    assert ("engine", 999_800, 1_000_300) in trace.on("host thread 11, ranges")
    assert "begins at 1000000 ns" in trace.groups()[0].description


def test_the_events_of_a_sequence_come_in_order_of_time(build, read):
    for times in read(analysed(a_loop(build, steps=20))).times.values():
        assert sorted(times) == times


def test_a_slice_that_ends_where_the_next_begins_ends_first(build, read):
    """Else the second would lie in the first; three kernels that touch, and one without length."""
    work = [("kernel a", 10, 20, 0), ("kernel b", 20, 30, 0), ("kernel c", 30, 30, 0), ("kernel d", 30, 40, 0)]
    trace = read(analysed(build.a_loop(1, 100, [("cudaLaunchKernel", 0, 5)], work)))
    found = trace.on("stream 7") + trace.on("stream 7 (2)")
    assert sorted((name, start, end) for name, start, end, *_ in work) == sorted(in_us(found))


# Tracks


def walks(*spans):
    """Return the walks of each track as names of events: 'a' begins the first span, 'A' ends it."""
    starts, ends = (np.array([span[at] for span in spans], dtype=np.int64) for at in (0, 1))
    return ["".join("aAbBcCdDeE"[event] for event in walk) for walk in nested(starts, ends)]


def test_nested_spans_share_a_track():
    assert ["abBcCA"] == walks((0, 10), (1, 4), (5, 10))


def test_spans_that_cross_are_on_two_tracks():
    """0-10 and 5-15 cross; 12-13 lies in the second, and is on the first track, which is free then."""
    assert ["aAcC", "bB"] == walks((0, 10), (5, 15), (12, 13))


def test_spans_without_length_end_before_what_comes_next_and_lie_in_what_is_open():
    assert ["abBA", "aAbB"] == [*walks((0, 10), (5, 5)), *walks((0, 10), (10, 10))]


def test_no_span_needs_no_track():
    assert [] == walks()


def test_kernels_that_overlap_on_one_stream_are_on_a_second_track_even_where_they_nest(build, read):
    """They run side by side: one is no part of the other."""
    work = [("kernel a", 10, 40, 0), ("kernel b", 20, 30, 0)]
    trace = read(analysed(build.a_loop(1, 100, [("cudaGraphLaunch", 0, 5)], work)))
    assert [("kernel a", 10, 40)] == in_us(trace.on("stream 7"))
    assert [("kernel b", 20, 30)] == in_us(trace.on("stream 7 (2)"))


def test_tracks_are_numbered_so_that_readers_who_go_by_names_keep_their_order(build, read):
    """With ten streams there are more than nine: then all have two digits."""
    work = [(f"kernel {stream}", 10 + stream, 11 + stream, 0, stream) for stream in range(10)]
    trace = read(analysed(build.a_loop(1, 100, [("cudaLaunchKernel", 0, 5)], work)))
    names = [track.name for track in trace.tracks.values() if track.parent_uuid == trace.groups()[0].uuid]
    assert sorted(names) == names
    assert ["01. steps", "03. host thread 11, ranges"] == [names[0], names[2]]


def test_both_sides_of_a_comparison_begin_at_one_time_in_a_group_each(cases, read):
    result = cases["comparison_captures"]
    trace = read(result)
    baseline, candidate = trace.groups()
    assert [f"baseline: {result.comparison.baseline.label}", f"candidate: {result.comparison.candidate.label}"] == [
        group.process.process_name for group in (baseline, candidate)
    ]
    starts = [trace.on("steps", group)[0][1] for group in (baseline, candidate)]
    assert 1 == len(set(starts))
    for group, side in ((baseline, result.baseline), (candidate, result.candidate)):
        assert len(side.facts.steps) == len(trace.on("steps", group))
        assert side.facts.ledger.host_blocked_ns.sum() == sum(
            value for _, value in trace.counter("host blocked", group)
        )
    assert len({group.process.pid for group in (baseline, candidate)}) == 2


def test_no_flow_leads_from_one_group_to_another(cases, read):
    """Ids count on over both sides."""
    trace = read(cases["comparison_captures"])
    assert set(trace.last.values()) == {1}


def test_a_side_that_is_a_baseline_file_is_left_out(cases, read):
    result = cases["comparison"]
    assert isinstance(result, ComparisonResult)
    assert 2 == len(read(result).groups())
    assert 1 == len(read(replace(result, baseline=None)).groups())


def test_several_captures_are_a_group_each(build, read):
    results = tuple(analysed(a_loop(build, steps), f"{steps}.json") for steps in (2, 3))
    trace = read(Analyses(results))
    assert ["2.json", "3.json"] == [group.process.process_name for group in trace.groups()]
    assert [2, 3] == [len(trace.on("steps", group)) for group in trace.groups()]


def test_a_run_has_its_counted_steps_alone(cases, read):
    result = cases["run"]
    trace = read(result)
    assert result.facts.steps.numbers.tolist() == [int(name.removeprefix("step ")) for name, *_ in trace.on("steps")]
    assert len(result.facts.steps) == result.summaries["window_ns"].count


def test_a_run_without_a_counted_step_is_a_group_that_says_so(cases, read):
    trace = read(replace(cases["run"], facts=None, findings=()))
    assert ["no step was counted"] == [group.description for group in trace.groups()]
    assert ([], {}) == (trace.slices, dict(trace.counters))


def test_the_report_shows_all_kinds_of_results_but_what_profiling_costs():
    assert (".perfetto-trace", set(EVERY) - {OverheadResult}) == (REPORT.suffix, set(REPORT.renders))


def test_the_same_result_gives_the_same_bytes(build, messages):
    result = analysed(a_loop(build))
    assert REPORT.render(result) == REPORT.render(result)


# Names


def test_hostile_names_come_back_as_they_were(build, read):
    ranges = [(name, 10 * at, 10 * at + 5) for at, name in enumerate(HOSTILE)]
    work = [(f"kernel {name}", 10 * at + 1, 10 * at + 2, 0) for at, name in enumerate(HOSTILE)]
    capture = build.a_loop(1, 100, [("cudaLaunchKernel", 0, 1)], work, ranges)
    capture = replace(capture, threads=(replace(capture.threads[0], name=HOSTILE[1]),))
    trace = read(analysed(capture, HOSTILE[2]))
    assert list(HOSTILE) == [
        name for name, *_ in trace.on(f"host thread 11 ({HOSTILE[1]}), ranges") if name != "decode_step"
    ]
    assert [f"kernel {name}" for name in HOSTILE] == [name for name, *_ in trace.on("stream 7")]
    assert HOSTILE[2] == trace.groups()[0].process.process_name


def test_half_a_pair_of_utf_16_is_written_out(build, read):
    """UTF-8 cannot hold it, and JSON can name it."""
    capture = build.a_loop(1, 100, [("cudaLaunchKernel", 0, 1)], ranges=[("a\ud83db", 10, 20)])
    assert "a\\ud83db" in [name for name, *_ in read(analysed(capture)).on("host thread 11, ranges")]


# Whole captures


def check(trace, group, result):
    """Check a group of a trace against the timeline and the ledger it is of."""
    facts = result.facts
    timeline = timeline_of(facts)
    spans, ledger = timeline.spans, facts.ledger
    zero = trace.on("steps", group)[0][1]
    shift = zero - int(timeline.starts_ns[0])
    expected = Counter(
        (timeline.names[name], int(start) + shift, int(end) + shift, MEANINGS[meaning].value)
        for name, start, end, meaning in zip(spans.name, spans.start_ns, spans.end_ns, spans.meaning, strict=True)
    )
    mine = [entry for entry in trace.slices if trace.tracks[entry.track].parent_uuid == group.uuid]
    shown = Counter(
        (entry.name, entry.start, entry.end, *entry.category) for entry in mine if entry.category != ["step"]
    )
    assert expected == shown
    assert all(entry.notes["duration_ns"] == entry.end - entry.start for entry in mine)
    numbers = {f"step {number}" for number in ledger.step.tolist()}
    assert numbers == {name for name, *_ in trace.on("steps", group)}
    # A run without a blocking call does not know how long it was blocked: no counter, and not one of zeros.
    columns = {} if ledger.host_blocked_ns is None else {"host blocked": ledger.host_blocked_ns}
    if ledger.device_busy_ns is not None:
        columns |= {"device busy": ledger.device_busy_ns}
        if result.facts.capture.times_copies:
            columns |= {"device busy: copies alone": ledger.copy_alone_ns}
    for name in {"host blocked", "device busy: copies alone"} - columns.keys():
        with pytest.raises(KeyError):
            trace.counter(name, group)
    for name, column in columns.items():
        at_start = dict(trace.counter(name, group))  # of two values at one time the later counts
        assert column.tolist() == [at_start[start + shift] for start in timeline.starts_ns.tolist()]
    idle = [
        sum(value for _, value in values)
        for track, values in trace.counters.items()
        if trace.tracks[track].name.startswith("device idle")
        and trace.tracks[trace.tracks[track].parent_uuid].parent_uuid == group.uuid
    ]
    assert sum(idle) == (0 if ledger.device_idle_ns is None else ledger.device_idle_ns.sum())


def check_flows(trace):
    """Check that every flow joins two events or three in the order of time, and ends."""
    for flow in trace.flows.values():
        assert 2 <= len(flow) <= 3
        assert sorted(flow) == flow
    assert {1} == set(trace.last.values()) or not trace.flows
    assert set(trace.last) == set(trace.flows)


@pytest.mark.parametrize(
    "name",
    ["run", "run_interrupted", "run_wrong", "run_one_step", "analysis", "analysis_no_device", "analysis_hostile"],
)
def test_a_result_is_in_its_trace_to_the_ns(cases, read, name):
    result = cases[name]
    trace = read(result)
    (group,) = trace.groups()
    check(trace, group, result)
    check_flows(trace)


@pytest.mark.parametrize("name", ["comparison", "comparison_not_comparable", "comparison_captures"])
def test_both_sides_are_in_their_trace_to_the_ns(cases, read, name):
    result = cases[name]
    trace = read(result)
    for group, side in zip(trace.groups(), (result.baseline, result.candidate), strict=True):
        check(trace, group, side)
    check_flows(trace)


def test_many_packets_are_one_trace(build, read, messages):
    """1,200 steps are more packets than are made at once."""
    result = analysed(a_loop(build, steps=1_200))
    data = REPORT.render(result)
    trace = Read(messages, data)
    check(trace, trace.groups()[0], result)
    check_flows(trace)


# Where the package cannot be used


def test_without_the_package_the_error_says_how_to_install_it(monkeypatch, build):
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("perfetto"):
            raise ModuleNotFoundError(f"No module named {name!r}", name="perfetto")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(EnvironmentMissing, match="is not installed") as caught:
        REPORT.render(analysed(a_loop(build)))
    assert "pip install perfetto" == caught.value.hint


def test_with_a_protobuf_that_is_too_old_the_error_says_so(monkeypatch):
    """The package's code is made for a protobuf and asks for no version when it is installed."""
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("perfetto"):
            raise ImportError("cannot import name 'runtime_version' from 'google.protobuf'", name="google.protobuf")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(EnvironmentMissing, match="runtime_version") as caught:
        Trace()
    assert "pip install --upgrade perfetto protobuf" == caught.value.hint


def test_a_protobuf_that_refuses_the_packages_code_is_said_too(monkeypatch):
    """Newer ones compare versions and raise an error of their own."""
    version = pytest.importorskip("google.protobuf.runtime_version", reason="this protobuf compares no versions")
    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("perfetto"):
            raise version.VersionError("gencode 99.0.0 runtime 6.31.1")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(EnvironmentMissing, match=r"gencode 99\.0\.0") as caught:
        Trace()
    assert "pip install --upgrade perfetto protobuf" == caught.value.hint


def test_an_event_has_the_types_of_the_format(messages):
    """Their order is the writer's own."""
    assert ["BEGIN", "END", "INSTANT", "COUNTER"] == [each.name for each in EventType]


# By Perfetto's own processor


@pytest.fixture
def processor(messages, tmp_path):
    """Open a trace with the trace processor; it is a program that the package fetches, which is not always possible."""
    from perfetto.trace_processor import TraceProcessor, TraceProcessorConfig

    path = shutil.which("trace_processor_shell") or shutil.which("trace_processor")
    if path is None:
        pytest.skip("trace_processor_shell is not on the PATH (the package would fetch it from the network)")
    opened = []

    def open_trace(data):
        file = tmp_path / "a.perfetto-trace"
        file.write_bytes(data)
        opened.append(TraceProcessor(trace=str(file), config=TraceProcessorConfig(bin_path=path)))
        return lambda query: [dict(row.__dict__) for row in opened[-1].query(query)]

    yield open_trace
    for each in opened:
        each.close()


def test_the_trace_processor_reads_it_without_a_complaint(cases, processor):
    """Every step with its ns, all slices closed, flows in the order of time."""
    result = cases["analysis"]
    ask = processor(REPORT.render(result))
    assert [] == ask("select name, value from stats where severity in ('error', 'data_loss') and value > 0")
    steps = ask(
        "select s.dur from slice s join track t on t.id = s.track_id where t.name like '%. steps' order by s.ts"
    )
    assert result.facts.ledger.window_ns.tolist() == [row["dur"] for row in steps]
    assert [{"open": 0}] == ask("select count(*) as open from slice where dur < 0")
    backwards = "select count(*) as n from flow join slice a on a.id = slice_out join slice b on b.id = slice_in "
    assert [{"n": 0}] == ask(backwards + "where a.ts > b.ts")
