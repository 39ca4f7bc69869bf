"""The JSON document of what profiling costs."""

import dataclasses
from typing import Any

from fdprof.reports._identity import kind_of, source_of

from fdprof.analysis.inflation import Condition, OverheadResult


def overhead_document(result: OverheadResult) -> dict[str, Any]:
    """Return the document of `fdprof overhead`, without its schema version."""
    return {
        "kind": kind_of(result),
        "source": source_of(result),
        "scenario": result.scenario,
        "mode": result.mode,
        "parameters": dict(result.parameters),
        "environment": dataclasses.asdict(result.environment),
        "rounds": result.rounds,
        "interrupted": result.interrupted,
        "process_sd": result.process_sd,
        "conditions": [_condition(condition) for condition in result.conditions],
    }


def _condition(condition: Condition) -> dict[str, Any]:
    cost = condition.cost
    interval = None if cost is None else cost.ratio.interval
    return {
        "name": condition.name,
        "tool": condition.tool,
        "ratio": None if cost is None else cost.ratio.value,
        "ratio_interval": None if interval is None else list(interval),
        "p50_ratio": None if cost is None else cost.p50_ratio,
        "added_ns_per_step": None if cost is None else cost.added_ns,
        "mean_step_ns": None if cost is None else cost.mean_step_ns,
        "smallest_visible_ratio": None if cost is None else cost.smallest_visible,
        "unit": condition.unit,
        "units": None if cost is None else cost.units,
        "missing": condition.missing,
    }
