"""What a tracer offers: to run a command under one profiler and to leave captures that an importer reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from fdprof.errors import FdprofError
from fdprof.supervision import Outcome

CUDA_PROFILER_API = "cudaProfilerApi"
"""The capture range between cudaProfilerStart and cudaProfilerStop."""

GRAPH_TRACES = ("graph", "node")
"""A CUDA graph as one piece of work, or every kernel of it: more to see, and dearer."""


@dataclass(frozen=True, slots=True)
class Request:
    """What to trace. `capture_range` is None for everything, CUDA_PROFILER_API, or an NVTX range NAME or NAME@DOMAIN.

    `folder` exists, is empty and is the caller's to remove; every file of the tracer goes there.  `limit_s` bounds the
    command, `repeat` is how many capture ranges are taken, each a capture of its own.  `quiet` keeps the command's own
    standard output apart: it then goes to standard error.
    """

    command: tuple[str, ...]
    folder: Path
    limit_s: float
    graph_trace: str = "graph"
    capture_range: str | None = None
    repeat: int = 1
    quiet: bool = False
    environment: tuple[tuple[str, str], ...] = ()  # more variables for the command
    progress: Callable[[str], None] = lambda _: None


@dataclass(frozen=True, slots=True)
class Taken:
    """What came of it: how the command ended, and the captures, each a file or folder that `import_capture` reads.

    `notes` are sentences for the user about what this capture cannot show, or how to finish by hand.
    """

    outcome: Outcome
    captures: tuple[Path, ...]
    tool: str  # the profiler and its version
    arguments: tuple[str, ...]  # the command line that was run, the profiler's options included
    notes: tuple[str, ...] = ()


class Tracer(Protocol):
    """One profiler.  `TRACER` in each file of this folder is an object with these members."""

    tool: str  # the profiler in words, for messages and lists
    prelude: str  # Python that fdprof's own loops run first, so that this profiler records them; empty: none is needed

    def missing(self, request: Request) -> FdprofError | None:
        """Return why this request cannot be carried out here (EnvironmentMissing, or UsageError), None if it can."""

    def take(self, request: Request) -> Taken:
        """Run the command under the profiler.  A command that fails is no error: its outcome says so.

        Raises FdprofError when the profiler itself does not run; KeyboardInterrupt never: Ctrl-C ends the command, and
        the outcome says so.
        """


class Diagnosis(Protocol):
    """What a second pass with back-traces found."""

    def text_lines(self) -> Sequence[str]:
        """Return it for people; no times of that pass."""


@runtime_checkable
class Diagnosing(Protocol):
    """A tracer that can run a command with back-traces."""

    def diagnose(self, request: Request) -> Diagnosis:
        """Run the command once more, and return what waits for what, and where it was called."""
