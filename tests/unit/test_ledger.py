"""fdprof.analysis.ledger: every ns of a step in one place, by hand-worked cases and by single ns of random captures."""

# ruff: noqa: SIM300
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdprof.analysis.calls import calls_of
from fdprof.analysis.ledger import blocked_by_call, device_of, ledger_of
from fdprof.analysis.steps import Choice, find_steps
from fdprof.capture import UNTIMED_COPIES, CopyDirection, HostSide, RangeKind, Thread
from fdprof.errors import InputError
from fdprof.model import Table

US = 1_000


@pytest.fixture
def ledger(build):
    """Make the ledger of device 0 in these windows of thread 0; times are in `unit` ns."""

    def made(spans, calls=(), work=(), ranges=(), device=0, unit=1, **more):
        capture = build.a_capture(calls, work, ranges, unit=unit, **more)
        return ledger_of(capture, build.windows(*spans, unit=unit), device)

    return made


def causes(entry):
    """Return idle by cause of each step."""
    return [entry.causes_of(position) for position in range(len(entry))]


# Each cause


def test_the_time_from_a_launchs_return_to_its_kernel_is_queued(ledger):
    """Idle 0-25: 10 inside the launch, whose work is not queued before it returns, then 15 of start latency."""
    entry = ledger([(0, 40)], [("cudaLaunchKernel", 0, 10)], [("kernel", 25, 40, 0)])
    assert [{"launch": 10, "queued": 15}] == causes(entry)
    assert ([15], [25]) == (entry.device_busy_ns.tolist(), entry.device_idle_ns.tolist())


def test_idle_in_a_wait_is_blocked_and_the_way_to_the_next_kernel_is_split(ledger):
    """Idle 20-48: wait to 35 (15), host code to 40 (5), launch to 45 (5), then queued to 48 (3)."""
    calls = [("cudaStreamSynchronize", 5, 35), ("cudaLaunchKernel", 40, 45)]
    entry = ledger([(0, 50)], calls, [("kernel", 0, 20), ("kernel", 48, 50, 1)])
    assert [{"blocked": 15, "host:": 5, "launch": 5, "queued": 3}] == causes(entry)


def test_idle_in_an_allocation_is_allocate(ledger):
    """Idle 10-40: cudaHostAlloc to 30 (20), then host code (10); no work ends the gap."""
    entry = ledger([(0, 40)], [("cudaHostAlloc", 10, 30)], [("kernel", 0, 10)])
    assert [{"allocate": 20, "host:": 10}] == causes(entry)


@pytest.mark.parametrize(
    "name", ["cudaEventRecord", "cudaEventQuery", "cudaStreamWaitEvent", "cudaMemcpyAsync", "cudaMemsetAsync"]
)
def test_idle_in_any_other_call_is_launch(ledger, name):
    """Idle 10-40: the call has 5-25 of it (15), host code the rest (15)."""
    entry = ledger([(0, 40)], [(name, 5, 25)], [("kernel", 0, 10)])
    assert 15 == causes(entry)[0].get("launch")


def test_host_code_is_named_by_the_innermost_range(ledger):
    """Idle 0-40: outer 5-35 has 5-10 and 20-35 (20), inner 10-20 has 10, and 0-5 and 35-40 are outside all (10)."""
    entry = ledger([(0, 50)], (), [("kernel", 40, 50)], [("outer", 5, 35), ("inner", 10, 20)])
    assert [{"host:outer": 20, "host:inner": 10, "host:": 10}] == causes(entry)


def test_operators_label_host_code_and_python_frames_do_not(ledger):
    """Idle 0-10: the operator has 2-6 (4); the frame around everything would name nothing but itself."""
    ranges = [("main.py(7)", 0, 10, RangeKind.FRAME), ("aten::mm", 2, 6, RangeKind.OPERATOR)]
    assert [{"host:aten::mm": 4, "host:": 6}] == causes(ledger([(0, 10)], (), [("kernel", 20, 21)], ranges))


def test_ranges_of_another_thread_name_nothing(ledger):
    """Idle 0-10 on thread 0: a range of thread 1 is not its code."""
    ranges = [("elsewhere", 0, 10, RangeKind.MARKER, 1)]
    assert [{"host:": 10}] == causes(ledger([(0, 10)], (), [("kernel", 20, 21)], ranges))


def test_ranges_that_differ_by_a_step_number_alone_share_a_label(ledger):
    """ProfilerStep#7 and #8 idle 4 and 6 ns: one cause of 10, not two."""
    entry = ledger([(0, 4), (4, 10)], (), [("kernel", 20, 21)], [("ProfilerStep#7", 0, 4), ("ProfilerStep#8", 4, 10)])
    assert {"host:ProfilerStep#N": 5.0} == entry.mean_causes()


# Work that the capture lacks


def test_a_wait_on_a_launch_without_a_device_row_is_not_captured(ledger):
    """The first launch has no row, so what its wait 10-30 waited for is not here.

    Idle 0-36: launch 0-5 (5), host to 10 (5), not captured to 30 (20), host to 32 (2), launch to 34 (2), queued (2).
    """
    calls = [("cudaLaunchKernel", 0, 5), ("cudaStreamSynchronize", 10, 30), ("cudaLaunchKernel", 32, 34)]
    entry = ledger([(0, 40)], calls, [("kernel", 36, 40, 2)])
    assert [{"not captured": 20, "host:": 7, "launch": 7, "queued": 2}] == causes(entry)
    assert ([20], [0]) == (entry.host_blocked_ns.tolist(), entry.harmful_wait_ns.tolist())


def test_a_wait_after_work_that_is_there_is_blocked_whatever_lacked_before(ledger):
    """The last launch before the wait has its row, so the wait 10-30 ended on it: idle 25-30 is blocked."""
    calls = [("cudaLaunchKernel", 0, 2), ("cudaLaunchKernel", 3, 5), ("cudaStreamSynchronize", 10, 30)]
    assert 5 == causes(ledger([(0, 30)], calls, [("kernel", 15, 25, 1)]))[0]["blocked"]


def test_a_blocking_copy_without_a_device_row_waited_for_what_is_not_here(ledger):
    """It is itself the last work issued: idle 10-20 in it is not captured."""
    entry = ledger([(0, 20)], [("cudaMemcpy", 5, 20)], [("kernel", 0, 10)])
    assert [{"not captured": 10}] == causes(entry)


def test_copies_that_a_tracer_never_shows_are_not_missing(ledger):
    """A run has no rows of copies: idle 10-20 in the copy is blocked."""
    untimed = Table.of_rows(UNTIMED_COPIES, [(0, CopyDirection.TO_HOST, HostSide.PAGEABLE, 4)])
    entry = ledger([(0, 20)], [("cudaMemcpy", 5, 20)], [("kernel", 0, 10)], untimed_copies=untimed)
    assert [{"blocked": 10}] == causes(entry)


def test_more_than_a_millisecond_idle_inside_a_wait_is_not_captured(ledger):
    """All rows are there, but the device idles 30-1,031 µs in the wait: neither latency nor waking takes 1,001 µs."""
    calls = [("cudaLaunchKernel", 0, 10), ("cudaStreamSynchronize", 10, 1_031)]
    entry = ledger([(0, 1_031)], calls, [("kernel", 10, 30, 0)], unit=US)
    assert [{"launch": 10 * US, "not captured": 1_001 * US}] == causes(entry)


def test_a_millisecond_idle_inside_a_wait_is_blocked(ledger):
    """Idle 30-1,030 µs is 1,000 µs: not more than a millisecond."""
    calls = [("cudaLaunchKernel", 0, 10), ("cudaStreamSynchronize", 10, 1_030)]
    entry = ledger([(0, 1_030)], calls, [("kernel", 10, 30, 0)], unit=US)
    assert [{"launch": 10 * US, "blocked": 1_000 * US}] == causes(entry)


def test_two_waits_of_one_gap_are_judged_apart(ledger):
    """Idle 0-1,800 µs in two waits of 900 µs: each alone may be a late wake-up."""
    calls = [("cudaStreamSynchronize", 0, 900), ("cudaStreamSynchronize", 900, 1_800)]
    assert [{"blocked": 1_800 * US}] == causes(ledger([(0, 1_800)], calls, [("kernel", 2_000, 2_001)], unit=US))


def test_a_long_blocking_copy_copies_in_the_host_after_its_row(ledger):
    """cudaMemcpy moves pageable bytes itself after its row's end at 30 µs: idle to 2,000 µs is blocked, not missing."""
    entry = ledger([(0, 2_000)], [("cudaMemcpy", 0, 2_000)], [("D2H pageable 9", 0, 30, 0)], unit=US)
    assert [{"blocked": 1_970 * US}] == causes(entry)


def test_work_queued_for_more_than_a_millisecond_in_a_wait_is_not_captured(ledger):
    """The kernel launched at 0-10 begins at 2,000 µs though the device is idle: what it waited for is not here."""
    calls = [("cudaLaunchKernel", 0, 10), ("cudaStreamSynchronize", 20, 2_010)]
    entry = ledger([(0, 2_010)], calls, [("kernel", 2_000, 2_010, 0)], unit=US)
    assert [{"launch": 10 * US, "queued": 10 * US, "not captured": 1_980 * US}] == causes(entry)


def test_a_wait_is_judged_by_its_whole_gap_and_not_by_the_window_it_is_cut_at(ledger):
    """Idle 0-1,600 µs in one wait: the window 800-1,600 alone, as --steps may choose it, shows the same cause."""
    calls = [("cudaStreamSynchronize", 0, 1_600)]
    work = [("kernel", -10, 0), ("kernel", 1_600, 1_700)]
    both = causes(ledger([(0, 800), (800, 1_600)], calls, work, unit=US))
    assert [{"not captured": 800 * US}] * 2 == both
    assert both[1:] == causes(ledger([(800, 1_600)], calls, work, unit=US))


# Which cause applies first


def test_a_wait_for_work_that_is_already_queued_is_harmless(ledger):
    """Idle 0-20: launch to 5, then queued to 20 though the host waits from 6; after the kernel's end 25-30 is blocked.

    Blocked 24 in all, harmful 5, harmless 19.
    """
    calls = [("cudaLaunchKernel", 0, 5), ("cudaStreamSynchronize", 6, 30)]
    entry = ledger([(0, 30)], calls, [("kernel", 20, 25, 0)])
    assert [{"launch": 5, "queued": 15, "blocked": 5}] == causes(entry)
    columns = (entry.host_blocked_ns, entry.harmful_wait_ns, entry.harmless_wait_ns)
    assert [24, 5, 19] == [int(column[0]) for column in columns]


def test_a_wait_comes_before_an_allocation_and_an_allocation_before_a_call(ledger):
    """Calls within calls, idle 0-30: cudaFree 0-20 around a wait 5-10, and a launch 20-30 around cudaMalloc 22-25.

    blocked 5, allocate 15 + 3, launch 2 + 5.
    """
    calls = [
        ("cudaFree", 0, 20),
        ("cuCtxSynchronize", 5, 10),
        ("cudaLaunchKernel", 20, 30),
        ("cudaMalloc", 22, 25),
    ]
    assert [{"blocked": 5, "allocate": 18, "launch": 7}] == causes(ledger([(0, 30)], calls, [("kernel", 40, 41)]))


def test_a_call_comes_before_the_range_around_it(ledger):
    """Idle 0-10 in one range: the record 3-7 is launch (4), the rest the range's host code (6)."""
    entry = ledger([(0, 10)], [("cudaEventRecord", 3, 7)], [("kernel", 20, 21)], [("forward", 0, 10)])
    assert [{"launch": 4, "host:forward": 6}] == causes(entry)


def test_of_works_that_begin_together_the_first_issued_ends_the_gap(ledger):
    """Two kernels begin at 30, launched by 10 and by 25: from 10 on the device had its next work."""
    calls = [("cudaLaunchKernel", 0, 10), ("cudaLaunchKernel", 15, 25)]
    entry = ledger([(0, 40)], calls, [("kernel", 30, 40, 1, 7), ("kernel", 30, 40, 0, 8)])
    assert [{"launch": 10, "queued": 20}] == causes(entry)


def test_a_kernel_that_begins_inside_its_own_launch_was_never_queued(ledger):
    """The launch 10-30 returns after its kernel began at 20: idle 0-20 is host 10 and launch 10."""
    entry = ledger([(0, 40)], [("cudaLaunchKernel", 10, 30)], [("kernel", 20, 40, 0)])
    assert [{"host:": 10, "launch": 10}] == causes(entry)


def test_work_without_a_known_call_is_never_queued(ledger):
    """The kernel at 20 has no call in the capture: idle 0-20 is host code and not start latency."""
    assert [{"host:": 20}] == causes(ledger([(0, 30)], (), [("kernel", 20, 30)]))


def test_work_that_another_thread_launched_is_queued_all_the_same(ledger):
    """Thread 1 launched by 5 what begins at 20: idle 0-5 is host code of thread 0, 5-20 queued."""
    entry = ledger([(0, 30)], [("cudaLaunchKernel", 0, 5, 1)], [("kernel", 20, 30, 0)])
    assert [{"host:": 5, "queued": 15}] == causes(entry)


# Windows


def test_a_gap_that_crosses_a_steps_start_is_split_and_not_lost(ledger):
    """Kernels 0-10 and 30-40, steps 0-20 and 20-40: 10 idle in each, of the wait 5-15 only the first step's 5."""
    entry = ledger([(0, 20), (20, 40)], [("cudaStreamSynchronize", 5, 15)], [("kernel", 0, 10), ("kernel", 30, 40)])
    assert [{"blocked": 5, "host:": 5}, {"host:": 10}] == causes(entry)
    assert [10, 10] == entry.device_idle_ns.tolist()


def test_what_ends_a_gap_in_the_next_step_judges_it_in_this_one(ledger):
    """Launched by 12 and begun at 30: the first step's idle 12-20 is queued as the second's 20-30 is."""
    calls = [("cudaLaunchKernel", 10, 12)]
    entry = ledger([(0, 20), (20, 40)], calls, [("kernel", 0, 10), ("kernel", 30, 40, 0)])
    assert [{"launch": 2, "queued": 8}, {"queued": 10}] == causes(entry)


def test_gaps_at_the_captures_ends_count(ledger):
    """Device work 20-30 only, step 0-50: 20 idle before it and 20 after it, none of it queued."""
    entry = ledger([(0, 50)], [("cudaStreamSynchronize", 25, 35)], [("kernel", 20, 30)])
    assert [{"host:": 35, "blocked": 5}] == causes(entry)


def test_a_pause_between_windows_is_nobodys_time(ledger):
    """Steps 0-10 and 30-40 of a device that is idle throughout: 10 each; the wait 5-35 is in both, with 5 each."""
    entry = ledger([(0, 10), (30, 40)], [("cudaStreamSynchronize", 5, 35)], [("kernel", 50, 51)])
    assert [{"host:": 5, "blocked": 5}] * 2 == causes(entry)
    assert ([10, 10], [5, 5]) == (entry.window_ns.tolist(), entry.host_blocked_ns.tolist())


def test_a_prefill_between_decode_steps_is_left_out_of_both(build):
    """SGLang's DECODE 0-10, EXTEND 10-90, DECODE 90-95: two steps of 10 and 5, the last up to its own end."""
    ranges = [("step[DECODE bs=2]", 0, 10), ("step[EXTEND bs=1]", 10, 90), ("step[DECODE bs=2]", 90, 95)]
    capture = build.a_capture([("cudaLaunchKernel", 0, 1)], [("kernel", 2, 5, 0)], ranges)
    steps = find_steps(capture, Choice())
    assert ([10, 5], 1) == (ledger_of(capture, steps, 0).window_ns.tolist(), steps.left_out)


def test_the_last_window_ends_with_its_own_range(build):
    """Ranges 0-8, 10-18 and 20-27: windows of 10, 10 and 7, whatever the device does afterwards."""
    ranges = [("decode_step", 0, 8), ("decode_step", 10, 18), ("decode_step", 20, 27)]
    capture = build.a_capture([("cudaLaunchKernel", 21, 22)], [("kernel", 25, 90, 0)], ranges)
    entry = ledger_of(capture, find_steps(capture, Choice()), 0)
    assert ([10, 10, 7], [0, 0, 2]) == (entry.window_ns.tolist(), entry.device_busy_ns.tolist())


# The device


def test_streams_that_overlap_are_a_union(ledger):
    """Kernels 0-10 and 5-15 on two streams keep the device busy 15 of 20, not 20 (nsys-ai#142: 258 % utilisation)."""
    entry = ledger([(0, 20)], (), [("kernel", 0, 10, None, 7), ("kernel", 5, 15, None, 8)])
    assert ([15], [5]) == (entry.device_busy_ns.tolist(), entry.device_idle_ns.tolist())


def test_work_of_another_device_is_not_this_ones(ledger):
    """Device 0 works 0-5 and device 1 5-20: device 0 idles 15 of 20, device 1 5."""
    work = [("kernel", 0, 5), ("kernel", 5, 20, None, 7, 1)]
    assert [[15], [5]] == [ledger([(0, 20)], (), work, device=device).device_idle_ns.tolist() for device in (0, 1)]


def test_copies_alone_are_what_runs_beside_nothing_else(ledger):
    """Kernel 0-10, copy 5-15, memset 15-18: busy 18, of it the copy alone 10-15."""
    work = [("kernel", 0, 10), ("D2H pinned 4", 5, 15, None, 8), ("memset 4", 15, 18)]
    entry = ledger([(0, 20)], (), work)
    columns = (entry.device_busy_ns, entry.compute_ns, entry.copy_alone_ns)
    assert [18, 13, 5] == [int(column[0]) for column in columns]


def test_a_graph_that_is_traced_as_a_whole_is_device_work(ledger):
    """The graph 10-30 was launched by 4: idle 0-10 is launch 4 and queued 6, busy is 20."""
    entry = ledger([(0, 30)], [("cudaGraphLaunch", 0, 4)], [("graph", 10, 30, 0)])
    assert ([{"launch": 4, "queued": 6}], [20]) == (causes(entry), entry.device_busy_ns.tolist())


def test_without_device_rows_only_the_host_has_numbers(ledger):
    """Nothing is known of the device, so nothing is said of it: None, never 0 or all idle."""
    entry = ledger([(0, 30)], [("cudaStreamSynchronize", 5, 20)], device=None)
    assert [15] == entry.host_blocked_ns.tolist()
    assert (None, None, None, {}) == (
        entry.device_idle_ns,
        entry.residual_ns,
        entry.harmful_wait_ns,
        entry.mean_causes(),
    )


def test_the_device_is_the_one_that_the_steps_thread_feeds(build):
    """Thread 0 launches on device 1 once, thread 1 on device 0 twice: the steps of thread 0 are of device 1."""
    calls = [("cudaLaunchKernel", 0, 1), ("cudaLaunchKernel", 1, 2, 1), ("cudaLaunchKernel", 3, 4, 1)]
    work = [("kernel", 2, 3, 0, 7, 1), ("kernel", 4, 5, 1), ("kernel", 6, 7, 2)]
    capture = build.a_capture(calls, work)
    assert [1, 0] == [device_of(capture, build.windows((0, 9), thread=thread)) for thread in (0, 1)]
    assert 0 == device_of(capture, build.windows((0, 9)), wanted=0)


def test_a_device_that_is_not_there_is_refused(build):
    """The message names the devices that are there."""
    capture = build.a_capture([("cudaLaunchKernel", 0, 1)], [("kernel", 2, 3, 0)])
    with pytest.raises(InputError, match="--device 3") as caught:
        device_of(capture, build.windows((0, 9)), wanted=3)
    assert "process/device pairs there: 1/0" == caught.value.hint


# Threads


def test_waits_of_another_thread_are_not_charged(ledger):
    """TensorRT-LLM#8463: thread 1 waits 0-20, thread 0 never: not blocked, and its idle 10-20 is host code."""
    entry = ledger([(0, 20)], [("cudaEventSynchronize", 0, 20, 1)], [("kernel", 0, 10)])
    assert ([0], [{"host:": 10}]) == (entry.host_blocked_ns.tolist(), causes(entry))


def test_calls_within_each_other_block_once(ledger):
    """cudaDeviceSynchronize 5-20 around cuCtxSynchronize 6-19: blocked 15, not 28."""
    calls = [("cudaDeviceSynchronize", 5, 20), ("cuCtxSynchronize", 6, 19)]
    assert [15] == ledger([(0, 20)], calls, [("kernel", 0, 10)]).host_blocked_ns.tolist()


def test_harm_is_charged_to_the_call_that_was_waiting(build):
    """Kernel 0-10; waits 5-15 and 18-30 starve the device 10-15 (5) and 18-30 (12)."""
    capture = build.a_capture([("cudaStreamSynchronize", 5, 15), ("cudaEventSynchronize", 18, 30)], [("kernel", 0, 10)])
    entry, calls = ledger_of(capture, build.windows((0, 30)), 0), calls_of(capture)
    assert [5, 12] == blocked_by_call(calls, 0, entry.idle).tolist()


# Running ahead


def test_the_host_runs_ahead_if_it_launches_before_this_steps_work_has_ended(ledger):
    """Steps 0-10, 10-20, 20-30: work of the first ends at 15, after the launch at 11; that of the second at 19."""
    calls = [("cudaLaunchKernel", 1, 2), ("cudaLaunchKernel", 11, 12), ("cudaLaunchKernel", 21, 22)]
    entry = ledger(
        [(0, 10), (10, 20), (20, 30)], calls, [("kernel", 5, 15, 0), ("kernel", 16, 19, 1), ("kernel", 25, 29, 2)]
    )
    assert [True, False] == entry.run_ahead.tolist()


def test_the_launch_lead_is_from_a_calls_return_to_its_works_start(ledger):
    """Leads of 3 and 7 in the first step: 5 on average; the second step launches nothing."""
    calls = [("cudaLaunchKernel", 0, 2), ("cudaLaunchKernel", 2, 3)]
    entry = ledger([(0, 20), (20, 30)], calls, [("kernel", 5, 9, 0), ("kernel", 10, 12, 1)])
    assert ["5.0", "nan"] == [str(lead) for lead in entry.launch_lead_ns.tolist()]


def test_a_graphs_nodes_have_one_launch_and_its_first_node_tells_the_lead(ledger):
    """Nodes at 10, 20 and 30 under one launch that returned at 4: lead 6; queued up to the first, and between them.

    Idle 0-10, 15-20 and 25-30: launch 4, queued 6 + 5 + 5.
    """
    work = [("kernel a", 10, 15, 0), ("kernel b", 20, 25, 0), ("kernel c", 30, 40, 0)]
    entry = ledger([(0, 40)], [("cudaGraphLaunch", 0, 4)], work)
    assert ([{"launch": 4, "queued": 16}], [6.0]) == (causes(entry), entry.launch_lead_ns.tolist())


# Random captures against single ns

WAIT, COPY, BLOCKING_COPY, ALLOCATE, LAUNCH, OTHER = "wait", "copy", "blocking copy", "allocate", "launch", "other"
CALLS = {
    "cudaStreamSynchronize": WAIT,
    "cudaEventSynchronize": WAIT,
    "cudaMemcpyAsync": COPY,
    "cudaMemcpy": BLOCKING_COPY,
    "cudaHostAlloc": ALLOCATE,
    "cudaLaunchKernel": LAUNCH,
    "cudaGraphLaunch": LAUNCH,
    "cudaEventRecord": OTHER,
}
GIVE_WORK = {COPY, BLOCKING_COPY, LAUNCH}
END = 40


def spans(last):
    """Draw disjoint intervals in 0..last, some of which touch, in order."""
    cuts = st.lists(st.integers(0, last), max_size=10).map(sorted)
    return cuts.map(lambda cuts: [pair for pair in zip(cuts[::2], cuts[1::2], strict=False) if pair[0] < pair[1]])


@st.composite
def small_captures(draw):
    """Calls of two threads, device rows of two devices, and windows with or without pauses between them."""
    calls = []
    for thread in (0, 1):
        # Even times on one thread and odd ones on the other: which call began first is never open.
        drawn = draw(spans(END // 2))
        calls += [
            (draw(st.sampled_from(sorted(CALLS))), 2 * start + thread, 2 * end + thread, thread) for start, end in drawn
        ]
    directions = draw(st.lists(st.sampled_from(["D2H pinned 4", "H2D 4", "D2D 4"]), min_size=20, max_size=20))
    work = []
    for start, length in draw(st.lists(st.tuples(st.integers(0, END), st.integers(1, 8)), min_size=1, max_size=6)):
        call = draw(st.sampled_from([None, *range(len(calls))]))
        is_copy = call is not None and CALLS[calls[call][0]] in (COPY, BLOCKING_COPY)
        what = directions[call] if is_copy else "kernel"
        issuer = call if call is None or CALLS[calls[call][0]] in GIVE_WORK else None
        work.append((what, start, start + length, issuer, 7, draw(st.sampled_from([0, 0, 0, 1]))))
    ranges = [(draw(st.sampled_from("ab")), start, end) for start, end in draw(spans(END))]
    windows = draw(spans(END).filter(len)) if draw(st.booleans()) else [(0, 15), (15, 30), (30, END)]
    return calls, [*work, ("kernel", 0, 1, None, 7, 0)], ranges, windows


def blocking(calls, work):
    """Return which calls block: by name, or a copy call that returned only after its own copy had ended.

    A copy that stays on the device is no transfer: its call blocks only if it is synchronous by name and returned late.
    """
    found = []
    for number, (name, _, end, _) in enumerate(calls):
        copies = [row for row in work if row[3] == number]
        late = bool(copies) and end >= max(row[2] for row in copies)
        last = max(copies, key=lambda row: row[2], default=None)
        kind = CALLS[name]
        if last is not None and last[0].startswith("D2D"):
            found.append(kind == WAIT or (kind == BLOCKING_COPY and late))
        else:
            found.append(kind in (WAIT, BLOCKING_COPY) or (kind == COPY and late))
    return found


def attributed(calls, work, ranges, windows, millisecond):
    """Return the cause of every idle unit of time of device 0 in the windows, by the definitions of the ledger."""
    mine = [row for row in work if row[5] == 0]
    busy = {at for _, start, end, *_ in mine for at in range(start, end)}
    low, high = min(windows[0][0], min(busy)), max(windows[-1][1], max(busy) + 1)
    blocks = blocking(calls, work)
    waits = [n for n, call in enumerate(calls) if call[3] == 0 and blocks[n]]
    lacks = [CALLS[c[0]] in GIVE_WORK and not any(row[3] == n for row in work) for n, c in enumerate(calls)]

    def covering(kinds, at):
        return any(start <= at < end and thread == 0 and CALLS[name] in kinds for name, start, end, thread in calls)

    def waited_in(at):
        return next((n for n in waits if calls[n][1] <= at < calls[n][2]), None)

    def gap_of(at):
        start = at
        while start > low and start - 1 not in busy:
            start -= 1
        end = at
        while end < high and end not in busy:
            end += 1
        return start, end

    def first_cause(at):
        _, end = gap_of(at)
        enders = [row for row in mine if row[1] == end]
        if any(row[3] is not None and calls[row[3]][2] <= at for row in enders):
            return "queued"
        if waited_in(at) is not None:
            return "blocked"
        if covering({ALLOCATE}, at):
            return "allocate"
        if covering(set(CALLS.values()), at):
            return "launch"
        return "host:" + next((name for name, start, end in ranges if start <= at < end), "")

    def cause(at):
        found, wait = first_cause(at), waited_in(at)
        if wait is None or found not in ("queued", "blocked"):
            return found
        issued = [n for n, call in enumerate(calls) if CALLS[call[0]] in GIVE_WORK and call[1] <= calls[wait][1]]
        last = max(issued, key=lambda n: calls[n][1], default=None)
        if last is not None and lacks[last]:
            return "not captured"

        def idles(at):
            only_waits = CALLS[calls[wait][0]] == WAIT
            return waited_in(at) == wait and (
                first_cause(at) == "queued" or (only_waits and first_cause(at) == "blocked")
            )

        long = sum(idles(other) for other in range(*gap_of(at))) > millisecond
        return "not captured" if long and idles(at) else found

    found = []
    for start, end in windows:
        totals = {}
        for at in range(start, end):
            if at not in busy:
                totals[cause(at)] = totals.get(cause(at), 0) + 1
        found.append(totals)
    return found


@pytest.mark.parametrize(("unit", "millisecond"), [(1, 1_000_000), (200 * US, 5)])
@given(drawn=small_captures())
@settings(deadline=None, max_examples=150)
def test_random_captures_are_attributed_as_by_single_units_of_time(build, unit, millisecond, drawn):
    """Every unit of idle time has the cause that the definitions give it; a unit of 1 ns, and one of 0.2 ms."""
    calls, work, ranges, windows = drawn
    capture = build.a_capture(calls, work, ranges, unit=unit)
    entry = ledger_of(capture, build.windows(*windows, unit=unit), 0)
    expected = attributed(calls, work, ranges, windows, millisecond)
    assert [{name: count * unit for name, count in totals.items()} for totals in expected] == causes(entry)


@given(drawn=small_captures())
@settings(deadline=None, max_examples=150)
def test_the_columns_of_any_capture_add_up(build, drawn):
    """Residual 0, nothing below 0, causes sum to idle, harmful is of blocked, and both halves of busy are busy."""
    calls, work, ranges, windows = drawn
    capture = build.a_capture(calls, work, ranges)
    entry = ledger_of(capture, build.windows(*windows), 0)
    assert 0 == entry.largest_residual_ns
    assert [sum(found.values()) for found in causes(entry)] == entry.device_idle_ns.tolist()
    assert (entry.window_ns == entry.device_busy_ns + entry.device_idle_ns).all()
    assert (entry.device_busy_ns == entry.compute_ns + entry.copy_alone_ns).all()
    assert (entry.host_blocked_ns == entry.harmful_wait_ns + entry.harmless_wait_ns).all()
    columns = (
        entry.device_busy_ns, entry.device_idle_ns, entry.copy_alone_ns, entry.compute_ns,
        entry.harmful_wait_ns, entry.harmless_wait_ns, *entry.causes.values(),
    )  # fmt: skip
    assert all((column >= 0).all() for column in columns)
    assert sum(entry.harmful_wait_ns.tolist()) == int(blocked_by_call(calls_of(capture), 0, entry.idle).sum())
    assert np.isin(list(entry.causes), range(6)).all()


def test_a_process_of_its_own_does_not_lend_its_missing_rows(build):
    """The launch without a row is of process 2: the wait of process 1 did not end on it, and idle 10-20 is blocked."""
    calls = [("cudaLaunchKernel", 0, 1, 1), ("cudaStreamSynchronize", 5, 20)]
    capture = build.a_capture(calls, [("kernel", 0, 10)], threads=(Thread(1, 11), Thread(2, 12)))
    assert [{"blocked": 10}] == causes(ledger_of(capture, build.windows((0, 20)), 0))
