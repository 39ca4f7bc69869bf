"""What tracing costs a step: the step times under a tracer held against bare ones, and what `fdprof overhead` shows.

Ratios are traced / bare.  What is resampled are processes, in the rounds that they ran in, or blocks of one process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fdprof.analysis.resampling import detectable_ratio, ratio_of_means
from fdprof.analysis.spread import noise_apart, noise_of_pairs
from fdprof.analysis.steps import Choice, marked_steps
from fdprof.analysis.verdict import MIN_UNITS
from fdprof.analysis.warmup import warm_up_of
from fdprof.capture import Capture, Inflation
from fdprof.comparison import Estimate
from fdprof.errors import InputError
from fdprof.model import Environment, IntColumn

ROUNDS, BLOCKS = "rounds", "blocks of one process"
"""What is resampled."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a condition costs: its mean step, and that against the bare one's."""

    mean_step_ns: float
    ratio: Estimate  # of mean steps
    p50_ratio: float
    added_ns: float  # to the mean step
    smallest_visible: float | None  # the smallest ratio above 1 that so many units would find 4 times out of 5
    units: int  # on the side that has fewer


@dataclass(frozen=True, slots=True)
class Condition:
    """The loop under one tracer. `missing` says why it has no numbers, or why it has not those of every round."""

    name: str
    tool: str
    unit: str  # ROUNDS or BLOCKS
    cost: Cost | None
    missing: str | None = None


@dataclass(frozen=True, slots=True)
class OverheadResult:
    """What `fdprof overhead` measured: one loop under every condition, the bare one first."""

    scenario: str
    mode: str
    backend: str
    parameters: Mapping[str, Any]
    environment: Environment
    rounds: int  # that were finished
    process_sd: float | None  # of the bare processes' mean steps, as a share of their mean; None for one
    conditions: tuple[Condition, ...]
    interrupted: bool = False


def cost_of(bare: Sequence[IntColumn], traced: Sequence[IntColumn], paired: bool) -> Cost:
    """Return what the traced steps cost against the bare ones; both are step times, ns, one array a unit.

    `paired`: unit n of both ran side by side.  With fewer than MIN_UNITS units there is neither an interval nor a
    smallest visible ratio.  Bare steps of 100 µs and traced ones of 105 µs: ratio 1.05, 5 µs added.
    """
    ours, theirs = np.concatenate(bare), np.concatenate(traced)
    units = min(len(bare), len(traced))
    estimate = ratio_of_means(bare, traced, paired)
    visible = None
    if units >= MIN_UNITS:
        noise = noise_of_pairs(bare, traced) if paired else noise_apart(bare, traced)
        visible = detectable_ratio(noise.error, noise.differences)
    return Cost(
        mean_step_ns=float(theirs.mean()),
        ratio=estimate if units >= MIN_UNITS else Estimate(estimate.value, None),
        p50_ratio=float(np.median(theirs) / np.median(ours)),
        added_ns=float(theirs.mean() - ours.mean()),
        smallest_visible=visible,
        units=units,
    )


def bare_cost(bare: Sequence[IntColumn]) -> Cost:
    """Return the bare loop's own row: its mean step, which is the one that the others are held against."""
    return Cost(float(np.concatenate(bare).mean()), Estimate(1.0, None), 1.0, 0.0, None, len(bare))


def process_sd(bare: Sequence[IntColumn]) -> float | None:
    """Return the standard deviation of the units' mean steps as a share of their mean; None for fewer than two."""
    if len(bare) < 2:
        return None
    means = np.array([unit.mean() for unit in bare])
    return float(means.std(ddof=1) / means.mean())


def inflation_of(bare: Sequence[IntColumn], traced: Sequence[IntColumn], how: str) -> Inflation:
    """Return the inflation of a capture by the step times of processes that ran in turns, bare and traced."""
    ratio = cost_of(bare, traced, paired=True).ratio
    return Inflation(ratio.value, ratio.interval, how)


def marked_windows(capture: Capture, choice: Choice) -> IntColumn:
    """Return the step times, ns, by the ranges that mark the steps, the warm-up left out; a call or two is not needed.

    InputError where no range marks a step.
    """
    steps = marked_steps(capture, choice)
    if steps is None or not len(steps):
        raise InputError(
            "the capture has no marked steps, by which its inflation could be measured",
            "mark them: `with fdprof.step(k): ...`, or name your own ranges with --step-range",
        )
    windows = steps.ends_ns - steps.starts_ns
    return windows[warm_up_of(windows) :]
