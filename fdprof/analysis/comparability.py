"""Holds environment and parameters of two sides against each other, field by field."""

import numpy as np

from fdprof.comparison import Field, Mismatch, Side

_TOLERANCES = {"device_work_ns": 0.02}
"""Fields of which so much may differ: two captures of one loop on one H200 differ by up to 1 % in kernel time."""

QUALITY = "quality"
"""Not a field of a side: what a capture says of itself.  It counts even where both sides have the same doubt."""


def mismatches_of(baseline: Side, candidate: Side, allowed: frozenset[str]) -> tuple[Mismatch, ...]:
    """Return the fields that both sides know and in which they differ, in the order of the baseline's."""
    ours, theirs = baseline.fields, candidate.fields
    found = [
        Mismatch(name, ours[name], theirs[name], name in allowed)
        for name in ours
        if name in theirs and _is_known(name, ours[name], theirs[name]) and _differs(name, baseline, candidate)
    ]
    if baseline.doubts or candidate.doubts:
        doubts = [", ".join(side.doubts) or "no doubt" for side in (baseline, candidate)]
        found.append(Mismatch(QUALITY, doubts[0], doubts[1], QUALITY in allowed))
    return tuple(found)


def unknown_of(baseline: Side, candidate: Side) -> tuple[str, ...]:
    """Return the fields that only one side knows, so that nobody can say whether they are equal."""
    ours, theirs = baseline.fields, candidate.fields
    return tuple(
        name
        for name in dict.fromkeys((*ours, *theirs))
        if name not in _MAY_BE_NONE and (ours.get(name) is None) != (theirs.get(name) is None)
    )


_MAY_BE_NONE = frozenset({"fault", "profile", "paddle"})
"""Fields whose None says that there is none, which the other side's text differs from."""


def _is_known(name: str, ours: Field, theirs: Field) -> bool:
    return name in _MAY_BE_NONE or (ours is not None and theirs is not None)


def _differs(name: str, baseline: Side, candidate: Side) -> bool:
    ours, theirs = baseline.fields[name], candidate.fields[name]
    if name not in _TOLERANCES or not isinstance(ours, int) or not isinstance(theirs, int):
        return ours != theirs
    # Modes of one call were asked for the same work; what they make of it is what is compared.
    if baseline.is_of_the_call_of(candidate):
        return False
    return abs(ours - theirs) > _TOLERANCES[name] * max(ours, theirs)


def is_same_recording(baseline: Side, candidate: Side) -> bool:
    """Return whether both sides are one recording, or copies of it.

    Runs by the call and their places in it; captures, which have neither, by step times that are equal to the ns.
    """
    if baseline.is_capture and candidate.is_capture:
        return np.array_equal(baseline.steps_ns, candidate.steps_ns)
    return baseline.shares_blocks_with(candidate)


def known_fields(*sides: Side) -> set[str]:
    """Return the names that may be allowed to differ."""
    return {QUALITY, *(name for side in sides for name in side.fields)}
