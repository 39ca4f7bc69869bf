"""The collector's library as Python calls it, and the environment that brings it into somebody else's process.

Source of the two variables: CUDA's CUPTI manual ("CUPTI injection") and NVTX's header nvtxInit.h.
"""

import ctypes
import enum
import os
from collections.abc import Mapping
from pathlib import Path

from fdprof.ops.collector.build import collector_library
from fdprof.ops.toolkit import cupti_library

from fdprof.errors import EnvironmentMissing

_TABLES = 8


class Kinds(enum.IntFlag):
    """What is recorded of CUDA, as activity.h has it; less than all of it serves to find what costs what."""

    LAUNCHES = 1 << 0
    OTHER_CALLS = 1 << 1
    DRIVER_CALLS = 1 << 2
    WAITS = 1 << 3
    EVENTS = 1 << 4
    KERNELS = 1 << 5
    COPIES = 1 << 6
    GRAPHS = 1 << 7
    PLACES = 1 << 8
    CUPTI_ITSELF = 1 << 9

    ALL = (1 << 10) - 1


def environment(folder: Path, *, cuda: bool = True) -> dict[str, str]:
    """Return the variables with which a process, and those it starts, are recorded into `folder`, one folder each.

    Without `cuda` only NVTX ranges are.
    """
    library = str(collector_library())
    variables = {
        "FDPROF_COLLECT_FOLDER": str(folder.resolve()),
        "NVTX_INJECTION64_PATH": library,
        "FDPROF_COLLECT_CUDA": "1" if cuda else "0",
        **_cupti(),
    }
    return variables | ({"CUDA_INJECTION64_PATH": library} if cuda else {})


def _cupti() -> Mapping[str, str]:
    found = cupti_library()
    return {"FDPROF_CUPTI": str(found)} if found and "FDPROF_CUPTI" not in os.environ else {}


class Library:
    """The library in this process.

    Pushing and popping a range keeps Python's lock: giving it away and taking it back would take longer.  Starting and
    stopping give it away: a host callback that the device still waits for may be Python's.
    """

    def __init__(self) -> None:
        self._path = path = collector_library()
        self._lent: dict[str, str] = {}
        try:
            self._native, self._locked = ctypes.CDLL(str(path)), ctypes.PyDLL(str(path))
        except OSError as error:
            raise EnvironmentMissing(
                f"the collector cannot be loaded: {error}",
                f"remove the folder {path.parent}, so that it is built again",
            ) from error
        self._native.fdprof_collect_start.argtypes = [ctypes.c_char_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_int]
        self._native.fdprof_collect_error.restype = ctypes.c_char_p
        self._native.fdprof_row_size.restype = ctypes.c_uint32
        self._native.fdprof_range_name.argtypes = [ctypes.c_char_p]
        self._native.fdprof_range_name.restype = ctypes.c_uint32
        self._locked.fdprof_range_push.argtypes = [ctypes.c_uint32, ctypes.c_int64]
        self._locked.fdprof_range_push.restype = None
        self._locked.fdprof_range_pop.argtypes = []
        self._locked.fdprof_range_pop.restype = None
        self.range_name = self._native.fdprof_range_name
        self.range_push = self._locked.fdprof_range_push
        self.range_pop = self._locked.fdprof_range_pop

    def row_sizes(self) -> tuple[int, ...]:
        """Return the size of each table's row in bytes, in the order of rows.h."""
        return tuple(self._native.fdprof_row_size(table) for table in range(_TABLES))

    def hears_markers(self) -> bool:
        """Return whether NVTX brings the ranges of the domain `fdprof` here: this is the tool that it was bound to."""
        return bool(self._native.fdprof_hears_markers())

    def start(self, folder: Path, *, graph_nodes: bool, cuda: bool, kinds: Kinds = Kinds.ALL) -> None:
        """Begin to record this process into a folder that it makes.

        A CUPTI older than CUDA 12.6's cannot leave out single functions: LAUNCHES alone is then every call there.
        Raises EnvironmentMissing, with CUPTI's reason, where it cannot: no driver, no CUPTI, another tool that holds
        it, or a recording that runs already.
        """
        self._lend_environment()
        is_started = False
        try:
            self._start(folder, graph_nodes, cuda, kinds)
            is_started = True
        finally:  # also when Ctrl-C comes, which it does when the call has returned
            if not is_started:
                if (folder / "begin.json").exists():
                    self._native.fdprof_collect_stop()
                self._return_environment()

    def _start(self, folder: Path, graph_nodes: bool, cuda: bool, kinds: Kinds) -> None:
        if self._native.fdprof_collect_start(os.fsencode(folder), int(graph_nodes), int(kinds), int(cuda)):
            # Of a missing driver CUPTI says no more than that it knows not what is wrong.
            if cuda and not _has_driver():
                raise EnvironmentMissing(
                    "the collector cannot start: there is no NVIDIA driver (libcuda.so.1)", _NO_GPU
                )
            raise EnvironmentMissing(f"the collector cannot start: {self._error()}", _HINT)

    def stop(self) -> None:
        """End the recording: waits for the device, writes what is left, and takes CUPTI out of the process."""
        self._return_environment()
        if self._native.fdprof_collect_stop():
            raise EnvironmentMissing(f"the collector cannot stop: {self._error()}", "start it first")

    def _lend_environment(self) -> None:
        """Set what the library looks CUPTI up by, and what a library that first uses NVTX now finds the collector by.

        For the time of the recording only: a process that is started later is none of the collector's business.
        """
        wanted = {"NVTX_INJECTION64_PATH": str(self._path), **_cupti()}
        self._lent = {name: value for name, value in wanted.items() if name not in os.environ}
        os.environ.update(self._lent)

    def _return_environment(self) -> None:
        for name, value in self._lent.items():
            if os.environ.get(name) == value:
                del os.environ[name]
        self._lent = {}

    def _error(self) -> str:
        text: bytes = self._native.fdprof_collect_error()
        return text.decode(errors="replace")


def _has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


_NO_GPU = "run where nvidia-smi lists a GPU; without one the collector records ranges only: Collector(cuda=False)"
_HINT = (
    "one tool at a time can use CUPTI: run without Nsight, and without torch.profiler before it in the same process, "
    "which keeps CUPTI until the process ends; `fdprof doctor` says whether CUPTI is there"
)
