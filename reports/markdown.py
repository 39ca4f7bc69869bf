"""The Markdown report: a summary for the job page of a CI run."""

from collections.abc import Iterable, Sequence

from fdprof.reports import _comparison_words as words
from fdprof.reports._overhead_text import (
    OVERHEAD_HEADINGS,
    inflation_text,
    overhead_missing,
    overhead_notes,
    overhead_rows,
    overhead_subject,
    overhead_title,
)
from fdprof.reports._text import HEADINGS, LEDGER_HEADINGS
from fdprof.reports.protocol import EVERY, Analyses, ComparisonResult, Reportable

from fdprof import units
from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.inflation import OverheadResult
from fdprof.analysis.results import RunResult
from fdprof.comparison import Verdict
from fdprof.finding import Finding
from fdprof.model import Summary

_MEANING = str.maketrans({character: f"\\{character}" for character in "\\`*_{}[]<>#|~&!"})
"""Characters that mean something to Markdown or HTML: a kernel's name must not."""


class MarkdownReport:
    """One page: what it comes to, the times, the notes."""

    suffix = ".md"
    renders = EVERY

    def render(self, result: Reportable) -> str:
        return "\n".join(_page(result)).rstrip("\n") + "\n"


def _page(result: Reportable) -> Iterable[str]:
    if isinstance(result, Analyses):
        return [line for entry in result.results for line in (*_analysis(entry), "")]
    if isinstance(result, CaptureResult):
        return _analysis(result)
    if isinstance(result, OverheadResult):
        return _overhead(result)
    return _comparison(result) if isinstance(result, ComparisonResult) else _run(result)


def _comparison(result: ComparisonResult) -> list[str]:
    comparison = result.comparison
    verdict = comparison.verdict
    what = "wrong tokens" if verdict is None else verdict.value
    page = [f"## fdprof: {_text(result.labels[1])} against {_text(result.labels[0])}: {what}", ""]
    page += [_text(sentence) for sentence in words.sentences(result)]
    page.append("")
    page += [f"- gate `{gate.option}`: **{gate.outcome.value}**; {_text(gate.text)}" for gate in comparison.gates]
    page += [f"- differs: {_text(words.mismatch_line(mismatch))}" for mismatch in comparison.mismatches]
    if verdict is not None and verdict is not Verdict.NOT_COMPARABLE:
        page += ["", "Times per step, µs:", ""]
        rows = [*words.step_rows(result), *words.column_rows(comparison), words.efficiency_row(comparison)]
        rows += words.token_rows(result)
        page += _table(("", *result.labels, "ratio", "95 % interval"), rows)
        if comparison.bridge is not None:
            page += ["", "Where the difference is, µs a step (adds up to the ns):", ""]
            parts = [(name, units.signed_us(ns)) for name, ns in comparison.bridge.parts.items() if ns]
            page += _table(("part", "change"), [*parts, ("the step", units.signed_us(comparison.bridge.step_ns))])
    else:
        page += ["", *_table(("what the host read", *result.labels), words.token_rows(result))]
    return [*page, "", *_notes((*words.method_lines(result), *comparison.notes))]


def _overhead(result: OverheadResult) -> list[str]:
    page = [f"## fdprof: {_text(overhead_title(result))}", "", f"{_text(overhead_subject(result))}.", ""]
    page += ["Times per step, µs:", ""]
    page += _table(OVERHEAD_HEADINGS, overhead_rows(result))
    page += ["", *(f"- {_text(line)}" for line in overhead_missing(result))]
    return [*page, *_notes(overhead_notes(result))]


def _run(result: RunResult) -> list[str]:
    run = result.run
    page = [f"## fdprof: {_text(run.scenario)} in mode {_text(run.mode)} on {_text(run.backend)}", ""]
    page += [
        f"Values {result.values_right:,} of {result.values:,} right, stale reads {result.stale_reads:,} of "
        f"{result.reads:,}; efficiency {units.percent(result.efficiency)}.",
        "",
        "Times per step, µs:",
        "",
    ]
    page += _summaries(HEADINGS, result.summaries)
    return [*page, "", *_findings(result.findings), *_notes(run.caveats)]


def _analysis(result: CaptureResult) -> list[str]:
    page = [f"## fdprof: {_text(result.path)}", ""]
    page += [_text(sentence) for sentence in result.headline]
    if result.facts.capture.inflation is not None:
        page += ["", f"{_text(inflation_text(result.facts.capture.inflation))}."]
    page += ["", "Times per step, µs:", "", *_summaries(LEDGER_HEADINGS, result.summaries), ""]
    if result.idle_by_cause_ns:
        causes = [(name, units.us(ns)) for name, ns in result.idle_by_cause_ns.items()]
        page += ["Device idle by cause, µs a step:", "", *_table(("cause", "idle"), causes), ""]
    return [*page, *_findings(result.findings), *_notes(result.limits)]


def _summaries(headings: dict[str, str], summaries: dict[str, Summary]) -> list[str]:
    rows = [
        (statistic, *(units.us(getattr(summaries[name], statistic)) for name in headings))
        for statistic in ("mean", "p50", "p90", "p99", "max")
    ]
    return _table(("", *headings.values()), rows)


def _findings(findings: Sequence[Finding]) -> list[str]:
    lines = [
        f"- **{finding.code.value}** ({finding.certainty.name.lower()}"
        + ("" if finding.cost_ns_per_step is None else f", at most {units.us(finding.cost_ns_per_step)} µs a step")
        + f"): {_text(finding.text)}. {_text(finding.advice)}"
        for finding in findings
    ]
    return [*lines, ""] if lines else []


def _notes(notes: Iterable[str]) -> list[str]:
    return [f"- note: {_text(note)}" for note in notes]


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return a table; rows may be shorter than its head."""
    if not rows:
        return []
    width = len(head)
    padded = [(*row, *[""] * (width - len(row))) for row in rows]
    lines = [head, ["---"] + ["---:"] * (width - 1)]
    made = ["| " + " | ".join(_text(cell) for cell in line) + " |" for line in (lines[0], *padded)]
    return [made[0], "| " + " | ".join(lines[1]) + " |", *made[1:]]


def _text(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return units.shown(text).translate(_MEANING)


REPORT = MarkdownReport()
