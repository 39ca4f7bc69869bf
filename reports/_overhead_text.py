"""What profiling costs, in words and rows, which the terminal and the Markdown report lay out each in its way."""

from fdprof.reports._text import Row

from fdprof import units
from fdprof.analysis.inflation import BLOCKS, Condition, OverheadResult
from fdprof.analysis.verdict import MIN_UNITS
from fdprof.capture import Inflation

OVERHEAD_HEADINGS = ("", "step", "added", "ratio", "95 % interval", "p50", "seen from", "units")
"""Times in µs; p50 is the ratio of the medians."""


def overhead_rows(result: OverheadResult) -> list[Row]:
    """Return one row for each condition that has numbers."""
    return [_row(condition) for condition in result.conditions if condition.cost is not None]


def _row(condition: Condition) -> Row:
    cost = condition.cost
    assert cost is not None
    unit = "blocks" if condition.unit == BLOCKS else condition.unit
    ends = cost.ratio.interval
    return (
        condition.name,
        units.us(cost.mean_step_ns),
        f"{cost.added_ns / units.NS_PER_US:+,.1f}",
        units.ratio(cost.ratio.value),
        units.NOT_OBSERVED if ends is None else f"{units.ratio(ends[0])} to {units.ratio(ends[1])}",
        units.ratio(cost.p50_ratio),
        units.ratio(cost.smallest_visible),
        f"{cost.units} {unit}",
    )


def overhead_title(result: OverheadResult) -> str:
    """Return what was measured, on what."""
    gpu = result.environment.gpu or "unknown GPU"
    return f"what profiling costs {result.scenario} in mode {result.mode} on {result.backend}: {gpu}"


def overhead_subject(result: OverheadResult) -> str:
    """Return the loop in words."""
    given = result.parameters
    return (
        f"{given['sequences']} sequences; device work asked for {given['device_us']:g} µs, {given['kernels']} kernels, "
        f"launch {given['launch']}, host work {given['schedule_us'] + given['save_output_us']:g} µs; "
        f"{units.counted(result.rounds, 'round')} of one process a condition, {given['blocks']} blocks of "
        f"{given['steps']} counted steps each"
    )


def overhead_missing(result: OverheadResult) -> list[str]:
    """Return the conditions that could not be measured, or not in every round, with the reason."""
    return [
        f"{condition.name} {'is not measured' if condition.cost is None else 'lacks rounds'}: {condition.missing}"
        for condition in result.conditions
        if condition.missing is not None
    ]


def overhead_notes(result: OverheadResult) -> list[str]:
    """Return how to read the rows, and how small an inflation could be seen."""
    notes = [
        "ratios are to the bare loop, p50 of the medians; the times are those of the run's own recorder in every "
        "process, and the tracer's capture is not read",
    ]
    if result.process_sd is not None:
        notes.append(
            f"the mean steps of bare processes differ by {units.percent(result.process_sd)} (standard deviation); a "
            "ratio from the one in 'seen from' on would be found 4 times out of 5"
        )
    if result.rounds < MIN_UNITS:
        notes.append(f"{units.counted(result.rounds, 'round')} give no intervals: --rounds {MIN_UNITS} are needed")
    if any(condition.unit == BLOCKS and condition.cost is not None for condition in result.conditions):
        notes.append(
            "fdprof-in-process: blocks with our collector against the bare ones beside them, in one process, which "
            "shows smaller differences than processes do; fdprof-stopped: those bare ones, after it was stopped, "
            "against blocks from before it was ever started"
        )
    if result.interrupted:
        notes.append(f"interrupted: {units.counted(result.rounds, 'finished round')} shown")
    return notes


def inflation_text(inflation: Inflation) -> str:
    """Return the inflation of a capture in words."""
    ends = inflation.interval
    interval = "" if ends is None else f" (95 % interval {units.ratio(ends[0])} to {units.ratio(ends[1])})"
    return (
        f"inflation: a step takes {units.ratio(inflation.ratio)} times as long as untraced{interval}; {inflation.how}"
    )
