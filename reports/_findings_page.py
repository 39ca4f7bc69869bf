"""The terminal's findings, which runs and captures have alike."""

from fdprof.reports._console import Screen
from fdprof.reports._text import FINDINGS_TITLE, finding_certainty, finding_steps

from fdprof import units
from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.results import RunResult


def show_findings(screen: Screen, result: CaptureResult | RunResult) -> None:
    """Put each finding with its certainty, cost and advice, and the steps that show it."""
    if not result.findings:
        return
    screen.title(FINDINGS_TITLE)
    for finding in result.findings:
        text = f"{finding.code.value} ({finding_certainty(finding)}): {units.shown(finding.text)}"
        steps = finding_steps(finding, result.facts)
        screen.say(text + (f"; most plainly in {steps}" if steps else ""), indent=2)
        screen.say(units.shown(finding.advice), indent=4)
