"""Compares the token streams of two sides, before any talk of speed."""

import numpy as np

from fdprof.comparison import Side, TokenStream
from fdprof.model import IntColumn
from fdprof.units import counted


def tokens_equal(baseline: Side, candidate: Side) -> tuple[bool | None, str]:
    """Return whether what the host read is the same on both sides, and that in words.

    False also where a side's values are not those of the reference.  None where not both sides have tokens, or they
    were asked for different ones.
    """
    for side in (baseline, candidate):
        if side.is_right is False:
            return False, f"the values of {side.label} are not those of the reference"
    ours, theirs = baseline.tokens, candidate.tokens
    if ours is None or theirs is None:
        return None, "tokens not compared: not both sides have them"
    asked = [
        name
        for name in dict.fromkeys((*ours.decided_by, *theirs.decided_by))
        if ours.decided_by.get(name) != theirs.decided_by.get(name)
    ]
    if asked:
        return None, f"tokens not compared: by {', '.join(asked)} they are different ones"
    if not len(ours.digest) or not len(theirs.digest):
        if baseline.is_right and candidate.is_right:
            return True, "tokens equal: both sides have those of the reference"
        return None, "tokens not compared: not both sides kept what they read"
    difference, reads = _first_difference(ours, theirs)
    if difference is not None:
        return False, f"the values of {difference[0]} differ at step {difference[1]}"
    if not reads:
        return None, "tokens not compared: the sides read nothing of the same group and step"
    return True, f"tokens equal ({counted(reads, 'read')}, alike in all blocks)"


def _first_difference(ours: TokenStream, theirs: TokenStream) -> tuple[tuple[str, int] | None, int]:
    """Return group and step of the first read that is not the same, and how many were held against each other."""
    # Steps up to a common last one; where the loops are not equally long, its flag is the end of one of them only.
    last = min(ours.last_step, theirs.last_step) - (ours.last_step != theirs.last_step)
    names = sorted({*ours.groups, *theirs.groups})
    parts = [_keyed(stream, names, last) for stream in (ours, theirs)]
    key, digest = (np.concatenate([part[at] for part in parts]) for at in (0, 1))
    is_common = np.isin(key, np.intersect1d(parts[0][0], parts[1][0]))
    key, digest = key[is_common], digest[is_common]
    order = np.lexsort((digest, key))
    key, digest = key[order], digest[order]
    differs = (key[1:] == key[:-1]) & (digest[1:] != digest[:-1])
    held = len(np.unique(key))
    if not differs.any():
        return None, held
    step, group = divmod(int(key[1:][differs].min()), len(names))
    return (names[group], step), held


def _keyed(stream: TokenStream, names: list[str], last: int) -> tuple[IntColumn, IntColumn]:
    """Return a key of step and group for each read up to `last`, and its digest."""
    place = {name: index for index, name in enumerate(names)}
    number = np.array([place[name] for name in stream.groups], dtype=np.int64)
    chosen = stream.value_step <= last
    key = stream.value_step[chosen] * len(names) + number[stream.group[chosen]]
    return key, stream.digest[chosen]
