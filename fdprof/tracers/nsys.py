"""Takes captures with Nsight Systems: `nsys profile` around the command, then its report exported to sqlite.

OS calls (osrt) are not traced: nothing in fdprof reads them, and each costs the command its time.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from fdprof.call_stacks import Diagnosis
from fdprof.errors import EnvironmentMissing, FdprofError, UsageError
from fdprof.nsys_tool import Nsys, importer_problem, profile_options, require_nsys
from fdprof.supervision import require_command
from fdprof.tracers._nsys_session import COMMON, EXPORT, REPORT, Session, finished, known, range_options
from fdprof.tracers.protocol import CUDA_PROFILER_API, GRAPH_TRACES, Request, Taken

_LONGEST_S = 300  # Nsight Systems' manual: longer captures are "not officially supported"
_OLD_NVTX = "payload extension is incompatible"


class NsysTracer:
    """`nsys profile`."""

    tool = "Nsight Systems (nsys)"
    prelude = ""

    def missing(self, request: Request) -> FdprofError | None:
        try:
            require_command(request.command[0], request.environment)
            nsys = require_nsys()
        except (UsageError, EnvironmentMissing) as error:
            return error
        if request.graph_trace not in GRAPH_TRACES:
            return UsageError(f"no graph trace is named {request.graph_trace!r}", f"one of: {', '.join(GRAPH_TRACES)}")
        if request.repeat > 1 and request.capture_range is None:
            return UsageError(
                f"{request.repeat} captures of one command need a range to repeat",
                f"say which range each of them is: {CUDA_PROFILER_API}, or the name of an NVTX range",
            )
        return importer_problem(nsys)  # before the command runs, so that no run is lost for want of a library

    def take(self, request: Request) -> Taken:
        nsys = require_nsys()
        offered = profile_options(nsys)
        wanted = ["--sample=none", f"--cuda-graph-trace={request.graph_trace}", *range_options(request)]
        session = Session(nsys, request, known(("--trace=cuda,nvtx", *COMMON, *wanted), offered))
        outcome = session.run()
        captures, notes = list(session.recorded()), list(session.notes)
        with _not_cut_short(notes):
            for at, made in enumerate(captures):
                captures[at] = finished(nsys, made, request, notes)
        captures = [capture if capture.exists() else capture.with_suffix(REPORT) for capture in captures]
        exports = [capture for capture in captures if capture.suffix == EXPORT]
        return Taken(
            outcome=outcome,
            captures=tuple(captures),
            tool=nsys.name,
            arguments=session.arguments,
            notes=tuple(dict.fromkeys([*notes, *_notes(request, captures), *_nvtx_notes(nsys, exports)])),
        )

    def diagnose(self, request: Request) -> Diagnosis:
        """Run the command once more with back-traces; return whence it calls what waits and copies, without times."""
        from fdprof.tracers._nsys_diagnosis import diagnose

        return diagnose(request)


@contextlib.contextmanager
def _not_cut_short(notes: list[str]) -> Iterator[None]:
    """Let Ctrl-C end the work on the reports and not lose them: they can be finished later."""
    try:
        yield
    except KeyboardInterrupt:
        notes.append("interrupted before its report was exported: fdprof analyze exports it")


def _notes(request: Request, captures: list[Path]) -> Iterator[str]:
    if request.limit_s > _LONGEST_S:
        yield (
            f"Nsight Systems does not officially support captures of more than {_LONGEST_S // 60} minutes: "
            "of a longer command capture a range"
        )
    if request.capture_range is not None and len(captures) < request.repeat:
        taken = f"{len(captures)} of {request.repeat} captures were taken"
        yield f"the range {request.capture_range} did not begin often enough: {taken}"


def _nvtx_notes(nsys: Nsys, exports: list[Path]) -> Iterator[str]:
    """Say when nsys and the command's NVTX do not understand each other: its ranges are missing, the steps too.

    nsys 2024.2 records none of the ranges of the Python package nvtx 0.2.12 to 0.2.17, and all of 0.2.11's.
    """
    from fdprof.importers._nsys_stacks import messages  # and with it Arrow, which a list of tracers does without

    for path in exports:
        if any(_OLD_NVTX in message for message in messages(path)):
            yield (
                f"{nsys.name} is older than the NVTX that the command uses: it loses ranges of the Python package nvtx "
                "from 0.2.12 on, and keeps those of fdprof's markers; use a newer nsys"
            )
            return


TRACER = NsysTracer()
