"""The terminal report: the per-step timing table of a run, two runs side by side, or the ledger of a capture."""

from dataclasses import dataclass
from io import StringIO
from typing import ClassVar

import numpy as np
from fdprof.reports._comparison_text import show_comparison
from fdprof.reports._overhead_text import (
    OVERHEAD_HEADINGS,
    inflation_text,
    overhead_missing,
    overhead_notes,
    overhead_rows,
    overhead_subject,
    overhead_title,
)
from fdprof.reports._text import HEADINGS, LEDGER_HEADINGS, header, interrupted, say
from fdprof.reports.protocol import EVERY, Analyses, ComparisonResult, Reportable
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fdprof import units
from fdprof.analysis.capture_result import CaptureResult
from fdprof.analysis.inflation import OverheadResult
from fdprof.analysis.results import RunResult
from fdprof.analysis.run_times import COUNTED, TIME_COLUMNS

_FIRST_ROWS = 5
# A narrower table would cut its numbers; a narrower terminal wraps the lines.
_MIN_WIDTH = 100
_TRANSFERS_SHOWN = 10
_CAUSES_SHOWN = 10
_WORST_SHOWN = 3
_STATISTICS = ("mean", "p50", "p90", "p99", "max")


@dataclass(frozen=True, slots=True)
class TerminalReport:
    """Text for people; `width` in columns."""

    width: int = 100
    color: bool = False

    suffix: ClassVar[str] = ".txt"
    renders: ClassVar[tuple[type, ...]] = EVERY

    def render(self, result: Reportable) -> str:
        sink = StringIO()
        console = Console(
            file=sink,
            width=max(self.width, _MIN_WIDTH),
            force_terminal=self.color,
            no_color=not self.color,
            highlight=False,
            emoji=False,  # std:key:x is a name
        )
        if isinstance(result, Analyses):
            for number, entry in enumerate(result.results):
                say(console, ("\n\n" if number else "") + units.shown(f"== {entry.path}"))
                _analysis(console, entry)
        elif isinstance(result, CaptureResult):
            _analysis(console, result)
        elif isinstance(result, ComparisonResult):
            show_comparison(console, result)
        elif isinstance(result, OverheadResult):
            _overhead(console, result)
        else:
            _run(console, result)
        return "".join(line.rstrip() + "\n" for line in sink.getvalue().splitlines())


def _overhead(console: Console, result: OverheadResult) -> None:
    say(console, units.shown(overhead_title(result)))
    say(console, overhead_subject(result))
    table = Table(title="times per step, µs", title_justify="left", box=box.SIMPLE_HEAD)
    for heading in OVERHEAD_HEADINGS:
        table.add_column(heading, justify="right" if heading else "left")
    for row in overhead_rows(result):
        table.add_row(*row)
    console.print(table)
    for line in overhead_missing(result):
        say(console, units.shown(line))
    for note in overhead_notes(result):
        say(console, f"note: {note}")


def _run(console: Console, result: RunResult) -> None:
    header(console, result.run)
    for limit in result.limits:
        say(console, f"note: {limit}")
    run, times = result.run, result.times
    table = Table(title=f"{run.mode}: times per step, µs", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("", justify="left")
    for heading in HEADINGS.values():
        table.add_column(heading, justify="right")
    counted = np.flatnonzero(times.part == COUNTED)
    for row in counted[:_FIRST_ROWS]:
        cells = [getattr(times, name) for name in TIME_COLUMNS]
        table.add_row(f"step {times.step[row]}", *(units.us(None if c is None else int(c[row])) for c in cells))
    if len(counted) > _FIRST_ROWS:
        table.add_row(f"... of {len(counted)}", *[""] * len(TIME_COLUMNS))
    table.add_section()
    for statistic in _STATISTICS:
        values = [getattr(result.summaries[name], statistic) for name in TIME_COLUMNS]
        table.add_row(statistic, *(units.us(value) for value in values))
    worst = [result.summaries[name].max_step for name in TIME_COLUMNS]
    table.add_row("max at step", *(units.NOT_OBSERVED if step is None else str(step) for step in worst))
    console.print(table)
    if result.efficiency is not None:
        say(console, f"efficiency {units.percent(result.efficiency)} of the limit")
    _causes(console, result)
    for transfer in result.transfers[:_TRANSFERS_SHOWN]:
        say(
            console,
            f"transfer {transfer.name}: {units.size(transfer.size_bytes)} {transfer.direction}, {transfer.memory}, "
            f"lag {transfer.lag}; issue {units.us(transfer.issue_ns)} µs a step",
        )
    left = result.transfers[_TRANSFERS_SHOWN:]
    if left:
        issue_ns = sum(transfer.issue_ns or 0 for transfer in left)
        say(console, f"... and {len(left)} more transfers; issue together {units.us(issue_ns)} µs a step")
    say(console, _fence(result))
    say(console, _tokens(result))
    for line in _hazards(result):
        say(console, line)
    _findings(console, result)
    interrupted(console, result.run)


def _fence(result: RunResult) -> str:
    fence = result.fence
    if fence.wait_ns is None:
        return "waits: none but in blocking copies" if result.syncs_per_step else "waits: none"
    text = (
        f"waits: {fence.per_step:.2f} a step, {units.us(fence.wait_ns)} µs a step, of it CPU time "
        f"{units.us(fence.cpu_ns)} µs ({units.percent(fence.cpu_share)})"
    )
    learn = fence.learn
    if learn.p50 is None:
        return f"{text}; none was entered before the end of the kernel that makes its values"
    return f"{text}; values known after their kernel's end: p50 {units.us(learn.p50)}, p99 {units.us(learn.p99)} µs"


def _hazards(result: RunResult) -> list[str]:
    if result.hazards is None:
        return []
    if not result.hazards:
        return ["hazards: none"]
    return [
        f"hazard {hazard.code.value}: {hazard.code.meaning}; {hazard.count:,} times, each tensor counted, "
        f"{hazard.proved:,} of them in a step that read a wrong value; first at step {hazard.first_step}"
        + (f", {hazard.tensor}" if hazard.tensor else "")
        for hazard in result.hazards
    ]


def _tokens(result: RunResult) -> str:
    text = (
        f"values {result.values_right:,} of {result.values:,} right, "
        f"stale reads {result.stale_reads} of {result.reads}, overrun {result.overrun_tokens} tokens"
    )
    return text if result.stop_seen else text + ", the stop never reached the host"


def _analysis(console: Console, result: CaptureResult) -> None:
    facts = result.facts
    for sentence in result.headline:
        say(console, units.shown(sentence))
    say(console, "")
    for line in _subject(result):
        say(console, line)
    for limit in result.limits:
        say(console, f"note: {units.shown(limit)}")
    _ledger(console, result)
    _causes(console, result)
    _captured_transfers(console, result)
    _syncs(console, result)
    if facts.stalls.other_threads_per_step:
        say(
            console,
            f"other threads wait {facts.stalls.other_threads_per_step:.2f} times a step, "
            f"{units.us(facts.stalls.other_threads_ns)} µs, charged to no step",
        )
    _worst_steps(console, result)
    _findings(console, result)


def _findings(console: Console, result: CaptureResult | RunResult) -> None:
    if result.findings:
        say(console, "findings (a cost is what that one alone could save at most; do not add them):")
    for finding in result.findings:
        cost = "" if finding.cost_ns_per_step is None else f", at most {units.us(finding.cost_ns_per_step)} µs a step"
        text = f"{finding.code.value} ({finding.certainty.name.lower()}{cost}): {units.shown(finding.text)}"
        say(console, text, indent=2)
        say(console, units.shown(finding.advice), indent=4)


def _subject(result: CaptureResult) -> list[str]:
    facts = result.facts
    capture, steps = facts.capture, facts.steps
    thread = capture.threads[steps.thread]
    device = None if facts.device is None else capture.devices[facts.device]
    left_out = f"; {steps.left_out:,} of warm-up, overrun or prefill left out" if steps.left_out else ""
    on = (
        "no device work" if device is None else f"device {device.device}" + (f" ({device.name})" if device.name else "")
    )
    return [
        units.shown(f"{result.path}: {capture.tool}, {capture.rows:,} rows"),
        units.shown(
            f"{units.counted(len(steps), 'step')} found by {steps.found_by}{left_out}; process {thread.process}, "
            f"thread {thread.thread}, {on}"
        ),
        *([] if capture.inflation is None else [units.shown(inflation_text(capture.inflation))]),
    ]


def _ledger(console: Console, result: CaptureResult) -> None:
    table = Table(title="times per step, µs", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("", justify="left")
    for heading in LEDGER_HEADINGS.values():
        table.add_column(heading, justify="right")
    several = len(result.facts.steps) > 1
    for statistic in _STATISTICS if several else _STATISTICS[:1]:
        cells = (units.us(getattr(result.summaries[name], statistic)) for name in LEDGER_HEADINGS)
        table.add_row(statistic if several else "the one step", *cells)
    worst = (result.summaries[name].max_step for name in LEDGER_HEADINGS)
    if several:
        table.add_row("max at step", *(units.NOT_OBSERVED if step is None else str(step) for step in worst))
    console.print(table)
    facts = result.facts
    traced = ", ".join(f"{count:.2f} {kind.replace('_', ' ')}" for kind, count in facts.calls_per_step.items())
    say(console, f"calls traced a step: {traced or 'none'}")
    if facts.limit_ns is not None:
        say(
            console,
            f"limit {units.us(facts.limit_ns)} µs: the longer of device busy and host work outside waits "
            f"({units.us(facts.host_work_ns - facts.unseen_wait_ns)} µs); efficiency {units.percent(facts.efficiency)}",
        )
    if facts.run_ahead_share is not None and facts.launch_lead_ns is not None:
        say(
            console,
            f"run-ahead in {units.percent(facts.run_ahead_share)} of the steps, launch lead "
            f"{units.us(facts.launch_lead_ns)} µs; residual {result.residual_ns} ns",
        )


def _causes(console: Console, result: CaptureResult | RunResult) -> None:
    if not result.idle_by_cause_ns:
        return
    shown = list(result.idle_by_cause_ns.items())
    say(console, "device idle by cause, µs a step:")
    for name, ns in shown[:_CAUSES_SHOWN]:
        say(console, f"  {units.us(ns):>12}  {units.shown(name)}")
    left = shown[_CAUSES_SHOWN:]
    if left:
        say(console, f"  {units.us(sum(ns for _, ns in left)):>12}  {units.counted(len(left), 'other')}")


def _captured_transfers(console: Console, result: CaptureResult) -> None:
    transfers = result.facts.transfers
    if not transfers:
        return
    table = Table(
        title="transfers per step, µs (a wait that covers several copies stands at each)",
        title_justify="left",
        box=box.SIMPLE_HEAD,
    )
    table.add_column("", justify="left", overflow="fold")
    for heading in ("copies", "memory", "issue", "copy", "wait", "lag"):
        table.add_column(heading, justify="right")
    for transfer in transfers[:_TRANSFERS_SHOWN]:
        count = units.SEVERAL.format(transfer.per_step, units.size(max(transfer.size_bytes, 0)))
        table.add_row(
            Text(units.shown(f"{transfer.name}, {transfer.direction}")),
            count,
            transfer.memory,
            units.us(transfer.issue_ns),
            units.us(transfer.copy_ns),
            units.us(transfer.wait_ns),
            units.NOT_OBSERVED if transfer.lag is None else f"{transfer.lag:.2f}",
        )
    console.print(table)
    if len(transfers) > _TRANSFERS_SHOWN:
        say(console, f"... and {len(transfers) - _TRANSFERS_SHOWN} more kinds of transfer")


def _syncs(console: Console, result: CaptureResult) -> None:
    stalls = result.facts.stalls
    say(
        console,
        f"host blocked: {stalls.calls_per_step:.2f} sync calls a step"
        + (
            f" in {stalls.stalls_per_step:.2f} stalls (a copy and the synchronisation behind it are one)"
            if stalls.stalls_per_step < stalls.calls_per_step
            else ""
        ),
    )
    if not stalls.sites:
        return
    table = Table(title="sync calls per step, µs", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("", justify="left", overflow="fold")
    for heading in ("calls", "blocked", "own copy", "other work", "dev idle", "harmful"):
        table.add_column(heading, justify="right")
    for site in stalls.sites[:_TRANSFERS_SHOWN]:
        table.add_row(
            Text(units.shown(f"{site.call}, {site.site}")),
            f"{site.per_step:.2f}",
            units.us(site.blocked_ns),
            units.us(site.own_copy_ns),
            units.us(site.other_work_ns),
            units.us(site.idle_ns),
            units.us(site.harmful_ns),
        )
    console.print(table)
    if len(stalls.sites) > _TRANSFERS_SHOWN:
        say(console, f"... and {len(stalls.sites) - _TRANSFERS_SHOWN} more call sites")


def _worst_steps(console: Console, result: CaptureResult) -> None:
    if len(result.facts.steps) < 2:
        return
    say(console, "longest steps:")
    for step in result.worst[:_WORST_SHOWN]:
        cause = (
            ""
            if step.largest_cause is None
            else f", most of it {units.us(step.largest_cause_ns)} {units.shown(step.largest_cause)}"
        )
        say(
            console,
            f"  step {step.step}: {units.us(step.window_ns)} µs, blocked {units.us(step.host_blocked_ns)}, "
            f"device idle {units.us(step.device_idle_ns)}{cause}",
        )


REPORT = TerminalReport()
