"""Carries a capture out: chooses the tracer, runs the command under it, saves and analyzes what came of it."""

import datetime
import re
import signal
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from fdprof import plugins
from fdprof.cli.captures import Progress, again, naming
from fdprof.cli.options import say, show
from fdprof.errors import EnvironmentMissing, FdprofError, InputError, UsageError
from fdprof.supervision import Ended, Outcome, Stops, require_command, stoppable
from fdprof.tracers.protocol import Diagnosing, Request, Taken, Tracer
from fdprof.units import printable

if TYPE_CHECKING:  # NumPy is behind it, and --help must not wait for NumPy
    from fdprof.analysis.capture_result import CaptureResult
    from fdprof.traced_loop import Loop

AUTO = "auto"
_PREFERRED = ("nsys", "fdprof")
"""What `auto` tries: nsys first, since its captures can be looked at in its own program too."""

_SIGNALLED = 128

_CALIBRATED_BARE = "its kernels are those that a bare process calibrated, as in all processes of its inflation"


@dataclass(frozen=True, slots=True)
class Wish:
    """What to capture, how, and what to do with it. `runs` is None where nothing is to be kept."""

    command: tuple[str, ...]
    name: str
    scenario: str | None
    mode: str | None
    tracer: str
    limit_s: float
    graph_trace: str
    capture_range: str | None
    repeat: int
    is_diagnosed: bool
    inflation_rounds: int  # 0: the inflation is not measured
    is_quiet: bool
    step_range: re.Pattern[str] | None
    loop: "Loop | None"  # of a scenario
    first: int | None
    last: int | None
    json: bool
    output: Path | None
    force: bool
    runs: Path | None
    notes: tuple[str, ...] = ()  # about every capture


def carry_out(wish: Wish) -> None:
    """Capture, save, report, and end with the command's exit code where that is not 0."""
    require_command(wish.command[0])
    with stoppable() as stops, _place(wish.runs) as place:
        request = _request(wish, place / "timed")
        name, tracer, why = tracer_for(wish.tracer, request)
        if wish.is_diagnosed and not isinstance(tracer, Diagnosing):
            raise UsageError(f"--diagnose: {name} takes no back-traces", "use --with nsys, or leave it out")
        _tell_user(f"tracer {name}: {why}")
        wish, request = _calibrated(wish, request, place)
        stops.release()
        now = datetime.datetime.now(datetime.timezone.utc)
        taken = tracer.take(request)
        _tell(taken.outcome, wish.limit_s)
        if not taken.captures:
            _end_without(wish, taken, request.folder, now, stops)
        folders = _kept(wish, name, taken, wish.runs or place, now)
        stops.release()
        results, failed = _analyzed_all(wish, folders)
        stopped = None
        if results and wish.inflation_rounds:
            again = _request(wish, place / "inflation")
            stopped = _measure_inflation(wish, name, again, taken.outcome, folders, stops)
            results, failed = _analyzed_all(wish, folders)
        _report(wish, folders, results, failed)
        if isinstance(tracer, Diagnosing) and wish.is_diagnosed and stopped is None:
            _diagnose(wish, tracer, _request(wish, place / "diagnosis"), taken.outcome, folders[0])
            stops.release()
    if stopped is not None:
        raise stopped
    if taken.outcome.exit_code:
        if failed:
            _tell_user(f"fdprof: {printable(str(failed[0]))}")
        raise typer.Exit(taken.outcome.exit_code)
    if failed:
        raise failed[0]


def tracer_for(wanted: str, request: Request) -> tuple[str, Tracer, str]:
    """Return a tracer with its name, and why it is this one; FdprofError where it cannot do what is asked."""
    problems: list[tuple[str, FdprofError]] = []
    for name in _PREFERRED if wanted == AUTO else (wanted,):
        tracer: Tracer = plugins.load("tracers", name, others=(AUTO,))
        problem = tracer.missing(request)
        if problem is None:
            why = "; ".join(f"{other} cannot: {error}" for other, error in problems)
            return name, tracer, printable(why or ("it works here" if wanted == AUTO else "as asked for"))
        problems.append((name, problem))
    if wanted != AUTO:
        raise problems[0][1]
    is_missing = any(isinstance(error, EnvironmentMissing) for _, error in problems)
    kind = EnvironmentMissing if is_missing else UsageError
    raise kind(
        "nothing to capture with: " + "; ".join(f"{name}: {error}" for name, error in problems), problems[0][1].hint
    )


@contextmanager
def _place(runs: Path | None) -> Iterator[Path]:
    """Give a folder for all files of the capture, on the file system that it is saved on; it is removed at the end."""
    if runs is None:
        with tempfile.TemporaryDirectory(prefix="fdprof-", ignore_cleanup_errors=True) as folder:
            yield Path(folder)
        return
    from fdprof import folders

    is_new = not runs.exists()
    try:
        with folders.scratch_beside(runs / "capture") as scratch:
            yield scratch
    finally:
        if is_new:
            with suppress(OSError):  # something was saved there
                runs.rmdir()


def _request(wish: Wish, folder: Path) -> Request:
    folder.mkdir()
    return Request(
        command=wish.command,
        folder=folder,
        limit_s=wish.limit_s,
        graph_trace=wish.graph_trace,
        capture_range=wish.capture_range,
        repeat=wish.repeat,
        quiet=wish.is_quiet,
        progress=Progress(sys.stderr.isatty()),
    )


def _calibrated(wish: Wish, request: Request, place: Path) -> tuple[Wish, Request]:
    """Return wish and request with kernels that a bare process calibrates, where the inflation of a loop is wanted.

    All that follows runs those.  The capture stands without: what goes wrong is said, and no inflation is measured.
    """
    if wish.loop is None or wish.loop.work_of is not None or not wish.inflation_rounds:
        return wish, request
    from fdprof.traced_loop import calibrated, work_option

    _tell_user("calibration: bare, for the capture and its inflation")
    try:
        loop = calibrated(wish.loop, place / "calibration")
    except FdprofError as error:
        _tell_user(f"fdprof: the inflation is not measured: {printable(str(error))}")
        return replace(wish, inflation_rounds=0), request
    command = (*request.command, *work_option(loop.work_of))
    return replace(wish, loop=loop, notes=(_CALIBRATED_BARE,)), replace(request, command=command)


def _tell_user(text: str) -> None:
    """Print a line of prose on standard error; where that cannot be written, no capture is lost for it."""
    with suppress(OSError):
        say(text)


def _tell(outcome: Outcome, limit_s: float) -> None:
    """Say how the command ended, unless it ended well."""
    if outcome.ended is Ended.LIMIT:
        _tell_user(f"fdprof: the command ran past --limit {limit_s:g} s and was ended")
    elif outcome.ended is Ended.INTERRUPTED:
        _tell_user("fdprof: interrupted: the command was ended")
    elif outcome.ended is Ended.SIGNAL:
        _tell_user(f"fdprof: the command was ended by {_signal_name(outcome.exit_code - _SIGNALLED)}")
    elif outcome.exit_code:
        _tell_user(f"fdprof: the command ended with exit code {outcome.exit_code}")
    if outcome.left:
        _tell_user(f"fdprof: ended what the command had left running: {', '.join(outcome.left)}")


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _kept(wish: Wish, tracer: str, taken: Taken, root: Path, now: datetime.datetime) -> list[Path]:
    """Return a folder for each capture, with the record of how it came about."""
    from fdprof import captured

    record = captured.Captured(
        tracer=tracer,
        tool=printable(taken.tool),
        command=wish.command,
        arguments=taken.arguments,
        scenario=wish.scenario,
        mode=wish.mode,
        started_utc=now.isoformat(timespec="seconds"),
        exit_code=taken.outcome.exit_code,
        ended=taken.outcome.ended,
        capture="",
        notes=(*taken.notes, *wish.notes),
    )
    found = []
    for each in taken.captures:
        found.append(captured.save(root, _folder_name(wish, now), each, record))
        if wish.runs is not None:
            _tell_user(f"saved {found[-1]}")
    return found


def _folder_name(wish: Wish, now: datetime.datetime) -> str:
    return f"{now:%Y%m%d-%H%M%S}-capture-{wish.name}"


def _end_without(wish: Wish, taken: Taken, folder: Path, now: datetime.datetime, stops: Stops) -> None:
    """End a call that captured nothing, with what can still be made of what the tracer left."""
    from fdprof import folders

    notes = taken.notes
    if any(folder.iterdir()) and wish.runs is not None:

        def fill(scratch: Path) -> None:
            for each in list(folder.iterdir()):
                each.rename(scratch / each.name)

        kept = folders.make_unused(wish.runs, _folder_name(wish, now) + "-unfinished", fill)
        notes = tuple(note.replace(str(folder), str(kept)) for note in notes)
        _tell_user(f"saved what {taken.tool} left: {kept}")
    reason = " ".join(notes) or f"{taken.tool} wrote no capture and gave no reason"
    if taken.outcome.exit_code:
        _tell_user(f"fdprof: nothing was captured: {printable(reason)}")
        raise typer.Exit(taken.outcome.exit_code)
    stops.release()
    raise InputError(
        f"nothing was captured: {printable(reason)}",
        "does the command use the GPU, and reach its capture range?"
        if wish.capture_range is not None
        else "does the command use the GPU? torch and paddle see the process that it starts alone, nsys and fdprof all",
    )


def _measure_inflation(
    wish: Wish, tracer: str, request: Request, outcome: Outcome, captures: Sequence[Path], stops: Stops
) -> KeyboardInterrupt | None:
    """Measure how much longer a step is for being traced, and write it beside the captures.

    The capture stands without it, so what goes wrong is said and no more.  Return the signal that stopped it, if one
    did.
    """
    if outcome.exit_code:
        _tell_user("fdprof: the inflation is not measured: the command did not end well")
        return None
    from fdprof import captured
    from fdprof.overhead import measured_inflation

    try:
        try:
            inflation = measured_inflation(
                request,
                tracer,
                wish.inflation_rounds,
                loop=wish.loop,
                traced=captures if len(captures) == 1 else (),
                step_range=wish.step_range,
                progress=_tell_user,
            )
        finally:  # also where it failed: nothing is held any more
            stops.release()
    except KeyboardInterrupt as signalled:
        _tell_user("fdprof: interrupted: the inflation is not measured")
        return signalled
    except FdprofError as error:
        _tell_user(f"fdprof: the inflation is not measured: {printable(str(error))}")
        return None
    for folder in captures:
        captured.with_inflation(folder, inflation)
    return None


def _analyzed_all(wish: Wish, captures: Sequence[Path]) -> "tuple[list[CaptureResult], list[FdprofError]]":
    """Return the analyses of the captures that can be used, and the errors of those that cannot."""
    results: list[CaptureResult] = []
    failed: list[FdprofError] = []
    for folder in captures:
        try:
            results.append(_analyzed(wish, folder))
        except FdprofError as error:
            failed.append(error)
    return results, failed


def _report(
    wish: Wish, captures: Sequence[Path], results: "Sequence[CaptureResult]", failed: Sequence[FdprofError]
) -> None:
    """Report what could be analyzed; the first error is the caller's to raise."""
    from fdprof.reports.protocol import Analyses

    if results:
        show(results[0] if len(captures) == 1 else Analyses(tuple(results)), wish.json, wish.output, wish.force)
    for other in failed[1:]:
        _tell_user(f"fdprof: {printable(str(other))}")


def _analyzed(wish: Wish, folder: Path) -> "CaptureResult":
    from fdprof.analysis.capture_result import analyze
    from fdprof.analysis.steps import Choice
    from fdprof.imports import import_capture

    progress = Progress(sys.stderr.isatty())
    # Of a capture that is not kept nobody can use the path.
    label = str(folder) if wish.runs is not None else folder.name
    choice = Choice(process=None, thread=None, device=None, step_range=wish.step_range)
    with naming(Path(label)):
        capture = import_capture(folder, progress)
        progress(f"{label}: {capture.rows:,} rows read; computing the ledger")
        result = analyze(replace(capture, limits=(*capture.limits, *_warm_up(wish))), label, choice, None, *_part(wish))
    return replace(result, again=None if wish.runs is None else again(folder, wish.step_range))


def _part(wish: Wish) -> tuple[int | None, int | None]:
    return wish.first or None, wish.last


def _warm_up(wish: Wish) -> tuple[str, ...]:
    """Return the note that a scenario's warm-up is left out, which a capture does not mark."""
    if wish.scenario is None or not wish.first:
        return ()
    return (f"the {wish.first} steps of --warmup are left out, as by fdprof analyze --steps {wish.first}:",)


def _diagnose(wish: Wish, tracer: Diagnosing, request: Request, outcome: Outcome, folder: Path) -> None:
    """Print what a second pass with back-traces finds, and save it beside the capture."""
    if outcome.exit_code:
        _tell_user("fdprof: no second pass with back-traces: the command did not end well")
        return
    from fdprof.documents import write_text

    lines = [printable(line) for line in tracer.diagnose(request).text_lines()]
    typer.echo("\n".join(lines), err=wish.json)
    if wish.runs is not None:
        write_text(folder / "diagnosis.txt", "\n".join(lines) + "\n")
