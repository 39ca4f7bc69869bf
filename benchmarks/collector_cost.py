"""Measure what each kind of record costs a loop that fdprof's collector records, in blocks of one process.

usage: python benchmarks/collector_cost.py -o OUT.json [--kernels 100] [--rounds 40] [--limit-s 130]
       python benchmarks/collector_cost.py --again OUT.json        prints what such a file says, finished or not

A condition is what the collector is asked for: nothing (what that seems to cost is the benchmark's own error), CUPTI
attached and nothing enabled, launches alone, device rows alone, and so on up to everything.  Each of its blocks is a
recording of its own, started before and stopped behind it, which takes CUPTI out of the process, between two bare
blocks (turns.py says how these are compared).  Under "one kind more" stand differences of two conditions, round by
round: the us a step that one kind of record adds, and where it adds rows the ns of each: that of a traced call is
"launches - attached", that of a kernel's row "device - attached".

What is seen is CUPTI inside one process with fdprof's own sink of markers, which is a ctypes call a range, and short
recordings; the collector as an injected library, recording for the life of a process, is in collector_beside_nsys.py.
OUT.json is written after each round: a session that is cut short leaves what it had.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from fdprof.ops.collector.native import Kinds, Library
from result_file import write
from turns import Timed, Turn, cost_of, difference, in_words, order_of, print_costs, timed_block, timed_of

from fdprof import markers
from fdprof.collector import _MarkerSink
from fdprof.documents import write_text
from fdprof.errors import EnvironmentMissing, FdprofError
from fdprof.model import Block
from fdprof.params import Extent, LoopParams
from fdprof.recordings import read_process
from fdprof.session import Session, open_backend
from fdprof.traced_loop import real_backend

MODE = "overlap"
SETTLING = 3
TOP = 10

DEVICE = Kinds.KERNELS | Kinds.COPIES | Kinds.GRAPHS | Kinds.PLACES
CALLS = Kinds.LAUNCHES | Kinds.OTHER_CALLS
WAITS = Kinds.WAITS | Kinds.EVENTS


@dataclass(frozen=True, slots=True)
class Condition:
    """What is recorded. `kinds` is None where CUDA is not: CUPTI stays out."""

    kinds: Kinds | None
    markers: bool = False


ALL = "all"
CONDITIONS = {
    "nothing": Condition(None),
    "attached": Condition(Kinds(0)),
    "ranges": Condition(None, markers=True),
    "launches": Condition(Kinds.LAUNCHES),
    "runtime": Condition(CALLS),
    "runtime+driver": Condition(CALLS | Kinds.DRIVER_CALLS),
    "runtime+waits": Condition(CALLS | Kinds.WAITS),
    "runtime+events": Condition(CALLS | Kinds.EVENTS),
    "host": Condition(Kinds.ALL & ~DEVICE),
    "device": Condition(DEVICE),
    "device+launches": Condition(DEVICE | Kinds.LAUNCHES),
    "device+runtime": Condition(DEVICE | CALLS),
    "+waits": Condition(DEVICE | CALLS | WAITS),
    "+cupti's own": Condition(DEVICE | CALLS | WAITS | Kinds.CUPTI_ITSELF),
    "+driver": Condition(Kinds.ALL),
    ALL: Condition(Kinds.ALL, markers=True),
}

STEPS_UP = (
    ("ranges", "nothing"),
    ("attached", "nothing"),
    ("launches", "attached"),
    ("runtime", "launches"),
    ("runtime+driver", "runtime"),
    ("runtime+waits", "runtime"),
    ("runtime+events", "runtime"),
    ("host", "runtime"),
    ("device", "attached"),
    ("device+launches", "device"),
    ("device+runtime", "device+launches"),
    ("+waits", "device+runtime"),
    ("+cupti's own", "+waits"),
    ("+driver", "+cupti's own"),
    (ALL, "+driver"),
)
"""One kind of record more, and that without which it is seen."""


@dataclass(slots=True)
class Measured:
    """The blocks by condition, and the rows of their recordings."""

    turns: dict[str, list[Turn]] = field(default_factory=dict)
    recordings: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    before: list[Timed] = field(default_factory=list)  # bare, before CUPTI was ever there
    rounds: int = 0

    def document(self) -> dict[str, Any]:
        turns = {
            name: [[turn.number, *(timed.document() for timed in (turn.block, *turn.bare))] for turn in its]
            for name, its in self.turns.items()
        }
        before = [timed.document() for timed in self.before]
        return {
            "rounds": self.rounds,
            "missing": self.missing,
            "before": before,
            "turns": turns,
            "recordings": self.recordings,
        }


def measured_of(document: Mapping[str, Any]) -> Measured:
    """Return what a document of `Measured` holds."""
    turns = {
        name: [Turn(number, timed_of(block), (timed_of(one), timed_of(two))) for number, block, one, two in its]
        for name, its in document["turns"].items()
    }
    before = [timed_of(each) for each in document["before"]]
    return Measured(turns, document["recordings"], document["missing"], before, document["rounds"])


class Loop:
    """The loop, its blocks, and the library that records them."""

    def __init__(self, session: Session) -> None:
        self.session, self.run = session, session.new_run(MODE)
        self._library = Library()

    def bare(self) -> Timed:
        return timed_block(self.session, self.run)[0]

    def recorded(self, condition: Condition) -> tuple[Timed, dict[str, Any]]:
        """Return a block under a condition, and what its recording has; EnvironmentMissing where CUPTI is missing."""
        folder = Path(tempfile.mkdtemp(prefix="fdprof-cost-"))
        try:
            with self._markers(condition.markers):
                began = time.perf_counter()
                self._library.start(
                    folder / "recording",
                    graph_nodes=False,
                    cuda=condition.kinds is not None,
                    kinds=Kinds.ALL if condition.kinds is None else condition.kinds,
                )
                started = time.perf_counter()
                try:
                    timed, block = timed_block(self.session, self.run)
                finally:
                    ended = time.perf_counter()
                    self._library.stop()
                stopped = time.perf_counter()
            rows = _rows_of(folder / "recording", block)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return timed, {**rows, "start_ms": (started - began) * 1e3, "stop_ms": (stopped - ended) * 1e3}

    @contextlib.contextmanager
    def _markers(self, wanted: bool) -> Iterator[None]:
        if not wanted:
            yield
            return
        markers.attach(_MarkerSink(self._library))
        try:
            yield
        finally:
            markers.detach()


def _rows_of(folder: Path, block: Block) -> dict[str, Any]:
    """Return the rows a counted step by table, and the calls a counted step by name.

    Rows of events and of what is made once have no time: they are counted over all steps of the block.
    """
    process = read_process(folder)
    starts, counted = block.log.step_starts_ns, slice(block.warmup, block.warmup + block.steps)
    begin, end = int(starts[counted][0]), int(block.log.step_ends_ns[counted][-1])
    tables: dict[str, float] = {}
    for name, rows in process.rows.items():
        if "start_ns" in (rows.dtype.names or ()):
            tables[name] = int(((rows["start_ns"] >= begin) & (rows["start_ns"] < end)).sum()) / block.steps
        else:
            tables[name] = len(rows) / len(starts)
    api = process.rows["api"]
    api = api[(api["start_ns"] >= begin) & (api["start_ns"] < end)]
    called = Counter(zip(api["domain"].tolist(), api["callback"].tolist(), strict=True))
    calls = {process.callbacks.get(key, "") or str(key): count / block.steps for key, count in called.items()}
    longest = {name: float(np.median(api["end_ns"] - api["start_ns"])) for name in ("call_p50_ns",) if len(api)}
    return {"tables": tables, "calls": calls, "limits": list(process.limits), **longest}


def measure(loop: Loop, conditions: Mapping[str, Condition], rounds: int, limit_s: float, output: Path) -> Measured:
    """Return so many rounds of turns, fewer where the time is up or Ctrl-C comes; they are kept in `output` meanwhile.

    EnvironmentMissing where nothing can be recorded.
    """
    found = Measured()
    deadline = time.monotonic() + limit_s
    for _ in range(SETTLING):
        loop.bare()
    found.before = [loop.bare() for _ in range(SETTLING)]
    _settle(loop, conditions, found)
    names = [name for name in conditions if name not in found.missing]
    before = loop.bare()
    try:
        while found.rounds < rounds:
            began = time.monotonic()
            made: dict[str, tuple[Turn, dict[str, Any]]] = {}
            for name in order_of(names, found.rounds):
                block, recording = loop.recorded(conditions[name])
                after = loop.bare()
                made[name] = Turn(found.rounds, block, (before, after)), recording
                before = after
            for name, (turn, recording) in made.items():  # whole rounds only
                found.turns.setdefault(name, []).append(turn)
                found.recordings.setdefault(name, []).append(recording)
            found.rounds += 1
            write_text(output, json.dumps({"benchmark": "collector_cost", "measured": found.document()}))
            if time.monotonic() + (time.monotonic() - began) > deadline:
                break
    except KeyboardInterrupt:
        if not found.rounds:
            raise
    return found


def _settle(loop: Loop, conditions: Mapping[str, Condition], found: Measured) -> None:
    """Take each condition once, uncounted: what is made at first use is there then, and what cannot be had is known."""
    problem: FdprofError | None = None
    for name, condition in conditions.items():
        try:
            loop.recorded(condition)
        except EnvironmentMissing as error:
            found.missing[name] = str(error)
            problem = error if condition.kinds is not None else problem
    if problem is not None and all(
        name in found.missing for name, each in conditions.items() if each.kinds is not None
    ):
        raise problem


def summary(found: Measured) -> dict[str, Any]:
    """Return costs and rows by condition, and the differences of neighbours."""
    costs = {name: {**cost_of(turns), **_mean_rows(found.recordings[name])} for name, turns in found.turns.items()}
    apart = {}
    for more, less in STEPS_UP:
        if more in costs and less in costs:
            rows = costs[more]["rows"] - costs[less]["rows"]
            apart[f"{more} - {less}"] = {
                **difference(found.turns[more], found.turns[less]),
                "rows": rows,
            }
    bare = [timed.median for turns in found.turns.values() for turn in turns for timed in turn.bare]
    return {
        "rounds": found.rounds,
        "conditions": costs,
        "differences": apart,
        "missing": found.missing,
        "bare_before_us": float(np.median([timed.median for timed in found.before])) / 1e3,
        "bare_since_us": float(np.median(bare)) / 1e3,
    }


def _mean_rows(recordings: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    def mean(name: str) -> dict[str, float]:
        keys = {key for each in recordings for key in each[name]}
        return {key: float(np.mean([each[name].get(key, 0.0) for each in recordings])) for key in sorted(keys)}

    tables, calls = mean("tables"), mean("calls")
    totals = [sum(each["tables"].values()) for each in recordings]
    return {
        "rows": float(np.mean(totals)),
        "rows_least_most": [min(totals), max(totals)],
        "tables": tables,
        "calls": dict(sorted(calls.items(), key=lambda item: -item[1])),
        "call_p50_ns": float(np.median([each["call_p50_ns"] for each in recordings if "call_p50_ns" in each] or [0])),
        "start_ms": float(np.median([each["start_ms"] for each in recordings])),
        "stop_ms": float(np.median([each["stop_ms"] for each in recordings])),
        "limits": sorted({limit.partition(": ")[2] for each in recordings for limit in each["limits"]}),
    }


def show(found: Mapping[str, Any]) -> None:
    """Print a summary."""
    costs = found["conditions"]
    print(f"{found['rounds']} rounds; us a step, what is added against the bare blocks just before and behind\n")
    print_costs(costs)
    print(f"\n{'one kind more':34}{'rows':>8}  {'added, us':26}{'ns a row':>9}  ratio of medians")
    for name, apart in found["differences"].items():
        each = f"{apart['added_us']['value'] * 1e3 / apart['rows']:9.0f}" if apart["rows"] > 0.5 else f"{'-':>9}"
        print(
            f"{name:34}{apart['rows']:8.1f}  {in_words(apart['added_us'], 1, '+'):26}{each}"
            f"  {in_words(apart['median_ratio'], 3, '+')}"
        )
    print("\nrows a step, and the calls by name")
    for name, cost in costs.items():
        tables = ", ".join(f"{table} {rows:.1f}" for table, rows in cost["tables"].items() if rows >= 0.05)
        least, most = cost["rows_least_most"]
        print(f"{name:18}{cost['rows']:8.1f} ({least:.1f} to {most:.1f}): {tables or 'none'}")
        calls = ", ".join(f"{call} {count:.1f}" for call, count in list(cost["calls"].items())[:TOP])
        took = f" (p50 {cost['call_p50_ns']:.0f} ns)" if calls else ""
        print(f"{'':18}start {cost['start_ms']:.0f} ms, stop {cost['stop_ms']:.0f} ms{took} {calls}")
        for limit in cost["limits"]:
            print(f"{'':18}note: {limit}")
    for name, why in found["missing"].items():
        print(f"{name}: {why}")
    before, since = found["bare_before_us"], found["bare_since_us"]
    print(f"\nbare before CUPTI was ever there {before:.1f} us, since then {since:.1f} us")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--again", type=Path, metavar="OUT.json")
    parser.add_argument("--backend", default="paddle")
    parser.add_argument("--kernels", type=int, default=100)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--limit-s", type=float, default=130.0, help="no round is begun that would end later")
    parser.add_argument("--with", dest="names", help=f"some of: {', '.join(CONDITIONS)}")
    options = parser.parse_args()
    if options.again is not None:
        show(summary(measured_of(json.loads(options.again.read_text(encoding="utf-8"))["measured"])))
        return 0
    names = list(CONDITIONS) if options.names is None else options.names.split(",")
    unknown = [name for name in names if name not in CONDITIONS]
    if options.output is None or unknown:
        parser.error(f"no condition is named {unknown[0]}" if unknown else "give -o OUT.json")
    try:
        backend, _ = open_backend(real_backend(options.backend), 30.0)
        params = LoopParams(device_us=200, schedule_us=0, save_output_us=0, kernels=options.kernels)
        extent = Extent(steps=options.steps, warmup=options.warmup)
        loop = Loop(Session(backend, "stop_flag", params, extent))
        if markers.listens():
            raise EnvironmentMissing(
                "the bare blocks would not be bare: something listens to NVTX ranges in this process",
                "run it without a profiler around it, and unset NVTX_INJECTION64_PATH",
            )
        found = measure(
            loop, {name: CONDITIONS[name] for name in names}, options.rounds, options.limit_s, options.output
        )
    except FdprofError as error:
        print(f"collector_cost: {error}" + (f"\n  {error.hint}" if error.hint else ""), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    told = summary(found)
    show(told)
    parameters = {"kernels": options.kernels, "steps": options.steps, "warmup": options.warmup, "mode": MODE}
    write(
        options.output,
        "collector_cost",
        options.backend,
        loop.run.environment,
        parameters=parameters,
        cores=os.cpu_count(),
        **told,
        measured=found.document(),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
