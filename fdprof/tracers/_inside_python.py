"""Runs inside a profiled Python: starts torch.profiler or paddle.profiler, and writes the trace when Python ends.

A copy of this file is put first on PYTHONPATH as sitecustomize.py, so that Python itself runs the program as it would
without us: arguments, __main__, spawned workers, tracebacks, exit code.  That Python need not have fdprof: only the
standard library is imported here, in the words of Python 3.8.  Does nothing unless VARIABLE is set.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.machinery
import importlib.util
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

VARIABLE = "FDPROF_INSIDE"
"""Path of a JSON file: the framework, and the paths of the trace and of what this process says of how far it came."""

LOADED = "loaded"  # this file ran
IMPORTED = "imported"  # the program imported the framework
RECORDING = "recording"
WRITING = "writing"
WRITTEN = "written"
FAILED = "failed"

IN_A_CHILD = ".child"
"""Suffix of a second file beside it: a forked child process was the one that used the device."""

_FAILURES = (RuntimeError, TypeError, ValueError, AttributeError, AssertionError, LookupError, OSError, ImportError)
"""What a profiler raises; the program must not see it."""


class Recording:
    """The one recording of this process, from the framework's import to the end."""

    def __init__(self, framework: str, trace: str, unfinished: str, said: str) -> None:
        self._profiler: _Torch | _Paddle = _Torch() if framework == "torch" else _Paddle()
        self._trace, self._unfinished, self._path = Path(trace), Path(unfinished), Path(said)
        self._process = os.getpid()
        self._said: dict[str, Any] = {"state": LOADED, "exited": False}
        self._is_finishing = False
        self._is_to_die = False
        self._has_let_go = False
        self._markers: Any = None  # the module fdprof.markers, if the program uses it

    def begin(self) -> None:
        """Wait for the program to import the framework."""
        self._say()
        atexit.register(self._exited)
        # Before, not after in the child: a SIGTERM that comes to the child in between would be lost.
        os.register_at_fork(before=self._let_go, after_in_parent=self._take_again, after_in_child=self._let_go)
        self._take(signal.SIG_DFL)
        sys.meta_path[:0] = [
            _Finder(self._profiler.module, self._imported),
            _Finder("fdprof.markers", self._markers_imported),
        ]

    def _imported(self, module: Any) -> None:
        if os.getpid() != self._process:
            return
        name = self._profiler.module
        self._say(state=IMPORTED, tool=f"{name}.profiler {getattr(module, '__version__', 'of unknown version')}")
        try:
            self._profiler.when_used(module, lambda: self._start(module))
        except _FAILURES as error:
            self._failed(error)

    def _start(self, module: Any) -> None:
        if os.getpid() != self._process:
            with contextlib.suppress(OSError):
                Path(f"{self._path}{IN_A_CHILD}").touch()  # a forked worker is the first to use the device
            return
        if self._said["state"] != IMPORTED:
            return
        try:
            self._say(**self._profiler.start(module, self._other_started))
        except _FAILURES as error:
            self._failed(error)
            return
        self._say(state=RECORDING)
        self._hear()
        self._take(self._terminated)  # again: Paddle's import puts a handler of its own below Python's
        # Registered now: the program's own exit handlers still belong to the recording, and the framework still works.
        atexit.register(self._finish)

    def _markers_imported(self, module: Any) -> None:
        self._markers = module
        if self._said["state"] == RECORDING:
            self._hear()

    def _hear(self) -> None:
        """Have the program's markers become ranges of the profiler, which does not see NVTX."""
        if self._markers is not None:
            with contextlib.suppress(self._markers.UsageError):  # the program sends them elsewhere
                self._markers.attach(_Marks(self._profiler.range))

    def _other_started(self) -> None:
        """The program starts a profiler of its own.  Two at once are not possible, and its own is what it needs."""
        if os.getpid() == self._process and self._said["state"] == RECORDING:
            self._say(own_profiler=True)
            self._finish()

    def _finish(self) -> None:
        if os.getpid() != self._process or self._said["state"] != RECORDING:
            return
        self._is_finishing = True
        self._say(state=WRITING)
        if self._markers is not None:
            self._markers.detach()
        try:
            self._profiler.write(str(self._unfinished))
            self._unfinished.replace(self._trace)
            self._say(state=WRITTEN)
        except _FAILURES as error:
            self._failed(error)
        self._is_finishing = False
        if self._is_to_die:
            self._die()

    def _terminated(self, number: int, frame: object) -> None:
        """SIGTERM, where the program takes none itself: write the trace, then end as if this handler were not there."""
        if self._is_finishing:
            self._is_to_die = True
            return
        self._finish()
        self._die()

    def _die(self) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)

    def _take(self, before: object) -> None:
        """Handle SIGTERM from now on, if `before` is what handles it: what the program sets stands."""
        if os.getpid() != self._process:
            return
        with contextlib.suppress(ValueError):  # not the main thread
            if signal.getsignal(signal.SIGTERM) == before:
                signal.signal(signal.SIGTERM, self._terminated)

    def _let_go(self) -> None:
        """Before a fork, and in the child: it is ended by SIGTERM as it would be without us."""
        with contextlib.suppress(ValueError):
            if signal.getsignal(signal.SIGTERM) == self._terminated:
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                self._has_let_go = True

    def _take_again(self) -> None:
        if self._has_let_go:
            self._has_let_go = False
            self._take(signal.SIG_DFL)

    def _exited(self) -> None:
        self._say(exited=True)

    def _failed(self, error: BaseException) -> None:
        self._say(state=FAILED, error=f"{type(error).__name__}: {error}")

    def _say(self, **more: Any) -> None:
        if os.getpid() != self._process:
            return
        self._said.update(more)
        with contextlib.suppress(OSError):
            whole = Path(f"{self._path}.new")
            whole.write_text(json.dumps(self._said), encoding="utf-8")
            whole.replace(self._path)


class _Marks:
    """A sink of fdprof.markers: what it is given becomes ranges of the profiler, on the thread it happens on."""

    def __init__(self, begin: Callable[[str], Any]) -> None:
        self._range = begin
        self._open = threading.local()

    def push(self, name: str, payload: int | None) -> None:
        entered = self._range(name)
        entered.__enter__()
        self._open.__dict__.setdefault("ranges", []).append(entered)

    def pop(self) -> None:
        ranges = self._open.__dict__.get("ranges")
        if ranges:
            ranges.pop().__exit__(None, None, None)


class _Torch:
    module = "torch"

    def when_used(self, torch: Any, start: Callable[[], None]) -> None:
        """Call `start` when the program first uses CUDA; at once where this torch has none.

        Not before: starting it sets CUDA up, after which CUDA_VISIBLE_DEVICES is no longer read, and processes that
        are forked (a serving engine's workers) can no longer use CUDA.
        """
        if torch.version.cuda is None and torch.version.hip is None:
            start()
        else:
            torch.cuda._lazy_call(start)

    def start(self, torch: Any, other_started: Callable[[], None]) -> dict[str, Any]:
        """Start, and return what this torch can do."""
        profiler = importlib.import_module("torch.profiler")
        activities = [profiler.ProfilerActivity.CPU]
        is_cuda = profiler.ProfilerActivity.CUDA in profiler.supported_activities()
        if is_cuda:
            activities.append(profiler.ProfilerActivity.CUDA)
        self._record_function = profiler.record_function
        wanted = _torch_options()
        options = {} if wanted is None else {"experimental_config": wanted[0]}
        able = {} if wanted is None else wanted[1]
        self._thread = None if able.get("profile_all_threads") else threading.get_ident()
        self._profiler = profiler.profile(activities=activities, **options)
        self._profiler.start()
        self._restore = _watch_torch(other_started)
        return {
            "cuda": is_cuda,
            "sync_events": bool(able.get("enable_cuda_sync_events")),
            "all_threads": self._thread is None,
        }

    def range(self, name: str) -> Any:
        return self._record_function(name)

    def write(self, path: str) -> None:
        self._restore()
        if self._thread not in (None, threading.get_ident()):
            # Asked for the trace from another thread, such a torch ends the process with a segmentation fault.
            raise RuntimeError("the recording began in a thread of the program, and this torch can end it only there")
        self._profiler.stop()
        self._profiler.export_chrome_trace(path)


def _torch_options() -> tuple[Any, dict[str, bool]] | None:
    """Return the options beyond the public ones that this torch takes, and which they are; None: none."""
    try:
        make = importlib.import_module("torch._C._profiler")._ExperimentalConfig
    except (ImportError, AttributeError):
        return None
    for names in (("enable_cuda_sync_events", "profile_all_threads"), ("enable_cuda_sync_events",)):
        values = dict.fromkeys(names, True)
        try:
            return make(**values), values
        except TypeError:  # older than that option
            continue
    return None


def _watch_torch(other_started: Callable[[], None]) -> Callable[[], None]:
    """Have `other_started` called before another profiler starts; return what ends that.

    A second one (seen with torch 2.13) ends the first without a word, and the first one's export then crashes.
    """
    names = importlib.import_module("torch.autograd.profiler")
    kept = {name: getattr(names, name) for name in ("_prepare_profiler", "_enable_profiler") if hasattr(names, name)}

    def after(original: Callable[..., Any]) -> Callable[..., Any]:
        def started(*args: Any, **named: Any) -> Any:
            other_started()
            return original(*args, **named)

        return started

    for name, original in kept.items():
        setattr(names, name, after(original))

    def restore() -> None:
        for name, original in kept.items():
            setattr(names, name, original)

    return restore


class _Paddle:
    module = "paddle"

    def when_used(self, paddle: Any, start: Callable[[], None]) -> None:
        """Call `start` at once: importing Paddle has set CUDA up already."""
        start()

    def start(self, paddle: Any, other_started: Callable[[], None]) -> dict[str, Any]:
        """Start, and return what this Paddle can do."""
        profiler = importlib.import_module("paddle.profiler")
        is_cuda = bool(paddle.is_compiled_with_cuda())
        targets = [profiler.ProfilerTarget.CPU] + [profiler.ProfilerTarget.GPU] * is_cuda
        self._path = ""
        self._record_event = profiler.RecordEvent
        # The default writes into a folder where the program runs.
        self._profiler = profiler.Profiler(targets=targets, on_trace_ready=self._export)
        self._profiler.start()
        self._class, self._init = profiler.Profiler, profiler.Profiler.__init__
        original = self._init

        def started(made: Any, *args: Any, **named: Any) -> None:
            # A second one beside ours gets nothing from Paddle's core and fails in start().
            other_started()
            original(made, *args, **named)

        profiler.Profiler.__init__ = started
        return {"cuda": is_cuda}

    def range(self, name: str) -> Any:
        return self._record_event(name)

    def write(self, path: str) -> None:
        self._class.__init__ = self._init
        self._path = path
        profiler, self._profiler = self._profiler, None
        profiler.stop()

    def _export(self, profiler: Any) -> None:
        profiler.export(self._path, format="json")


class _Finder:
    """Finds one module as the other finders do, and calls `imported` with it when it has been imported."""

    def __init__(self, name: str, imported: Callable[[Any], None]) -> None:
        self._name, self._then = name, imported

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name != self._name:
            return None
        others = [finder for finder in sys.meta_path if finder is not self and hasattr(finder, "find_spec")]
        spec = next(filter(None, (finder.find_spec(name, path, target) for finder in others)), None)
        loader: Any = spec and spec.loader
        if loader is None:
            return spec
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            del loader.exec_module
            execute(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self._then(module)

        loader.exec_module = exec_module
        return spec


def _leave_no_trace(folder: Path) -> None:
    """Take this file's folder and its variables out of what the program, and what it starts, can see."""
    del os.environ[VARIABLE]
    rest = os.environ.pop("PYTHONPATH", "").split(os.pathsep)[1:]
    if rest:
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != folder]
    for entry in [entry for entry in sys.path_importer_cache if Path(entry).resolve() == folder]:
        del sys.path_importer_cache[entry]


def _run_the_other() -> None:
    """Run the sitecustomize that this file stands before, if there is one."""
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize")
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


def _begin() -> None:
    options = json.loads(Path(os.environ[VARIABLE]).read_text(encoding="utf-8"))
    _leave_no_trace(Path(__file__).resolve().parent)
    try:
        Recording(options["framework"], options["trace"], options["unfinished"], options["said"]).begin()
    finally:
        _run_the_other()


if __name__ == "sitecustomize" and VARIABLE in os.environ:
    _begin()
