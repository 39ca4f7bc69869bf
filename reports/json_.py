"""The JSON report: versioned, with stable keys.  Unknown is null; times are ns."""

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from fdprof.reports.protocol import EVERY, Analyses, ComparisonResult, Reportable

from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.inflation import Condition, OverheadResult
from fdprof.analysis.results import HazardResult, RunResult
from fdprof.captured import inflation_document
from fdprof.comparison import STATISTICS, Comparison, Side
from fdprof.finding import Finding
from fdprof.model import Summary

# History of the document.  1: first; since then only keys were added (fault, audited, fence, hazards) and nulls filled
# (causes of idle time, harmful and harmless waits, findings; verdict, intervals, bridge and fields that differ), and
# the kind overhead and the inflation of captures came.
SCHEMA_VERSION = 1


class JsonReport:
    """One document for a run, a comparison, an analysis or several, or for what profiling costs."""

    suffix = ".json"
    renders = EVERY

    def render(self, result: Reportable) -> str:
        return json.dumps({"schema_version": SCHEMA_VERSION, **_document(result)}, indent=2) + "\n"


def _document(result: Reportable) -> dict[str, Any]:
    if isinstance(result, Analyses):
        return {"kind": "analyses", "analyses": [_analysis(entry) for entry in result.results]}
    if isinstance(result, CaptureResult):
        return _analysis(result)
    if isinstance(result, OverheadResult):
        return _overhead(result)
    return _comparison(result) if isinstance(result, ComparisonResult) else _run(result)


def _run(result: RunResult) -> dict[str, Any]:
    run = result.run
    return {
        "kind": "run",
        "source": run.backend,
        "id": run.id,
        "scenario": run.scenario,
        "mode": run.mode,
        "created": run.created,
        "simulated": run.is_simulated,
        "interrupted": run.interrupted,
        "fault": run.fault,
        "audited": run.audited,
        "params": dict(run.params),
        "environment": dataclasses.asdict(run.environment),
        "steps": result.summaries["window_ns"].count,
        "blocks": len(run.blocks),
        **_columns(result.summaries),
        "idle_by_cause_ns": result.idle_by_cause_ns,
        "residual_ns": result.residual_ns,
        "syncs_per_step": result.syncs_per_step,
        "transfers": [dataclasses.asdict(transfer) for transfer in result.transfers],
        "fence": {
            "waits_per_step": result.fence.per_step,
            "wait_ns": result.fence.wait_ns,
            "cpu_ns": result.fence.cpu_ns,
            "learn_ns": dataclasses.asdict(result.fence.learn),
        },
        "hazards": None if result.hazards is None else [_hazard(hazard) for hazard in result.hazards],
        "findings": [_finding(finding) for finding in result.findings],
        "limits": list(result.limits),
        "clock_error_ns": result.clock_error_ns,
        "device_work_ns": run.device_work_ns,
        "host_work_ns": run.host_work_ns,
        "limit_ns": run.limit_ns,
        "efficiency": result.efficiency,
        "values": result.values,
        "values_right": result.values_right,
        "tokens_right": result.is_right,
        "reads": result.reads,
        "stale_reads": result.stale_reads,
        "wrong_reads": result.wrong_reads,
        "overrun_tokens": result.overrun_tokens,
        "stop_seen": result.stop_seen,
        "first_wrong": dataclasses.asdict(result.first_wrong) if result.first_wrong else None,
    }


def _analysis(result: CaptureResult) -> dict[str, Any]:
    facts = result.facts
    capture, steps = facts.capture, facts.steps
    thread = capture.threads[steps.thread]
    device = None if facts.device is None else capture.devices[facts.device]
    return {
        "kind": "analysis",
        "source": capture.source,
        "file": result.path,
        "tool": capture.tool,
        "headline": list(result.headline),
        "bound": facts.bound.value,
        "steps": len(steps),
        "steps_found_by": steps.found_by,
        "steps_certainty": steps.evidence.name.lower(),
        "steps_left_out": steps.left_out,
        "process": thread.process,
        "thread": thread.thread,
        "device": None if device is None else device.device,
        "device_name": None if device is None else device.name,
        **_columns(result.summaries),
        "idle_by_cause_ns": result.idle_by_cause_ns,
        "residual_ns": result.residual_ns,
        "copy_alone_ns": facts.copy_alone_ns,
        "host_work_ns": facts.host_work_ns,
        "limit_ns": facts.limit_ns,
        "gain_ns": facts.gain_ns,
        "efficiency": facts.efficiency,
        "run_ahead_share": facts.run_ahead_share,
        "launch_lead_ns": facts.launch_lead_ns,
        "calls_per_step": facts.calls_per_step,
        "syncs_per_step": facts.stalls.calls_per_step,
        "stalls_per_step": facts.stalls.stalls_per_step,
        "syncs": [_with_certainty(dataclasses.asdict(site)) for site in facts.stalls.sites],
        "other_threads": {
            "blocked_ns": facts.stalls.other_threads_ns,
            "syncs_per_step": facts.stalls.other_threads_per_step,
        },
        "transfers": [_with_certainty(dataclasses.asdict(transfer)) for transfer in facts.transfers],
        "worst_steps": [dataclasses.asdict(step) for step in result.worst],
        "findings": [_finding(finding) for finding in result.findings],
        "limits": list(result.limits),
        "inflation": inflation_document(capture.inflation),
        "time_error_ns": capture.time_error_ns,
        "rows": capture.rows,
    }


def _ends(interval: tuple[float, float] | None) -> list[float] | None:
    return None if interval is None else list(interval)


def _overhead(result: OverheadResult) -> dict[str, Any]:
    return {
        "kind": "overhead",
        "source": result.backend,
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
    return {
        "name": condition.name,
        "tool": condition.tool,
        "ratio": None if cost is None else cost.ratio.value,
        "ratio_interval": None if cost is None else _ends(cost.ratio.interval),
        "p50_ratio": None if cost is None else cost.p50_ratio,
        "added_ns_per_step": None if cost is None else cost.added_ns,
        "mean_step_ns": None if cost is None else cost.mean_step_ns,
        "smallest_visible_ratio": None if cost is None else cost.smallest_visible,
        "unit": condition.unit,
        "units": None if cost is None else cost.units,
        "missing": condition.missing,
    }


def _columns(summaries: Mapping[str, Summary]) -> dict[str, Any]:
    """Return the statistics of the ledger's columns, and the step of each one's largest value."""
    statistics = ("mean", "p50", "p90", "p99", "max")
    return {
        "ledger": {each: {name: getattr(entry, each) for name, entry in summaries.items()} for each in statistics},
        "max_step": {name: entry.max_step for name, entry in summaries.items()},
    }


def _with_certainty(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "certainty": row.pop("evidence").name.lower()}


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code.value,
        "text": finding.text,
        "certainty": finding.certainty.name.lower(),
        "cost_ns_per_step": finding.cost_ns_per_step,
        "evidence": dict(finding.evidence),
        "advice": finding.advice,
    }


def _hazard(hazard: HazardResult) -> dict[str, Any]:
    return dataclasses.asdict(hazard) | {"code": hazard.code.value}


def _comparison(result: ComparisonResult) -> dict[str, Any]:
    comparison = result.comparison
    judgement, moved = comparison.judgement, comparison.moved
    return {
        "kind": "comparison",
        "source": comparison.baseline.source,
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
        document = _run(result)
    elif isinstance(result, CaptureResult):
        document = _analysis(result)
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


REPORT = JsonReport()
