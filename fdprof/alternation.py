"""Runs blocks of one loop in one process, without the collector, with it, and with it stopped again.

`python -m fdprof.alternation REQUEST RESULT` is what `fdprof overhead` starts, so that no collector was ever in that
process before the first blocks.  Both files are JSON; an error of fdprof is written to RESULT too.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fdprof import calibration, store
from fdprof.analysis.run_times import counted_windows
from fdprof.documents import damage_in, entries, entry, natural, read_json, text, write_json
from fdprof.errors import EnvironmentMissing, FdprofError, ScenarioFailed, WrongResult
from fdprof.model import IntColumn
from fdprof.params import Extent
from fdprof.scenario_check import load_scenario
from fdprof.session import Session, open_backend
from fdprof.units import printable

_HINT = "run `fdprof overhead` again"
_SETTLING = 1
"""Blocks at the beginning that are not counted: caches and clocks are cold then."""


@dataclass(frozen=True, slots=True)
class Alternation:
    """The step times of each block, ns.  Block n of `collecting` and of `stopped` ran side by side."""

    before: tuple[IntColumn, ...]  # before any collector was started
    collecting: tuple[IntColumn, ...]
    stopped: tuple[IntColumn, ...]


def alternate(
    session: Session, mode: str, pairs: int, start: Callable[[], object], stop: Callable[[], object]
) -> Alternation:
    """Return so many blocks of each kind; `start` and `stop` begin and end the collecting.

    First those before the first start, then pairs of a collecting block and one after the stop, every second pair the
    other way round.  WrongResult where a block's values are not right.
    """

    def block(index: int) -> IntColumn:
        made = session.block(mode, index)
        if not made.tokens.is_right:
            raise WrongResult(f"block {index} of {mode} read wrong values", f"see `fdprof run --mode {mode}`")
        return counted_windows(made)

    for index in range(_SETTLING):
        block(index)
    before = [block(index) for index in range(pairs)]
    collecting: list[IntColumn] = []
    stopped: list[IntColumn] = []
    for index in range(pairs):
        for is_collecting in (True, False) if index % 2 == 0 else (False, True):
            if not is_collecting:
                stopped.append(block(index))
                continue
            start()
            try:
                collecting.append(block(index))
            finally:
                stop()
    return Alternation(tuple(before), tuple(collecting), tuple(stopped))


def request_document(
    scenario: str,
    mode: str,
    backend: str,
    pairs: int,
    params: dict[str, Any],
    extent: dict[str, Any],
    work_of: Path | None = None,
) -> dict[str, Any]:
    """Return what `python -m fdprof.alternation` is to do, with the kernels of a saved run if one is given."""
    return {
        "scenario": scenario,
        "mode": mode,
        "backend": backend,
        "pairs": pairs,
        "params": params,
        "extent": extent,
        "work_of": None if work_of is None else str(work_of),
    }


def read_result(path: Path) -> Alternation:
    """Return what the process wrote; ScenarioFailed where it wrote an error, InputError where the file is damaged."""
    document = read_json(path, _HINT)
    with damage_in(path, _HINT):
        if "error" in document:
            raise ScenarioFailed(entry(document, "error", text), entry(document, "hint", _optional_text))
        return Alternation(**{name: entry(document, name, _columns) for name in ("before", "collecting", "stopped")})


def _optional_text(value: Any) -> str | None:
    return None if value is None else text(value)


def _columns(value: Any) -> tuple[IntColumn, ...]:
    return tuple(np.array([natural(each) for each in entries(block)], dtype=np.int64) for block in entries(value))


def _carried_out(document: dict[str, Any]) -> dict[str, Any]:
    """Run what the request asks for, and return the step times."""
    extent = Extent(**document["extent"])
    params = load_scenario(document["scenario"]).params_type(**document["params"])
    backend, _ = open_backend(document["backend"], extent.timeout)
    work = None
    if document["work_of"] is not None:
        saved = store.load_head(Path(document["work_of"]))
        work = calibration.work_of(saved, Path(document["scenario"]).stem, params, backend)
    session = Session(backend, document["scenario"], params, extent, work=work)
    try:
        from fdprof.collector import Collector
    except ImportError as error:
        raise EnvironmentMissing(f"the collector cannot be loaded: {error}", "see `fdprof doctor`") from error
    running: list[Any] = []

    def start() -> None:
        running.append(Collector())
        running[-1].start()

    found = alternate(session, document["mode"], document["pairs"], start, lambda: running.pop().stop())
    return {
        name: [windows.tolist() for windows in getattr(found, name)] for name in ("before", "collecting", "stopped")
    }


def main(arguments: Sequence[str]) -> int:
    """Carry a request file out, write the result file, and return the exit code."""
    request, result = (Path(argument) for argument in arguments)
    try:
        document = _carried_out(read_json(request, _HINT))
    except FdprofError as error:
        write_json(result, {"error": printable(str(error)), "hint": error.hint and printable(error.hint)})
        return error.exit_code
    write_json(result, document)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
