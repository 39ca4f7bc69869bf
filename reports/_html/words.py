"""What the parts of the HTML report share: tables of numbers, findings and the longest steps, in its views."""

from collections.abc import Callable, Mapping, Sequence

from fdprof.reports._html.view import Badge, Cell, FindingView, StepLink, Table
from fdprof.reports._text import AT_STEP, P99_NOTE, STATISTICS, Row, has_p99, statistic_rows

from fdprof import units
from fdprof.analysis.facts import Facts
from fdprof.analysis.longest import WorstStep
from fdprof.analysis.steps import Steps
from fdprof.finding import Finding
from fdprof.model import Environment, Summary

_SHOWN = 50
"""Rows of a table of transfers or calls."""

SIMULATED = Badge("simulated", "simulated")
INTERRUPTED = Badge("interrupted", "doubt")


def numbers_table(
    title: str,
    headings: Mapping[str, str],
    summaries: Mapping[str, Summary],
    links: Mapping[int, StepLink],
    label: Callable[[str], str | None] = lambda name: None,
) -> Table:
    """Return the statistics of each column, and the step of its largest value as a link where it has one.

    `label` as in `statistic_rows`.
    """
    rows = statistic_rows(headings, summaries, label)
    count = summaries["window_ns"].count
    if count == 1:
        return Table(title, ("", "the one step"), tuple(row[:2] for row in rows))
    worst = [summaries[name].max_step for name in headings]
    linked: list[tuple[Cell, ...]] = [
        (*row[:-1], row[-1] if at is None else links.get(at, row[-1])) for row, at in zip(rows, worst, strict=True)
    ]
    notes = (P99_NOTE,) if count and not has_p99(count) else ()
    return Table(title, ("", *STATISTICS, AT_STEP), tuple(linked), notes=notes)


def links_by_number(facts: Facts | None, part: str, side: int) -> dict[int, StepLink]:
    """Return a link for each step's number; none where numbers are not of one step: every block begins anew."""
    if facts is None:
        return {}
    numbers = facts.ledger.step.tolist()
    if len(set(numbers)) != len(numbers):
        return {}
    return {number: StepLink(str(number), part, side, at) for at, number in enumerate(numbers)}


def step_name(steps: Steps, position: int) -> str:
    """Return how a step is called: 'step 41', or 'block 2, step 41' of several blocks."""
    block = "" if steps.blocks is None else f"block {int(steps.blocks[position])}, "
    return f"{block}step {int(steps.numbers[position])}"


def longest_table(caption: str, worst: Sequence[WorstStep], steps: Steps, part: str, side: int) -> Table:
    """Return the longest steps, each a link to where it is drawn."""
    rows: list[tuple[Cell, ...]] = []
    for step in worst:
        rows.append(
            (
                StepLink(step_name(steps, step.position), part, side, step.position),
                units.us(step.window_ns),
                units.us(step.host_blocked_ns),
                units.us(step.device_idle_ns),
                units.us(step.largest_cause_ns),
                units.shown(step.largest_cause or ""),
            )
        )
    head = ("step", "length", "host blocked", "device idle", "largest part", "its cause")
    return Table(caption, head, tuple(rows), words=frozenset({5}))


def finding_views(findings: Sequence[Finding], facts: Facts | None, part: str, side: int) -> tuple[FindingView, ...]:
    """Return the findings in words, each with links to the steps that show it."""
    found = []
    for finding in findings:
        links = [StepLink(step_name(facts.steps, at), part, side, at) for at in finding.steps if facts is not None]
        cost = finding.cost_ns_per_step
        found.append(
            FindingView(
                code=finding.code.value,
                certainty=finding.certainty.name.lower(),
                cost="" if cost is None else f"at most {units.us(cost)} µs a step",
                text=units.shown(finding.text),
                advice=units.shown(finding.advice),
                steps=tuple(links),
            )
        )
    return tuple(found)


def cut_table(
    title: str, head: tuple[str, ...], rows: Sequence[Row], noun: str, texts: frozenset[int] = frozenset()
) -> Table | None:
    """Return a table of the first rows, and how many more there are; None where there is none."""
    left = (f"... and {units.counted(len(rows) - _SHOWN, noun)}",) if len(rows) > _SHOWN else ()
    return Table(title, head, tuple(rows[:_SHOWN]), texts, left) if rows else None


def environment_facts(environment: Environment) -> tuple[tuple[str, str], ...]:
    """Return the machine and its software, what is known of them."""
    known = {
        "GPU": environment.gpu,
        "processor": environment.cpu,
        "driver": environment.driver,
        "CUDA": environment.cuda,
        "Paddle": environment.paddle,
        "system": environment.os,
        "Python": environment.python,
        "fdprof": environment.fdprof,
    }
    return tuple((name, units.shown(value)) for name, value in known.items() if value)
