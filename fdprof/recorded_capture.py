"""A recording of the collector as a Capture: one or more processes on one clock, which CUPTI was given too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.api_calls import kind_of
from fdprof.capture import (
    API,
    DEVICE,
    EVENT_RECORDS,
    LINKS,
    NONE,
    OVERHEAD,
    RANGES,
    WAIT_KINDS,
    Capture,
    CopyDirection,
    Device,
    Evidence,
    RangeKind,
    Thread,
    WorkKind,
)
from fdprof.columns import Names, by_start, join_calls, latest_before
from fdprof.cupti import COPY_NAMES, DIRECTION_OF, HOST_SIDE_OF, NO_ID, NON_BLOCKING, numbered_as
from fdprof.joinable import joinable, shared_ids
from fdprof.kernel_names import short_name
from fdprof.model import IntColumn, Table
from fdprof.recordings import Process, Rows, read_process
from fdprof.units import counted

SOURCE = "fdprof"
NO_CALLS = "no CUDA call was traced: the processes made none, or CUPTI could not be used"

_RUNTIME, _DRIVER = 0, 1
_EVENT_WAIT = 1  # CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE
# Of CUpti_ActivityOverheadKind, those that are CUPTI's own doing; compiling and loading kernels is the program's.
_OVERHEAD_KINDS = (1 << 16, 2 << 16, 3 << 16, 7 << 16)


def read_recording(folders: Sequence[Path]) -> Capture:
    """Return the capture of one recording.  InputError, naming the file, where one cannot be used."""
    processes = [read_process(folder) for folder in folders]
    names = Names()
    parts = [_part(process, names) for process in processes]
    columns = {name: _joined(part[name] for part in parts) for name in ("api", "device", "ranges", "overhead")}
    ids = np.unique(np.concatenate([column["thread_id"] for column in columns.values() if "thread_id" in column]))
    ids = ids[ids != NONE]
    for name in ("api", "ranges", "overhead"):
        its = columns[name].pop("thread_id")
        columns[name]["thread"] = np.where(its == NONE, NONE, np.searchsorted(ids, its))
    api, order = by_start(columns["api"])
    row_of = np.empty(len(order), dtype=np.int64)
    row_of[order] = np.arange(len(order))
    devices, device = _devices(processes, columns["device"])
    before = np.cumsum([0, *(len(part["api"]["name"]) for part in parts)])
    device["api"] = _moved(device["api"], device.pop("part"), before, row_of)
    shared = api.pop("shared")
    api_table = Table.of(API, api)
    records, links = _links(processes, parts, before, row_of, api_table)
    thread_names = {(process.number, tid): name for process in processes for tid, name in process.threads.items()}
    threads = [(code >> 32, code & 0xFFFFFFFF) for code in ids.tolist()]
    capture = Capture(
        source=SOURCE,
        tool=", ".join(dict.fromkeys(process.tool for process in processes)),
        names=names.all(),
        threads=tuple(Thread(number, tid, thread_names.get((number, tid), "")) for number, tid in threads),
        devices=devices,
        api=api_table,
        device=Table.of(DEVICE, by_start(device)[0]),
        ranges=Table.of(RANGES, by_start(columns["ranges"])[0]),
        links=links,
        event_records=records,
        overhead=Table.of(OVERHEAD, columns["overhead"]),
        default_streams=_streams(processes, devices, default=True),
        non_blocking_streams=_streams(processes, devices, default=False),
        rows=sum(len(rows) for process in processes for rows in process.rows.values()),
        limits=tuple(dict.fromkeys(limit for process in processes for limit in process.limits))
        + _untimed(processes)
        + _gaps(processes, columns),
    )
    return joinable(capture, shared)


def _part(process: Process, names: Names) -> dict[str, dict[str, Any]]:
    """Return the columns of one process; threads are numbers of process and thread, `api` its own rows."""
    api = process.rows["api"]
    # Of all rows: a call without a time, which is within no other, or one within another may be whose id others have.
    timed = _has_time(api)
    ends = {name: np.where(timed, api[name], 0) for name in ("start_ns", "end_ns")}
    of_one = np.zeros(len(api), dtype=np.int64)
    shared = shared_ids(of_one, {**ends, "thread": api["thread"], "correlation": api["correlation"]})
    api, shared = api[timed], shared[timed]
    code = api["domain"].astype(np.int64) << 32 | api["callback"]
    known, which = np.unique(code, return_inverse=True)
    called = [process.callbacks.get((int(c) >> 32, int(c) & 0xFFFFFFFF), "") or "(unnamed call)" for c in known]
    number = np.array([names.index(name) for name in called], dtype=np.int64)
    kind = np.array([int(kind_of(name)) for name in called], dtype=np.int64)
    outer = _outer(api)
    kept = np.flatnonzero(outer == np.arange(len(api)))
    row_of = np.full(len(api), NONE, dtype=np.int64)
    row_of[kept] = np.arange(len(kept))
    calls = {
        "name": number[which][kept] if len(known) else np.zeros(0, dtype=np.int64),
        "kind": kind[which][kept] if len(known) else np.zeros(0, dtype=np.int64),
        "thread_id": _thread_id(process.number, api["thread"][kept]),
        "start_ns": api["start_ns"][kept].astype(np.int64),
        "end_ns": api["end_ns"][kept].astype(np.int64),
        "correlation": api["correlation"][kept].astype(np.int64),
        "shared": np.isin(kept, outer[shared]),
    }

    def call_of(correlation: npt.NDArray[Any]) -> IntColumn:
        its = correlation.astype(np.int64)
        zero = np.zeros(len(api), dtype=np.int64)
        row = join_calls(zero, api["correlation"].astype(np.int64), np.zeros(len(its), dtype=np.int64), its)
        return np.where(row == NONE, NONE, np.append(row_of, NONE)[np.append(outer, NONE)[row]])

    ranges, overhead = process.rows["ranges"], process.rows["overhead"]
    overhead = overhead[np.isin(overhead["kind"], _OVERHEAD_KINDS) & (overhead["thread"] != 0)]
    return {
        "api": calls,
        "device": _work(process, names, call_of(process.rows["work"]["correlation"])),
        "ranges": {
            "kind": np.full(len(ranges), int(RangeKind.MARKER)),
            "name": _named(process, names, ranges["name"], "(unnamed range)"),
            "domain": _domains(process, names, ranges["domain"]),
            "thread_id": _thread_id(process.number, ranges["thread"]),
            "start_ns": ranges["start_ns"].astype(np.int64),
            "end_ns": ranges["end_ns"].astype(np.int64),
            "payload": np.maximum(ranges["payload"], NONE),
        },
        "overhead": {
            "thread_id": _thread_id(process.number, overhead["thread"]),
            "start_ns": overhead["start_ns"].astype(np.int64),
            "end_ns": overhead["end_ns"].astype(np.int64),
        },
        "syncs": {"api": call_of(process.rows["syncs"]["correlation"])},
        "events": {"api": call_of(process.rows["events"]["correlation"])},
    }


def _has_time(api: Rows) -> npt.NDArray[np.bool_]:
    """Return which calls have one: CUPTI gives 0 where not (CUpti_ActivityAPI), libcupti 13.0 for the start alone."""
    return np.asarray((api["start_ns"] != 0) & (api["end_ns"] != 0))


def _untimed(processes: Sequence[Process]) -> tuple[str, ...]:
    """Return what is said of the calls that were left out because they have no time."""
    without = {process.number: int((~_has_time(process.rows["api"])).sum()) for process in processes}
    return tuple(
        f"process {number}: {counted(count, 'call')} of which CUPTI gave no time, left out"
        for number, count in without.items()
        if count
    )


def _outer(api: Rows) -> IntColumn:
    """Return for each call the row to count: of a driver call inside a runtime call of its thread, the runtime's."""
    result = np.arange(len(api), dtype=np.int64)
    is_driver = api["domain"] == _DRIVER
    if not is_driver.any() or is_driver.all():
        return result
    # Of each thread by start, the runtime's first where both start at once.
    order = np.lexsort((is_driver, api["start_ns"], api["thread"]))
    within = is_driver[order]
    latest = np.maximum.accumulate(np.where(within, NONE, np.arange(len(order))))
    call, around = order[within], order[latest[within]]
    inside = (
        (latest[within] != NONE)
        & (api["thread"][around] == api["thread"][call])
        & (api["end_ns"][around] >= api["end_ns"][call])
    )
    result[call[inside]] = around[inside]
    return result


def _thread_id(process: int, threads: npt.NDArray[Any]) -> IntColumn:
    return np.asarray((np.int64(process) << 32) | threads.astype(np.int64), dtype=np.int64)


def _named(process: Process, names: Names, column: npt.NDArray[Any], without: str) -> IntColumn:
    """Return the numbers of the capture's names for a column of the process's own numbers."""
    known, which = np.unique(column, return_inverse=True)
    if not len(known):
        return np.zeros(0, dtype=np.int64)
    return np.array([names.index(process.names.get(int(key)) or without) for key in known], dtype=np.int64)[which]


def _domains(process: Process, names: Names, column: npt.NDArray[Any]) -> IntColumn:
    """Return the numbers of the domains' names; the default domain has none."""
    result = np.full(len(column), NONE, dtype=np.int64)
    has_one = column != 0
    result[has_one] = _named(process, names, column[has_one], "(unnamed domain)")
    return result


def _work(process: Process, names: Names, api: IntColumn) -> dict[str, Any]:
    work = process.rows["work"]
    kind = work["kind"]
    is_copy = kind == WorkKind.COPY
    direction = np.where(is_copy, numbered_as(work["copy"], {k: int(v) for k, v in DIRECTION_OF.items()}), 0)
    host = np.where(direction == CopyDirection.TO_HOST, work["to"], work["from"])
    touches_host = (direction == CopyDirection.TO_HOST) | (direction == CopyDirection.TO_DEVICE)
    copies = np.array([names.index(COPY_NAMES[entry]) for entry in CopyDirection], dtype=np.int64)
    kernels = _named(process, _Short(names), work["name"], "(unnamed kernel)")
    name = np.where(kind == WorkKind.KERNEL, kernels, copies[direction])
    name = np.where(kind == WorkKind.MEMSET, names.index("memset"), name)
    name = np.where(kind == WorkKind.GRAPH, names.index("graph"), name)
    has_size = is_copy | (kind == WorkKind.MEMSET)
    return {
        "kind": kind.astype(np.int64),
        "name": name,
        "device": work["device"].astype(np.int64),
        "process": np.full(len(work), process.number, dtype=np.int64),
        "stream": _id(work["stream"]),
        "start_ns": work["start_ns"].astype(np.int64),
        "end_ns": work["end_ns"].astype(np.int64),
        "api": api,
        "direction": direction,
        "host_side": np.where(touches_host, numbered_as(host, {k: int(v) for k, v in HOST_SIDE_OF.items()}), 0),
        "size_bytes": np.where(has_size, work["bytes"].astype(np.int64), NONE),
    }


class _Short(Names):
    """Gives kernels the number of their short name."""

    def __init__(self, names: Names) -> None:
        super().__init__()
        self._names = names

    def index(self, name: str) -> int:
        return self._names.index(short_name(name))


def _id(column: npt.NDArray[Any]) -> IntColumn:
    return np.where(column == NO_ID, NONE, column.astype(np.int64))


def _joined(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the parts' columns one after another; `part` says which a device row came from."""
    every = list(parts)
    columns = {name: np.concatenate([part[name] for part in every]) for name in every[0]}
    if "api" in columns:
        columns["part"] = np.repeat(np.arange(len(every)), [len(part["api"]) for part in every])
    return columns


def _devices(processes: Sequence[Process], work: dict[str, Any]) -> tuple[tuple[Device, ...], dict[str, Any]]:
    """Return the devices in use, and the device rows with their index."""
    code = (work["process"] << 32) | work["device"]
    known = np.unique(code)
    names = {process.number: process.devices for process in processes}
    devices = []
    for process, number in ((int(entry) >> 32, int(entry) & 0xFFFFFFFF) for entry in known):
        its = names.get(process, ())
        devices.append(Device(process, number, its[number] or None if number < len(its) else None))
    rest = {name: column for name, column in work.items() if name != "process"}
    return tuple(devices), {**rest, "device": np.searchsorted(known, code)}


def _moved(api: IntColumn, part: IntColumn, before: IntColumn, row_of: IntColumn) -> IntColumn:
    """Return rows of each process's calls as rows of all calls by start."""
    return np.where(api == NONE, NONE, np.append(row_of, NONE)[np.where(api == NONE, NONE, api + before[part])])


def _links(
    processes: Sequence[Process],
    parts: Sequence[dict[str, dict[str, Any]]],
    before: IntColumn,
    row_of: IntColumn,
    api: Table,
) -> tuple[Table, Table]:
    """Return the event records, and what each wait waited for.

    CUPTI gives each record a number that the wait repeats (since CUDA 12.8); without it, the latest record of the same
    event before the wait is meant.
    """
    records: dict[str, list[IntColumn]] = {"api": [], "event": [], "stream": []}
    links: dict[str, list[IntColumn]] = {name: [] for name in LINKS}
    for index, (process, part) in enumerate(zip(processes, parts, strict=True)):
        events, syncs = process.rows["events"], process.rows["syncs"]

        def placed(rows: IntColumn, index: int = index) -> IntColumn:
            return _moved(rows, np.full(len(rows), index), before, row_of)

        recorded = placed(part["events"]["api"])
        known = recorded != NONE
        events, recorded = events[known], recorded[known]
        wait = placed(part["syncs"]["api"])
        is_wait = (wait != NONE) & np.isin(np.append(api["kind"], NONE)[wait], [int(kind) for kind in WAIT_KINDS])
        syncs, wait = syncs[is_wait], wait[is_wait]
        of_event = syncs["type"] == _EVENT_WAIT
        event, here, there = _id(syncs["event"]), np.zeros(len(events), dtype=np.int64), np.zeros(len(wait), np.int64)
        number = np.where(of_event & (syncs["event_sync"] != 0), syncs["event_sync"].astype(np.int64), NONE)
        proved = join_calls(here, events["event_sync"].astype(np.int64), there, number)
        inferred = latest_before(
            here, events["event"].astype(np.int64), api["start_ns"][recorded], there, event, api["start_ns"][wait]
        )
        row = np.where(proved != NONE, proved, np.where(of_event, inferred, NONE))
        sure = np.where(row == NONE, Evidence.UNKNOWN, Evidence.INFERRED)
        links["wait"].append(wait)
        links["record"].append(np.append(recorded, NONE)[row])
        links["stream"].append(_id(syncs["stream"]))
        links["event"].append(event)
        links["evidence"].append(np.where(proved != NONE, Evidence.PROVED, sure))
        records["api"].append(recorded)
        records["event"].append(events["event"].astype(np.int64))
        records["stream"].append(_id(events["stream"]))
    return (
        Table.of(EVENT_RECORDS, {name: np.concatenate(column) for name, column in records.items()}),
        Table.of(LINKS, {name: np.concatenate(column) for name, column in links.items()}),
    )


def _streams(processes: Sequence[Process], devices: Sequence[Device], *, default: bool) -> frozenset[tuple[int, int]]:
    """Return the legacy default streams, or those that do not wait for them, as pairs of device and stream."""
    index = {(device.process, device.device): number for number, device in enumerate(devices)}
    found = set()
    for process in processes:
        contexts, streams = process.rows["contexts"], process.rows["streams"]
        device_of = dict(zip(contexts["context"].tolist(), contexts["device"].tolist(), strict=True))
        if default:
            pairs = zip(contexts["device"].tolist(), contexts["null_stream"].tolist(), strict=True)
        else:
            apart = streams[streams["flag"] == NON_BLOCKING]
            on = [device_of.get(context, NONE) for context in apart["context"].tolist()]
            pairs = zip(on, apart["stream"].tolist(), strict=True)
        found |= {(index[process.number, on], one) for on, one in pairs if (process.number, on) in index}
    return frozenset(found)


def _gaps(processes: Sequence[Process], columns: Mapping[str, dict[str, Any]]) -> tuple[str, ...]:
    """Return what this capture cannot tell, by what is not in it."""
    device, ranges = columns["device"], columns["ranges"]
    limits = []
    if not len(ranges["name"]):
        limits.append("no NVTX ranges: steps have to be inferred and host code has no names")
    if not any(len(process.rows["api"]) for process in processes):
        limits.append(NO_CALLS)
    elif not len(device["name"]):
        limits.append("host calls but no device activity: nothing was seen of the device, which does not mean it idled")
    if (device["kind"] == WorkKind.GRAPH).any():
        limits.append("graphs are traced as wholes: a graph's kernels and the gaps between them are not seen")
    return tuple(limits)
