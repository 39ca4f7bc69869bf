"""Put the simulator's table of scenarios and modes beside measured ones, as Markdown, with the error of each cell.

usage: python benchmarks/scenario_error.py SIMULATED.json MEASURED.json [MEASURED.json ...]      (or .json.gz)

The last column is against the cell's median over the measured tables: the hosts have phases in which every call
takes twice as long.  Errors beyond 5 % are marked; the last line counts them.
"""

import gzip
import json
import statistics
import sys
from pathlib import Path

BAR = 0.05


def cells(path):
    opened = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "rt", encoding="utf-8") as file:
        rows = json.load(file)["cells"]
    keys = ("launch", "device_us", "schedule_us", "save_output_us", "scenario", "mode")
    return {tuple(row[key] for key in keys): row for row in rows}


def main():
    simulated, *measured = (cells(path) for path in sys.argv[1:])
    names = [_name(Path(path)) for path in sys.argv[2:]]
    columns = [f"{name}: µs (× limit)" for name in names] + ["simulator against " + name for name in (*names, "median")]
    print("| launch, device / schedule + save_output | scenario | mode | simulator | " + " | ".join(columns) + " |")
    print("|---" * (4 + len(columns)) + "|")
    beyond = [0] * (len(measured) + 1)
    for key, row in simulated.items():
        launch, device, schedule, save, scenario, mode = key
        model = row["summaries"]["window_ns"]["mean"]
        line = f"| {launch}, {device:g} / {schedule:g} + {save:g} | {scenario} | {mode} | {model / 1000:.1f} "
        real = [table[key]["summaries"]["window_ns"]["mean"] for table in measured]
        for mean, table in zip(real, measured, strict=True):
            line += f"| {mean / 1000:.1f} ({table[key]['step_over_limit']:.3f}) "
        for at, mean in enumerate((*real, statistics.median(real))):
            error = model / mean - 1
            beyond[at] += abs(error) > BAR
            line += f"| **{error * 100:+.1f} %** " if abs(error) > BAR else f"| {error * 100:+.1f} % "
        print(line + "|")
    print()
    counts = zip(beyond, (*names, "the median"), strict=True)
    print("; ".join(f"{number} of {len(simulated)} cells beyond 5 % against {name}" for number, name in counts))


def _name(path):
    """Return the session's letter, with R for the table that was measured in reverse order."""
    return path.parent.name[-1].upper() + ("R" if "reversed" in path.name else "")


if __name__ == "__main__":
    main()
