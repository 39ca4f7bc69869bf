"""Words and rows that several reports share: headings, statistics, findings, the head of a run."""

from collections.abc import Callable, Mapping

from fdprof import units
from fdprof.analysis.facts import Facts
from fdprof.analysis.ledger import COLUMNS
from fdprof.finding import Finding
from fdprof.model import Run, Summary

Row = tuple[str, ...]
"""A name and what stands beside it."""

HEADINGS = {
    "window_ns": "step",
    "launch_ns": "launch",
    "issue_ns": "issue",
    "host_work_ns": "host work",
    "fence_wait_ns": "fence wait",
    "other_host_ns": "other host",
    "host_blocked_ns": "host blocked",
    "harmful_wait_ns": "harmful wait",
    "harmless_wait_ns": "harmless wait",
    "device_busy_ns": "device busy",
    "device_idle_ns": "device idle",
}
"""Key of the JSON document -> heading: the key's own words, but for the window, which is the step's time."""

LEDGER_HEADINGS = {key: HEADINGS[key] for key in COLUMNS}
"""Those of the ledger, which is all that is known of a capture."""

STATISTICS = ("mean", "p50", "p90", "p99", "max")
AT_STEP = "at step"
"""The step of the largest value."""

MIN_P99_STEPS = 100
P99_NOTE = (
    f"p99 is shown from {MIN_P99_STEPS} counted steps on: of fewer it would be the largest value under another name"
)


def statistic_rows(
    headings: Mapping[str, str],
    summaries: Mapping[str, Summary],
    label: Callable[[str], str | None] = lambda name: None,
) -> list[Row]:
    """Return a row for each heading: its name, STATISTICS in µs, and the step of the largest value.

    `label` gives what that step is called, by the heading's key; None: by its number.
    """
    rows = []
    for key, heading in headings.items():
        summary = summaries[key]
        values = {name: getattr(summary, name) for name in STATISTICS}
        if not has_p99(summary.count):
            values["p99"] = None
        at = label(key) or (units.NOT_OBSERVED if summary.max_step is None else str(summary.max_step))
        rows.append((heading, *(units.us(value) for value in values.values()), at))
    return rows


def has_p99(count: int) -> bool:
    """Return whether a 99th percentile of so many values says more than their maximum."""
    return count >= MIN_P99_STEPS


def loop_line(run: Run) -> str:
    """Return the work of the loop, and the limit that follows from it."""
    return (
        f"{run.params['sequences']} sequences; device work {units.us(run.device_work_ns)} µs, "
        f"{run.params['kernels']} kernels, host work {units.us(run.host_work_ns)} µs; limit: the longer, "
        f"{units.us(run.limit_ns)} µs"
    )


def run_subject(run: Run) -> list[str]:
    """Return what was run, and on what."""
    lines = [f"{run.scenario} on {run.backend}: {run.environment.gpu or 'unknown GPU'}", loop_line(run)]
    return lines if run.fault is None else [*lines, f"note: wrong on purpose: fault {run.fault}"]


def interrupted(run: Run) -> list[str]:
    """Return that a recording was cut short, if it was."""
    return [f"interrupted: {units.counted(len(run.blocks), 'finished block')} shown"] if run.interrupted else []


FINDINGS_TITLE = "findings (a cost is what that one alone could save at most; do not add them)"


def finding_certainty(finding: Finding) -> str:
    """Return how sure a finding is and what it costs: 'proved, at most 47.0 µs a step'."""
    cost = "" if finding.cost_ns_per_step is None else f", at most {units.us(finding.cost_ns_per_step)} µs a step"
    return f"{finding.certainty.name.lower()}{cost}"


def finding_steps(finding: Finding, facts: Facts | None) -> str:
    """Return the steps that show a finding most plainly, as they are called: 'steps 24, 3'; empty for none."""
    if facts is None:
        return ""
    numbers = [facts.steps.label(position) for position in finding.steps]
    return "" if not numbers else f"{'steps' if len(numbers) > 1 else 'step'} {', '.join(numbers)}"
