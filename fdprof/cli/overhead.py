"""`fdprof overhead`: what profiling costs a loop."""

import datetime
import shutil
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fdprof import plugins
from fdprof.cli.options import (
    Backend,
    Force,
    Json,
    Output,
    Runs,
    Save,
    check_blocks,
    check_output,
    check_renders,
    options_of,
    progress,
    record_from,
    say,
    show,
)
from fdprof.cli.recording import INTERRUPTED
from fdprof.errors import UsageError
from fdprof.params import Extent, LoopParams
from fdprof.supervision import stoppable

if TYPE_CHECKING:  # NumPy is behind it, and --help must not wait for NumPy
    from fdprof.analysis.inflation import OverheadResult

_DOCUMENT = "overhead.json"


def command_for(params_type: type[LoopParams]) -> Callable[..., None]:
    """Return the command with the options of a scenario's parameters."""

    @options_of(params_type, Extent)
    def overhead(
        scenario: Annotated[
            str, typer.Argument(help="A name that `fdprof scenarios` lists, or the path of a .py file with your own.")
        ],
        mode: Annotated[str, typer.Option("--mode", help="A name that `fdprof modes` lists.")] = "async",
        backend: Backend = "auto",
        with_: Annotated[
            str | None,
            typer.Option(
                "--with",
                help="Conditions beside the bare loop, with commas: nvtx, fdprof, nsys-graph, nsys-node, torch, "
                "paddle; all unless given.",
            ),
        ] = None,
        rounds: Annotated[
            int, typer.Option("--rounds", help="How often each condition is run; with fewer than 6 no intervals.")
        ] = 6,
        blocks: Annotated[int, typer.Option("--blocks", help="Passes of the loop in each process.")] = 5,
        json: Json = False,
        output: Output = None,
        force: Force = False,
        runs: Runs = Path("runs"),
        save: Save = True,
        **options: Any,
    ) -> None:
        """Measure what profiling costs a loop.  Bare, and under each tracer, in processes of their own."""
        from fdprof.analysis.inflation import OverheadResult
        from fdprof.overhead import MAX_ROUNDS, measure
        from fdprof.scenario_check import load_scenario
        from fdprof.traced_loop import Loop, real_backend, settings_of

        if not 1 <= rounds <= MAX_ROUNDS:
            raise UsageError(f"--rounds is {rounds}, expected 1 to {MAX_ROUNDS}", "choose --rounds in that range")
        check_blocks(blocks)
        load_scenario(scenario)
        plugins.load("modes", mode)
        params, extent = record_from(params_type, options), record_from(Extent, options)
        settings = settings_of(with_)
        check_output(output, force)
        check_renders(output, OverheadResult)
        loop = Loop(scenario, mode, real_backend(backend), blocks, params, extent)

        with ExitStack() as stack:
            stops = stack.enter_context(stoppable())
            if save:
                place = _folder(runs, scenario)
                stack.callback(_discard, place)
            else:
                place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fdprof-")))
            result = measure(loop, settings, rounds, place, progress, say)
            if save:
                _save(place, result)
            show(result, json, output, force)
            stops.release()
        if result.interrupted:
            raise typer.Exit(INTERRUPTED)

    return overhead


def _folder(runs: Path, scenario: str) -> Path:
    """Make the folder of this call and return it; UsageError where it cannot be made."""
    now = datetime.datetime.now(datetime.timezone.utc)
    try:
        runs.mkdir(parents=True, exist_ok=True)
        made = tempfile.mkdtemp(prefix=f"{now:%Y%m%d-%H%M%S}-{Path(scenario).stem}-overhead-", dir=runs)
        Path(made).chmod(0o755)  # mkdtemp makes it private
    except OSError as error:
        raise UsageError(f"cannot write below {runs}: {error.strerror or error}", "choose another --runs") from error
    return Path(made)


def _discard(place: Path) -> None:
    """Remove the folder of a call that came to no result."""
    if not (place / _DOCUMENT).exists():
        shutil.rmtree(place, ignore_errors=True)


def _save(place: Path, result: "OverheadResult") -> None:
    """Write the document beside the runs that it rests on."""
    from fdprof.documents import write_text

    try:
        write_text(place / _DOCUMENT, plugins.load("reports", "json").render(result))
    except OSError as error:
        say(f"fdprof: cannot write {place / _DOCUMENT}: {error.strerror or error}")
        return
    say(f"saved {place}")
