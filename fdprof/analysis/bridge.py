"""From one mean step to another: where each nanosecond went, and whether a wait was removed or only moved."""

from dataclasses import replace
from fractions import Fraction
from math import floor

from fdprof.comparison import Bridge, Judgement, Moved, Side, Verdict, WaitChange

_WORTH = 0.01
"""The share of the baseline's step from which on a change of blocked time counts."""


def bridge_of(baseline: Side, candidate: Side) -> Bridge | None:
    """Return candidate - baseline by part, the largest first.  None where a side has no device rows.

    Each side's sums are integers, so their means are fractions and the residual is exact.  Whole ns are then given by
    largest remainder: what is shown adds up too.
    """
    if baseline.parts_ns is None or candidate.parts_ns is None:
        return None
    ours, theirs = len(baseline.steps_ns), len(candidate.steps_ns)
    parts = {
        name: Fraction(candidate.parts_ns.get(name, 0), theirs) - Fraction(baseline.parts_ns.get(name, 0), ours)
        for name in dict.fromkeys((*baseline.parts_ns, *candidate.parts_ns))
    }
    step = Fraction(int(candidate.steps_ns.sum()), theirs) - Fraction(int(baseline.steps_ns.sum()), ours)
    whole = {name: floor(ns) for name, ns in parts.items()}
    left_ns = round(step) - sum(whole.values())
    for name in sorted(parts, key=lambda name: whole[name] - parts[name])[:left_ns]:
        whole[name] += 1
    largest = sorted(whole.items(), key=lambda entry: -abs(entry[1]))
    return Bridge(dict(largest), round(step), float(step - sum(parts.values())))


def moved_of(baseline: Side, candidate: Side, judgement: Judgement) -> Moved:
    """Return what became of the time that the host was blocked.

    `removed`: the step is shorter, and the host is blocked less in all; a part may have moved, where it does no harm.
    `moved`: blocked time left the copies, at least half of it is found in the fences again, and nothing was removed.
    """
    ours, theirs = len(baseline.steps_ns), len(candidate.steps_ns)
    moved = Moved(
        None,
        copy_ns=(baseline.blocked.copy_ns / ours, candidate.blocked.copy_ns / theirs),
        fence_ns=(baseline.blocked.fence_ns / ours, candidate.blocked.fence_ns / theirs),
    )
    return replace(moved, change=_change(moved, judgement.verdict, _WORTH * float(baseline.steps_ns.mean())))


def _change(moved: Moved, verdict: Verdict, worth_ns: float) -> WaitChange | None:
    left_copies = moved.left_copies_ns >= worth_ns
    if not left_copies and abs(moved.removed_ns) < worth_ns:
        return WaitChange.NEITHER
    if verdict is Verdict.INCONCLUSIVE:
        return None
    if verdict is Verdict.FASTER and moved.removed_ns >= worth_ns:
        return WaitChange.REMOVED
    return WaitChange.MOVED if left_copies and moved.moved_ns >= moved.left_copies_ns / 2 else WaitChange.NEITHER
