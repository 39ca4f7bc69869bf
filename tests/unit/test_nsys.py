"""fdprof.importers.nsys: real exports give their known facts and ledgers, small ones each trap of the format.

The facts of real files are those of the captures' README.md; Kineto files whose facts need the ledger are here too.
"""

# ruff: noqa: SIM300
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fdprof.analysis.capture_result import analyze
from fdprof.analysis.facts import Bound
from fdprof.analysis.intervals import covered
from fdprof.analysis.steps import Choice
from fdprof.api_calls import plain_name
from fdprof.capture import WAIT_KINDS, ApiKind, CopyDirection, Evidence, HostSide, RangeKind, Thread, WorkKind
from fdprof.errors import InputError
from fdprof.finding import FindingCode
from fdprof.importers.nsys import IMPORTER
from fdprof.imports import import_capture

US = 1_000


def say_nothing(line):
    """The progress of a test."""


@pytest.fixture(scope="session")
def real(captures):
    """Read one of the shared captures, once."""
    known = {}

    def read(name):
        if name not in known:
            known[name] = import_capture(captures / name, say_nothing)
        return known[name]

    return read


@pytest.fixture(scope="session")
def result(real):
    """Analyze one of the shared captures, once."""
    known = {}

    def analyzed(name):
        if name not in known:
            known[name] = analyze(real(name), name, Choice())
        return known[name]

    return analyzed


def called(capture, name):
    """Return the rows of the calls of a plain name."""
    return np.flatnonzero([plain_name(capture.names[number]) == name for number in capture.api["name"]])


def lengths(table, rows=slice(None)):
    return (table["end_ns"] - table["start_ns"])[rows]


def of_kind(capture, kind):
    return np.flatnonzero(capture.device["kind"] == kind)


def copies(capture, direction):
    return np.flatnonzero((capture.device["kind"] == WorkKind.COPY) & (capture.device["direction"] == direction))


# Real files: the table of the README


@pytest.mark.parametrize(
    ("name", "steps", "row"),
    [
        ("paddle_sync", 60, (888_724, 504_107, 384_617, 493_812, 31_606)),
        ("paddle_async", 60, (564_128, 504_099, 60_029, 257_696, 4_445)),
        ("paddle_overlap", 60, (522_736, 499_107, 23_630, 239_003, 0)),
        ("torch_item", 40, (1_155_948, 116_025, 1_039_922, 30_250, 26_740)),
        ("torch_fence_next", 40, (1_171_301, 115_915, 1_055_386, 9_118, 9_118)),
    ],
)
def test_the_ledger_of_a_real_capture_is_that_of_an_independent_reading(result, name, steps, row):
    """Window, device busy, device idle, host blocked and the harmful part: mean ns a step, residual 0."""
    found = result(f"h200/{name}.nsys.sqlite")
    ledger = found.facts.ledger
    columns = ("window_ns", "device_busy_ns", "device_idle_ns", "host_blocked_ns", "harmful_wait_ns")
    assert (steps, row) == (len(ledger), tuple(round(float(getattr(ledger, column).mean())) for column in columns))
    assert 0 == found.residual_ns


@pytest.mark.parametrize(
    ("name", "causes"),
    [
        (
            "paddle_sync",
            {
                "host:host": 201_637,
                "host:transfer": 103_491,
                "blocked": 31_606,
                "launch": 21_997,
                "host:forward": 11_788,
                "host:decode_step": 9_099,
                "host:": 2_951,
                "queued": 2_048,
            },
        ),
        ("paddle_overlap", {"queued": 12_482, "launch": 9_440, "host:forward": 1_529, "host:decode_step": 179}),
    ],
)
def test_idle_by_cause_of_a_real_capture_is_that_of_an_independent_reading(result, name, causes):
    """Mean ns a step, all of them, the largest first."""
    found = result(f"h200/{name}.nsys.sqlite").idle_by_cause_ns
    assert list(causes.items()) == [(cause, round(ns)) for cause, ns in found.items()]


def test_the_blocking_loop_is_told_to_fence_and_the_overlapping_one_to_leave_transfers_alone(result):
    """paddle_sync takes turns and its copies are the first advice; paddle_overlap is bound by the device."""
    sync, overlap = (result(f"h200/paddle_{mode}.nsys.sqlite") for mode in ("sync", "overlap"))
    assert (Bound.WAITS, FindingCode.PAGEABLE_DESTINATION) == (sync.facts.bound, sync.findings[0].code)
    assert Bound.DEVICE is overlap.facts.bound
    assert overlap.headline[0].startswith("Transfers are not this loop's problem")


def test_the_fence_of_the_asynchronous_loop_is_in_the_step_of_its_copies(result):
    """paddle_async waits in the same step (lag 0), proved by the event's id; paddle_overlap one step later."""
    found = {finding.code: finding for finding in result("h200/paddle_async.nsys.sqlite").findings}
    fence = found[FindingCode.FENCE_AFTER_COPY]
    assert (0, Evidence.PROVED) == (fence.evidence["lag"], fence.certainty)
    late = result("h200/paddle_overlap.nsys.sqlite").facts.transfers
    assert {(1.0, Evidence.PROVED)} == {(transfer.lag, transfer.evidence) for transfer in late}


@pytest.mark.parametrize("name", ["torch_item", "torch_fence_next"])
@pytest.mark.parametrize("ending", ["nsys.sqlite", "kineto.json.gz"])
def test_the_torch_pair_is_bound_by_launching_in_either_format(result, name, ending):
    """Small kernels: fencing changes little, and the headline says so."""
    found = result(f"h200/{name}.{ending}")
    assert Bound.HOST is found.facts.bound
    assert "ransfers are not this loop's problem" in found.headline[0]
    is_guess = found.facts.steps.evidence is Evidence.INFERRED  # the kineto files of this loop have no markers
    assert is_guess == found.headline[0].startswith("If the calls that repeat are the step (no marker says so), ")
    assert found.headline[1].startswith("It is launch-bound")


# Real files: single facts


def test_a_pinned_copy_begins_after_its_call_returned(real):
    """smallest_pinned_d2h: 4 B, Device → Pinned; the copy is 20 µs after the call; a sync and an allocation."""
    capture = real("nsys/smallest_pinned_d2h.sqlite")
    (row,) = copies(capture, CopyDirection.TO_HOST).tolist()
    device, api = capture.device, capture.api
    call = device["api"][row]
    assert (HostSide.PINNED, 4) == (device["host_side"][row], device["size_bytes"][row])
    assert (1_539_568_563, 1_540_158_067) == (api["start_ns"][call], api["end_ns"][call])
    assert (1_540_178_479, 1_540_180_111) == (device["start_ns"][row], device["end_ns"][row])
    assert [16_012] == lengths(api, called(capture, "cudaStreamSynchronize")).tolist()
    assert [3.57] == [round(ns / 1e6, 2) for ns in lengths(api, called(capture, "cudaHostAlloc")).tolist()]
    assert any("no NVTX" in limit for limit in capture.limits)


@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("smallest_pinned_d2h", {"cudaStreamSynchronize": 1}),
        ("graph_level_trace", {"cudaStreamSynchronize": 2}),
        ("sync_after_every_kernel", {"cudaDeviceSynchronize": 1_312}),
        ("h100_two_gpus_no_gpu_table", {"cudaStreamSynchronize": 8}),
    ],
)
def test_a_stored_sync_type_decides_nothing(real, name, waits):
    """Stored as 2, 2, 1 and 3 for the same thing: waits are known by the names of their calls."""
    capture = real(f"nsys/{name}.sqlite")
    rows = np.flatnonzero(capture.kinds(*WAIT_KINDS))
    found = [plain_name(capture.names[number]) for number in capture.api["name"][rows]]
    assert waits == {wait: found.count(wait) for wait in set(found)}
    assert set(rows.tolist()) == set(capture.links["wait"].tolist())


def test_a_pinned_copy_returns_at_once_and_its_sync_takes_428_ms(real, result):
    """h100: 4 D2H of 1 to 8 B to pinned memory; two of them wait in the call behind them; no name for the card."""
    capture = real("nsys/h100_two_gpus_no_gpu_table.sqlite")
    rows = copies(capture, CopyDirection.TO_HOST)
    assert (4, {HostSide.PINNED}) == (len(rows), set(capture.device["host_side"][rows].tolist()))
    assert (1, 8) == (capture.device["size_bytes"][rows].min(), capture.device["size_bytes"][rows].max())
    syncs = called(capture, "cudaStreamSynchronize")
    assert (8, 856.9) == (len(syncs), round(lengths(capture.api, syncs).sum() / 1e6, 1))
    assert 2 == len({capture.threads[thread].process for thread in capture.api["thread"][syncs]})
    longest = syncs[np.argsort(-lengths(capture.api, syncs))[:2]]
    assert [428.47, 428.42] == [round(ns / 1e6, 2) for ns in lengths(capture.api, longest).tolist()]
    issued = capture.device["api"][rows]
    pairs = []
    for sync in longest:
        mine = issued[(issued < sync) & (capture.api["thread"][issued] == capture.api["thread"][sync])].max()
        between = capture.api["start_ns"][sync] - capture.api["end_ns"][mine]
        pairs.append((round(lengths(capture.api, [mine])[0] / 1e3, 1), round(between / 1e3, 1)))
    assert [10.7, 10.4] == [issue for issue, _ in pairs]
    assert {0.7, 0.8} >= {between for _, between in pairs}
    assert [None, None] == [device.name for device in capture.devices]
    assert any("TARGET_INFO_GPU" in limit for limit in capture.limits)


def test_kernels_whose_launch_was_cropped_have_none(real):
    """h100: 1,810 of 3,442 kernels."""
    capture = real("nsys/h100_two_gpus_no_gpu_table.sqlite")
    kernels = of_kind(capture, WorkKind.KERNEL)
    assert (3_442, 1_810) == (len(kernels), int((capture.device["api"][kernels] < 0).sum()))


def test_a_stream_that_waits_for_an_event_is_no_wait_of_the_host(real):
    """h100: 236 rows of synchronisation are of cudaStreamWaitEvent; none of them links a wait."""
    capture = real("nsys/h100_two_gpus_no_gpu_table.sqlite")
    assert 8 == len(capture.links)
    assert 236 <= len(called(capture, "cudaStreamWaitEvent"))


@pytest.mark.parametrize(("name", "kernels", "joined"), [("after", 3_587, 3_577), ("before", 4_010, 3_986)])
def test_ids_that_two_processes_share_are_not_mixed(real, name, kernels, joined):
    """The join on the id alone gives 3,864 and 4,280 pairs; with the process each kernel has one launch or none."""
    capture = real(f"nsys/two_processes_{name}.sqlite")
    rows = of_kind(capture, WorkKind.KERNEL)
    issued = capture.device["api"][rows]
    known = issued >= 0
    assert (kernels, joined) == (len(rows), int(known.sum()))
    of_call = capture.process_of_threads()[capture.api["thread"][issued[known]]]
    of_work = np.array([device.process for device in capture.devices])[capture.device["device"][rows[known]]]
    assert (of_call == of_work).all()


def test_a_graph_that_is_traced_as_a_whole_is_device_work(real):
    """flameox: 3 kernels and 2 graphs of 1.728 and 1.376 µs are five device intervals."""
    capture = real("nsys/graph_level_trace.sqlite")
    graphs = of_kind(capture, WorkKind.GRAPH)
    assert (3, [1_728, 1_376]) == (len(of_kind(capture, WorkKind.KERNEL)), lengths(capture.device, graphs).tolist())
    kinds = capture.api["kind"][capture.device["api"][graphs]]
    assert [ApiKind.GRAPH_LAUNCH] * 2 == kinds.tolist()
    assert any("graphs are traced as wholes" in limit for limit in capture.limits)


def test_a_sync_behind_every_kernel_is_counted_and_pageable_copies_are_known(real, result):
    """cloverleaf: 1,312 kernels and as many device syncs; of 279 cudaMemcpy 25 to pageable memory, 2,048 B each."""
    capture = real("nsys/sync_after_every_kernel.sqlite")
    assert 1_312 == len(of_kind(capture, WorkKind.KERNEL)) == len(called(capture, "cudaDeviceSynchronize"))
    assert 279 == len(called(capture, "cudaMemcpy"))
    rows = copies(capture, CopyDirection.TO_HOST)
    assert {(HostSide.PAGEABLE, 2_048)} == set(
        zip(capture.device["host_side"][rows].tolist(), capture.device["size_bytes"][rows].tolist(), strict=True)
    )
    assert 25 == len(rows)
    assert result("nsys/sync_after_every_kernel.sqlite").facts.calls.blocks[called(capture, "cudaMemcpy")].all()


def test_calls_that_an_export_of_2022_repeats_count_once(real):
    """saxpy: 15 cudaMemcpy, not 30; 5 kernels, each with its launch."""
    capture = real("nsys/schema_2_9_doubled_api_rows.sqlite")
    assert (15, 5) == (len(called(capture, "cudaMemcpy")), len(of_kind(capture, WorkKind.KERNEL)))
    assert (capture.device["api"][of_kind(capture, WorkKind.KERNEL)] >= 0).all()
    assert "schema 2.9" in capture.tool


def test_another_programs_database_is_refused_by_its_tables(captures):
    """pipit's test.sqlite has one table."""
    with pytest.raises(InputError, match="is not an Nsight Systems export: its tables are 'test'"):
        IMPORTER.read(captures / "nsys" / "not_an_nsys_export.sqlite", say_nothing)


# Kineto files whose facts need the ledger


def test_a_cut_decode_step_is_not_captured_and_not_idle(real, result):
    """SGLang on ROCm: 29 µs of device work inside a wait of 463 ms; "98 % idle" would be a lie."""
    capture, found = real("kineto/sglang_decode_step_rocm.json.gz"), result("kineto/sglang_decode_step_rocm.json.gz")
    (wait,) = called(capture, "hipMemcpyWithStream")
    span = (capture.api["start_ns"][[wait]], capture.api["end_ns"][[wait]])
    assert 463_063_750 == lengths(capture.api, [wait])[0]
    assert 29 == round(covered(capture.device["start_ns"], capture.device["end_ns"], *span)[0] / US)
    assert ("SGLang's step[...]", 1) == (found.facts.steps.found_by, len(found.facts.steps))
    assert 0.99 < found.facts.not_captured_share
    assert Bound.UNKNOWN is found.facts.bound
    assert "device work that is not in this capture" in found.headline[0]
    assert not any("idles" in sentence or "% idle" in sentence for sentence in found.headline)


def test_copies_of_a_graph_step_on_rocm_are_truly_asynchronous(result):
    """vLLM: nine hipMemcpyAsync return long before their copies run; one event wait of 2.19 µs is all that blocks."""
    found = result("kineto/vllm_decode_step_graph_rocm.json.gz")
    facts = found.facts
    asynchronous = facts.capture.kinds(ApiKind.COPY)
    assert (9, False) == (int(asynchronous.sum()), bool(facts.calls.blocks[asynchronous].any()))
    assert [2_190] == lengths(facts.capture.api, np.flatnonzero(facts.calls.blocks)).tolist()
    assert [("hipEventSynchronize", 2_190)] == [(site.call, site.blocked_ns) for site in facts.stalls.sites]
    assert Bound.UNKNOWN is facts.bound


def test_thirty_pageable_copies_hold_the_host_though_their_name_has_async(result):
    """HTA: 30 D2H to pageable memory, 758,396 µs in cudaMemcpyAsync for 80 µs of copying, in five ProfilerSteps."""
    facts = result("kineto/pageable_copies_hide_the_stall.json.gz").facts
    transfers = [t for t in facts.transfers if (t.direction, t.memory) == ("device to host", "pageable")]
    assert [550, 551, 552, 553, 554] == facts.steps.numbers.tolist()
    assert 30 == round(sum(transfer.per_step for transfer in transfers) * 5)
    assert 758_396 * US == round(sum(transfer.issue_ns for transfer in transfers) * 5)
    assert 80 * US == round(sum(transfer.copy_ns for transfer in transfers) * 5)
    assert {1.0} == {transfer.blocking_share for transfer in transfers}


def test_a_link_that_is_missing_changes_no_time(result):
    """HTA#117: the same waits with and without their record give one step table; only the evidence differs."""
    with_link, without = (result(f"kineto/event_wait_before_record_{name}.json.gz") for name in ("linked", "unlinked"))
    assert with_link.summaries == without.summaries
    assert with_link.idle_by_cause_ns == without.idle_by_cause_ns
    assert any("do not say where it was recorded" in limit for limit in without.limits)
    assert not any("do not say where it was recorded" in limit for limit in with_link.limits)


def test_the_pair_of_2021_shows_what_four_loader_workers_gain(result):
    """Six ProfilerSteps each, bound by the host in both; the loader's own code all but leaves the idle device."""
    before, after = (result(f"kineto/old_categories_loader_{n}_workers.json.gz") for n in (0, 4))
    loader = "host:enumerate(DataLoader)#_{}DataLoaderIter.__next__"
    assert (6, 6) == (len(before.facts.steps), len(after.facts.steps))
    assert (Bound.HOST, Bound.HOST) == (before.facts.bound, after.facts.bound)
    assert (37_835_500, 1_037_000) == (
        round(before.idle_by_cause_ns[loader.format("SingleProcess")]),
        round(after.idle_by_cause_ns[loader.format("MultiProcessing")]),
    )


def test_a_capture_without_device_rows_says_so_in_its_first_sentence(result):
    """1,862 calls and no device row."""
    found = result("kineto/runtime_rows_without_device_rows.json.gz")
    assert "1,862 host calls and no device activity" in found.headline[0]
    assert (None, None) == (found.residual_ns, found.idle_by_cause_ns)


# Small exports

STRINGS = (
    "gemm",
    "void gemm<float>(int)",
    "decode_step",
    "cudaLaunchKernel_v7000",
    "cudaGraphLaunch_v10000",
    "cudaMemcpyAsync_v3020",
    "cudaEventRecord_v3020",
    "cudaEventSynchronize_v3020",
    "cudaStreamSynchronize_v3020",
    "cudaDeviceSynchronize_v3020",
    "cudaStreamWaitEvent_v3020",
    "loop",
)
PID = 77
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
EVENT = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"


def call(name, start, end, correlation, pid=PID, thread=1, **more):
    name = next(number for number, text in enumerate(STRINGS) if plain_name(text) == name)
    return {
        "start": start, "end": end, "eventClass": 0, "globalTid": (pid << 24) + thread,
        "correlationId": correlation, "nameId": name,
    } | more  # fmt: skip


def kernel(start, end, correlation, pid=PID, device=0, stream=7, **more):
    return {
        "start": start, "end": end, "deviceId": device, "streamId": stream, "correlationId": correlation,
        "globalPid": pid << 24, "demangledName": 1, "shortName": 0,
    } | more  # fmt: skip


def copied(start, end, correlation, kind=2, src=2, dst=1, size=4, pid=PID):
    return {
        "start": start, "end": end, "deviceId": 0, "streamId": 7, "correlationId": correlation,
        "globalPid": pid << 24, "bytes": size, "copyKind": kind, "srcKind": src, "dstKind": dst,
    }  # fmt: skip


def mark(start, end, text="decode_step", kind=59, **more):
    return {
        "start": start, "end": end, "eventType": kind, "text": text, "globalTid": (PID << 24) + 1,
        "textId": None, "domainId": 0, "int64Value": None,
    } | more  # fmt: skip


def an_export(**tables):
    """Return the tables of an export: these, and what every export has."""
    version = [
        {"name": "EXPORT_SCHEMA_VERSION", "value": "3.25.0"},
        {"name": "EXPORT_PRODUCT_VERSION", "value": "2026.2.1"},
    ]
    strings = [{"id": number, "value": text} for number, text in enumerate(STRINGS)]
    return {"META_DATA_EXPORT": version, "StringIds": strings} | tables


def to_sqlite(path, tables, more=()):
    with closing(sqlite3.connect(path)) as connection:
        for table, rows in tables.items():
            columns = ", ".join(f'"{name}"' for name in rows[0])
            connection.execute(f'CREATE TABLE "{table}" ({columns})')
            values = ", ".join("?" for _ in rows[0])
            connection.executemany(f'INSERT INTO "{table}" VALUES ({values})', [tuple(row.values()) for row in rows])
        for statement in more:
            connection.execute(statement)
        connection.commit()
    return path


def to_parquet(path, tables):
    path.mkdir()
    for table, rows in tables.items():
        pq.write_table(pa.Table.from_pylist(rows), path / f"{table}.parquet")
    return path


@pytest.fixture
def read(tmp_path):
    """Read an sqlite export of these tables, after these further statements."""

    def written(tables, *more):
        return IMPORTER.read(to_sqlite(tmp_path / "export.sqlite", tables, more), say_nothing)

    return written


CALLS = [call("cudaLaunchKernel", 10, 20, 1), call("cudaMemcpyAsync", 30, 40, 2)]
WORK = {KERNEL: [kernel(25, 50, 1)], MEMCPY: [copied(55, 60, 2)]}


def named(capture, table):
    return [capture.names[number] for number in table["name"]]


def test_a_small_export_is_read_whole(read):
    """Calls, kernel, copy and range, with names, joins, kinds and the tool."""
    capture = read(an_export(**{RUNTIME: CALLS, **WORK, "NVTX_EVENTS": [mark(5, 70, int64Value=9)]}))
    assert "Nsight Systems 2026.2.1, schema 3.25.0" == capture.tool
    assert ["cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020"] == named(capture, capture.api)
    assert ["gemm", "copy device to host"] == named(capture, capture.device)
    assert [0, 1] == capture.device["api"].tolist()
    assert (CopyDirection.TO_HOST, HostSide.PINNED, 4) == tuple(
        int(capture.device[name][1]) for name in ("direction", "host_side", "size_bytes")
    )
    assert (["decode_step"], [9], [5], [70]) == (
        named(capture, capture.ranges),
        *(capture.ranges[name].tolist() for name in ("payload", "start_ns", "end_ns")),
    )
    assert (Thread(PID, 1),) == capture.threads


def test_an_export_without_nvtx_says_so(read):
    """nsys-ai#291: steps have to be inferred."""
    capture = read(an_export(**{RUNTIME: CALLS, **WORK}))
    assert 0 == len(capture.ranges)
    assert any("no NVTX ranges" in limit for limit in capture.limits)


def test_a_table_may_have_its_version_behind_its_name(read):
    """nsys-ai#294: NVTX_EVENTS_V3; of two versions the higher is read."""
    tables = {RUNTIME: CALLS, **WORK, "NVTX_EVENTS_V2": [mark(1, 2, "old")], "NVTX_EVENTS_V3": [mark(5, 70)]}
    assert ["decode_step"] == (lambda capture: named(capture, capture.ranges))(read(an_export(**tables)))


@pytest.mark.parametrize(
    ("kinds", "direction", "side"),
    [
        ((1, 0, 2), CopyDirection.TO_DEVICE, HostSide.PAGEABLE),
        ((1, 1, 2), CopyDirection.TO_DEVICE, HostSide.PINNED),
        ((2, 2, 0), CopyDirection.TO_HOST, HostSide.PAGEABLE),
        ((2, 2, 1), CopyDirection.TO_HOST, HostSide.PINNED),
        ((2, 2, 4), CopyDirection.TO_HOST, HostSide.MANAGED),
        ((2, 1, 7), CopyDirection.TO_HOST, HostSide.UNKNOWN),
        ((8, 2, 2), CopyDirection.ON_DEVICE, HostSide.UNKNOWN),
        ((9, 0, 1), CopyDirection.ON_HOST, HostSide.UNKNOWN),
        ((99, 0, 0), CopyDirection.UNKNOWN, HostSide.UNKNOWN),
    ],
)
def test_a_copys_kinds_give_its_direction_and_its_host_memory(read, kinds, direction, side):
    """copyKind says which way, and by it srcKind or dstKind the memory: 0 pageable, 1 pinned, 4 managed."""
    device = read(an_export(**{RUNTIME: CALLS, MEMCPY: [copied(55, 60, 2, *kinds)]})).device
    assert ([direction], [side]) == (device["direction"].tolist(), device["host_side"].tolist())


def test_peer_copies_are_a_table_of_their_own(read):
    """CUPTI_ACTIVITY_KIND_MEMCPY2 is not version 2 of MEMCPY."""
    capture = read(an_export(**{RUNTIME: CALLS, **WORK, f"{MEMCPY}2": [copied(70, 75, 9, kind=10)]}))
    assert [CopyDirection.UNKNOWN, CopyDirection.TO_HOST, CopyDirection.BETWEEN_DEVICES] == (
        capture.device["direction"].tolist()
    )


def test_start_end_ranges_mark_steps_as_push_pop_ones_do(read):
    """nsys-ai#307: eventType 60; marks (34) and categories (33) are no ranges."""
    marks = [mark(5, 40, kind=60), mark(45, 70, kind=60), mark(6, 6, "a mark", kind=34), mark(6, 7, "x", kind=33)]
    capture = read(an_export(**{RUNTIME: CALLS, **WORK, "NVTX_EVENTS": marks}))
    assert ["decode_step", "decode_step"] == named(capture, capture.ranges)
    assert 2 == len(analyze(capture, "c", Choice()).facts.steps)


@pytest.mark.parametrize("how", ["text", "textId", "no column textId", "neither"])
def test_a_ranges_name_is_in_its_text_or_in_the_strings(read, how):
    """nsys-ai#101: three variants of schemas, and a range whose name is nowhere."""
    rows = [mark(5, 70)]
    if how == "textId":
        rows = [mark(5, 70, None, textId=STRINGS.index("decode_step"))]
    if how == "no column textId":
        del rows[0]["textId"]
    if how == "neither":
        rows = [mark(5, 70, None)]
    capture = read(an_export(**{RUNTIME: CALLS, **WORK, "NVTX_EVENTS": rows}))
    assert ["(unnamed range)" if how == "neither" else "decode_step"] == named(capture, capture.ranges)


def test_a_domain_gives_its_name_to_its_ranges(read):
    """The row that creates the domain (75) names it, per process."""
    rows = [mark(1, None, "fdprof", kind=75, domainId=4), mark(5, 70, "step", domainId=4), mark(6, 7, "other")]
    capture = read(an_export(**{RUNTIME: CALLS, **WORK, "NVTX_EVENTS": rows}))
    assert ["fdprof", None] == [capture.names[n] if n >= 0 else None for n in capture.ranges["domain"].tolist()]


def test_pytorchs_operators_lose_their_counters_and_are_operators(read):
    """emit_nvtx writes a sequence number behind each name, which would make every one unique."""
    rows = [mark(5, 9, "aten::mm, seq = 7"), mark(10, 12, "aten::mm, op_id = 3, sizes = [[1]]"), mark(13, 14, "loop")]
    capture = read(an_export(**{RUNTIME: CALLS, **WORK, "NVTX_EVENTS": rows}))
    assert ["aten::mm", "aten::mm", "loop"] == named(capture, capture.ranges)
    assert [RangeKind.OPERATOR, RangeKind.OPERATOR, RangeKind.MARKER] == capture.ranges["kind"].tolist()


def test_correlation_ids_are_joined_within_their_process(read):
    """PyProf#79: both processes have a call 1 and a kernel 1; each kernel belongs to its own process's call."""
    calls = [call("cudaLaunchKernel", 10, 20, 1), call("cudaLaunchKernel", 11, 21, 1, pid=78)]
    capture = read(an_export(**{RUNTIME: calls, KERNEL: [kernel(30, 40, 1, pid=78), kernel(50, 60, 1)]}))
    assert [1, 0] == capture.device["api"].tolist()
    assert [(77, 0), (78, 0)] == sorted((device.process, device.device) for device in capture.devices)


def test_an_export_is_used_up_to_where_its_calls_share_an_id(read):
    """Calls 1 and 2 have ids of their own; those at 70 and 90 have id 3, and so their kernels: nothing tells whose."""
    calls = [*CALLS, call("cudaLaunchKernel", 70, 75, 3), call("cudaLaunchKernel", 90, 95, 3)]
    tables = {RUNTIME: calls, KERNEL: [kernel(25, 50, 1), kernel(80, 85, 3), kernel(96, 99, 3)], MEMCPY: WORK[MEMCPY]}
    capture = read(an_export(**tables))
    assert (2, [0, 1]) == (len(capture.api), capture.device["api"].tolist())
    assert (
        "share their correlation ids from cudaLaunchKernel_v7000 on, 0.1 µs after the first call" in capture.limits[-1]
    )


def test_device_rows_without_a_process_belong_to_the_only_one(read):
    """Old exports have no globalPid; with two processes in the file nothing can be said, and it is refused."""
    rows = [kernel(30, 40, 1)]
    del rows[0]["globalPid"]
    assert [0] == read(an_export(**{RUNTIME: CALLS, KERNEL: rows})).device["api"].tolist()


def test_device_rows_without_a_process_are_refused_beside_two(read):
    """A guess would mix processes."""
    rows = [kernel(30, 40, 1)]
    del rows[0]["globalPid"]
    calls = [call("cudaLaunchKernel", 10, 20, 1), call("cudaLaunchKernel", 11, 21, 1, pid=78)]
    with pytest.raises(InputError, match="which of 2 processes"):
        read(an_export(**{RUNTIME: calls, KERNEL: rows}))


def test_a_graph_and_kernels_are_all_device_work(read):
    """nsys-ai#236: a graph-level row beside three kernels, joined to cudaGraphLaunch."""
    graph = {"start": 60, "end": 90, "deviceId": 0, "streamId": 7, "correlationId": 5, "globalPid": PID << 24}
    tables = {
        RUNTIME: [*CALLS, call("cudaGraphLaunch", 45, 50, 5)],
        KERNEL: [kernel(25, 30, 1), kernel(31, 32, 1), kernel(33, 34, 1)],
        "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": [graph],
    }
    capture = read(an_export(**tables))
    assert ([0, 0, 0, 3], [0, 0, 0, 2]) == (capture.device["kind"].tolist(), capture.device["api"].tolist())


def sync(correlation, sync_type, stream=7, event=None, sync_id=None):
    return {
        "start": 1, "end": 2, "correlationId": correlation, "streamId": stream, "globalPid": PID << 24,
        "syncType": sync_type, "eventId": event, "eventSyncId": sync_id,
    }  # fmt: skip


@pytest.mark.parametrize("stored", [0, 1, 2, 3, 4])
def test_waits_are_known_by_their_calls_whatever_type_is_stored(read, stored):
    """A stream sync, a device sync and a stream that waits, all stored as the same type: two waits of the host."""
    names = ["cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaStreamWaitEvent"]
    calls = [call(name, 100 * n, 100 * n + 50, n + 1) for n, name in enumerate(names)]
    tables = {RUNTIME: calls, KERNEL: [kernel(1, 2, 9)], SYNC: [sync(n + 1, stored) for n in range(3)]}
    capture = read(an_export(**tables))
    assert [ApiKind.STREAM_SYNC, ApiKind.DEVICE_SYNC, ApiKind.STREAM_WAIT] == capture.api["kind"].tolist()
    assert [0, 1] == capture.links["wait"].tolist()


def recorded(correlation, event, sync_id, stream=7):
    return {
        "correlationId": correlation, "eventId": event, "eventSyncId": sync_id, "streamId": stream,
        "globalPid": PID << 24,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sync_id", "record", "evidence"),
    [(501, 0, Evidence.PROVED), (None, 1, Evidence.INFERRED), (0xFFFFFFFF, 1, Evidence.INFERRED)],
)
def test_a_wait_is_linked_by_the_sync_id_and_only_guessed_by_the_event(read, sync_id, record, evidence):
    """Event 3 is recorded at 0 and at 100 and waited for at 200: its id alone means the later one, 501 the first."""
    calls = [call("cudaEventRecord", 0, 5, 1), call("cudaEventRecord", 100, 105, 2)]
    calls.append(call("cudaEventSynchronize", 200, 250, 3))
    tables = {
        RUNTIME: calls,
        KERNEL: [kernel(1, 2, 9)],
        EVENT: [recorded(1, 3, 501), recorded(2, 3, 502)],
        SYNC: [sync(3, 1, stream=0xFFFFFFFF, event=3, sync_id=sync_id)],
    }
    capture = read(an_export(**tables))
    assert ([2], [record], [evidence], [-1]) == tuple(
        capture.links[name].tolist() for name in ("wait", "record", "evidence", "stream")
    )


def test_calls_of_another_class_with_the_same_id_are_repeats(read):
    """eventClass 67 repeats a call; a row of class 67 that repeats nothing stays."""
    calls = [
        *CALLS,
        call("cudaLaunchKernel", 11, 19, 1, eventClass=67),
        call("cudaLaunchKernel", 70, 80, 8, eventClass=67),
    ]
    capture = read(an_export(**{RUNTIME: calls, **WORK}))
    assert [10, 30, 70] == capture.api["start_ns"].tolist()


def test_the_same_id_on_another_thread_is_no_repeat(read):
    """A repeated call is on its own thread; two calls of one id no tool writes, and the capture ends before them."""
    calls = [*CALLS, call("cudaLaunchKernel", 70, 79, 8), call("cudaLaunchKernel", 71, 78, 8, thread=2, eventClass=67)]
    capture = read(an_export(**{RUNTIME: calls, **WORK}))
    assert 2 == len(capture.api)
    assert "share their correlation ids from cudaLaunchKernel_v7000 on, 0.1 µs after" in capture.limits[-1]


def test_driver_calls_count(read):
    """eventClass 1 is the driver's own API."""
    capture = read(an_export(**{RUNTIME: [*CALLS, call("cudaLaunchKernel", 70, 80, 8, eventClass=1)], **WORK}))
    assert 3 == len(capture.api)


def test_host_calls_without_device_tables_are_said(read):
    """vllm#5132: a process forked after CUDA started; not 100 % idle."""
    capture = read(an_export(**{RUNTIME: CALLS}))
    assert 0 == len(capture.device)
    assert any("host calls but no device activity" in limit for limit in capture.limits)
    assert FindingCode.NO_DEVICE_ROWS in {finding.code for finding in analyze(capture, "c", Choice()).findings}


def test_device_tables_without_host_calls_are_said(read):
    """Without -t cuda's API rows nothing can be said of the host."""
    capture = read(an_export(**WORK))
    assert (0, 2) == (len(capture.api), len(capture.device))
    assert any(f"no table {RUNTIME}" in limit for limit in capture.limits)


def test_a_card_has_its_name_where_the_export_gives_it(read):
    """GPU 0's name by the process's own number for it; without the table, numbers and a word about it."""
    tables = {
        RUNTIME: CALLS,
        **WORK,
        "TARGET_INFO_GPU": [{"id": 3, "name": "NVIDIA H200"}],
        "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 3, "cudaId": 0, "pid": PID}],
    }
    assert ["NVIDIA H200"] == [device.name for device in read(an_export(**tables)).devices]


def test_without_the_table_of_cards_devices_have_numbers(read):
    """nsys-ai's H100 file: it is said, and everything else is read."""
    capture = read(an_export(**{RUNTIME: CALLS, **WORK}))
    assert [(0, None)] == [(device.device, device.name) for device in capture.devices]
    assert any("no table TARGET_INFO_GPU" in limit for limit in capture.limits)


def test_the_null_stream_is_known(read):
    """onnxruntime#3723: TARGET_INFO_CUDA_CONTEXT_INFO names it."""
    info = [{"nullStreamId": 7, "processId": PID, "deviceId": 0}]
    capture = read(an_export(**{RUNTIME: CALLS, **WORK, "TARGET_INFO_CUDA_CONTEXT_INFO": info}))
    assert frozenset({(0, 7)}) == capture.default_streams


def test_what_the_profiler_says_it_lost_is_in_the_limits(read):
    """DIAGNOSTIC_EVENT: a warning about lost events, not one about something else, and nothing informative."""
    events = [
        {"severity": 2, "text": "Not all CUDA events might have been collected."},
        {"severity": 3, "text": "12 events were dropped"},
        {"severity": 2, "text": "The clock is new."},
        {"severity": 1, "text": "No events were lost."},
    ]
    limits = read(an_export(**{RUNTIME: CALLS, **WORK, "DIAGNOSTIC_EVENT": events})).limits
    said = [limit.removeprefix("the profiler says: ") for limit in limits if limit.startswith("the profiler says")]
    assert ["12 events were dropped", "Not all CUDA events might have been collected."] == sorted(said)


# What cannot be used


def test_rows_without_an_end_or_with_one_before_their_start_are_left_out_and_counted(read):
    """Two of four calls, one of two kernels and one of two ranges; a row of no length stays."""
    calls = [*CALLS, call("cudaLaunchKernel", 50, None, 3), call("cudaLaunchKernel", 60, 59, 4)]
    tables = {
        RUNTIME: [*calls, call("cudaLaunchKernel", 70, 70, 5)],
        KERNEL: [kernel(25, 50, 1), kernel(90, 80, 4)],
        "NVTX_EVENTS": [mark(5, 70), mark(6, None)],
    }
    capture = read(an_export(**tables))
    assert (3, 1, 1) == (len(capture.api), len(capture.device), len(capture.ranges))
    said = [limit for limit in capture.limits if "left out" in limit]
    assert [("2", "host"), ("1", "ranges"), ("1", "rows")] == [tuple(limit.split()[:2]) for limit in said]


def test_a_database_without_a_table_of_nsys_is_refused_with_its_tables(read):
    """nvprof-tools#3: `CREATE TABLE x` only."""
    with pytest.raises(InputError, match="is not an Nsight Systems export: its tables are 'x'"):
        read({"x": [{"a": 1}]})


def test_a_truncated_export_is_refused_in_one_line(tmp_path):
    """nsys-ai#98: cut at 60 %, with the sizes; the hint says how to export again."""
    path = to_sqlite(tmp_path / "export.sqlite", an_export(**{RUNTIME: CALLS * 400, **WORK}))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 6 // 10])
    with pytest.raises(InputError, match=r"is truncated: [\d,]+ bytes of [\d,]+$") as caught:
        IMPORTER.read(path, say_nothing)
    assert "nsys export --type sqlite" in caught.value.hint


def test_a_damaged_export_is_refused_in_one_line(tmp_path):
    """Whole in length, and its pages overwritten: SQLite's own sentence, no traceback."""
    path = to_sqlite(tmp_path / "export.sqlite", an_export(**{RUNTIME: CALLS * 400, **WORK}))
    whole = path.read_bytes()
    path.write_bytes(whole[:4_096] + b"\xff" * (len(whole) - 4_096))
    with pytest.raises(InputError, match=r"cannot read .*export\.sqlite.*malformed") as caught:
        IMPORTER.read(path, say_nothing)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        (f"CREATE VIEW {KERNEL} AS SELECT * FROM kernels", "a view"),
        (f"CREATE VIRTUAL TABLE {KERNEL} USING fts5(start)", "a virtual table"),
    ],
)
def test_a_view_or_virtual_table_in_a_tables_place_is_refused(read, statement, what):
    """It would run what somebody else wrote; an export has neither."""
    with pytest.raises(InputError, match=f"{KERNEL} is {what}; an export has only tables"):
        read(an_export(**{RUNTIME: CALLS, "kernels": WORK[KERNEL]}), statement)


def test_generated_columns_are_ignored(read):
    """`bytes` is computed by the file, so it is not read: the size is not observed."""
    rows = [copied(55, 60, 2)]
    size = rows[0].pop("bytes")
    statement = f"ALTER TABLE {MEMCPY} ADD COLUMN bytes INTEGER GENERATED ALWAYS AS ({size} * 1000) VIRTUAL"
    capture = read(an_export(**{RUNTIME: CALLS, MEMCPY: rows}), statement)
    assert [-1] == capture.device["size_bytes"].tolist()


def test_a_generated_column_in_a_required_ones_place_is_missing(read):
    """The message names it."""
    rows = [{name: value for name, value in row.items() if name != "end"} for row in WORK[KERNEL]]
    statement = f'ALTER TABLE {KERNEL} ADD COLUMN "end" INTEGER GENERATED ALWAYS AS (start + 5) VIRTUAL'
    with pytest.raises(InputError, match=f"table {KERNEL}: no column end"):
        read(an_export(**{RUNTIME: CALLS, KERNEL: rows}), statement)


def test_a_missing_column_is_named_with_its_table_and_the_version(read):
    """TraceLens#279: the message names the missing field."""
    rows = [{name: value for name, value in row.items() if name != "correlationId"} for row in CALLS]
    with pytest.raises(InputError, match=r"table CUPTI_ACTIVITY_KIND_RUNTIME: no column correlationId .*3\.25\.0"):
        read(an_export(**{RUNTIME: rows}))


def test_text_where_a_time_should_be_is_refused_with_its_column(read):
    """SQLite keeps any type in any column."""
    with pytest.raises(InputError, match="table CUPTI_ACTIVITY_KIND_RUNTIME"):
        read(an_export(**{RUNTIME: [*CALLS, call("cudaLaunchKernel", "soon", 80, 8)]}))


# parquetdir


@pytest.mark.parametrize("name", ["a:b", "~", "lat\udce9"])
def test_a_parquetdir_is_where_its_name_says_and_is_read_by_arrow_itself(tmp_path, monkeypatch, name):
    """Arrow takes URIs for addresses and "~" for a home, and a file of Python's aborts a process that ends."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    given = []
    for function in ("read_table", "read_metadata"):
        real = getattr(pq, function)
        monkeypatch.setattr(pq, function, lambda file, real=real, **more: given.append(file) or real(file, **more))
    folder = to_parquet(tmp_path / "plain", an_export(**{RUNTIME: CALLS, **WORK}))
    folder.rename(name)
    assert 2 == len(IMPORTER.read(Path(name), say_nothing).api)
    assert {pa.OSFile} == {type(file) for file in given}


def test_a_folder_of_parquet_files_gives_the_same_capture(tmp_path):
    """The same tables by either way of export, every kind of row among them."""
    tables = an_export(
        **{
            RUNTIME: [*CALLS, call("cudaEventRecord", 60, 61, 3), call("cudaEventSynchronize", 62, 90, 4)],
            **WORK,
            "NVTX_EVENTS": [mark(5, 70), mark(75, 90, None, textId=STRINGS.index("loop"), int64Value=4)],
            EVENT: [recorded(3, 3, 501)],
            SYNC: [sync(4, 1, event=3, sync_id=501)],
            "TARGET_INFO_GPU": [{"id": 0, "name": "NVIDIA H200"}],
            "TARGET_INFO_CUDA_DEVICE": [{"gpuId": 0, "cudaId": 0, "pid": PID}],
        }
    )
    expected = IMPORTER.read(to_sqlite(tmp_path / "export.sqlite", tables), say_nothing)
    assert expected == IMPORTER.read(to_parquet(tmp_path / "export", tables), say_nothing)
    assert 2 == len(expected.ranges)


def test_a_real_export_as_parquet_gives_the_same_capture(captures, real, tmp_path):
    """Every table of paddle_overlap, written again by pyarrow."""
    name = "h200/paddle_overlap.nsys.sqlite"
    tables = {}
    with closing(sqlite3.connect(f"file:{captures / name}?mode=ro&immutable=1", uri=True)) as connection:
        connection.row_factory = sqlite3.Row
        for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            rows = [dict(row) for row in connection.execute(f'SELECT * FROM "{table}"')]
            if rows and not table.startswith("sqlite_"):
                tables[table] = rows
    assert real(name) == IMPORTER.read(to_parquet(tmp_path / "export", tables), say_nothing)
