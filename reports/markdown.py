"""The Markdown report: what a pull request or the job page of a CI run needs, the verdict first."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from fdprof.reports import _comparison_words as words
from fdprof.reports._capture_text import (
    ROWS_SHOWN,
    SYNC_HEADINGS,
    SYNCS_TITLE,
    TRANSFER_HEADINGS,
    TRANSFERS_TITLE,
    blocked_line,
    capture_subject,
    loop_lines,
    other_threads_line,
    sync_rows,
    transfer_rows,
    worst_lines,
)
from fdprof.reports._markdown import Block, code, folded, page_of, paragraph, table, text
from fdprof.reports._overhead_text import (
    OVERHEAD_HEADINGS,
    overhead_missing,
    overhead_notes,
    overhead_rows,
    overhead_subject,
    overhead_title,
)
from fdprof.reports._parts import Part, parts_of_result
from fdprof.reports._run_text import outcome_lines, warnings
from fdprof.reports._text import (
    AT_STEP,
    FINDINGS_TITLE,
    HEADINGS,
    LEDGER_HEADINGS,
    P99_NOTE,
    STATISTICS,
    Row,
    finding_certainty,
    finding_steps,
    has_p99,
    run_subject,
    statistic_rows,
)
from fdprof.reports.protocol import EVERY, Analyses, ComparisonResult, Reportable

from fdprof import units
from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.inflation import OverheadResult
from fdprof.analysis.results import RunResult
from fdprof.model import Summary

_PARTS_SHOWN = 12
# More findings or notes than these are folded.
_FINDINGS_OPEN = 2
_NOTES_OPEN = 4


class MarkdownReport:
    """One page: what it comes to, the times, where the time is, the findings, the notes."""

    suffix = ".md"
    needs: tuple[str, ...] = ()
    renders = EVERY

    def render(self, result: Reportable) -> str:
        return page_of(_blocks(result))


def _blocks(result: Reportable) -> Iterator[Block]:
    if isinstance(result, Analyses):
        for entry in result.results:
            yield from _analysis(entry)
    elif isinstance(result, CaptureResult):
        yield from _analysis(result)
    elif isinstance(result, OverheadResult):
        yield from _overhead(result)
    elif isinstance(result, ComparisonResult):
        yield from _comparison(result)
    else:
        yield from _run(result)


def _comparison(result: ComparisonResult) -> Iterator[Block]:
    comparison = result.comparison
    verdict = comparison.verdict
    ours, theirs = (text(label) for label in words.shown_labels(result))
    simulated = " (simulated)" if words.is_simulated(result) else ""
    yield _title(f"{theirs} against {ours}: {'wrong tokens' if verdict is None else verdict.value}{simulated}")
    yield _sentences(words.sentences(result))
    yield _lines(words.subject_lines(result))
    gates = [f"- gate `{gate.option}`: **{gate.outcome.value}**; {text(gate.text)}" for gate in comparison.gates]
    differs = [f"- differs: {text(words.mismatch_line(mismatch))}" for mismatch in comparison.mismatches]
    yield Block("gates and fields that differ", (*gates, *differs), needed=True)
    heads = [text(label) for label in words.column_labels(result)]
    tokens = words.token_rows(result)
    if comparison.judgement is not None:
        rows = [*words.step_rows(result), *words.column_rows(comparison), words.efficiency_row(comparison), *tokens]
        yield _table("times", "Times per step, µs:", ["", *heads, "ratio", "95 % interval"], _plain(rows))
        bridge = _named(words.bridge_rows(result))
        if bridge:
            bridge[-1] = ("the step", *bridge[-1][1:])
            yield _table("bridge", f"{_begun(words.bridge_title(result))}:", ["part", *heads, "change"], bridge)
    else:
        yield _table("what the host read", "", ["what the host read", *heads], _plain(tokens))
    lines = [line.removeprefix("note: ") for line in words.p99_note(result)]
    yield _notes((*lines, *words.method_lines(result), *comparison.notes))


def _overhead(result: OverheadResult) -> Iterator[Block]:
    yield _title(text(overhead_title(result)))
    yield _lines([f"{overhead_subject(result)}."])
    yield _table("times", "Times per step, µs:", OVERHEAD_HEADINGS, _plain(overhead_rows(result)))
    yield Block("what is missing", tuple(f"- {text(line)}" for line in overhead_missing(result)))
    yield _notes(overhead_notes(result))


def _run(result: RunResult) -> Iterator[Block]:
    run = result.run
    simulated = " (simulated)" if run.is_simulated else ""
    yield _title(f"{text(run.scenario)} in mode {text(run.mode)} on {text(run.backend)}{simulated}")
    yield _sentences([*warnings(result), *map(units.shown, result.headline)])
    yield _lines(run_subject(run))
    yield _statistics(HEADINGS, result.summaries, result.label_of_max)
    yield _parts(parts_of_result(result), result.summaries["window_ns"].mean)
    yield Block("transfers, waits and tokens", tuple(f"- {text(line)}" for line in outcome_lines(result)))
    yield _findings(result)
    yield _notes((*_p99_note(result.summaries), *result.limits))


def _analysis(result: CaptureResult) -> Iterator[Block]:
    yield _title(code(result.path))
    yield _sentences([units.shown(sentence) for sentence in result.headline])
    yield _lines(capture_subject(result))
    yield _statistics(LEDGER_HEADINGS, result.summaries)
    yield _parts(parts_of_result(result), result.summaries["window_ns"].mean)
    lines = (*loop_lines(result), blocked_line(result), *other_threads_line(result))
    yield Block("what the loop does", tuple(f"- {text(line)}" for line in lines))
    yield _findings(result)
    yield _folded_table(TRANSFERS_TITLE, TRANSFER_HEADINGS, transfer_rows(result))
    yield _folded_table(SYNCS_TITLE, SYNC_HEADINGS, sync_rows(result))
    worst = [f"- {text(line)}" for line in worst_lines(result)]
    yield Block("longest steps", tuple(folded("longest steps", worst)) if worst else ())
    yield _notes((*_p99_note(result.summaries), *result.limits))


def _title(markdown: str) -> Block:
    return Block("title", (f"## fdprof: {markdown}",), needed=True)


def _sentences(sentences: Sequence[str]) -> Block:
    """Return sentences, each a paragraph of its own, the first one bold."""
    shown = [paragraph(sentence) for sentence in sentences]
    lines = [line for sentence in shown for line in (f"**{sentence}**" if sentence is shown[0] else sentence, "")]
    return Block("sentences", tuple(lines), needed=True)


def _lines(lines: Sequence[str]) -> Block:
    """Return lines of one paragraph."""
    return Block("what was measured", (*(f"{paragraph(line)}<br>" for line in lines[:-1]), paragraph(lines[-1])))


def _statistics(
    headings: Mapping[str, str],
    summaries: Mapping[str, Summary],
    label: Callable[[str], str | None] = lambda name: None,
) -> Block:
    rows = _plain(statistic_rows(headings, summaries, label))
    return _table("times", "Times per step, µs:", ["", *STATISTICS, AT_STEP], rows)


def _p99_note(summaries: Mapping[str, Summary]) -> list[str]:
    count = summaries["window_ns"].count
    return [P99_NOTE] if count and not has_p99(count) else []


def _parts(parts: Sequence[Part], step_ns: float | None) -> Block:
    """Return where a step goes: each part with its µs and its share."""
    if not parts or not step_ns:
        return Block("where a step goes", ())
    rows = [(code(part.name), units.us(part.ns), units.percent(part.ns / step_ns)) for part in parts[:_PARTS_SHOWN]]
    left = parts[_PARTS_SHOWN:]
    if left:
        ns = sum(part.ns for part in left)
        rows.append((units.counted(len(left), "other"), units.us(ns), units.percent(ns / step_ns)))
    return _table(
        "where a step goes", "Where a step goes, device busy and idle by cause:", ["part", "µs", "share"], rows
    )


def _findings(result: CaptureResult | RunResult) -> Block:
    lines = []
    for finding in result.findings:
        steps = finding_steps(finding, result.facts)
        shown = text(units.shown(finding.text)) + (f"; most plainly in {steps}" if steps else "")
        lines.append(f"- **{finding.code.value}** ({finding_certainty(finding)}): {shown}")
        lines.append(f"  - {paragraph(units.shown(finding.advice))}")
    if len(result.findings) > _FINDINGS_OPEN:
        codes = ", ".join(dict.fromkeys(finding.code.value for finding in result.findings))
        lines = folded(f"{len(result.findings)} findings: {codes}", lines)
    elif lines:
        lines = [f"{_begun(FINDINGS_TITLE)}:", "", *lines]
    return Block("findings", tuple(lines))


def _notes(notes: Iterable[str]) -> Block:
    # Another sign than the list above has, so that it is a list of its own.
    lines = [f"* note: {text(units.shown(note))}" for note in notes]
    if len(lines) > _NOTES_OPEN:
        lines = folded(f"{len(lines)} notes", lines)
    return Block("notes", tuple(lines))


def _folded_table(title: str, headings: Sequence[str], rows: Sequence[Row]) -> Block:
    if not rows:
        return Block(title, ())
    lines = table(["", *headings], _named(rows[:ROWS_SHOWN]))
    left = len(rows) - ROWS_SHOWN
    return Block(title, tuple(folded(title, [*lines, *(["", f"... and {left} more"] if left > 0 else [])])))


def _table(name: str, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Block:
    lines = table(head, rows)
    return Block(name, (*([text(title), ""] if title and lines else []), *lines), needed=name == "times")


def _plain(rows: Iterable[Row]) -> list[Row]:
    """Return rows of our own words as Markdown."""
    return [tuple(text(cell) for cell in row) for row in rows]


def _named(rows: Iterable[Row]) -> list[Row]:
    """Return rows that begin with a name from elsewhere as Markdown."""
    return [(code(name), *(text(cell) for cell in cells)) for name, *cells in rows]


def _begun(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


REPORT = MarkdownReport()
