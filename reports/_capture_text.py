"""The analysis of a capture in words and rows, which the terminal and the Markdown report lay out each in its way."""

from fdprof.reports._overhead_text import inflation_text
from fdprof.reports._text import Row

from fdprof import units
from fdprof.analysis.capture_result import CaptureResult

_WORST_SHOWN = 3
ROWS_SHOWN = 10
"""Of transfers, and of call sites."""

TRANSFERS_TITLE = "transfers per step, µs (a wait that covers several copies stands at each)"
TRANSFER_HEADINGS = ("copies", "memory", "issue", "copy", "wait", "lag")
SYNCS_TITLE = "sync calls per step, µs"
SYNC_HEADINGS = ("calls", "blocked", "own copy", "other work", "idle", "harmful")


def capture_subject(result: CaptureResult) -> list[str]:
    """Return what was read, which steps were found in it, and how much longer they are for being traced."""
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


def loop_lines(result: CaptureResult) -> list[str]:
    """Return what the loop does a step, its limit, and how far its host runs ahead."""
    facts = result.facts
    traced = ", ".join(f"{count:.2f} {kind.replace('_', ' ')}" for kind, count in facts.calls_per_step.items())
    lines = [f"calls traced a step: {traced or 'none'}"]
    if facts.limit_ns is not None:
        host_ns = facts.host_work_ns - facts.unseen_wait_ns
        work = f"the longer of device busy and host work outside waits ({units.us(host_ns)} µs)"
        if facts.capture.asked_limit_ns is not None:
            work = "the longer of the device work and the host work that the run was asked for"
        lines.append(f"limit {units.us(facts.limit_ns)} µs: {work}; efficiency {units.percent(facts.efficiency)}")
    if facts.run_ahead_share is not None and facts.launch_lead_ns is not None:
        lines.append(
            f"run-ahead in {units.percent(facts.run_ahead_share)} of the steps, launch lead "
            f"{units.us(facts.launch_lead_ns)} µs; residual {result.residual_ns} ns"
        )
    return lines


def transfer_rows(result: CaptureResult) -> list[Row]:
    """Return a row for each kind of transfer, those that hold the host longest first, under TRANSFER_HEADINGS."""
    return [
        (
            units.shown(f"{transfer.name}, {transfer.direction}"),
            units.SEVERAL.format(transfer.per_step, units.size(transfer.size_bytes)),
            transfer.memory,
            units.us(transfer.issue_ns),
            units.us(transfer.copy_ns),
            units.us(transfer.wait_ns),
            units.NOT_OBSERVED if transfer.lag is None else f"{transfer.lag:.2f}",
        )
        for transfer in result.facts.transfers
    ]


def sync_rows(result: CaptureResult) -> list[Row]:
    """Return a row for each call site that blocks, the longest first, under SYNC_HEADINGS."""
    return [
        (
            units.shown(f"{site.call}, {site.site}"),
            f"{site.per_step:.2f}",
            units.us(site.blocked_ns),
            units.us(site.own_copy_ns),
            units.us(site.other_work_ns),
            units.us(site.idle_ns),
            units.us(site.harmful_ns),
        )
        for site in result.facts.stalls.sites
    ]


def blocked_line(result: CaptureResult) -> str:
    """Return how often the host is blocked a step."""
    stalls = result.facts.stalls
    text = f"host blocked: {stalls.calls_per_step:.2f} sync calls a step"
    if stalls.stalls_per_step >= stalls.calls_per_step:
        return text
    return f"{text} in {stalls.stalls_per_step:.2f} stalls (a copy and the synchronisation behind it are one)"


def other_threads_line(result: CaptureResult) -> list[str]:
    """Return how long other threads wait, if they do."""
    stalls = result.facts.stalls
    if not stalls.other_threads_per_step:
        return []
    return [
        f"other threads wait {stalls.other_threads_per_step:.2f} times a step, "
        f"{units.us(stalls.other_threads_ns)} µs, charged to no step"
    ]


def worst_lines(result: CaptureResult) -> list[str]:
    """Return the longest steps, each with its largest cause of idle time; nothing where there is one step."""
    if len(result.facts.steps) < 2:
        return []
    lines = []
    for step in result.worst[:_WORST_SHOWN]:
        cause = (
            ""
            if step.largest_cause is None
            else f", largest cause {units.us(step.largest_cause_ns)} {units.shown(step.largest_cause)}"
        )
        lines.append(
            f"step {step.step}: {units.us(step.window_ns)} µs, host blocked {units.us(step.host_blocked_ns)}, "
            f"device idle {units.us(step.device_idle_ns)}{cause}"
        )
    return lines
