"""`fdprof hazards`: the hazard laboratory."""

import json as json_format
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fdprof import plugins, units
from fdprof.cli.options import Backend, Json, progress, say
from fdprof.errors import UsageError, WrongResult

if TYPE_CHECKING:  # NumPy is behind it, and --help must not wait for NumPy
    from fdprof.hazard_lab import CaseCount, DetectorScore

_MAX_SEEDS = 1_000_000
_HEADINGS = ("runs", "found in", "others reported", "wrong values in")
_CORRECT_HEADINGS = ("runs", "reported", "wrong values in")
_LEGEND = """
Counts are runs of a few steps. A detector follows the order of a run's calls and is not told of the fault; precision:
of the runs it reported, correct modes included, those that have its hazard; recall: of the runs that have it, those
reported. Wrong values: the run also read one, so the fault did harm there and then."""


def hazards(
    backend: Backend = "sim",
    seeds: Annotated[int, typer.Option("--seeds", help="Runs of each fault, and of each scenario and mode.")] = 20,
    first_seed: Annotated[int, typer.Option("--first-seed", help="The seed of the first run.")] = 0,
    fault: Annotated[str | None, typer.Option("--fault", help="Run this fault only, and no correct mode.")] = None,
    list_only: Annotated[bool, typer.Option("--list", help="List the faults and run nothing.")] = False,
    json: Json = False,
) -> None:
    """Run every known fault and every correct mode, and count what the detectors report.

    Exit 5 when a fault is missed, or a hazard or a wrong value is reported of a correct mode.
    """
    if not 1 <= seeds <= _MAX_SEEDS:
        raise UsageError(f"--seeds is {seeds:,}, expected 1 to {_MAX_SEEDS:,}", "choose --seeds in that range")
    if not 0 <= first_seed < 2**63 - _MAX_SEEDS:
        raise UsageError(f"--first-seed is {first_seed:,}, expected 0 or more", "choose a smaller --first-seed")
    if fault is not None:
        plugins.load("faults", fault)
    if list_only:
        _print_faults(json)
        return

    from fdprof.hazard_lab import clean_cases, fault_cases, run_case, scores
    from fdprof.session import open_backend

    opened, why = open_backend(backend, 30.0)
    say(f"backend {opened.name}: {why}")
    cases = [*fault_cases(), *clean_cases()]
    if fault is not None:
        wanted = fault.replace("_", "-")
        cases = [case for case in cases if case.fault == wanted]
    counts = [run_case(opened, case, range(first_seed, first_seed + seeds), progress) for case in cases]
    if json:
        typer.echo(json_format.dumps(document(opened.name, counts, scores(counts)), indent=2))
    else:
        typer.echo(table(counts, scores(counts)))
    _conclude(counts)


def _print_faults(as_json: bool) -> None:
    rows: list[dict[str, Any]] = []
    for name in plugins.names("faults"):
        fault = plugins.load("faults", name)
        scenario, mode = fault.shows_in
        summary = (fault.__doc__ or "").strip().splitlines()[0]
        rows.append({"name": name, "summary": summary, "scenario": scenario, "mode": mode, "source": fault.source})
    if as_json:
        typer.echo(json_format.dumps({"schema_version": 1, "kind": "faults", "faults": rows}, indent=2))
        return
    for row in rows:
        typer.echo(f"{row['name']}: {row['summary']}")
        typer.echo(f"    shows in: fdprof run {row['scenario']} --mode {row['mode']} --fault {row['name']}")
        typer.echo(f"    source: {row['source']}")


def table(counts: "Sequence[CaseCount]", detectors: "Sequence[DetectorScore]") -> str:
    """Return the counts of each case and the score of each detector as text."""
    faults: list[tuple[str, ...]] = [("fault", "scenario", "mode", *_HEADINGS)]
    correct: list[tuple[str, ...]] = [("correct mode", "scenario", *_CORRECT_HEADINGS)]
    for count in counts:
        case = count.case
        others = ", ".join(f"{code.value} {number:,}" for code, number in count.others.items()) or "-"
        runs, found, wrong = f"{count.runs:,}", f"{count.found:,}", f"{count.not_right:,}"
        if case.fault is None:
            correct.append((case.mode, case.scenario, runs, others, wrong))
        else:
            faults.append((case.fault, case.scenario, case.mode, runs, found, others, wrong))
    scores: list[tuple[str, ...]] = [("detector", "runs that have it", "reported in", "precision", "recall")]
    for score in detectors:
        if score.there or score.reported:
            shares = (units.percent(score.precision), units.percent(score.recall))
            scores.append((score.code.value, f"{score.there:,}", f"{score.reported:,}", *shares))
    parts = [_aligned(rows) for rows in (faults, correct, scores) if len(rows) > 1]
    return "\n\n".join(parts) + "\n" + _LEGEND


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)


def document(backend: str, counts: "Sequence[CaseCount]", detectors: "Sequence[DetectorScore]") -> dict[str, Any]:
    """Return the same as a document for JSON."""
    return {
        "schema_version": 1,
        "kind": "hazards",
        "source": backend,
        "cases": [
            {
                "fault": count.case.fault,
                "scenario": count.case.scenario,
                "mode": count.case.mode,
                "runs": count.runs,
                "found": count.found,
                "others": {code.value: number for code, number in count.others.items()},
                "runs_with_wrong_values": count.not_right,
            }
            for count in counts
        ],
        "detectors": [
            {
                "code": score.code.value,
                "there": score.there,
                "reported": score.reported,
                "precision": score.precision,
                "recall": score.recall,
            }
            for score in detectors
        ],
    }


def _conclude(counts: "list[CaseCount]") -> None:
    for count in counts:
        case = count.case
        where = f"{case.scenario} in {case.mode}"
        if case.fault is not None and count.found < count.runs:
            raise WrongResult(
                f"fault {case.fault} ({where}) was missed in {count.runs - count.found} of {count.runs} runs",
                f"this is a bug in fdprof's detector; please report it. {_replay(count)}",
            )
        if count.others or (case.fault is None and count.not_right):
            reported = ", ".join(code.value for code in count.others) or "wrong values"
            raise WrongResult(
                f"{where}, fault {case.fault or 'none'}: {reported} reported",
                f"this is a bug in fdprof, in the mode or in the detector; please report it. {_replay(count)}",
            )


def _replay(count: "CaseCount") -> str:
    only = "" if count.case.fault is None else f" --fault {count.case.fault}"
    return f"Replay: fdprof hazards{only} --first-seed {count.failed_seed} --seeds 1"
