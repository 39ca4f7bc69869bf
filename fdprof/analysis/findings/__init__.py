"""What fdprof concludes from the facts of a capture; each finding with its numbers, cost and advice."""

from collections.abc import Sequence

from fdprof.analysis.facts import Facts
from fdprof.analysis.findings.allocations import allocation_findings
from fdprof.analysis.findings.bound import bound_findings
from fdprof.analysis.findings.copies import copy_findings
from fdprof.analysis.findings.fences import fence_findings
from fdprof.analysis.findings.quality import quality_findings
from fdprof.analysis.findings.streams import stream_findings
from fdprof.analysis.findings.waits import wait_findings
from fdprof.finding import DOUBTS, Finding


def findings_of(facts: Facts) -> tuple[Finding, ...]:
    """Return all findings: what makes the rest doubtful first, then by cost."""
    kinds = (
        quality_findings,
        copy_findings,
        fence_findings,
        wait_findings,
        allocation_findings,
        stream_findings,
        bound_findings,
    )
    return in_order([finding for of_kind in kinds for finding in of_kind(facts)])


def in_order(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return findings with the doubts first, and the others by cost."""
    doubts = [finding for finding in findings if finding.code in DOUBTS]
    others = [finding for finding in findings if finding.code not in DOUBTS]
    return (*doubts, *sorted(others, key=lambda finding: -(finding.cost_ns_per_step or 0.0)))
