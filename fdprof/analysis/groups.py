"""Rows put together by equal keys, in one sort: a mask for each key would take keys times rows."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.model import IntColumn


def rows_by(*keys: npt.NDArray[Any]) -> dict[tuple[int, ...], IntColumn]:
    """Return the row numbers of each distinct key, ascending, by the key's values.

    Keys 7, 5, 7 give {(5,): [1], (7,): [0, 2]}.
    """
    if not len(keys[0]):
        return {}
    if all(key.min() == key.max() for key in keys):  # one process, one thread: most captures, and no sort
        return {tuple(int(key[0]) for key in keys): np.arange(len(keys[0]))}
    order = np.lexsort(keys[::-1])  # stable: rows of one key stay in order
    in_order = [key[order] for key in keys]
    changes = np.flatnonzero(np.any([column[1:] != column[:-1] for column in in_order], axis=0)) + 1
    first = np.concatenate(([0], changes))
    distinct = zip(*(column[first].tolist() for column in in_order), strict=True)
    return dict(zip(distinct, np.split(order, changes), strict=True))


NOBODY: IntColumn = np.zeros(0, dtype=np.int64)
"""The rows of a key that does not occur."""
