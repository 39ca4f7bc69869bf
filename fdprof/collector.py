"""Records what a running process does on the GPU, without a profiler around it: start, stop, and there is a Capture.

The work is done in native code (ops/collector); here are its life and where its rows go.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from fdprof import markers
from fdprof.capture import Capture
from fdprof.errors import EnvironmentMissing, FdprofError
from fdprof.recorded_capture import read_recording

if TYPE_CHECKING:  # it loads ctypes, and needs a compiler the first time
    from fdprof.ops.collector.native import Library


_RECORDING = "recording"


class _MarkerSink:
    """Takes fdprof's ranges where NVTX does not bring them."""

    def __init__(self, library: Library) -> None:
        self._name, self._push, self.pop = library.range_name, library.range_push, library.range_pop
        self._numbers: dict[str, int] = {}

    def push(self, name: str, payload: int | None) -> None:
        number = self._numbers.get(name)
        if number is None:
            number = self._numbers[name] = self._name(name.encode())
        self._push(number, -1 if payload is None else payload)


class Collector:
    """CUPTI's activity records of this process, and its NVTX ranges, between `start` and `stop`.

    ```
    with fdprof.Collector() as collector:
        for i in range(100):
            with fdprof.step(i):
                decode()
    fdprof.save_capture(collector.capture, Path("runs/mine"))
    ```

    NVTX ranges of libraries that used NVTX before the recording began are not seen; fdprof's own are, of markers and of
    a Session, whatever was used before (fdprof.markers says who hears them).
    Stopping waits for the device and takes CUPTI out of the process, so that calls cost what they did before.
    Source: CUDA's CUPTI manual, "CUPTI Activity API" and "Dynamic attach and detach".
    """

    def __init__(self, *, graph_trace: str = "graph", cuda: bool = True) -> None:
        """Load the native library, building it the first time.

        `graph_trace` is "graph" (a CUDA graph as one piece of work) or "node" (each of its kernels); without `cuda`
        only ranges are recorded.  EnvironmentMissing where it cannot be built.
        """
        if graph_trace not in ("graph", "node"):
            raise FdprofError(f"graph_trace is {graph_trace!r}, expected 'graph' or 'node'")
        from fdprof.ops.collector.native import Library  # here: it may have to be compiled

        self._library = Library()
        self._graph_nodes, self._cuda = graph_trace == "node", cuda
        self._folder: Path | None = None
        self._process = 0  # that started it
        self._capture: Capture | None = None
        self._markers_attached = False

    @property
    def capture(self) -> Capture:
        """What was recorded between the last `start` and `stop`."""
        if self._capture is None:
            raise FdprofError("the collector has no capture yet", "call stop() first")
        return self._capture

    def start(self) -> None:
        """Begin.  EnvironmentMissing where CUPTI is missing or another tool holds it, UsageError where fdprof's markers
        go to somebody else's sink; nothing is changed then.
        """
        if self._folder is not None:
            raise FdprofError("the collector is started already", "call stop() first")
        if markers.attached() is not None or not (markers.has_tool() and self._library.hears_markers()):
            markers.attach(_MarkerSink(self._library))  # else NVTX brings them
            self._markers_attached = True
        is_started = False
        try:
            self._folder, self._process = _new_folder(), os.getpid()
            self._library.start(self._folder / _RECORDING, graph_nodes=self._graph_nodes, cuda=self._cuda)
            is_started = True
        finally:  # also when Ctrl-C comes, which it does when CUPTI has
            if not is_started:
                self._clear_away()
        atexit.register(self._end_at_exit)

    def stop(self) -> Capture:
        """End, and return what was recorded."""
        if self._folder is None:
            raise FdprofError("the collector is not started", "call start() first")
        if self._process != os.getpid():
            self._folder = None
            raise FdprofError(
                f"the collector records process {self._process}, from which this one was forked", "stop it there"
            )
        try:
            self._library.stop()
            self._capture = read_recording([self._folder / _RECORDING])
        finally:
            self._clear_away()
        return self._capture

    def _clear_away(self) -> None:
        atexit.unregister(self._end_at_exit)
        if self._markers_attached:
            markers.detach()
            self._markers_attached = False
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _end_at_exit(self) -> None:
        with contextlib.suppress(FdprofError):  # nobody is left who wants the capture
            self._end_unless_ended()

    def _end_unless_ended(self) -> None:
        # Not where it was stopped by hand, nor in a child that leaves the block: the recording is its parent's.
        if self._folder is not None and self._process == os.getpid():
            self.stop()

    def __enter__(self) -> Collector:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_unless_ended()


def _new_folder() -> Path:
    try:
        return Path(tempfile.mkdtemp(prefix="fdprof-collector-"))
    except OSError as error:
        raise EnvironmentMissing(
            f"no folder for the collector's rows: {error.strerror or error}", "set TMPDIR to a folder with room"
        ) from error


def _let_go_in_child() -> None:
    """Take the markers off the parent's recording, so that a forked child can have its own."""
    if isinstance(markers.attached(), _MarkerSink):
        markers.detach()


os.register_at_fork(after_in_child=_let_go_in_child)
