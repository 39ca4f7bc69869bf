"""Write large made-up captures of one decode loop, to measure how fast they are read.

usage: python benchmarks/large_captures.py nsys CAPTURE.sqlite --steps 50000 --kernels 94        10 million rows
       python benchmarks/large_captures.py kineto TRACE.json --steps 50000 --kernels 1 --lean    400,000 events
       python benchmarks/large_captures.py kineto TRACE.json.gz --steps 2000 --kernels 1 --gzip

The loop of every step: K kernels launched and run in 500 µs with 1.3 µs between them, 2 asynchronous copies to pinned
memory (512 B of ids and a flag of 1 B), an event recorded, 200 µs of the host's own work, and the wait for the event.
The times are made up but plausible, the same for the same arguments, and no device was used.
"""

import argparse
import gzip
import json
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import numpy as np

DEVICE_NS, KERNEL_GAP_NS, HOST_NS = 500_000, 1_300, 200_000
LAUNCHES_NS, SLOWEST_LAUNCH_NS = 200_000, 8_000  # all launches of a step; never slower than this each
MAX_KERNELS = 300  # more would leave a kernel less than half a µs of the 500
COPY_BYTES = (512, 1)
RANGES = ("forward", "transfer", "host", "fence")
CHUNK_STEPS = 1_000
PID = 1055


class Loop:
    """The times of a loop in ns.  An offset is from its step's start and the same in every step.

    Two things differ from step to step, so that no statistic is of one constant: the host's work, and how soon the
    device takes up the first kernel.
    """

    def __init__(self, steps: int, kernels: int) -> None:
        self.steps, self.kernels = steps, kernels
        number = np.arange(kernels)
        pace = min(SLOWEST_LAUNCH_NS, LAUNCHES_NS // kernels)
        self.launch_at, self.launch_ns = 5_000 + pace * number, pace * 7 // 10
        self.forward_at, self.forward_end = 3_000, 5_000 + pace * kernels + 1_000
        self.transfer_at = self.forward_end + 4_000
        self.copy_call_at = self.transfer_at + np.array([6_000, 15_000])
        self.copy_call_ns = np.array([5_000, 3_500])
        self.record_at, self.record_ns = self.transfer_at + 23_500, 1_700
        self.transfer_end = self.record_at + self.record_ns + 3_000
        self.host_at = self.transfer_end + 4_000

        # Primes, so that the two patterns do not repeat together.
        step = np.arange(steps)
        host_end = self.host_at + HOST_NS + step * 7_919 % 8_009
        latency = 3_000 + step * 104_729 % 3_001
        whole, rest = divmod(DEVICE_NS - KERNEL_GAP_NS * (kernels - 1), kernels)
        self.kernel_ns = whole + (number < rest)
        first = int(self.launch_at[0]) + self.launch_ns
        self.kernel_at = first + np.cumsum(self.kernel_ns + KERNEL_GAP_NS) - self.kernel_ns - KERNEL_GAP_NS
        self.copy_at = first + DEVICE_NS + np.array([1_312, 4_096])
        self.copy_ns = np.array([1_440, 1_408])

        fence_at = host_end + 2_500
        wait_at = fence_at + 2_000
        done = latency + self.copy_at[1] + self.copy_ns[1]
        wait_end = np.maximum(done + 12_000, wait_at + 3_000)
        step_end = wait_end + 4_000
        self.start = 10_000_000 + np.concatenate(([0], np.cumsum(step_end + 4_000)[:-1]))
        self.device_start = self.start + latency  # what the offsets of kernels and copies are from
        self.end = self.start + step_end
        self.host_end = self.start + host_end
        self.fence_at, self.fence_end = self.start + fence_at, self.start + wait_end + 2_000
        self.wait_at, self.wait_end = self.start + wait_at, self.start + wait_end

    def chunks(self) -> Iterator[slice]:
        """Yield the steps a thousand at a time: all rows of 50,000 steps at once would not fit a small machine."""
        for first in range(0, self.steps, CHUNK_STEPS):
            yield slice(first, min(first + CHUNK_STEPS, self.steps))


# ---------------------------------------------------------------------------------------------------- Nsight Systems

# The tables of schema 3.20, which export 2025.3 writes.  A column is an integer unless said; "!" means NOT NULL.
DEVICE_COLUMNS = "deviceId! contextId! greenContextId streamId! correlationId globalPid"
TABLES = {
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start! end! eventClass! globalTid correlationId nameId! returnValue! callchainId",
    "CUPTI_ACTIVITY_KIND_KERNEL": f"start! end! {DEVICE_COLUMNS} demangledName! shortName! mangledName launchType "
    "cacheConfig registersPerThread! gridX! gridY! gridZ! blockX! blockY! blockZ! staticSharedMemory! "
    "dynamicSharedMemory! localMemoryPerThread! localMemoryTotal! gridId! sharedMemoryExecuted graphNodeId "
    "sharedMemoryLimitConfig",
    "CUPTI_ACTIVITY_KIND_MEMCPY": f"start! end! {DEVICE_COLUMNS} bytes! copyKind! deprecatedSrcId srcKind dstKind "
    "srcDeviceId srcContextId dstDeviceId dstContextId migrationCause graphNodeId virtualAddress copyCount",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": f"start! end! {DEVICE_COLUMNS} deprecatedSyncType syncType! eventId! "
    "eventSyncId",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": f"{DEVICE_COLUMNS} eventId! eventSyncId",
    "NVTX_EVENTS": "start! end eventType! rangeId category color text:TEXT globalTid endGlobalTid textId domainId "
    "uint64Value int64Value doubleValue:REAL uint32Value int32Value floatValue:REAL jsonTextId jsonText:TEXT "
    "binaryData:TEXT",
    "META_DATA_EXPORT": "name:TEXT! value:TEXT",
    "META_DATA_CAPTURE": "name:TEXT! value:TEXT",
    "ANALYSIS_DETAILS": "globalVid! duration! startTime! stopTime!",
    "PROCESSES": "globalPid pid name:TEXT",
    "ThreadNames": "nameId! priority globalTid",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName:TEXT! name:TEXT! nameEnum! value:TEXT!",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime:TEXT localTime:TEXT",
    "TARGET_INFO_GPU": "vmId! id! name:TEXT busLocation:TEXT isDiscrete l2CacheSize totalMemory memoryBandwidth "
    "clockRate smCount pwGpuId uuid:TEXT luid chipName:TEXT cuDevice ctxswDevPath:TEXT ctrlDevPath:TEXT revision "
    "nodeMask constantMemory maxIPC maxRegistersPerBlock maxShmemPerBlock maxShmemPerBlockOptin maxShmemPerSm "
    "maxRegistersPerSm threadsPerWarp asyncEngines maxWarpsPerSm maxBlocksPerSm maxThreadsPerBlock maxBlockDimX "
    "maxBlockDimY maxBlockDimZ maxGridDimX maxGridDimY maxGridDimZ computeMajor computeMinor smMajor smMinor",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId! pid!",
    "TARGET_INFO_CUDA_CONTEXT_INFO": "nullStreamId! hwId! vmId! processId! deviceId! contextId! parentContextId "
    "isGreenContext",
    "TARGET_INFO_CUDA_STREAM": "streamId! hwId! vmId! processId! contextId! priority! flag!",
}
# The values that this loop and the tools' rules name; their queries join these tables.
ENUMS = {
    "ENUM_CUDA_MEMCPY_OPER": {
        0: ("CUDA_MEMCPY_KIND_UNKNOWN", "Unknown"),
        1: ("CUDA_MEMCPY_KIND_HTOD", "Host-to-Device"),
        2: ("CUDA_MEMCPY_KIND_DTOH", "Device-to-Host"),
        8: ("CUDA_MEMCPY_KIND_DTOD", "Device-to-Device"),
    },
    "ENUM_CUDA_MEM_KIND": {
        0: ("CUDA_MEMOPR_MEMORY_KIND_PAGEABLE", "Pageable"),
        1: ("CUDA_MEMOPR_MEMORY_KIND_PINNED", "Pinned"),
        2: ("CUDA_MEMOPR_MEMORY_KIND_DEVICE", "Device"),
        4: ("CUDA_MEMOPR_MEMORY_KIND_MANAGED", "Managed"),
    },
    "ENUM_CUPTI_SYNC_TYPE": {
        1: ("CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE", "Event sync"),
        2: ("CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT", "Stream wait sync"),
        3: ("CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE", "Stream sync"),
        4: ("CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE", "Context sync"),
    },
    "ENUM_CUPTI_STREAM_TYPE": {1: ("CUPTI_ACTIVITY_STREAM_CREATE_FLAG_DEFAULT", "Default stream")},
    "ENUM_CUDA_KERNEL_LAUNCH_TYPE": {1: ("CUDA_KERNEL_LAUNCH_TYPE_REGULAR", "Regular")},
    "ENUM_NSYS_EVENT_CLASS": {
        0: ("TRACE_PROCESS_EVENT_CUDA_RUNTIME", "CUDA runtime"),
        1: ("TRACE_PROCESS_EVENT_CUDA_DRIVER", "CUDA driver"),
    },
    "ENUM_NSYS_EVENT_TYPE": {
        59: ("NvtxPushPopRange", "NvtxPushPopRange"),
        60: ("NvtxStartEndRange", "NvtxStartEndRange"),
        75: ("NvtxDomainCreate", "NvtxDomainCreate"),
    },
}
VM = 1 << 48
GLOBAL_PID = VM + (PID << 24)
GLOBAL_TID = GLOBAL_PID + PID
STREAM = 13
DEVICE = {"deviceId": 0, "contextId": 1, "greenContextId": 0, "streamId": STREAM, "globalPid": GLOBAL_PID}
GPU = {
    "vmId": VM,
    "id": 0,
    "name": "NVIDIA H200 (made up)",
    "busLocation": "0000:00:06.0",
    "isDiscrete": 1,
    "totalMemory": 150_109_880_320,
    "memoryBandwidth": 4_814_304_000_000,
    "clockRate": 1_980_000_000,
    "smCount": 132,
    "chipName": "GH100",
    "cuDevice": 0,
    "threadsPerWarp": 32,
    "computeMajor": 9,
    "computeMinor": 0,
    "smMajor": 9,
    "smMinor": 0,
}
WORDS = (
    *("decode_step", *RANGES, "cudaLaunchKernel_v7000", "cudaMemcpyAsync_v3020", "cudaEventRecord_v3020"),
    *("cudaEventSynchronize_v3020", "layer(float const *, float *, int)", "layer", "_Z5layerPKfPfi"),
    *("sample(long long *, bool *, int)", "sample", "_Z6samplePxPbi"),
)
WORD_IDS = {word: number for number, word in enumerate(WORDS, 1)}


def create_statement(table: str, columns: str) -> str:
    parts = []
    for column in columns.split():
        name, _, kind = column.removesuffix("!").partition(":")
        parts.append(f'"{name}" {kind or "INTEGER"}{" NOT NULL" if column.endswith("!") else ""}')
    return f"CREATE TABLE {table} ({', '.join(parts)})"


def insert(connection: sqlite3.Connection, table: str, arrays: dict[str, np.ndarray], **constants: int) -> int:
    """Insert rows and return how many: a value of each array and the constants.  Columns left out are NULL."""
    names = ", ".join(f'"{name}"' for name in (*arrays, *constants))
    values = ", ".join(["?"] * len(arrays) + [str(value) for value in constants.values()])
    columns = [array.ravel().tolist() for array in arrays.values()]
    # strict: a shorter column would silently drop rows
    connection.executemany(f"INSERT INTO {table} ({names}) VALUES ({values})", zip(*columns, strict=True))
    return len(columns[0])


def add_descriptions(connection: sqlite3.Connection, loop: Loop) -> None:
    """Write the small tables: what was captured, by what and on what."""
    for table, columns in TABLES.items():
        connection.execute(create_statement(table, columns))
    connection.execute("CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL)")
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", [(number, word) for word, number in WORD_IDS.items()])
    for table, values in ENUMS.items():
        connection.execute(f"CREATE TABLE {table} (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT)")
        rows = [(number, *names) for number, names in values.items()]
        connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
    export = {
        "EXPORT_PRODUCT_NAME": "NVIDIA Nsight Systems",
        "EXPORT_PRODUCT_VERSION": "2025.3.2.0",
        "EXPORT_SCHEMA_VERSION": "3.20.3",
        "EXPORT_SCHEMA_VERSION_MAJOR": "3",
        "EXPORT_SCHEMA_VERSION_MINOR": "20",
        "EXPORT_SCHEMA_VERSION_MICRO": "3",
        "EXPORT_PLATFORM": "linux-desktop",
        "EXPORT_ARCH": "x64",
        "EXPORT_HOST": "made up by benchmarks/large_captures.py",
    }
    connection.executemany("INSERT INTO META_DATA_EXPORT VALUES (?, ?)", export.items())
    capture = [("CAPTURE_EVENT_TYPE", "NvtxEvents"), ("CAPTURE_EVENT_TYPE", "Cuda")]
    connection.executemany("INSERT INTO META_DATA_CAPTURE VALUES (?, ?)", capture)
    last = int(loop.end[-1]) + 1_000_000
    connection.execute("INSERT INTO ANALYSIS_DETAILS VALUES (?, ?, 0, ?)", (VM, last, last))
    connection.execute("INSERT INTO PROCESSES VALUES (?, ?, 'python3')", (GLOBAL_PID, PID))
    environment = [("CudaDriverVersion", 611, "13000"), ("CpuCores", 1, "16"), ("CpuArchitecture", 3, "x86_64")]
    connection.executemany(f"INSERT INTO TARGET_INFO_SYSTEM_ENV VALUES ({VM}, 'Local (CLI)', ?, ?, ?)", environment)
    moment = "2026-01-01T00:00:00"
    row = (1_767_225_600_000_000_000, moment, moment)
    connection.execute("INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?, ?, ?)", row)
    names, marks = ", ".join(GPU), ", ".join("?" * len(GPU))
    connection.execute(f"INSERT INTO TARGET_INFO_GPU ({names}) VALUES ({marks})", list(GPU.values()))
    connection.execute("INSERT INTO TARGET_INFO_CUDA_DEVICE VALUES (0, 0, ?)", (PID,))
    connection.execute("INSERT INTO TARGET_INFO_CUDA_CONTEXT_INFO VALUES (7, 0, 1, ?, 0, 1, 0, 0)", (PID,))
    connection.execute("INSERT INTO TARGET_INFO_CUDA_STREAM VALUES (?, 0, 1, ?, 1, 0, 1)", (STREAM, PID))
    # An NVTX domain is known by the row that made it.
    connection.execute(
        "INSERT INTO NVTX_EVENTS (start, eventType, text, globalTid, domainId) VALUES (9000000, 75, 'decode', ?, 1)",
        (GLOBAL_TID,),
    )


def add_steps(connection: sqlite3.Connection, loop: Loop, steps: slice) -> int:
    """Write the rows of some steps, each table in the order of its times; return how many."""
    kernels = loop.kernels
    start, device = loop.start[steps, None], loop.device_start[steps, None]
    count = len(start)
    number = np.arange(steps.start, steps.stop)[:, None]
    # One correlation id for each call: the launches, two copies, the record and the wait.
    correlation = 1 + number * (kernels + 4) + np.arange(kernels + 4)

    def in_each_step(*values: int) -> np.ndarray:
        return np.tile(np.array(values), (count, 1))

    opens = (0, loop.forward_at, loop.transfer_at, loop.host_at)
    nvtx_start = np.hstack((start + np.array(opens), loop.fence_at[steps, None]))
    ends = (loop.end[steps], loop.start[steps] + loop.forward_end, loop.start[steps] + loop.transfer_end)
    nvtx_end = np.column_stack((*ends, loop.host_end[steps], loop.fence_end[steps]))
    text = in_each_step(*(WORD_IDS[name] for name in ("decode_step", *RANGES)))
    nvtx = {"start": nvtx_start, "end": nvtx_end, "textId": text}
    rows = insert(connection, "NVTX_EVENTS", nvtx, eventType=59, color=255, globalTid=GLOBAL_TID, domainId=1)

    call_at = np.concatenate((loop.launch_at, loop.copy_call_at, [loop.record_at]))
    call_ns = np.concatenate((np.full(kernels, loop.launch_ns), loop.copy_call_ns, [loop.record_ns]))
    launch, copy = WORD_IDS["cudaLaunchKernel_v7000"], WORD_IDS["cudaMemcpyAsync_v3020"]
    record, wait = WORD_IDS["cudaEventRecord_v3020"], WORD_IDS["cudaEventSynchronize_v3020"]
    calls = {
        "start": np.hstack((start + call_at, loop.wait_at[steps, None])),
        "end": np.hstack((start + call_at + call_ns, loop.wait_end[steps, None])),
        "correlationId": correlation,
        "nameId": in_each_step(*[launch] * kernels, copy, copy, record, wait),
    }
    rows += insert(connection, "CUPTI_ACTIVITY_KIND_RUNTIME", calls, eventClass=0, globalTid=GLOBAL_TID, returnValue=0)

    # The last kernel of a step samples the ids and the flag; the others are the model's layers.
    names = ["layer(float const *, float *, int)"] * (kernels - 1) + ["sample(long long *, bool *, int)"]
    shorts = ["layer"] * (kernels - 1) + ["sample"]
    mangled = ["_Z5layerPKfPfi"] * (kernels - 1) + ["_Z6samplePxPbi"]
    work = {
        "start": device + loop.kernel_at,
        "end": device + loop.kernel_at + loop.kernel_ns,
        "correlationId": correlation[:, :kernels],
        "demangledName": in_each_step(*(WORD_IDS[name] for name in names)),
        "shortName": in_each_step(*(WORD_IDS[name] for name in shorts)),
        "mangledName": in_each_step(*(WORD_IDS[name] for name in mangled)),
        "gridId": 1 + number * kernels + np.arange(kernels),
    }
    shape = {"gridX": 132, "gridY": 1, "gridZ": 1, "blockX": 256, "blockY": 1, "blockZ": 1}
    memory = {"staticSharedMemory": 0, "dynamicSharedMemory": 0, "localMemoryPerThread": 0, "localMemoryTotal": 0}
    kernel = {**DEVICE, **shape, **memory, "registersPerThread": 16, "launchType": 1, "cacheConfig": 1}
    kernel |= {"sharedMemoryExecuted": 32_768, "sharedMemoryLimitConfig": 0}
    rows += insert(connection, "CUPTI_ACTIVITY_KIND_KERNEL", work, **kernel)

    copies = {
        "start": device + loop.copy_at,
        "end": device + loop.copy_at + loop.copy_ns,
        "correlationId": correlation[:, kernels : kernels + 2],
        "bytes": in_each_step(*COPY_BYTES),
    }
    to_pinned = {"copyKind": 2, "srcKind": 2, "dstKind": 1, "copyCount": 1}
    rows += insert(connection, "CUPTI_ACTIVITY_KIND_MEMCPY", copies, **DEVICE, **to_pinned)

    # Two events take turns; eventSyncId says which record a wait was for.
    event, link = 1 + number % 2, 1 + number
    records = {"correlationId": correlation[:, kernels + 2], "eventId": event, "eventSyncId": link}
    rows += insert(connection, "CUPTI_ACTIVITY_KIND_CUDA_EVENT", records, **DEVICE)
    waits = {
        "start": loop.wait_at[steps] + 400,
        "end": loop.wait_end[steps] - 1_200,
        "correlationId": correlation[:, kernels + 3],
        "eventId": event,
        "eventSyncId": link,
    }
    no_stream = {"deviceId": 0, "contextId": 1, "streamId": 2**32 - 1, "globalPid": GLOBAL_PID, "syncType": 1}
    return rows + insert(connection, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", waits, **no_stream)


def write_nsys(path: Path, loop: Loop) -> int:
    """Write an Nsight Systems export and return its rows."""
    path.unlink(missing_ok=True)
    connection = sqlite3.connect(path, isolation_level=None)
    # The file is made anew after a crash, so nothing needs to survive one.
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("BEGIN")
    add_descriptions(connection, loop)
    rows = sum(add_steps(connection, loop, steps) for steps in loop.chunks())
    connection.execute("COMMIT")
    connection.close()
    return rows


# ------------------------------------------------------------------------------------------------------ torch.profiler

KINETO_EPOCH_NS = 5_153_710_489_000_000  # the times of real traces are this large, with three decimals
EVENT = '{"ph": "X", "cat": "%s", "name": "%s", "pid": %d, "tid": %d, "ts": %s, "dur": %s, "args": {%s}}'
ON_STREAM = '"device": 0, "context": 1, "stream": 7, "correlation": %d'
OF_KERNEL = (
    '"External id": %d, "queued": 0, ' + ON_STREAM + ', "registers per thread": 16, "shared memory": 0, '
    '"blocks per SM": 1.0, "warps per SM": 8.0, "grid": [132, 1, 1], "block": [256, 1, 1], '
    '"est. achieved occupancy %%": 12'
)
OF_SYNC = (
    '"External id": %d, "cuda_sync_kind": "Event Sync", "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": %d, '
    '"wait_on_cuda_event_id": %d, "stream": -1, "correlation": %d, "device": 0, "context": 1'
)
HEADER = {
    "schemaVersion": 1,
    "deviceProperties": [
        {"id": 0, "name": "NVIDIA H200 (made up)", "totalGlobalMem": 150_109_880_320, "computeMajor": 9}
        | {"computeMinor": 0, "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536}
        | {"warpSize": 32, "sharedMemPerBlock": 49152, "numSms": 132, "regsPerMultiprocessor": 65536}
    ],
    "distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1},
    "cuda_driver_version": 13000,
    "cuda_runtime_version": 13000,
    "displayTimeUnit": "ms",
    "baseTimeNanoseconds": 1_767_225_600_000_000_000,
}


def microseconds(time_ns: int) -> str:
    """Return a time as the profiler writes it; a float would lose the last digits."""
    return f"{time_ns // 1000}.{time_ns % 1000:03d}"


def metadata_events() -> Iterator[str]:
    """Yield the rows that name processes and threads."""
    at = float(microseconds(KINETO_EPOCH_NS))
    for pid, label, order in ((PID, "CPU", PID), (0, "GPU 0", 5_000_000)):
        for name, args in (
            ("process_name", {"name": "python3"}),
            ("process_labels", {"labels": label}),
            ("process_sort_index", {"sort_index": order}),
        ):
            yield json.dumps({"name": name, "ph": "M", "ts": at, "pid": pid, "tid": 0, "args": args})
    for pid, tid, thread in ((PID, PID, f"thread {PID} (python3)"), (0, 1, "Device 0"), (0, 7, "stream 7 ")):
        yield json.dumps({"name": "thread_name", "ph": "M", "ts": at, "pid": pid, "tid": tid, "args": {"name": thread}})


def step_events(loop: Loop, step: int, lean: bool) -> Iterator[str]:
    """Yield the events of one step.  Lean: one copy instead of two, and no cuda_sync row (torch's own default)."""
    kernels, copies = loop.kernels, 1 if lean else 2
    start, device = int(loop.start[step]), int(loop.device_start[step])
    operator = 1 + step
    correlation = 1 + step * (kernels + 4)

    def event(cat: str, name: str, begin: int, duration: int, args: str, pid: int = PID, tid: int = PID) -> str:
        times = microseconds(KINETO_EPOCH_NS + int(begin)), microseconds(int(duration))
        return EVENT % (cat, name, pid, tid, *times, args)

    def call(name: str, begin: int, duration: int, cbid: int, correlation: int) -> str:
        return event("cuda_runtime", name, begin, duration, f'"cbid": {cbid}, "correlation": {correlation}')

    length = int(loop.end[step]) - start
    yield event("user_annotation", f"ProfilerStep#{step}", start, length, f'"External id": {operator}, "Ev Idx": 0')
    forward = loop.forward_end - loop.forward_at
    named = f'"External id": {operator}, "Record function id": 0, "Ev Idx": 1'
    yield event("cpu_op", "aten::mm", start + loop.forward_at, forward, named)
    for kernel in range(kernels):
        launch_at = start + int(loop.launch_at[kernel])
        yield call("cudaLaunchKernel", launch_at, loop.launch_ns, 211, correlation + kernel)
        name = "void sample<long>(long*, bool*, int)" if kernel == kernels - 1 else "void layer<float>(float*, int)"
        args = OF_KERNEL % (operator, correlation + kernel)
        yield event("kernel", name, device + loop.kernel_at[kernel], loop.kernel_ns[kernel], args, 0, 7)
    for copy in range(copies):
        own = correlation + kernels + copy
        yield call("cudaMemcpyAsync", start + loop.copy_call_at[copy], loop.copy_call_ns[copy], 41, own)
        size, duration = COPY_BYTES[copy], int(loop.copy_ns[copy])
        args = ON_STREAM % own + f', "bytes": {size}, "memory bandwidth (GB/s)": {size / duration:.6f}'
        begin = device + loop.copy_at[copy]
        yield event("gpu_memcpy", "Memcpy DtoH (Device -> Pinned)", begin, duration, args, 0, 7)
    record, wait = correlation + kernels + 2, correlation + kernels + 3
    yield call("cudaEventRecordWithFlags", start + loop.record_at, loop.record_ns, 370, record)
    begin, duration = int(loop.wait_at[step]), int(loop.wait_end[step] - loop.wait_at[step])
    yield call("cudaEventSynchronize", begin, duration, 137, wait)
    if not lean:
        args = OF_SYNC % (wait, record, 1 + step % 2, wait)
        yield event("cuda_sync", "Event Sync", begin + 400, duration - 1_600, args, 0, 1)


def write_kineto(path: Path, loop: Loop, lean: bool, compressed: bool) -> int:
    """Write a torch.profiler trace, one event a line, and return its events other than metadata."""

    def write_to(file: TextIO) -> int:
        file.write(json.dumps(HEADER, indent=1).removesuffix("\n}") + ',\n "traceEvents": [\n')
        file.write(",\n".join(metadata_events()))
        events = 0
        for step in range(loop.steps):
            for line in step_events(loop, step, lean):
                file.write(",\n" + line)
                events += 1
        file.write('\n ],\n "traceName": "made up by benchmarks/large_captures.py"\n}\n')
        return events

    if compressed:
        with gzip.open(path, "wt", encoding="utf-8", compresslevel=6) as file:
            return write_to(file)
    with path.open("w", encoding="utf-8") as file:
        return write_to(file)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("format", choices=("nsys", "kineto"))
    parser.add_argument("output", type=Path)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--kernels", type=int, default=10, help="a step")
    parser.add_argument("--lean", action="store_true", help="kineto: one copy a step and no cuda_sync row")
    parser.add_argument("--gzip", action="store_true", help="kineto: compress")
    options = parser.parse_args()
    if options.steps < 1 or not 1 <= options.kernels <= MAX_KERNELS:
        parser.error(f"--steps must be 1 or more, --kernels 1 to {MAX_KERNELS}")
    if options.format == "nsys" and (options.lean or options.gzip):
        parser.error("--lean and --gzip are for kineto")
    begin = time.perf_counter()
    loop = Loop(options.steps, options.kernels)
    if options.format == "nsys":
        rows = write_nsys(options.output, loop)
    else:
        rows = write_kineto(options.output, loop, options.lean, options.gzip)
    seconds, size = time.perf_counter() - begin, options.output.stat().st_size
    print(
        f"wrote {options.output}: {rows:,} rows, {size / 1e6:,.1f} MB, {seconds:.1f} s ({rows / seconds:,.0f} rows/s)"
    )


if __name__ == "__main__":
    main()
