"""A comparison in words and rows, which the terminal and the Markdown report lay out each in its way."""

from collections.abc import Iterator

from fdprof.reports._text import HEADINGS, P99_NOTE, Row, has_p99, run_subject
from fdprof.reports.protocol import ComparisonResult

from fdprof import units
from fdprof.analysis.results import RunResult
from fdprof.comparison import STATISTICS, Comparison, Estimate, Judgement, Mismatch, Moved, Spread, Verdict, WaitChange
from fdprof.model import Run

_PARTS_SHOWN = 10
_BUSY = "busy:"
_MAX_HEADING = 16

_VERDICTS = {
    Verdict.FASTER: "{1} is faster than {0}",
    Verdict.SLOWER: "{1} is slower than {0}",
    Verdict.SAME: "{1} takes the same time as {0}",
    Verdict.INCONCLUSIVE: "{1} against {0} is inconclusive",
}


def shown_labels(result: ComparisonResult) -> tuple[str, str]:
    """Return the sides' names, fit to be shown."""
    ours, theirs = result.labels
    return units.shown(ours), units.shown(theirs)


def column_labels(result: ComparisonResult) -> tuple[str, str]:
    """Return the sides' names as headings: 'baseline' and 'candidate' where their own would make columns wide."""
    labels = shown_labels(result)
    return labels if max(len(label) for label in labels) <= _MAX_HEADING else ("baseline", "candidate")


def subject_lines(result: ComparisonResult) -> list[str]:
    """Return what was compared: the one loop of two runs of a call, or each side by itself."""
    shared = shared_loop(result)
    found = [] if shared is None else run_subject(shared)
    for (name, line), entry in zip(side_lines(result, _full_labels(result)), result.entries, strict=True):
        found.append(f"{name}: {line}")
        if isinstance(entry, RunResult) and shared is None:
            found += run_subject(entry.run)
    return found


def _full_labels(result: ComparisonResult) -> tuple[str, str]:
    return result.comparison.baseline.label, result.comparison.candidate.label


def shared_loop(result: ComparisonResult) -> Run | None:
    """Return the run of the baseline where both sides are of one call, so that it says what loop both ran."""
    runs = [entry.run for entry in result.entries if isinstance(entry, RunResult)]
    return runs[0] if len(runs) == 2 and runs[0].call == runs[1].call != "" else None


def side_lines(result: ComparisonResult, labels: tuple[str, str]) -> list[tuple[str, str]]:
    """Return 'baseline' and 'candidate', each with its label, where its times come from, and how many there are."""
    found = []
    sides = result.comparison.baseline, result.comparison.candidate
    for name, side, label in zip(("baseline", "candidate"), sides, labels, strict=True):
        tool = f", {side.fields['tracer']}" if side.is_capture else ""
        steps = f"{units.counted(len(side.steps_ns), 'step')} in {units.counted(len(side.windows_ns), 'block')}"
        found.append((name, f"{units.shown(label)} ({units.shown(side.source + tool)}), {steps}"))
    return found


def is_simulated(result: ComparisonResult) -> bool:
    """Return whether a side's times come from a model."""
    sides = result.comparison.baseline, result.comparison.candidate  # a baseline file has no run, but its environment
    return any(side.fields.get("profile") is not None for side in sides)


def sentences(result: ComparisonResult) -> list[str]:
    """Return what the comparison comes to: tokens first, then the verdict, then why."""
    comparison, labels = result.comparison, shown_labels(result)
    judgement = comparison.judgement
    both = f"{labels[1]} against {labels[0]}"
    if comparison.tokens_equal is False:
        return [f"{both}: {comparison.tokens_text}.", "Times are not compared: they say nothing."]
    if judgement is None:
        fields = [mismatch.field for mismatch in comparison.mismatches if not mismatch.allowed]
        return [f"{both}: not comparable.", f"They differ in {', '.join(fields)}."]
    verdict = _VERDICTS[judgement.verdict].format(*labels)
    found = [
        f"{verdict}: {units.ratio(judgement.ratio.value)} of its mean step{_interval_text(judgement.ratio)}; "
        f"{comparison.tokens_text}."
    ]
    if judgement.verdict is Verdict.INCONCLUSIVE:
        found.append(f"{_begun(judgement.reason)}.")
    moved = comparison.moved
    if moved is not None and any((*moved.copy_ns, *moved.fence_ns)):
        found.append(_moved(moved))
    if comparison.gain_share is not None and judgement.verdict is Verdict.FASTER:
        limit = f"its step less its limit of {units.us(comparison.baseline.limit_ns)} µs"
        found.append(
            f"The step gains {units.percent(comparison.gain_share)} of what {labels[0]} could gain at most, {limit}."
            if comparison.gain_share <= 1
            else f"The step gains more than {labels[0]} could by waiting less, {limit}: {labels[1]} does less work too."
        )
    return found


def _begun(text: str) -> str:
    return text[0].upper() + text[1:]


def _moved(moved: Moved) -> str:
    copies, others = (" to ".join(units.us(ns) for ns in of) for of in (moved.copy_ns, moved.fence_ns))
    return (
        f"{_changed(moved)}: blocked in copies, with the synchronisation behind them, {copies} µs a step, in other "
        f"waits {others} µs."
    )


def _changed(moved: Moved) -> str:
    if moved.change is WaitChange.REMOVED:
        also = f", and {units.us(moved.moved_ns)} moved from the copies to a fence" if moved.moved_ns else ""
        return f"Of the wait {units.us(moved.removed_ns)} µs a step were removed{also}"
    if moved.change is WaitChange.MOVED:
        return f"The wait only moved, {units.us(moved.moved_ns)} µs a step from the copies to a fence"
    if moved.change is None:
        return "Whether a wait was removed or only moved is open"
    return "No wait was removed or moved"


def _interval_text(estimate: Estimate) -> str:
    return "" if estimate.interval is None else f" (95 % interval {interval(estimate)})"


def interval(estimate: Estimate) -> str:
    """Return the ends of an interval: '0.874 to 0.876'; '-' for none."""
    if estimate.interval is None:
        return units.NOT_OBSERVED
    return f"{units.ratio(estimate.interval[0])} to {units.ratio(estimate.interval[1])}"


def step_rows(result: ComparisonResult) -> list[Row]:
    """Return name, baseline, candidate, ratio and interval of the step times; a p99 only of enough steps."""
    comparison = result.comparison
    rows = []
    for name in STATISTICS:
        shown = [name != "p99" or has for has in _have_p99(comparison)]
        times = (units.us(of[name] if show else None) for of, show in zip(comparison.step_ns, shown, strict=True))
        estimate = comparison.ratios[name]
        ratio = (units.ratio(estimate.value), interval(estimate)) if all(shown) else (units.NOT_OBSERVED,) * 2
        rows.append((f"step, {name}", *times, *ratio))
    return rows


def p99_note(result: ComparisonResult) -> list[str]:
    """Return why a p99 is not shown, where it is not."""
    comparison = result.comparison
    return [] if comparison.judgement is None or all(_have_p99(comparison)) else [f"note: {P99_NOTE}"]


def _have_p99(comparison: Comparison) -> list[bool]:
    return [has_p99(len(side.steps_ns)) for side in (comparison.baseline, comparison.candidate)]


def bridge_rows(result: ComparisonResult) -> list[Row]:
    """Return part, baseline, candidate and change in µs, the largest changes first, the step last.

    Small changes are one row, and so is what does not change: each column adds up to the step.
    """
    comparison = result.comparison
    if comparison.bridge is None:
        return []
    changed = [(name, ns) for name, ns in comparison.bridge.parts.items() if ns]
    if not changed:
        return []
    sides = comparison.baseline, comparison.candidate

    def means(names: list[str]) -> tuple[str, ...]:
        sums = [sum((side.parts_ns or {}).get(name, 0) for name in names) for side in sides]
        return tuple(units.us(ns / len(side.steps_ns)) for ns, side in zip(sums, sides, strict=True))

    # What the device does is most of a step, however little of it changed: it does not hide among the others.
    shown = [part for at, part in enumerate(changed) if at < _PARTS_SHOWN or part[0].startswith(_BUSY)]
    rows = [(units.shown(name), *means([name]), units.signed_us(ns)) for name, ns in shown]
    left = [part for part in changed if part not in shown]
    if left:
        rest = units.signed_us(sum(ns for _, ns in left))
        rows.append((units.counted(len(left), "other"), *means([name for name, _ in left]), rest))
    same = [name for name, ns in comparison.bridge.parts.items() if not ns]
    if same:
        rows.append((f"{len(same):,} unchanged", *means(same), units.signed_us(0)))
    steps = (units.us(of["mean"]) for of in comparison.step_ns)
    return [*rows, ("the step", *steps, units.signed_us(comparison.bridge.step_ns))]


def column_rows(comparison: Comparison) -> list[Row]:
    """Return name, baseline and candidate of the means of what a step is made of."""
    sides = comparison.baseline.means_ns, comparison.candidate.means_ns
    return [
        (f"{heading}, mean", *(units.us(side.get(name)) for side in sides))
        for name, heading in HEADINGS.items()
        if name != "window_ns" and any(side.get(name) is not None for side in sides)
    ]


def efficiency_row(comparison: Comparison) -> Row:
    """Return name, baseline and candidate of limit / step."""
    ours, theirs = comparison.efficiencies
    return ("efficiency", units.percent(ours), units.percent(theirs))


def token_rows(result: ComparisonResult) -> list[Row]:
    """Return name, baseline and candidate of what was checked; nothing where there are no tokens."""
    sides = [entry if isinstance(entry, RunResult) else None for entry in (result.baseline, result.candidate)]
    if not any(sides):
        return []

    def row(name: str, cells: Iterator[str]) -> Row:
        return (name, *cells)

    nothing = units.NOT_OBSERVED
    return [
        row("values right", (f"{side.values_right:,}/{side.values:,}" if side else nothing for side in sides)),
        row("stale reads", (f"{side.stale_reads:,}/{side.reads:,}" if side else nothing for side in sides)),
        row("overrun tokens", (f"{side.overrun_tokens:,}" if side else nothing for side in sides)),
    ]


def mismatch_line(mismatch: Mismatch) -> str:
    """Return a field that differs, in words."""
    allowed = " (allowed)" if mismatch.allowed else f" (--allow {mismatch.field} if it does not matter)"
    return f"{units.shown(mismatch.field)}: {units.shown(mismatch.text)}{allowed}"


def bridge_title(result: ComparisonResult) -> str:
    """Return from what to what the bridge leads, and in what unit."""
    ours, theirs = shown_labels(result)
    return f"from {ours} to {theirs}, µs a step (device busy and idle by cause; adds up to the ns)"


def method_lines(result: ComparisonResult) -> list[str]:
    """Return how the interval came about, and what there is to know of the samples."""
    comparison = result.comparison
    if comparison.judgement is None or comparison.spreads is None:
        return []
    return [
        _resampled(comparison.judgement),
        *_self_check(comparison.judgement),
        *_alike(comparison.judgement, comparison.spreads),
        *_outliers(comparison, comparison.judgement, comparison.spreads, shown_labels(result)),
    ]


def _resampled(judgement: Judgement) -> str:
    if judgement.ratio.interval is None:
        return f"no intervals: {judgement.reason}"
    ours, theirs = judgement.units
    count = f"{ours} {judgement.unit} a side" if ours == theirs else f"{ours} and {theirs} {judgement.unit}"
    how = "interleaved, resampled in pairs" if judgement.interleaved else "recorded apart"
    return f"intervals: {count}, {how}"


def _self_check(judgement: Judgement) -> list[str]:
    if judgement.self_check is None or judgement.detectable is None:
        return []
    if judgement.self_check == 1:
        return ["A/A check: blocks repeat exactly, without any noise"]
    what = "the ratios of neighbouring pairs of blocks" if judgement.interleaved else "neighbours on one side"
    return [
        f"A/A check: {what} differ by {units.percent(judgement.self_check - 1)} (rms) by noise alone; a ratio of "
        f"{units.ratio(judgement.detectable)} would be found 4 times out of 5"
    ]


def _alike(judgement: Judgement, spreads: tuple[Spread, Spread]) -> list[str]:
    """Return the line about neighbouring steps, which are not independent."""
    ours, theirs = spreads
    if ours.autocorrelation is None or theirs.autocorrelation is None:
        return []
    text = f"steps are not independent: autocorrelation {ours.autocorrelation:.2f} and {theirs.autocorrelation:.2f}"
    if ours.block_variance is not None and theirs.block_variance is not None:
        text += (
            f"; means of {judgement.unit} vary {ours.block_variance:.1f} and {theirs.block_variance:.1f} times as much "
            "(variance) as those of independent steps"
        )
    return [text]


def _outliers(
    comparison: Comparison, judgement: Judgement, spreads: tuple[Spread, Spread], labels: tuple[str, str]
) -> list[str]:
    """Return the line about what stands out by Tukey's fences."""
    parts = []
    for side, spread, label in zip((comparison.baseline, comparison.candidate), spreads, labels, strict=True):
        if not spread.mild and not spread.blocks:
            continue
        count = f"{spread.mild:,} of {len(side.steps_ns):,} steps, {spread.severe:,} of them severe"
        numbers = ", ".join(str(number) for number in spread.blocks)
        blocks = f", and of the {judgement.unit} {numbers}" if spread.blocks else ""
        parts.append(f"{label} {count}{blocks}")
    return [f"outliers, kept: {'; '.join(parts)}"] if parts else []
