"""The terminal report: what to do first, where a step goes, the times, the findings; in the room there is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, TextIO

from fdprof.reports._capture_page import show_capture
from fdprof.reports._comparison_page import show_comparison
from fdprof.reports._console import Screen, look_of
from fdprof.reports._overhead_page import show_overhead
from fdprof.reports._run_page import show_run
from fdprof.reports.protocol import EVERY, Analyses, ComparisonResult, Reportable

from fdprof import units
from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.inflation import OverheadResult


@dataclass(frozen=True, slots=True)
class TerminalReport:
    """Text for people: no line is longer than `width`, which counts from 40 columns on."""

    width: int = 100
    color: bool = False
    is_ascii: bool = False

    suffix: ClassVar[str] = ".txt"
    needs: tuple[str, ...] = ()
    renders: ClassVar[tuple[type, ...]] = EVERY

    def render(self, result: Reportable) -> str:
        screen = Screen(self.width, self.color, self.is_ascii)
        if isinstance(result, Analyses):
            for entry in result.results:
                screen.blank()
                screen.say(units.shown(f"== {entry.path}"), style="bold")
                show_capture(screen, entry)
        elif isinstance(result, CaptureResult):
            show_capture(screen, result)
        elif isinstance(result, ComparisonResult):
            show_comparison(screen, result)
        elif isinstance(result, OverheadResult):
            show_overhead(screen, result)
        else:
            show_run(screen, result)
        return screen.text()


def terminal_report(stream: TextIO, environ: Mapping[str, str], columns: int | None = None) -> TerminalReport:
    """Return the report for a stream: as wide as it is, in colours where it takes them, in signs that it carries."""
    return TerminalReport(*look_of(stream, environ, columns))


REPORT = TerminalReport()
