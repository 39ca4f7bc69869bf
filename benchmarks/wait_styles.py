"""Measure the four ways to wait at a fence: how long after the kernel the host knows, and the CPU time burned.

usage: python benchmarks/wait_styles.py --backend paddle|sim -o RESULT.json

stop_flag with no host work, so that the host waits for most of each step; device work 200 and 2000 µs.
"""

import argparse
import dataclasses
from dataclasses import replace
from pathlib import Path

from result_file import write

from fdprof.analysis.results import result_of
from fdprof.params import Extent, LoopParams
from fdprof.session import Session, open_backend

STYLES = ("spin", "blocking", "poll", "yield")
MODES = ("async", "overlap", "overlap-copy-stream", "mapped")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args()
    backend, _ = open_backend(options.backend, 30.0)
    rows = []
    for device in (200, 2000):
        for mode in MODES:
            sessions = {}
            for wait in STYLES:
                if (mode, wait) == ("mapped", "blocking"):
                    continue  # there is no event to sleep on
                params = LoopParams(device_us=device, kernels=4, schedule_us=0, save_output_us=0, wait=wait)
                session = Session(backend, "stop_flag", params, Extent(steps=options.steps, warmup=20))
                sessions[wait] = session, session.new_run(mode)
            for number in range(2):
                for wait, (session, run) in sessions.items():
                    sessions[wait] = session, replace(run, blocks=(*run.blocks, session.block(mode, number)))
            for wait, (_, run) in sessions.items():
                result = result_of(run)
                fence = result.fence
                mean = result.summaries["window_ns"].mean or 0
                rows.append(
                    {
                        "device_us": device,
                        "mode": mode,
                        "wait": wait,
                        "step_ns": mean,
                        "learn_ns": dataclasses.asdict(fence.learn),
                        "wait_ns": fence.wait_ns,
                        "cpu_ns": fence.cpu_ns,
                        "clock_error_ns": result.clock_error_ns,
                        "tokens_right": result.is_right,
                    }
                )
                learn, share = fence.learn, fence.cpu_share or 0
                print(
                    f"{device:>5} µs {mode:<20} {wait:<9} known after p50 {(learn.p50 or 0) / 1000:7.2f} "
                    f"p99 {(learn.p99 or 0) / 1000:7.2f} µs ({learn.count} waits)  CPU {100 * share:5.1f} % "
                    f"of {(fence.wait_ns or 0) / 1000:7.1f} µs  step {mean / 1000:7.1f} µs  right {result.is_right}",
                    flush=True,
                )
    write(options.output, "wait_styles", options.backend, backend.environment(), rows=rows)


if __name__ == "__main__":
    main()
