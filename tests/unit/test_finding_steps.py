# ruff: noqa: SIM300 - the expected value stands first
"""Finding.steps: the steps that show a finding most plainly, so that a report can lead to them."""

import pytest

from fdprof.analysis.capture_result import analyze
from fdprof.analysis.fence import FenceResult
from fdprof.analysis.findings.run import run_findings
from fdprof.analysis.stats import NOTHING
from fdprof.analysis.steps import Choice
from fdprof.capture import UNTIMED_COPIES, CopyDirection, Evidence, HostSide, Inflation
from fdprof.errors import InputError
from fdprof.finding import MOST_STEPS, FindingCode
from fdprof.imports import import_capture
from fdprof.model import Table

US = 1_000
LENGTHS = (300, 500, 400, 200, 350)
"""Of what a finding is about in each of five steps, µs; the plainest are 1, 2 and 4."""


def analysed(capture):
    return analyze(capture, "a capture", Choice())


def steps_of(capture, code):
    """Return the steps of the first finding of this code."""
    return next(finding.steps for finding in analysed(capture).findings if finding.code is code)


def uneven(build, step, lengths=LENGTHS, ranges=(), **more):
    """Return a loop of 1,000 µs a step; `step` gives the calls and the work of a step by its length.

    Calls and work are as in the builders, from the step's start; the call of a row of work is that within the step.
    """
    calls, work, marks = [], [], []
    for number, length in enumerate(lengths):
        its_calls, its_work = step(length)
        at, first = 1_000 * number, len(calls)
        calls += [(name, at + start, at + end) for name, start, end in its_calls]
        work += [
            (what, at + start, at + end, None if call is None else first + call, *rest)
            for what, start, end, call, *rest in its_work
        ]
        marks += [("decode_step", at, at + 1_000), *((name, at + start, at + end) for name, start, end in ranges)]
    return build.a_capture(calls, work, marks, unit=US, **more)


LAUNCH, KERNEL = ("cudaLaunchKernel", 0, 5), ("kernel", 8, 100, 0)


def blocking(call, what):
    """Return a step in which a call of some length holds the host for its own copy."""
    return lambda length: (
        [LAUNCH, (call, 10, 10 + length)],
        [KERNEL, (what, 4 + length, 6 + length, 1)],
    )


@pytest.mark.parametrize(
    ("code", "call", "what"),
    [
        (FindingCode.PAGEABLE_DESTINATION, "cudaMemcpyAsync", "D2H pageable 4"),
        (FindingCode.BLOCKING_COPY, "cudaMemcpy", "D2H pinned 4"),
        (FindingCode.BLOCKING_UPLOAD, "cudaMemcpy", "H2D pageable 4"),
    ],
)
def test_copies_that_block_are_shown_where_they_hold_the_host_longest(build, code, call, what):
    assert (1, 2, 4) == steps_of(uneven(build, blocking(call, what)), code)


def test_the_synchronisation_behind_a_copy_counts_with_the_copy(build):
    """The copies are all alike; what differs is the wait right behind them, which is one stall with each."""

    def step(length):
        calls = [LAUNCH, ("cudaMemcpyAsync", 10, 110), ("cudaStreamSynchronize", 112, 112 + length)]
        return calls, [KERNEL, ("D2H pageable 4", 104, 106, 1)]

    assert (1, 2, 4) == steps_of(uneven(build, step), FindingCode.PAGEABLE_DESTINATION)


def test_copies_into_other_memory_at_the_same_place_do_not_decide(build):
    """A pinned copy that blocks 390 µs in the first step is another finding's: the pageable ones are longest in 1."""

    def step(length):
        pinned = 390 if length == LENGTHS[0] else 20
        calls = [LAUNCH, ("cudaMemcpy", 10, 10 + length), ("cudaMemcpy", 520, 520 + pinned)]
        work = [KERNEL, ("D2H pageable 4", 4 + length, 6 + length, 1), ("D2H pinned 4", 516 + pinned, 518 + pinned, 2)]
        return calls, work

    capture = uneven(build, step)
    assert (1, 2, 4) == steps_of(capture, FindingCode.PAGEABLE_DESTINATION)
    assert 0 == steps_of(capture, FindingCode.BLOCKING_COPY)[0]


def test_copies_without_times_are_told_apart_by_their_calls(build):
    """As in a run: the table of copies says where each goes, and there are no device rows of them."""
    calls = [call for number, ns in enumerate(LENGTHS) for call in _in_step(number, ns)]
    rows = [(2 * n + 1, int(CopyDirection.TO_HOST), int(HostSide.PAGEABLE), 4) for n in range(len(LENGTHS))]
    capture = build.a_capture(
        calls,
        [("kernel", 1_000 * n + 8, 1_000 * n + 100, 2 * n) for n in range(len(LENGTHS))],
        [("decode_step", 1_000 * n, 1_000 * n + 1_000) for n in range(len(LENGTHS))],
        unit=US,
        untimed_copies=Table.of_rows(UNTIMED_COPIES, rows),
    )
    assert (1, 2, 4) == steps_of(capture, FindingCode.PAGEABLE_DESTINATION)


def _in_step(number, ns):
    at = 1_000 * number
    return [("cudaLaunchKernel", at, at + 5), ("cudaMemcpy", at + 10, at + 10 + ns)]


def test_a_hidden_sync_is_shown_where_its_own_calls_are_longest(build):
    """The wait in `sampler` differs; one outside, of another name, is longest in the first step and does not count."""

    def step(length):
        other = 300 if length == LENGTHS[0] else 1
        calls = [LAUNCH, ("cudaStreamSynchronize", 10, 10 + length), ("cudaDeviceSynchronize", 600, 600 + other)]
        return calls, [("kernel", 8, 9 + length, 0)]

    capture = uneven(build, step, ranges=[("sampler", 9, 550)])
    hidden = [finding for finding in analysed(capture).findings if finding.code is FindingCode.HIDDEN_SYNC]
    assert {"cudaStreamSynchronize": (1, 2, 4), "cudaDeviceSynchronize": (0, 1, 2)} == {
        finding.evidence["call"]: finding.steps for finding in hidden
    }


def test_several_waits_are_shown_where_the_later_ones_are_longest(build):
    """The first wait of each step is no part of what could be saved, however long."""

    def step(length):
        first = 10 + (400 if length == LENGTHS[3] else 10)
        calls = [LAUNCH, ("cudaStreamSynchronize", 10, first), ("cudaEventSynchronize", 450, 450 + length)]
        return calls, [("kernel", 8, 449 + length, 0)]

    assert (1, 2, 4) == steps_of(uneven(build, step), FindingCode.SEVERAL_WAITS)


def test_a_fence_is_shown_where_it_holds_the_host_longest(build):
    def step(length):
        calls = [LAUNCH, ("cudaMemcpyAsync", 10, 15), ("cudaEventRecord", 16, 17)]
        calls.append(("cudaEventSynchronize", 200, 200 + length))
        return calls, [("kernel", 8, 190 + length, 0), ("D2H pinned 4", 192 + length, 194 + length, 1)]

    links = [(4 * n + 3, 4 * n + 2, 7, 3, Evidence.PROVED) for n in range(5)]
    records = [(4 * n + 2, 3, 7) for n in range(5)]
    capture = uneven(build, step, links=links, records=records)
    assert (1, 2, 4) == steps_of(capture, FindingCode.FENCE_AFTER_COPY)


def test_copies_without_a_fence_are_shown_in_the_first_steps_that_have_some(build):
    """Step 0 copies nothing."""

    def step(length):
        copies = length != LENGTHS[0]
        calls = [LAUNCH, *([("cudaMemcpyAsync", 10, 15)] if copies else [])]
        return calls, [KERNEL, *([("D2H pinned 4", 110, 112, 1)] if copies else [])]

    assert (1, 2, 3) == steps_of(uneven(build, step), FindingCode.NO_FENCE)


def test_an_event_that_is_recorded_again_is_shown_where_its_records_are_lost(build):
    """One event; the waits are one step late and bound to the record of their own step: that of step 0 is lost."""
    calls, links, records = [], [], []
    for n in range(3):
        at = 1_000 * n
        records.append((len(calls) + 2, 3, 7))
        calls += [("cudaLaunchKernel", at, at + 5), ("cudaMemcpyAsync", at + 10, at + 15)]
        calls += [("cudaEventRecord", at + 16, at + 17)]
        if n:
            links.append((len(calls), len(calls) - 1, 7, 3, Evidence.PROVED))
            calls.append(("cudaEventSynchronize", at + 20, at + 510))
    ranges = [("decode_step", 1_000 * n, 1_000 * n + 1_000) for n in range(3)]
    capture = build.a_capture(calls, [("kernel", 8, 100, 0)], ranges, links, records, unit=US)
    assert (0,) == steps_of(capture, FindingCode.EVENT_RECORDED_AGAIN)


def test_allocations_are_shown_in_the_steps_that_have_the_longest(build):
    """Steps 0 and 3 have none."""

    def step(length):
        calls = [LAUNCH, *([("cudaHostAlloc", 10, 10 + length)] if length in (500, 400, 350) else [])]
        return calls, [KERNEL]

    assert (1, 2, 4) == steps_of(uneven(build, step), FindingCode.ALLOCATION_IN_STEP)


def test_copies_on_the_default_stream_are_shown_where_they_take_longest(build):
    """In step 3 a copy on stream 13 and one on the device are longer than those: the finding is about neither."""

    def step(length):
        calls, work = blocking("cudaMemcpy", "D2H pageable 4")(length)
        other = 190 if length == LENGTHS[3] else 10
        calls += [("cudaMemcpy", 520, 520 + other), ("cudaMemcpy", 720, 720 + other)]
        work = [(*work[0], 13), work[1], ("D2H pinned 4", 516 + other, 518 + other, 2, 13)]
        return calls, [*work, ("D2D 8", 716 + other, 718 + other, 3, 7)]

    capture = uneven(build, step, default_streams=frozenset({(0, 7)}))
    assert (1, 2, 4) == steps_of(capture, FindingCode.DEFAULT_STREAM)


def test_waits_between_streams_are_shown_where_the_gaps_are_longest(build):
    """The copy on stream 8 begins `length` after its kernel; the gap behind it is the same in all steps."""

    def step(length):
        calls = [LAUNCH, ("cudaStreamWaitEvent", 6, 7), ("cudaMemcpyAsync", 10, 15)]
        calls += [("cudaStreamWaitEvent", 16, 17), ("cudaLaunchKernel", 18, 20)]
        work = [("kernel", 8, 100, 0, 7), ("D2H pinned 256", 100 + length, 102 + length, 2, 8)]
        return calls, [*work, ("kernel", 150 + length, 900, 4, 7)]

    assert (1, 2, 4) == steps_of(uneven(build, step), FindingCode.CROSS_STREAM_WAIT)


def test_a_device_bound_loop_is_shown_where_the_device_is_busiest(build):
    """Kernels that are queued ahead fill all but a few µs: 990 to 995 of 1,000."""
    lengths = (991, 995, 994, 990, 993)
    capture = uneven(build, lambda length: ([LAUNCH], [("kernel", 5, 5 + length, 0)]), lengths)
    assert (1, 2, 4) == steps_of(capture, FindingCode.DEVICE_BOUND)


def test_a_host_bound_loop_is_shown_where_the_host_works_longest(build):
    """The host waits 30 µs less what makes the steps differ."""
    waits = (5, 1, 2, 9, 3)
    capture = uneven(build, lambda ns: ([LAUNCH, ("cudaStreamSynchronize", 10, 10 + ns)], [("kernel", 8, 9, 0)]), waits)
    assert (1, 2, 4) == steps_of(capture, FindingCode.HOST_BOUND)


def test_a_launch_bound_loop_is_shown_where_its_launches_take_longest(build):
    capture = uneven(build, lambda length: ([("cudaLaunchKernel", 0, length)], [("kernel", length + 1, length + 2, 0)]))
    assert (1, 2, 4) == steps_of(capture, FindingCode.LAUNCH_BOUND)


def test_work_that_is_missing_is_shown_where_the_host_waited_for_it(build):
    """Waits of 2,000 µs for nothing, in the second of two steps of 3,000 µs."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaLaunchKernel", 3_000, 3_005), ("cudaStreamSynchronize", 3_010, 5_100)]
    work = [("kernel", 10, 100, 0), ("kernel", 3_010, 3_100, 1)]
    capture = build.a_capture(calls, work, [("decode_step", 0, 3_000), ("decode_step", 3_000, 6_000)], unit=US)
    assert (1,) == steps_of(capture, FindingCode.CAPTURE_CUT)


def test_launches_without_a_row_are_shown_where_they_are_first(build):
    """The kernels of the first two steps are there, those of the last three are not."""

    def step(length):
        return [LAUNCH], ([KERNEL] if length in LENGTHS[:2] else [])

    assert (2, 3, 4) == steps_of(uneven(build, step), FindingCode.CAPTURE_CUT)


@pytest.mark.parametrize("inflation", [None, Inflation(1.5, (1.4, 1.6), "measured")])
def test_the_profilers_own_work_is_shown_where_it_is_most(build, inflation):
    """It works in steps 1 and 3, longer in 3; where only the ratio is known there is no step to show."""
    overhead = [(0, 1_600, 1_700), (0, 3_600, 3_900)]
    capture = uneven(build, lambda length: ([LAUNCH], [KERNEL]), overhead=overhead, inflation=inflation)
    assert (3, 1) == steps_of(capture, FindingCode.PROFILER_INFLATION)
    bare = uneven(build, lambda length: ([LAUNCH], [KERNEL]), inflation=Inflation(1.5, (1.4, 1.6), "measured"))
    assert () == steps_of(bare, FindingCode.PROFILER_INFLATION)


def test_waits_that_burn_a_core_are_shown_where_they_are_longest(build):
    capture = uneven(build, lambda ns: ([LAUNCH, ("cudaStreamSynchronize", 10, 10 + ns)], [("kernel", 8, 9 + ns, 0)]))
    (finding,) = run_findings(FenceResult(1.0, 350.0 * US, 1.0, NOTHING), analysed(capture).facts)
    assert (FindingCode.SPIN_WAIT, (1, 2, 4)) == (finding.code, finding.steps)


@pytest.mark.parametrize("code", [FindingCode.NO_DEVICE_ROWS, FindingCode.STEPS_INFERRED])
def test_what_is_about_the_whole_capture_names_no_step(build, code):
    """Calls without any device row, and without a marker."""
    capture = build.a_capture([("cudaLaunchKernel", 0, 5), ("cudaStreamSynchronize", 10, 50)], unit=US)
    assert () == steps_of(capture, code)


def test_steps_are_positions_among_the_analysed_ones_and_not_numbers(build):
    """With --steps 1: the longest is at position 0."""
    capture = uneven(build, blocking("cudaMemcpy", "D2H pinned 4"))
    found = analyze(capture, "a capture", Choice(), first=1).findings
    assert [(0, 1, 3)] == [finding.steps for finding in found if finding.code is FindingCode.BLOCKING_COPY]


def test_of_equal_steps_the_first_are_named(build):
    capture = uneven(build, blocking("cudaMemcpy", "D2H pinned 4"), (300,) * 5)
    assert (0, 1, 2) == steps_of(capture, FindingCode.BLOCKING_COPY)


ABOUT_THE_CAPTURE = {
    FindingCode.NO_DEVICE_ROWS,
    FindingCode.STEPS_INFERRED,
    FindingCode.CAPTURE_CUT,
    FindingCode.PROFILER_INFLATION,
}


def test_every_finding_of_every_real_capture_leads_to_steps_that_are_there(captures):
    """All but those about the whole capture name at least one."""
    seen = 0
    for path in sorted(captures.glob("*/*.*")):
        try:
            result = analyze(import_capture(path, lambda line: None), str(path), Choice())
        except InputError:
            continue
        for finding in result.findings:
            assert finding.steps or finding.code in ABOUT_THE_CAPTURE, (path.name, finding)
            assert len(set(finding.steps)) == len(finding.steps) <= MOST_STEPS
            assert all(0 <= step < len(result.facts.steps) for step in finding.steps)
            seen += len(finding.steps)
    assert seen > 20
