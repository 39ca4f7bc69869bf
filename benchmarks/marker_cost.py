"""Measure what a marker costs: with nothing listening (bar: 100 ns a range), with a sink, and under an NVTX tool.

usage: python benchmarks/marker_cost.py [-o RESULT.json]        needs no GPU; run it under nsys for the third

A range's cost is a loop of it less the same loop with nothing in it, and includes its `with` statement.  The loops take
turns, and each counts with its fastest pass; the cost of an empty function's call stands beside them, as a yardstick
for the machine.  Needs fdprof.markers alone unless it writes a file.
"""

import argparse
import contextlib
import gc
import os
import platform
import time
from pathlib import Path

import fdprof
from fdprof import markers

ROUNDS, COUNT = 400, 5_000
BAR_NS = 100

LOOP = """
def loop():
    for k in range(COUNT):
        {body}
"""


class Methods:
    """The plainest context manager, for comparison: what a marker would cost without the trouble taken."""

    def __enter__(self):
        pass

    def __exit__(self, kind, error, trace):
        pass


class Quiet:
    """A sink that drops what it is given."""

    def push(self, name, payload):
        pass

    def pop(self):
        pass


def empty(k):
    pass


def compiled(body):
    """Return a loop over this statement, with the names in it as a module of an engine would have them."""
    names = {"COUNT": COUNT, "fdprof": fdprof, "markers": markers, "empty": empty, "null": contextlib.nullcontext()}
    names |= {"step": markers.step, "transfer": markers.transfer, "fence": markers.fence, "methods": Methods()}
    exec(LOOP.format(body=body), names)
    return names["loop"]


def measured(bodies):
    """Return the fastest pass of each statement, ns, less that of `pass`."""
    loops = {body: compiled(body) for body in ("pass", *bodies)}
    best = dict.fromkeys(loops, float("inf"))
    for _ in range(ROUNDS):
        for body, loop in loops.items():
            start = time.perf_counter_ns()
            loop()
            best[body] = min(best[body], (time.perf_counter_ns() - start) / COUNT)
    return {body: best[body] - best["pass"] for body in bodies}


MARKERS = ("with step(k): pass", 'with transfer("tokens"): pass', 'with fence("tokens"): pass', "with fence(): pass")
OTHERS = ("empty(k)", "with null: pass", "with methods: pass")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    gc.disable()
    nvtx = markers.listens()
    through_package = () if not hasattr(fdprof, "step") else ("with fdprof.step(k): pass",)
    tables = {"nvtx" if nvtx else "off": measured((*OTHERS, *MARKERS, *through_package))}
    markers.attach(Quiet())
    tables["nvtx and sink" if nvtx else "sink"] = measured(("empty(k)", *MARKERS))
    markers.detach()
    print(f"Python {platform.python_version()}, {platform.machine()}; an NVTX tool listens: {nvtx}")
    rows = []
    for state, table in tables.items():
        for body, ns in table.items():
            calls = ns / table["empty(k)"]
            rows.append({"state": state, "statement": body, "ns": round(ns, 1), "empty_calls": round(calls, 2)})
            print(f"{state:<14} {body:<32} {ns:7.1f} ns   {calls:6.2f} empty calls")
    if not nvtx:
        dearest = max(tables["off"][body] for body in MARKERS)
        print(f"a range with nothing listening: at most {dearest:.0f} ns (bar: {BAR_NS})")
    if options.output is not None:
        from result_file import write

        from fdprof.model import Environment
        from fdprof.version import VERSION

        environment = Environment(
            fdprof=VERSION,
            python=platform.python_version(),
            os=f"{platform.system()} {platform.release()}",
            cpu=cpu_name(),
            cpu_count=os.cpu_count(),
            nvtx=nvtx,
        )
        write(options.output, "marker_cost", "none", environment, rounds=ROUNDS, count=COUNT, bar_ns=BAR_NS, rows=rows)


def cpu_name():
    """Return the processor's name as the system tells it."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
