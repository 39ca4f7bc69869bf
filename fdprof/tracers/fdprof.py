"""fdprof's own collector, brought into the command's processes by environment variables."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from fdprof import supervision
from fdprof.capture import Capture
from fdprof.capture_store import save_capture
from fdprof.errors import FdprofError, UsageError
from fdprof.recorded_capture import NO_CALLS, read_recording
from fdprof.recordings import errors_in, recordings_in
from fdprof.tracers.protocol import CUDA_PROFILER_API, GRAPH_TRACES, Request, Taken
from fdprof.version import VERSION

_RECORDINGS = "recordings"


class CollectorTracer:
    """The collector of ops/collector around a command: every process of it that uses CUDA or NVTX is recorded."""

    tool = "fdprof's own collector (CUPTI)"
    prelude = ""

    def missing(self, request: Request) -> FdprofError | None:
        from fdprof.ops.collector.build import collector_library

        try:
            supervision.require_command(request.command[0], request.environment)
            _check(request)
            collector_library()
        except FdprofError as error:
            return error
        return None

    def take(self, request: Request) -> Taken:
        from fdprof.ops.collector.native import environment

        asked = dict(request.environment)
        cuda = asked.get("FDPROF_COLLECT_CUDA") != "0"
        raw = request.folder / _RECORDINGS
        raw.mkdir()
        variables = {
            **environment(raw, cuda=cuda),
            "FDPROF_COLLECT_GRAPH": request.graph_trace,
            "FDPROF_COLLECT_RANGE": request.capture_range or "",
            "FDPROF_COLLECT_REPEAT": str(request.repeat),
            **asked,
        }
        outcome = supervision.run(
            request.command,
            limit_s=request.limit_s,
            environment=tuple(variables.items()),
            quiet=request.quiet,
            tell=request.progress,
        )
        request.progress("reading what the collector wrote")
        captures, tool = [], f"fdprof {VERSION}, collector"
        for number, folders in enumerate(recordings_in(raw), start=1):
            capture = read_recording(folders)
            if not cuda:
                others = (limit for limit in capture.limits if limit != NO_CALLS)
                capture = replace(capture, limits=("only ranges were recorded: CUDA was not traced", *others))
            captures.append(_saved(capture, request.folder / f"capture-{number}"))
            tool = capture.tool
        notes = [f"the collector could not start: {error}" for error in errors_in(raw)]
        notes += [] if notes else _too_few(request, len(captures))
        shutil.rmtree(raw, ignore_errors=True)
        return Taken(outcome, tuple(captures), tool, request.command, tuple(notes))


def _check(request: Request) -> None:
    if request.graph_trace not in GRAPH_TRACES:
        raise UsageError(f"no graph trace is named {request.graph_trace!r}", f"one of: {', '.join(GRAPH_TRACES)}")
    if request.repeat > 1 and request.capture_range is None:
        raise UsageError(
            f"{request.repeat} captures of one command need a range to repeat",
            f"say which range each of them is: {CUDA_PROFILER_API}, or the name of an NVTX range",
        )


def _too_few(request: Request, captures: int) -> list[str]:
    """Return why there are fewer captures than were asked for, if there are."""
    if request.capture_range is not None and captures < request.repeat:
        taken = f"{captures} of {request.repeat} captures were taken"
        return [f"the range {request.capture_range} did not begin often enough: {taken}"]
    return [] if captures else ["no process of the command used CUDA or NVTX"]


def _saved(capture: Capture, folder: Path) -> Path:
    save_capture(capture, folder)
    return folder


TRACER = CollectorTracer()
