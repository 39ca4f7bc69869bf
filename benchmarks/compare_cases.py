"""`fdprof compare` on pairs of modes, each call a process of its own; and the same mode against itself many times.

    python benchmarks/compare_cases.py --backend paddle --self 20 -o FOLDER

Writes each pair's JSON and text to FOLDER, and summary.json: verdicts, ratios with intervals, the smallest detectable
ratio, the A/A calls' verdicts, and how much the mean step of one mode varies from process to process, which is what
recordings made apart differ by.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

PAIRS = (("sync", "async"), ("async", "overlap"), ("overlap", "overlap-copy-stream"), ("overlap", "mapped"))


def compare(baseline: str, candidate: str, place: Path, options: list[str]) -> dict:
    """Run one comparison, write its text and JSON to `place`, and return its document with the exit code."""
    command = [sys.executable, "-m", "fdprof", "compare", baseline, candidate, "--json", "--no-save", "--force"]
    began = time.perf_counter()
    done = subprocess.run(
        [*command, "-o", str(place.with_suffix(".txt")), *options], capture_output=True, text=True, check=False
    )
    place.with_suffix(".json").write_text(done.stdout, encoding="utf-8")
    try:
        document = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(f"{' '.join(command)} gave no document, exit {done.returncode}:\n{done.stderr}") from None
    return document | {"exit": done.returncode, "wall_s": time.perf_counter() - began}


def row(document: dict) -> dict:
    """Return what the tables need of one comparison."""
    names = ("exit", "wall_s", "verdict", "ratio", "ratio_interval", "ratio_p50", "ratio_p50_interval")
    more = (
        "ratio_p99",
        "ratio_p99_interval",
        "detectable_ratio",
        "self_check_ratio",
        "removed_or_moved",
        "tokens_equal",
    )
    sides = {side: float(np.mean(document[side]["block_means_ns"])) / 1000 for side in ("baseline", "candidate")}
    return {name: document[name] for name in (*names, *more)} | {"step_us": sides, "spreads": document["spreads"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--self", dest="itself", type=int, default=20, help="calls of async against async")
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("options", nargs="*", help="more options of fdprof compare, after --")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    options = ["--backend", given.backend, *given.options]

    pairs = {}
    for baseline, candidate in PAIRS:
        name = f"{baseline}_{candidate}"
        pairs[name] = row(compare(baseline, candidate, given.output / name, options))
        print(name, pairs[name]["verdict"], pairs[name]["ratio"], pairs[name]["ratio_interval"], flush=True)
    itself = []
    for _ in range(given.itself):
        itself.append(row(compare("async", "async", given.output / "async_async", options)))  # the last is kept
        print("async_async", itself[-1]["verdict"], itself[-1]["ratio"], itself[-1]["ratio_interval"], flush=True)
    calls = np.log([each["step_us"]["baseline"] for each in itself])
    between = float(np.std(calls, ddof=1)) if len(itself) > 1 else None
    summary = {
        "backend": given.backend,
        "options": given.options,
        "pairs": pairs,
        "itself": itself,
        "verdicts": {each["verdict"]: sum(e["verdict"] == each["verdict"] for e in itself) for each in itself},
        # Of the mean step of ten blocks, from process to process, as a share.
        "between_processes_sd": between,
        "between_processes_range": None if between is None else float(np.exp(np.ptp(calls)) - 1),
    }
    (given.output / "summary.json").write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print(f"A/A: {summary['verdicts']}; between processes: sd {between}, range {summary['between_processes_range']}")


if __name__ == "__main__":
    main()
