"""What is known of a capture's steps before anything is concluded: the ledger, the stalls, the transfers, the bound."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fdprof.analysis.calls import Calls, Flags, calls_of
from fdprof.analysis.idle import NOT_CAPTURED, QUEUED
from fdprof.analysis.intervals import Ns, covered, inside
from fdprof.analysis.ledger import Ledger, ledger_of
from fdprof.analysis.sites import site_of_calls
from fdprof.analysis.stalls import Stalls, stalls_of
from fdprof.analysis.steps import Steps
from fdprof.analysis.transfers import CaptureTransfer, transfers_of
from fdprof.capture import NONE, ApiKind, Capture, Evidence, RangeKind
from fdprof.finding import MOST_STEPS
from fdprof.model import IntColumn

WORTH_WHILE = 0.05
"""The share of a step below which fdprof does not call transfers a loop's problem.

Runs of one loop on the H200 differ by a few per cent from table to table (docs/measurements.md), so less could not be
confirmed afterwards.
"""

NOISE = 0.01
"""The share of a step below which a cost is not reported at all."""


# A person's name for a range in which the host waits.
_WAITING = re.compile(r"fence|wait|poll", re.IGNORECASE)

MOSTLY_OUTSIDE = 0.25
"""The share of the steps' device work outside their windows from which on the windows say nothing of the device."""


class Bound(Enum):
    """What a step's length is made of."""

    DEVICE = "device"  # the device is busy nearly all of it
    HOST = "host"  # the host works nearly all of it, outside waits
    WAITS = "waits"  # the step could be shorter if the host waited less
    UNKNOWN = "unknown"  # the capture lacks what is needed to say


@dataclass(frozen=True)  # without slots, which cached properties need
class Facts:
    """A capture's steps with all that was computed of them; `device` indexes Capture.devices."""

    capture: Capture
    steps: Steps
    device: int | None
    calls: Calls
    ledger: Ledger
    stalls: Stalls
    transfers: tuple[CaptureTransfer, ...]

    @cached_property
    def window_ns(self) -> float:
        return float(self.ledger.window_ns.mean())

    @cached_property
    def host_work_ns(self) -> float:
        """The host's time a step outside blocking calls."""
        return float((self.ledger.window_ns - self.ledger.blocked_ns).mean())

    @cached_property
    def unseen_wait_ns(self) -> float:
        """The host's time a step in ranges named for waiting that hold no wait: a poll of memory leaves no call."""
        ranges = self.capture.ranges
        mine = np.flatnonzero((ranges["thread"] == self.steps.thread) & (ranges["kind"] == RangeKind.MARKER))
        names, number = np.unique(ranges["name"][mine], return_inverse=True)
        waiting = np.array([bool(_WAITING.search(self.capture.names[name])) for name in names.tolist()], dtype=bool)
        mine = mine[waiting[number]]
        start, end = ranges["start_ns"][mine], ranges["end_ns"][mine]
        calls = np.flatnonzero(
            (self.calls.blocks | self.capture.kinds(ApiKind.EVENT_QUERY)) & (self.calls.thread == self.steps.thread)
        )
        at = np.sort(self.calls.start_ns[calls])
        holds_none = np.searchsorted(at, start, side="left") == np.searchsorted(at, end, side="left")
        inside_ns = covered(start[holds_none], end[holds_none], self.steps.starts_ns, self.steps.ends_ns)
        return float(inside_ns.mean()) if len(inside_ns) else 0.0

    @cached_property
    def efficiency(self) -> float | None:
        """Limit / mean step."""
        return None if self.limit_ns is None or not self.window_ns else self.limit_ns / self.window_ns

    @cached_property
    def run_ahead_share(self) -> float | None:
        """The share of steps in which the next step's first launch was issued before this one's work had ended."""
        ahead = self.ledger.run_ahead
        return None if ahead is None else float(ahead.mean())

    @cached_property
    def launch_lead_ns(self) -> float | None:
        """The mean time from the return of a call to the start of its work, over the steps that issued some."""
        lead = self.ledger.launch_lead_ns
        known = None if lead is None else lead[~np.isnan(lead)]
        return None if known is None or not len(known) else float(known.mean())

    @cached_property
    def calls_per_step(self) -> dict[str, float]:
        """How many calls of each kind the step's thread makes a step: what the tracer saw of them."""
        kinds = self.capture.api["kind"][np.flatnonzero(self._in_steps)]
        counts = np.bincount(kinds, minlength=len(ApiKind)) / max(len(self.steps), 1)
        return {kind.name.lower(): float(counts[kind]) for kind in ApiKind if counts[kind]}

    @cached_property
    def copy_alone_ns(self) -> float | None:
        """The device's time a step in which nothing but copies runs."""
        alone = self.ledger.copy_alone_ns
        return None if alone is None else float(alone.mean())

    @cached_property
    def not_captured_share(self) -> float:
        """The share of the steps in which the device must have worked and has no rows."""
        missing = self.ledger.causes.get(NOT_CAPTURED)
        return 0.0 if missing is None else float(missing.sum()) / max(float(self.ledger.window_ns.sum()), 1.0)

    @cached_property
    def outside_share(self) -> float:
        """The share of the device time issued in the steps that runs before or after them all.

        A loop that runs ahead has its last step's there; a capture of one such step has nearly all of it.
        """
        if self.device is None:
            return 0.0
        work, steps = self.capture.device, self.steps
        issued = np.zeros(len(self.capture.api) + 1, dtype=bool)
        issued[self.calls_in_steps(self.calls.gives_work)] = True
        rows = issued[work["api"]] & (work["device"] == self.device)
        start, end = work["start_ns"][rows], work["end_ns"][rows]
        inside_ns = np.minimum(end, steps.ends_ns.max()) - np.maximum(start, steps.starts_ns.min())
        total = int((end - start).sum())
        return 1.0 - float(np.maximum(inside_ns, 0).sum()) / total if total else 0.0

    @cached_property
    def limit_ns(self) -> float | None:
        """The shortest possible mean step: that of the work a run was asked for, else what the steps show."""
        asked = self.capture.asked_limit_ns
        return self._shown_limit_ns if asked is None else float(asked)

    @cached_property
    def _shown_limit_ns(self) -> float | None:
        """The longer of the mean device work and the mean host work.

        Not the mean of each step's longer one: a host that runs ahead makes up in one step what it lost in another.
        Time in ranges that polls may fill is not counted as work.  None where device work is missing.
        """
        busy = self.ledger.device_busy_ns
        if busy is None or self.not_captured_share > NOISE or self.outside_share > MOSTLY_OUTSIDE:
            return None
        return max(float(busy.mean()), self.host_work_ns - self.unseen_wait_ns)

    @cached_property
    def gain_ns(self) -> float | None:
        """What a step could be shorter by at most if no wait held the host up.

        The step less its limit, and no more than the idle time that the host has a part in.  Of a run less the longer
        of two: the work that was asked for, and what the counted steps show of it.
        """
        idle, shown, limit = self.ledger.device_idle_ns, self._shown_limit_ns, self.limit_ns
        if limit is None or shown is None or idle is None:
            return None
        return max(min(self.window_ns - max(limit, shown), float(idle.mean()) - self.between_queued_ns), 0.0)

    @cached_property
    def between_queued_ns(self) -> float:
        """The device's idle time a step in gaps that end with work queued before they began: the device's own."""
        idle = self.ledger.idle
        if idle is None or not len(idle.cause):
            return 0.0
        # A gap that crosses a step's start is in pieces that touch.
        gap = np.cumsum(np.append(True, idle.start_ns[1:] != idle.end_ns[:-1])) - 1
        has_other = np.bincount(gap, weights=idle.cause != QUEUED) > 0
        return float((idle.end_ns - idle.start_ns)[~has_other[gap]].sum()) / max(len(self.steps), 1)

    @cached_property
    def bound(self) -> Bound:
        """What the step is bound by: by waits where at least WORTH_WHILE of it is to be gained."""
        busy, gain = self.ledger.device_busy_ns, self.gain_ns
        if busy is None or gain is None or not self.window_ns or self.steps.evidence is Evidence.UNKNOWN:
            return Bound.UNKNOWN
        if gain >= WORTH_WHILE * self.window_ns:
            return Bound.WAITS
        # A host that fills CUDA's launch queue waits inside its launches: both are near the whole; it is the device.
        device_ns = float(busy.mean()) + self.between_queued_ns
        return Bound.DEVICE if device_ns >= (1 - WORTH_WHILE) * self.window_ns else Bound.HOST

    @cached_property
    def is_worth_saying(self) -> float:
        """The cost in ns a step below which a finding is not reported."""
        return NOISE * self.window_ns

    def at_most(self, blocked_ns: float) -> float | None:
        """Return what removing this blocking could gain: the host gets no more back, and the step has a limit."""
        return None if self.gain_ns is None else min(blocked_ns, self.gain_ns)

    def at_most_idle(self, worked_ns: float) -> float:
        """Return what removing this host work could gain: the device's work and its own gaps stay."""
        idle = self.ledger.device_idle_ns
        return worked_ns if idle is None else min(worked_ns, max(float(idle.mean()) - self.between_queued_ns, 0.0))

    def is_worth(self, cost_ns: float | None, blocked_ns: float) -> bool:
        """Return whether a finding about this blocking is reported; where its cost is unknown, by its length."""
        return (blocked_ns if cost_ns is None else cost_ns) >= self.is_worth_saying and blocked_ns > 0

    @cached_property
    def _in_steps(self) -> Flags:
        """Which calls the step's thread makes in the steps."""
        window = inside(self.steps.starts_ns, self.steps.ends_ns, self.calls.start_ns)
        return np.asarray((window != NONE) & (self.calls.thread == self.steps.thread))

    def calls_in_steps(self, chosen: Flags) -> IntColumn:
        """Return which of the chosen calls the step's thread makes in the steps, as row numbers."""
        return np.flatnonzero(chosen & self._in_steps)

    def time_in(self, rows: IntColumn) -> float:
        """Return the mean ns a step inside these calls, overlapping ones once."""
        inside_ns = self._inside_calls(rows)
        return float(inside_ns.mean()) if len(inside_ns) else 0.0

    def _inside_calls(self, rows: IntColumn) -> Ns:
        return covered(self.calls.start_ns[rows], self.calls.end_ns[rows], self.steps.starts_ns, self.steps.ends_ns)

    def steps_of_calls(self, rows: IntColumn) -> tuple[int, ...]:
        """Return the positions of the steps with most time inside these calls, as a finding names them."""
        return self.steps_with_most(self._inside_calls(rows))

    @cached_property
    def _sites(self) -> tuple[IntColumn, IntColumn, list[str]]:
        """The calls in the steps that block or copy, the number of each one's site, and the sites."""
        rows = self.calls_in_steps(self.calls.blocks | self.capture.kinds(ApiKind.COPY, ApiKind.BLOCKING_COPY))
        return (rows, *site_of_calls(self.capture, rows, self.steps))

    def calls_at(self, sites: Collection[str], chosen: Flags) -> IntColumn:
        """Return which of the chosen calls, of those in the steps that block or copy, are made at these sites."""
        rows, site, names = self._sites
        here = np.array([name in sites for name in names], dtype=bool)
        return rows[here[site] & chosen[rows]]

    def steps_of_gaps(self, chosen: Flags) -> tuple[int, ...]:
        """Return the positions of the steps with most idle time of these stretches of the ledger's `idle`."""
        idle = self.ledger.idle
        if idle is None:
            return ()
        length = (idle.end_ns - idle.start_ns)[chosen]
        return self.steps_with_most(np.bincount(idle.window[chosen], weights=length, minlength=len(self.steps)))

    def steps_with_most(self, amount: npt.NDArray[np.int64] | npt.NDArray[np.float64] | None) -> tuple[int, ...]:
        """Return the positions of the steps with the largest amounts, the largest first; those with none are left out.

        Amounts 0, 5, 9, 5 give 2, 1, 3: of equal ones the earlier step comes first.
        """
        if amount is None:
            return ()
        first = np.argsort(-amount, kind="stable")[:MOST_STEPS]
        return tuple(first[amount[first] > 0].tolist())

    def first_steps_of(self, rows: IntColumn) -> tuple[int, ...]:
        """Return the positions of the first steps in which one of these calls begins."""
        window = inside(self.steps.starts_ns, self.steps.ends_ns, self.calls.start_ns[rows])
        return tuple(np.unique(window[window != NONE])[:MOST_STEPS].tolist())

    def step_of(self, time_ns: int) -> int:
        """Return the position of the step in whose window a time lies."""
        return int(inside(self.steps.starts_ns, self.steps.ends_ns, np.array([time_ns], dtype=np.int64))[0])


def facts_of(capture: Capture, steps: Steps, device: int | None) -> Facts:
    """Return the facts of these steps; `device` indexes Capture.devices, None: no device work is known."""
    calls = calls_of(capture)
    ledger = ledger_of(capture, steps, device, calls)
    return Facts(
        capture=capture,
        steps=steps,
        device=device,
        calls=calls,
        ledger=ledger,
        stalls=stalls_of(capture, calls, steps, ledger, device),
        transfers=transfers_of(capture, calls, steps, device),
    )
