"""`fdprof run`: one scenario in one mode."""

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
from fdprof.errors import FdprofError, UsageError, WrongResult
from fdprof.params import Extent, LoopParams

INTERRUPTED = 130


@options_of(LoopParams, Extent)
def run(
    scenario: Annotated[str, typer.Argument(help="A name that `fdprof scenarios` lists.")],
    mode: Annotated[str, typer.Option("--mode", help="A name that `fdprof modes` lists.")] = "async",
    backend: Backend = "auto",
    blocks: Annotated[int, typer.Option("--blocks", help="Passes of the loop.")] = 1,
    json: Json = False,
    output: Output = None,
    force: Force = False,
    runs: Runs = Path("runs"),
    save: Save = True,
    **options: Any,
) -> None:
    """Run a decode loop and print the times of its steps."""
    from fdprof import store
    from fdprof.analysis.results import result_of
    from fdprof.session import Session, open_backend

    plugins.load("scenarios", scenario)
    plugins.load("modes", mode)
    params, extent = record_from(LoopParams, options), record_from(Extent, options)
    check_blocks(blocks)
    check_output(output, force)
    opened, why = open_backend(backend, extent.timeout)
    say(f"backend {opened.name}: {why}")
    session = Session(opened, scenario, params, extent)
    record = session.new_run(mode)
    folder = store.create(runs, record) if save else None
    failed = None
    try:
        for index in range(blocks):
            progress(f"block {index + 1} of {blocks}: {mode}")
            block = session.block(mode, index)
            record = replace(record, blocks=(*record.blocks, block))
            if folder is not None:
                store.add_block(folder, block)
    except KeyboardInterrupt:
        record = replace(record, interrupted=True)
    except UsageError as error:  # the disk is full, say: show what was measured, then fail
        record, failed = replace(record, interrupted=True), error
    except FdprofError:
        if folder is not None:
            store.discard(folder)
        raise
    if folder is not None and failed is None:
        store.finish(folder, record)
        say(f"saved {folder}")
    elif folder is not None:
        store.discard(folder)
    if not record.blocks:
        say("interrupted before a block had finished: nothing to report")
        raise typer.Exit(INTERRUPTED)
    result = result_of(record)
    show(result, json, output)
    if failed is not None:
        raise failed
    if not result.is_right:
        raise WrongResult(*wrong(result))
    if record.interrupted:
        raise typer.Exit(INTERRUPTED)


def wrong(result: Any) -> tuple[str, str]:
    """Return message and hint for a result whose tokens are not right."""
    mode = result.run.mode
    first = result.first_wrong
    if first is None:
        missing = result.values - result.values_right
        reason = f"{missing:,} values were never read" if missing else "the stop never reached the host"
        return f"{mode}: {reason}", "the mode lost a transfer; see the reads of the saved run"
    row = f"sequence {first.sequence}" if first.sequence is not None else "the batch"
    return (
        f"{mode}: first wrong value at step {first.step}, {row}: {first.tensor} "
        f"is {first.got}, expected {first.expected}; "
        f"{result.stale_reads} of {result.reads} reads stale, {result.wrong_reads} wrong",
        "a stale read was made before its copy had ended: wait for the event that is recorded after the copy",
    )
