"""fdprof.recorded_capture: hand-made recordings give the captures and the ledgers that are worked out here.

Facts of CUPTI as measured on an H200 with libcupti 13.0: memory kinds 1 pageable, 2 pinned, 3 device; copy kinds 1 to
the device, 2 to the host; of a wait for an event (type 1) `event_sync` is that of the event's record; stream and event
4294967295 are none.
"""

# ruff: noqa: SIM300 - the expected value stands first
import numpy as np
import pytest

from fdprof.analysis.capture_result import analyze
from fdprof.analysis.steps import Choice
from fdprof.capture import ApiKind, CopyDirection, Device, Evidence, HostSide, RangeKind, Thread, WorkKind
from fdprof.recorded_capture import read_recording

US = 1_000
NO_ID = 0xFFFFFFFF
CALL = {"call": "cudaLaunchKernel_v7000", "start_ns": 10, "end_ns": 20, "correlation": 1}
KERNEL = {"kind": "kernel", "name": "void ns::k<2>(int)", "start_ns": 30, "end_ns": 40, "correlation": 1, "stream": 7}
WAIT = {"call": "cudaEventSynchronize_v3020", "start_ns": 60, "end_ns": 90, "correlation": 9}
RECORD = {"call": "cudaEventRecord_v3020", "start_ns": 50, "end_ns": 52, "correlation": 8}


@pytest.fixture
def read(tmp_path, a_process):
    """Write one process and return its capture."""

    def made(**tables):
        return read_recording([a_process(tmp_path, **tables)])

    return made


def called(capture, row):
    return None if row < 0 else capture.names[capture.api["name"][row]]


def worked(capture):
    return [capture.names[name] for name in capture.device["name"]]


# The whole way


@pytest.mark.parametrize("driver", [True, False])
@pytest.mark.parametrize("event_sync", [True, False])
def test_the_ledger_of_a_loop_is_that_worked_out_by_hand(read, a_recorded_loop, driver, event_sync):
    """Per step of 100 us: kernel 10-50 and copy 51-55 are 44 busy, 56 idle.

    0-5 host (5), 5-9 launch (4), 9-10 queued (1), 50-51 queued (1: the copy was issued by 15), 55-65 blocked (10),
    65-100 host (35); the wait 20-65 blocks 45, of which the 10 are harmful.  The driver's call within the launch, which
    then is the kernel's, changes nothing.
    """
    result = analyze(read(unit=US, **a_recorded_loop(4, driver=driver, event_sync=event_sync)), "recording", Choice())
    ledger = result.facts.ledger
    assert [0, 1, 2, 3] == ledger.step.tolist()
    assert [100 * US] * 4 == ledger.window_ns.tolist()
    assert [44 * US] * 4 == ledger.device_busy_ns.tolist()
    assert [4 * US] * 4 == ledger.copy_alone_ns.tolist()
    assert [56 * US] * 4 == ledger.device_idle_ns.tolist()
    assert [45 * US] * 4 == ledger.host_blocked_ns.tolist()
    assert [10 * US] * 4 == ledger.harmful_wait_ns.tolist()
    assert {"host:step": 40 * US, "launch": 4 * US, "queued": 2 * US, "blocked": 10 * US} == result.idle_by_cause_ns
    assert 0 == result.residual_ns
    (transfer,) = result.facts.transfers
    assert (256, "pinned", 3 * US, 4 * US, 45 * US, 0) == (
        transfer.size_bytes,
        transfer.memory,
        transfer.issue_ns,
        transfer.copy_ns,
        transfer.wait_ns,
        transfer.unawaited,
    )
    assert () == result.limits


def test_a_killed_loop_is_counted_to_where_all_is_known(read, a_recorded_loop):
    """4 steps of 100 us from 1,000: the last call ends at 1,365 and the last work at 1,355.

    All that ends after 1,355 goes: the last wait, and the range of the last step, which ends at 1,400.
    """
    result = analyze(read(unit=US, end=None, **a_recorded_loop(4)), "recording", Choice())
    assert [44 * US] * 3 == result.facts.ledger.device_busy_ns.tolist()
    assert (0, 1) == (result.residual_ns, sum("ended before the collector could" in limit for limit in result.limits))


# Calls


def test_a_call_has_its_name_kind_thread_and_times(read):
    """By start, whatever the order in the file, which is that of their returns."""
    capture = read(api=[RECORD | {"thread": 101}, CALL], threads={100: "main", 101: "other"})
    assert [("cudaLaunchKernel_v7000", 10, 20, 1), ("cudaEventRecord_v3020", 50, 52, 8)] == [
        (called(capture, row), *(int(capture.api[column][row]) for column in ("start_ns", "end_ns", "correlation")))
        for row in range(2)
    ]
    assert [ApiKind.LAUNCH, ApiKind.EVENT_RECORD] == capture.api["kind"].tolist()
    assert (Thread(100, 100, "main"), Thread(100, 101, "other")) == capture.threads
    assert [0, 1] == capture.api["thread"].tolist()


def test_a_call_that_cupti_gives_no_name_is_one(tmp_path, a_process):
    """Its id is not in the file of names, or is there without one."""
    folder = a_process(tmp_path, api=[CALL, CALL | {"call": "cuOther", "start_ns": 70, "end_ns": 80, "correlation": 2}])
    (folder / "callbacks").write_text("1 2 \n")
    capture = read_recording([folder])
    assert ["(unnamed call)"] * 2 == [called(capture, row) for row in range(2)]
    assert [ApiKind.OTHER] * 2 == capture.api["kind"].tolist()


@pytest.mark.parametrize(
    ("inner", "calls"),
    [
        ((10, 20), 1),  # as long as the runtime's: both of one call
        ((12, 18), 1),
        ((12, 21), 2),  # ends later: it is no part of it
        ((9, 15), 2),
        ((21, 25), 2),
    ],
)
def test_a_driver_call_within_a_runtime_call_of_its_thread_is_that_call(read, inner, calls):
    """The runtime's is 10-20."""
    driver = {"call": "cuLaunchKernel", "start_ns": inner[0], "end_ns": inner[1], "correlation": 2}
    capture = read(api=[driver, CALL], work=[KERNEL | {"correlation": 2}])
    assert calls == len(capture.api)
    owner = "cudaLaunchKernel_v7000" if calls == 1 else "cuLaunchKernel"
    assert owner == called(capture, capture.device["api"][0])


def test_a_driver_call_of_another_thread_is_a_call_of_its_own(read):
    """It lies within the runtime's call in time only."""
    driver = {"call": "cuLaunchKernel", "start_ns": 12, "end_ns": 18, "correlation": 2, "thread": 101}
    capture = read(api=[driver, CALL])
    assert ["cudaLaunchKernel_v7000", "cuLaunchKernel"] == [called(capture, row) for row in range(2)]


def test_driver_calls_by_themselves_are_calls(read):
    """Triton and graphs launch through the driver: there is no runtime call, or one that is over."""
    driver = {"call": "cuLaunchKernel", "start_ns": 12, "end_ns": 18, "correlation": 2}
    assert 1 == len(read(api=[driver], work=[KERNEL | {"correlation": 2}]).api)


def test_a_sync_of_a_driver_call_within_a_runtime_call_is_the_runtimes(read):
    """cudaStreamSynchronize calls cuStreamSynchronize, which has the row of what it waited for."""
    sync = {"call": "cudaStreamSynchronize_v3020", "start_ns": 10, "end_ns": 20, "correlation": 1}
    driver = {"call": "cuStreamSynchronize", "start_ns": 11, "end_ns": 19, "correlation": 2}
    row = {"correlation": 2, "type": 3, "stream": 7, "event": NO_ID, "event_sync": NO_ID, "start_ns": 11, "end_ns": 19}
    capture = read(api=[driver, sync], syncs=[row])
    assert (1, 1) == (len(capture.api), len(capture.links))
    assert (0, -1, 7, -1, Evidence.UNKNOWN) == tuple(int(column[0]) for column in capture.links.columns.values())


NULL_WAIT = {"call": "cudaEventSynchronize_v3020", "start_ns": 0, "end_ns": 25, "correlation": 128}
"""As recorded of cudaEventSynchronize(NULL) with libcupti 13.0: it has no start, and all later calls have its id."""
NO_TIME = "process 100: 1 call of which CUPTI gave no time, left out"


def left_out(name, since):
    return (
        f"calls share their correlation ids from {name} on, {since} µs after the first call: nothing tells what they "
        "issued, so that all from there on is left out"
    )


def test_a_recording_ends_where_a_failing_call_left_its_id_to_later_ones(read):
    """The launch before it keeps its kernel; of what came later nothing is left, and it is said."""
    stuck = [
        {"call": "cudaMemcpyAsync_v3020", "start_ns": 1_030, "end_ns": 1_032, "correlation": 128},
        {"call": "cudaEventRecord_v3020", "start_ns": 1_046, "end_ns": 1_047, "correlation": 128},
        {"call": "cudaEventSynchronize_v3020", "start_ns": 1_048, "end_ns": 1_060, "correlation": 128},
        {"call": "cuMemcpyDtoH_v2", "start_ns": 1_061, "end_ns": 1_070, "correlation": 128},
    ]
    copy = {"kind": "copy", "copy": 2, "from": 3, "to": 2, "bytes": 8, "stream": 7, "correlation": 128}
    copies = [copy | {"start_ns": at, "end_ns": at + 3} for at in (1_040, 1_066)]
    event = {"correlation": 128, "stream": 7, "event": 3, "event_sync": 5}
    sync = {"correlation": 128, "type": 1, "stream": NO_ID, "event": 3, "event_sync": 5}
    capture = read(
        api=[CALL, NULL_WAIT, *stuck],
        work=[KERNEL, *copies],
        events=[event],
        syncs=[sync | {"start_ns": 1_048, "end_ns": 1_060}],
    )
    assert (["cudaLaunchKernel_v7000"], [0]) == (
        [called(capture, row) for row in range(len(capture.api))],
        capture.device["api"].tolist(),
    )
    assert (0, 0) == (len(capture.links), len(capture.event_records))
    assert (NO_TIME, left_out("cudaMemcpyAsync_v3020", "1.0")) == (capture.limits[0], capture.limits[-1])


def test_the_ledger_of_a_loop_ends_with_its_ids(read, a_recorded_loop):
    """Of 6 steps those from the third on share an id: two remain, as worked out above."""
    tables = a_recorded_loop(6, driver=False)
    for name in ("api", "work", "syncs", "events"):
        for row in tables[name]:
            row["correlation"] = min(row["correlation"], 21)
    result = analyze(read(unit=US, **tables), "recording", Choice())
    ledger = result.facts.ledger
    assert [44 * US] * 2 == ledger.device_busy_ns.tolist()
    assert [45 * US] * 2 == ledger.host_blocked_ns.tolist()
    assert [10 * US] * 2 == ledger.harmful_wait_ns.tolist()
    assert {"host:step": 40 * US, "launch": 4 * US, "queued": 2 * US, "blocked": 10 * US} == result.idle_by_cause_ns
    assert left_out("cudaLaunchKernel_v7000", "200.0") in result.limits


def test_a_driver_call_may_have_the_id_of_the_runtime_call_around_it(read):
    """They are one call, which the kernel has."""
    driver = {"call": "cuLaunchKernel", "start_ns": 12, "end_ns": 18, "correlation": 1}
    capture = read(api=[driver, CALL], work=[KERNEL])
    assert (["cudaLaunchKernel_v7000"], [0]) == (
        [called(capture, row) for row in range(len(capture.api))],
        capture.device["api"].tolist(),
    )


def test_driver_calls_that_share_an_id_within_runtime_calls_of_their_own_are_seen(read):
    """Two launches of ids 1 and 2, at 10 and 110, with a driver's call of id 9 in each, which both kernels have."""
    later = CALL | {"start_ns": 110, "end_ns": 120, "correlation": 2}
    drivers = [{"call": "cuLaunchKernel", "start_ns": at, "end_ns": at + 4, "correlation": 9} for at in (12, 112)]
    kernels = [KERNEL | {"correlation": 9}, KERNEL | {"correlation": 9, "start_ns": 130, "end_ns": 140}]
    capture = read(api=[CALL, later, *drivers], work=kernels)
    assert (0, 0) == (len(capture.api), len(capture.device))
    assert left_out("cudaLaunchKernel_v7000", "0.0") == capture.limits[-1]


def test_a_call_that_has_the_id_of_one_without_a_time_shares_it(read):
    """Its kernel may be of either."""
    capture = read(api=[NULL_WAIT | {"correlation": 1}, CALL], work=[KERNEL])
    assert (0, 0) == (len(capture.api), len(capture.device))


@pytest.mark.parametrize("times", [(0, 25), (25, 0), (0, 0)])
def test_a_call_without_a_start_or_an_end_is_left_out(read, times):
    """CUPTI's 0 is no time."""
    capture = read(api=[CALL, WAIT | dict(zip(("start_ns", "end_ns"), times, strict=True))], work=[KERNEL])
    assert (1, [0], NO_TIME) == (len(capture.api), capture.device["api"].tolist(), capture.limits[0])


def test_a_process_of_whose_calls_none_has_a_time_did_make_calls(read):
    """Its work has none then."""
    capture = read(api=[NULL_WAIT, CALL | {"start_ns": 0, "end_ns": 0}], work=[KERNEL])
    assert ("process 100: 2 calls of which CUPTI gave no time, left out", [-1]) == (
        capture.limits[0],
        capture.device["api"].tolist(),
    )
    assert not any("no CUDA call" in limit for limit in capture.limits)


# Device work


@pytest.mark.parametrize(
    ("copy", "source", "target", "direction", "side"),
    [
        (2, 3, 1, CopyDirection.TO_HOST, HostSide.PAGEABLE),
        (2, 3, 2, CopyDirection.TO_HOST, HostSide.PINNED),
        (1, 1, 3, CopyDirection.TO_DEVICE, HostSide.PAGEABLE),
        (1, 2, 3, CopyDirection.TO_DEVICE, HostSide.PINNED),
        (8, 3, 3, CopyDirection.ON_DEVICE, HostSide.UNKNOWN),
        (10, 3, 3, CopyDirection.BETWEEN_DEVICES, HostSide.UNKNOWN),
        (9, 1, 2, CopyDirection.ON_HOST, HostSide.UNKNOWN),
        (0, 0, 0, CopyDirection.UNKNOWN, HostSide.UNKNOWN),
        (99, 2, 2, CopyDirection.UNKNOWN, HostSide.UNKNOWN),
        (2, 3, 0, CopyDirection.TO_HOST, HostSide.UNKNOWN),
    ],
)
def test_a_copy_has_its_direction_and_the_kind_of_its_host_memory(read, copy, source, target, direction, side):
    """The host's side is the target of a copy to the host, and the source of one to the device."""
    row = {"kind": "copy", "start_ns": 30, "end_ns": 40, "bytes": 64, "copy": copy, "from": source, "to": target}
    (found,) = zip(*read(work=[row]).device.columns.values(), strict=True)
    its = dict(zip(read_columns(), (int(value) for value in found), strict=True))
    assert (WorkKind.COPY, direction, side, 64, -1) == tuple(
        its[name] for name in ("kind", "direction", "host_side", "size_bytes", "api")
    )


def read_columns():
    from fdprof.capture import DEVICE

    return tuple(DEVICE)


def test_kernels_go_by_their_short_names_and_other_work_by_what_it_is(read):
    """A kernel and a graph have no size; a memset has; rows are by start."""
    work = [
        {"kind": "graph", "start_ns": 40, "end_ns": 50, "stream": NO_ID},
        KERNEL,
        {"kind": "memset", "start_ns": 20, "end_ns": 21, "bytes": 8, "to": 3},
        {"kind": "kernel", "start_ns": 60, "end_ns": 61},
        {"kind": "copy", "copy": 2, "start_ns": 70, "end_ns": 71},
    ]
    capture = read(work=work)
    assert ["memset", "k", "graph", "(unnamed kernel)", "copy device to host"] == worked(capture)
    assert [8, -1, -1, -1, 0] == capture.device["size_bytes"].tolist()
    assert [0, 7, -1, 0, 0] == capture.device["stream"].tolist()
    expected = [WorkKind.MEMSET, WorkKind.KERNEL, WorkKind.GRAPH, WorkKind.KERNEL, WorkKind.COPY]
    assert expected == capture.device["kind"].tolist()
    assert any("graphs are traced as wholes" in limit for limit in capture.limits)


def test_kernels_of_one_short_name_share_it(read):
    capture = read(work=[KERNEL, KERNEL | {"name": "void ns::k<3>(int)"}])
    assert ["k", "k"] == worked(capture)
    assert 1 == len(set(capture.device["name"].tolist()))


def test_all_work_of_a_graph_belongs_to_its_launch(read):
    """Three kernels with the launch's id; work whose call is not in the recording belongs to none."""
    launch = {"call": "cudaGraphLaunch_v10000", "start_ns": 5, "end_ns": 25, "correlation": 3}
    work = [KERNEL | {"correlation": 3}] * 3 + [KERNEL | {"correlation": 4, "start_ns": 35}]
    capture = read(api=[CALL, launch], work=work)
    expected = ["cudaGraphLaunch_v10000"] * 3 + [None]
    assert expected == [called(capture, row) for row in capture.device["api"]]


# Two processes


def test_processes_with_equal_ids_are_not_mixed_up(tmp_path, a_process):
    """Both have thread 7, correlation 1 and 8, event 0, device 0 and stream 7; the second is all 100 ns later.

    Each kernel belongs to its own process's call, each wait to its own record, each range to its own thread.
    """

    def part(process, kernel, later):
        def at(row, **more):
            times = {name: row[name] + later for name in ("start_ns", "end_ns") if name in row}
            return row | times | more

        return a_process(
            tmp_path,
            process,
            api=[at(row, thread=7) for row in (CALL, RECORD, WAIT)],
            work=[at(KERNEL, name=kernel)],
            ranges=[at({"name": f"of {process}", "start_ns": 5, "end_ns": 95}, thread=7)],
            events=[{"correlation": 8, "event_sync": 4, "stream": 7}],
            syncs=[at({"correlation": 9, "event_sync": 4, "type": 1, "stream": NO_ID})],
            overhead=[at({"start_ns": 1, "end_ns": 2}, thread=7, kind=1 << 16)],
            threads={7: f"thread of {process}"},
            contexts=[{"context": 1, "device": 0, "null_stream": process}],
            streams=[{"context": 1, "stream": process + 1, "flag": 2}],
        )

    capture = read_recording([part(300, "first", 0), part(200, "second", 100)])
    assert (Thread(200, 7, "thread of 200"), Thread(300, 7, "thread of 300")) == capture.threads
    assert (Device(200, 0, "NVIDIA H200"), Device(300, 0, "NVIDIA H200")) == capture.devices
    assert ["first", "second"] == worked(capture)
    assert [1, 0] == capture.device["device"].tolist()
    assert [1, 0] == [int(capture.api["thread"][row]) for row in capture.device["api"]]
    assert [10, 110] == capture.api["start_ns"][capture.device["api"]].tolist()
    pairs = {(int(w), int(r)) for w, r in zip(capture.links["wait"], capture.links["record"], strict=True)}
    starts = capture.api["start_ns"]
    assert {(60, 50), (160, 150)} == {(int(starts[wait]), int(starts[record])) for wait, record in pairs}
    assert [("of 300", 1), ("of 200", 0)] == [
        (capture.names[name], int(thread))
        for name, thread in zip(capture.ranges["name"], capture.ranges["thread"], strict=True)
    ]
    assert {1, 0} == set(capture.overhead["thread"].tolist())
    assert frozenset({(0, 200), (1, 300)}) == capture.default_streams
    assert frozenset({(0, 201), (1, 301)}) == capture.non_blocking_streams
    assert 2 * (3 + 7) == capture.rows  # of api three, of each other table one


def test_two_programs_of_one_process_are_told_apart_by_their_recordings(tmp_path, a_process):
    """After exec the id is the same, and correlation ids begin anew: each kernel belongs to its own program's call."""
    first = a_process(tmp_path, 100, 1, api=[CALL], work=[KERNEL])
    later = {"start_ns": 1010, "end_ns": 1020}
    second = a_process(tmp_path, 100, "1-2", api=[CALL | later], work=[KERNEL | {"start_ns": 1030, "end_ns": 1040}])
    capture = read_recording([first, second])
    assert [10, 1010] == capture.api["start_ns"][capture.device["api"]].tolist()
    assert (1, 1) == (len(capture.threads), len(capture.devices))


# Waits


def test_a_wait_is_linked_to_the_record_of_its_number(read):
    """Event 5 was recorded twice: the wait's number is the first record's, though the second is later."""
    api = [RECORD, RECORD | {"start_ns": 54, "end_ns": 55, "correlation": 18}, WAIT]
    events = [
        {"correlation": 8, "event": 5, "event_sync": 21, "stream": 7},
        {"correlation": 18, "event": 5, "event_sync": 22, "stream": 8},
    ]
    sync = {"correlation": 9, "type": 1, "event": 5, "event_sync": 21, "stream": NO_ID, "start_ns": 60, "end_ns": 90}
    capture = read(api=api, events=events, syncs=[sync])
    assert (2, 0, -1, 5, Evidence.PROVED) == tuple(int(column[0]) for column in capture.links.columns.values())
    assert ([0, 1], [5, 5], [7, 8]) == tuple(column.tolist() for column in capture.event_records.columns.values())


def test_without_numbers_the_latest_record_of_the_event_is_inferred(read):
    """Event 5 is recorded at 50 and 54, event 6 at 56, and 5 again at 95, after the wait: it is that at 54."""
    times = ((50, 5), (54, 5), (56, 6), (95, 5))
    api = [RECORD | {"start_ns": at, "end_ns": at + 1, "correlation": 10 + at} for at, _ in times] + [WAIT]
    events = [{"correlation": 10 + at, "event": event, "stream": 7} for at, event in times]
    sync = {"correlation": 9, "type": 1, "event": 5, "stream": NO_ID, "start_ns": 60, "end_ns": 90}
    capture = read(api=api, events=events, syncs=[sync])
    record, evidence = int(capture.links["record"][0]), int(capture.links["evidence"][0])
    assert (54, Evidence.INFERRED) == (int(capture.api["start_ns"][record]), evidence)


def test_a_wait_for_an_event_that_was_recorded_before_the_capture_is_unknown(read):
    """Its number is of no record here, and no other record of the event is."""
    sync = {"correlation": 9, "type": 1, "event": 5, "event_sync": 3, "stream": NO_ID, "start_ns": 60, "end_ns": 90}
    events = [{"correlation": 8, "event": 6, "event_sync": 4, "stream": 7}]
    capture = read(api=[RECORD, WAIT], events=events, syncs=[sync])
    assert ([-1], [Evidence.UNKNOWN]) == (capture.links["record"].tolist(), capture.links["evidence"].tolist())


def test_a_wait_for_a_stream_has_no_record_even_where_numbers_are_none(read):
    """Event and number are CUPTI's none: two records that lack a number too are not what it waited for."""
    sync = {"call": "cudaStreamSynchronize_v3020", "start_ns": 60, "end_ns": 90, "correlation": 9}
    row = {"correlation": 9, "type": 3, "stream": 7, "event": NO_ID, "event_sync": NO_ID, "start_ns": 60, "end_ns": 90}
    events = [{"correlation": 8, "event": NO_ID, "event_sync": NO_ID, "stream": 7}]
    capture = read(api=[RECORD, sync], events=events, syncs=[row])
    assert (1, -1, 7, -1, Evidence.UNKNOWN) == tuple(int(column[0]) for column in capture.links.columns.values())


def test_what_makes_a_stream_wait_or_copies_is_no_wait_of_the_host(read):
    """CUPTI has sync rows of cudaStreamWaitEvent (type 2) and of blocking copies too; nor are rows without a call."""
    api = [
        {"call": "cudaStreamWaitEvent_v3020", "start_ns": 10, "end_ns": 12, "correlation": 1},
        {"call": "cudaMemcpy_v3020", "start_ns": 20, "end_ns": 40, "correlation": 2},
    ]
    syncs = [{"correlation": id_, "type": kind, "start_ns": 1, "end_ns": 2} for id_, kind in ((1, 2), (2, 3), (3, 3))]
    assert 0 == len(read(api=api, syncs=syncs).links)


# Ranges, overhead, streams


def test_ranges_have_domain_payload_and_thread(read):
    """The default domain has no name; negative payloads are none, as -1 is; the longer of one start comes first."""
    ranges = [
        {"name": "inner", "domain": "fdprof", "payload": 7, "start_ns": 5, "end_ns": 9},
        {"name": "outer", "start_ns": 5, "end_ns": 10, "payload": -3},
        {"name": "", "start_ns": 1, "end_ns": 2, "payload": 2**62, "thread": 8},
    ]
    capture = read(ranges=ranges)
    assert [("(unnamed range)", -1, 2**62, 8), ("outer", -1, -1, 100), ("inner", "fdprof", 7, 100)] == [
        (
            capture.names[row["name"]],
            -1 if row["domain"] < 0 else capture.names[row["domain"]],
            row["payload"],
            capture.threads[row["thread"]].thread,
        )
        for row in ({name: int(column[at]) for name, column in capture.ranges.columns.items()} for at in range(3))
    ]
    assert [RangeKind.MARKER] * 3 == capture.ranges["kind"].tolist()
    assert not any("unnamed domain" in name for name in capture.names)


def test_overhead_is_what_cupti_itself_did_to_a_thread(read):
    """Flushing, instrumenting, resources and an allocation of its own; not the compiling and loading of kernels.

    CUPTI's kinds, from its header: 1 compiler, 1<<16 flush, 2<<16 instrumentation, 3<<16 resource, 4<<16 and on of the
    program's run time, 7<<16 allocation of buffers.  A row of no thread says nothing of the step's.
    """
    kinds = (0, 1, 1 << 16, 2 << 16, 3 << 16, 4 << 16, 7 << 16)
    rows = [{"start_ns": n, "end_ns": n + 1, "thread": 100, "kind": kind} for n, kind in enumerate(kinds)]
    capture = read(overhead=[*rows, {"start_ns": 50, "end_ns": 60, "thread": 0, "kind": 1 << 16}])
    assert [2, 3, 4, 6] == capture.overhead["start_ns"].tolist()


def test_streams_are_default_or_apart_by_what_cupti_says(read):
    """Context 1 is of device 0, which works; device 3 does nothing.  Flag 2 is non-blocking, 1 is not."""
    capture = read(
        work=[KERNEL],
        contexts=[
            {"context": 1, "device": 0, "null_stream": 7},
            {"context": 1, "device": 0, "null_stream": 7},
            {"context": 2, "device": 3, "null_stream": 9},
        ],
        streams=[
            {"context": 1, "stream": 13, "flag": 2},
            {"context": 1, "stream": 14, "flag": 1},
            {"context": 2, "stream": 15, "flag": 2},
            {"context": 5, "stream": 16, "flag": 2},
        ],
    )
    assert (frozenset({(0, 7)}), frozenset({(0, 13)})) == (capture.default_streams, capture.non_blocking_streams)


@pytest.mark.parametrize(("number", "name"), [(0, "NVIDIA H200"), (1, None)])
def test_a_device_without_a_name_has_none(read, number, name):
    """The list of names is that of the process, by number."""
    assert (Device(100, number, name),) == read(work=[KERNEL | {"device": number}]).devices


# What is not there


def test_an_empty_recording_is_an_empty_capture_that_says_so(read):
    capture = read()
    assert (0, 0, 0, ()) == (len(capture.api), len(capture.device), len(capture.ranges), capture.threads)
    assert (
        "no NVTX ranges: steps have to be inferred and host code has no names",
        "no CUDA call was traced: the processes made none, or CUPTI could not be used",
    ) == capture.limits


def test_calls_without_device_work_are_said(read):
    """Which is no idle device."""
    (limit,) = read(api=[CALL], ranges=[{"name": "a", "start_ns": 1, "end_ns": 2}]).limits
    assert limit.startswith("host calls but no device activity")


def test_limits_of_several_processes_are_all_there(tmp_path, a_process):
    """Each names its process."""
    end = {
        "end_ns": 1,
        "dropped": 3,
        "untimed": 0,
        "not_written": 0,
        "cupti": "CUPTI 26, x",
        "devices": [],
        "error": "",
    }
    capture = read_recording([a_process(tmp_path, 5, end=end), a_process(tmp_path, 6, end=None)])
    assert ["process 5: CUPTI dropped 3 records"] == [limit for limit in capture.limits if "process 5" in limit]
    assert 1 == sum(limit.startswith("process 6 ended before") for limit in capture.limits)
    assert 2 == capture.tool.count("collector")


def test_a_killed_process_beside_a_whole_one_cuts_only_its_own_rows(tmp_path, a_process):
    """The killed one's kernel to 1040 is cut at its call's 20; the whole one's stays."""
    late = KERNEL | {"start_ns": 1030, "end_ns": 1040}
    paths = [a_process(tmp_path, 5, api=[CALL], work=[late]), a_process(tmp_path, 6, end=None, api=[CALL], work=[late])]
    assert [5] == [device.process for device in read_recording(paths).devices]


def test_times_of_all_tables_are_on_one_clock(read):
    """Large times, as of CLOCK_MONOTONIC after 200 days, lose nothing."""
    days = 200 * 86_400 * 10**9 + 1
    rows = {"start_ns": days, "end_ns": days + 2}
    capture = read(api=[CALL | rows], work=[KERNEL | rows], ranges=[{"name": "a"} | rows])
    for table in (capture.api, capture.device, capture.ranges):
        assert ([days], [days + 2]) == (table["start_ns"].tolist(), table["end_ns"].tolist())
        assert np.dtype("int64") == table["start_ns"].dtype
