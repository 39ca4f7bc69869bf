"""`fdprof capture`: a command or a scenario under a profiler, and the analysis of what that saw."""

import dataclasses
import difflib
import math
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fdprof import plugins
from fdprof.cli.captures import StepRange, step_pattern, steps_part
from fdprof.cli.options import Force, Json, Output, WorkOf, check_output, options_of, record_from, with_parameters_of
from fdprof.cli.saved_loop import is_given
from fdprof.cli.tracing import AUTO, Wish, carry_out
from fdprof.errors import EnvironmentMissing, UsageError
from fdprof.params import Extent, LoopParams
from fdprof.tracers.protocol import CUDA_PROFILER_API, GRAPH_TRACES
from fdprof.units import printable, shown

_MAX_LIMIT_S = 86_400
_MAX_REPEAT = 100
_ROUNDS, _MAX_ROUNDS = 6, 100
_BLOCKS = 5  # of each process that measures the inflation
_EVERYTHING = "none"

_SCENARIO_OR_COMMAND = "SCENARIO | -- COMMAND..."
_WHAT = "fdprof capture SCENARIO, or fdprof capture -- COMMAND..."

What = Annotated[
    list[str] | None,
    typer.Argument(
        metavar=_SCENARIO_OR_COMMAND,
        help="A scenario, with the options of `fdprof run`; or, after --, any command with its arguments.",
    ),
]
With = Annotated[
    str,
    typer.Option(
        "--with",
        help="nsys, fdprof (its own collector), torch or paddle; auto takes nsys if it works here, else fdprof.",
    ),
]
Limit = Annotated[
    float,
    typer.Option("--limit", help="End the command after so long, s; nsys does not officially support more than 300."),
]
GraphTrace = Annotated[
    str,
    typer.Option("--graph-trace", help="CUDA graphs as one piece of work (graph), or each of their kernels (node)."),
]
CaptureRange = Annotated[
    str,
    typer.Option(
        "--capture-range",
        help=f"Capture only inside it: {_EVERYTHING}, {CUDA_PROFILER_API}, or the NVTX range NAME or NAME@DOMAIN.",
    ),
]
Repeat = Annotated[int, typer.Option("--repeat", help="Take so many capture ranges, each a capture of its own.")]
Diagnose = Annotated[
    bool,
    typer.Option(
        "--diagnose", help="Run it once more, with back-traces of what waits; times of that pass are not used."
    ),
]
MeasureInflation = Annotated[
    bool,
    typer.Option(
        "--measure-inflation",
        help="Measure how much longer a step is for being traced: run it --rounds times more, with and without.",
    ),
]
Rounds = Annotated[
    int, typer.Option("--rounds", help="Of --measure-inflation; with fewer than 6 there is no interval.")
]
Steps = Annotated[
    str | None, typer.Option("--steps", help="A:B, only steps A to B - 1, counted from 0; either may be left out.")
]
Runs = Annotated[Path, typer.Option("--runs", help="Folder that captures are saved in.")]
Save = Annotated[bool, typer.Option("--save/--no-save", help="Save the capture, for `fdprof analyze` and `compare`.")]

_HELP = """Run a command or a scenario under a profiler, and analyze what that saw.

    A SCENARIO takes the options of `fdprof run SCENARIO`; its own report goes to standard error.

    The exit code is the command's own where that is not 0, after the analysis of what was captured: 124 when it ran
    past --limit, 128 + N when signal N ended it, 130 after Ctrl-C.  Otherwise 4 when nothing was captured, 6 when a
    tool or a GPU is missing, 2 for a wrong option, and 0.  What the command leaves running is ended.
    """


def _both(
    tracer: With = AUTO,
    limit: Limit = 300,
    graph_trace: GraphTrace = "graph",
    capture_range: CaptureRange = _EVERYTHING,
    repeat: Repeat = 1,
    diagnose: Diagnose = False,
    measure_inflation: MeasureInflation = False,
    rounds: Rounds = _ROUNDS,
    step_range: StepRange = None,
    json: Json = False,
    output: Output = None,
    force: Force = False,
    runs: Runs = Path("runs"),
    save: Save = True,
) -> None:
    """Have the options that both forms of the command take."""


def of_scenario(params_type: type[LoopParams]) -> Callable[..., None]:
    """Return the command for a scenario, with the options of its parameters."""

    @options_of(params_type, Extent)
    @with_parameters_of(_both)
    def capture(
        what: What = None,
        mode: Annotated[str, typer.Option("--mode", help="Of a scenario: what `fdprof modes` lists.")] = "async",
        work_of: WorkOf = None,
        **given: Any,
    ) -> None:
        from fdprof.traced_loop import Loop, work_option  # NumPy is behind it, and --help must not wait for NumPy

        (scenario,) = _words(what, 1)
        plugins.load("modes", mode)
        records = (record_from(params_type, given), record_from(Extent, given))
        is_whole = given["step_range"] is None and given["capture_range"] == _EVERYTHING
        wish = _wish(
            given,
            command=(*_command_of(scenario, mode, records, given["tracer"]), *work_option(work_of)),
            name=f"{Path(scenario).stem}-{mode}",
            scenario=scenario,
            mode=mode,
            is_quiet=True,  # its own report is of a loop under a profiler
            loop=Loop(scenario, mode, "paddle", _BLOCKS, *records, work_of=work_of),
            first=records[1].warmup if is_whole else None,
            last=None,
        )
        problem = plugins.load("backends", "paddle").missing()
        if problem is not None:
            raise EnvironmentMissing(
                f"a scenario is captured on a GPU with Paddle: {problem[0]}", _without_sim(problem)
            )
        carry_out(wish)

    capture.__doc__ = _HELP
    return capture


def of_command() -> Callable[..., None]:
    """Return the command for a command of the user's own."""

    @options_of()
    @with_parameters_of(_both)
    def capture(
        ctx: typer.Context,
        what: What = None,
        mode: Annotated[str | None, typer.Option("--mode", hidden=True)] = None,
        steps: Steps = None,
        **given: Any,
    ) -> None:
        command = _words(what)
        if is_given(ctx, "mode"):
            raise UsageError("--mode changes nothing: no scenario is captured", "leave it out, or put it behind the --")
        first, last = steps_part(steps)
        wish = _wish(
            given,
            command=command,
            name=_name_of(command),
            scenario=None,
            mode=None,
            is_quiet=given["json"],
            loop=None,
            first=first,
            last=last,
        )
        carry_out(wish)

    capture.__doc__ = _HELP
    return capture


def _wish(given: Mapping[str, Any], **own: Any) -> Wish:
    """Return what is to be captured, of the options that both forms take and those of one; UsageError for a bad one."""
    whole = given["capture_range"] == _EVERYTHING
    wish = Wish(
        tracer=given["tracer"],
        limit_s=given["limit"],
        graph_trace=given["graph_trace"],
        capture_range=None if whole else given["capture_range"],
        repeat=given["repeat"],
        is_diagnosed=given["diagnose"],
        inflation_rounds=_rounds(given["rounds"]) if given["measure_inflation"] else 0,
        step_range=step_pattern(given["step_range"]),
        json=given["json"],
        output=given["output"],
        force=given["force"],
        runs=given["runs"] if given["save"] else None,
        **own,
    )
    _check(wish)
    check_output(given["output"], given["force"])
    return wish


def require_scenario(name: str, arguments: Sequence[str]) -> None:
    """Raise UsageError unless a name, without a -- in the arguments, is a scenario's.

    A file that says nothing of a SCENARIO is not loaded to find out: it may be the engine that was to be captured.
    """
    known = plugins.names("scenarios")
    if name.replace("-", "_") in known:
        return
    if name.endswith(".py") and Path(name).is_file():
        if b"SCENARIO" in Path(name).read_bytes():
            return
        raise UsageError(f"{shown(name)} defines no SCENARIO", _with_dashes(arguments, name, ("python",)))
    if name.endswith(".py") and not Path(name).exists():
        raise UsageError(f"there is no file {shown(name)}", f"give a scenario's name or file, or a command: {_WHAT}")
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    if near and shutil.which(name) is None:
        raise UsageError(f"no scenario is named {shown(repr(name))}", f"did you mean {near[0]}?")
    raise UsageError(f"no scenario is named {shown(repr(name))}", _with_dashes(arguments, name, ()))


def _with_dashes(arguments: Sequence[str], name: str, before: Sequence[str]) -> str:
    """Return the hint of how these arguments would have to be written for a command that begins with `name`."""
    at = list(arguments).index(name)
    line = shlex.join(["fdprof", "capture", *arguments[:at], "--", *before, *arguments[at:]])
    return f"did you mean the command: {printable(line)}"


def _words(what: Sequence[str] | None, at_most: int | None = None) -> tuple[str, ...]:
    if not what:
        raise UsageError("nothing to capture", _WHAT)
    if at_most is not None and len(what) > at_most:
        raise UsageError(f"more than a scenario: {shown(shlex.join(what))}", f"a command stands behind --: {_WHAT}")
    return tuple(what)


def _check(wish: Wish) -> None:
    """Raise UsageError for an option that does not fit."""
    if not (math.isfinite(wish.limit_s) and 0 < wish.limit_s <= _MAX_LIMIT_S):
        raise UsageError(f"--limit is {wish.limit_s:g}, expected up to {_MAX_LIMIT_S:,} s", "for example --limit 300")
    if wish.graph_trace not in GRAPH_TRACES:
        raise UsageError(f"--graph-trace is {wish.graph_trace!r}", f"choose one of: {', '.join(GRAPH_TRACES)}")
    if not 1 <= wish.repeat <= _MAX_REPEAT:
        raise UsageError(f"--repeat is {wish.repeat}, expected 1 to {_MAX_REPEAT}", "choose --repeat in that range")
    if wish.capture_range is not None:
        name, at, domain = (
            wish.capture_range.rpartition("@") if "@" in wish.capture_range else (wish.capture_range, "", "")
        )
        if not name or (at and not domain) or not wish.capture_range.isprintable():
            raise UsageError(f"--capture-range is {wish.capture_range!r}", "give an NVTX range: NAME, or NAME@DOMAIN")
    if wish.inflation_rounds and wish.loop is None and wish.capture_range == CUDA_PROFILER_API:
        raise UsageError(
            f"--measure-inflation with --capture-range {CUDA_PROFILER_API}: untraced, nobody sees where that begins",
            "name an NVTX range, or leave the capture range out",
        )
    if wish.repeat > 1 and wish.capture_range is None:
        raise UsageError(
            f"--repeat {wish.repeat} without a capture range: there is one capture of the whole command",
            f"give --capture-range {CUDA_PROFILER_API}, or the name of an NVTX range",
        )


def _rounds(rounds: int) -> int:
    if not 1 <= rounds <= _MAX_ROUNDS:  # here, while 0 does not yet mean that nothing is measured
        raise UsageError(f"--rounds is {rounds}, expected 1 to {_MAX_ROUNDS}", "for example --rounds 6")
    return rounds


def _command_of(scenario: str, mode: str, records: Sequence[Any], tracer: str) -> tuple[str, ...]:
    """Return the command line that runs a scenario with these parameters, so that the tracer sees it."""
    from fdprof.traced_loop import run_command

    prelude = "" if tracer == AUTO else plugins.load("tracers", tracer, others=(AUTO,)).prelude
    options: list[str] = []
    for record in records:
        for field in dataclasses.fields(record):
            value = getattr(record, field.name)
            if value != field.default:
                options += ["--" + field.name.replace("_", "-"), str(value)]
    return (*run_command(scenario, prelude), "--mode", mode, *options, "--backend", "paddle", "--no-save")


def _without_sim(problem: tuple[str, str]) -> str:
    """Return the hint of a backend's problem without the simulator, which no profiler sees anything of."""
    return problem[1].replace(", or use --backend sim", "") + "; no profiler sees anything of the simulator"


def _name_of(command: Sequence[str]) -> str:
    """Return what a command's capture is called: its program, or the script or module that Python runs."""
    program = Path(command[0]).name
    if program.startswith("python"):
        rest = list(command[1:])
        scripts = [word for word in rest if word.endswith(".py")]
        if "-m" in rest[:-1]:
            program = rest[rest.index("-m") + 1]
        elif scripts:
            program = Path(scripts[0]).stem
    clean = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in program)
    return clean[:40].strip(".") or "command"
