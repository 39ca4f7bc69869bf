"""Run the hazard laboratory with many seeds on the simulator, its cases side by side on all cores.

usage: python benchmarks/hazard_table.py --seeds 10000 -o RESULT.json

It writes what `fdprof hazards --json` prints, and prints what `fdprof hazards` does.
"""

import argparse
import json
import multiprocessing
import time
from functools import partial
from pathlib import Path

from fdprof import plugins
from fdprof.cli.hazards import document, table
from fdprof.hazard_lab import Case, CaseCount, clean_cases, fault_cases, run_case, scores
from fdprof.session import open_backend


def count(case: Case, seeds: int) -> CaseCount:
    backend, _ = open_backend("sim", 30.0)
    return run_case(backend, case, range(seeds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    for kind in ("scenarios", "modes", "faults", "backends"):  # before the fork: all workers run the same code
        for name in plugins.names(kind):
            plugins.load(kind, name)
    cases = [*fault_cases(), *clean_cases()]
    start = time.perf_counter()
    with multiprocessing.get_context("fork").Pool() as pool:
        counts = pool.map(partial(count, seeds=options.seeds), cases, chunksize=1)
    print(table(counts, scores(counts)))
    print(f"{time.perf_counter() - start:,.0f} s")
    result = document("sim", counts, scores(counts)) | {"when": time.strftime("%Y-%m-%d"), "seeds": options.seeds}
    options.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
