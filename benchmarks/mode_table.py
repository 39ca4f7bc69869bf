"""Measure the table of modes: device 200 and 1000 µs, host 0 and 200 µs, five modes, blocks of all modes interleaved.

usage: python benchmarks/mode_table.py --backend paddle|sim -o RESULT.json [--runs FOLDER]

Two placements of the host work are measured: all of it before the fence (schedule 200, save_output 0), as in the loop
the bars were set with, and the default split (schedule 120, save_output 80), in which what follows the fence cannot
overlap in a mode of lag 0.  The last rows are the bar at device 200 / host 100.
Every cell keeps its samples; host times of each call are kept too: the simulator's profile is made from them.
"""

import argparse
import dataclasses
from dataclasses import replace
from pathlib import Path

import numpy as np
from result_file import write

from fdprof import store
from fdprof.analysis.results import RunResult, result_of
from fdprof.analysis.run_times import COUNTED
from fdprof.model import Run
from fdprof.params import Extent, LoopParams
from fdprof.session import Session, open_backend

MODES = ("sync", "sync-pinned", "async", "overlap", "unfenced")
LOOPS = (  # device, schedule, save_output in µs
    (200, 0, 0),
    (200, 200, 0),
    (1000, 0, 0),
    (1000, 200, 0),
    (1000, 120, 80),
    (200, 100, 0),
    (200, 60, 40),
)


def call_times(result: RunResult) -> dict[str, dict[str, float]]:
    """Return the host time of each call in counted steps: count a step, p50 and mean in ns."""
    run = result.run
    times: dict[str, list[np.ndarray]] = {}
    for block in run.blocks:
        calls = block.log.calls
        counted = (calls["step"] >= block.warmup) & (calls["step"] < block.warmup + block.steps)
        for index, site in enumerate(block.log.call_sites):
            chosen = counted & (calls["call"] == index)
            if chosen.any():
                name = f"{site.name} {site.subject}".strip()
                times.setdefault(name, []).append((calls["end_ns"] - calls["start_ns"])[chosen])
    steps = sum(block.steps for block in run.blocks)
    joined = {name: np.concatenate(parts) for name, parts in times.items()}
    return {
        name: {"per_step": len(ns) / steps, "p50_ns": float(np.median(ns)), "mean_ns": float(ns.mean())}
        for name, ns in joined.items()
    }


def cell(result: RunResult) -> dict[str, object]:
    run = result.run
    return {
        "mode": run.mode,
        "device_us": run.params["device_us"],
        "schedule_us": run.params["schedule_us"],
        "save_output_us": run.params["save_output_us"],
        "device_work_ns": run.device_work_ns,
        "limit_ns": run.limit_ns,
        "step_over_limit": (result.summaries["window_ns"].mean or 0) / run.limit_ns,
        "summaries": {name: dataclasses.asdict(summary) for name, summary in result.summaries.items()},
        "stale_reads": result.stale_reads,
        "reads": result.reads,
        "tokens_right": result.is_right,
        "overrun_tokens": result.overrun_tokens,
        "clock_error_ns": result.clock_error_ns,
        "calls": call_times(result),
        "samples_ns": result.times.window_ns[result.times.part == COUNTED].tolist(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--runs", type=Path)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--kernels", type=int, default=20)
    options = parser.parse_args()
    backend, _ = open_backend(options.backend, 30.0)
    cells = []
    environment = None
    for device, schedule, save in LOOPS:
        params = LoopParams(device_us=device, schedule_us=schedule, save_output_us=save, kernels=options.kernels)
        session = Session(backend, "stop_flag", params, Extent(steps=options.steps, warmup=20))
        runs: dict[str, Run] = {mode: session.new_run(mode) for mode in MODES}
        for round_number in range(options.blocks):
            for mode in MODES if round_number % 2 == 0 else MODES[::-1]:
                block = session.block(mode, round_number)
                runs[mode] = replace(runs[mode], blocks=(*runs[mode].blocks, block))
        for mode, run in runs.items():
            environment = run.environment
            result = result_of(run)
            cells.append(cell(result))
            mean = result.summaries["window_ns"].mean or 0
            print(
                f"{device:>5} {schedule:>4}+{save:<3} {mode:<12} {mean / 1000:9.1f} µs"
                f"  {mean / run.limit_ns:.3f} × limit"
                f"  stale {result.stale_reads}/{result.reads}  right {result.is_right}",
                flush=True,
            )
            if options.runs:
                (folder,) = store.create(options.runs / f"{device}-{schedule}-{save}", [run])
                for block in run.blocks:
                    store.add_block(folder, block)
                store.finish(folder, run)
    assert environment is not None
    write(options.output, "mode_table", options.backend, environment, kernels=options.kernels, cells=cells)


if __name__ == "__main__":
    main()
