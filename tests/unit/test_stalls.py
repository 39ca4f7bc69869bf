"""fdprof.analysis.stalls: the waits of the steps by call and site; rows of the public reports that waits can show."""

# ruff: noqa: SIM300
import pytest

from fdprof.analysis.capture_result import analyze
from fdprof.analysis.stalls import awaited_work
from fdprof.analysis.steps import Choice
from fdprof.capture import NONE, Evidence, RangeKind
from fdprof.imports import import_capture

US = 1_000
OPERATOR = RangeKind.OPERATOR


def stalls_of(capture):
    return analyze(capture, "a capture", Choice()).facts.stalls


def facts_of(capture):
    return analyze(capture, "a capture", Choice()).facts


# What a wait consists of


def test_a_copy_that_waits_for_a_kernel_is_split_into_the_wait_and_its_own_transfer(build):
    """vllm#3384: of 5,000 µs in the call 4,990 are a kernel's, 2 its own bytes, 8 idle; not "D2H costs 5 ms"."""
    calls = [("cudaMemcpyAsync", 0, 5_000)]
    work = [("kernel", 0, 4_990), ("D2H pageable 4", 4_992, 4_994, 0)]
    (site,) = stalls_of(build.a_loop(1, 6_000, calls, work)).sites
    parts = (site.blocked_ns, site.other_work_ns, site.own_copy_ns, site.idle_ns)
    assert (5_000 * US, 4_990 * US, 2 * US, 8 * US) == parts


def test_the_first_wait_after_a_launch_is_charged_with_the_queued_work(build):
    """llama.cpp#6366: whoever reads first pays; the event wait 10-5,000 has 4,980 µs of the kernel launched before."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaEventRecord", 6, 7), ("cudaEventSynchronize", 10, 5_000)]
    (site,) = stalls_of(build.a_loop(1, 6_000, calls, [("kernel gemm", 8, 4_990, 0)])).sites
    assert ("cudaEventSynchronize", 4_980 * US, 0.0) == (site.call, site.other_work_ns, site.own_copy_ns)
    assert ("kernel gemm", Evidence.INFERRED) == (site.waited_for, site.evidence)


def test_of_the_idle_in_a_wait_only_what_starves_the_device_is_harmful(build):
    """Wait 10-60: the kernel queued before it runs 20-50, so 10 of the idle 20 are harmful."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaStreamSynchronize", 10, 60)]
    (site,) = stalls_of(build.a_loop(1, 100, calls, [("kernel", 20, 50, 0)])).sites
    assert (20 * US, 10 * US) == (site.idle_ns, site.harmful_ns)


def test_without_device_rows_a_wait_has_its_length_and_nothing_else(build):
    """Not observed is None."""
    (site,) = stalls_of(build.a_loop(1, 100, [("cudaStreamSynchronize", 10, 60)])).sites
    assert 50 * US == site.blocked_ns
    assert [None] * 4 == [site.own_copy_ns, site.other_work_ns, site.idle_ns, site.harmful_ns]


# Counting


def test_syncs_per_step_have_decimals(build):
    """transformers#43089: 13 synchronisations in 4 steps are 3.25 a step."""
    calls = [("cudaStreamSynchronize", 20 * n, 20 * n + 5) for n in range(13)]
    ranges = [("decode_step", 80 * n, 80 * n + 80) for n in range(4)]
    assert 3.25 == stalls_of(build.a_capture(calls, [("kernel", 0, 1)], ranges, unit=US)).calls_per_step


def test_an_upload_and_the_sync_behind_it_are_one_stall_of_two_calls(build):
    """sglang#28491: torch.tensor(list, device=...) 21 times a step is 42 blocking calls and 21 stalls."""
    calls, work = [], []
    for n in range(21):
        calls += [("cudaMemcpyAsync", 100 * n, 100 * n + 50), ("cudaStreamSynchronize", 100 * n + 55, 100 * n + 60)]
        work.append(("H2D pageable 8", 100 * n + 40, 100 * n + 41, 2 * n))
    found = stalls_of(build.a_loop(2, 2_100, calls, work))
    assert (42.0, 21.0) == (found.calls_per_step, found.stalls_per_step)


def test_an_item_through_pinned_memory_is_one_stall_by_its_sync(build):
    """pytorch#119202: Device → Pinned, 1 B, returns at once; the 7.7 µs of the sync behind it are the stall."""
    calls = [("cudaMemcpyAsync", 0, 12), ("cudaStreamSynchronize", 13, 20.7)]
    ranges = [("aten::_local_scalar_dense", 0, 22, OPERATOR)]
    found = stalls_of(build.a_loop(2, 100, calls, [("D2H pinned 1", 15, 16, 0)], ranges))
    assert (1.0, 1.0) == (found.calls_per_step, found.stalls_per_step)
    assert [("cudaStreamSynchronize", 7_700.0)] == [(site.call, site.blocked_ns) for site in found.sites]


def test_waits_of_another_thread_are_listed_and_charged_to_nobody(build):
    """TensorRT-LLM#8463: thread 1 waits 40 µs a step for its copies, thread 0 never."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaEventSynchronize", 10, 50, 1)]
    found = stalls_of(build.a_loop(2, 100, calls, [("kernel", 6, 40, 0)]))
    assert ((), 0.0, 0.0) == (found.sites, found.calls_per_step, found.stalls_per_step)
    assert (40 * US, 1.0) == (found.other_threads_ns, found.other_threads_per_step)


def test_a_wait_that_begins_outside_the_steps_is_not_theirs(build):
    """A synchronisation before the first step and one behind the last."""
    calls = [("cudaDeviceSynchronize", 0, 5), ("cudaDeviceSynchronize", 12, 14), ("cudaDeviceSynchronize", 30, 35)]
    ranges = [("decode_step", 10, 20)]
    assert [1] == [site.count for site in stalls_of(build.a_capture(calls, [("kernel", 0, 1)], ranges)).sites]


def test_a_range_around_all_steps_is_no_place_within_one(build):
    """`epoch` begins before the step."""
    calls = [("cudaDeviceSynchronize", 12, 14)]
    ranges = [("epoch", 0, 30), ("decode_step", 10, 20)]
    (site,) = stalls_of(build.a_capture(calls, [("kernel", 0, 1)], ranges)).sites
    assert "(outside all ranges)" == site.site


def test_a_call_within_a_call_blocks_once(build):
    """cudaDeviceSynchronize 10-60 around cuCtxSynchronize 11-59: one wait of 50, not two of 98 together."""
    calls = [("cudaDeviceSynchronize", 10, 60), ("cuCtxSynchronize", 11, 59)]
    found = stalls_of(build.a_loop(1, 100, calls, [("kernel", 0, 50)]))
    assert 50 * US == sum(site.blocked_ns for site in found.sites)
    assert 1.0 == found.stalls_per_step


# Sites


def test_sites_are_ranked_by_what_they_block_and_not_by_their_number(build):
    """vllm#41429: 3 × 10 µs in bad_words, 1 × 200 µs in logprobs, 2 × 50 µs outside: 200, 100, 30."""
    calls = [("cudaStreamSynchronize", 20 * n, 20 * n + 10) for n in range(3)]
    calls += [
        ("cudaStreamSynchronize", 100, 300),
        ("cudaStreamSynchronize", 400, 450),
        ("cudaStreamSynchronize", 500, 550),
    ]
    ranges = [("bad_words", 0, 60), ("logprobs", 90, 310)]
    sites = stalls_of(build.a_loop(2, 600, calls, [("kernel", 0, 1)], ranges)).sites
    assert ["logprobs", "(outside all ranges)", "bad_words"] == [site.site for site in sites]
    assert [1.0, 2.0, 3.0] == [site.per_step for site in sites]
    assert [200 * US, 100 * US, 30 * US] == [site.blocked_ns for site in sites]


def test_many_small_copies_rank_above_one_large_one(build):
    """formatron#18: 100 copies of 4 B that block 10 µs each cost more than one of 1 MB that blocks 60 µs."""
    calls = [("cudaMemcpy", 20 * n, 20 * n + 10) for n in range(100)] + [("cudaMemcpy", 3_000, 3_060)]
    work = [("D2H pageable 4", 20 * n + 5, 20 * n + 6, n) for n in range(100)]
    work.append(("D2H pageable 1000000", 3_005, 3_050, 100))
    ranges = [("small", 0, 2_000), ("large", 2_990, 3_100)]
    sites = stalls_of(build.a_loop(1, 4_000, calls, work, ranges)).sites
    assert [("small", 1_000 * US), ("large", 60 * US)] == [(site.site, site.blocked_ns) for site in sites]


def test_a_site_is_the_path_of_operators_around_the_call(build):
    """transformers#22875: the copy of one byte under bool(tensor) is named by aten::is_nonzero and what it calls."""
    names = ["aten::is_nonzero", "aten::item", "aten::_local_scalar_dense"]
    ranges = [(name, 10 + n, 60 - n, OPERATOR) for n, name in enumerate(names)]
    calls = [("cudaMemcpyAsync", 20, 50)]
    (site,) = stalls_of(build.a_loop(2, 100, calls, [("D2H pageable 1", 40, 41, 0)], ranges)).sites
    assert "aten::is_nonzero > aten::item > aten::_local_scalar_dense" == site.site


def test_the_steps_own_range_is_no_part_of_a_site(build):
    """decode_step is around everything; a range inside it that begins with it stays."""
    calls = [("cudaStreamSynchronize", 5, 50)]
    (site,) = stalls_of(build.a_loop(2, 100, calls, [("kernel", 0, 1)], [("forward", 0, 60)])).sites
    assert "forward" == site.site


def test_a_numbered_range_around_each_step_makes_one_site_of_all_steps(build):
    """A profiler's ProfileStep#N around the person's own marker: the waits of all steps are of one site."""
    ranges = [(f"ProfileStep#{n}", 100 * n, 100 * n + 100) for n in range(4)]
    ranges += [("decode_step", 100 * n + 5, 100 * n + 95) for n in range(4)]
    calls = [("cudaStreamSynchronize", 100 * n + 10, 100 * n + 50) for n in range(4)]
    sites = stalls_of(build.a_capture(calls, [("kernel", 0, 1)], ranges, unit=US)).sites
    assert [4] == [site.count for site in sites]


def test_a_site_has_its_longest_wait_with_the_steps_own_number(build):
    """Waits of 10, 30 and 20 µs in ProfilerStep#7 to #9: the longest is 30 µs in step 8."""
    ranges = [(f"ProfilerStep#{7 + n}", 100 * n, 100 * n + 90) for n in range(3)]
    calls = [("cudaStreamSynchronize", 100 * n, 100 * n + length) for n, length in enumerate((10, 30, 20))]
    (site,) = stalls_of(build.a_capture(calls, [("kernel", 0, 1)], ranges, unit=US)).sites
    assert (30 * US, 8, 3, 20 * US) == (site.max_ns, site.max_step, site.count, site.blocked_ns)


def test_one_call_of_two_exports_has_one_name(build):
    """cudaStreamSynchronize_v3020 is shown without its suffix, Paddle's `Runtime API 137` by name."""
    calls = [("cudaStreamSynchronize_v3020", 0, 30), ("Runtime API 137", 40, 60)]
    sites = stalls_of(build.a_loop(1, 100, calls, [("kernel", 0, 1)])).sites
    assert ["cudaStreamSynchronize", "cudaEventSynchronize"] == [site.call for site in sites]


# What a wait ended on


@pytest.fixture
def awaited(build):
    """Return the work that the last call ended on, by name, and the evidence."""

    def found(calls, work, **more):
        facts = facts_of(build.a_capture(calls, work, [("decode_step", 0, 100)], **more))
        last = facts.calls.start_ns.argmax()
        rows, evidence = awaited_work(facts.capture, facts.calls, facts.calls.start_ns.argsort()[-1:])
        assert last == len(calls) - 1
        row = int(rows[0])
        return (None if row == NONE else facts.capture.names[facts.capture.device["name"][row]]), int(evidence[0])

    return found


LAUNCHES = [
    ("cudaLaunchKernel", 0, 1),
    ("cudaLaunchKernel", 2, 3),
    ("cudaEventRecord", 4, 5),
    ("cudaLaunchKernel", 6, 7),
]
KERNELS = [("kernel first", 3, 30, 0, 7), ("kernel other", 4, 20, 1, 8), ("kernel late", 31, 40, 2 + 1, 7)]


def test_a_copy_ends_on_itself(awaited):
    """Proved: it is its own row."""
    calls = [*LAUNCHES, ("cudaMemcpy", 10, 60)]
    assert ("D2H 4", Evidence.PROVED) == awaited(calls, [*KERNELS, ("D2H 4", 50, 55, 4)])


def test_a_stream_sync_with_its_stream_ends_on_that_streams_last_work(awaited):
    """Stream 8 has only the work that was issued second."""
    calls = [*LAUNCHES, ("cudaStreamSynchronize", 10, 60)]
    assert ("kernel other", Evidence.PROVED) == awaited(calls, KERNELS, links=[(4, -1, 8, -1, Evidence.UNKNOWN)])


def test_a_stream_sync_without_its_stream_is_inferred_from_the_order(awaited):
    """Of all work issued before it the one that ends last."""
    assert ("kernel late", Evidence.INFERRED) == awaited([*LAUNCHES, ("cudaStreamSynchronize", 10, 60)], KERNELS)


def test_a_device_sync_ends_on_what_ends_last(awaited):
    """No stream needs to be known."""
    assert ("kernel late", Evidence.PROVED) == awaited([*LAUNCHES, ("cudaDeviceSynchronize", 10, 60)], KERNELS)


def test_a_linked_event_wait_ends_on_the_work_before_the_record(awaited):
    """The record on stream 7 was made before the last launch: what came later is not what it waited for."""
    more = {"links": [(4, 2, -1, 5, Evidence.PROVED)], "records": [(2, 5, 7)]}
    assert ("kernel first", Evidence.PROVED) == awaited([*LAUNCHES, ("cudaEventSynchronize", 10, 60)], KERNELS, **more)


def test_an_unlinked_event_wait_is_guessed_and_says_so(awaited):
    """The latest record before it is the likeliest."""
    assert ("kernel first", Evidence.INFERRED) == awaited([*LAUNCHES, ("cudaEventSynchronize", 10, 60)], KERNELS)


def test_a_wait_for_an_event_that_was_never_recorded_is_unknown(awaited):
    """cuda-api-wrappers#226: the capture holds no record at all, so nothing is said of what it guarded."""
    calls = [LAUNCHES[0], ("cudaEventSynchronize", 10, 11)]
    assert Evidence.UNKNOWN == awaited(calls, KERNELS[:1])[1]


def test_a_wait_before_any_work_ends_on_nothing_known(awaited):
    """Its work was issued before the capture began."""
    assert (None, Evidence.UNKNOWN) == awaited([("cudaStreamSynchronize", 0, 60)], [("kernel", 70, 80)])


def test_the_copies_of_twenty_paddle_steps_are_one_site(captures):
    """paddle_numpy: ProfileStep#0 to #19 lie around decode_step; 2.00 copies a step at one place, not 20 places."""
    path = captures / "h200" / "paddle_numpy.paddle_trace.json.gz"
    assert [2.0] == [site.per_step for site in stalls_of(import_capture(path, lambda line: None)).sites]
