"""fdprof.analysis.findings: conclusions from waits, copies and streams with their numbers; the public reports."""

# ruff: noqa: SIM300
import pytest

from fdprof.analysis.capture_result import analyze
from fdprof.analysis.facts import NOISE
from fdprof.analysis.steps import Choice
from fdprof.capture import Evidence, RangeKind
from fdprof.errors import InputError
from fdprof.finding import DOUBTS, FindingCode
from fdprof.imports import import_capture

US = 1_000
MS = 1_000_000
PROVED = int(Evidence.PROVED)


def findings(capture):
    """Return the findings of a capture by their code; the first of each."""
    found = {}
    for finding in analyze(capture, "a capture", Choice()).findings:
        found.setdefault(finding.code, finding)
    return found


def a_step_with(build, call, copy=None, steps=2, ranges=(), kernel=("kernel", 8, 500, 0), **more):
    """Return a loop of 1,000 µs a step: launch 0-5, kernel 8-500, one more call, and host code to the end."""
    calls, work = [("cudaLaunchKernel", 0, 5), call], [kernel]
    return build.a_loop(steps, 1_000, calls, work + ([(*copy, 1)] if copy else []), ranges, **more)


# Copies that block


def test_a_blocking_copy_to_pageable_memory_is_found_with_its_wait_and_its_bytes_apart(build):
    """vllm#3384: the call 10-510 holds the host 500 µs, in which the device moves its bytes for 2.

    Busy 494, host work 500: a step could be 500 µs shorter at most.
    """
    capture = a_step_with(build, ("cudaMemcpyAsync", 10, 510), ("D2H pageable 4", 502, 504))
    found = findings(capture)[FindingCode.PAGEABLE_DESTINATION]
    assert (1.0, 500.0 * US, 2.0 * US) == tuple(
        found.evidence[name] for name in ("copies_per_step", "issue_ns", "copy_ns")
    )
    assert (500.0 * US, Evidence.PROVED) == (found.cost_ns_per_step, found.certainty)


def test_the_advice_for_a_small_pageable_copy_names_the_wait_and_not_the_memory(build):
    """imp#1654: of 30 µs in the call 2 are its 4 bytes': pinned memory alone would not give the other 28 back."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpyAsync", 10, 40)]
    work = [("kernel", 8, 36, 0), ("D2H pageable 4", 36, 38, 1)]
    found = findings(build.a_loop(2, 100, calls, work))[FindingCode.PAGEABLE_DESTINATION]
    assert (30.0 * US, 2.0 * US) == (found.evidence["issue_ns"], found.evidence["copy_ns"])
    assert "it is the wait that costs, so pinned memory alone gains little" in found.advice


def test_a_blocking_copy_to_memory_that_is_not_known_is_found_all_the_same(build):
    """ROCm/clr#78: hipMemcpyWithStream, and no memory kind in the file."""
    found = findings(a_step_with(build, ("hipMemcpyWithStream", 10, 510), ("D2H 4", 502, 504)))
    assert 500.0 * US == found[FindingCode.BLOCKING_COPY].evidence["issue_ns"]
    assert FindingCode.PAGEABLE_DESTINATION not in found


def test_a_pageable_copy_that_did_not_block_is_no_finding(build):
    """onnxruntime#26512: the call returned before its copy ended; what blocks is the synchronisation behind it."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpyAsync", 10, 60), ("cudaStreamSynchronize", 100, 510)]
    found = findings(build.a_loop(2, 1_000, calls, [("kernel", 8, 500, 0), ("D2H pageable 4", 502, 504, 1)]))
    assert FindingCode.PAGEABLE_DESTINATION not in found
    assert FindingCode.FENCE_AFTER_COPY in found


def test_a_blocking_upload_is_a_stall_too(build):
    """vllm#10850: Pageable → Device, 10-510 in the call, of which 2 µs are copying."""
    found = findings(a_step_with(build, ("cudaMemcpyAsync", 10, 510), ("H2D pageable 4", 502, 504)))
    upload = found[FindingCode.BLOCKING_UPLOAD]
    assert (500.0 * US, 500.0 * US, 2.0 * US) == (
        upload.cost_ns_per_step,
        upload.evidence["issue_ns"],
        upload.evidence["copy_ns"],
    )


# Fences


def fenced(build, wait, length=1_000):
    """Return a loop with a copy 10-15, its record 16-17 and a linked wait in the same step."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpyAsync", 10, 15), ("cudaEventRecord", 16, 17), wait]
    work = [("kernel", 8, 500, 0), ("D2H pinned 4", 502, 504, 1)]
    links = [(4 * n + 3, 4 * n + 2, 7, 3, PROVED) for n in range(2)]
    records = [(4 * n + 2, 3, 7) for n in range(2)]
    return build.a_loop(2, length, calls, work, links=links, records=records)


@pytest.mark.parametrize("begin", [18, 200])
def test_a_wait_in_the_step_that_issued_the_copies_is_flagged_with_lag_0(build, begin):
    """TensorRT-LLM#6976: the event is waited for in the step that recorded it, at once or after 185 µs of host code."""
    found = findings(fenced(build, ("cudaEventSynchronize", begin, 510)))[FindingCode.FENCE_AFTER_COPY]
    assert ((510.0 - begin) * US, 0, Evidence.PROVED) == (
        found.evidence["wait_ns"],
        found.evidence["lag"],
        found.certainty,
    )
    assert (begin - 15.0) * US == found.evidence["after_ns"]


def test_of_two_fences_in_a_step_the_one_in_which_the_host_waits_longest_says_how_soon_it_came(build):
    """4 µs right behind the first copy, and 400 from 102 µs behind the second on: half of 404 µs lies in the second."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpyAsync", 10, 15), ("cudaEventRecord", 16, 17)]
    calls += [("cudaEventSynchronize", 20, 24), ("cudaLaunchKernel", 25, 29), ("cudaMemcpyAsync", 30, 35)]
    calls += [("cudaEventRecord", 36, 37), ("cudaEventSynchronize", 137, 537)]
    work = [("kernel", 6, 14, 0), ("D2H pinned 4", 17, 19, 1), ("kernel", 30, 530, 4), ("D2H pinned 4", 532, 534, 5)]
    links = [(8 * n + wait, 8 * n + wait - 1, 7, wait, PROVED) for n in range(2) for wait in (3, 7)]
    records = [(8 * n + record, record + 1, 7) for n in range(2) for record in (2, 6)]
    found = findings(build.a_loop(2, 600, calls, work, links=links, records=records))[FindingCode.FENCE_AFTER_COPY]
    assert (404.0 * US, 102.0 * US, 2) == tuple(found.evidence[name] for name in ("wait_ns", "after_ns", "per_step"))
    assert "102.0 µs after the last of those calls" in found.text


@pytest.mark.parametrize(
    ("place", "code"), [("transfer", FindingCode.FENCE_AFTER_COPY), ("forward", FindingCode.HIDDEN_SYNC)]
)
def test_a_stream_that_is_synchronised_right_behind_a_pinned_copy_is_one_finding(build, place, code):
    """Meant there, as in `sync-pinned`, it is a fence straight after its copy; in code that says nothing, hidden."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpyAsync", 10, 15), ("cudaStreamSynchronize", 15, 510)]
    work = [("kernel", 8, 500, 0), ("D2H pinned 4", 502, 504, 1)]
    found = findings(build.a_loop(2, 1_000, calls, work, [(place, 9, 512)]))
    both = {FindingCode.FENCE_AFTER_COPY, FindingCode.HIDDEN_SYNC}
    assert {code} == both & found.keys()
    assert 495.0 * US == found[code].evidence["wait_ns" if code is FindingCode.FENCE_AFTER_COPY else "blocked_ns"]


@pytest.mark.parametrize(
    ("copy", "links"),
    [
        (("D2D 4", 502, 504, 1), ()),
        (("D2H pinned 4", 502, 504, 1, 8), [(2, -1, 7, -1, 0), (5, -1, 7, -1, 0)]),
    ],
)
def test_a_wait_for_other_work_is_no_fence_of_a_copy(build, copy, links):
    """The copy stays on the device, or is on stream 8 while stream 7 is synchronised."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpyAsync", 10, 15), ("cudaStreamSynchronize", 200, 510)]
    capture = build.a_loop(2, 1_000, calls, [("kernel", 8, 500, 0), copy], links=links)
    assert FindingCode.FENCE_AFTER_COPY not in findings(capture)


def late(build, steps=4, events=2):
    """Return a loop that launches, copies and records, then waits for the event of the step before (lag 1)."""
    calls, work, links, records = [], [], [], []
    for n in range(steps):
        at, first = 1_000 * n, len(calls)
        calls += [("cudaLaunchKernel", at, at + 5), ("cudaMemcpyAsync", at + 10, at + 15)]
        calls.append(("cudaEventRecord", at + 16, at + 17))
        records.append((first + 2, n % events, 7))
        if n:
            calls.append(("cudaEventSynchronize", at + 400, at + 500))
            # With one event for all, the wait is for the latest record: this step's own.
            links.append((first + 3, records[-1 - (events > 1)][0], 7, n % events, PROVED))
        work += [("kernel", at + 450, at + 900, first), ("D2H pinned 4", at + 902, at + 904, first + 1)]
    ranges = [("decode_step", 1_000 * n, 1_000 * (n + 1)) for n in range(steps)]
    return build.a_capture(calls, work, ranges, links, records, unit=US)


def test_a_wait_for_the_step_before_is_not_flagged(build):
    """transformers#43085: lag 1 is what the advice asks for."""
    found = findings(late(build))
    assert FindingCode.FENCE_AFTER_COPY not in found
    assert FindingCode.EVENT_RECORDED_AGAIN not in found


def test_an_event_that_is_recorded_again_before_its_wait_is_found(build):
    """vllm#39115: one event for all steps; the wait of step 1 is bound to step 1's record, step 0's is lost."""
    found = findings(late(build, events=1))[FindingCode.EVENT_RECORDED_AGAIN]
    assert 1 == found.evidence["records"]
    assert findings(late(build, events=1))[FindingCode.FENCE_AFTER_COPY].advice.startswith("a wait covers the latest")
    assert "first in step 0" in found.text


def test_an_event_is_used_again_rightly_behind_another_wait(build):
    """Each step synchronises the stream behind its record; the last also waits for the event: nothing is lost."""
    calls, records = [], []
    for n in range(4):
        at = 1_000 * n
        records.append((len(calls), 3, 7))
        calls += [("cudaEventRecord", at + 10, at + 11), ("cudaStreamSynchronize", at + 20, at + 30)]
    calls.append(("cudaEventSynchronize", 3_100, 3_101))
    links = [(8, 6, 7, 3, PROVED), *((2 * n + 1, -1, 7, -1, 0) for n in range(4))]
    ranges = [("decode_step", 1_000 * n, 1_000 * (n + 1)) for n in range(4)]
    capture = build.a_capture(calls, [("kernel", 0, 1)], ranges, links, records, unit=US)
    assert FindingCode.EVENT_RECORDED_AGAIN not in findings(capture)


def test_copies_to_the_host_without_a_wait_are_found(build):
    """sglang#16493, FastDeploy#7221: three steps copy without blocking and nobody waits."""
    capture = a_step_with(build, ("cudaMemcpyAsync", 10, 15), ("D2H pinned 4", 502, 504), steps=3)
    found = findings(capture)[FindingCode.NO_FENCE]
    assert (3, Evidence.INFERRED, None) == (found.evidence["copies"], found.certainty, found.cost_ns_per_step)


def test_a_query_may_be_the_fence(build):
    """transformers#43085 polls its event: no wait is no proof then."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpyAsync", 10, 15), ("cudaEventQuery", 600, 601)]
    work = [("kernel", 8, 500, 0), ("D2H pinned 4", 502, 504, 1)]
    assert FindingCode.NO_FENCE not in findings(build.a_loop(3, 1_000, calls, work))


# Hidden and repeated waits


@pytest.mark.parametrize("where", [("aten::item", RangeKind.OPERATOR), ("sampler", RangeKind.MARKER)])
def test_a_wait_inside_an_operator_or_a_range_of_other_code_is_hidden(build, where):
    """vllm#41429, transformers#22875: which call, where, how often, how long, and the longest with its step."""
    capture = a_step_with(build, ("cudaStreamSynchronize", 10, 510), ranges=[(where[0], 9, 520, where[1])])
    found = findings(capture)[FindingCode.HIDDEN_SYNC]
    assert {"call": "cudaStreamSynchronize", "site": where[0], "per_step": 1.0, "blocked_ns": 500.0 * US}.items() <= (
        found.evidence.items()
    )
    assert (500 * US, 0) == (found.evidence["max_ns"], found.evidence["max_step"])


@pytest.mark.parametrize("name", ["fence", "wait for tokens", "save_output", "transfer", "D2H copy"])
def test_a_wait_in_a_range_that_is_named_for_it_is_meant(build, name):
    """A person's own fence is no secret."""
    capture = a_step_with(build, ("cudaStreamSynchronize", 10, 510), ranges=[(name, 9, 520)])
    assert FindingCode.HIDDEN_SYNC not in findings(capture)


def test_hidden_waits_are_ranked_by_what_they_cost(build):
    """formatron#18: many small copies before one large one; vllm#41429: the most expensive site first."""
    calls = [("cudaMemcpy", 20 * n, 20 * n + 10) for n in range(20)] + [("cudaMemcpy", 500, 560)]
    work = [("D2H pageable 4", 20 * n + 5, 20 * n + 6, n) for n in range(20)]
    work.append(("D2H pageable 1000000", 505, 550, 20))
    capture = build.a_loop(2, 1_000, calls, work, [("small", 0, 400), ("large", 490, 600)])
    hidden = [f for f in analyze(capture, "c", Choice()).findings if f.code is FindingCode.HIDDEN_SYNC]
    assert [("small", 200.0 * US), ("large", 60.0 * US)] == [
        (finding.evidence["site"], finding.evidence["blocked_ns"]) for finding in hidden
    ]


def test_two_waits_with_no_work_between_could_be_one(build):
    """The second copy waits 100 µs for a queue in which nothing new is but itself."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpy", 10, 510), ("cudaMemcpy", 520, 620)]
    work = [("kernel", 8, 500, 0), ("D2H pageable 4", 502, 504, 1), ("D2H pageable 4", 600, 602, 2)]
    found = findings(build.a_loop(2, 1_000, calls, work))[FindingCode.SEVERAL_WAITS]
    assert (2.0, 1.0, 100.0 * US) == tuple(found.evidence[n] for n in ("stalls_per_step", "extra_per_step", "extra_ns"))


def test_two_waits_with_work_between_are_two(build):
    """A launch between them: the second wait is for that."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaStreamSynchronize", 10, 300)]
    calls += [("cudaLaunchKernel", 310, 315), ("cudaStreamSynchronize", 320, 520)]
    capture = build.a_loop(2, 1_000, calls, [("kernel", 8, 290, 0), ("kernel", 318, 510, 2)])
    assert FindingCode.SEVERAL_WAITS not in findings(capture)


def test_a_copy_and_its_own_sync_are_not_several_waits(build):
    """sglang#28491: one stall of two calls."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpyAsync", 10, 510), ("cudaStreamSynchronize", 512, 600)]
    capture = build.a_loop(2, 1_000, calls, [("kernel", 8, 500, 0), ("H2D pageable 4", 502, 504, 1)])
    assert FindingCode.SEVERAL_WAITS not in findings(capture)


@pytest.mark.parametrize("also_blocked", [False, True])
def test_waits_of_another_thread_are_no_finding_of_the_steps(build, also_blocked):
    """TensorRT-LLM#8463: a worker waits 700 µs for the copies, whether or not the step's thread waits for its own."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpyAsync", 10, 15), ("cudaEventRecord", 16, 17)]
    calls.append(("cudaEventSynchronize", 100, 800, 1))
    if also_blocked:
        calls.append(("cudaDeviceSynchronize", 300, 510))
    count = len(calls)
    links = [(count * n + 3, count * n + 2, 7, 3, PROVED) for n in range(2)]
    records = [(count * n + 2, 3, 7) for n in range(2)]
    work = [("kernel", 8, 500, 0), ("D2H pinned 4", 502, 504, 1)]
    found = findings(build.a_loop(2, 1_000, calls, work, [("sync", 290, 520)], links=links, records=records))
    assert [] == [code.value for code in found if found[code].evidence.get("wait_ns", 0) >= 700 * US]
    assert also_blocked or not {FindingCode.FENCE_AFTER_COPY, FindingCode.HIDDEN_SYNC} & found.keys()


# Allocations and streams


def stepping(build, lengths, calls, **more):
    """Return a capture of steps of these lengths in µs, with one kernel of 10 µs at the start of each."""
    starts = [sum(lengths[:n]) for n in range(len(lengths))]
    ranges = [("decode_step", start, start + length) for start, length in zip(starts, lengths, strict=True)]
    launches = [("cudaLaunchKernel", start, start + 2) for start in starts]
    work = [("kernel", start + 5, start + 15, n) for n, start in enumerate(starts)]
    return build.a_capture([*launches, *calls], work, ranges, unit=US, **more)


def test_one_long_allocation_in_a_hundred_steps_is_found_with_its_maximum_and_step(build):
    """vllm#37006: cudaHostAlloc of 12 ms in step 37 of 100 of 1 ms: the maximum shows it, the median not."""
    lengths = [1_000] * 37 + [13_000] + [1_000] * 62
    capture = stepping(build, lengths, [("cudaHostAlloc_v3020", 37_100, 49_100)])
    result = analyze(capture, "c", Choice())
    window = result.summaries["window_ns"]
    assert (1 * MS, 13 * MS, 37) == (window.p50, window.max, window.max_step)
    found = findings(capture)[FindingCode.ALLOCATION_IN_STEP]
    assert (12 * MS, 37, 0.01) == tuple(found.evidence[name] for name in ("max_ns", "max_step", "per_step"))
    assert ("cudaHostAlloc" in found.text, "12,000.0 µs in step 37" in found.text) == (True, True)
    assert (37, "allocate") == (result.worst[0].step, result.worst[0].largest_cause)


@pytest.mark.parametrize(("length", "is_found"), [(500, True), (90, False)])
def test_a_rare_allocation_is_found_by_its_length_though_its_mean_is_noise(build, length, is_found):
    """Once in 100 steps of 1,000 µs: 500 µs are 5 a step and below the noise, but half of one step; 90 are not."""
    found = findings(stepping(build, [1_000] * 100, [("cudaMalloc", 37_100, 37_100 + length)]))
    assert is_found == (FindingCode.ALLOCATION_IN_STEP in found)


@pytest.mark.parametrize("name", ["cudaHostRegister_v4000", "cudaMalloc_v3020", "cudaFree_v3020", "hipHostMalloc"])
def test_every_kind_of_allocation_counts(build, name):
    """pytorch#124456: pinning, allocating and freeing; 100 of 1,000 µs a step."""
    found = findings(a_step_with(build, (name, 600, 700)))[FindingCode.ALLOCATION_IN_STEP]
    assert (100.0 * US, 100.0 * US) == (found.cost_ns_per_step, found.evidence["ns"])


def test_a_hidden_sync_names_the_memory_of_its_own_copies(build):
    """The pageable copy blocks in both steps, the pinned one where it returned after its end, in the second alone."""

    def step(n, end):
        at = 1_000 * n
        calls = [("cudaLaunchKernel", at, at + 5), ("cudaMemcpyAsync", at + 10, at + 110)]
        return [*calls, ("cudaMemcpyAsync", at + 200, at + end)]

    def work(n):
        at, first = 1_000 * n, 3 * n
        copies = [("D2H pageable 36", at + 104, at + 106, first + 1), ("D2H pinned 4", at + 230, at + 232, first + 2)]
        return [("kernel", at + 8, at + 100, first), *copies]

    ranges = [("decode_step", 1_000 * n, 1_000 * (n + 1)) for n in range(2)]
    ranges += [("forward", 1_000 * n, 1_000 * n + 900) for n in range(2)]
    for end, memory, count in ((300, "pageable, pinned memory", "1.50"), (205, "pageable memory", "1.00")):
        capture = build.a_capture([*step(0, 205), *step(1, end)], [*work(0), *work(1)], ranges, unit=US)
        text = findings(capture)[FindingCode.HIDDEN_SYNC].text
        assert f"cudaMemcpyAsync in forward ({memory}): {count} a step" in text


def test_an_allocation_beside_a_device_that_only_idles_between_queued_kernels_could_save_nothing(build):
    """Each step's kernels are queued before the gaps of 50 and 2 µs in front of them begin: those are the device's."""
    calls = [("cudaLaunchKernel", 0, 2), ("cudaLaunchKernel", 3, 5), ("cudaMalloc", 100, 150)]
    capture = build.a_loop(4, 1_000, calls, [("kernel", 10, 500, 0), ("kernel", 550, 1_008, 1)])
    results = analyze(capture, "c", Choice(), first=1).findings
    (found,) = [finding for finding in results if finding.code is FindingCode.ALLOCATION_IN_STEP]
    assert (0.0, 50.0 * US) == (found.cost_ns_per_step, found.evidence["ns"])


def test_an_allocation_outside_the_steps_is_no_finding(build):
    """Before the loop is where it belongs."""
    capture = build.a_capture(
        [("cudaHostAlloc", 0, 500), ("cudaLaunchKernel", 600, 605)],
        [("kernel", 610, 900, 1)],
        [("decode_step", 600, 1_000)],
        unit=US,
    )
    assert FindingCode.ALLOCATION_IN_STEP not in findings(capture)


def _beside_stream_13(build, **more):
    """Return a loop whose copy is on the default stream 7 and whose kernel is on 13."""
    copy, kernel = ("D2H pageable 4", 502, 504), ("kernel", 8, 500, 0, 13)
    streams = {"default_streams": frozenset({(0, 7)})} | more
    return findings(a_step_with(build, ("cudaMemcpy", 10, 510), copy, kernel=kernel, **streams))


def test_copies_on_the_legacy_default_stream_beside_other_streams_are_found(build):
    """onnxruntime#3723: the copy is on the null stream 7, kernels are on 13."""
    found = _beside_stream_13(build)[FindingCode.DEFAULT_STREAM]
    assert (1.0, 1, 500.0 * US) == tuple(found.evidence[n] for n in ("copies_per_step", "other_streams", "blocked_ns"))


def test_streams_that_do_not_wait_for_the_default_stream_are_none_of_its_others(build):
    """The same, and stream 13 was made with cudaStreamNonBlocking."""
    assert FindingCode.DEFAULT_STREAM not in _beside_stream_13(build, non_blocking_streams=frozenset({(0, 13)}))


def test_a_loop_with_the_default_stream_alone_waits_for_no_other(build):
    """Nothing runs beside it."""
    more = {"default_streams": frozenset({(0, 7)})}
    capture = a_step_with(build, ("cudaMemcpy", 10, 510), ("D2H pageable 4", 502, 504), **more)
    assert FindingCode.DEFAULT_STREAM not in findings(capture)


def test_the_synchronisation_behind_a_copy_belongs_to_what_the_copy_costs(build):
    """A copy call of 30 µs and a synchronisation of 5 behind it: removing the copy gives both back."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpyAsync", 10, 40), ("cudaStreamSynchronize", 41, 46)]
    work = [("kernel", 8, 36, 0), ("D2H pageable 4", 36, 38, 1)]
    found = findings(build.a_loop(2, 100, calls, work))[FindingCode.PAGEABLE_DESTINATION]
    assert (30.0 * US, 35.0 * US) == (found.evidence["issue_ns"], found.cost_ns_per_step)


def test_pageable_copies_within_operators_are_named_beside_the_others(build):
    """One in the step's own code, one in a person's range `sample`: the second is a hidden sync, and both are said."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpyAsync", 10, 40), ("cudaMemcpyAsync", 70, 82)]
    work = [("kernel", 8, 36, 0), ("D2H pageable 4", 36, 38, 1), ("D2H pageable 4", 78, 80, 2)]
    found = findings(build.a_loop(2, 100, calls, work, [("sample", 60, 90)]))
    assert found[FindingCode.PAGEABLE_DESTINATION].text.endswith("; 1.00 more a step are among the hidden syncs")
    assert "sample" == found[FindingCode.HIDDEN_SYNC].evidence["site"]


def test_stalls_in_a_row_cost_their_copies_and_the_synchronisations_behind_them(build):
    """Two stalls of 30 + 5 and 12 + 5 µs with no work between: one would do, so 17 could be saved."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpyAsync", 10, 40), ("cudaStreamSynchronize", 41, 46)]
    calls += [("cudaMemcpyAsync", 70, 82), ("cudaStreamSynchronize", 83, 88)]
    work = [("kernel", 8, 36, 0), ("D2H pageable 4", 36, 38, 1), ("D2H pageable 4", 78, 80, 3)]
    found = findings(build.a_loop(2, 100, calls, work))[FindingCode.SEVERAL_WAITS]
    assert (2.0, 1.0, 17.0 * US) == tuple(
        found.evidence[name] for name in ("stalls_per_step", "extra_per_step", "extra_ns")
    )


def test_an_allocation_gains_no_more_than_the_device_idles(build):
    """cudaMalloc takes 50 µs while the device is busy; it idles 20 of 100, so 20 is the most that could be saved."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMalloc", 10, 60)]
    found = findings(build.a_loop(2, 100, calls, [("kernel", 8, 88, 0)]))[FindingCode.ALLOCATION_IN_STEP]
    assert (50.0 * US, 20.0 * US) == (found.evidence["ns"], found.cost_ns_per_step)


def test_the_advice_for_a_device_synchronisation_is_to_remove_it(build):
    """It carries no value that could be kept on the device."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaDeviceSynchronize", 10, 70)]
    found = findings(build.a_loop(2, 100, calls, [("kernel", 8, 60, 0)]))[FindingCode.HIDDEN_SYNC]
    assert found.advice.startswith("remove it")


def test_a_wait_between_streams_that_costs_more_than_its_copy_is_found(build):
    """sglang#29642: a copy of 2 µs on stream 8 begins 50 µs after its kernel, and the next kernel 48 µs later."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaStreamWaitEvent", 6, 7), ("cudaMemcpyAsync", 10, 15)]
    calls += [("cudaStreamWaitEvent", 16, 17), ("cudaLaunchKernel", 18, 20)]
    work = [("kernel", 8, 400, 0, 7), ("D2H pinned 256", 450, 452, 2, 8), ("kernel", 500, 900, 4, 7)]
    found = findings(build.a_loop(2, 1_000, calls, work))[FindingCode.CROSS_STREAM_WAIT]
    assert (98.0 * US, 2.0 * US, 2.0) == tuple(
        found.evidence[name] for name in ("queued_ns", "copy_ns", "stream_waits_per_step")
    )


# The capture itself


def test_host_calls_without_device_rows_are_said_and_not_taken_for_idle(build):
    """vllm#5132: launches and no kernel: the tracer lost the process, the device was not 100 % idle."""
    capture = build.a_loop(2, 1_000, [("cudaLaunchKernel", 0, 5), ("cudaStreamSynchronize", 10, 500)])
    found = findings(capture)[FindingCode.NO_DEVICE_ROWS]
    assert 4 == found.evidence["calls"]
    assert "--trace-fork-before-exec=true" in found.advice


def test_launches_without_a_row_are_counted(build):
    """kineto#192021: 5 launches and 3 kernels: two calls without device activity."""
    calls = [("cudaLaunchKernel", 100 * n, 100 * n + 5) for n in range(5)]
    work = [("kernel", 100 * n + 10, 100 * n + 50, n) for n in range(3)]
    found = findings(build.a_loop(1, 1_000, calls, work))[FindingCode.CAPTURE_CUT]
    assert (2, 5, 0) == tuple(found.evidence[name] for name in ("calls_without_rows", "calls", "rows_without_calls"))


def test_device_rows_without_a_call_are_counted(build):
    """Their launches were before the capture's start."""
    found = findings(build.a_loop(1, 1_000, [("cudaLaunchKernel", 0, 5)], [("kernel", 6, 50, 0), ("kernel", 60, 90)]))
    assert 1 == found[FindingCode.CAPTURE_CUT].evidence["rows_without_calls"]


def test_time_that_a_wait_spent_on_missing_work_is_said(build):
    """Of 3,000 µs the host waits 2,000 for what the capture does not hold."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaStreamSynchronize", 10, 2_100)]
    found = findings(build.a_loop(1, 3_000, calls, [("kernel", 10, 100, 0)]))[FindingCode.CAPTURE_CUT]
    assert (2_000.0 * US, Evidence.INFERRED) == (found.evidence["not_captured_ns"], found.certainty)


def test_device_work_that_runs_outside_the_steps_is_said(build):
    """A graph launched in the one step runs behind it: 100 % of its work."""
    capture = build.a_capture(
        [("cudaGraphLaunch", 0, 5)], [("kernel", 200, 900, 0)], [("decode_step", 0, 100)], unit=US
    )
    assert 1.0 == findings(capture)[FindingCode.CAPTURE_CUT].evidence["share"]


def test_steps_that_are_not_marked_are_said_to_be_inferred(build):
    """With their number, and how to mark them."""
    capture = build.a_capture([("cudaLaunchKernel", 0, 5)], [("kernel", 6, 9, 0)], unit=US)
    found = findings(capture)[FindingCode.STEPS_INFERRED]
    assert (1, Evidence.UNKNOWN) == (found.evidence["steps"], found.certainty)
    assert "--step-range" in found.advice


def test_the_profilers_own_work_on_the_steps_thread_is_said(build):
    """300 of 1,000 µs in the first of two steps: 150 a step; that on another thread does not count."""
    overhead = [(0, 600, 900), (1, 0, 2_000)]
    capture = a_step_with(build, ("cudaEventQuery", 10, 11, 1), overhead=overhead)
    assert 150.0 * US == findings(capture)[FindingCode.PROFILER_INFLATION].cost_ns_per_step


# All of them


@pytest.mark.parametrize("blocked_us", [9, 12])
def test_what_costs_less_than_a_hundredth_of_the_step_is_not_said(build, blocked_us):
    """A blocking copy in `sampler` and an allocation of 9 µs in a step of 1,000; 12 µs are worth saying."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpy", 10, 10 + blocked_us), ("cudaMalloc", 100, 100 + blocked_us)]
    work = [("kernel", 8, 9, 0), ("D2H pageable 4", 12, 14, 1)]
    found = findings(build.a_loop(2, 1_000, calls, work, [("sampler", 0, 50)])).keys()
    waits = {FindingCode.HIDDEN_SYNC, FindingCode.ALLOCATION_IN_STEP}
    assert (waits if blocked_us > 10 else set()) == waits & found


def test_doubts_come_first_and_the_rest_by_cost(build):
    """Two rows without a call make the rest doubtful, whatever they cost."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpy", 10, 510), ("cudaMalloc", 600, 700)]
    work = [("kernel", 8, 500, 0), ("D2H pageable 4", 502, 504, 1), ("kernel", 800, 801)]
    order = [finding.code for finding in analyze(build.a_loop(2, 1_000, calls, work), "c", Choice()).findings]
    costs = [f.cost_ns_per_step for f in analyze(build.a_loop(2, 1_000, calls, work), "c", Choice()).findings]
    assert [True] + [False] * (len(order) - 1) == [code in DOUBTS for code in order]
    assert sorted(costs[1:], reverse=True) == costs[1:]
    assert FindingCode.ALLOCATION_IN_STEP is order[-1]


def test_no_finding_gains_more_than_the_step_can(build):
    """The host is blocked for 990 of 1,000 µs beside a device that is busy for 960: 40 µs is all there is."""
    calls = [("cudaLaunchKernel", 0, 5), ("cudaMemcpy", 6, 996)]
    work = [("kernel", 8, 966, 0), ("D2H pageable 4", 970, 972, 1)]
    found = findings(build.a_loop(2, 1_000, calls, work))
    assert 40.0 * US == found[FindingCode.PAGEABLE_DESTINATION].cost_ns_per_step


def test_every_finding_of_every_real_capture_has_a_number_and_is_worth_saying(captures):
    """Evidence with a number, advice, and a cost of a hundredth of the step or more, except a rare long allocation."""
    seen = set()
    for path in sorted(captures.glob("*/*.*")):
        try:
            result = analyze(import_capture(path, lambda line: None), str(path), Choice())
        except InputError:
            continue
        for finding in result.findings:
            seen.add(finding.code)
            numbers = [value for value in finding.evidence.values() if isinstance(value, int | float)]
            assert numbers, (path.name, finding)
            assert finding.advice and finding.text
            rare = finding.code is FindingCode.ALLOCATION_IN_STEP or finding.code in DOUBTS
            cost = finding.cost_ns_per_step
            assert cost is None or rare or cost >= NOISE * result.facts.window_ns, (path.name, finding)
    assert {FindingCode.PAGEABLE_DESTINATION, FindingCode.HIDDEN_SYNC, FindingCode.CAPTURE_CUT} <= seen
