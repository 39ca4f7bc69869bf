"""What the parts of the terminal report share: lines, headings, the head of a run."""

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from fdprof import units
from fdprof.model import Run

HEADINGS = {
    "window_ns": "step",
    "launch_ns": "launch",
    "issue_ns": "issue",
    "host_work_ns": "host work",
    "fence_wait_ns": "fence wait",
    "other_host_ns": "other host",
    "host_blocked_ns": "blocked",
    "device_busy_ns": "dev busy",
    "device_idle_ns": "dev idle",
}
LEDGER_HEADINGS = {
    "window_ns": "step",
    "device_busy_ns": "dev busy",
    "device_idle_ns": "dev idle",
    "host_blocked_ns": "blocked",
    "harmful_wait_ns": "harmful",
    "harmless_wait_ns": "harmless",
}


def say(console: Console, text: str, indent: int = 0) -> None:
    """Print a line of text as it is, wrapped at the console's width."""
    console.print(Padding(Text(text), (0, 0, 0, indent)) if indent else text, markup=False, soft_wrap=False)


def header(console: Console, run: Run) -> None:
    """Print what was run, and on what."""
    params = run.params
    say(console, f"{run.scenario} on {run.backend}: {run.environment.gpu or 'unknown GPU'}")
    say(
        console,
        f"{params['sequences']} sequences; device work {units.us(run.device_work_ns)} µs, {params['kernels']} kernels, "
        f"host work {units.us(run.host_work_ns)} µs; limit: the longer, {units.us(run.limit_ns)} µs",
    )
    if run.fault is not None:
        say(console, f"note: wrong on purpose: fault {run.fault}")


def interrupted(console: Console, run: Run) -> None:
    """Say that a recording was cut short."""
    if run.interrupted:
        say(console, f"interrupted: {len(run.blocks)} finished blocks are shown")
