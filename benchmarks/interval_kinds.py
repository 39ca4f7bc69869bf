"""Why the intervals of `fdprof compare` are made as they are: how often other kinds hold the true ratio.

    python benchmarks/interval_kinds.py --trials 1000 -o RESULT.json

For each noise of compare_method.py and some numbers of blocks a side: the plain percentile bootstrap, the expanded one,
Student's interval, and the last two joined, which is what the command uses for means.  And how often a warm-up is found
in 200 independent steps that have none.
"""

import argparse
import datetime
import json
import os
import platform
from multiprocessing import Pool
from pathlib import Path

import numpy as np
from compare_method import NOISES, STEP_NS, STEPS, holds, interleaved
from scipy.stats import bootstrap

from fdprof.analysis.resampling import _mean_of, _ratio, _student, ratio_of_means
from fdprof.analysis.warmup import warm_up_of

BLOCKS = (4, 5, 6, 10)
SERIES = 20_000


def trial(job: tuple[str, int, int]) -> dict[str, bool]:
    """Return which kinds of interval hold the true ratio of 1."""
    name, blocks, seed = job
    draw = np.random.default_rng([seed, blocks, list(NOISES).index(name)])
    sides = interleaved(draw, NOISES[name], blocks)
    ours, theirs = ([np.rint(STEP_NS * block).astype(np.int64) for block in side] for side in sides)
    means = [_mean_of(ours), _mean_of(theirs)]
    every = np.arange(blocks)
    plain = bootstrap(
        (every, every),
        lambda a, b, axis=-1: means[1](np.moveaxis(b, axis, -1)) / means[0](np.moveaxis(a, axis, -1)),
        paired=True,
        vectorized=True,
        n_resamples=1_999,
        method="percentile",
        rng=draw,
    ).confidence_interval
    expanded = _ratio(*means, blocks, blocks, True, 9_999)
    return {
        "plain": holds((plain.low, plain.high), 1.0),
        "expanded": holds(expanded.interval, 1.0),
        "student": holds(_student(expanded.value, ours, theirs, True), 1.0),
        "joined": holds(ratio_of_means(ours, theirs, True).interval, 1.0),
    }


def has_warm_up(seed: int) -> bool:
    """Return whether a change of level is found in independent steps."""
    steps = np.random.default_rng([seed, 1]).normal(STEP_NS, 0.02 * STEP_NS, STEPS)
    return warm_up_of(np.rint(steps).astype(np.int64)) > 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    result: dict = {
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "date": datetime.date.today().isoformat(),
        "trials": given.trials,
        "covered": {},
    }
    with Pool(given.processes) as pool:
        result["warm_up_found_in_independent_steps"] = sum(pool.map(has_warm_up, range(SERIES), chunksize=100)) / SERIES
        for blocks in BLOCKS:
            for name in NOISES:
                done = pool.map(trial, [(name, blocks, seed) for seed in range(given.trials)], chunksize=10)
                covered = {kind: sum(each[kind] for each in done) / len(done) for kind in done[0]}
                result["covered"].setdefault(str(blocks), {})[name] = covered
                print(blocks, name, covered, flush=True)
    given.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
