"""Measure the simulator's speed: 1,000 steps of stop_flag, the whole comparison, and --help, as wall time.

usage: python benchmarks/sim_speed.py        best and median of several passes; the machine may be shared
"""

import statistics
import subprocess
import sys
import tempfile
import time

from fdprof.params import Extent, LoopParams
from fdprof.session import Session, open_backend

PASSES = 7


def timed(action):
    times = []
    for _ in range(PASSES):
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return f"best {min(times):.3f} s, median {statistics.median(times):.3f} s"


def main():
    backend, _ = open_backend("sim", 30.0)
    session = Session(backend, "stop_flag", LoopParams(), Extent(steps=1000, warmup=0))
    session.new_run("async")  # calibrates
    print(f"1,000 steps of stop_flag, async: {timed(lambda: session.block('async', 0))} (bar: 0.3)")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "fdprof", "compare", "sync", "async", "--backend", "sim", "--runs", folder]
        print(f"fdprof compare sync async: {timed(lambda: subprocess.run(command, capture_output=True))} (bar: 2)")
    help_command = [sys.executable, "-m", "fdprof", "--help"]
    print(f"fdprof --help: {timed(lambda: subprocess.run(help_command, capture_output=True))} (bar: 0.3)")


if __name__ == "__main__":
    main()
