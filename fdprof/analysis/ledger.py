"""The step ledger: where the time of each step went, exact in ns; the same for runs and for captures.

Window = device busy + device idle, and device idle = the sum over its causes: the residual is computed, and is 0.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fdprof.analysis.calls import Calls, calls_of
from fdprof.analysis.idle import BLOCKED, Idle, idle_of
from fdprof.analysis.intervals import Nesting, Ns, covered, inside
from fdprof.analysis.steps import Steps, some
from fdprof.capture import NONE, Capture, WorkKind
from fdprof.errors import InputError
from fdprof.model import IntColumn


@dataclass(frozen=True, slots=True)
class Ledger:
    """One row a step, ns.  Device columns and causes are None where the capture holds no device work."""

    step: IntColumn
    start_ns: IntColumn
    window_ns: Ns
    device_busy_ns: Ns | None  # union of kernels, copies, memsets and graphs of one device
    compute_ns: Ns | None  # of it in which more than copies run
    copy_alone_ns: Ns | None  # the rest of device busy; None where copies have no device rows
    device_idle_ns: Ns | None
    blocked_ns: Ns  # union of the calls of the step's thread that are known to block
    knows_blocked: bool  # without a tracer and without such a call a launch may wait unseen
    harmful_wait_ns: Ns | None  # idle with the cause `blocked`
    harmless_wait_ns: Ns | None
    causes: dict[int, Ns]  # idle by cause, host code of all ranges together
    run_ahead: npt.NDArray[np.bool_] | None  # the next step's first launch was issued before this one's work had ended
    launch_lead_ns: npt.NDArray[np.float64] | None  # mean of device start - return of the issuing call; NaN: no call
    idle: Idle | None = field(repr=False)

    def __len__(self) -> int:
        return len(self.step)

    @property
    def host_blocked_ns(self) -> Ns | None:
        """How long the host was blocked; None where that is not known."""
        return self.blocked_ns if self.knows_blocked else None

    @property
    def residual_ns(self) -> Ns | None:
        """Idle less all causes, by step: zero, or a bug."""
        if self.device_idle_ns is None:
            return None
        return self.device_idle_ns - sum(self.causes.values(), np.zeros(len(self), dtype=np.int64))

    @property
    def largest_residual_ns(self) -> int | None:
        """The largest residual of any step, 0; None without device work."""
        residual = self.residual_ns
        return None if residual is None else int(np.abs(residual).max(initial=0))

    def mean_causes(self) -> dict[str, float]:
        """Return idle by cause, mean ns per step, the largest first; host code by its range: host:<range>."""
        if self.idle is None or not len(self):
            return {}
        means = {name: ns / len(self) for name, ns in self.idle.totals().items()}
        return dict(sorted(means.items(), key=lambda entry: -entry[1]))

    def causes_of(self, position: int) -> dict[str, int]:
        """Return idle by cause of one step, ns."""
        return {} if self.idle is None else self.idle.totals(self.idle.window == position)


COLUMNS = (
    "window_ns",
    "device_busy_ns",
    "device_idle_ns",
    "host_blocked_ns",
    "harmful_wait_ns",
    "harmless_wait_ns",
)


def device_of(capture: Capture, steps: Steps, wanted: int | None = None) -> int | None:
    """Return the device that the step's thread gives most work, or the one its process numbers `wanted`.

    None where the capture has no device work at all; InputError when the process has no device `wanted`.
    """
    device, api = capture.device, capture.api
    if not len(device):
        return None
    process = capture.threads[steps.thread].process
    if wanted is not None:
        for index, entry in enumerate(capture.devices):
            if (entry.process, entry.device) == (process, wanted):
                return index
        there = some([f"{entry.process}/{entry.device}" for entry in capture.devices])
        raise InputError(
            f"process {process} gives no work to --device {wanted}", f"process/device pairs there: {there}"
        )
    known = device["api"] != NONE
    issued_here = known & (np.append(api["thread"], NONE)[device["api"]] == steps.thread)
    rows = issued_here if issued_here.any() else np.ones(len(device), dtype=bool)
    in_process = np.array([entry.process == process for entry in capture.devices], dtype=bool)[device["device"]]
    if (rows & in_process).any():
        rows &= in_process
    return int(np.argmax(np.bincount(device["device"][rows], minlength=len(capture.devices))))


def ledger_of(capture: Capture, steps: Steps, device: int | None, calls: Calls | None = None) -> Ledger:
    """Return the ledger of these steps; `device` indexes Capture.devices, None: no device work is known."""
    calls = calls_of(capture) if calls is None else calls
    starts, ends = steps.starts_ns, steps.ends_ns
    waits = calls.waits_of_thread(steps.thread)
    blocked = covered(calls.start_ns[waits], calls.end_ns[waits], starts, ends)
    knows_blocked = capture.times_copies or len(waits) > 0
    window = ends - starts
    if device is None:
        known = (steps.numbers, starts, window, None, None, None, None, blocked, knows_blocked)
        return Ledger(*known, None, None, {}, None, None, None)
    rows = np.flatnonzero(capture.device["device"] == device)
    work = {name: capture.device[name][rows] for name in ("kind", "start_ns", "end_ns")}
    busy = covered(work["start_ns"], work["end_ns"], starts, ends)
    computes = work["kind"] != WorkKind.COPY
    compute = covered(work["start_ns"][computes], work["end_ns"][computes], starts, ends)
    idle = idle_of(capture, calls, rows, steps.thread, starts, ends)
    by_cause = idle.per_window(len(steps))
    harmful = by_cause.get(BLOCKED, np.zeros(len(steps), dtype=np.int64))
    run_ahead, lead = _launches(capture, calls, rows, steps)
    return Ledger(
        step=steps.numbers,
        start_ns=starts,
        window_ns=window,
        device_busy_ns=busy,
        compute_ns=compute,
        copy_alone_ns=busy - compute if capture.times_copies else None,
        device_idle_ns=window - busy,
        blocked_ns=blocked,
        knows_blocked=knows_blocked,
        harmful_wait_ns=harmful if knows_blocked else None,
        harmless_wait_ns=blocked - harmful if knows_blocked else None,
        causes=by_cause,
        run_ahead=run_ahead,
        launch_lead_ns=lead,
        idle=idle,
    )


def blocked_by_call(calls: Calls, thread: int, idle: Idle) -> IntColumn:
    """Return for each call the ns in which it starved the device: idle with the cause `blocked`, in the windows."""
    rows = calls.waits_of_thread(thread)
    harmful = np.zeros(len(calls.start_ns), dtype=np.int64)
    if len(rows):
        chosen = idle.cause == BLOCKED
        at = Nesting(calls.start_ns[rows], calls.end_ns[rows]).innermost(idle.start_ns[chosen])
        np.add.at(harmful, rows[at], (idle.end_ns - idle.start_ns)[chosen])
    return harmful


def _launches(
    capture: Capture, calls: Calls, rows: IntColumn, steps: Steps
) -> tuple[npt.NDArray[np.bool_] | None, npt.NDArray[np.float64]]:
    """Return whether the host ran ahead at each step's end, and the mean launch lead of each step's device work."""
    api, device = capture.api, capture.device
    issued = device["api"][rows]
    known = issued != NONE
    rows, issued = rows[known], issued[known]
    mine = calls.thread[issued] == steps.thread
    of_call = inside(steps.starts_ns, steps.ends_ns, api["start_ns"])
    window = np.where(mine, of_call[issued], NONE)
    count = len(steps)
    # A graph's nodes have one launch: its first row tells how far ahead it was.
    first = np.full(len(api), NONE, dtype=np.int64)
    first[issued[::-1]] = rows[::-1]
    its = np.flatnonzero((first != NONE) & (of_call != NONE) & (calls.thread == steps.thread))
    ahead = device["start_ns"][first[its]] - api["end_ns"][its]
    lead = np.bincount(of_call[its], weights=ahead, minlength=count)
    number = np.bincount(of_call[its], minlength=count)
    lead_ns = np.where(number > 0, lead / np.maximum(number, 1), np.nan)
    last_end = np.full(count, np.iinfo(np.int64).min)
    np.maximum.at(last_end, window[window != NONE], device["end_ns"][rows][window != NONE])
    first_launch = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(first_launch, window[window != NONE], api["start_ns"][issued][window != NONE])
    if count < 2:
        return None, lead_ns
    return first_launch[1:] < last_end[:-1], lead_ns
