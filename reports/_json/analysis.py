"""The JSON document of an analysed capture."""

import dataclasses
from typing import Any

from fdprof.reports._identity import kind_of, source_of
from fdprof.reports._json.entries import certainty, findings, observed, statistics, with_certainty

from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.transfers import CaptureTransfer
from fdprof.captured import inflation_document


def analysis_document(result: CaptureResult) -> dict[str, Any]:
    """Return the document of one analysis, without its schema version."""
    facts = result.facts
    capture, steps = facts.capture, facts.steps
    thread = capture.threads[steps.thread]
    device = None if facts.device is None else capture.devices[facts.device]
    return {
        "kind": kind_of(result),
        "source": source_of(result),
        "file": result.path,
        "tool": capture.tool,
        "headline": list(result.headline),
        "bound": facts.bound.value,
        "steps": len(steps),
        "steps_found_by": steps.found_by,
        "steps_certainty": certainty(steps.evidence),
        "steps_left_out": steps.left_out,
        "steps_first": result.first,
        "process": thread.process,
        "thread": thread.thread,
        "device": None if device is None else device.device,
        "device_name": None if device is None else device.name,
        **statistics(result.summaries),
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
        "syncs": [with_certainty(site) for site in facts.stalls.sites],
        "other_threads": {
            "blocked_ns": facts.stalls.other_threads_ns,
            "syncs_per_step": facts.stalls.other_threads_per_step,
        },
        "transfers": [_transfer(transfer) for transfer in facts.transfers],
        "worst_steps": [dataclasses.asdict(step) for step in result.worst],
        "findings": findings(result.findings, facts),
        "limits": list(result.limits),
        "inflation": inflation_document(capture.inflation),
        "time_error_ns": capture.time_error_ns,
        "rows": capture.rows,
    }


def _transfer(transfer: CaptureTransfer) -> dict[str, Any]:
    """Return a transfer; what its capture does not know of it is None."""
    size, stream = observed(transfer.size_bytes), observed(transfer.stream)
    return {
        **with_certainty(transfer),
        "size_bytes": size,
        "bytes_per_step": None if size is None else transfer.bytes_per_step,
        "stream": stream,
        "is_default_stream": None if stream is None else transfer.is_default_stream,
        "blocking_share": None if transfer.issue_ns is None else transfer.blocking_share,
    }
