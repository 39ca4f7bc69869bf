"""Measure what fdprof's collector and nsys cost a loop, side by side, in processes that take turns of a block each.

usage: python benchmarks/collector_beside_nsys.py -o OUT.json [--kernels 100] [--each 2] [--sets 2] [--limit-s 45]
       python benchmarks/collector_beside_nsys.py --again OUT.json        prints what such a file says, finished or not

Why so.  nsys cannot be taken out of a process, and where CUPTI's records are switched off without being taken out the
bare speed does not come back: what is bare must be another process, which nothing ever traced.  Whole processes one
after the other lie seconds apart, so the phases of the host fall on one and not on the next: six rounds of `fdprof
overhead` gave a ratio of 1.47 from 1.19 to 1.84.  Many short processes do not help either: each takes 20 s to start and
a second to measure.  So all processes are started at once, once: bare ones, ones with our collector, ones under nsys,
each for its whole life.  Then one block after another runs, each in the process whose turn it is, while the others
sleep on a socket: a traced block stands between two bare ones a fraction of a second away, as in blocks of one process
(turns.py says how they are compared), and everything of a start-up's price buys blocks.  What is left is what processes
differ by for their whole life; bare ones against each other show how much that is, and `--each` and `--sets` (fresh
processes) average over it.

All processes run the same device work: it is calibrated by a bare one, since under a tracer the kernels' longer gaps
would be taken off their time.  A process's threads that write records may go on during the next one's block, on other
cores; a loop that runs without a pause may find them more in its way than is seen here.
"""

import argparse
import contextlib
import ctypes
import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from result_file import write
from tracer_calls import calls_of_nsys, calls_of_ours
from turn_workers import BARE, MODE, NSYS, OURS, Workers
from turns import (
    Timed,
    Turn,
    apart_of,
    cost_of,
    difference,
    in_words,
    mean_of,
    median_of,
    order_of,
    print_costs,
    print_differences,
    timed_of,
)

from fdprof.documents import write_text
from fdprof.errors import EnvironmentMissing, FdprofError, ScenarioFailed
from fdprof.model import Environment
from fdprof.traced_loop import real_backend

DEFAULT = ("fdprof", NSYS, "fdprof-no-driver")
APART = (("fdprof", NSYS), ("fdprof-no-driver", NSYS), ("fdprof", "fdprof-no-driver"), ("fdprof", "fdprof-no-flush"))
SETS_APART = 100_000  # between the numbers of the rounds of two sets


@dataclass(slots=True)
class Measured:
    """The blocks by process, and the bare ones in their order."""

    turns: dict[str, list[Turn]] = field(default_factory=dict)
    bare: list[tuple[str, Timed]] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    traced: dict[str, Any] = field(default_factory=dict)  # what each tool's own record of a process holds
    environment: dict[str, Any] = field(default_factory=dict)
    rounds: int = 0

    def document(self) -> dict[str, Any]:
        turns = {
            name: [[turn.number, *(timed.document() for timed in (turn.block, *turn.bare))] for turn in its]
            for name, its in self.turns.items()
        }
        return {
            "turns": turns,
            "bare": [[name, timed.document()] for name, timed in self.bare],
            **{name: getattr(self, name) for name in ("missing", "notes", "traced", "environment", "rounds")},
        }


def measured_of(document: Mapping[str, Any]) -> Measured:
    """Return what a document of `Measured` holds."""
    turns = {
        name: [Turn(number, timed_of(block), (timed_of(one), timed_of(two))) for number, block, one, two in its]
        for name, its in document["turns"].items()
    }
    bare = [(name, timed_of(timed)) for name, timed in document["bare"]]
    return Measured(**{**document, "turns": turns, "bare": bare})


def measure(
    kinds: Sequence[str], loop: Mapping[str, Any], each: int, sets: int, rounds: int, limit_s: float, output: Path
) -> Measured:
    """Return the turns of so many sets of processes, kept in `output` meanwhile; fewer rounds where time is up.

    EnvironmentMissing or ScenarioFailed where there is nothing to hold against a bare process.
    """
    found = Measured()
    device_work: Mapping[str, int] | None = None
    scratch = Path(tempfile.mkdtemp(prefix="fdprof-beside-"))
    made: list[Workers] = []
    try:
        for number in range(sets):
            workers = Workers(scratch / str(number), loop, found.missing, found.notes)
            made.append(workers)
            for at in range(each):  # one of each kind, then the second: so that none is always the last to come
                for kind in (BARE, *kinds):
                    try:
                        workers.start(kind, f"{kind} {number + 1}{chr(ord('a') + at)}")
                    except EnvironmentMissing as error:
                        found.missing[kind] = str(error)
            workers.hear()
            if number:
                made[number - 1].finish()  # its ends overlapped with these starts, before anything is measured
            device_work, environment = workers.warm(device_work)
            found.environment = found.environment or environment
            if not any(worker.kind == BARE for worker in workers.all):
                raise EnvironmentMissing(f"no bare process can run: {found.missing}", "see `fdprof doctor`")
            if all(worker.kind == BARE for worker in workers.all):
                raise EnvironmentMissing(f"nothing can trace here: {found.missing}", "see `fdprof doctor`")
            done = _rounds(workers, number, found, rounds, limit_s, output)
            workers.end()
            if not done:
                break
        made[-1].finish()
        found.traced = _what_was_traced(made[0])
    finally:
        for workers in made:
            workers.close()
        shutil.rmtree(scratch, ignore_errors=True)
    return found


def _rounds(workers: Workers, number: int, found: Measured, rounds: int, limit_s: float, output: Path) -> bool:
    """Run the rounds of one set; return whether another set may follow."""
    bare = [worker for worker in workers.all if worker.kind == BARE]
    traced = {worker.name: worker for worker in workers.all if worker.kind != BARE}
    place = 0

    def bare_block() -> Timed:
        nonlocal place
        place += 1
        worker = bare[place % len(bare)]
        timed = worker.block()
        found.bare.append((worker.name, timed))
        return timed

    deadline = time.monotonic() + limit_s
    try:
        before = bare_block()
        for turn in range(rounds):
            began = time.monotonic()
            made: dict[str, Turn] = {}
            for name in order_of(list(traced), turn):
                block, after = traced[name].block(), bare_block()
                made[name] = Turn(number * SETS_APART + turn, block, (before, after))
                before = after
            for name, its in made.items():  # whole rounds only
                found.turns.setdefault(name, []).append(its)
            found.rounds += 1
            write_text(output, json.dumps({"benchmark": "collector_beside_nsys", "measured": found.document()}))
            if 2 * time.monotonic() - began > deadline:
                break
    except (ScenarioFailed, KeyboardInterrupt) as error:
        if not found.rounds:
            raise
        found.notes.append(f"ended early: {error or 'Ctrl-C'}")
        return False
    return True


def _what_was_traced(workers: Workers) -> dict[str, Any]:
    """Return the calls and rows a step that each tool recorded of the first process of its kind."""
    found: dict[str, Any] = {}
    for worker in workers.all:
        if worker.kind == BARE or worker.kind in found or not worker.begun:
            continue
        try:
            tell = calls_of_nsys if worker.kind == NSYS else calls_of_ours
            found[worker.kind] = tell(worker.folder, worker.begun)
        except FdprofError as error:
            found[worker.kind] = {"missing": str(error)}
    return found


def summary(found: Measured) -> dict[str, Any]:
    """Return costs by kind and by process, the differences of kinds, and what bare processes differ by."""
    by_kind: dict[str, list[Turn]] = {}
    for name, turns in found.turns.items():
        by_kind.setdefault(name.split()[0], []).extend(turns)
    alike = [
        (one, other) for one, other in zip(found.bare[:-1], found.bare[1:], strict=True) if one[0] != other[0]
    ]  # the bare blocks next to each other, of two processes
    pairs: dict[str, list[float]] = {}
    for (name, one), (other_name, other) in alike:
        low, high = sorted((name, other_name))
        ratio = other.median / one.median
        pairs.setdefault(f"{high} / {low}", []).append(ratio if other_name == high else 1 / ratio)
    processes = {name: cost_of(turns) for name, turns in found.turns.items()}

    def ratios(kind: str, what: str) -> list[float]:
        return [cost[what]["value"] for name, cost in processes.items() if name.split()[0] == kind]

    compared = [(one, other) for one, other in APART if one in by_kind and other in by_kind]
    return {
        "rounds": found.rounds,
        "kinds": {kind: cost_of(turns) for kind, turns in by_kind.items()},
        "processes": processes,
        "across_processes": {kind: mean_of(ratios(kind, "median")) for kind in by_kind},
        "differences": {f"{one} - {other}": difference(by_kind[one], by_kind[other]) for one, other in compared},
        "differences_of_processes": {
            f"{one} - {other}": {
                f"{what}_ratio": apart_of(ratios(one, what), ratios(other, what)) for what in ("median", "mean")
            }
            for one, other in compared
        },
        "bare_pairs": {name: median_of(ratios) for name, ratios in pairs.items() if len(ratios) > 1},
        "bare_us": float(np.median([timed.median for _, timed in found.bare])) / 1e3,
        **{name: getattr(found, name) for name in ("missing", "notes", "traced")},
    }


def show(found: Mapping[str, Any]) -> None:
    """Print a summary."""
    print(f"{found['rounds']} rounds; us a step, what is added against the blocks of bare processes beside\n")
    print_costs(found["kinds"])
    print("\nby process, with the intervals of its own blocks")
    print_costs(found["processes"])
    print("\nthe mean of the processes' ratios of medians, and what processes as few as these leave open")
    for kind, ratio in found["across_processes"].items():
        print(f"{kind:18}{in_words(ratio)}")
    print("\none less the other, round by round")
    print_differences(found["differences"])
    print("\nthe same by processes, as few as they are")
    for name, apart in found["differences_of_processes"].items():
        print(f"{name:38}{'':26}{in_words(apart['median_ratio'], 3, '+'):28}{in_words(apart['mean_ratio'], 3, '+')}")
    for name, ratio in found["bare_pairs"].items():
        print(
            f"\n{name}: {ratio['value']:.3f} {ratio['interval'] or ''}, of neighbouring blocks of bare processes",
            end="",
        )
    print("\n\nrecorded, a step of all that were begun")
    for kind, record in found["traced"].items():
        print(f"{kind}: {_rows_in_words(record)}")
    for name, why in found["missing"].items():
        print(f"{name}: {why}")
    for note in found["notes"]:
        print(f"note: {note}")


def _rows_in_words(record: Mapping[str, Any]) -> str:
    if "missing" in record:
        return f"not known: {record['missing']}"
    tables = ", ".join(f"{name} {rows:.1f}" for name, rows in record["tables"].items() if rows >= 0.05)
    return f"{tables}\n    " + ", ".join(f"{name} {count:.1f}" for name, count in list(record["calls"].items())[:10])


def require_device(backend: str) -> None:
    """Raise EnvironmentMissing where it is plain that there is none.

    The processes find out the rest: importing Paddle here too would take as long as they do.
    """
    try:
        ctypes.CDLL("libcuda.so.1")
        has_driver = True
    except OSError:
        has_driver = False
    if backend == "sim" or not has_driver:
        real_backend(backend)


@contextlib.contextmanager
def stopped_by_sigterm() -> Iterator[None]:
    """Make SIGTERM, as of timeout(1), end this as Ctrl-C does, so that no process is left."""
    before = signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--again", type=Path, metavar="OUT.json")
    parser.add_argument("--backend", default="paddle")
    parser.add_argument("--kernels", type=int, default=100)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=60, help="of a set")
    parser.add_argument("--limit-s", type=float, default=45.0, help="of a set's rounds; its start comes on top")
    parser.add_argument("--each", type=int, default=2, help="processes of a kind in a set")
    parser.add_argument("--sets", type=int, default=2)
    parser.add_argument("--with", dest="kinds", default=",".join(DEFAULT), help=f"some of: {NSYS}, {', '.join(OURS)}")
    options = parser.parse_args()
    if options.again is not None:
        show(summary(measured_of(json.loads(options.again.read_text(encoding="utf-8"))["measured"])))
        return 0
    kinds = options.kinds.split(",")
    unknown = [kind for kind in kinds if kind != NSYS and kind not in OURS]
    if options.output is None or unknown:
        parser.error(f"no kind is named {unknown[0]}" if unknown else "give -o OUT.json")
    try:
        require_device(options.backend)
        loop = {name: getattr(options, name) for name in ("backend", "kernels", "steps", "warmup")}
        with stopped_by_sigterm():
            found = measure(kinds, loop, options.each, options.sets, options.rounds, options.limit_s, options.output)
    except FdprofError as error:
        print(f"collector_beside_nsys: {error}" + (f"\n  {error.hint}" if error.hint else ""), file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    told = summary(found)
    show(told)
    parameters = {**loop, "each": options.each, "sets": options.sets, "mode": MODE}
    environment = Environment(**found.environment)
    write(
        options.output,
        "collector_beside_nsys",
        loop["backend"],
        environment,
        parameters=parameters,
        **told,
        measured=found.document(),
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
