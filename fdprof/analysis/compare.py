"""Compares two sides: results first, then whether they may be compared, then times."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from fdprof.analysis.bridge import bridge_of, moved_of
from fdprof.analysis.clocks import clock_notes
from fdprof.analysis.comparability import mismatches_of, unknown_of
from fdprof.analysis.gates import gates_of
from fdprof.analysis.resampling import ratio_of_quantiles
from fdprof.analysis.same_tokens import tokens_equal
from fdprof.analysis.sides import sides_of_runs
from fdprof.analysis.spread import spread_of
from fdprof.analysis.verdict import APART, judge, units_of, with_interval
from fdprof.comparison import Comparison, Estimate, GateResult, Judgement, Outcome, Policy, Side
from fdprof.errors import InputError
from fdprof.model import IntColumn, Run
from fdprof.units import counted, percent, ratio

QUANTILES = {"p50": 0.50, "p90": 0.90, "p99": 0.99}

_STEPS_BEYOND = 10
"""A percentile gets an interval where at least so many steps of each side lie beyond it."""


def compare(baseline: Side, candidate: Side, policy: Policy) -> Comparison:
    """Return the comparison of two sides under a policy.

    Times are compared only where the tokens do not differ and every field that differs is allowed to.  InputError where
    half of a side's steps take no time at all, so that there is nothing to divide by.
    """
    for side in (baseline, candidate):
        if not np.median(side.steps_ns):
            raise InputError(
                f"{side.label}: the median of its {counted(len(side.steps_ns), 'step')} is 0 ns",
                "a step ends where the next begins: mark or capture whole steps",
            )
    equal, text = tokens_equal(baseline, candidate)
    found = Comparison(
        baseline=baseline,
        candidate=candidate,
        policy=policy,
        mismatches=mismatches_of(baseline, candidate, policy.allowed),
        unknown=unknown_of(baseline, candidate),
        tokens_equal=equal,
        tokens_text=text,
        gates=gates_of(policy, None, {}),
        notes=_notes(baseline, candidate),
    )
    if equal is False or not all(mismatch.allowed for mismatch in found.mismatches):
        return found
    judgement = judge(baseline, candidate, policy.same_within)
    ratios = _ratios(baseline, candidate, judgement)
    ours, theirs, _ = units_of(baseline, candidate)
    return replace(
        found,
        judgement=judgement,
        step_ns=(_statistics(ours), _statistics(theirs)),
        ratios=ratios,
        spreads=(spread_of(baseline.windows_ns, ours), spread_of(candidate.windows_ns, theirs)),
        bridge=bridge_of(baseline, candidate),
        moved=moved_of(baseline, candidate, judgement),
        efficiencies=(_efficiency(baseline), _efficiency(candidate)),
        gain_share=_gain_share(baseline, candidate),
        gates=_gates(policy, judgement, ratios),
        notes=(*found.notes, *_inflations(baseline, candidate), *_doubts(judgement, ratios)),
    )


def _statistics(units: Sequence[IntColumn]) -> dict[str, float]:
    """Return mean and percentiles of all steps that the ratios are of."""
    steps = np.concatenate(units)
    percentiles = np.percentile(steps, [100 * share for share in QUANTILES.values()]).tolist()
    return {"mean": float(steps.mean()), **dict(zip(QUANTILES, percentiles, strict=True))}


def compare_runs(baseline: Run, candidate: Run, policy: Policy | None = None) -> Comparison:
    """Return the comparison of two runs, each with the warm-up of its blocks left out."""
    (ours, _), (theirs, _) = sides_of_runs([baseline, candidate])
    return compare(ours, theirs, Policy() if policy is None else policy)


def _ratios(baseline: Side, candidate: Side, judgement: Judgement) -> Mapping[str, Estimate]:
    ours, theirs, interleaved = units_of(baseline, candidate)
    fewest = min(sum(len(unit) for unit in units) for units in (ours, theirs))
    ratios = {"mean": judgement.ratio}
    for name, share in QUANTILES.items():
        estimate = ratio_of_quantiles(ours, theirs, interleaved, share)
        is_known = round(fewest * (1 - share)) >= _STEPS_BEYOND
        interval = with_interval(estimate, judgement.units, interleaved).interval if is_known else None
        ratios[name] = Estimate(estimate.value, interval)
    return ratios


def _gates(policy: Policy, judgement: Judgement, ratios: Mapping[str, Estimate]) -> tuple[GateResult, ...]:
    """Return the gates; by times that give no verdict for a tracer's inflation none passes and none fails."""
    gates = gates_of(policy, judgement, ratios)
    if not judgement.is_inflated:
        return gates
    return tuple(replace(gate, outcome=Outcome.OPEN, text=f"{gate.text}; {judgement.reason}") for gate in gates)


def _efficiency(side: Side) -> float | None:
    return None if side.limit_ns is None else side.limit_ns / float(side.steps_ns.mean())


def _gain_share(baseline: Side, candidate: Side) -> float | None:
    """Return what was gained of what could be: (baseline - candidate) / (baseline - limit)."""
    if baseline.limit_ns is None:
        return None
    ours, theirs = float(baseline.steps_ns.mean()), float(candidate.steps_ns.mean())
    return (ours - theirs) / (ours - baseline.limit_ns) if ours > baseline.limit_ns else None


def _notes(baseline: Side, candidate: Side) -> tuple[str, ...]:
    """Return what is to be said whatever the times are."""
    sides = baseline, candidate
    found = list(dict.fromkeys(note for side in sides for note in side.notes))
    for side in sides:
        if side.left_out:
            of = "" if side.is_capture else " of each block"
            steps = counted(side.left_out, "step")
            found.append(f"warm-up: {steps} at the beginning{of} of {side.label} left out, up to a change of level")
    found.extend(clock_notes(sides))
    unknown = unknown_of(baseline, candidate)
    if unknown:
        found.append(f"known of one side only, so not compared: {', '.join(unknown)}")
    return tuple(found)


def _inflations(baseline: Side, candidate: Side) -> tuple[str, ...]:
    """Return what the tracers cost, and once that it was not measured."""
    captures = [side for side in (baseline, candidate) if side.is_capture]
    found = []
    for side in captures:
        if side.inflation is not None:
            ends = side.inflation.interval
            interval = "" if ends is None else f" (95 % interval {ratio(ends[0])} to {ratio(ends[1])})"
            found.append(
                f"inflation of {side.label}: its tracer makes a step {ratio(side.inflation.ratio)} times as long"
                f"{interval}; {side.inflation.how}"
            )
    unknown = [side.label for side in captures if side.inflation is None]
    if unknown:
        whose = "these captures" if len(unknown) == 2 else unknown[0]
        found.append(f"the inflation of {whose} was not measured: `fdprof capture --measure-inflation`")
    return tuple(found)


def _doubts(judgement: Judgement, ratios: Mapping[str, Estimate]) -> tuple[str, ...]:
    """Return what limits the verdict."""
    found = []
    if not judgement.interleaved and judgement.ratio.interval is not None:
        found.append(
            f"recorded apart: the intervals include ±{percent(APART)} that two recordings of one loop may differ by; "
            "modes in one call are interleaved and need no such allowance"
        )
    mean, median = ratios["mean"].interval, ratios["p50"].interval
    if mean and median and (mean[1] < 1 <= median[1] or median[0] <= 1 < mean[0]):
        found.append("the medians do not show it: a few long steps make the difference of the means")
    return tuple(found)
