"""Print, for each loop, the step time of every scenario and mode over the limit, as Markdown.

usage: python benchmarks/scenario_summary.py SIMULATED.json MEASURED.json [MEASURED.json ...]

A cell is the median over the measured tables, their range in brackets, and the simulator's value behind a slash.
"""

import statistics
import sys
from itertools import groupby

from scenario_error import cells


def main():
    simulated, *measured = (cells(path) for path in sys.argv[1:])
    for loop, keys in groupby(simulated, key=lambda key: key[:4]):
        launch, device, schedule, save = loop
        print(f"\n{launch}, device {device:g} µs, schedule {schedule:g} + save_output {save:g} µs\n")
        rows: dict[str, dict[str, str]] = {}
        for key in keys:
            real = [table[key]["step_over_limit"] for table in measured]
            model = simulated[key]["step_over_limit"]
            shown = f"{statistics.median(real):.3f} ({min(real):.3f}-{max(real):.3f}) / {model:.3f}"
            rows.setdefault(key[4], {})[key[5]] = shown
        modes = list(next(iter(rows.values())))
        print("| scenario | " + " | ".join(modes) + " |")
        print("|---" * (1 + len(modes)) + "|")
        for scenario, shown in rows.items():
            print(f"| {scenario} | " + " | ".join(shown[mode] for mode in modes) + " |")


if __name__ == "__main__":
    main()
