"""Blocks in turns: each of a condition between two bare ones, and what the conditions cost by them.

The host that this is for has phases of seconds in which every call takes two to three times longer.  So a block is much
shorter than a phase, and what is compared is each block with the bare ones just before and just after it: a phase that
covers all three changes neither's share much, and one that begins among them makes an outlier, of which a median over
the turns takes no notice.  Three statistics stand side by side, because they answer different questions:

- `median`: the median over the turns of (median step of the block / of the bare ones beside it), with the exact
  interval of order statistics: what tracing costs a usual step, whatever the phase.
- `mean`: fdprof's own ratio of mean steps, blocks resampled in pairs: what `fdprof overhead` shows; a phase widens it.
- `fast`: of the blocks' median steps the tenth percentile, traced over bare: what it costs on the quiet host.
"""

import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from fdprof.analysis.resampling import ratio_of_means
from fdprof.analysis.run_times import counted_windows, run_times_of
from fdprof.errors import WrongResult
from fdprof.model import Block, IntColumn, Run
from fdprof.session import Session

FAST = 10
"""The percentile of the blocks' medians that stands for the quiet host."""

_US = 1e-3
USED = ("launch_us", "cpu_us", "others_cpu_us", "faults", "switches")


@dataclass(frozen=True, slots=True)
class Timed:
    """What one block took: the counted steps, ns, and what the rest of it used for each step that it began."""

    windows: IntColumn
    begun: int
    launch_us: float  # inside calls that launch, a counted step
    cpu_us: float  # of the step's thread
    others_cpu_us: float  # of the process's other threads
    faults: float  # pages that the step's thread touched first
    switches: float  # times that the step's thread gave the processor up, or lost it

    @property
    def mean(self) -> float:
        return float(self.windows.mean())

    @property
    def median(self) -> float:
        return float(np.median(self.windows))

    def document(self) -> dict[str, Any]:
        return {"windows": self.windows.tolist(), "begun": self.begun, **{name: getattr(self, name) for name in USED}}


def timed_of(document: Mapping[str, Any]) -> Timed:
    """Return a block from its document."""
    return Timed(**{**document, "windows": np.array(document["windows"], dtype=np.int64)})


def timed_block(session: Session, run: Run, index: int = 0) -> tuple[Timed, Block]:
    """Run a block of the run's mode and return what it took; WrongResult where its values are not right."""
    before, own, all_of_it = resource.getrusage(resource.RUSAGE_THREAD), time.thread_time_ns(), time.process_time_ns()
    block = session.block(run.mode, index)
    after = resource.getrusage(resource.RUSAGE_THREAD)
    own, all_of_it = time.thread_time_ns() - own, time.process_time_ns() - all_of_it
    if not block.tokens.is_right:
        raise WrongResult(f"a block of {run.mode} read wrong values", f"see `fdprof run --mode {run.mode}`")
    begun = len(block.log.step_starts_ns)
    launch = run_times_of(replace(run, blocks=(block,))).counted("launch_ns")
    assert launch is not None
    timed = Timed(
        windows=counted_windows(block),
        begun=begun,
        launch_us=float(launch.mean()) * _US,
        cpu_us=own / begun * _US,
        others_cpu_us=(all_of_it - own) / begun * _US,
        faults=(after.ru_minflt - before.ru_minflt) / begun,
        switches=(after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw) / begun,
    )
    return timed, block


@dataclass(frozen=True, slots=True)
class Turn:
    """A block of a condition and the two bare ones beside it."""

    number: int  # of its round
    block: Timed
    bare: tuple[Timed, Timed]

    def beside(self, value: Callable[[Timed], float]) -> float:
        """Return the mean of a value of the bare blocks."""
        return (value(self.bare[0]) + value(self.bare[1])) / 2

    def ratio(self, value: Callable[[Timed], float]) -> float:
        return value(self.block) / self.beside(value)

    def added(self, value: Callable[[Timed], float]) -> float:
        return value(self.block) - self.beside(value)


def order_of(names: Sequence[str], number: int) -> Iterator[str]:
    """Yield the names as round `number` takes them: begun one further on each round, every second one backwards.

    So no condition always follows the same one, nor stands always at the same place of a round.
    """
    shift = number % len(names)
    rotated = [*names[shift:], *names[:shift]]
    yield from reversed(rotated) if number % 2 else rotated


def median_of(values: Sequence[float]) -> dict[str, Any]:
    """Return the median with its exact interval of 95 %, by order statistics; None where the values are too few."""
    from scipy.stats import quantile_test

    interval = quantile_test(values, q=0.0, p=0.5).confidence_interval(0.95) if len(values) > 1 else None
    known = interval is not None and bool(np.isfinite([interval.low, interval.high]).all())
    return {
        "value": float(np.median(values)),
        "interval": [float(interval.low), float(interval.high)] if known and interval is not None else None,
    }


def mean_of(values: Sequence[float]) -> dict[str, Any]:
    """Return the mean with Student's interval of 95 %."""
    from scipy.stats import ttest_1samp

    interval = None
    if len(values) > 1 and np.ptp(values):
        found = ttest_1samp(values, 0.0).confidence_interval(0.95)
        interval = [float(found.low), float(found.high)]
    return {"value": float(np.mean(values)), "interval": interval}


def apart_of(ones: Sequence[float], others: Sequence[float]) -> dict[str, Any]:
    """Return the difference of two means with Welch's interval of 95 %, which lets both vary as they do."""
    from scipy.stats import ttest_ind

    interval = None
    if min(len(ones), len(others)) > 1 and np.ptp([*ones, *others]):
        found = ttest_ind(ones, others, equal_var=False).confidence_interval(0.95)
        interval = [float(found.low), float(found.high)]
    return {"value": float(np.mean(ones) - np.mean(others)), "interval": interval}


def cost_of(turns: Sequence[Turn]) -> dict[str, Any]:
    """Return what a condition costs by its turns: ratios, us added to a step, and what more of the machine it used."""
    bare = [np.concatenate([beside.windows for beside in turn.bare]) for turn in turns]
    mean = ratio_of_means(bare, [turn.block.windows for turn in turns], paired=True)
    fast = [
        np.percentile([timed.median for timed in blocks], FAST)
        for blocks in ([turn.block for turn in turns], [beside for turn in turns for beside in turn.bare])
    ]
    return {
        "turns": len(turns),
        "step_us": float(np.median([turn.block.median for turn in turns])) * _US,
        "bare_us": float(np.median([turn.beside(_median) for turn in turns])) * _US,
        "median": median_of([turn.ratio(_median) for turn in turns]),
        "mean": {"value": mean.value, "interval": mean.interval and list(mean.interval)},
        "fast": float(fast[0] / fast[1]),
        "added_us": median_of([turn.added(_median) * _US for turn in turns]),
        "fast_added_us": float(fast[0] - fast[1]) * _US,
        **{name: float(np.median([turn.added(attrgetter(name)) for turn in turns])) for name in USED},
    }


def difference(ours: Sequence[Turn], theirs: Sequence[Turn]) -> dict[str, Any]:
    """Return by how much one condition's ratios and us added exceed another's, round by round.

    Of a round in which a condition had more turns than one, their mean counts.
    """

    def by_round(turns: Sequence[Turn], value: Callable[[Turn], float]) -> dict[int, float]:
        numbers = {turn.number for turn in turns}
        return {n: float(np.mean([value(turn) for turn in turns if turn.number == n])) for n in numbers}

    def apart(value: Callable[[Turn], float]) -> list[float]:
        one, other = by_round(ours, value), by_round(theirs, value)
        return [one[number] - other[number] for number in sorted(one.keys() & other.keys())]

    return {
        "rounds": len({turn.number for turn in ours} & {turn.number for turn in theirs}),
        "median_ratio": median_of(apart(lambda turn: turn.ratio(_median))),
        "mean_ratio": mean_of(apart(lambda turn: turn.ratio(_mean))),
        "added_us": median_of(apart(lambda turn: turn.added(_median) * _US)),
    }


def _median(timed: Timed) -> float:
    return timed.median


def _mean(timed: Timed) -> float:
    return timed.mean


def in_words(estimate: Mapping[str, Any], digits: int = 3, sign: str = "") -> str:
    """Return a value and its interval: '1.044 (1.031 to 1.060)'."""
    shown = f"{{:{sign}.{digits}f}}"
    value = shown.format(estimate["value"])
    low_high = estimate["interval"]
    return f"{value} ({shown.format(low_high[0])} to {shown.format(low_high[1])})" if low_high else value


def print_costs(costs: Mapping[str, Mapping[str, Any]]) -> None:
    """Print a line a condition; what stands behind the ratios is added to the bare block's, a step."""
    head = f"{'':18}{'turns':>6}{'step':>8}{'bare':>8}  {'ratio of medians':24}{'of means':25}{'fast':>6}"
    print(head + f"  {'added, us':24}{'fast':>7}{'launch':>8}{'cpu':>8}{'others':>8}{'faults':>8}{'switch':>8}")
    for name, cost in costs.items():
        print(
            f"{name:18}{cost['turns']:6}{cost['step_us']:8.1f}{cost['bare_us']:8.1f}  {in_words(cost['median']):24}"
            f"{in_words(cost['mean']):25}{cost['fast']:6.3f}  {in_words(cost['added_us'], 1, '+'):24}"
            f"{cost['fast_added_us']:+7.1f}" + "".join(f"{cost[used]:+8.2f}" for used in USED)
        )


def print_differences(found: Mapping[str, Mapping[str, Any]]) -> None:
    """Print by how much one condition's ratio exceeds another's."""
    print(f"{'':38}{'added, us':26}{'ratio of medians':28}of means")
    for name, apart in found.items():
        print(
            f"{name:38}{in_words(apart['added_us'], 1, '+'):26}{in_words(apart['median_ratio'], 3, '+'):28}"
            f"{in_words(apart['mean_ratio'], 3, '+')}"
        )
