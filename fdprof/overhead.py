"""What profiling costs: one loop bare and under every tracer, in rounds of one process each.

Also the inflation of a capture: the same for one tracer, and for a command of somebody else's.
"""

from __future__ import annotations

import dataclasses
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from fdprof import plugins
from fdprof.alternation import Alternation, read_result, request_document
from fdprof.analysis.inflation import (
    BLOCKS,
    ROUNDS,
    Condition,
    OverheadResult,
    bare_cost,
    cost_of,
    inflation_of,
    marked_windows,
    process_sd,
)
from fdprof.analysis.steps import Choice
from fdprof.capture import Inflation
from fdprof.documents import write_json
from fdprof.errors import FdprofError, ScenarioFailed
from fdprof.imports import import_capture
from fdprof.model import Environment, IntColumn, Run
from fdprof.supervision import Ended, Stopped
from fdprof.traced_loop import (
    BARE,
    COLLECTOR,
    NVTX,
    RANGES_ONLY,
    Loop,
    Setting,
    calibrated,
    in_words,
    missing_here,
    require_ended,
    run_once,
    run_under,
    step_times,
)
from fdprof.tracers.protocol import Request, Tracer

MAX_ROUNDS = 1000

_PAIRS_A_ROUND = 2

Tell = Callable[[str], None]

IN_PROCESS, STOPPED = "fdprof-in-process", "fdprof-stopped"
"""Our collector in blocks of one process, and the blocks after it was stopped."""


@dataclass(slots=True)
class _Measured:
    """What the processes gave so far: step times by round and condition."""

    rounds: list[dict[str, IntColumn]] = field(default_factory=list)
    tools: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    first: Run | None = None
    in_process: tuple[Condition, ...] = ()

    def units(self, name: str) -> tuple[list[IntColumn], list[IntColumn]]:
        """Return bare and traced step times of the rounds that have both."""
        both = [found for found in self.rounds if name in found]
        return [found[BARE.name] for found in both], [found[name] for found in both]


def measure(
    loop: Loop, settings: Sequence[Setting], rounds: int, runs: Path, progress: Tell, say: Tell
) -> OverheadResult:
    """Return what each condition costs the loop.

    A bare process calibrates the kernels first, and every condition runs those.  Each round runs every condition once,
    every second one in reverse order, so that a drift of the machine favours none.  The runs are saved below `runs`.
    What cannot run here, or fails on the way, is told with its reason; where the bare loop fails, ScenarioFailed.
    Ctrl-C keeps the finished rounds; before there is one, it is raised.
    """
    found = _Measured()
    for setting in settings:
        found.tools[setting.name] = "none" if setting.tracer is None else setting.summary
        reason = missing_here(setting, loop)
        if reason is not None:
            found.missing[setting.name] = reason
    progress("calibration: bare, for all conditions")
    loop = calibrated(loop, runs / "calibration")
    interrupted = False
    begun = time.monotonic()
    try:
        for number in range(rounds):
            if not _round(loop, settings, number, rounds, runs, found, progress):
                break
            if number == 0 and rounds > 1:
                left_s = (time.monotonic() - begun) * (rounds - 1)
                say(f"about {left_s:,.0f} s for the other {rounds - 1} rounds")
        if any(setting.name == COLLECTOR for setting in settings):
            progress("blocks of one process: before, with and after our collector")
            reason = found.missing.get(COLLECTOR)
            found.in_process = _blocks(loop, _PAIRS_A_ROUND * rounds, reason, found.tools[COLLECTOR])
    except KeyboardInterrupt:
        if not found.rounds:
            raise
        interrupted = True
    assert found.first is not None
    return _result(loop, settings, found, found.first.environment, interrupted)


def _round(
    loop: Loop, settings: Sequence[Setting], number: int, of: int, runs: Path, found: _Measured, progress: Tell
) -> bool:
    """Run every condition once, and keep the round; return False where the bare loop failed, which ends it all."""
    windows: dict[str, IntColumn] = {}
    for setting in settings if number % 2 == 0 else reversed(settings):
        if setting.name in found.missing:
            continue
        progress(f"round {number + 1} of {of}: {setting.name}")
        place = runs / f"round-{number + 1}" / setting.name
        try:
            run, tool = run_once(loop, setting, place)
        except FdprofError as error:
            if setting is BARE and not found.rounds:
                raise
            found.missing[setting.name] = f"failed in round {number + 1}: {in_words(error)}"
            if setting is BARE:
                return False
            continue
        if setting is BARE:
            found.first = found.first or run
        else:
            found.tools[setting.name] = tool
        windows[setting.name] = step_times(run)
    found.rounds.append(windows)
    return True


def _blocks(loop: Loop, pairs: int, missing: str | None, tool: str) -> tuple[Condition, ...]:
    """Return what our collector costs blocks of one process, and what is left of that after it was stopped."""
    if missing is None:
        try:
            found = _alternated(loop, pairs)
        except FdprofError as error:
            missing = in_words(error)
    if missing is not None:
        return tuple(Condition(name, tool, BLOCKS, None, missing) for name in (IN_PROCESS, STOPPED))
    return (
        Condition(IN_PROCESS, tool, BLOCKS, cost_of(found.stopped, found.collecting, paired=True)),
        Condition(STOPPED, tool, BLOCKS, cost_of(found.before, found.stopped, paired=False)),
    )


def _alternated(loop: Loop, pairs: int) -> Alternation:
    with tempfile.TemporaryDirectory(prefix="fdprof-") as scratch:
        request, result = Path(scratch) / "request.json", Path(scratch) / "result.json"
        params, extent = dataclasses.asdict(loop.params), dataclasses.asdict(loop.extent)
        document = request_document(loop.scenario, loop.mode, loop.backend, pairs, params, extent, loop.work_of)
        write_json(request, document)
        command = (sys.executable, "-m", "fdprof.alternation", str(request), str(result))
        blocks = 3 * pairs + 1
        limit_s = replace(loop, blocks=blocks).limit_s
        taken, last = run_under(BARE, command, limit_s)
        if not result.exists():
            require_ended(taken.outcome, BARE, last)
        return read_result(result)


def _result(
    loop: Loop, settings: Sequence[Setting], found: _Measured, environment: Environment, interrupted: bool
) -> OverheadResult:
    conditions = []
    for setting in settings:
        bare, traced = found.units(setting.name)
        cost = None
        if bare:
            cost = bare_cost(bare) if setting is BARE else cost_of(bare, traced, paired=True)
        missing = found.missing.get(setting.name)
        conditions.append(Condition(setting.name, found.tools[setting.name], ROUNDS, cost, missing))
    parameters: Mapping[str, Any] = dataclasses.asdict(loop.params) | dataclasses.asdict(loop.extent)
    return OverheadResult(
        scenario=loop.scenario,
        mode=loop.mode,
        backend=loop.backend,
        parameters={**parameters, "blocks": loop.blocks},
        environment=environment,
        rounds=len(found.rounds),
        process_sd=process_sd([each[BARE.name] for each in found.rounds]),
        conditions=(*conditions, *found.in_process),
        interrupted=interrupted,
    )


def measured_inflation(
    request: Request,
    tracer: str,
    rounds: int,
    *,
    loop: Loop | None = None,
    traced: Sequence[Path] = (),
    step_range: re.Pattern[str] | None = None,
    progress: Tell = lambda _: None,
) -> Inflation:
    """Return how much longer a step is under the tracer than without it.

    Of a loop of fdprof's by processes that run it bare and traced in turns, by the run's own recorder, all with the
    kernels of `loop.work_of`, else with those that a bare process calibrates first.  Of any other command, which is
    `request.command`, by the ranges that mark its steps: in processes in which something listens to the ranges and
    nothing else is traced, and in traced ones.  Of those, `traced` are captures that were taken of it already, one a
    process: they are the first rounds'.  With fewer than MIN_UNITS rounds there is no interval.

    Of `request` everything but folder and repetitions is used.  Raises FdprofError where a process fails or its steps
    are not marked, KeyboardInterrupt for Ctrl-C.
    """
    if loop is not None and loop.work_of is None:
        with tempfile.TemporaryDirectory(prefix="fdprof-") as scratch:
            progress("inflation, calibration: bare, for all rounds")
            loop = calibrated(loop, Path(scratch) / "runs")
            return measured_inflation(request, tracer, rounds, loop=loop, progress=progress)
    setting = Setting(tracer, tracer, tracer, request.graph_trace, request.environment)
    bare: list[IntColumn] = []
    under: list[IntColumn] = []
    for number in range(rounds):
        for is_traced in (True, False) if number % 2 else (False, True):
            which = setting if is_traced else BARE if loop is not None else NVTX
            progress(f"inflation, round {number + 1} of {rounds}: {which.name}")
            if loop is not None:
                with tempfile.TemporaryDirectory(prefix="fdprof-") as scratch:
                    windows = step_times(run_once(loop, which, Path(scratch) / "runs")[0])
            elif is_traced and number < len(traced):
                windows = _windows_in(traced[number], step_range)
            else:
                windows = _windows_of(request, which, step_range)
            (under if is_traced else bare).append(windows)
    against = "bare" if loop is not None else "with its ranges alone"
    same = ", of the same kernels" if loop is not None else ""
    ruler = "the run's own recorder" if loop is not None else "the ranges that mark the steps"
    count = f"{rounds} rounds" if rounds > 1 else "1 round"
    how = f"measured in {count} of a process {against} and one under {tracer}{same}, by {ruler}"
    return inflation_of(bare, under, how)


def _windows_of(request: Request, setting: Setting, step_range: re.Pattern[str] | None) -> IntColumn:
    """Return the step times of the command in a process of its own."""
    assert setting.tracer is not None
    tracer: Tracer = plugins.load("tracers", setting.tracer)
    with tempfile.TemporaryDirectory(prefix="fdprof-") as scratch:
        variables = (*request.environment, *(RANGES_ONLY if setting is NVTX else ()))
        again = replace(request, folder=Path(scratch), repeat=1, environment=variables)
        problem = tracer.missing(again)
        if problem is not None:
            raise problem
        taken = tracer.take(again)
        if taken.outcome.ended is Ended.INTERRUPTED:
            raise Stopped(taken.outcome.exit_code)
        if taken.captures and taken.outcome.exit_code:
            raise ScenarioFailed(
                f"under {setting.name} the command ended with exit code {taken.outcome.exit_code}",
                "its inflation cannot be measured so; what the command said stands above",
            )
        if not taken.captures:
            raise ScenarioFailed(
                f"under {setting.name} the command left no capture (exit code {taken.outcome.exit_code})",
                "its inflation cannot be measured so; what the tool said stands above",
            )
        return _windows_in(taken.captures[0], step_range)


def _windows_in(path: Path, step_range: re.Pattern[str] | None) -> IntColumn:
    capture = import_capture(path, lambda _: None)
    return marked_windows(capture, Choice(step_range=step_range))
