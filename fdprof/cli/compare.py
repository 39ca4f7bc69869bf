"""`fdprof compare`: two modes of one scenario, in interleaved blocks."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

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
    options_of,
    progress,
    record_from,
    say,
    show,
)
from fdprof.cli.run import INTERRUPTED, wrong
from fdprof.errors import FdprofError, UsageError, WrongResult
from fdprof.params import Extent, LoopParams


@options_of(LoopParams, Extent)
def compare(
    baseline: Annotated[str, typer.Argument(help="A mode.")],
    candidate: Annotated[str, typer.Argument(help="A mode; the same one twice is an A/A check.")],
    scenario: Annotated[str, typer.Option("--scenario", help="A name that `fdprof scenarios` lists.")] = "stop_flag",
    backend: Backend = "auto",
    blocks: Annotated[int, typer.Option("--blocks", help="Passes of the loop on each side, in the order A B B A.")] = 4,
    json: Json = False,
    output: Output = None,
    force: Force = False,
    runs: Runs = Path("runs"),
    save: Save = True,
    **options: Any,
) -> None:
    """Compare two modes of a decode loop.  Ratios are candidate / baseline."""
    from fdprof import store
    from fdprof.analysis.results import compare as compare_runs
    from fdprof.analysis.results import result_of
    from fdprof.reports.protocol import ComparisonResult
    from fdprof.session import Session, abba, open_backend

    plugins.load("scenarios", scenario)
    modes = (baseline, candidate)
    for mode in modes:
        plugins.load("modes", mode)
    params, extent = record_from(LoopParams, options), record_from(Extent, options)
    check_blocks(blocks)
    check_output(output, force)
    opened, why = open_backend(backend, extent.timeout)
    say(f"backend {opened.name}: {why}")
    session = Session(opened, scenario, params, extent)
    sides = [session.new_run(mode) for mode in modes]
    folders = store.create_comparison(runs, sides[0], sides[1]) if save else None
    failed = None
    try:
        for number, side in enumerate(abba(blocks)):
            progress(f"block {number + 1} of {2 * blocks}: {modes[side]}")
            block = session.block(modes[side], len(sides[side].blocks))
            sides[side] = replace(sides[side], blocks=(*sides[side].blocks, block))
            if folders is not None:
                store.add_block(folders[side], block)
    except KeyboardInterrupt:
        sides = [replace(side, interrupted=True) for side in sides]
    except UsageError as error:  # the disk is full, say: show what was measured, then fail
        sides, failed = [replace(side, interrupted=True) for side in sides], error
    except FdprofError:
        if folders is not None:
            store.discard(folders[0].parent)
        raise
    if folders is not None and failed is not None:
        store.discard(folders[0].parent)
    elif folders is not None:
        for side_folder, side_run in zip(folders, sides, strict=True):
            store.finish(side_folder, side_run)
        say(f"saved {folders[0].parent}")
    if not all(side.blocks for side in sides):
        if failed is not None:
            raise failed
        say("interrupted before both sides had a finished block: nothing to compare")
        raise typer.Exit(INTERRUPTED)
    results = [result_of(side) for side in sides]
    show(ComparisonResult(compare_runs(results[0], results[1]), results[0], results[1]), json, output)
    if failed is not None:
        raise failed
    for result in results:
        if not result.is_right:
            raise WrongResult(*wrong(result))
    if any(side.interrupted for side in sides):
        raise typer.Exit(INTERRUPTED)
