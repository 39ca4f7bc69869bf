"""The part of the HTML page that shows a comparison: the verdict, both sides on one scale, the way between them."""

from fdprof.reports import _comparison_words as words
from fdprof.reports._html import run as run_part
from fdprof.reports._html.bars import bars_of, waterfall_of
from fdprof.reports._html.capture import capture_side
from fdprof.reports._html.capture import subject as capture_subject
from fdprof.reports._html.ratios import Named, ratios_of
from fdprof.reports._html.timeline import side_data, times_only
from fdprof.reports._html.view import Badge, Json, Part, Ratios, Side, Table, Waterfall
from fdprof.reports._html.words import INTERRUPTED, SIMULATED, longest_table
from fdprof.reports._parts import parts_of_side
from fdprof.reports._text import has_p99
from fdprof.reports.protocol import ComparisonResult

from fdprof import units
from fdprof.analysis.results import RunResult
from fdprof.comparison import STATISTICS, Comparison, Verdict

_VERDICTS = {
    Verdict.FASTER: "good",
    Verdict.SLOWER: "bad",
    Verdict.SAME: "neutral",
    Verdict.INCONCLUSIVE: "doubt",
    Verdict.NOT_COMPARABLE: "doubt",
}
_SIDES = 0, 1


def part_of_comparison(result: ComparisonResult, part: str, most_spans: int) -> Part:
    """Return the part of a comparison."""
    comparison = result.comparison
    labels = words.shown_labels(result)
    # Where times are not compared, they do not stand side by side either; the timeline shows what happened.
    has_times = comparison.judgement is not None
    data = [_data(result, at, labels[at], most_spans // 2) for at in _SIDES]
    sides = comparison.baseline, comparison.candidate
    bars = [(label, parts_of_side(side)) for label, side in zip(labels, sides, strict=True)]
    longest = [_longest(result, at, labels[at], part) for at in _SIDES]
    return Part(
        id=part,
        title=f"{labels[1]} against {labels[0]}",
        badges=_badges(result),
        sentences=tuple(units.shown(sentence) for sentence in words.sentences(result)),
        facts=(*_judged(comparison), *_subject(result, labels)),
        gates=tuple((gate.option, gate.outcome.value, units.shown(gate.text)) for gate in comparison.gates),
        mismatches=tuple(units.shown(words.mismatch_line(mismatch)) for mismatch in comparison.mismatches),
        notes=tuple(units.shown(note) for note in comparison.notes),
        bars=bars_of(bars) if has_times else None,
        numbers=tuple(table for table in (_times(result), _tokens(result)) if table is not None),
        lines=tuple(units.shown(line) for line in (*words.method_lines(result), *words.p99_note(result))),
        longest=tuple(table for table in longest if table is not None) if has_times else (),
        ratios=_ratios(comparison),
        bridge=_bridge(comparison, labels),
        sides=tuple(side for at in _SIDES if (side := _side(result, at, labels[at], part)) is not None),
        has_timeline=any(entry["timeline"] is not None for entry in data),
        data={"sides": data, "times": has_times},
    )


def _data(result: ComparisonResult, at: int, label: str, most_spans: int) -> Json:
    """Return a side's data; of a baseline file its step times, which are all that it holds."""
    side = (result.comparison.baseline, result.comparison.candidate)[at]
    entry = result.entries[at]
    if isinstance(entry, RunResult):
        made = run_part.run_data(entry, label, most_spans, side.left_out)
        return times_only(label, side.steps_ns) if made is None else made
    if entry is None:
        return times_only(label, side.steps_ns)
    return side_data(label, entry.facts, entry, most_spans, [entry.first])


def _badges(result: ComparisonResult) -> tuple[Badge, ...]:
    verdict = result.comparison.verdict
    runs = [entry.run for entry in result.entries if isinstance(entry, RunResult)]
    return (
        Badge("wrong tokens", "bad") if verdict is None else Badge(verdict.value, _VERDICTS[verdict]),
        *([SIMULATED] if words.is_simulated(result) else []),
        *([INTERRUPTED] if any(run.interrupted for run in runs) else []),
    )


def _judged(comparison: Comparison) -> tuple[tuple[str, str], ...]:
    """Return the verdict with its ratio and interval, and why it is none."""
    judgement = comparison.judgement
    if judgement is None:
        return ()
    interval = "" if judgement.ratio.interval is None else f", 95 % interval {words.interval(judgement.ratio)}"
    reason = f"; {units.shown(judgement.reason)}" if judgement.reason else ""
    return (
        ("verdict", f"{judgement.verdict.value}{reason}"),
        ("ratio of mean steps", f"{units.ratio(judgement.ratio.value)}{interval} (candidate / baseline)"),
    )


def _subject(result: ComparisonResult, labels: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Return what was compared: each side, and the loop once where one call ran both."""
    found = words.side_lines(result, labels)
    shared = words.shared_loop(result)
    if shared is not None:
        left_out = {"mode", "run", "steps"}
        return (*found, *(fact for fact in run_part.run_subject(shared) if fact[0] not in left_out))
    for entry, label in zip(result.entries, labels, strict=True):
        if isinstance(entry, RunResult):
            found += [(f"{label}: {term}", text) for term, text in run_part.run_subject(entry.run)]
        elif entry is not None:
            found += [(f"{label}: {term}", text) for term, text in capture_subject(entry) if term != "capture"]
    return tuple(found)


def _times(result: ComparisonResult) -> Table | None:
    if result.comparison.judgement is None:
        return None
    rows = [*words.step_rows(result), *words.column_rows(result.comparison), words.efficiency_row(result.comparison)]
    head = ("", *words.column_labels(result), "ratio", "95 % interval")
    padded = tuple((*row, *[""] * (len(head) - len(row))) for row in rows)
    return Table("times per step, µs", head, padded)


def _ratios(comparison: Comparison) -> Ratios | None:
    if comparison.judgement is None:
        return None
    shows_p99 = all(has_p99(len(side.steps_ns)) for side in (comparison.baseline, comparison.candidate))
    given = [Named(name, comparison.ratios[name]) for name in STATISTICS if name != "p99" or shows_p99]
    caption = f"step time as a ratio, candidate / baseline; shaded: the same within {comparison.policy.same_within:g}"
    return ratios_of(given, caption, comparison.policy.same_within)


def _tokens(result: ComparisonResult) -> Table | None:
    rows = words.token_rows(result)
    return Table("what the host read", ("", *words.column_labels(result)), tuple(rows)) if rows else None


def _longest(result: ComparisonResult, at: int, label: str, part: str) -> Table | None:
    entry = result.entries[at]
    if entry is None or entry.facts is None or len(entry.facts.steps) < 2:
        return None
    return longest_table(f"longest steps of {label}, µs", entry.worst, entry.facts.steps, part, at)


def _bridge(comparison: Comparison, labels: tuple[str, str]) -> Waterfall | None:
    bridge = comparison.bridge
    if bridge is None:
        return None
    means = comparison.step_ns[0]["mean"], comparison.step_ns[1]["mean"]
    return waterfall_of(labels, means, bridge.parts, bridge.step_ns)


def _side(result: ComparisonResult, at: int, label: str, part: str) -> Side | None:
    entry = result.entries[at]
    if entry is None:
        return None
    if isinstance(entry, RunResult):
        return run_part.run_side(entry, label, part, at)
    return capture_side(entry, label, part, at)
