"""fdprof.analysis.transfers: issue, copy and wait of each copy kept apart; rows of the public reports about copies."""

# ruff: noqa: SIM300
import pytest

from fdprof.analysis.capture_result import analyze
from fdprof.analysis.steps import Choice
from fdprof.capture import Evidence, RangeKind

US = 1_000
PROVED = int(Evidence.PROVED)


def transfers_of(capture):
    return analyze(capture, "a capture", Choice()).facts.transfers


def test_issue_copy_and_wait_are_three_times(build):
    """Call 0-5, copy 20-22, event wait 50-60: 5, 2 and 10 µs; 45 µs lie between the call's return and the wait."""
    calls = [("cudaMemcpyAsync", 0, 5), ("cudaEventRecord", 6, 7), ("cudaEventSynchronize", 50, 60)]
    more = {"links": [(2, 1, 7, 3, PROVED)], "records": [(1, 3, 7)]}
    (found,) = transfers_of(build.a_loop(1, 100, calls, [("D2H pinned 8", 20, 22, 0)], **more))
    assert (5 * US, 2 * US, 10 * US, 45 * US) == (found.issue_ns, found.copy_ns, found.wait_ns, found.wait_after_ns)
    assert (0.0, 0.0, Evidence.PROVED) == (found.lag, found.blocking_share, found.evidence)
    assert ("device to host", "pinned", 8, 1.0) == (found.direction, found.memory, found.size_bytes, found.per_step)


def overlapped(build, steps=3):
    """Return a loop with lag 1: each step waits for the event that the step before recorded behind its copy."""
    calls, work, links, records = [], [], [], []
    for n in range(steps):
        at = 100 * n
        first = len(calls)
        if n:
            links.append((first, first - 1, 7, n % 2, PROVED))
            calls.append(("cudaEventSynchronize", at + 10, at + 20))
        calls += [("cudaMemcpyAsync", at + 60, at + 65), ("cudaEventRecord", at + 66, at + 67)]
        records.append((len(calls) - 1, n % 2, 7))
        work.append(("D2H pinned 8", at + 90, at + 92, len(calls) - 2))
    ranges = [("decode_step", 100 * n, 100 * n + 100) for n in range(steps)]
    return build.a_capture(calls, work, ranges, links, records, unit=US)


def test_the_lag_is_the_steps_from_a_copy_to_its_wait(build):
    """transformers#43085: copied in step n, waited for in step n + 1: lag 1; the last copy is not waited for."""
    (found,) = transfers_of(overlapped(build))
    assert (1.0, 0.0, Evidence.PROVED) == (found.lag, found.blocking_share, found.evidence)
    assert 1 == found.unawaited


def test_waits_for_copies_that_were_issued_before_the_first_step_are_the_steps_too(build):
    """Each of the steps 2 to 4 waits 10 µs for the copy of the one before; of all five, four wait: 8 a step."""
    capture = overlapped(build, steps=5)
    (later,) = analyze(capture, "a capture", Choice(), first=2).facts.transfers
    (every,) = transfers_of(capture)
    assert (10.0 * US, 8.0 * US) == (later.wait_ns, every.wait_ns)
    assert (1.0, 1.0, 1) == (later.lag, later.per_step, later.unawaited)


def test_a_blocking_copy_has_lag_0_whatever_is_waited_for_later(build):
    """transformers#43085: cudaMemcpy returns with its bytes; a synchronisation in the next step is not its wait."""
    calls = [("cudaStreamSynchronize", 0, 3), ("cudaMemcpy", 20, 50)]
    (found,) = transfers_of(build.a_loop(3, 100, calls, [("D2H pageable 8", 40, 42, 1)]))
    assert (0.0, 1.0) == (found.lag, found.blocking_share)


def test_a_copy_is_done_at_the_first_wait_that_covers_it(build):
    """The stream is synchronised at 20 already; the event that was recorded at 6 is waited for a step later.

    The host knew the values at 25: lag 0, and a wait of 5 µs.
    """
    calls = [
        ("cudaMemcpyAsync", 0, 5),
        ("cudaEventRecord", 6, 7),
        ("cudaStreamSynchronize", 20, 25),
        ("cudaEventSynchronize", 110, 112),
    ]
    ranges = [("decode_step", 0, 100), ("decode_step", 100, 200)]
    more = {"links": [(3, 1, 7, 3, PROVED), (2, -1, 7, -1, 0)], "records": [(1, 3, 7)], "unit": US}
    (found,) = transfers_of(build.a_capture(calls, [("D2H pinned 8", 20, 22, 0)], ranges, **more))
    assert 0.0 == found.lag


def test_a_wait_on_another_stream_covers_no_copy_of_this_one(build):
    """The copy is on stream 8, the synchronisation of stream 7: nobody waits for it."""
    calls = [("cudaMemcpyAsync", 0, 5), ("cudaStreamSynchronize", 20, 25)]
    more = {"links": [(1, -1, 7, -1, 0)]}
    (found,) = transfers_of(build.a_loop(1, 100, calls, [("D2H pinned 8", 10, 12, 0, 8)], **more))
    assert (None, 1) == (found.wait_ns, found.unawaited)


def test_a_record_before_the_copy_does_not_guard_it(build):
    """vllm#36942's order: record, copy, wait: the wait is for what came before the copy."""
    calls = [("cudaEventRecord", 0, 1), ("cudaMemcpyAsync", 2, 5), ("cudaEventSynchronize", 20, 25)]
    more = {"links": [(2, 0, 7, 3, PROVED)], "records": [(0, 3, 7)]}
    (found,) = transfers_of(build.a_loop(1, 100, calls, [("D2H pinned 8", 10, 12, 1)], **more))
    assert (None, 1) == (found.wait_ns, found.unawaited)


def test_a_copy_without_any_wait_is_unawaited(build):
    """sglang#16493: non_blocking and no fence."""
    (found,) = transfers_of(build.a_loop(3, 100, [("cudaMemcpyAsync", 0, 5)], [("D2H pinned 8", 10, 12, 0)]))
    assert (3, None, None) == (found.unawaited, found.wait_ns, found.lag)


@pytest.mark.parametrize(("end", "share", "unawaited"), [(30, 1.0, 0), (15, 0.0, 1)])
def test_a_pageable_copy_blocks_by_its_times(build, end, share, unawaited):
    """pytorch#39694 and onnxruntime#26512: the call that ends at 30 outlasted its copy 20-22, that at 15 did not."""
    (found,) = transfers_of(build.a_loop(1, 100, [("cudaMemcpyAsync", 0, end)], [("D2H pageable 4", 20, 22, 0)]))
    assert ("pageable", share, unawaited) == (found.memory, found.blocking_share, found.unawaited)


def test_an_upload_is_not_unawaited(build):
    """Only values that the host reads need a fence."""
    (found,) = transfers_of(build.a_loop(2, 100, [("cudaMemcpyAsync", 0, 5)], [("H2D pinned 8", 10, 12, 0)]))
    assert ("host to device", 0) == (found.direction, found.unawaited)


def test_alike_copies_are_one_row_and_others_are_apart(build):
    """Two copies of 8 B a step in one range are a row; another size, memory, stream or site is another."""
    whats = ["D2H pinned 8", "D2H pinned 8", "D2H pinned 16", "D2H pageable 8", "D2H pinned 8", "D2H pinned 8"]
    calls = [("cudaMemcpyAsync", 20 * n, 20 * n + 5) for n in range(6)]
    work = [(what, 20 * n + 10, 20 * n + 12, n, 8 if n == 4 else 7) for n, what in enumerate(whats)]
    found = transfers_of(build.a_loop(2, 200, calls, work, [("outputs", 0, 95)]))
    assert [1.0, 1.0, 1.0, 1.0, 2.0] == sorted(transfer.per_step for transfer in found)
    assert ["(outside all ranges)"] == [transfer.name for transfer in found if transfer.name != "outputs"]


def test_those_that_hold_the_host_longest_come_first(build):
    """3 × 1,024 B are issued in 15 µs, 4,096 B and 8 B in 5 each, of which the more bytes come first."""
    calls = [("cudaMemcpyAsync", 20 * n, 20 * n + 5) for n in range(5)]
    sizes = [8, 1_024, 1_024, 1_024, 4_096]
    work = [(f"D2H pinned {size}", 20 * n + 10, 20 * n + 12, n) for n, size in enumerate(sizes)]
    found = transfers_of(build.a_loop(2, 100, calls, work))
    assert [3_072.0, 4_096.0, 8.0] == [transfer.bytes_per_step for transfer in found]


def test_a_call_that_makes_two_copies_is_issued_once(build):
    """A batched copy of 10 µs with two rows: 10 µs of issue a step, two copies."""
    calls = [("cudaMemcpyBatchAsync", 0, 10)]
    work = [("D2H pinned 8", 20, 22, 0), ("D2H pinned 8", 22, 24, 0)]
    (found,) = transfers_of(build.a_loop(2, 100, calls, work))
    assert (10 * US, 4 * US, 2.0) == (found.issue_ns, found.copy_ns, found.per_step)


def test_a_copy_counts_in_the_step_that_issued_it(build):
    """Issued in the last step and copied behind it: still that step's; one issued before the steps is not."""
    calls = [("cudaMemcpyAsync", 0, 5), ("cudaMemcpyAsync", 90, 95)]
    work = [("D2H pinned 8", 20, 22, 0), ("D2H pinned 16", 150, 152, 1)]
    found = transfers_of(build.a_capture(calls, work, [("decode_step", 10, 100)], unit=US))
    assert [16] == [transfer.size_bytes for transfer in found]


def test_copies_of_another_thread_and_on_the_device_are_no_transfers_of_the_steps(build):
    """TensorRT-LLM#8463's worker copies for itself; a copy on the device is the device's matter."""
    calls = [("cudaMemcpyAsync", 0, 5, 1), ("cudaMemcpyAsync", 10, 15)]
    assert () == transfers_of(build.a_loop(2, 100, calls, [("D2H pinned 8", 20, 22, 0), ("D2D 8", 30, 32, 1)]))


def test_a_copy_without_a_known_call_has_no_issue(build):
    """Its call was before the capture's start; None is not 0."""
    (found,) = transfers_of(build.a_loop(2, 100, [("cudaLaunchKernel", 0, 5)], [("D2H pinned 8", 20, 22)]))
    assert ("(call not in the capture)", None, 2 * US) == (found.name, found.issue_ns, found.copy_ns)


def test_without_device_rows_there_are_no_transfers_to_show(build):
    """Nothing is known of sizes or directions."""
    assert () == transfers_of(build.a_loop(2, 100, [("cudaMemcpyAsync", 0, 5)]))


def test_a_copy_on_the_default_stream_is_marked(build):
    """onnxruntime#3723: stream 7 is the legacy default stream here, 8 is not."""
    calls = [("cudaMemcpyAsync", 0, 5), ("cudaMemcpyAsync", 10, 15)]
    work = [("D2H pinned 8", 20, 22, 0, 7), ("D2H pinned 16", 30, 32, 1, 8)]
    found = transfers_of(build.a_loop(2, 100, calls, work, default_streams=frozenset({(0, 7)})))
    assert [(16, False), (8, True)] == [(transfer.size_bytes, transfer.is_default_stream) for transfer in found]


def test_memory_and_stream_that_a_format_does_not_give_are_unknown(build):
    """Paddle's traces have no memory kind."""
    (found,) = transfers_of(build.a_loop(1, 100, [("cudaMemcpy", 0, 30)], [("D2H 8", 20, 22, 0)]))
    assert "unknown" == found.memory


def test_a_transfer_is_named_by_where_it_is_issued(build):
    """The path of ranges around the call, below the step's own."""
    ranges = [("sample", 0, 50), ("aten::to", 5, 40, RangeKind.OPERATOR)]
    (found,) = transfers_of(build.a_loop(1, 100, [("cudaMemcpy", 10, 30)], [("D2H pageable 8", 20, 22, 0)], ranges))
    assert "sample > aten::to" == found.name
