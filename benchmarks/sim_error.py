"""Put the simulator's table of modes beside measured ones, as Markdown: mean step times and the error of each cell.

usage: python benchmarks/sim_error.py SIMULATED.json MEASURED.json [MEASURED.json ...]
"""

import json
import sys
from pathlib import Path


def cells(path):
    rows = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
    return {(row["device_us"], row["schedule_us"], row["save_output_us"], row["mode"]): row for row in rows}


def main():
    simulated, *measured = (cells(path) for path in sys.argv[1:])
    letters = [Path(path).parent.name[-1].upper() for path in sys.argv[2:]]  # the session's
    columns = [f"{letter}: µs (× limit, stale) | simulator against {letter}" for letter in letters]
    print("| device / schedule + save_output, µs | mode | simulator, µs | " + " | ".join(columns) + " |")
    print("|---" * (3 + 2 * len(measured)) + "|")
    for key, row in simulated.items():
        device, schedule, save, mode = key
        model = row["summaries"]["window_ns"]["mean"]
        line = f"| {device:g} / {schedule:g} + {save:g} | {mode} | {model / 1000:.1f} "
        for table in measured:
            real = table[key]["summaries"]["window_ns"]["mean"]
            stale = f"{table[key]['stale_reads']} of {table[key]['reads']}"
            over_limit = table[key]["step_over_limit"]
            line += f"| {real / 1000:.1f} ({over_limit:.3f}, {stale}) | {(model / real - 1) * 100:+.1f} % "
        print(line + "|")


if __name__ == "__main__":
    main()
