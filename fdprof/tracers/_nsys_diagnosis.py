"""The second pass under nsys: the command once more, with a back-trace of each call that waits or copies.

Unwinding makes such calls several times as long, so nothing of this pass is timed: it yields counts and call stacks.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from fdprof.call_stacks import CallStack, Diagnosis, origins_of
from fdprof.errors import FdprofError
from fdprof.importers._nsys_stacks import PythonStack, call_stacks, messages, python_stacks
from fdprof.nsys_tool import Nsys, export, export_formats, profile_options, require_nsys, sampling_problem
from fdprof.supervision import Ended, Stopped
from fdprof.tracers._nsys_session import COMMON, EXPORT, REPORT, Session, finished, known, range_options
from fdprof.tracers.protocol import Request

THRESHOLD_NS = 20_000
"""Shorter calls get no back-trace: they do not wait for device work worth the name."""

_PYTHON = "--python-backtrace"
_NATIVE = "--cudabacktrace"


def diagnose(request: Request) -> Diagnosis:
    """Run the command once more and return whence it calls what waits and copies."""
    nsys, once = require_nsys(), replace(request, repeat=1)
    offered = profile_options(nsys)
    options = (
        "--trace=cuda,nvtx",  # NVTX carries Python's stacks, and capture ranges
        *COMMON,
        "--sample=process-tree",  # back-traces come only where the CPU is sampled
        # All: `memory` means allocations, and cudaMemcpy got no stack by it (nsys 2025.3.1).
        f"{_NATIVE}=all:{THRESHOLD_NS}",
        f"{_PYTHON}=cuda",
        "--cuda-graph-trace=node",
        *range_options(once),
    )
    session = Session(nsys, once, known(options, offered))
    outcome = session.run()
    notes = [*_not_offered(nsys, offered), *session.notes]
    stacks: list[CallStack] = []
    for made in session.recorded():
        exported = finished(nsys, made, once, notes)
        if exported.suffix == EXPORT:
            python = _python(nsys, exported.with_suffix(REPORT), once, notes)
            stacks += call_stacks(exported, python, request.progress)
            notes += _said(exported)
    if outcome.ended is Ended.INTERRUPTED:
        raise Stopped(outcome.exit_code)
    if not stacks:
        problem = sampling_problem(nsys)
        notes.append(problem or f"no CUDA call of more than {THRESHOLD_NS // 1000} µs that waits or copies had a stack")
    return Diagnosis(
        tool=nsys.name,
        arguments=session.arguments,
        exit_code=outcome.exit_code,
        threshold_ns=THRESHOLD_NS,
        calls=origins_of(stacks),
        notes=tuple(dict.fromkeys(notes)),
    )


def _not_offered(nsys: Nsys, offered: frozenset[str]) -> Iterator[str]:
    for option, whose in ((_NATIVE, "native"), (_PYTHON, "Python's")):
        if option not in offered:
            yield f"{nsys.name} has no {option}: {whose} call stacks are not recorded"


def _python(nsys: Nsys, report: Path, request: Request, notes: list[str]) -> tuple[PythonStack, ...]:
    """Return Python's stacks in a report, which its sqlite export leaves out; none, with a note, where that fails."""
    forms = export_formats(nsys)
    form = next((form for form in ("jsonlines", "json") if form in forms), None)
    if form is None:
        notes.append(f"{nsys.name} exports no JSON, which alone holds Python's call stacks")
        return ()
    document = report.with_name(f"{report.stem}.python.json")
    try:
        request.progress(f"reading Python's call stacks of {report.name}")
        export(nsys, report, document, form)
        return python_stacks(document)
    except FdprofError as error:
        notes.append(f"no Python call stacks: {error}")
        return ()
    finally:
        document.unlink(missing_ok=True)


def _said(exported: Path) -> Iterator[str]:
    """Yield what nsys says about back-traces that it could not take."""
    for message in messages(exported):
        words = message.lower()
        if ("backtrace" in words or "sampling" in words) and any(
            sign in words for sign in ("fail", "not ", "unable", "cannot", "disabled", "lost")
        ):
            yield f"nsys says: {message[:300]}"
