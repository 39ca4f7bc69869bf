"""The Perfetto report: every analysed step as tracks, flows and counters, for ui.perfetto.dev."""

from collections.abc import Iterator
from dataclasses import dataclass

from fdprof.reports._perfetto.steps import add_steps, lead_ns
from fdprof.reports._perfetto.trace import Trace
from fdprof.reports.protocol import HAVE_STEPS, Analyses, ComparisonResult, Reportable

from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.inflation import OverheadResult
from fdprof.analysis.results import RunResult
from fdprof.analysis.timeline import timeline_of

# The clock's 0 lies before the first step where something that reaches into it began earlier: times have no sign.
_WHOLE_NS = 1_000_000


@dataclass(frozen=True, slots=True)
class _Side:
    """One run or capture under the name of its group of tracks."""

    name: str
    result: RunResult | CaptureResult


class PerfettoReport:
    """A run, a capture, several captures, or both sides of a comparison, each of them a group of tracks."""

    suffix = ".perfetto-trace"
    needs = ("perfetto",)
    renders = HAVE_STEPS

    def render(self, result: Reportable) -> bytes:
        """Return the trace.  EnvironmentMissing where the package perfetto is not installed."""
        trace = Trace()
        sides = list(_sides(result))
        known = [(side, side.result.facts) for side in sides]
        timelines = [None if facts is None else timeline_of(facts) for _, facts in known]
        lead = max((lead_ns(timeline) for timeline in timelines if timeline is not None), default=0)
        zero = -(-lead // _WHOLE_NS) * _WHOLE_NS
        for (side, facts), timeline in zip(known, timelines, strict=True):
            process = trace.process(side.name, _description(side.result, zero))
            if facts is not None and timeline is not None:
                add_steps(trace, process, facts, timeline, side.result.findings, zero)
        return trace.take()


def _sides(result: Reportable) -> Iterator[_Side]:
    if isinstance(result, ComparisonResult):
        comparison = result.comparison
        both = (
            ("baseline", comparison.baseline, result.baseline),
            ("candidate", comparison.candidate, result.candidate),
        )
        for role, side, its in both:
            if its is not None:
                yield _Side(f"{role}: {side.label}", its)
    elif isinstance(result, Analyses):
        for entry in result.results:
            yield _Side(entry.path, entry)
    elif isinstance(result, RunResult):
        yield _Side(f"{result.run.scenario} {result.run.mode} ({result.run.backend})", result)
    elif not isinstance(result, OverheadResult):
        yield _Side(result.path, result)


def _description(result: RunResult | CaptureResult, zero: int) -> str:
    """Return the three sentences, and how the times were shifted."""
    facts = result.facts
    if facts is None:
        return "no step was counted"
    shift = zero - int(facts.steps.starts_ns[0])
    how = f"Times are shifted by {shift:+d} ns, so that the first analysed step of each group begins at {zero} ns."
    return " ".join((*result.headline, how))


REPORT = PerfettoReport()
