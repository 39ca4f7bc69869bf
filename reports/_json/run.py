"""The JSON document of a run."""

import dataclasses
import math
from typing import Any

from fdprof.reports._identity import kind_of, source_of
from fdprof.reports._json.entries import findings, statistics

from fdprof.analysis.results import HazardResult, RunResult
from fdprof.model import WrongValue


def run_document(result: RunResult) -> dict[str, Any]:
    """Return the document of a run, without its schema version."""
    run = result.run
    return {
        "kind": kind_of(result),
        "source": source_of(result),
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
        "headline": list(result.headline),
        "steps": result.summaries["window_ns"].count,
        "blocks": len(run.blocks),
        **statistics(result.summaries),
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
        "findings": findings(result.findings, result.facts, result.times),
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
        "first_wrong": None if result.first_wrong is None else _wrong(result.first_wrong),
    }


def _wrong(value: WrongValue) -> dict[str, Any]:
    """Return the first wrong value; memory that no copy has filled may hold a float that JSON has no number for."""
    return dataclasses.asdict(value) | {"got": value.got if math.isfinite(value.got) else None}


def _hazard(hazard: HazardResult) -> dict[str, Any]:
    return dataclasses.asdict(hazard) | {"code": hazard.code.value}
