"""Put the simulator's table of modes beside a measured one, as Markdown: mean step times and the error of each cell.

usage: python benchmarks/sim_error.py MEASURED.json SIMULATED.json
"""

import json
import sys
from pathlib import Path


def cells(path):
    rows = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
    return {(row["device_us"], row["schedule_us"], row["save_output_us"], row["mode"]): row for row in rows}


def main():
    measured, simulated = cells(sys.argv[1]), cells(sys.argv[2])
    print("| device / schedule + save_output | mode | H200, µs | × limit | stale reads | simulator, µs | error |")
    print("|---|---|---|---|---|---|---|")
    for key, row in measured.items():
        device, schedule, save, mode = key
        real = row["summaries"]["window_ns"]["mean"]
        model = simulated[key]["summaries"]["window_ns"]["mean"]
        print(
            f"| {device:g} / {schedule:g} + {save:g} | {mode} | {real / 1000:.1f} | {row['step_over_limit']:.3f} "
            f"| {row['stale_reads']} of {row['reads']} | {model / 1000:.1f} | {(model / real - 1) * 100:+.1f} % |"
        )


if __name__ == "__main__":
    main()
