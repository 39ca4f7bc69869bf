"""The JSON report: versioned, with stable keys.  Unknown is null; times are ns.

schema/report.schema.json beside this file describes every key, and docs/json.md is made of it.
"""

import json
from typing import Any

from fdprof.reports._identity import kind_of, source_of
from fdprof.reports._json.analysis import analysis_document
from fdprof.reports._json.comparison import comparison_document
from fdprof.reports._json.overhead import overhead_document
from fdprof.reports._json.run import run_document
from fdprof.reports.protocol import EVERY, Analyses, ComparisonResult, Reportable

from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.results import RunResult

# History of the document.  1: first; since then only keys were added (fault, audited, fence, hazards, headline of runs,
# subject and steps of findings, source of analyses) and nulls filled (causes of idle time, harmful and harmless waits,
# findings; verdict, intervals, bridge and fields that differ), the kind overhead and the inflation of captures came,
# and what a capture does not know of a transfer is null where it was -1, 0 or false.
SCHEMA_VERSION = 1


class JsonReport:
    """One document for a run, a comparison, an analysis or several, or for what profiling costs."""

    suffix = ".json"
    needs: tuple[str, ...] = ()
    renders = EVERY

    def render(self, result: Reportable) -> str:
        document = {"schema_version": SCHEMA_VERSION, **_document(result)}
        # JSON has no NaN and no infinity, so a number that is none is a bug of what made it, and no file.
        return json.dumps(document, indent=2, allow_nan=False) + "\n"


def _document(result: Reportable) -> dict[str, Any]:
    if isinstance(result, RunResult):
        return run_document(result)
    if isinstance(result, ComparisonResult):
        return comparison_document(result)
    if isinstance(result, CaptureResult):
        return analysis_document(result)
    if isinstance(result, Analyses):
        entries = [analysis_document(entry) for entry in result.results]
        return {"kind": kind_of(result), "source": source_of(result), "analyses": entries}
    return overhead_document(result)


REPORT = JsonReport()
