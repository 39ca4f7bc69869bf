"""What `run` and `compare` share: check the request, record one or two sides block by block, save, and conclude."""

import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from fdprof import plugins
from fdprof.cli.options import progress, record_from, say
from fdprof.errors import FdprofError, UsageError, WrongResult
from fdprof.params import Extent, LoopParams
from fdprof.units import printable

if TYPE_CHECKING:  # NumPy is behind them, and --help must not wait for NumPy
    from fdprof.analysis.results import RunResult
    from fdprof.comparison import Policy
    from fdprof.model import Run

INTERRUPTED = 130


class Recording:
    """The sides of one call: how they are recorded, and what ended them early if anything did."""

    def __init__(
        self,
        scenario: str,
        modes: Sequence[str],
        backend: str,
        params_type: type[LoopParams],
        options: Mapping[str, Any],
        fault: str | None = None,
        audit: bool = False,
        disturb: int | None = None,
        work_of: Path | None = None,
    ) -> None:
        """Check every name and number before anything is opened.  `work_of` is the folder of a run."""
        from fdprof import store
        from fdprof.scenario_check import load_scenario

        load_scenario(scenario)
        if fault is not None:
            plugins.load("faults", fault)
        for mode in modes:
            plugins.load("modes", mode)
        self._scenario, self._modes, self._backend = scenario, tuple(modes), backend
        self._fault, self._audit, self._disturb = fault, audit, disturb
        self._params: LoopParams = record_from(params_type, options)
        self._extent: Extent = record_from(Extent, options)
        self._work_from = None if work_of is None else store.load_head(work_of)
        self._not_saved: UsageError | None = None
        self._stopped: int | None = None  # the exit code for the signal that ended it
        self.folders: Sequence[Path] = ()  # of the sides, once they are saved

    def record(
        self,
        order: Iterable[int],
        runs: Path | None,
        is_enough: Callable[[Sequence["Run"]], bool] = lambda _: False,
        policy: "Policy | None" = None,
    ) -> list["Run"]:
        """Run a block of side `order[0]`, then of `order[1]` and so on until `is_enough`, and return the sides.

        Finished blocks are kept when a signal or a full disk ends it.  `runs` is the folder to save below, if any;
        `policy` is saved with a comparison.
        """
        from fdprof import store
        from fdprof.calibration import work_of
        from fdprof.session import Session, open_backend
        from fdprof.supervision import stoppable

        opened, why = open_backend(self._backend, self._extent.timeout)
        say(f"backend {opened.name}: {why}")
        scenario, params, saved = self._scenario, self._params, self._work_from
        work = None if saved is None else work_of(saved, Path(scenario).stem, params, opened)
        session = Session(opened, scenario, params, self._extent, self._fault, self._audit, self._disturb, work)
        sides = [session.new_run(mode) for mode in self._modes]
        folders = store.create(runs, sides, policy) if runs is not None else ()
        is_complete = False
        try:
            with stoppable():
                for number, side in enumerate(order):
                    progress(f"block {number + 1}: {self._modes[side]}")
                    block = session.block(self._modes[side], len(sides[side].blocks))
                    with uninterrupted():
                        sides[side] = replace(sides[side], blocks=(*sides[side].blocks, block))
                        if folders:
                            store.add_block(folders[side], block)
                    if is_enough(sides):
                        break
            is_complete = True
        except KeyboardInterrupt as error:
            self._stopped = getattr(error, "exit_code", INTERRUPTED)  # what has finished is reported below
        except UsageError as error:  # not saved: the disk is full, say
            self._not_saved = error
        finally:  # also when a later block fails: its run must not look complete
            sides = [replace(session.with_drawn_work(side), interrupted=not is_complete) for side in sides]
            self.folders = _finish(folders, sides)
        if not all(side.blocks for side in sides):
            if self._not_saved is not None:
                raise self._not_saved
            say("interrupted before every side had a finished block: nothing to compare")
            raise typer.Exit(INTERRUPTED if self._stopped is None else self._stopped)
        return sides

    def end_if_stopped(self) -> None:
        """End with exit code 130 where Ctrl-C ended the recording, with 128 + its number where another signal did."""
        if self._stopped is not None:
            raise typer.Exit(self._stopped)

    @contextmanager
    def reported(self) -> Iterator[None]:
        """Raise, once its body has reported, what kept the blocks from being saved, or say it where the body raises."""
        try:
            yield
        except FdprofError:
            if self._not_saved is not None:
                say(f"fdprof: {self._not_saved}")
            raise
        if self._not_saved is not None:
            raise self._not_saved


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Put Ctrl-C, SIGTERM and SIGHUP off: a block that has finished is saved whole.

    Not by masking it in this thread: another, as of a BLAS library, would take it, and Python raise it here anyway.
    """
    came: list[int] = []
    numbers = [n for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, lambda number, frame: came.append(number)) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
    if came:
        signal.raise_signal(came[0])


def _finish(folders: Sequence[Path], sides: Sequence["Run"]) -> Sequence[Path]:
    """Bring the saved runs up to date, or remove a folder in which nothing was saved; return where they are."""
    from fdprof import store

    if not folders:
        return ()
    place = store.place_of(folders)
    if store.discard_empty(place):
        return ()
    try:
        for folder, side in zip(folders, sides, strict=True):
            store.finish(folder, side)
    except FdprofError as error:
        say(f"fdprof: {error}")
        return ()
    say(f"saved {printable(str(place))}")
    return folders


def require_right(results: Sequence["RunResult"]) -> None:
    """Raise WrongResult for the first result whose values are not right, or whose audit found a hazard."""
    for result in results:
        if not result.is_right:
            raise WrongResult(*_what_is_wrong(result))
        if result.hazards:
            first = result.hazards[0]
            raise WrongResult(
                f"{result.run.mode}: the values are right, but not by the order of the calls: {first.code.value} "
                f"{first.count:,} times, first at step {first.first_step}",
                "what timing made right, other timing makes wrong; `fdprof hazards --list` describes each hazard",
            )


def _what_is_wrong(result: "RunResult") -> tuple[str, str]:
    mode = result.run.mode
    first = result.first_wrong
    if first is None:
        missing = result.values - result.values_right
        if not missing:
            return f"{mode}: the loop never stopped", "call loop.stop() when the host sees that nothing is left"
        unread = ", ".join(result.unread_groups) or "some groups"
        return (
            f"{mode}: {missing:,} values were never read, of {unread}",
            "read each group once a step until the last; see the reads of the saved run",
        )
    row = f"sequence {first.sequence}" if first.sequence is not None else "the batch"
    return (
        f"{mode}: first wrong value at step {first.step}, {row}: {first.tensor} "
        f"is {first.got}, expected {first.expected}; "
        f"{result.stale_reads} of {result.reads} reads stale, {result.wrong_reads} wrong in another way",
        "a stale read was made before its copy had ended: wait for the event that is recorded after the copy",
    )
