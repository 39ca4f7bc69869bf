"""What each CUDA runtime, CUDA driver and HIP call does to the host, by its name in any tool's spelling.

Sources: the CUDA runtime and driver API manuals ("API synchronization behavior"), the HIP manual, and CUPTI's
callback ids of runtime calls, as read off Kineto files that give both name and id.
"""

import re
from functools import cache

from fdprof.capture import ApiKind

# No call's name is longer, and a longer text made of suffixes alone would keep the pattern below busy for seconds.
_MAX_CALL = 200
# cudaMemcpy_v3020, cuMemcpyDtoH_v2, cudaLaunchKernel_ptsz_v7000, cuMemcpyDtoHAsync_v2_ptsz
_ABI_SUFFIX = re.compile(r"(_v\d+|_ptsz|_ptds|_spt)+$")
_PREFIX = re.compile(r"^(cuda|cu|hip)(?=[A-Z])")
# Paddle names a call outside its list by the id alone.
_BY_ID = re.compile(r"^Runtime API (\d{1,6})$")

_NAME_OF_ID = {
    20: "cudaMalloc",
    22: "cudaFree",
    27: "cudaHostAlloc",
    31: "cudaMemcpy",
    41: "cudaMemcpyAsync",
    51: "cudaMemsetAsync",
    131: "cudaStreamSynchronize",
    133: "cudaEventCreate",
    134: "cudaEventCreateWithFlags",
    135: "cudaEventRecord",
    136: "cudaEventDestroy",
    137: "cudaEventSynchronize",
    138: "cudaEventQuery",
    139: "cudaEventElapsedTime",
    147: "cudaStreamWaitEvent",
    165: "cudaDeviceSynchronize",
    211: "cudaLaunchKernel",
    311: "cudaGraphLaunch",
    370: "cudaEventRecordWithFlags",
    430: "cudaLaunchKernelExC",
}

_EXACT = {
    "EventSynchronize": ApiKind.EVENT_WAIT,
    "StreamSynchronize": ApiKind.STREAM_SYNC,
    "DeviceSynchronize": ApiKind.DEVICE_SYNC,
    "CtxSynchronize": ApiKind.DEVICE_SYNC,
    "ThreadSynchronize": ApiKind.DEVICE_SYNC,
    "EventRecord": ApiKind.EVENT_RECORD,
    "EventRecordWithFlags": ApiKind.EVENT_RECORD,
    "StreamWaitEvent": ApiKind.STREAM_WAIT,
    "StreamWaitValue32": ApiKind.STREAM_WAIT,
    "StreamWaitValue64": ApiKind.STREAM_WAIT,
    "EventQuery": ApiKind.EVENT_QUERY,
    "StreamQuery": ApiKind.EVENT_QUERY,
    "GraphLaunch": ApiKind.GRAPH_LAUNCH,
    # HIP's blocking copy has neither Sync nor Async in its name.
    "MemcpyWithStream": ApiKind.BLOCKING_COPY,
    "Malloc": ApiKind.ALLOCATE,
    "MallocHost": ApiKind.ALLOCATE,
    "MallocManaged": ApiKind.ALLOCATE,
    "MallocPitch": ApiKind.ALLOCATE,
    "Malloc3D": ApiKind.ALLOCATE,
    "MallocArray": ApiKind.ALLOCATE,
    "HostAlloc": ApiKind.ALLOCATE,
    "HostMalloc": ApiKind.ALLOCATE,
    "HostFree": ApiKind.ALLOCATE,
    "HostRegister": ApiKind.ALLOCATE,
    "HostUnregister": ApiKind.ALLOCATE,
    "Free": ApiKind.ALLOCATE,
    "FreeHost": ApiKind.ALLOCATE,
    "FreeArray": ApiKind.ALLOCATE,
    "ExtMallocWithFlags": ApiKind.ALLOCATE,
    "MemAlloc": ApiKind.ALLOCATE,
    "MemAllocPitch": ApiKind.ALLOCATE,
    "MemAllocManaged": ApiKind.ALLOCATE,
    "MemAllocHost": ApiKind.ALLOCATE,
    "MemHostAlloc": ApiKind.ALLOCATE,
    "MemHostRegister": ApiKind.ALLOCATE,
    "MemHostUnregister": ApiKind.ALLOCATE,
    "MemFree": ApiKind.ALLOCATE,
    "MemFreeHost": ApiKind.ALLOCATE,
    "MemCreate": ApiKind.ALLOCATE,
    "MemRelease": ApiKind.ALLOCATE,
    "MemMap": ApiKind.ALLOCATE,
    "MemUnmap": ApiKind.ALLOCATE,
}

_LAUNCH = re.compile(
    r"^(Launch|LaunchKernel|LaunchKernelExC?|LaunchKernelEx|LaunchCooperativeKernel|LaunchCooperativeKernelMultiDevice"
    r"|LaunchGrid|LaunchGridAsync|ModuleLaunchKernel|ExtModuleLaunchKernel|ExtLaunchKernel|ExtLaunchMultiKernelMultiDevice"
    r"|ModuleLaunchCooperativeKernel|LaunchByPtr)$"
)
_COPY = re.compile(r"^(Memcpy|ExtMemcpy)")
_MEMSET = re.compile(r"^Memset")


def plain_name(name: str) -> str:
    """Return a call's name without its ABI suffix, and by name where a tool gives CUPTI's number.

    'cudaMemcpy_v3020' gives 'cudaMemcpy', 'Runtime API 137' gives 'cudaEventSynchronize'.
    """
    if len(name) > _MAX_CALL:
        return name
    by_id = _BY_ID.match(name)
    if by_id:
        return _NAME_OF_ID.get(int(by_id[1]), name)
    return _ABI_SUFFIX.sub("", name)


@cache
def kind_of(name: str) -> ApiKind:
    """Return what a call does, by its name; OTHER for a name that is not known to do any of it."""
    plain = plain_name(name)
    base = _PREFIX.sub("", plain)
    if base == plain:
        return ApiKind.OTHER
    if base in _EXACT:
        return _EXACT[base]
    if _LAUNCH.match(base):
        return ApiKind.LAUNCH
    if _COPY.match(base):
        return ApiKind.COPY if "Async" in base else ApiKind.BLOCKING_COPY
    return ApiKind.MEMSET if _MEMSET.match(base) else ApiKind.OTHER
