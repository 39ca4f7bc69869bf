"""fdprof.importers.kineto: real traces of 2020 to 2026 give their known facts, small ones their fields."""

# ruff: noqa: SIM300
import gzip
import json
import re

import numpy as np
import pytest

from fdprof.capture import ApiKind, CopyDirection, Evidence, HostSide, RangeKind, WorkKind
from fdprof.errors import InputError
from fdprof.importers._chrome import read_trace
from fdprof.importers.kineto import IMPORTER


def say_nothing(line):
    """The progress of a test."""


@pytest.fixture
def real(captures):
    """Read one of the shared captures."""

    def read(name, folder="kineto"):
        return IMPORTER.read(captures / folder / f"{name}.json.gz", say_nothing)

    return read


@pytest.fixture
def read(tmp_path):
    """Read a trace of these events, with these top-level keys before or after them."""

    def written(events, before=None, after=None):
        path = tmp_path / "trace.json"
        path.write_text(json.dumps((before or {}) | {"traceEvents": events} | (after or {})), encoding="utf-8")
        return IMPORTER.read(path, say_nothing)

    return written


def row(category, name, ts=10, dur=2, pid=100, tid=100, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def call(name, ts=10, dur=2, **args):
    return row("cuda_runtime", name, ts, dur, **args)


def kernel(name="k", ts=10, dur=2, stream=7, **args):
    return row("kernel", name, ts, dur, 0, stream, device=0, stream=stream, **args)


def names(capture, table):
    return [capture.names[number] for number in table["name"]]


def lengths(table):
    return table["end_ns"] - table["start_ns"]


def named(capture, name):
    """Return which calls have this name."""
    return np.flatnonzero([found == name for found in names(capture, capture.api)])


def work_of(capture, api):
    return np.flatnonzero(capture.device["api"] == api)


def markers(capture):
    chosen = capture.ranges["kind"] == RangeKind.MARKER
    return [name for name, is_marker in zip(names(capture, capture.ranges), chosen, strict=True) if is_marker]


# Real files: pageable copies, graphs, ROCm


def test_pageable_copies_hide_the_stall(real):
    """30 copies to pageable memory: 758,396 µs in cudaMemcpyAsync, 80 µs on the device."""
    capture = real("pageable_copies_hide_the_stall")
    device = capture.device
    chosen = (device["direction"] == CopyDirection.TO_HOST) & (device["host_side"] == HostSide.PAGEABLE)
    assert 30 == chosen.sum()
    assert 758_396_000 == lengths(capture.api)[device["api"][chosen]].sum()
    assert 80_000 == lengths(device)[chosen].sum()
    assert {"cudaMemcpyAsync"} == {names(capture, capture.api)[api] for api in device["api"][chosen]}
    assert 2_799_000 == lengths(capture.api)[named(capture, "cudaStreamSynchronize")].sum()


def test_device_rows_whose_call_is_before_the_start_stay_alone(real):
    """872 of them, which the limits say."""
    capture = real("pageable_copies_hide_the_stall")
    assert 872 == (capture.device["api"] == -1).sum()
    assert any(limit.startswith("872 of 7,747 device rows without") for limit in capture.limits)
    assert [f"ProfilerStep#{step}" for step in range(550, 555)] == [
        name for name in markers(capture) if name.startswith("ProfilerStep")
    ]


def test_a_graph_launch_fans_out(real):
    """70 launches with up to 20 device rows each."""
    capture = real("pageable_copies_hide_the_stall")
    launches = np.flatnonzero(capture.api["kind"] == ApiKind.GRAPH_LAUNCH)
    assert 70 == len(launches)
    assert 20 == max(len(work_of(capture, launch)) for launch in launches)


def test_hip_s_blocking_copy_holds_the_host_for_463_ms(real):
    """One hipMemcpyWithStream of 256 B: 463,063.75 µs, its copy 4.526 µs, 29 µs of device work inside."""
    capture = real("sglang_decode_step_rocm")
    (blocked,) = named(capture, "hipMemcpyWithStream")
    assert ApiKind.BLOCKING_COPY == capture.api["kind"][blocked]
    assert 463_063_750 == lengths(capture.api)[blocked]
    (copy,) = work_of(capture, blocked)
    device = capture.device
    assert (4_526, 256, CopyDirection.TO_HOST, HostSide.UNKNOWN) == (
        lengths(device)[copy],
        device["size_bytes"][copy],
        device["direction"][copy],
        device["host_side"][copy],
    )
    start, end = capture.api["start_ns"][blocked], capture.api["end_ns"][blocked]
    inside = np.minimum(device["end_ns"], end) - np.maximum(device["start_ns"], start)
    assert 28_798 == inside[inside > 0].sum()
    assert not any("Synchronize" in name for name in names(capture, capture.api))
    assert "step[DECODE bs=32]" in markers(capture)
    assert any("pinned or pageable" in limit for limit in capture.limits)


def test_544_device_rows_belong_to_one_graph_launch(real):
    """hipGraphLaunch of sglang."""
    capture = real("sglang_decode_step_rocm")
    (launch,) = named(capture, "hipGraphLaunch")
    assert 544 == len(work_of(capture, launch))
    assert [(251, 9, "AMD Instinct MI300X")] == [(found.process, found.device, found.name) for found in capture.devices]


def test_truly_asynchronous_copies_run_long_after_their_calls(real):
    """9 hipMemcpyAsync return in 4 to 10 µs, their copies run more than 7 ms later; the graph has 421 rows."""
    capture = real("vllm_decode_step_graph_rocm")
    copies = named(capture, "hipMemcpyAsync")
    assert 9 == len(copies)
    assert 3_990 <= lengths(capture.api)[copies].min() <= lengths(capture.api)[copies].max() <= 10_450
    late = [capture.device["start_ns"][work_of(capture, copy)[0]] - capture.api["end_ns"][copy] for copy in copies]
    assert 7_300_000 < min(late) <= max(late) < 7_900_000
    (launch,) = named(capture, "hipGraphLaunch")
    assert (506_768, 421) == (lengths(capture.api)[launch], len(work_of(capture, launch)))
    (wait,) = named(capture, "hipEventSynchronize")
    assert (2_190, ApiKind.EVENT_WAIT) == (lengths(capture.api)[wait], capture.api["kind"][wait])
    assert [None] == [found.name for found in capture.devices]


def test_the_default_stream_is_7_on_cuda_and_0_on_hip(real):
    """By the tools' own numbering."""
    assert {(0, 0)} == real("vllm_decode_step_graph_rocm").default_streams
    assert {(0, 7)} == real("event_sync_linked").default_streams


def test_an_item_is_pinned_and_blocks_by_the_next_call(real):
    """Device to pinned, 1 B: cudaMemcpyAsync 12.33 µs, then cudaStreamSynchronize 7.69 µs."""
    capture = real("item_is_pinned_and_blocking_h100")
    (copy,) = np.flatnonzero(capture.device["kind"] == WorkKind.COPY)
    device, api = capture.device, capture.device["api"][copy]
    assert (CopyDirection.TO_HOST, HostSide.PINNED, 1) == (
        device["direction"][copy],
        device["host_side"][copy],
        device["size_bytes"][copy],
    )
    assert ["cudaMemcpyAsync", "cudaStreamSynchronize"] == names(capture, capture.api)[api : api + 2]
    assert [12_330, 7_690] == lengths(capture.api)[api : api + 2].tolist()
    assert "Kineto schema 1, CUDA 12.4" == capture.tool


def test_an_item_that_rocm_labels_on_device_stays_as_labelled(real):
    """The file says DtoD for the same copy; its call blocks by its name."""
    capture = real("item_labelled_dtod_mi300")
    (copy,) = np.flatnonzero(capture.device["kind"] == WorkKind.COPY)
    assert CopyDirection.ON_DEVICE == capture.device["direction"][copy]
    assert ApiKind.BLOCKING_COPY == capture.api["kind"][capture.device["api"][copy]]


def test_kernels_of_one_stream_may_overlap(real):
    """74 pairs of neighbours do on a B200."""
    capture = real("overlapping_kernels_on_one_stream")
    device = capture.device
    assert [7] == np.unique(device["stream"]).tolist()
    assert 74 == (device["start_ns"][1:] < device["end_ns"][:-1]).sum()
    assert (9, {-1}) == (len(capture.overhead), set(capture.overhead["thread"].tolist()))


# Real files: waits and events


def test_a_wait_is_linked_to_the_record_of_its_event(real):
    """cudaEventSynchronize of 34 µs waits for the record of correlation 1533 on stream 7."""
    capture = real("event_sync_linked")
    (wait,) = named(capture, "cudaEventSynchronize")
    assert 34_000 == lengths(capture.api)[wait]
    (link,) = np.flatnonzero(capture.links["wait"] == wait)
    record = capture.links["record"][link]
    assert (1533, ApiKind.EVENT_RECORD) == (capture.api["correlation"][record], capture.api["kind"][record])
    assert (7, 8, Evidence.PROVED) == tuple(capture.links[name][link] for name in ("stream", "event", "evidence"))
    assert [-1, 8] == capture.event_records["event"].tolist()
    assert ["ProfilerStep#100"] == markers(capture)


def test_waits_of_streams_and_devices_have_no_record(real):
    """Of three links only the event's has one; a query of an event is no wait."""
    capture = real("event_sync_linked")
    kinds = capture.api["kind"][capture.links["wait"]].tolist()
    assert [ApiKind.STREAM_SYNC, ApiKind.EVENT_WAIT, ApiKind.DEVICE_SYNC] == kinds
    assert [Evidence.UNKNOWN, Evidence.PROVED, Evidence.UNKNOWN] == capture.links["evidence"].tolist()
    assert [7, 7, -1] == capture.links["stream"].tolist()


def test_a_stream_that_waits_for_another_is_linked(real):
    """cudaStreamWaitEvent waits for the event 19 that stream 20 recorded; the work is on 20, 24 and 28."""
    capture = real("event_sync_two_streams")
    (wait,) = named(capture, "cudaStreamWaitEvent")
    (link,) = np.flatnonzero(capture.links["wait"] == wait)
    assert (20, 19, Evidence.PROVED) == tuple(capture.links[name][link] for name in ("stream", "event", "evidence"))
    assert [20, 24, 28] == np.unique(capture.device["stream"]).tolist()


def test_a_wait_seen_before_its_record_is_there_with_and_without_its_link(real):
    """Both files have the same waits at the same times; in one the record is unknown, and said to be."""
    linked, unlinked = real("event_wait_before_record_linked"), real("event_wait_before_record_unlinked")
    for capture in (linked, unlinked):
        assert ["cudaLaunchKernel", "Stream Wait Event", "Event Sync"] == names(capture, capture.api)
        assert [ApiKind.LAUNCH, ApiKind.STREAM_WAIT, ApiKind.EVENT_WAIT] == capture.api["kind"].tolist()
        assert [0, 90, 110] == (capture.api["start_ns"] - capture.api["start_ns"][0]).tolist()
        assert [10, 10, 20] == lengths(capture.api).tolist()
        assert [0, 0, 0] == capture.api["thread"].tolist()
        assert {1, 2} == set(capture.links["wait"].tolist())
        assert [-1, -1] == capture.links["record"].tolist()
        assert 0 == (capture.device["api"] == -1).sum()
    assert {Evidence.PROVED} == set(linked.links["evidence"].tolist())
    assert {Evidence.UNKNOWN} == set(unlinked.links["evidence"].tolist())
    assert any("2 of 2 waits for an event do not say" in limit for limit in unlinked.limits)
    assert not any("do not say" in limit for limit in linked.limits)


# Real files: eras


@pytest.mark.parametrize(
    ("name", "calls", "work"),
    [
        ("old_categories_loader_0_workers", 11_923, [8772, 12, 312]),
        ("old_categories_loader_4_workers", 12_085, [8868, 12, 378]),
        ("top_level_list", 10_800, [9538, 12, 377]),
    ],
)
def test_files_of_2021_have_their_rows_steps_and_streams(real, name, calls, work):
    """Categories Operator, Runtime, Kernel, Memcpy; tid "stream 7"; steps among the operators."""
    capture = real(name)
    assert (calls, work) == (len(capture.api), np.bincount(capture.device["kind"]).tolist())
    assert [f"ProfilerStep#{step}" for step in range(5, 11)] == markers(capture)
    assert {7} == set(capture.device["stream"].tolist())
    assert 1000 == capture.time_error_ns
    copies = capture.device["kind"] == WorkKind.COPY
    assert {HostSide.PAGEABLE} == set(capture.device["host_side"][copies].tolist())


def test_absolute_times_of_2024_are_exact(real, captures):
    """1712195495505582.988 µs stays so, and no row of the one stream overlaps the next."""
    capture = real("absolute_ns_era_timestamps")
    assert (15_329, 6_095) == (len(capture.api), len(capture.device))
    assert 1_712_195_495_505_582_988 == capture.device["start_ns"][0]
    assert (capture.device["start_ns"][1:] >= capture.device["end_ns"][:-1]).all()
    assert 0 == capture.time_error_ns


@pytest.mark.parametrize(
    ("name", "calls", "work", "ranges", "rows"),
    [
        ("old_capitalised_categories", 5, 18, 10, 33),
        ("step_in_both_annotation_categories", 180, 140, 653, 1_344),
        ("cpu_only", 0, 0, 2_467, 2_467),
        ("no_rank", 0, 0, 2_467, 2_467),
        ("integer_above_int64", 0, 1, 1, 2),
        ("runtime_rows_without_device_rows", 1_862, 0, 383, 4_222),
        ("device_rows_only", 631, 562, 0, 2_443),
        ("counter_events_without_tid", 42, 32, 179, 340),
    ],
)
def test_odd_files_have_all_their_rows(real, name, calls, work, ranges, rows):
    """Counted by category in the JSON."""
    capture = real(name)
    assert (calls, work, ranges, rows) == (len(capture.api), len(capture.device), len(capture.ranges), capture.rows)


def test_a_range_shown_for_host_and_device_counts_once(real):
    """10 ranges in user_annotation, the same 10 in gpu_user_annotation."""
    assert 10 == len(markers(real("step_in_both_annotation_categories")))


def test_missing_device_activity_is_said(real):
    """1,862 calls, no device row: not an idle device; and a file of the host alone."""
    calls_only = real("runtime_rows_without_device_rows").limits
    assert any("does not mean an idle device" in limit for limit in calls_only)
    assert any("host alone" in limit for limit in real("cpu_only").limits)


def test_a_device_that_is_not_cuda_or_hip_is_refused_by_name(real):
    """MTIA."""
    with pytest.raises(InputError, match="2,136 rows of MTIA and no call of CUDA or HIP"):
        real("not_cuda_mtia")


def test_json_of_rocprofiler_is_refused_by_name(real):
    """It is no chrome trace."""
    with pytest.raises(InputError, match="rocprofiler-sdk-tool"):
        real("not_a_chrome_trace_rocprof")


def test_our_traces_of_torch_have_20_steps(real):
    """.item() and .cpu() to pageable memory against copies to pinned memory and a fence in the next step."""
    item, fence = real("torch_item.kineto", "h200"), real("torch_fence_next.kineto", "h200")
    for capture, side in ((item, HostSide.PAGEABLE), (fence, HostSide.PINNED)):
        device = capture.device
        tokens = (device["direction"] == CopyDirection.TO_HOST) & (device["size_bytes"] == 512)
        assert 20 == tokens.sum()
        assert {side} == set(device["host_side"][tokens].tolist())
        assert (460, 0) == ((device["kind"] == WorkKind.KERNEL).sum(), (device["api"] == -1).sum())
    assert (40, 0) == (len(named(item, "cudaStreamSynchronize")), len(item.links))
    assert (20, 19, 21) == (
        len(named(fence, "cudaEventRecordWithFlags")),
        len(named(fence, "cudaEventSynchronize")),
        len(fence.links),
    )
    assert {Evidence.UNKNOWN} == set(fence.links["evidence"].tolist())
    assert "Kineto schema 1, CUDA 13.0" == fence.tool


def test_times_are_those_of_the_text(captures):
    """Every ts of a file of 5.15e12 µs, whose doubles have steps of 0.98 ns, by an independent reading of the text."""
    path = captures / "h200" / "torch_fence_next.kineto.json.gz"
    text = gzip.decompress(path.read_bytes()).decode()
    found = re.findall(r'"cat": "kernel".*?"ts": (\d+)\.(\d{3}), "dur": (\d+)\.(\d{3})', text, re.DOTALL)
    wanted = [(int(a + b), int(a + b) + int(c + d)) for a, b, c, d in found]
    rows = read_trace(path, say_nothing).rows("kernel")
    assert wanted == list(zip(rows.start_ns.tolist(), rows.end_ns.tolist(), strict=True))


# Small traces


@pytest.mark.parametrize(
    ("name", "kind", "direction", "side"),
    [
        ("Memcpy DtoH (Device -> Pageable)", None, CopyDirection.TO_HOST, HostSide.PAGEABLE),
        ("Memcpy HtoD (Pinned -> Device)", None, CopyDirection.TO_DEVICE, HostSide.PINNED),
        ("Memcpy DtoH (Device -> Managed)", None, CopyDirection.TO_HOST, HostSide.MANAGED),
        ("Memcpy DtoH (Device -> Host)", "DtoH", CopyDirection.TO_HOST, HostSide.UNKNOWN),
        ("Memcpy DtoD (Device -> Device)", None, CopyDirection.ON_DEVICE, HostSide.UNKNOWN),
        ("Memcpy PtoP (Device -> Device)", None, CopyDirection.BETWEEN_DEVICES, HostSide.UNKNOWN),
        ("Memcpy HtoH (Pageable -> Pinned)", None, CopyDirection.ON_HOST, HostSide.UNKNOWN),
        ("CopyDeviceToHost", "DtoH", CopyDirection.TO_HOST, HostSide.UNKNOWN),
        ("Memcpy <unknown> (Unknown -> Unknown)", None, CopyDirection.UNKNOWN, HostSide.UNKNOWN),
    ],
)
def test_a_copys_name_gives_direction_and_host_memory(read, name, kind, direction, side):
    """In the words of CUDA and of HIP; bytes may be a text."""
    device = read([row("gpu_memcpy", name, pid=0, tid=7, kind=kind, bytes="64", stream=7)]).device
    assert (direction, side, 64) == (device["direction"][0], device["host_side"][0], device["size_bytes"][0])


@pytest.mark.parametrize("name", ["cudaLaunchKernelExC", "cuLaunchKernelEx", "hipModuleLaunchKernel", "aNewLaunch"])
def test_work_is_joined_by_correlation_and_not_by_the_calls_name(read, name):
    """A name that no list knows still has its kernel."""
    capture = read([kernel(ts=20, correlation=5), call(name, correlation=5)])
    assert [0] == capture.device["api"].tolist()


def test_an_external_id_is_no_correlation(read):
    """Only args.correlation joins."""
    capture = read([kernel(**{"External id": 5}), call("cudaLaunchKernel", correlation=5)])
    assert [-1] == capture.device["api"].tolist()


def test_a_driver_call_within_a_runtime_call_leaves_the_work_to_the_runtime_call(read):
    """Both rows stay; the outermost has the kernel."""
    inner = row("cuda_driver", "cuLaunchKernel", 10, 3, correlation=5)
    capture = read([inner, call("cudaLaunchKernel", 10, 5, correlation=5), kernel(ts=30, correlation=5)])
    assert ["cudaLaunchKernel", "cuLaunchKernel"] == names(capture, capture.api)
    assert [0] == capture.device["api"].tolist()


def test_a_trace_is_used_up_to_where_its_calls_share_an_id(read):
    """Of three launches the last two, at 20 and 30 us, have id 2."""
    launches = [call("cudaLaunchKernel", at, 5, correlation=min(at // 10, 2)) for at in (10, 20, 30)]
    kernels = [kernel(ts=at + 6, correlation=min(at // 10, 2)) for at in (10, 20, 30)]
    capture = read([*launches, *kernels])
    assert (1, [0]) == (len(capture.api), capture.device["api"].tolist())
    assert "share their correlation ids from cudaLaunchKernel on, 10.0 µs after the first call" in capture.limits[-1]


def test_waits_of_which_only_the_cuda_sync_rows_are_there_share_no_id(read):
    """Three such rows with correlation 0, of stream 7, beside a launch: the capture is whole."""
    waits = [row("cuda_sync", "Stream Sync", at, 5, correlation=0, stream=7) for at in (30, 40, 50)]
    capture = read([call("cudaLaunchKernel", 10, 5, correlation=1), kernel(ts=16, correlation=1), *waits])
    assert (4, [7, 7, 7]) == (len(capture.api), capture.links["stream"].tolist())
    assert not any("share" in limit for limit in capture.limits)


def test_two_processes_that_share_ids_keep_their_own_threads(read):
    """The process is that of the call with the correlation id; without one, that with most calls."""
    other = call("cudaLaunchKernel", correlation=9) | {"pid": 200}
    own = [call("cudaLaunchKernel", correlation=number) for number in (1, 2)]
    capture = read(
        [other, *own, kernel(ts=20, correlation=9), kernel(ts=30, correlation=2), kernel(ts=40, correlation=77)]
    )
    assert [200, 100, 100] == [capture.devices[number].process for number in capture.device["device"]]
    assert [False, False, True] == (capture.device["api"] == -1).tolist()


def test_launches_without_device_activity_are_counted(read):
    """5 launches, 3 kernels."""
    launches = [call("cudaLaunchKernel", number, 1, correlation=number) for number in range(5)]
    capture = read([*launches, *(kernel(ts=10 + number, correlation=number) for number in (2, 3, 4))])
    assert "2 of 5 launches, copies and memsets without device activity" in capture.limits


def test_a_trace_with_only_kernels_is_read(read):
    """No cudaMemsetAsync, no call at all, no rank, and said so."""
    capture = read([kernel()])
    assert (1, 0) == (len(capture.device), len(capture.api))
    assert any("no host call" in limit for limit in capture.limits)


def test_metadata_after_the_events_counts(read):
    """deviceProperties last."""
    after = {"cuda_runtime_version": 12040, "deviceProperties": [{"id": 0, "name": "card"}]}
    for capture in (read([kernel()], before=after), read([kernel()], after=after)):
        assert ("card", "Kineto, CUDA 12.4") == (capture.devices[0].name, capture.tool)


def test_the_stream_is_in_the_args_and_not_in_the_tid(read):
    """Kineto moves synchronisation rows to other tids; old files write "stream 20"."""
    moved = kernel(stream=7) | {"tid": 1_000_007}
    old = {**row("Kernel", "k", 20, pid=0, tid="stream 20")}
    assert [7, 20] == read([moved, old]).device["stream"].tolist()


def test_ranges_keep_their_kind_and_thread(read):
    """Marker, operator and frame, with the name of the thread."""
    thread = {"ph": "M", "name": "thread_name", "pid": 100, "tid": 100, "args": {"name": "main"}}
    categories = ("user_annotation", "cpu_op", "python_function", "gpu_user_annotation")
    capture = read([thread, *(row(category, category, ts) for ts, category in enumerate(categories))])
    assert [RangeKind.MARKER, RangeKind.OPERATOR, RangeKind.FRAME] == capture.ranges["kind"].tolist()
    assert [(100, 100, "main")] == [(found.process, found.thread, found.name) for found in capture.threads]


def test_adjacent_steps_that_overlap_by_a_microsecond_stay_two(read):
    """They are kept as they are."""
    steps = [row("user_annotation", f"ProfilerStep#{n}", ts, 11) for n, ts in enumerate((0, 10))]
    assert [0, 10_000] == read(steps).ranges["start_ns"].tolist()


def test_threads_may_be_named_by_text(read):
    """Ids that are no numbers stay apart."""
    events = [row("cpu_op", "a", pid="x", tid=tid) for tid in ("one", "two", "one", "12", 12)]
    capture = read(events)
    assert ["one", "two", ""] == [found.name for found in capture.threads]
    assert [0, 1, 0, 2, 2] == capture.ranges["thread"].tolist()
