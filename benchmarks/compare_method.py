"""How often `fdprof compare` is right: verdicts and intervals on step times whose true ratio is known.

    python benchmarks/compare_method.py --trials 1000 -o RESULT.json

A trial is one call: ten blocks of 200 steps a side, in rounds of A B B A or B A A B, through the functions that the
command uses.  The candidate's steps are the noise times the true ratio.  For each kind of noise and each ratio: how
often each verdict came, a false alarm being `faster` or `slower` at ratio 1, a miss anything but `slower` above it; and
how often the 95 % intervals of mean, median and p99 hold the true ratio.
"""

import argparse
import datetime
import json
import os
import platform
from collections import Counter
from collections.abc import Callable
from itertools import islice
from multiprocessing import Pool
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fdprof.analysis.resampling import ratio_of_quantiles
from fdprof.analysis.sides import warm_up_of_blocks
from fdprof.analysis.verdict import half_width, judge, units_of, with_interval
from fdprof.comparison import Blocked, Policy, Side
from fdprof.session import abba

BLOCKS, STEPS = 10, 200
STEP_NS = 1_100_000
EFFECTS = (0.0, 0.005, 0.01, 0.02, 0.05)

Noise = Callable[[np.random.Generator, int], npt.NDArray[np.float64]]
"""Returns the factors of the steps of [blocks, STEPS], one block after the other in the order of the call."""


def autoregressive(draw: np.random.Generator, count: int, sd: float, correlation: float) -> npt.NDArray[np.float64]:
    """Return a stationary AR(1) series."""
    from scipy.signal import lfilter

    shocks = draw.normal(0, sd * np.sqrt(1 - correlation**2), count)
    shocks[0] = draw.normal(0, sd)
    return lfilter([1.0], [1.0, -correlation], shocks)


def independent(draw: np.random.Generator, blocks: int) -> npt.NDArray[np.float64]:
    """Each step by itself, 2 %."""
    return 1 + draw.normal(0, 0.02, (blocks, STEPS))


def alike(draw: np.random.Generator, blocks: int) -> npt.NDArray[np.float64]:
    """Neighbouring steps alike: AR(1) of 0.9, 2 %."""
    return 1 + autoregressive(draw, blocks * STEPS, 0.02, 0.9).reshape(blocks, STEPS)


def drift(draw: np.random.Generator, blocks: int) -> npt.NDArray[np.float64]:
    """A machine that slows down by 5 % from the first step of the call to the last, and AR(1)."""
    return alike(draw, blocks) * np.linspace(1, 1.05, blocks * STEPS).reshape(blocks, STEPS)


def bursts(draw: np.random.Generator, blocks: int) -> npt.NDArray[np.float64]:
    """Every 700 steps or so a burst of 10 to 60 steps that take half as long again, and AR(1) of 1 %."""
    steps = 1 + autoregressive(draw, blocks * STEPS, 0.01, 0.9)
    for start in np.flatnonzero(draw.random(len(steps)) < 1 / 700):
        steps[start : start + draw.integers(10, 61)] += 0.5
    return steps.reshape(blocks, STEPS)


def bimodal(draw: np.random.Generator, blocks: int) -> npt.NDArray[np.float64]:
    """A clock of two speeds, 4 % apart, that changes every 900 steps or so, and AR(1) of 0.5 %."""
    changes = np.cumsum(draw.random(blocks * STEPS) < 1 / 900)
    slow = (changes + draw.integers(2)) % 2
    return (1 + 0.04 * slow + autoregressive(draw, blocks * STEPS, 0.005, 0.9)).reshape(blocks, STEPS)


def phases(draw: np.random.Generator, blocks: int) -> npt.NDArray[np.float64]:
    """As on the H200's hosts: block means of 1.5 % that wander with the neighbours' (0.6), AR(1) of 1.5 % inside."""
    level = autoregressive(draw, blocks, 0.015, 0.6)
    return 1 + level[:, None] + autoregressive(draw, blocks * STEPS, 0.015, 0.65).reshape(blocks, STEPS)


def long_tail(draw: np.random.Generator, blocks: int) -> npt.NDArray[np.float64]:
    """Lognormal steps: most near the shortest, some several times as long."""
    return 0.9 + 0.1 * draw.lognormal(0, 1, (blocks, STEPS))


NOISES: dict[str, Noise] = {
    each.__name__: each for each in (independent, alike, drift, bursts, bimodal, phases, long_tail)
}


def apart(draw: np.random.Generator, blocks: int) -> npt.NDArray[np.float64]:
    """Phases, and each side a process of its own: their means differ by 1.2 % (sd), as on the H200."""
    return phases(draw, blocks) * (1 + draw.normal(0, 0.012))


def drawn(draw: np.random.Generator, blocks: int) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """As with --device-times: block n of both sides has the same times, which vary by 3 % from block to block."""
    shared = 1 + draw.normal(0, 0.03, (blocks, 1)) + draw.normal(0, 0.2, (blocks, STEPS))
    ours, theirs = interleaved(draw, alike, blocks)
    return shared * ours, shared * theirs


def sides_of(blocks: tuple[npt.NDArray[np.float64], ...], ratio: float, call: str) -> tuple[Side, Side]:
    """Return baseline and candidate with these factors, the candidate's steps `ratio` as long."""
    made = []
    for factors, scale in zip(blocks, (1.0, ratio), strict=True):
        windows = [np.rint(STEP_NS * scale * block).astype(np.int64) for block in factors]
        warm_up = warm_up_of_blocks(windows)
        made.append(
            Side(
                label="",
                source="",
                fields={"tracer": "none"},
                call=call,
                positions=(),
                windows_ns=tuple(block[warm_up:] for block in windows),
                left_out=warm_up,
                parts_ns=None,
                blocked=Blocked(0, 0),
                means_ns={},
                limit_ns=None,
                tokens=None,
                is_right=None,
                doubts=(),
            )
        )
    return made[0], made[1]


def interleaved(draw: np.random.Generator, noise: Noise, blocks: int) -> tuple[npt.NDArray[np.float64], ...]:
    """Return the factors of both sides' blocks as the command would have run them."""
    order = np.array(list(islice(abba(int(draw.integers(1 << 30))), 2 * blocks)))
    factors = noise(draw, 2 * blocks)
    return factors[order == 0], factors[order == 1]


def trial(job: tuple[str, int]) -> dict:
    """Return verdicts by effect, and whether the intervals hold the true ratio."""
    name, seed = job
    draw = np.random.default_rng([seed, [*NOISES, "apart", "drawn"].index(name)])
    if name == "apart":
        blocks, call = (apart(draw, BLOCKS), apart(draw, BLOCKS)), ""
    elif name == "drawn":
        blocks, call = drawn(draw, BLOCKS), "one"
    else:
        blocks, call = interleaved(draw, NOISES[name], BLOCKS), "one"
    verdicts, held = {}, {}
    for effect in EFFECTS:
        baseline, candidate = sides_of(blocks, 1 + effect, call)
        judgement = judge(baseline, candidate, Policy().same_within)
        verdicts[effect] = judgement.verdict.value
        if not effect:
            held["mean"] = holds(judgement.ratio.interval, 1.0)
            ours, theirs, paired = units_of(baseline, candidate)
            for which, share in (("p50", 0.5), ("p99", 0.99)):
                estimate = ratio_of_quantiles(ours, theirs, paired, share)
                held[which] = holds(with_interval(estimate, judgement.units, paired).interval, 1.0)
            detectable = judgement.detectable
    return {"noise": name, "verdicts": verdicts, "held": held, "detectable": detectable}


def until_precise(job: tuple[str, int, float]) -> dict:
    """Return whether the interval holds the ratio where blocks are added until it is narrow, and how many it took."""
    name, seed, precision = job
    draw = np.random.default_rng([seed, 7])
    ours, theirs = interleaved(draw, NOISES[name], 64)
    for blocks in range(BLOCKS, 65, 2):
        baseline, candidate = sides_of((ours[:blocks], theirs[:blocks]), 1.0, "one")
        width = half_width(baseline.windows_ns, candidate.windows_ns, True)
        if width is not None and width <= precision:
            break
    judgement = judge(baseline, candidate, Policy().same_within)
    return {
        "noise": name,
        "held": holds(judgement.ratio.interval, 1.0),
        "blocks": blocks,
        "alarm": judgement.verdict.value in ("faster", "slower"),
    }


def holds(interval: tuple[float, float] | None, ratio: float) -> bool:
    return interval is not None and interval[0] <= ratio <= interval[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--sequential-trials", type=int, default=500)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("-o", "--output", type=Path, required=True)
    given = parser.parse_args()
    result: dict = {
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "date": datetime.date.today().isoformat(),
        "trials": given.trials,
        "blocks": BLOCKS,
        "steps": STEPS,
        "same_within": Policy().same_within,
        "noise": {},
        "precision": {},
    }
    with Pool(given.processes) as pool:
        for name in (*NOISES, "drawn", "apart"):
            done = pool.map(trial, [(name, seed) for seed in range(given.trials)], chunksize=8)
            result["noise"][name] = {
                "covered": {which: sum(each["held"][which] for each in done) / len(done) for which in done[0]["held"]},
                "verdicts": {
                    f"{100 * effect:g} %": dict(Counter(each["verdicts"][effect] for each in done))
                    for effect in EFFECTS
                },
                "detectable_median": float(np.median([each["detectable"] for each in done])),
            }
            print(name, json.dumps(result["noise"][name]), flush=True)
        for name in ("alike", "bursts", "phases"):
            jobs = [(name, seed, 0.005) for seed in range(given.sequential_trials)]
            done = pool.map(until_precise, jobs, chunksize=8)
            result["precision"][name] = {
                "covered": sum(each["held"] for each in done) / len(done),
                "false_alarms": sum(each["alarm"] for each in done) / len(done),
                "blocks_median": float(np.median([each["blocks"] for each in done])),
            }
            print("--precision 0.5%", name, json.dumps(result["precision"][name]), flush=True)
    given.output.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
