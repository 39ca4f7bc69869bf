"""The JSON report: versioned, with stable keys.  Unknown is null; times are ns."""

import dataclasses
import json
from typing import Any

from fdprof.reports.protocol import ComparisonResult, Reportable

from fdprof.analysis.ledger import TIME_COLUMNS
from fdprof.analysis.results import ABOVE_LIMIT, HazardResult, RunResult

# History of the document.  1: first; since then only keys were added (fault, audited, fence, hazards).
SCHEMA_VERSION = 1

# Columns of the ledger that need the causes of idle time, which a run without a tracer does not have yet.
_NOT_YET = ("harmful_wait_ns", "harmless_wait_ns")


class JsonReport:
    """One document for a run or a comparison."""

    suffix = ".json"

    def render(self, result: Reportable, width: int, color: bool) -> str:
        document = _comparison(result) if isinstance(result, ComparisonResult) else _run(result)
        return json.dumps({"schema_version": SCHEMA_VERSION, **document}, indent=2) + "\n"


def _run(result: RunResult) -> dict[str, Any]:
    run = result.run
    summaries = {name: dataclasses.asdict(result.summaries[name]) for name in TIME_COLUMNS}
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
        "ledger": {
            statistic: {name: summaries[name][statistic] for name in TIME_COLUMNS} | dict.fromkeys(_NOT_YET)
            for statistic in ("mean", "p50", "p90", "p99", "max")
        },
        "max_step": {name: summaries[name]["max_step"] for name in TIME_COLUMNS},
        "idle_by_cause_ns": None,
        "residual_ns": None,
        "syncs_per_step": result.syncs_per_step,
        "transfers": [dataclasses.asdict(transfer) for transfer in result.transfers],
        "fence": {
            "waits_per_step": result.fence.per_step,
            "wait_ns": result.fence.wait_ns,
            "cpu_ns": result.fence.cpu_ns,
            "learn_ns": dataclasses.asdict(result.fence.learn),
        },
        "hazards": None if result.hazards is None else [_hazard(hazard) for hazard in result.hazards],
        "findings": None,
        "limits": [*run.caveats, *([ABOVE_LIMIT] if result.efficiency is not None and result.efficiency > 1 else [])],
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


def _hazard(hazard: HazardResult) -> dict[str, Any]:
    return dataclasses.asdict(hazard) | {"code": hazard.code.value}


def _comparison(result: ComparisonResult) -> dict[str, Any]:
    comparison = result.comparison
    return {
        "kind": "comparison",
        "source": comparison.baseline.backend,
        "baseline": _run(result.baseline),
        "candidate": _run(result.candidate),
        "ratio": comparison.ratio,
        "ratio_p50": comparison.ratio_p50,
        "ratio_p90": comparison.ratio_p90,
        "ratio_p99": comparison.ratio_p99,
        "ratio_interval": None,
        "detectable_ratio": None,
        "verdict": None,
        "removed_or_moved": None,
        "tokens_equal": comparison.tokens_equal,
        "mismatches": list(comparison.mismatches),
        "bridge_ns": None,
    }


REPORT = JsonReport()
