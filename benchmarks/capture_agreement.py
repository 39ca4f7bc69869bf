"""Do nsys and our collector see the same loop?  Each mode captured by both in turns; the ledgers held side by side.

usage: python benchmarks/capture_agreement.py -o OUT.json [--rounds N] [--modes sync,async] [--scenario NAME]

Two captures are two runs of two processes, so the host's times differ by what processes differ by; the device's work
and the counts are those of the loop.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

from result_file import write

from fdprof.backends.paddle import PaddleBackend

_MODES = "sync,sync-pinned,async,overlap,overlap-copy-stream"
_TOOLS = ("nsys", "fdprof")
_LOOP = ("--device-us", "500", "--schedule-us", "120", "--save-output-us", "80", "--kernels", "4", "--steps", "300")
_COLUMNS = ("window_ns", "device_busy_ns", "device_idle_ns", "host_blocked_ns", "harmful_wait_ns")


def _captured(scenario: str, mode: str, tool: str) -> dict[str, object]:
    """Return the analysis of one capture, as `fdprof capture --json` prints it."""
    command = [sys.executable, "-m", "fdprof", "capture", scenario, "--mode", mode, "--with", tool, *_LOOP]
    done = subprocess.run([*command, "--no-save", "--json"], capture_output=True, text=True, timeout=300)
    if done.returncode:
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def _row(document: dict) -> dict[str, object]:
    ledger = document["ledger"]
    return {
        "steps": document["steps"],
        "mean": {name: ledger["mean"][name] for name in _COLUMNS},
        "p50": {name: ledger["p50"][name] for name in _COLUMNS},
        "idle_by_cause_ns": document["idle_by_cause_ns"],
        "residual_ns": document["residual_ns"],
        "syncs_per_step": document["syncs_per_step"],
        "transfers": len(document["transfers"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--modes", default=_MODES)
    parser.add_argument("--scenario", default="stop_flag")
    options = parser.parse_args()
    rows = []
    print(f"{'mode':22}{'p50 of, µs':>16}{'nsys':>10}{'fdprof':>10}{'ratio':>8}")
    for mode in options.modes.split(","):
        taken: dict[str, list[dict]] = {tool: [] for tool in _TOOLS}
        for number in range(options.rounds):
            for tool in _TOOLS if number % 2 == 0 else reversed(_TOOLS):
                taken[tool].append(_row(_captured(options.scenario, mode, tool)))
        rows.append({"mode": mode, **taken})
        for name in _COLUMNS:
            nsys, ours = (sum(row["p50"][name] for row in taken[tool]) / options.rounds / 1e3 for tool in _TOOLS)
            ratio = f"{ours / nsys:8.3f}" if nsys else "       -"
            print(f"{mode:22}{name.removesuffix('_ns'):>16}{nsys:10.1f}{ours:10.1f}{ratio}", flush=True)
        for name in ("syncs_per_step", "transfers", "residual_ns"):
            seen = {tool: [row[name] for row in taken[tool]] for tool in _TOOLS}
            print(f"{mode:22}{name:>16}{seen['nsys'][0]!s:>10.10}{seen['fdprof'][0]!s:>10.10}", flush=True)
    write(options.output, "capture_agreement", "paddle", PaddleBackend(30.0).environment(), loop=_LOOP, modes=rows)


if __name__ == "__main__":
    main()
