"""fdprof.analysis.calls and fdprof.api_calls: a host call's kind by its name, and by its copy's time."""

# ruff: noqa: SIM300
import pytest

from fdprof.analysis.calls import calls_of
from fdprof.api_calls import kind_of, plain_name
from fdprof.capture import WAIT_KINDS, ApiKind

US = 1_000
BLOCKING = WAIT_KINDS | {ApiKind.BLOCKING_COPY}


# Names


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("cudaMemcpy", ApiKind.BLOCKING_COPY),
        ("cudaMemcpy_v3020", ApiKind.BLOCKING_COPY),
        ("cudaMemcpy_ptds_v7000", ApiKind.BLOCKING_COPY),
        ("cudaMemcpy2D_v3020", ApiKind.BLOCKING_COPY),
        ("cudaMemcpyToSymbol_v3020", ApiKind.BLOCKING_COPY),
        ("cudaMemcpyPeer_v4000", ApiKind.BLOCKING_COPY),
        ("cuMemcpyDtoH_v2", ApiKind.BLOCKING_COPY),
        ("cuMemcpyDtoH_v2_ptds", ApiKind.BLOCKING_COPY),
        ("cuMemcpyHtoD_v2", ApiKind.BLOCKING_COPY),
        ("cuMemcpy_ptds", ApiKind.BLOCKING_COPY),
        ("hipMemcpy", ApiKind.BLOCKING_COPY),
        ("hipMemcpyDtoH", ApiKind.BLOCKING_COPY),
        ("hipMemcpyWithStream", ApiKind.BLOCKING_COPY),
        ("Runtime API 31", ApiKind.BLOCKING_COPY),
        ("cudaMemcpyAsync_v3020", ApiKind.COPY),
        ("cudaMemcpyAsync_ptsz_v7000", ApiKind.COPY),
        ("cudaMemcpy2DAsync_v3020", ApiKind.COPY),
        ("cuMemcpyDtoHAsync_v2", ApiKind.COPY),
        ("cuMemcpyDtoHAsync_v2_ptsz", ApiKind.COPY),
        ("hipMemcpyAsync", ApiKind.COPY),
        ("hipMemcpyDtoHAsync", ApiKind.COPY),
        ("cudaMemcpyBatchAsync_v12080", ApiKind.COPY),
        ("Runtime API 41", ApiKind.COPY),
        ("cudaStreamSynchronize", ApiKind.STREAM_SYNC),
        ("cudaStreamSynchronize_v3020", ApiKind.STREAM_SYNC),
        ("cudaStreamSynchronize_ptsz", ApiKind.STREAM_SYNC),
        ("cudaStreamSynchronize_ptsz_v7000", ApiKind.STREAM_SYNC),
        ("cuStreamSynchronize_ptsz", ApiKind.STREAM_SYNC),
        ("hipStreamSynchronize", ApiKind.STREAM_SYNC),
        ("hipStreamSynchronize_spt", ApiKind.STREAM_SYNC),
        ("Runtime API 131", ApiKind.STREAM_SYNC),
        ("cudaEventSynchronize_v3020", ApiKind.EVENT_WAIT),
        ("cuEventSynchronize", ApiKind.EVENT_WAIT),
        ("hipEventSynchronize", ApiKind.EVENT_WAIT),
        ("Runtime API 137", ApiKind.EVENT_WAIT),
        ("cudaDeviceSynchronize_v3020", ApiKind.DEVICE_SYNC),
        ("cudaThreadSynchronize_v3020", ApiKind.DEVICE_SYNC),
        ("cuCtxSynchronize", ApiKind.DEVICE_SYNC),
        ("cuCtxSynchronize_v2", ApiKind.DEVICE_SYNC),
        ("hipDeviceSynchronize", ApiKind.DEVICE_SYNC),
        ("Runtime API 165", ApiKind.DEVICE_SYNC),
        ("cudaLaunchKernel_v7000", ApiKind.LAUNCH),
        ("cudaLaunchKernel_ptsz_v7000", ApiKind.LAUNCH),
        ("cudaLaunchKernelExC_v11060", ApiKind.LAUNCH),
        ("cudaLaunchCooperativeKernel_v9000", ApiKind.LAUNCH),
        ("cudaLaunch_v3020", ApiKind.LAUNCH),
        ("cuLaunchKernel", ApiKind.LAUNCH),
        ("cuLaunchKernelEx", ApiKind.LAUNCH),
        ("cuLaunchKernelEx_ptsz", ApiKind.LAUNCH),
        ("hipLaunchKernel", ApiKind.LAUNCH),
        ("hipModuleLaunchKernel", ApiKind.LAUNCH),
        ("hipExtModuleLaunchKernel", ApiKind.LAUNCH),
        ("Runtime API 211", ApiKind.LAUNCH),
        ("Runtime API 430", ApiKind.LAUNCH),
        ("cudaGraphLaunch_v10000", ApiKind.GRAPH_LAUNCH),
        ("cudaGraphLaunch_ptsz_v10000", ApiKind.GRAPH_LAUNCH),
        ("cuGraphLaunch", ApiKind.GRAPH_LAUNCH),
        ("hipGraphLaunch", ApiKind.GRAPH_LAUNCH),
        ("Runtime API 311", ApiKind.GRAPH_LAUNCH),
        ("cudaMemsetAsync_v3020", ApiKind.MEMSET),
        ("cuMemsetD32Async", ApiKind.MEMSET),
        ("cuMemsetD8_v2", ApiKind.MEMSET),
        ("hipMemsetAsync", ApiKind.MEMSET),
        ("cudaHostAlloc_v3020", ApiKind.ALLOCATE),
        ("cudaHostRegister_v4000", ApiKind.ALLOCATE),
        ("cudaFreeHost_v3020", ApiKind.ALLOCATE),
        ("cudaMalloc_v3020", ApiKind.ALLOCATE),
        ("cudaFree_v3020", ApiKind.ALLOCATE),
        ("cuMemAlloc_v2", ApiKind.ALLOCATE),
        ("cuMemHostAlloc", ApiKind.ALLOCATE),
        ("cuMemHostRegister_v2", ApiKind.ALLOCATE),
        ("hipHostMalloc", ApiKind.ALLOCATE),
        ("cudaEventRecord_v3020", ApiKind.EVENT_RECORD),
        ("cudaEventRecordWithFlags_v11010", ApiKind.EVENT_RECORD),
        ("cuEventRecord_ptsz", ApiKind.EVENT_RECORD),
        ("hipEventRecord", ApiKind.EVENT_RECORD),
        ("Runtime API 135", ApiKind.EVENT_RECORD),
        ("cudaEventQuery_v3020", ApiKind.EVENT_QUERY),
        ("cudaStreamQuery_v3020", ApiKind.EVENT_QUERY),
        ("hipEventQuery", ApiKind.EVENT_QUERY),
        ("cudaStreamWaitEvent_v3020", ApiKind.STREAM_WAIT),
        ("cuStreamWaitEvent_ptsz", ApiKind.STREAM_WAIT),
        ("hipStreamWaitEvent", ApiKind.STREAM_WAIT),
    ],
)
def test_a_calls_name_says_what_it_does_in_any_spelling(name, kind):
    """ROCm/clr#78, Paddle's numbers, ABI suffixes: the table knows them all."""
    assert kind == kind_of(name)


@pytest.mark.parametrize(
    "name",
    [
        "cudaEventCreateWithFlags_v3020",
        "cudaGetDevice_v3020",
        "cudaMemGetInfo_v3020",
        "cudaMallocAsync_v11020",  # ordered in a stream: the host does not wait for the device
        "cudaFreeAsync_v11020",
        "cudaStreamIsCapturing_v10000",
        "cudaDeviceSynchronizeLater",
        "Runtime API 99999",
        "Runtime API",
        "EventSynchronize",  # no prefix of a CUDA or HIP call
        "Memcpy DtoH (Device -> Pageable)",
        "",
    ],
)
def test_a_name_that_is_not_known_does_nothing(name):
    """A guess would make a stall of it."""
    assert ApiKind.OTHER == kind_of(name)


def test_blocking_event_sync_is_no_blocking_copy():
    """pytorch#82061: cudaEventBlockingSync is how a host waits, and creating such an event waits for nothing."""
    assert kind_of("cudaEventCreateWithFlags_v3020") not in BLOCKING
    assert kind_of("cudaSetDeviceFlags_v3020") not in BLOCKING


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("cudaMemcpy_v3020", "cudaMemcpy"),
        ("cuMemcpyDtoHAsync_v2_ptsz", "cuMemcpyDtoHAsync"),
        ("cudaStreamSynchronize_ptsz_v7000", "cudaStreamSynchronize"),
        ("Runtime API 137", "cudaEventSynchronize"),
        ("Runtime API 99999", "Runtime API 99999"),
        ("hipMemcpyWithStream", "hipMemcpyWithStream"),
    ],
)
def test_a_plain_name_has_no_suffix_and_no_number(name, plain):
    """So that one call of two exports has one name."""
    assert plain == plain_name(name)


# Blocking by the copy's own time


@pytest.fixture
def calls(build):
    """Return what the calls of a capture did; times in µs."""

    def made(api, work=(), **more):
        return calls_of(build.a_capture(api, work, unit=US, **more))

    return made


@pytest.mark.parametrize("what", ["D2H pageable 4", "D2H pinned 4", "D2H 4", "H2D pageable 4"])
def test_a_copy_named_async_that_returned_after_its_copy_blocks(calls, what):
    """sglang#29075, pytorch#39694, vllm#10850: the name does not decide, the times do; both ways, any memory."""
    assert [True] == calls([("cudaMemcpyAsync", 0, 30)], [(what, 20, 22, 0)]).blocks.tolist()


def test_a_copy_named_async_that_returned_as_its_copy_ended_blocks(calls):
    """API end = copy end: it did not return before."""
    assert [True] == calls([("cudaMemcpyAsync", 0, 22)], [("D2H pageable 4", 20, 22, 0)]).blocks.tolist()


def test_a_pageable_copy_that_returned_before_its_end_does_not_block(calls):
    """onnxruntime#26512: pageable memory usually blocks; here the times say that it did not."""
    assert [False] == calls([("cudaMemcpyAsync", 0, 10)], [("D2H pageable 4", 9, 12, 0)]).blocks.tolist()


def test_a_copy_named_async_without_a_device_row_is_not_said_to_block(calls):
    """Nothing is known of its copy's time."""
    assert [False] == calls([("cudaMemcpyAsync", 0, 10)], [("kernel", 0, 5)]).blocks.tolist()


@pytest.mark.parametrize("name", ["cudaMemcpy", "hipMemcpyWithStream"])
def test_a_copy_that_is_synchronous_by_name_blocks_without_a_device_row(calls, name):
    """ROCm/clr#78: no need to see the copy."""
    assert [True] == calls([(name, 0, 10)]).blocks.tolist()


def test_a_copy_on_the_device_does_not_hold_the_host(calls):
    """An asynchronous one that its copy overtook did not wait for it."""
    assert [False] == calls([("cudaMemcpyAsync", 0, 30)], [("D2D 4", 10, 12, 0)]).blocks.tolist()


def test_a_synchronous_copy_on_the_device_counts_by_its_time_alone(calls):
    """CUDA does not wait for one; HIP labels a read of one value so, and does: the times tell them apart."""
    api = [("hipMemcpyWithStream", 0, 30), ("cudaMemcpy", 40, 45)]
    assert [True, False] == calls(api, [("D2D 4", 10, 12, 0), ("D2D 4", 50, 52, 1)]).blocks.tolist()


def test_a_batched_copy_blocks_only_if_it_outlasts_its_last_copy(calls):
    """Two copies of one call end at 5 and 25, the call at 10: it did not wait for both."""
    work = [("D2H pinned 4", 20, 25, 0), ("D2H pinned 4", 3, 5, 0)]
    assert [False] == calls([("cudaMemcpyBatchAsync", 0, 10)], work).blocks.tolist()


def test_calls_that_only_ask_or_order_do_not_block(calls):
    """However long they take: a query, a stream wait, a record, a launch, a memset and an allocation."""
    names = ["cudaEventQuery", "cudaStreamWaitEvent", "cudaEventRecord", "cudaLaunchKernel", "cudaMemset", "cudaMalloc"]
    assert [False] * 6 == calls([(name, 10 * n, 10 * n + 9) for n, name in enumerate(names)]).blocks.tolist()


# One stall


def test_a_copy_and_the_wait_right_behind_it_are_one_stall(calls):
    """sglang#28491: two calls, 5 µs apart on one thread."""
    api = [("cudaMemcpyAsync", 0, 30), ("cudaStreamSynchronize", 35, 40)]
    found = calls(api, [("H2D pageable 4", 20, 22, 0)])
    assert ([True, True], 1) == (found.blocks.tolist(), len(set(found.stall.tolist())))


def test_a_wait_behind_a_copy_that_did_not_block_is_the_stall(calls):
    """The copy itself belongs to none."""
    api = [("cudaMemcpyAsync", 0, 5), ("cudaStreamSynchronize", 6, 40)]
    assert [-1, 0] == calls(api, [("D2H pinned 4", 20, 22, 0)]).stall.tolist()


@pytest.mark.parametrize(("pause_us", "stalls"), [(19.999, 1), (20, 2), (500, 2)])
def test_a_wait_that_comes_20_us_later_is_a_stall_of_its_own(build, pause_us, stalls):
    """The limit itself is not within it."""
    start = 30_000 + int(pause_us * US)
    api = [("cudaMemcpy", 0, 30_000), ("cudaStreamSynchronize", start, start + 5_000)]
    found = calls_of(build.a_capture(api, [("D2H pageable 4", 20_000, 22_000, 0)]))
    assert stalls == len(set(found.stall.tolist()))


def test_a_wait_on_another_thread_is_a_stall_of_its_own(calls):
    """5 µs behind the copy, but no thread waits twice."""
    api = [("cudaMemcpy", 0, 30), ("cudaStreamSynchronize", 35, 40, 1)]
    assert 2 == len(set(calls(api, [("D2H pageable 4", 20, 22, 0)]).stall.tolist()))


def test_two_copies_and_two_waits_are_stalls_of_their_own(calls):
    """Only a wait joins the copy before it: copy, copy are two; wait, wait behind a copy are two."""
    copies = [("cudaMemcpy", 0, 10), ("cudaMemcpy", 11, 20)]
    assert [0, 1] == calls(copies).stall.tolist()
    waits = [("cudaMemcpy", 0, 10), ("cudaStreamSynchronize", 11, 20), ("cudaEventSynchronize", 21, 30)]
    assert [0, 0, 1] == calls(waits).stall.tolist()


# Work and rows


def test_launches_copies_and_memsets_give_work_and_other_calls_do_not(calls):
    """A device row is expected of each of the first five."""
    names = ["cudaLaunchKernel", "cudaGraphLaunch", "cudaMemcpyAsync", "cudaMemcpy", "cudaMemsetAsync"]
    names += ["cudaEventRecord", "cudaMalloc", "cudaStreamSynchronize", "cudaStreamWaitEvent", "cudaEventQuery"]
    found = calls([(name, 10 * n, 10 * n + 9) for n, name in enumerate(names)])
    assert [True] * 5 + [False] * 5 == found.gives_work.tolist()


def test_launches_while_a_graph_is_captured_give_the_device_nothing(calls):
    """Only the launch before the capture, that after it and the other thread's give work."""
    api = [
        ("cudaLaunchKernel", 0, 1),
        ("cudaStreamBeginCapture_v10000", 2, 3),
        ("cudaLaunchKernel", 4, 5),
        ("cudaLaunchKernel", 4, 5, 1),
        ("cudaStreamEndCapture_v10000", 6, 7),
        ("cudaLaunchKernel", 8, 9),
    ]
    found = calls(api, [("kernel", 50, 51, 0)])
    assert [True, False, False, True, False, True] == found.gives_work.tolist()
    assert [False, False, False, True, False, True] == found.lacks_row.tolist()


def test_a_capture_that_begins_before_the_trace_does_not_hide_the_next_one(calls):
    """An end without its begin closes what was captured before; launches of the next capture still give nothing."""
    api = [
        ("cudaStreamEndCapture_v10000", 0, 1),
        ("cudaStreamBeginCapture_v10000", 2, 3),
        ("cudaLaunchKernel", 4, 5),
        ("cudaStreamEndCapture_v10000", 6, 7),
        ("cudaLaunchKernel", 8, 9),
    ]
    assert [False, False, False, False, True] == calls(api).gives_work.tolist()


def test_work_without_a_device_row_is_known(calls):
    """kineto#192021: 3 launches, one kernel: two lack their row."""
    api = [("cudaLaunchKernel", 10 * n, 10 * n + 5) for n in range(3)]
    assert [True, False, True] == calls(api, [("kernel", 20, 30, 1)]).lacks_row.tolist()


def test_without_any_device_row_none_is_missing(calls):
    """The device was not traced: that is another matter."""
    assert [False] == calls([("cudaLaunchKernel", 0, 5)]).lacks_row.tolist()


def test_a_graph_launch_has_its_rows_whether_nodes_or_whole(calls):
    """HTA#290, nsys-ai#236: one row for the graph, or many for its nodes."""
    api = [("cudaGraphLaunch", 0, 5), ("hipGraphLaunch", 10, 15)]
    work = [("graph", 6, 9, 0), ("kernel", 16, 17, 1), ("kernel", 18, 19, 1)]
    assert [False, False] == calls(api, work).lacks_row.tolist()
