"""Entries that several documents of the JSON report share: statistics of the ledger, findings, transfers, certainty."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from fdprof.analysis.facts import Facts
from fdprof.analysis.run_times import COUNTED, RunTimes
from fdprof.capture import NONE, Evidence
from fdprof.finding import Finding
from fdprof.model import Summary

_STATISTICS = ("mean", "p50", "p90", "p99", "max")


def statistics(summaries: Mapping[str, Summary]) -> dict[str, Any]:
    """Return the statistics of the ledger's columns, and the step of each one's largest value."""
    return {
        "ledger": {each: {name: getattr(entry, each) for name, entry in summaries.items()} for each in _STATISTICS},
        "max_step": {name: entry.max_step for name, entry in summaries.items()},
    }


def certainty(evidence: Evidence) -> str:
    """Return proved, inferred or unknown."""
    return evidence.name.lower()


def with_certainty(record: Any) -> dict[str, Any]:
    """Return the fields of a record, its evidence as a word."""
    fields = dataclasses.asdict(record)
    evidence = fields.pop("evidence")
    return {**fields, "certainty": certainty(evidence)}


def observed(value: int) -> int | None:
    """Return an entry of a capture's column, None where -1 says that it was not observed."""
    return None if value == NONE else value


def findings(entries: Sequence[Finding], facts: Facts | None, times: RunTimes | None = None) -> list[dict[str, Any]]:
    """Return findings with the steps that show them; `times` are those of a run, whose steps also have a block."""
    return [
        {
            "code": finding.code.value,
            "text": finding.text,
            "certainty": certainty(finding.certainty),
            "cost_ns_per_step": finding.cost_ns_per_step,
            "evidence": dict(finding.evidence),
            "advice": finding.advice,
            "subject": finding.subject or None,
            "steps": [] if facts is None else [_step(position, facts, times) for position in finding.steps],
        }
        for finding in entries
    ]


def _step(position: int, facts: Facts, times: RunTimes | None) -> dict[str, int | None]:
    return {
        "position": position,
        "block": None if times is None else int(times.block[times.part == COUNTED][position]),
        "step": int(facts.steps.numbers[position]),
    }
