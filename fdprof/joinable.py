"""Up to where the calls of a capture can be told apart by their correlation ids.

A call has one of its own, which joins it to what it issued (CUPTI, CUpti_ActivityAPI).  libcupti 13.0 does not keep to
that: once a thread has called cudaEventSynchronize(NULL), all its later calls have the id of that one (measured on an
H200: docs/measurements.md, "Captures by nsys and by our collector").
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from fdprof.capture import NONE, Capture
from fdprof.model import IntColumn, Table
from fdprof.units import shown, us

Flags = npt.NDArray[np.bool_]


def shared_ids(process: IntColumn, calls: Mapping[str, npt.NDArray[Any]]) -> Flags:
    """Return which calls have the correlation id of another call of their process; `calls` are columns of API.

    A call within another of its thread may have the other's id, as the driver's within the runtime's: they are one.
    """
    thread, start, end = calls["thread"], calls["start_ns"].astype(np.int64), calls["end_ns"].astype(np.int64)
    correlation = calls["correlation"].astype(np.int64)
    result = np.zeros(len(correlation), dtype=np.bool_)
    # Calls come by start, so their ids nearly do too, and a stable sort of nearly sorted numbers is fast.
    rows = np.flatnonzero(correlation >= 0)
    rows = rows[np.argsort(correlation[rows], kind="stable")]
    is_again = correlation[rows][1:] == correlation[rows][:-1]
    if not is_again.any():
        return result
    rows = rows[np.append(is_again, False) | np.append(False, is_again)]
    rows = rows[np.lexsort((-end[rows], start[rows], correlation[rows], process[rows]))]
    ids = np.stack((correlation[rows], process[rows]))
    is_first = np.append(True, (ids[:, 1:] != ids[:, :-1]).any(axis=0))
    group = np.cumsum(is_first) - 1
    outer = rows[is_first][group]
    # One without a length may lie at the very end of the other.
    is_after = (start[rows] > end[outer]) | ((start[rows] == end[outer]) & (end[rows] > start[rows]))
    is_apart = ~is_first & ((thread[rows] != thread[outer]) | is_after)
    result[rows] = np.bincount(group, weights=is_apart)[group] > 0
    return result


def joinable(capture: Capture, shared: Flags | None = None) -> Capture:
    """Return the capture up to the first call that shares its id, and say so; the whole capture where none does.

    `shared` says which calls do, where the reader knows more of them than the capture holds.  What later calls issued
    or waited for would be taken for other calls' work, and what is known of some of it makes the rest look missing.
    """
    api = capture.api
    if shared is None:
        shared = shared_ids(_process_of(capture), api.columns)
    if not shared.any():
        return capture
    first = int(np.argmax(shared))  # calls come by start
    at = int(api["start_ns"][first])
    device = capture.device
    issued = (device["api"] < first) & ((device["api"] != NONE) | (device["start_ns"] < at))
    name, since = shown(capture.names[int(api["name"][first])]), us(at - int(api["start_ns"][0]))
    limit = (
        f"calls share their correlation ids from {name} on, {since} µs after the first call: nothing tells what they "
        "issued, so that all from there on is left out"
    )
    copies = capture.untimed_copies
    return replace(
        capture,
        api=_chosen(api, np.arange(len(api)) < first),
        device=_chosen(device, issued),
        ranges=_chosen(capture.ranges, capture.ranges["end_ns"] <= at),
        links=_chosen(capture.links, (capture.links["wait"] < first) & (capture.links["record"] < first)),
        event_records=_chosen(capture.event_records, capture.event_records["api"] < first),
        overhead=_chosen(capture.overhead, capture.overhead["start_ns"] < at),
        untimed_copies=None if copies is None else _chosen(copies, copies["api"] < first),
        limits=(*capture.limits, limit),
    )


def _chosen(table: Table, rows: Flags) -> Table:
    return Table({name: column[rows] for name, column in table.columns.items()})


def _process_of(capture: Capture) -> IntColumn:
    """Return the process of each call."""
    return np.asarray(np.append(capture.process_of_threads(), NONE)[capture.api["thread"]], dtype=np.int64)
