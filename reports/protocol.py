"""What a report must offer, and the things that can be reported.  Reports render; they compute nothing."""

from dataclasses import dataclass
from pathlib import PurePath
from typing import Protocol

from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.inflation import OverheadResult
from fdprof.analysis.results import RunResult
from fdprof.comparison import Comparison


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """A comparison with the results of its two sides; None: a baseline file has no more than the side itself."""

    comparison: Comparison
    baseline: RunResult | CaptureResult | None
    candidate: RunResult | CaptureResult | None

    @property
    def entries(self) -> tuple[RunResult | CaptureResult | None, RunResult | CaptureResult | None]:
        """The results of both sides, the baseline's first."""
        return self.baseline, self.candidate

    @property
    def labels(self) -> tuple[str, str]:
        """The names of the sides: of captures the file's, and where both are called alike, which is which."""
        full = self.comparison.baseline.label, self.comparison.candidate.label
        short = PurePath(full[0]).name, PurePath(full[1]).name
        if short[0] != short[1]:
            return short
        return full if full[0] != full[1] else (f"{full[0]} (baseline)", f"{full[1]} (candidate)")


@dataclass(frozen=True, slots=True)
class Analyses:
    """The analyses of several captures of one call, in its order."""

    results: tuple[CaptureResult, ...]


Reportable = RunResult | ComparisonResult | CaptureResult | Analyses | OverheadResult
HAVE_STEPS: tuple[type, ...] = (RunResult, ComparisonResult, CaptureResult, Analyses)
"""The kinds of result that have steps and transfers."""
EVERY: tuple[type, ...] = (*HAVE_STEPS, OverheadResult)


class Report(Protocol):
    """One output format.  `REPORT` in each file of this folder is an object with these members."""

    @property
    def suffix(self) -> str:
        """The ending of its files; of several that fit the longest decides: .transfers.csv before .csv."""

    @property
    def needs(self) -> tuple[str, ...]:
        """The packages, beside those that every command needs, without which it cannot render."""

    @property
    def renders(self) -> tuple[type, ...]:
        """The kinds of result that it has something to show of."""

    def render(self, result: Reportable) -> str | bytes:
        """Return the whole output; a text ends in a newline."""
