"""What a document is of: its kind and its source, as every versioned format says them."""

from fdprof.reports.protocol import Analyses, ComparisonResult, Reportable

from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.inflation import OverheadResult
from fdprof.analysis.results import RunResult

_KINDS: dict[type, str] = {
    RunResult: "run",
    ComparisonResult: "comparison",
    CaptureResult: "analysis",
    Analyses: "analyses",
    OverheadResult: "overhead",
}


def kind_of(result: Reportable) -> str:
    """Return the kind of a document: run, comparison, analysis, analyses or overhead."""
    return _KINDS[type(result)]


def source_of(result: Reportable) -> str | None:
    """Return the backend or importer that a document is from, of a comparison the baseline's.

    None for several captures that were not all read by one importer.
    """
    if isinstance(result, RunResult):
        return result.run.backend
    if isinstance(result, ComparisonResult):
        return result.comparison.baseline.source
    if isinstance(result, CaptureResult):
        return result.facts.capture.source
    if isinstance(result, Analyses):
        sources = {entry.facts.capture.source for entry in result.results}
        return sources.pop() if len(sources) == 1 else None
    return result.backend
