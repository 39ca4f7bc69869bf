"""One loop under one condition, bare or under a tracer, in a process of its own.

The times are those of the run's own recorder, whatever traces it: every condition is measured with one ruler, and the
tracer's capture is thrown away.  The kernels are calibrated once, by a bare process, and every condition runs those:
fdprof.calibration says why.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fdprof import plugins, store, supervision
from fdprof.analysis.run_times import counted_windows
from fdprof.analysis.sides import settled
from fdprof.errors import EnvironmentMissing, FdprofError, ScenarioFailed, UsageError
from fdprof.imports import import_capture
from fdprof.model import IntColumn, Run
from fdprof.params import Extent, LoopParams
from fdprof.supervision import Ended, Outcome, Stopped
from fdprof.tracers.protocol import Request, Taken, Tracer
from fdprof.units import printable

RANGES_ONLY = (("FDPROF_COLLECT_CUDA", "0"),)
"""Makes our collector listen to ranges and trace nothing else."""

_INTERRUPTED = 130
_START_S = 300.0
"""What starting a process and ending a tracer may take, beside the loop itself: nsys alone takes 20 s on an H200."""

_SLOWEST = 20
"""A traced loop may take so many times its work before it is given up."""

_TOLD = 200  # characters of a failed process's last line


@dataclass(frozen=True, slots=True)
class Setting:
    """One condition to run the loop under. `tracer` is None for the bare loop."""

    name: str
    summary: str
    tracer: str | None
    graph_trace: str = "graph"
    environment: tuple[tuple[str, str], ...] = ()


BARE = Setting("bare", "no tool", None)
NVTX = Setting("nvtx", "something listens to the ranges, nothing traces CUDA", "fdprof", environment=RANGES_ONLY)
SETTINGS = (
    BARE,
    NVTX,
    Setting("fdprof", "our own collector", "fdprof"),
    Setting("nsys-graph", "Nsight Systems, a CUDA graph as one piece of work", "nsys", "graph"),
    Setting("nsys-node", "Nsight Systems, every kernel of a CUDA graph", "nsys", "node"),
    Setting("torch", "torch.profiler (Kineto)", "torch"),
    Setting("paddle", "paddle.profiler", "paddle"),
)
"""In the order of the report."""

COLLECTOR = "fdprof"


def run_command(scenario: str, prelude: str) -> tuple[str, ...]:
    """Return the beginning of a command line that runs a scenario, with a tracer's prelude before it."""
    start = ("-c", f"{prelude}; from fdprof.__main__ import main; main()") if prelude else ("-m", "fdprof")
    return (sys.executable, *start, "run", scenario)


@dataclass(frozen=True, slots=True)
class Loop:
    """What every process runs: so many blocks of a scenario in a mode, with the kernels of the run in `work_of`."""

    scenario: str
    mode: str
    backend: str
    blocks: int
    params: LoopParams
    extent: Extent
    work_of: Path | None = None  # each process calibrates its own

    def command(self, runs: Path, prelude: str = "") -> tuple[str, ...]:
        """Return the command line that records this loop and saves it below `runs`; `prelude` is a tracer's."""
        given = dataclasses.asdict(self.params) | dataclasses.asdict(self.extent)
        options = [word for name, value in given.items() for word in ("--" + name.replace("_", "-"), str(value))]
        where = ("--mode", self.mode, "--backend", self.backend, "--blocks", str(self.blocks), "--runs", str(runs))
        return (*run_command(self.scenario, prelude), *where, *options, *work_option(self.work_of))

    @property
    def limit_s(self) -> float:
        """How long one process may take."""
        steps = self.blocks * (self.extent.warmup + self.extent.steps)
        work_us = self.params.device_us + self.params.schedule_us + self.params.save_output_us
        return _START_S + _SLOWEST * steps * work_us * 1e-6 + self.extent.timeout


def work_option(work_of: Path | None) -> tuple[str, ...]:
    """Return the words by which a command line of `fdprof run` gets the kernels of a saved run."""
    return () if work_of is None else ("--work-of", str(work_of))


def settings_of(names: str | None) -> tuple[Setting, ...]:
    """Return the bare loop and the named conditions (all for None); UsageError for a name that is none."""
    if names is None:
        return SETTINGS
    known = {setting.name: setting for setting in SETTINGS}
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"did you mean {near[0]}?" if near else f"choose from: {', '.join(known)}"
            raise UsageError(f"--with names {name!r}, which is no condition", hint)
    return tuple(setting for setting in SETTINGS if setting is BARE or setting.name in wanted)


def real_backend(name: str) -> str:
    """Return the backend that the processes take.

    EnvironmentMissing where that would be the simulator: its times are virtual, and no tracer changes them.
    """
    problem: tuple[str, str] | None = None
    if name == "auto":
        problem = plugins.load("backends", "paddle").missing()
        name = "paddle" if problem is None else "sim"
    elif name != "sim":
        problem = plugins.load("backends", name, others=("auto",)).missing()
        if problem is not None:
            raise EnvironmentMissing(f"backend {name} cannot run here: {problem[0]}", problem[1])
    if name == "sim":
        why = "" if problem is None else f" and backend auto takes it here: {problem[0]}"
        raise EnvironmentMissing(
            f"what profiling costs cannot be measured on sim: its times are virtual{why}",
            "run it where a GPU works with Paddle; `fdprof doctor` lists what is missing here",
        )
    return name


def missing_here(setting: Setting, loop: Loop) -> str | None:
    """Return why a condition cannot run here, None where it can."""
    if setting.tracer is None:
        return None
    with tempfile.TemporaryDirectory(prefix="fdprof-") as folder:
        try:
            command = loop.command(Path(folder), _prelude(setting))
            problem = _tracer(setting.tracer).missing(_request(setting, command, Path(folder), loop.limit_s))
        except FdprofError as error:
            return in_words(error)
    return None if problem is None else in_words(problem)


def in_words(error: FdprofError) -> str:
    return f"{error} ({error.hint})" if error.hint else str(error)


def step_times(run: Run) -> IntColumn:
    """Return the counted steps of all blocks, ns, the warm-up of the blocks left out."""
    return np.concatenate([counted_windows(block) for block in settled(run)[0].blocks])


def calibrated(loop: Loop, runs: Path) -> Loop:
    """Return the loop with the kernels that a bare process calibrates for it; its run of one block is saved in `runs`.

    A process of its own, and not the first that is measured: so no measured one calibrates, the bare ones neither.
    What `run_once` raises.
    """
    if loop.work_of is not None:
        return loop
    run_once(replace(loop, blocks=1), BARE, runs)
    folder = next(entry for entry in runs.iterdir() if store.is_run(entry))
    return replace(loop, work_of=folder.resolve())


def run_once(loop: Loop, setting: Setting, runs: Path) -> tuple[Run, str]:
    """Run the loop in a process of its own and return its run, saved below `runs`, with the tool's name and version.

    ScenarioFailed where the process fails, with what it said last; KeyboardInterrupt for Ctrl-C.
    """
    runs.mkdir(parents=True)
    # The simulator makes no call that a tracer could see.
    traces_cuda = setting.tracer is not None and setting is not NVTX and loop.backend != "sim"
    taken, last = run_under(setting, loop.command(runs, _prelude(setting)), loop.limit_s, traces_cuda)
    require_ended(taken.outcome, setting, last)
    saved = [entry for entry in runs.iterdir() if store.is_run(entry)]
    if len(saved) != 1:
        raise ScenarioFailed(f"under {setting.name} the loop's process saved no run in {runs}", _SEE)
    run = store.load_one(saved[0], "give one run")
    _require_listening(run, setting)
    return run, taken.tool


def _require_listening(run: Run, setting: Setting) -> None:
    """Raise where the bare loop was not bare, or where what should listen to its ranges did not."""
    if setting is BARE and run.environment.nvtx:
        raise ScenarioFailed(
            "the bare loop is not bare: something listens to its NVTX ranges",
            "run fdprof without a profiler around it, and unset NVTX_INJECTION64_PATH",
        )
    if setting is NVTX and not run.environment.nvtx:
        raise ScenarioFailed("nothing listened to the ranges of the loop's process", _SEE)


_SEE = "run it by itself: `fdprof run`, and under the tool: `fdprof capture`"


def run_under(
    setting: Setting, command: tuple[str, ...], limit_s: float, traces_cuda: bool = False
) -> tuple[Taken, str]:
    """Run a command under a condition, and return what came of it, without its capture, and its last line.

    ScenarioFailed where the tool traced nothing, or no CUDA call where it should have: its times would be bare ones.
    """
    with tempfile.TemporaryDirectory(prefix="fdprof-") as scratch:
        folder, log = Path(scratch) / "capture", Path(scratch) / "log"
        folder.mkdir()
        with _output_to(log):
            taken = _take(setting, _request(setting, command, folder, limit_s))
        last = _last_line(log)
        if setting.tracer is not None and not taken.outcome.exit_code and not any(folder.iterdir()):
            why = " ".join(taken.notes) or last
            raise ScenarioFailed(
                f"under {setting.name} {taken.tool} left no file, so nothing was traced{_said(why)}", _SEE
            )
        if traces_cuda and not taken.outcome.exit_code and taken.captures and not _has_calls(taken):
            why = _said(" ".join(taken.notes))
            raise ScenarioFailed(f"under {setting.name} {taken.tool} traced no CUDA call{why}", _SEE)
        return taken, last


def _has_calls(taken: Taken) -> bool:
    return any(len(import_capture(path, lambda _: None).api) for path in taken.captures)


def _take(setting: Setting, request: Request) -> Taken:
    if setting.tracer is None:
        outcome = supervision.run(request.command, limit_s=request.limit_s, environment=request.environment)
        return Taken(outcome, (), "none", request.command)
    return _tracer(setting.tracer).take(request)


def _tracer(name: str) -> Tracer:
    tracer: Tracer = plugins.load("tracers", name)
    return tracer


def _prelude(setting: Setting) -> str:
    return "" if setting.tracer is None else _tracer(setting.tracer).prelude


def _request(setting: Setting, command: tuple[str, ...], folder: Path, limit_s: float) -> Request:
    return Request(
        command=command,
        folder=folder,
        limit_s=limit_s,
        graph_trace=setting.graph_trace,
        environment=setting.environment,
    )


def require_ended(outcome: Outcome, setting: Setting, last: str) -> None:
    """Raise unless the process ended well."""
    if outcome.ended is Ended.INTERRUPTED or outcome.exit_code == _INTERRUPTED:
        raise Stopped(outcome.exit_code)
    if outcome.ended is Ended.LIMIT:
        raise ScenarioFailed(f"under {setting.name} the loop's process ran past its limit and was ended", _SEE)
    if outcome.exit_code:
        code = f"exit code {outcome.exit_code}"
        raise ScenarioFailed(f"under {setting.name} the loop's process ended with {code}{_said(last)}", _SEE)


def _said(last: str) -> str:
    return f": {last}" if last else ""


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Send what processes started here write, reports of runs and banners of tools, to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    try:
        with log.open("wb") as file:
            for number in kept:
                os.dup2(file.fileno(), number)
        yield
    finally:
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)


def _last_line(log: Path) -> str:
    """Return the last line that says what failed: fdprof's own message where there is one."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    own = [line for line in lines if line.startswith("fdprof: ")]
    return printable((own or lines or [""])[-1])[:_TOLD]
