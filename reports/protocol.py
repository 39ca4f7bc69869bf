"""What a report must offer, and the things that can be reported.  Reports render; they compute nothing."""

from dataclasses import dataclass
from typing import Protocol

from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.results import RunResult, compare
from fdprof.model import Comparison


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """A comparison with the results of its two runs."""

    comparison: Comparison
    baseline: RunResult
    candidate: RunResult

    @classmethod
    def of(cls, baseline: RunResult, candidate: RunResult) -> "ComparisonResult":
        """Return the comparison of two results; NotComparable when they differ in more than their mode."""
        return cls(compare(baseline, candidate), baseline, candidate)


@dataclass(frozen=True, slots=True)
class Analyses:
    """The analyses of several captures of one call, in its order."""

    results: tuple[CaptureResult, ...]


Reportable = RunResult | ComparisonResult | CaptureResult | Analyses


class Report(Protocol):
    """One output format.  `REPORT` in each file of this folder is an object with these members."""

    suffix: str

    def render(self, result: Reportable, width: int, color: bool) -> str:
        """Return the whole report as text that ends in a newline; `width` in columns."""
