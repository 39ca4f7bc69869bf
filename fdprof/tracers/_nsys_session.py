"""One `nsys profile` of a command: its options, its streams and temporary files, and what it leaves as files.

Facts that this rests on, tried with nsys 2024.2.3: nsys gives the command a session of its own, passes SIGINT and
SIGTERM on to it, waits for it however long that takes, writes its report then, and ends with the command's exit code,
128 + N where signal N ended it.  Killed itself, it leaves the command running and no report.  Several at once do not
disturb each other.  `--capture-range-end=stop-shutdown`, nsys's default, ends the command when the range ends.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from fdprof.errors import EnvironmentMissing, FdprofError
from fdprof.nsys_tool import Nsys, export, make_report
from fdprof.supervision import Ended, Outcome, run
from fdprof.tracers.protocol import CUDA_PROFILER_API, Request

REPORT, RECORDING, EXPORT = ".nsys-rep", ".qdstrm", ".sqlite"

_FINISH_S = 600.0  # importing what was recorded: some 20 s a gigabyte, and the machine may be slow
_SIGNALLED = 128
_LAST_LINES = 3
_WARNINGS_SHOWN = 3
_NO_NEWS = ("[", "Generat", "    /")  # bars, and the names of files

# `$0` is a file: of nsys's own words in the outer one, which keeps them off the command's streams, and in the inner one
# a sign that the command was started.  The command gets the streams that nsys was given, by way of 3 and 4, which nsys
# hands down: a pipe of nsys's own would cost it time, and its output its order.
_OUTER = 'exec "$@" 3>&1 4>&2 >"$0" 2>&1'
_INNER = ': >"$0"; {restore}exec "$@" >&3 2>&4 3>&- 4>&-'

COMMON = (
    "--cpuctxsw=none",
    "--cuda-event-trace=false",  # it can make streams wait for each other that otherwise do not
    "--trace-fork-before-exec=true",  # engines fork their workers; without it their device rows are missing
    "--wait=primary",  # not for what the command leaves running, which may be for ever
    "--force-overwrite=true",
)


def known(options: Iterable[str], offered: frozenset[str]) -> tuple[str, ...]:
    """Return the options that this version of nsys has: one that it has not would stop it."""
    return tuple(option for option in options if option.partition("=")[0] in offered)


def range_options(request: Request) -> tuple[str, ...]:
    if request.capture_range is None:
        return ()
    # "stop" and "repeat" let the command go on to its end; their namesakes with "shutdown" end it.
    end = "stop" if request.repeat == 1 else f"repeat:{request.repeat}"
    if request.capture_range == CUDA_PROFILER_API:
        return (f"--capture-range={CUDA_PROFILER_API}", f"--capture-range-end={end}")
    return (
        "--capture-range=nvtx",
        f"--nvtx-capture={request.capture_range}",
        # Without it only ranges whose names are registered strings count, which those of C++ seldom are.
        "--env-var=NSYS_NVTX_PROFILER_REGISTER_ONLY=0",
        f"--capture-range-end={end}",
    )


class Session:
    """One `nsys profile` of a command. `notes` are what there is to say of it, after `run`."""

    def __init__(self, nsys: Nsys, request: Request, options: Iterable[str]) -> None:
        self._nsys, self._request = nsys, request
        self._options = ("profile", *options, f"--output={request.folder / 'report'}")
        self.arguments = (str(nsys.path), *self._options, *request.command)
        self.notes: list[str] = []

    def run(self) -> Outcome:
        """Run it and return how the command ended; EnvironmentMissing when nsys did not get to start it."""
        request = self._request
        log, started = request.folder / "nsys.log", request.folder / "started"
        # nsys keeps its files, its locks too, where TMPDIR says, and leaves some of them.
        with tempfile.TemporaryDirectory(prefix="fdprof-nsys-", ignore_cleanup_errors=True) as scratch:
            inner = ("/bin/sh", "-c", _INNER.format(restore=_restored(request)), str(started), *request.command)
            outer = ("/bin/sh", "-c", _OUTER, str(log), str(self._nsys.path), *self._options, *inner)
            request.progress(f"running {request.command[0]} under {self._nsys.name}")
            outcome = run(
                outer,
                limit_s=request.limit_s,
                environment=(*request.environment, ("TMPDIR", scratch)),
                quiet=request.quiet,
                ends_itself=True,
                finish_s=_FINISH_S,
                tell=request.progress,
            )
            _rescue(Path(scratch), request.folder)
        said = _words(log)
        is_started = started.exists()
        for file in (log, started):
            file.unlink(missing_ok=True)
        if not is_started and outcome.ended in (Ended.EXIT, Ended.SIGNAL):
            raise EnvironmentMissing(
                f"{self._nsys.name} did not start the command (exit code {outcome.exit_code}): "
                + ("; ".join(said[-_LAST_LINES:]) or "it said nothing"),
                f"try it by hand: {shlex.join(self.arguments)}",
            )
        if not self._reports() and request.capture_range is None:
            self.notes.append(f"{self._nsys.name} said: {'; '.join(said[-_LAST_LINES:]) or 'nothing'}")
        warnings = [line for line in said if line.upper().startswith(("WARNING", "ERROR"))]
        self.notes += [f"nsys says: {line}" for line in warnings[:_WARNINGS_SHOWN]]
        return _as_the_command_ended(outcome)

    def recorded(self) -> Iterator[Path]:
        """Yield the reports, or where one was not made of it the recordings, in the order they were taken."""
        found = self._reports()
        for number, path in enumerate(found, 1):
            # Without a dot within, so that a report and its export have one stem.
            name = f"report{path.suffix}" if len(found) == 1 else f"report-{number}{path.suffix}"
            yield path.rename(path.with_name(name))

    def _reports(self) -> list[Path]:
        reports = [*self._request.folder.glob(f"*{REPORT}")]
        stems = {path.stem for path in reports}
        raw = [path for path in self._request.folder.glob(f"*{RECORDING}") if path.stem not in stems]
        return sorted([*reports, *raw], key=_number)


def _number(path: Path) -> tuple[int, str]:
    """Return a key that puts report.10 behind report.9."""
    number = path.stem.rpartition(".")[2]
    return (int(number) if number.isdigit() else 0, path.name)


def _restored(request: Request) -> str:
    """Return the shell's words that give the command the TMPDIR it would have without nsys."""
    before = dict(request.environment).get("TMPDIR", os.environ.get("TMPDIR"))
    return "unset TMPDIR; " if before is None else f"TMPDIR={shlex.quote(before)}; "


def _rescue(scratch: Path, folder: Path) -> None:
    """Keep a recording that nsys was killed over before it had moved it to where it belongs."""
    for number, path in enumerate(sorted(scratch.rglob(f"*{RECORDING}")), 1):
        shutil.move(path, folder / f"unfinished.{number}{RECORDING}")


def _words(log: Path) -> list[str]:
    """Return the lines of nsys's own output, without its progress bars."""
    if not log.exists():
        return []
    lines = log.read_text(encoding="utf-8", errors="replace").replace("\r", "\n").splitlines()
    return [line.strip()[:300] for line in lines if line.strip() and not line.startswith(_NO_NEWS)]


def _as_the_command_ended(outcome: Outcome) -> Outcome:
    """Return the outcome of the command, of which nsys tells a signal as a shell does: by an exit code above 128."""
    number = outcome.exit_code - _SIGNALLED
    is_signal = outcome.ended is Ended.EXIT and number in set(signal.Signals)
    return replace(outcome, ended=Ended.SIGNAL) if is_signal else outcome


def finished(nsys: Nsys, made: Path, request: Request, notes: list[str]) -> Path:
    """Return the export of a report or recording; what it was made of where that fails, which a note then says."""
    report = made
    try:
        if made.suffix == RECORDING:
            request.progress(f"making a report of {made.name}")
            make_report(nsys, made, made.with_suffix(REPORT))
            made.unlink()
            report = made.with_suffix(REPORT)
        request.progress(f"exporting {report.name}")
        output = report.with_suffix(EXPORT)
        export(nsys, report, output)
    except FdprofError as error:
        # The folder is not where it will be kept.
        why = str(error).replace(f"{request.folder}/", "")
        notes.append(f"not finished: {why}. fdprof analyze tries again, and says how to do it by hand")
        return report
    return output
