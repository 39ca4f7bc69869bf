"""The device's side of an export: kernels, copies, memsets and graphs as rows of device work, and the devices."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.capture import DEVICE, NONE, CopyDirection, Device, HostSide, WorkKind
from fdprof.columns import by_start, join_calls
from fdprof.cupti import COPY_NAMES, DIRECTION_OF, NON_BLOCKING, numbered_as
from fdprof.importers._nsys_columns import MISSING, Columns, id_of, process_of
from fdprof.model import IntColumn, Table

_KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
_MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
_MEMCPY_PEER = "CUPTI_ACTIVITY_KIND_MEMCPY2"
_MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
_GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"

_MAX_DEVICES = 1 << 16
# Its own ENUM_CUDA_MEM_KIND, one below CUPTI's CUpti_ActivityMemoryKind; directions are CUPTI's.
_HOST_SIDE = {0: HostSide.PAGEABLE, 1: HostSide.PINNED, 4: HostSide.MANAGED}

_KERNEL_NAMES = ("shortName", "demangledName")


def device_work(
    source: Columns, api_process: IntColumn, api_correlation: IntColumn
) -> tuple[Table, tuple[Device, ...]]:
    common = ["start", "end", "deviceId", "streamId", "correlationId"]
    parts = []
    for table, kind in (
        (_KERNEL, WorkKind.KERNEL),
        (_MEMCPY, WorkKind.COPY),
        (_MEMCPY_PEER, WorkKind.COPY),
        (_MEMSET, WorkKind.MEMSET),
        (_GRAPH, WorkKind.GRAPH),
    ):
        names = source.first_of(table, _KERNEL_NAMES) if kind is WorkKind.KERNEL else []
        sizes = ["bytes", "copyKind", "srcKind", "dstKind"] if kind is WorkKind.COPY else []
        sizes = ["bytes"] if kind is WorkKind.MEMSET else sizes
        columns = source.read(table, common, optional=["globalPid", *names, *sizes])
        if columns is None:
            continue
        columns = source.timed(columns, f"rows of {table}")
        # CUPTI gives 0 for both where it could not take a time (CUpti_ActivityKernel, "start").
        has_time = (columns["start"] != 0) | (columns["end"] != 0)
        columns = source.kept(columns, has_time, f"rows of {table} from time 0 to time 0, which means no time")
        numbered = (columns["deviceId"] >= 0) & (columns["deviceId"] < _MAX_DEVICES)
        columns = source.kept(columns, numbered, f"rows of {table} without the number of a device")
        parts.append(_work(source, columns, kind))
    if not parts:
        return Table.of_rows(DEVICE, []), ()
    whole = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    processes = np.unique(api_process)
    if (whole["process"] == MISSING).any():
        if len(processes) > 1:
            raise source.refuse(
                f"device rows do not say which of {len(processes)} processes they belong to",
                "export the report of one process",
            )
        whole["process"][whole["process"] == MISSING] = processes[0] if len(processes) else 0
    api = join_calls(api_process, api_correlation, whole["process"], whole["correlation"])
    # Distinct pairs by way of one number each: a card's number is small.
    code = whole["process"] * _MAX_DEVICES + whole["device"]
    known = np.unique(code)
    cards = _device_names(source)
    pairs = [divmod(pair, _MAX_DEVICES) for pair in known.tolist()]
    devices = tuple(Device(process, number, cards.get((process, number))) for process, number in pairs)
    columns = {**whole, "api": api, "device": np.searchsorted(known, code)}
    del columns["process"], columns["correlation"]
    return Table.of(DEVICE, by_start(columns)[0]), devices


def _work(source: Columns, columns: dict[str, IntColumn], kind: WorkKind) -> dict[str, npt.NDArray[Any]]:
    count = len(columns["start"])
    direction = np.zeros(count, dtype=np.int8)
    host_side = np.zeros(count, dtype=np.int8)
    size = np.full(count, NONE, dtype=np.int64)
    if kind is WorkKind.KERNEL:
        named = next((columns[entry] for entry in _KERNEL_NAMES if entry in columns), np.full(count, MISSING))
        name = source.named(named)
        name = np.where(name == MISSING, source.names.index("(unnamed kernel)"), name)
    elif kind is WorkKind.COPY:
        direction = numbered_as(columns["copyKind"], DIRECTION_OF)
        host = np.where(direction == CopyDirection.TO_HOST, columns["dstKind"], columns["srcKind"])
        is_host = (direction == CopyDirection.TO_HOST) | (direction == CopyDirection.TO_DEVICE)
        host_side = np.where(is_host, numbered_as(host, _HOST_SIDE), np.int8(HostSide.UNKNOWN))
        number = np.array([source.names.index(COPY_NAMES[entry]) for entry in CopyDirection], dtype=np.int64)
        name = number[direction]
    else:
        name = np.full(count, source.names.index("memset" if kind is WorkKind.MEMSET else "graph"))
    if "bytes" in columns:
        size = np.maximum(columns["bytes"], NONE)
    process = columns["globalPid"]
    return {
        "kind": np.full(count, int(kind), dtype=np.int8),
        "name": name,
        "process": np.where(process == MISSING, MISSING, process_of(process)),
        "device": columns["deviceId"],
        "stream": id_of(columns["streamId"]),
        "start_ns": columns["start"],
        "end_ns": columns["end"],
        "correlation": columns["correlationId"],
        "direction": direction,
        "host_side": host_side,
        "size_bytes": size,
    }


def _device_names(source: Columns) -> dict[tuple[int, int], str]:
    """Return the card's name by process and the process's own number for it."""
    gpus = source.read("TARGET_INFO_GPU", ["id"], text=["name"])
    if gpus is None:
        source.limits.append("no table TARGET_INFO_GPU: the devices have numbers and no names")
        return {}
    every = source.names.all()
    names = {
        gpu: every[name] for gpu, name in zip(gpus["id"].tolist(), gpus["name"].tolist(), strict=True) if name >= 0
    }
    used = source.read("TARGET_INFO_CUDA_DEVICE", ["gpuId", "cudaId", "pid"])
    if used is None:
        return {}
    rows = zip(used["pid"].tolist(), used["cudaId"].tolist(), used["gpuId"].tolist(), strict=True)
    return {(process, number): names[gpu] for process, number, gpu in rows if gpu in names}


def default_streams(source: Columns, devices: Sequence[Device]) -> frozenset[tuple[int, int]]:
    """Return the legacy default stream of each device, as pairs of its index and the stream."""
    columns = source.read("TARGET_INFO_CUDA_CONTEXT_INFO", ["nullStreamId", "processId", "deviceId"])
    if columns is None:
        return frozenset()
    return _streams(devices, columns["processId"], columns["deviceId"], columns["nullStreamId"])


def non_blocking_streams(source: Columns, devices: Sequence[Device]) -> frozenset[tuple[int, int]]:
    """Return the streams that do not wait for the legacy default stream (cudaStreamNonBlocking)."""
    contexts = source.read("TARGET_INFO_CUDA_CONTEXT_INFO", ["processId", "deviceId"], optional=["contextId"])
    streams = source.read("TARGET_INFO_CUDA_STREAM", ["streamId", "processId"], optional=["contextId", "flag"])
    if contexts is None or streams is None:
        return frozenset()
    rows = zip(*(contexts[name].tolist() for name in ("processId", "contextId", "deviceId")), strict=True)
    device_of = {(process, context): device for process, context, device in rows}
    apart = streams["flag"] == NON_BLOCKING
    process, context = streams["processId"][apart], streams["contextId"][apart]
    device = [device_of.get(pair, NONE) for pair in zip(process.tolist(), context.tolist(), strict=True)]
    return _streams(devices, process, np.array(device, dtype=np.int64), streams["streamId"][apart])


def _streams(
    devices: Sequence[Device], process: IntColumn, device: IntColumn, stream: IntColumn
) -> frozenset[tuple[int, int]]:
    number = {(entry.process, entry.device): index for index, entry in enumerate(devices)}
    rows = zip(process.tolist(), device.tolist(), stream.tolist(), strict=True)
    return frozenset((number[(its, card)], one) for its, card, one in rows if (its, card) in number)
