"""Names of ranges as labels: those that differ by a number alone are one place in the code."""

import re

import numpy as np

from fdprof.capture import Capture
from fdprof.model import IntColumn

_NUMBER = re.compile(r"#\d+$")

OUTSIDE_ALL = 0
"""The label, '', of what lies outside all ranges."""


def labelled(capture: Capture, name: IntColumn) -> tuple[IntColumn, list[str]]:
    """Return the label's number of each range's name, and the labels.

    ProfilerStep#7 and ProfilerStep#8 share the label 'ProfilerStep#N': else each step would be a place of its own.
    """
    used = np.flatnonzero(np.bincount(name, minlength=len(capture.names)))
    numbers = {"": OUTSIDE_ALL}
    of_name = np.zeros(len(capture.names) + 1, dtype=np.int64)
    for index in used.tolist():
        of_name[index] = numbers.setdefault(_NUMBER.sub("#N", capture.names[index]), len(numbers))
    return of_name[name], list(numbers)
