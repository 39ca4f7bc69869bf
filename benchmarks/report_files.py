"""Measure every report of a run of 10,000 steps: how long it takes to make and how large it is.

usage: python benchmarks/report_files.py [-o RESULT.json]     on the simulator, in one process

The run has five blocks of stop_flag in `sync`; as a capture it has as many spans a step as the line `spans` says.  Each
report is made PASSES times; all times are in the result, for the machine may be shared.
"""

import argparse
import gzip
import os
import time
from dataclasses import replace
from pathlib import Path

import result_file

from fdprof import plugins
from fdprof.analysis.results import result_of
from fdprof.analysis.timeline import timeline_of
from fdprof.params import Extent, LoopParams
from fdprof.session import Session, open_backend

STEPS = 10_000
BLOCKS = 5
PASSES = 3


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    backend, _ = open_backend("sim", 120.0)
    session = Session(backend, "stop_flag", LoopParams(), Extent(steps=STEPS // BLOCKS, warmup=20, timeout=120.0))
    run = session.new_run("sync")
    run = replace(run, blocks=tuple(session.block("sync", index) for index in range(BLOCKS)))
    result = result_of(session.with_drawn_work(run))
    spans = len(timeline_of(result.facts).spans)
    print(f"{STEPS} steps, {spans} spans")
    table = {}
    for name in plugins.names("reports"):
        report = plugins.load("reports", name)
        times = []
        for _ in range(PASSES):
            begun = time.perf_counter()
            made = report.render(result)
            times.append(time.perf_counter() - begun)
        content = made if isinstance(made, bytes) else made.encode()
        row = {"made_s": times, "size_bytes": len(content), "gzip_bytes": len(gzip.compress(content, 6))}
        table[report.suffix] = row
        print(f"{report.suffix}: {min(times):.2f} s at best, {len(content):,} bytes, {row['gzip_bytes']:,} gzipped")
    if arguments.output:
        result_file.write(
            arguments.output, "report_files", "sim", backend.environment(), cores=os.cpu_count(),
            load=os.getloadavg(), steps=STEPS, spans=spans, reports=table,
        )  # fmt: skip


if __name__ == "__main__":
    main()
