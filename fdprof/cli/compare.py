"""`fdprof compare`: two modes in interleaved blocks, or saved runs, baselines and captures."""

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fdprof.cli.captures import Progress, StepRange, step_pattern
from fdprof.cli.comparands import Comparand, Named, named, of_path, of_runs
from fdprof.cli.enough import BLOCKS, SIMULATED_BLOCKS, Enough
from fdprof.cli.options import (
    Backend,
    Force,
    Json,
    Output,
    Runs,
    Save,
    check_output,
    check_place,
    options_of,
    say,
    show,
)
from fdprof.cli.policy import VERDICTS, check_allowed, policy_of
from fdprof.cli.recording import Recording, require_right
from fdprof.cli.saved_loop import is_given, loop_of
from fdprof.errors import GateFailed, Inconclusive, NotComparable, UsageError, WrongResult
from fdprof.params import Extent, LoopParams
from fdprof.units import counted, printable, shown

if TYPE_CHECKING:  # NumPy is behind them, and --help must not wait for NumPy
    from fdprof.comparison import Comparison, Policy


def command_for(params_type: type[LoopParams]) -> Callable[..., None]:
    """Return the command with the options of a scenario's parameters."""

    @options_of(params_type, Extent)
    def compare(
        ctx: typer.Context,
        sides: Annotated[
            list[str],
            typer.Argument(
                metavar="SIDE",
                help="Baseline and candidate; with --baseline or --save-baseline the candidate alone. Each is a mode, "
                "the folder of a saved run, a capture, or a file of --save-baseline. One mode twice is an A/A check.",
            ),
        ],
        scenario: Annotated[
            str,
            typer.Option(
                "--scenario",
                help="Of modes: a name that `fdprof scenarios` lists, or the path of a .py file. Against a saved run "
                "it is that run's, as all parameters are, unless given.",
            ),
        ] = "stop_flag",
        backend: Backend = "auto",
        blocks: Annotated[
            int | None,
            typer.Option(
                "--blocks",
                help="Passes of the loop on each side, in rounds of A B B A or B A A B; "
                f"{BLOCKS} unless given, {SIMULATED_BLOCKS} on the simulator.",
            ),
        ] = None,
        precision: Annotated[
            str | None,
            typer.Option("--precision", help="Add blocks until the interval is ± so much, for example 0.5%."),
        ] = None,
        max_time: Annotated[
            float, typer.Option("--max-time", help="With --precision: add none after so long, s.")
        ] = 60,
        same_within: Annotated[
            str, typer.Option("--same-within", help="The equivalence bound: smaller differences are none.")
        ] = "0.5%",
        allow: Annotated[
            list[str] | None, typer.Option("--allow", help="A field that may differ; can be given again.")
        ] = None,
        fail_if: Annotated[
            list[str] | None,
            typer.Option("--fail-if", help=f"Gate: exit 1 on this verdict. One of: {', '.join(VERDICTS)}."),
        ] = None,
        max_ratio: Annotated[
            float | None, typer.Option("--max-ratio", help="Gate: the ratio of mean steps may be so large.")
        ] = None,
        max_p99_ratio: Annotated[
            float | None, typer.Option("--max-p99-ratio", help="Gate: the ratio of the steps' p99 may be so large.")
        ] = None,
        baseline: Annotated[
            Path | None, typer.Option("--baseline", help="Compare with this file of an earlier --save-baseline.")
        ] = None,
        save_baseline: Annotated[
            Path | None,
            typer.Option(
                "--save-baseline",
                help="Save the candidate as a baseline if the exit code is 0; alone, only record and save it.",
            ),
        ] = None,
        step_range: StepRange = None,
        json: Json = False,
        output: Output = None,
        force: Force = False,
        runs: Runs = Path("runs"),
        save: Save = True,
        **options: Any,
    ) -> None:
        """Compare two sides of a decode loop.  Ratios are candidate / baseline."""
        given = [Named(str(baseline), baseline)] if baseline is not None else []
        given += [named(name) for name in sides]
        _check_sides(given, save_baseline)
        policy = policy_of(same_within, allow or [], fail_if or [], max_ratio, max_p99_ratio)
        enough = Enough(blocks, precision, max_time)
        pattern = step_pattern(step_range)
        check_output(output, force, [each.path for each in given if each.path is not None])
        if save_baseline is not None:
            check_place(save_baseline, "--save-baseline", force)
            if output is not None and output.resolve() == save_baseline.resolve():
                raise UsageError(f"-o and --save-baseline are both {output}", "give two files")
        progress = Progress(sys.stderr.isatty())
        found = {at: of_path(each.path, pattern, progress) for at, each in enumerate(given) if each.path is not None}
        modes = [each.name for each in given if each.path is None]
        _check_used(ctx, given, list(found.values()), [*options, *_RECORDING] if not modes else [])
        _check_different(given, list(found.values()))
        check_allowed(policy, [entry.side for entry in found.values()])

        recording, done = None, []
        if modes:
            other = next(iter(found.values()), None)
            loop = loop_of(ctx, other, scenario, backend, params_type, options)
            recording = Recording(loop.scenario, modes, loop.backend, loop.params_type, loop.options)
            is_enough = enough.against(None if other is None else other.side)
            order = _order(modes, loop.options["seed"])
            done = recording.record(order, runs if save else None, is_enough, policy)
            recorded = iter(of_runs(done, recording.folders))
            found |= {at: next(recorded) for at, each in enumerate(given) if each.path is None}
        entries = [found[at] for at in range(len(given))]
        with recording.reported() if recording is not None else contextlib.nullcontext():
            comparison = _shown(entries, policy, json, output, force)
        _require_right(entries, comparison)
        if recording is not None:
            recording.end_if_stopped()
        if comparison is not None:
            _require(comparison)
        if save_baseline is not None:
            _save(save_baseline, entries[-1], force)

    return compare


def _shown(
    found: Sequence[Comparand], policy: "Policy", json: bool, output: Path | None, force: bool
) -> "Comparison | None":
    """Report one side, or compare two and report that; return the comparison."""
    from fdprof.analysis.compare import compare as compare_sides
    from fdprof.reports.protocol import ComparisonResult

    if len(found) == 1:
        assert found[0].result is not None  # a baseline file alone is refused
        show(found[0].result, json, output, force)
        return None
    comparison = compare_sides(found[0].side, found[1].side, policy)
    show(ComparisonResult(comparison, found[0].result, found[1].result), json, output, force)
    return comparison


def _require_right(found: Sequence[Comparand], comparison: "Comparison | None") -> None:
    """Raise WrongResult where values are not the reference's, or not the other side's."""
    from fdprof.analysis.results import RunResult

    require_right([entry.result for entry in found if isinstance(entry.result, RunResult)])
    if comparison is not None and comparison.tokens_equal is False:
        raise WrongResult(
            f"the sides do not give the same tokens: {comparison.tokens_text}",
            "find out which side is wrong first: `fdprof run ... --audit` shows reads that no fence made safe",
        )


def _save(path: Path, entry: Comparand, force: bool) -> None:
    from fdprof import baseline

    try:
        baseline.save(path, entry.side, replaces=force)
    except FileExistsError as error:
        hint = "choose another --save-baseline, or pass --force to replace it"
        raise UsageError(f"{path} has come to exist meanwhile", hint) from error
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}", "choose another --save-baseline") from error
    say(f"saved the baseline {path}")


def _require(comparison: "Comparison") -> None:
    """Raise what the verdict and the gates ask for."""
    from fdprof.comparison import Outcome, Verdict

    if comparison.judgement is None:
        differing = [mismatch for mismatch in comparison.mismatches if not mismatch.allowed]
        raise NotComparable(
            "not comparable: " + "; ".join(shown(f"{each.field} is {each.text}") for each in differing),
            "if it does not matter: " + " ".join(f"--allow {each.field}" for each in differing),
        )
    more = _MORE if comparison.judgement.interleaved else _MORE_APART
    for gate in comparison.gates:
        if gate.outcome is Outcome.FAILED:
            hint = more if comparison.verdict is Verdict.INCONCLUSIVE else "the bridge says where the time went"
            raise GateFailed(f"gate {gate.option} failed: {gate.text}", hint)
    for gate in comparison.gates:
        if gate.outcome is Outcome.OPEN:
            raise Inconclusive(f"gate {gate.option} is open: {gate.text}", more)
    if not comparison.gates and comparison.verdict is Verdict.INCONCLUSIVE:
        raise Inconclusive(f"inconclusive: {comparison.judgement.reason}", more)


_MORE = "more --blocks or --precision narrow the interval"
_MORE_APART = (
    "recordings made apart may differ by a few per cent without a cause (see the notes): set --max-ratio or "
    "--same-within above that, or compare two modes in one call"
)


def _order(modes: Sequence[str], seed: int) -> Iterator[int]:
    from fdprof.session import abba

    return abba(seed) if len(modes) == 2 else itertools.repeat(0)


_RECORDING = ("scenario", "backend", "blocks", "precision", "runs", "save")
"""Options that say how a mode is recorded, beside those of the loop."""


def _check_sides(given: Sequence[Named], save_baseline: Path | None) -> None:
    if len(given) > 2 or (len(given) < 2 and save_baseline is None):
        raise UsageError(
            f"{counted(len(given), 'side')} to compare: {', '.join(printable(each.name) for each in given)}",
            "give two: fdprof compare BASELINE CANDIDATE, or --baseline FILE and a candidate",
        )
    paths = [each.path.resolve() for each in given if each.path is not None]
    if len(paths) == 2 and paths[0] == paths[1]:
        raise UsageError(f"both sides are the same recording: {printable(given[0].name)}", _AGAINST_ITSELF)


_AGAINST_ITSELF = "a recording equals itself; for an A/A check give one mode twice"


def _check_used(
    ctx: typer.Context, given: Sequence[Named], loaded: Sequence[Comparand], recording: Sequence[str]
) -> None:
    """Raise UsageError for an option that would change nothing."""

    def refuse(names: Sequence[str], why: str) -> None:
        for name in names:
            if is_given(ctx, name):
                option = {"save": "save/--no-save"}.get(name, name.replace("_", "-"))
                raise UsageError(f"--{option} changes nothing: {why}", f"leave --{option} out")

    refuse(recording, "no mode is recorded, all sides are there already")
    if not any(entry.side.is_capture for entry in loaded):
        refuse(["step_range"], "no side is a capture")
    if not is_given(ctx, "precision"):
        refuse(["max_time"], "it ends what --precision adds")
    if len(given) == 1:
        refuse(["same_within", "allow", "fail_if", "max_ratio", "max_p99_ratio", "precision"], "nothing is compared")
        if any(entry.result is None for entry in loaded):
            raise UsageError(f"{printable(given[0].name)} is a baseline already", "give a mode, a run or a capture")


def _check_different(given: Sequence[Named], loaded: Sequence[Comparand]) -> None:
    """Raise UsageError where one recording, or a copy of it, is on both sides."""
    from fdprof.analysis.comparability import is_same_recording

    if len(loaded) == 2 and is_same_recording(loaded[0].side, loaded[1].side):
        names = " and ".join(printable(each.name) for each in given)
        raise UsageError(f"both sides are the same recording: {names}", _AGAINST_ITSELF)
