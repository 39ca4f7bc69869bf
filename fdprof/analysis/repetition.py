"""Finds the period of a sequence, where a loop launches the same things again and again."""

import numpy as np

from fdprof.model import IntColumn

_MIN_REPEATS = 4
# How much of the sequence must be the same one period later.  Below it, prefills and warm-up pass for the loop.
_ALIKE = 0.9
# Longer patterns are found from what repeats in the part of the sequence that is looked at.
_LOOKED_AT = 1 << 20


def period_of(sequence: IntColumn) -> int | None:
    """Return the shortest distance at which nine tenths of the sequence repeat, at least four times; else None.

    The agreement at every distance comes from one FFT autocorrelation of random signs for the names; the candidates are
    then counted exactly.
    """
    sequence = sequence[:_LOOKED_AT]
    count = len(sequence)
    longest = count // _MIN_REPEATS
    if longest < 1:
        return None
    random = np.random.default_rng(0)  # any signs will do; a fixed seed gives the same answer each time
    signs = random.choice(np.array([-1.0, 1.0]), size=(4, int(sequence.max()) + 1))
    size = 1 << int(2 * count - 1).bit_length()
    agreement = np.zeros(longest + 1)
    for row in signs:
        spectrum = np.fft.rfft(row[sequence], size)
        agreement += np.fft.irfft(spectrum * spectrum.conj(), size)[: longest + 1]
    agreement /= len(signs) * (count - np.arange(longest + 1))
    # The estimate is off by a few standard errors of random signs; the exact count decides.
    for period in np.flatnonzero(agreement[1:] > _ALIKE - 0.2) + 1:
        if np.mean(sequence[period:] == sequence[:-period]) >= _ALIKE:
            return int(period)
    return None


def first_of_period(sequence: IntColumn, period: int, starts_ns: IntColumn, ends_ns: IntColumn) -> IntColumn:
    """Return the positions at which the repetitions begin: those of one name, after the longest pause of the pattern.

    A pattern has no beginning of its own.  The pause before a launch is longest where the host did something else: it
    read a result and scheduled the next step.  A name that occurs once in a repetition marks it even where another has
    slipped in; where every name occurs more often, the distance alone decides.
    """
    count = len(sequence)
    pause = np.concatenate(([0], np.maximum(starts_ns[1:] - ends_ns[:-1], 0)))
    phase = np.arange(count) % period
    mean_pause = np.bincount(phase[1:], weights=pause[1:], minlength=period) / np.bincount(phase[1:], minlength=period)
    # A repetition that is followed by another like it: what comes first may be a warm-up.
    same = np.cumsum(np.append(0, sequence[period:] == sequence[:-period]))
    at = int(np.argmax(same[period:] - same[:-period] == period))
    one = sequence[at : at + period]
    mean_pause = np.roll(mean_pause, -at)
    is_single = np.bincount(one, minlength=int(sequence.max()) + 1)[one] == 1
    if not is_single.any():
        return np.arange(int(np.argmax(mean_pause)), count, period, dtype=np.int64)
    begin = int(np.argmax(np.where(is_single, mean_pause, -1.0)))
    return np.flatnonzero(sequence == one[begin]).astype(np.int64)
