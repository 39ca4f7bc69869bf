"""Measure what tails do to each mode, and what pinned buffers made in each step cost.

usage: python benchmarks/varying_times.py --backend paddle|sim -o RESULT.json

stop_flag at device 1000 / host 120 + 80 µs with fixed and with lognormal times (standard deviation / mean of 1 on the
host, of 0.3 on the device), and logprobs at device 200 / host 60 + 40 µs as a graph with both settings of
--pinned-alloc.
"""

import argparse
import dataclasses
from dataclasses import replace
from pathlib import Path

from result_file import write

from fdprof import plugins
from fdprof.analysis.results import result_of
from fdprof.params import Extent
from fdprof.session import Session, open_backend

SHORT = {"device_us": 200.0, "schedule_us": 60.0, "save_output_us": 40.0, "launch": "graph"}
LOOPS = (
    ("stop_flag", {}),
    ("stop_flag", {"host_times": "lognormal:1"}),
    ("stop_flag", {"device_times": "lognormal:0.3"}),
    ("logprobs", {**SHORT, "pinned_alloc": "per-step"}),
    ("logprobs", {**SHORT, "pinned_alloc": "once"}),
)
MODES = ("sync", "async", "overlap", "overlap-copy-stream", "mapped")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    backend, _ = open_backend(options.backend, 30.0)
    rows = []
    for scenario, changes in LOOPS:
        params = plugins.load("scenarios", scenario).params_type(**changes)
        session = Session(backend, scenario, params, Extent(steps=300, warmup=20))
        runs = {mode: session.new_run(mode) for mode in MODES}
        for number in range(2):
            for mode in MODES if number == 0 else MODES[::-1]:
                runs[mode] = replace(runs[mode], blocks=(*runs[mode].blocks, session.block(mode, number)))
        for mode, run in runs.items():
            result = result_of(run)
            window = result.summaries["window_ns"]
            rows.append(
                {
                    "scenario": scenario,
                    "changes": changes,
                    "mode": mode,
                    "limit_ns": run.limit_ns,
                    "window": dataclasses.asdict(window),
                    "device_idle": dataclasses.asdict(result.summaries["device_idle_ns"]),
                    "tokens_right": result.is_right,
                }
            )
            shown = ", ".join(f"{name}={value}" for name, value in changes.items() if name not in SHORT) or "fixed"
            print(
                f"{scenario:<10} {shown:<28} {mode:<20} mean {(window.mean or 0) / 1000:8.1f}  p50 "
                f"{(window.p50 or 0) / 1000:8.1f}  p99 {(window.p99 or 0) / 1000:8.1f} µs  right {result.is_right}",
                flush=True,
            )
    write(options.output, "varying_times", options.backend, backend.environment(), rows=rows)


if __name__ == "__main__":
    main()
