"""What an argument of `fdprof compare` names: a mode, a saved run, a baseline file or a capture."""

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from fdprof import plugins
from fdprof.cli.captures import again, naming
from fdprof.errors import InputError, UsageError

if TYPE_CHECKING:  # NumPy is behind them, and --help must not wait for NumPy
    from fdprof.analysis.capture_result import CaptureResult
    from fdprof.analysis.results import RunResult
    from fdprof.comparison import Side
    from fdprof.importers.protocol import Progress
    from fdprof.model import Run


_REPORT = re.compile(rb'^\s*{\s*"schema_version": \d+,\s*"kind": "(run|comparison|analysis|analyses|overhead)"')


@dataclass(frozen=True, slots=True)
class Comparand:
    """One side with the result that reports show of it; None: a baseline file has only what a comparison needs."""

    side: "Side"
    result: "RunResult | CaptureResult | None"


@dataclass(frozen=True, slots=True)
class Named:
    """One argument: a mode's name, or a path (None: a mode)."""

    name: str
    path: Path | None


def named(name: str) -> Named:
    """Return what an argument names; UsageError, with the nearest mode, where it is neither a mode nor a path.

    A mode goes before a file of that name: write ./sync for the file.
    """
    if name.replace("_", "-") in plugins.names("modes"):
        return Named(name, None)
    if name and Path(name).exists():
        return Named(name, Path(name))
    near = difflib.get_close_matches(name.lower(), plugins.names("modes"), n=1, cutoff=0.5)
    hint = f"did you mean {near[0]}?" if near else f"modes are: {', '.join(plugins.names('modes'))}"
    raise UsageError(f"{name!r} is no mode, and there is no such file or folder", hint)


def of_runs(runs: Sequence["Run"], folders: Sequence[Path]) -> list[Comparand]:
    """Return the sides of runs that are saved in these folders; none: they are not saved."""
    from fdprof.analysis.sides import sides_of_runs

    commands: Sequence[str | None] = [again(folder) for folder in folders] or [None] * len(runs)
    found = zip(sides_of_runs(runs), commands, strict=True)
    return [Comparand(side, replace(result, again=command)) for (side, result), command in found]


def of_path(path: Path, step_range: re.Pattern[str] | None, progress: "Progress") -> Comparand:
    """Return the side in a run's folder, a baseline file or a capture."""
    from fdprof import baseline, store

    if not path.exists():
        raise InputError(f"{path} does not exist", "save one: fdprof compare MODE --save-baseline FILE")
    if path.is_dir() and store.is_run(path):
        return of_runs([store.load_one(path, "compare its sides again with fdprof compare")], [path])[0]
    if path.is_file() and baseline.is_baseline(_head(path)):
        return Comparand(baseline.load(path), None)
    refuse_report(path)
    return _of_capture(path, step_range, progress)


def refuse_report(path: Path) -> None:
    """Raise InputError where a file is fdprof's own output, which no report can be made of again."""
    from fdprof import baseline

    if not path.is_file():
        return
    head = _head(path)
    if _REPORT.search(head):
        raise InputError(
            f"{path} is a report of fdprof (-o or --json), which holds no single steps",
            "give the saved run or the capture, or for a comparison a file of --save-baseline",
        )
    if baseline.is_baseline(head):
        raise InputError(f"{path} is a baseline, one side only", f"fdprof compare --baseline {path} MODE")


def _head(path: Path) -> bytes:
    from fdprof import baseline

    try:
        with path.open("rb") as file:
            return file.read(baseline.HEAD_BYTES)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror or error}", "see its permissions") from error


def _of_capture(path: Path, step_range: re.Pattern[str] | None, progress: "Progress") -> Comparand:
    from fdprof.analysis.capture_result import analyze
    from fdprof.analysis.sides import side_of_capture
    from fdprof.analysis.steps import Choice
    from fdprof.analysis.warmup import warm_up_of
    from fdprof.imports import import_capture

    choice = Choice(process=None, thread=None, device=None, step_range=step_range)
    progress(f"reading {path}")
    with naming(path):
        capture = import_capture(path, progress)
        progress(f"{path}: {capture.rows:,} rows read; computing the ledger")
        result = analyze(capture, str(path), choice)
        steps = len(result.facts.steps)
        warm_up = warm_up_of(result.facts.ledger.window_ns)
        if warm_up:
            result = analyze(capture, str(path), choice, first=warm_up)
    return Comparand(side_of_capture(result, steps, warm_up), replace(result, again=again(path, step_range)))
