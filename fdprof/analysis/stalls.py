"""The blocking calls of the steps, by call and site: how often, how long, what they waited for, what it cost."""

from dataclasses import dataclass

import numpy as np

from fdprof.analysis.calls import Calls
from fdprof.analysis.groups import NOBODY, rows_by
from fdprof.analysis.intervals import covered, inside
from fdprof.analysis.ledger import Ledger, blocked_by_call
from fdprof.analysis.sites import site_of_calls
from fdprof.analysis.steps import Steps
from fdprof.api_calls import plain_name
from fdprof.capture import NONE, ApiKind, Capture, CopyDirection, Evidence
from fdprof.model import IntColumn

# How many records before a wait are looked at: more than a loop has steps in flight.
_RECORDS_TRIED = 64

_BEFORE_ALL = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class SyncSite:
    """Blocking calls of one name at one site; ns are means per step.

    `blocked_ns` = `own_copy_ns` (the device moved this call's bytes) + `other_work_ns` (it did something else) +
    `idle_ns` (it did nothing); the last three are None without device work.  Where copies have no times `own_copy_ns`
    is None, and idle time holds it.  Of idle, `harmful_ns` had the cause `blocked`.  `waited_for` names the work that
    the waits ended on most often, with its evidence.
    """

    call: str
    site: str
    count: int
    per_step: float
    blocked_ns: float
    own_copy_ns: float | None
    other_work_ns: float | None
    idle_ns: float | None
    harmful_ns: float | None
    max_ns: int
    max_step: int
    is_copy: bool
    to_device: bool  # most of the calls end on a copy to the device
    waited_for: str | None
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Stalls:
    """All blocking of the steps.  Waits of the process's other threads are counted and charged to nobody."""

    sites: tuple[SyncSite, ...]  # those that block longest first
    calls_per_step: float
    stalls_per_step: float  # a copy and the synchronisation right behind it are one
    other_threads_ns: float  # a step
    other_threads_per_step: float


def stalls_of(capture: Capture, calls: Calls, steps: Steps, ledger: Ledger, device: int | None) -> Stalls:
    """Return the blocking calls that begin in the steps' windows."""
    window = inside(steps.starts_ns, steps.ends_ns, calls.start_ns)
    chosen = calls.blocks & (window != NONE)
    rows = np.flatnonzero(chosen & (calls.thread == steps.thread))
    process = capture.process_of_threads()
    in_process = process[calls.thread] == process[steps.thread]
    others = np.flatnonzero(chosen & in_process & (calls.thread != steps.thread))
    count = max(len(steps), 1)
    return Stalls(
        sites=tuple(_sites(capture, calls, steps, ledger, device, rows, window)),
        calls_per_step=len(rows) / count,
        stalls_per_step=len(np.unique(calls.stall[rows])) / count,
        other_threads_ns=float((calls.end_ns - calls.start_ns)[others].sum()) / count,
        other_threads_per_step=len(others) / count,
    )


def _sites(
    capture: Capture,
    calls: Calls,
    steps: Steps,
    ledger: Ledger,
    device: int | None,
    rows: IntColumn,
    window: IntColumn,
) -> list[SyncSite]:
    if not len(rows):
        return []
    count = max(len(steps), 1)
    site, sites = site_of_calls(capture, rows, steps)
    name = capture.api["name"][rows].astype(np.int64)
    duration = (calls.end_ns - calls.start_ns)[rows]
    harmful = blocked_by_call(calls, steps.thread, ledger.idle)[rows] if ledger.idle is not None else None
    own, busy = _device_during(capture, calls, device, rows)
    ended_on, evidence = awaited_work(capture, calls, rows)
    direction = np.where(
        ended_on != NONE,
        np.append(capture.device["direction"], int(CopyDirection.UNKNOWN))[ended_on],
        calls.own_direction(rows),
    )
    found = []
    for (its_name, its_site), mine in rows_by(name, site).items():
        its_rows = rows[mine]
        longest = int(np.argmax(duration[mine]))
        blocked_ns = float(duration[mine].sum()) / count
        own_ns = None if own is None else float(own[mine].sum()) / count
        busy_ns = None if busy is None else float(busy[mine].sum()) / count
        work = ended_on[mine]
        known = work != NONE
        awaited = None
        if known.any():
            ended, times = np.unique(capture.device["name"][work[known]], return_counts=True)
            awaited = capture.names[int(ended[np.argmax(times)])]
        found.append(
            SyncSite(
                call=plain_name(capture.names[its_name]),
                site=sites[its_site],
                count=len(mine),
                per_step=len(mine) / count,
                blocked_ns=blocked_ns,
                own_copy_ns=own_ns,
                other_work_ns=None if busy_ns is None else busy_ns - (own_ns or 0.0),
                idle_ns=None if busy_ns is None else blocked_ns - busy_ns,
                harmful_ns=None if harmful is None else float(harmful[mine].sum()) / count,
                max_ns=int(duration[mine][longest]),
                max_step=int(steps.numbers[window[its_rows[longest]]]),
                is_copy=bool((~calls.only_waits[its_rows]).any()),
                to_device=2 * int(np.count_nonzero(direction[mine] == CopyDirection.TO_DEVICE)) > len(mine),
                waited_for=awaited,
                evidence=Evidence(int(evidence[mine].min())) if known.all() else Evidence.UNKNOWN,
            )
        )
    return sorted(found, key=lambda entry: -entry.blocked_ns)


def _device_during(
    capture: Capture, calls: Calls, device: int | None, rows: IntColumn
) -> tuple[IntColumn | None, IntColumn | None]:
    """Return how long during each call the device moved its own copy, and how long it did anything."""
    if device is None:
        return None, None
    start, end = calls.start_ns[rows], calls.end_ns[rows]
    mine = capture.device["device"] == device
    busy = covered(capture.device["start_ns"][mine], capture.device["end_ns"][mine], start, end)
    if not capture.times_copies:
        return None, busy
    copy = calls.own_copy(rows)
    copy_start = np.append(capture.device["start_ns"], 0)[copy]
    copy_end = np.append(capture.device["end_ns"], 0)[copy]
    own = np.where(copy != NONE, np.maximum(np.minimum(end, copy_end) - np.maximum(start, copy_start), 0), 0)
    return np.minimum(own, busy), busy


def awaited_work(capture: Capture, calls: Calls, rows: IntColumn) -> tuple[IntColumn, IntColumn]:
    """Return for each blocking call the device row it ended on (-1: unknown), and the Evidence of that.

    A copy ends on itself (proved).  An event wait ends on the last work of the record's stream before the record, a
    stream or device synchronisation on the last work issued to it before the call: proved where the file links the
    record or names the stream, else inferred from the order alone.
    """
    device, api = capture.device, capture.api
    result = calls.copy_row[rows].copy()
    result[calls.only_waits[rows]] = NONE
    evidence = np.where(result != NONE, int(Evidence.PROVED), int(Evidence.UNKNOWN))
    waits = np.flatnonzero(calls.only_waits[rows])
    if not len(waits) or not len(device):
        return result, evidence
    before, stream, known = fences(capture, rows[waits])
    process = capture.process_of_threads()
    of_wait = process[api["thread"][rows[waits]]]
    issued = device["api"] != NONE
    work = np.flatnonzero(issued)
    of_work = process[api["thread"][device["api"][work]]]
    of_process, of_stream = rows_by(of_work), rows_by(of_work, device["stream"][work])
    for (one, number), its in rows_by(of_wait, stream).items():
        mine = work[of_process.get((one,), NOBODY) if number == NONE else of_stream.get((one, number), NOBODY)]
        if not len(mine):
            continue
        mine = mine[np.argsort(api["start_ns"][device["api"][mine]], kind="stable")]
        start = api["start_ns"][device["api"][mine]]
        at = np.searchsorted(start, before[its], side="left") - 1
        # Within a stream the last issued ends last; over all streams the latest end so far is what counts.
        latest = _running_latest(device["end_ns"][mine])
        result[waits[its]] = np.where(at >= 0, mine[latest[np.maximum(at, 0)]], NONE)
    found = result[waits] != NONE
    evidence[waits] = np.where(found, known, int(Evidence.UNKNOWN))
    return result, evidence


def _running_latest(ends: IntColumn) -> IntColumn:
    """Return for each position that of the largest value so far."""
    largest = np.maximum.accumulate(ends)
    return np.maximum.accumulate(np.where(ends == largest, np.arange(len(ends)), 0))


def fences(capture: Capture, rows: IntColumn) -> tuple[IntColumn, IntColumn, IntColumn]:
    """Return of each wait: the time before which awaited work was issued, its stream (-1: all), and the Evidence."""
    api, links = capture.api, capture.links
    before = api["start_ns"][rows].copy()
    kind = api["kind"][rows]
    link = np.full(len(api) + 1, NONE, dtype=np.int64)
    link[links["wait"]] = np.arange(len(links))
    its = link[rows]
    record = np.append(links["record"], NONE)[its]
    stream = np.append(links["stream"], NONE)[its]
    sure = np.append(links["evidence"], int(Evidence.UNKNOWN))[its].astype(np.int64)
    before = np.where(record != NONE, np.append(api["start_ns"], 0)[record], before)
    stream_of = np.full(len(api) + 1, NONE, dtype=np.int64)
    stream_of[capture.event_records["api"]] = capture.event_records["stream"]
    stream = np.where((stream == NONE) & (record != NONE), stream_of[record], stream)
    is_event = kind == ApiKind.EVENT_WAIT
    evidence = np.where(
        is_event,
        np.where(record != NONE, sure, int(Evidence.UNKNOWN)),
        np.where((stream != NONE) | (kind == ApiKind.DEVICE_SYNC), int(Evidence.PROVED), int(Evidence.INFERRED)),
    )
    unlinked = np.flatnonzero(is_event & (record == NONE))
    if len(unlinked):
        # A tool that links other waits would have linked these, if their records were in the capture.
        links_none = not (links["record"] != NONE).any()
        guess = _likeliest_records(capture, rows[unlinked]) if links_none else np.full(len(unlinked), NONE)
        known = guess != NONE
        # An event that was recorded before the capture began, say, guards nothing in it.
        before[unlinked] = np.where(known, np.append(api["start_ns"], 0)[guess], _BEFORE_ALL)
        evidence[unlinked[known]] = int(Evidence.INFERRED)
    return before, stream, evidence


def _likeliest_records(capture: Capture, waits: IntColumn) -> IntColumn:
    """Return for event waits without a link the record that each most likely waited for, -1 for none.

    It is the latest record of the process before the wait whose preceding work had ended when the wait returned: a wait
    cannot have been for work that still ran.  The latest record alone would make a wait that is one step late look like
    one in the same step.  A wait that began when that work had ended already tells nothing, and one may end on it by
    chance: a loop waits equally late in every step, so each is taken to be as many records late as half of those that
    tell are at least.
    """
    api = capture.api
    result = np.full(len(waits), NONE, dtype=np.int64)
    process = capture.process_of_threads()[api["thread"]]
    records = np.flatnonzero(capture.kinds(ApiKind.EVENT_RECORD))
    of_process = rows_by(process[records])
    for key, its in rows_by(process[waits]).items():
        mine = records[of_process.get(key, NOBODY)]
        if not len(mine):
            continue
        done = _preceding_work_end(capture, mine)
        returned = api["end_ns"][waits[its]] + capture.time_error_ns
        latest = np.searchsorted(api["start_ns"][mine], api["start_ns"][waits[its]], side="left") - 1
        at = latest
        for _ in range(_RECORDS_TRIED):
            at = at - ((at >= 0) & (done[at] > returned))
        found = (at >= 0) & (done[at] <= returned)
        tells = found & (done[at] > api["start_ns"][waits[its]])
        late = int(np.median((latest - at)[tells])) if tells.any() else 0
        at = np.minimum(at, latest - late)
        result[its] = np.where((at >= 0) & found, mine[at], NONE)
    return result


def _preceding_work_end(capture: Capture, records: IntColumn) -> IntColumn:
    """Return when the device row that each record's thread issued last before it ended; 0 without one."""
    api, device = capture.api, capture.device
    result = np.zeros(len(records), dtype=np.int64)
    issued = np.flatnonzero(device["api"] != NONE)
    of_thread = rows_by(api["thread"][device["api"][issued]])
    for key, its in rows_by(api["thread"][records]).items():
        mine = issued[of_thread.get(key, NOBODY)]
        mine = mine[np.argsort(device["api"][mine], kind="stable")]  # rows of API are in order of start
        at = np.searchsorted(device["api"][mine], records[its], side="left") - 1
        result[its] = np.where(at >= 0, np.append(device["end_ns"][mine], 0)[at], 0)
    return result
