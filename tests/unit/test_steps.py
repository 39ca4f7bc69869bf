"""fdprof.analysis.steps: decode steps by the markers of engines and profilers, by a launch pattern, or not at all."""

# ruff: noqa: SIM300
import re

import numpy as np
import pytest

from fdprof.analysis.repetition import period_of
from fdprof.analysis.steps import WHOLE_CAPTURE, Choice, find_steps
from fdprof.capture import Device, Evidence, RangeKind, Thread
from fdprof.errors import InputError, UsageError

US = 1_000
ANYTHING = Choice()


@pytest.fixture
def steps(build):
    """Find the steps of a capture with these ranges and one call; times in µs."""

    def made(ranges, choice=ANYTHING, calls=(("cudaLaunchKernel", 0, 1),), work=(), unit=US, **more):
        return find_steps(build.a_capture(calls, work, ranges, unit=unit, **more), choice)

    return made


def spans(found):
    """Return the windows in µs."""
    return [(int(a) // US, int(b) // US) for a, b in zip(found.starts_ns, found.ends_ns, strict=True)]


# Markers


@pytest.mark.parametrize(
    ("name", "found_by"),
    [
        ("decode_step", "ranges named decode_step"),
        ("step", "ranges named step"),
        ("ProfilerStep#4", "torch.profiler's ProfilerStep#N"),
        ("ProfilerStep #4", "torch.profiler's ProfilerStep#N"),
        ("ProfileStep#4", "paddle.profiler's ProfileStep#N"),
        ("step[DECODE bs=32]", "SGLang's step[...]"),
        ("execute_context_0(0)_generation_32(32)", "vLLM's execute_..."),
        ("execute_new_0_cached_32", "vLLM's execute_..."),
    ],
)
def test_a_marker_of_each_family_makes_steps(steps, name, found_by):
    """From a start to the next; the last to its own end."""
    found = steps([(name, 0, 8), ("forward", 1, 5), (name, 10, 18)])
    assert ([(0, 10), (10, 18)], Evidence.PROVED, found_by) == (spans(found), found.evidence, found.found_by)


@pytest.mark.parametrize(
    "name", ["step_2", "my step", "a decode_step", "ProfilerStep", "Profiler", "steps[1]", "executes"]
)
def test_a_name_that_only_resembles_a_marker_makes_no_steps(steps, name):
    """A range of somebody's own stays a label."""
    assert Evidence.UNKNOWN is steps([(name, 0, 8), (name, 10, 18)]).evidence


def test_fdprofs_own_ranges_come_first_in_their_domain(steps):
    """`step` of the domain fdprof beats decode_step; its payload is its number."""
    own = [("step", 10 * n, 10 * n + 8, RangeKind.MARKER, 0, n + 5, "fdprof") for n in range(3)]
    found = steps([("decode_step", 0, 30), *own])
    assert ("fdprof's own step ranges", [5, 6, 7]) == (found.found_by, found.numbers.tolist())


def test_step_in_another_domain_is_an_ordinary_marker(steps):
    """Domain `decode`: not fdprof's, so decode_step and step count alike."""
    found = steps([("step", 0, 8, RangeKind.MARKER, 0, -1, "decode"), ("decode_step", 10, 18)])
    assert ("ranges named decode_step or step", 2) == (found.found_by, len(found))


def test_a_named_step_comes_before_a_profilers(steps):
    """paddle.profiler marks steps too: the person's own marker says what a step is."""
    ranges = [("ProfileStep#0", 0, 100), ("decode_step", 0, 40), ("decode_step", 50, 90)]
    assert [(0, 50), (50, 90)] == spans(steps(ranges))


def test_a_profilers_step_comes_before_an_engines(steps):
    """One ProfilerStep around two of vLLM's iterations: the profiler's own step."""
    ranges = [("ProfilerStep#0", 0, 100), ("execute_new_0_cached_2", 0, 40), ("execute_new_0_cached_2", 50, 90)]
    assert [(0, 100)] == spans(steps(ranges))


def test_an_operator_or_frame_of_a_markers_name_is_no_marker(steps):
    """An operator named step, as an optimizer's may be, is code."""
    ranges = [("step", 0, 8, RangeKind.OPERATOR), ("decode_step", 10, 18, RangeKind.FRAME)]
    assert Evidence.UNKNOWN is steps(ranges).evidence


def test_profiler_steps_keep_their_numbers(steps):
    """ProfilerStep#550 and on, as the report of a worst step has to name them."""
    found = steps([("ProfilerStep#550", 0, 8), ("ProfilerStep#551", 10, 18), ("ProfilerStep#553", 20, 28)])
    assert [550, 551, 553] == found.numbers.tolist()


def test_payloads_number_the_steps_only_where_all_have_rising_ones(steps):
    """Payloads 7, 8 are numbers; 7 and none, or 7 and 7, are not."""

    def numbered(*payloads):
        return steps([("step", 10 * n, 10 * n + 8, RangeKind.MARKER, 0, p) for n, p in enumerate(payloads)]).numbers

    assert [[7, 8], [0, 1], [0, 1]] == [numbered(*pair).tolist() for pair in ((7, 8), (7, -1), (7, 7))]


def _numbered(steps, *numbered):
    """Find steps in ranges of 8 that begin at these times with these payloads."""
    return steps([("decode_step", at, at + 8, RangeKind.MARKER, 0, number) for at, number in numbered])


def test_where_the_numbers_begin_anew_a_step_ends_with_its_own_range(steps):
    """Two passes of three steps, 100 apart: the third ends at 28 and not at 128, where the other pass begins."""
    found = _numbered(steps, (0, 0), (10, 1), (20, 2), (128, 0), (138, 1), (148, 2))
    assert [(0, 10), (10, 20), (20, 28), (128, 138), (138, 148), (148, 156)] == spans(found)
    assert [0, 1, 2, 3, 4, 5] == found.numbers.tolist()  # 0, 1 and 2 would each be two steps
    assert any("numbers break off 1 time:" in note for note in found.notes)


def test_where_numbers_are_left_out_a_step_ends_with_its_own_range(steps):
    """A profiler's schedule that skips: 5 to 7, then 20 to 22; they stay the steps' own numbers."""
    names = [
        (f"ProfilerStep#{number}", at, at + 8)
        for number, at in ((5, 0), (6, 10), (7, 20), (20, 90), (21, 100), (22, 110))
    ]
    found = steps(names)
    assert [(0, 10), (10, 20), (20, 28), (90, 100), (100, 110), (110, 118)] == spans(found)
    assert [5, 6, 7, 20, 21, 22] == found.numbers.tolist()


def test_numbers_that_all_go_up_by_two_are_not_broken_off(steps):
    """Each second iteration is a decode step, say."""
    found = _numbered(steps, (0, 0), (10, 2), (20, 4), (30, 6))
    assert [(0, 10), (10, 20), (20, 30), (30, 38)] == spans(found)


@pytest.mark.parametrize("payloads", [(7, 3, 9, 1, 4), (32, 32, 32, 31, 31), (5, 4, 3, 2, 1)])
def test_payloads_that_do_not_count_break_nothing_off(steps, payloads):
    """Batch sizes, or ids."""
    found = _numbered(steps, *zip(range(0, 50, 10), payloads, strict=True))
    assert [(0, 10), (10, 20), (20, 30), (30, 40), (40, 48)] == spans(found)
    assert [0, 1, 2, 3, 4] == found.numbers.tolist()


def test_a_window_that_is_a_part_of_its_step_is_left_out_at_each_break(steps):
    """Ranges of 2 in steps of 10, two passes of three steps: both last ones have only their 2."""
    numbered = [(0, 0), (10, 1), (20, 2), (128, 0), (138, 1), (148, 2)]
    found = steps([("decode_step", at, at + 2, RangeKind.MARKER, 0, number) for at, number in numbered])
    assert [(0, 10), (10, 20), (128, 138), (138, 148)] == spans(found)
    assert 2 == sum("is left out" in note for note in found.notes)


def test_a_marker_inside_another_is_no_step_of_its_own(steps):
    """decode_step 0-18 around step 2-9 and step 10-17: one step."""
    ranges = [("decode_step", 0, 18), ("step", 2, 9), ("step", 10, 17), ("decode_step", 20, 38), ("step", 22, 30)]
    assert [(0, 20), (20, 38)] == spans(steps(ranges))


def test_a_marker_at_the_very_end_of_another_is_no_step_of_its_own(steps):
    """decode_step 0-18 around step 17.2-17.8: within the last µs, but wholly inside."""
    found = steps([("decode_step", 0, 18_000), ("step", 17_200, 17_800), ("decode_step", 20_000, 38_000)], unit=1)
    assert [0, 20_000] == found.starts_ns.tolist()


@pytest.mark.parametrize("overlap_ns", [0, 1, 1_000])
def test_neighbours_that_overlap_by_a_microsecond_stay_two_steps(build, overlap_ns):
    """kineto#914: formats round; windows still follow each other without overlap."""
    ranges = [("ProfilerStep#0", 0, 10_000), ("ProfilerStep#1", 10_000 - overlap_ns, 20_000)]
    found = find_steps(build.a_capture([("cudaLaunchKernel", 0, 1)], (), ranges), Choice())
    assert [(0, 10_000 - overlap_ns), (10_000 - overlap_ns, 20_000)] == list(
        zip(found.starts_ns.tolist(), found.ends_ns.tolist(), strict=True)
    )


def test_a_step_that_is_shown_for_host_and_device_counts_once(steps):
    """HTA#8: its copy on the device's rows belongs to no host thread (-1)."""
    ranges = [("ProfilerStep#0", 0, 8), ("ProfilerStep#0", 3, 12, RangeKind.MARKER, -1), ("ProfilerStep#1", 10, 18)]
    assert [(0, 10), (10, 18)] == spans(steps(ranges))


# Decode or prefill


@pytest.mark.parametrize(
    ("decode", "prefill"),
    [
        ("step[DECODE bs=32]", "step[EXTEND bs=1]"),
        ("step[DECODE bs=32]", "step[MIXED bs=33]"),
        ("execute_context_0(0)_generation_32(32)", "execute_context_1(888_788544)_generation_0(0)"),
        ("execute_context_0(0)_generation_32(32)", "execute_context_10(9)_generation_22(22)"),
        (
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk32785sqsq32sqsk32785)",
            "execute_1_context_1(sq9sk9sqsq9sqsk9)_generation_0(sq0sk0sqsq0sqsk0)",
        ),
        ("execute_new_0_cached_32", "execute_new_1_cached_31"),
    ],
)
def test_a_prefill_is_told_from_decode_and_left_out(steps, decode, prefill):
    """The step before it ends where the prefill begins; the prefill's own time is nobody's."""
    found = steps([(decode, 0, 8), (prefill, 10, 48), (decode, 50, 58), (decode, 60, 68)])
    assert ([(0, 10), (50, 60), (60, 68)], 1) == (spans(found), found.left_out)


def test_where_no_marker_says_decode_every_iteration_counts_and_it_is_said(steps):
    """A capture of prefills alone."""
    found = steps([("step[EXTEND bs=1]", 0, 8), ("step[EXTEND bs=1]", 10, 18)])
    assert (2, 0) == (len(found), found.left_out)
    assert any("no marker says decode" in note for note in found.notes)


# Threads and choices


def several(*counts):
    """Return ranges of so many steps on each thread."""
    return [
        ("decode_step", 10 * n, 10 * n + 8, RangeKind.MARKER, thread)
        for thread, count in enumerate(counts)
        for n in range(count)
    ]


def test_the_thread_with_most_steps_is_taken_and_the_others_are_named(steps):
    """2, 3 and 1 steps: the second thread, with a note for each other one."""
    found = steps(several(2, 3, 1))
    assert (1, 3, 2) == (found.thread, len(found), len(found.notes))
    assert ["thread 11 of process 1 has 2 steps too", "thread 13 of process 1 has 1 steps too"] == [
        note.split(";")[0] for note in found.notes
    ]


def test_a_thread_is_chosen_by_its_own_number(steps):
    """--thread 11 is the first one here, though it has fewer steps."""
    found = steps(several(2, 3), Choice(thread=11))
    assert (0, 2, ()) == (found.thread, len(found), found.notes)


def test_a_process_is_chosen_by_its_own_number(steps):
    """--process 2 leaves its thread alone."""
    found = steps(several(3, 2), Choice(process=2), threads=(Thread(1, 11), Thread(2, 12)))
    assert (1, 2) == (found.thread, len(found))


@pytest.mark.parametrize("choice", [Choice(thread=99), Choice(process=99), Choice(process=1, thread=99)])
def test_a_thread_or_process_that_is_not_there_is_refused(steps, choice):
    """The hint lists the pairs that are."""
    with pytest.raises(UsageError, match="no such --process or --thread") as caught:
        steps(several(2, 3), choice)
    assert "process/thread pairs there: 1/11, 1/12" == caught.value.hint


def test_a_step_range_is_searched_in_every_name(steps):
    """Operators too: the person knows the loop."""
    ranges = [("decode_step", 0, 30), ("my loop 1", 0, 8, RangeKind.OPERATOR), ("my loop 2", 10, 18)]
    found = steps(ranges, Choice(step_range=re.compile("loop")))
    assert ([(0, 10), (10, 18)], "ranges that match --step-range") == (spans(found), found.found_by)


def test_a_step_range_that_matches_nothing_is_refused_with_the_names_there(steps):
    """A person's own ranges first, the frequent before the rare; then the framework's operators."""
    ranges = [("a", 0, 1), ("b", 2, 3), ("b", 4, 5), ("aten::mm", 6, 7, RangeKind.OPERATOR)]
    with pytest.raises(InputError, match="no range matches --step-range 'loop'") as caught:
        steps(ranges, Choice(step_range=re.compile("loop")))
    assert "ranges in the capture: 'b', 'a', 'aten::mm'" == caught.value.hint


def test_a_long_list_of_names_says_how_many_are_left(steps):
    """Ten names: eight are shown."""
    ranges = [(f"r{n}", n, n + 1) for n in range(10)]
    with pytest.raises(InputError) as caught:
        steps(ranges, Choice(step_range=re.compile("loop")))
    assert caught.value.hint.endswith("'r7' and 2 more")


def test_a_last_window_that_is_a_part_of_its_step_is_left_out(steps):
    """Ranges of 2 in steps of 10: windows 10, 10, 10 and the last its own range, 2."""
    found = steps([("forward", 10 * n, 10 * n + 2) for n in range(4)], Choice(step_range=re.compile("forward")))
    assert [(0, 10), (10, 20), (20, 30)] == spans(found)
    assert any("the last step has only its own range" in note for note in found.notes)


def test_a_device_chooses_the_process_that_has_it(steps):
    """Processes 1 and 2 each mark steps; only 2 gives work to its device 3."""
    threads = (Thread(1, 11), Thread(2, 21))
    ranges = [("step", 10 * n, 10 * n + 8, RangeKind.MARKER, thread) for n in range(3) for thread in (0, 1)]
    calls = [("cudaLaunchKernel", 0, 1, 0), ("cudaLaunchKernel", 0, 1, 1)]
    work = [("kernel", 1, 2, 0, 7, 0), ("kernel", 3, 4, 1, 7, 1)]
    devices = (Device(1, 0), Device(2, 3))
    found = steps(ranges, Choice(device=3), calls=calls, work=work, threads=threads, devices=devices)
    assert 1 == found.thread
    with pytest.raises(UsageError, match="the chosen process gives no work to --device 3"):
        steps(ranges, Choice(device=3, process=1), calls=calls, work=work, threads=threads, devices=devices)


def test_a_capture_without_calls_is_refused(steps):
    """A CPU-only trace; device rows change the wording."""
    with pytest.raises(InputError, match="no CUDA or HIP call and no device activity"):
        steps([("decode_step", 0, 8)], calls=())
    with pytest.raises(InputError, match=r"no CUDA or HIP call, only 1 range$"):
        steps([("decode_step", 0, 8)], calls=(), work=[("kernel", 0, 1)])


def test_a_capture_without_calls_says_what_its_reader_said(build):
    """The last two limits, fit for a terminal: the reason may be one of them."""
    limits = ("first", "the disk was full", "bad\x1b[2J" + "x" * 9_000)
    with pytest.raises(InputError, match=r"no device activity; the disk was full; bad\\x1b\[2Jx") as caught:
        find_steps(build.a_capture(limits=limits), ANYTHING)
    assert len(str(caught.value)) < 1_000


def test_a_chosen_thread_without_calls_is_refused(steps):
    """It has no marker either, so there is nothing to look at."""
    with pytest.raises(InputError, match="the chosen thread makes no CUDA or HIP call"):
        steps([("a", 0, 1, RangeKind.MARKER, 1)], Choice(thread=12))


def test_part_takes_steps_by_position(steps):
    """--steps 1:3 of five."""
    found = steps(several(5)).part(1, 3)
    assert ([(10, 20), (20, 30)], [1, 2]) == (spans(found), found.numbers.tolist())


def test_an_empty_part_is_refused_with_the_number_of_steps(steps):
    """--steps 7: of five."""
    with pytest.raises(UsageError, match="--steps 7: selects no step") as caught:
        steps(several(5)).part(7, None)
    assert "0 <= A < B <= 5" in caught.value.hint


# A launch pattern


def loop(repeats, slipped_in=(), first_us=0):
    """Return calls and work of a loop of 100 µs: four launches of 5 µs each 10 µs, then a pause of 65 µs or less."""
    calls, work = [], []
    for number in range(repeats):
        names = ["kernel first", "kernel a", "kernel a", "D2H pinned 4"]
        if number in slipped_in:
            names.insert(2, "kernel extra")
        for position, name in enumerate(names):
            at = first_us + 100 * number + 10 * position
            calls.append(("cudaMemcpyAsync" if name.startswith("D2H") else "cudaLaunchKernel", at, at + 5))
            work.append((name, at + 8, at + 9, len(calls) - 1))
    return calls, work


def test_a_loop_is_inferred_from_what_it_launches(steps):
    """8 repetitions of 4 launches: 7 steps of 100 µs, each from the launch behind the longest pause."""
    calls, work = loop(8)
    found = steps((), calls=calls, work=work)
    assert ([(100 * n, 100 * n + 100) for n in range(7)], Evidence.INFERRED) == (spans(found), found.evidence)
    assert "a pattern of 4 calls that repeats, since there is no step marker" == found.found_by


def test_a_launch_that_slips_in_does_not_shift_the_steps(steps):
    """The 21st of 40 repetitions has a fifth launch: every step still begins behind its pause."""
    calls, work = loop(40, slipped_in=(20,))
    assert [(100 * n, 100 * n + 100) for n in range(39)] == spans(steps((), calls=calls, work=work))


def test_a_warm_up_before_the_loop_is_no_step(steps):
    """Ten launches of other kinds, then 50 repetitions from 1,000 µs on: 49 steps, from the first repetition on."""
    calls, work = loop(50, first_us=1_000)
    before = [("cudaLaunchKernel", 10 * n, 10 * n + 5) for n in range(10)]
    work = [(what, start, end, call + 10) for what, start, end, call in work]
    work += [(f"kernel warm{n}", 10 * n + 6, 10 * n + 7, n) for n in range(10)]
    found = steps((), calls=[*before, *calls], work=work)
    assert [(1_000 + 100 * n, 1_100 + 100 * n) for n in range(49)] == spans(found)


def test_graph_launches_count_as_one_whichever_graph_it_is(steps):
    """The engine picks a graph by batch size: names of their first nodes differ, the loop is the same."""
    calls, work = [], []
    for n in range(10):
        calls += [("cudaGraphLaunch", 100 * n, 100 * n + 5), ("cudaMemcpyAsync", 100 * n + 10, 100 * n + 12)]
        work += [
            (f"kernel {'xyz'[n % 3]}{n}", 100 * n + 6, 100 * n + 9, 2 * n),
            ("D2H 4", 100 * n + 13, 100 * n + 14, 2 * n + 1),
        ]
    found = steps((), calls=calls, work=work)
    assert (Evidence.INFERRED, {100}) == (found.evidence, {b - a for a, b in spans(found)})


def test_the_thread_that_launches_most_is_the_loops(steps):
    """Thread 1 makes more calls of other kinds; thread 0 launches."""
    calls, work = loop(8)
    calls += [("cudaGetDevice", n, n + 1, 1) for n in range(100)]
    assert 0 == steps((), calls=calls, work=work).thread


def test_what_does_not_repeat_is_one_window_of_everything(steps):
    """Launches of ten kinds: from the first call to the last work, and it is said."""
    calls = [("cudaLaunchKernel", 10 * n, 10 * n + 5) for n in range(10)]
    found = steps((), calls=calls, work=[(f"kernel {n}", 10 * n + 6, 10 * n + 9, n) for n in range(10)])
    assert ([(0, 99)], Evidence.UNKNOWN, WHOLE_CAPTURE) == (spans(found), found.evidence, found.found_by)


def test_a_repetition_that_is_little_of_the_capture_is_no_loop(steps):
    """Eight repetitions in 800 µs, then one launch at 5 ms: what repeats for a moment is something else."""
    calls, work = loop(8)
    calls.append(("cudaLaunchKernel", 5_000, 5_001))
    assert Evidence.UNKNOWN is steps((), calls=calls, work=work).evidence


def test_a_period_is_the_shortest_distance_at_which_nine_tenths_repeat():
    """abcabc...: 3; with one change in 40 still 3; three repetitions are too few; a random word has none."""

    def period(text):
        return period_of(np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int64) - 97)

    words = ["abc" * 4, "abc" * 10 + "abx" + "abc" * 10, "abc" * 3, "aaaa", "abcdefghij"]
    assert [3, 3, None, 1, None] == [period(word) for word in words]
