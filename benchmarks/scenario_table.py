"""Measure every scenario in every mode, blocks of all modes interleaved, tokens checked.

usage: python benchmarks/scenario_table.py --backend paddle|sim -o RESULT.json

Four loops: device work 1000 µs with the default host work (schedule 120, save_output 80), its kernels launched one
by one and as one CUDA graph; the same with all 200 µs of host work before the read; and device work 200 µs with half
of the host work, as a graph.
"""

import argparse
import dataclasses
from dataclasses import replace
from pathlib import Path

from mode_table import cell
from result_file import write

from fdprof import plugins
from fdprof.analysis.results import result_of
from fdprof.model import Run
from fdprof.params import Extent
from fdprof.session import Session, open_backend

LOOPS = (  # launch, device, schedule, save_output in µs
    ("kernels", 1000, 120, 80),
    ("graph", 1000, 120, 80),
    ("kernels", 1000, 200, 0),
    ("graph", 200, 60, 40),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", required=True)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--reverse", action="store_true", help="last loop and last scenario first")
    options = parser.parse_args()
    backend, _ = open_backend(options.backend, 30.0)
    modes = plugins.names("modes")
    cells = []
    environment = None
    order = -1 if options.reverse else 1
    for launch, device, schedule, save in LOOPS[::order]:
        for scenario in plugins.names("scenarios")[::order]:
            params_type = plugins.load("scenarios", scenario).params_type
            params = params_type(device_us=device, schedule_us=schedule, save_output_us=save, launch=launch)
            session = Session(backend, scenario, params, Extent(steps=options.steps, warmup=20))
            runs: dict[str, Run] = {mode: session.new_run(mode) for mode in modes}
            for number in range(options.blocks):
                for mode in modes if number % 2 == 0 else modes[::-1]:
                    runs[mode] = replace(runs[mode], blocks=(*runs[mode].blocks, session.block(mode, number)))
            for run in runs.values():
                environment = run.environment
                result = result_of(run)
                fence = dataclasses.asdict(result.fence)
                cells.append(cell(result) | {"scenario": scenario, "launch": launch, "fence": fence})
                mean = result.summaries["window_ns"].mean or 0
                print(
                    f"{launch:<8}{device:>5} {schedule:>4}+{save:<3} {scenario:<13} {run.mode:<20}"
                    f" {mean / 1000:9.1f} µs  {mean / run.limit_ns:.3f} × limit"
                    f"  stale {result.stale_reads}/{result.reads}  right {result.is_right}",
                    flush=True,
                )
    assert environment is not None
    write(options.output, "scenario_table", options.backend, environment, cells=cells)


if __name__ == "__main__":
    main()
