"""The JSON document of a comparison and of its sides."""

import dataclasses
from typing import Any

from fdprof.reports._identity import kind_of, source_of
from fdprof.reports._json.analysis import analysis_document
from fdprof.reports._json.run import run_document
from fdprof.reports.protocol import ComparisonResult

from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.results import RunResult
from fdprof.captured import inflation_document
from fdprof.comparison import STATISTICS, Comparison, Side


def comparison_document(result: ComparisonResult) -> dict[str, Any]:
    """Return the document of a comparison, without its schema version."""
    comparison = result.comparison
    judgement, moved = comparison.judgement, comparison.moved
    return {
        "kind": kind_of(result),
        "source": source_of(result),
        "verdict": None if comparison.verdict is None else comparison.verdict.value,
        "reason": None if judgement is None else judgement.reason,
        "tokens_equal": comparison.tokens_equal,
        "tokens_text": comparison.tokens_text,
        **_estimates(comparison),
        "detectable_ratio": None if judgement is None else judgement.detectable,
        "self_check_ratio": None if judgement is None else judgement.self_check,
        "same_within": comparison.policy.same_within,
        "interleaved": None if judgement is None else judgement.interleaved,
        "unit": None if judgement is None else judgement.unit,
        "units": None if judgement is None else list(judgement.units),
        "removed_or_moved": None if moved is None or moved.change is None else moved.change.value,
        "blocked_in_copies_ns": None if moved is None else list(moved.copy_ns),
        "blocked_in_fences_ns": None if moved is None else list(moved.fence_ns),
        "bridge_ns": None if comparison.bridge is None else dict(comparison.bridge.parts),
        "bridge_step_ns": None if comparison.bridge is None else comparison.bridge.step_ns,
        "bridge_residual_ns": None if comparison.bridge is None else comparison.bridge.residual_ns,
        "efficiencies": list(comparison.efficiencies),
        "gain_share": comparison.gain_share,
        "mismatches": [dataclasses.asdict(mismatch) for mismatch in comparison.mismatches],
        "unknown_fields": list(comparison.unknown),
        "gates": [dataclasses.asdict(gate) | {"outcome": gate.outcome.value} for gate in comparison.gates],
        "spreads": None if comparison.spreads is None else [dataclasses.asdict(each) for each in comparison.spreads],
        "notes": list(comparison.notes),
        "baseline": _side(comparison.baseline, result.baseline),
        "candidate": _side(comparison.candidate, result.candidate),
    }


def _estimates(comparison: Comparison) -> dict[str, Any]:
    """Return each ratio and its interval: `ratio` of the means, `ratio_p50` and so on."""
    found: dict[str, Any] = {}
    for name in STATISTICS:
        key = "ratio" if name == "mean" else f"ratio_{name}"
        estimate = comparison.ratios.get(name)
        found[key] = None if estimate is None else estimate.value
        found[f"{key}_interval"] = None if estimate is None or estimate.interval is None else list(estimate.interval)
    return found


def _side(side: Side, result: RunResult | CaptureResult | None) -> dict[str, Any]:
    """Return the document of a side's run or capture; of a baseline file what is known of it."""
    if isinstance(result, RunResult):
        document = run_document(result)
    elif isinstance(result, CaptureResult):
        document = analysis_document(result)
    else:
        document = {"kind": "baseline", "source": side.source, "steps": len(side.steps_ns), "limit_ns": side.limit_ns}
    return {
        "label": side.label,
        **document,
        "fields": dict(side.fields),
        "block_means_ns": [float(windows.mean()) if len(windows) else None for windows in side.windows_ns],
        "left_out_steps": side.left_out,
        "inflation": inflation_document(side.inflation),
        "gpu": [[dataclasses.asdict(state) for state in states] for states in side.gpu],
    }
