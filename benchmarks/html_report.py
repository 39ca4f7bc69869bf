"""Measure the HTML report of 10,000 steps: its size, how long it takes to make, to its first paint, and to redraw.

usage: python benchmarks/html_report.py [-o RESULT.json]     needs Chromium with chromedriver, and selenium

Three pages: a run, a comparison of two runs, and the run read as a capture, all on the simulator.  Each is loaded
LOADS times in a browser without a cache.  First paint and first contentful paint are the browser's own entries; `ready`
is when charts and timeline are drawn, all from the start of navigation.  A redraw is one call that draws the timeline,
of one step and of everything.  The machine may be shared: all passes are in the result.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import result_file
from fdprof.reports.html import REPORT
from fdprof.reports.protocol import ComparisonResult
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from fdprof.analysis.capture_result import analyze
from fdprof.analysis.compare import compare
from fdprof.analysis.results import result_of
from fdprof.analysis.sides import sides_of_runs
from fdprof.analysis.steps import Choice
from fdprof.comparison import Policy
from fdprof.params import Extent, LoopParams
from fdprof.run_capture import capture_of
from fdprof.session import Session, open_backend

STEPS = 10_000
BLOCKS = 5
LOADS = 7
REDRAWS = 40
OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")

TIMES = """
const paint = Object.fromEntries(performance.getEntriesByType("paint").map((each) => [each.name, each.startTime]));
const [navigation] = performance.getEntriesByType("navigation");
return {
  first_paint_ms: paint["first-paint"] ?? null,
  first_contentful_paint_ms: paint["first-contentful-paint"] ?? null,
  loaded_ms: navigation.loadEventEnd,
  ready_ms: performance.getEntriesByName("ready")[0]?.startTime ?? null,
};
"""
REDRAW = """
const timeline = window.fdprofPage.timelines.get("p1");
if (arguments[0]) timeline.all(); else timeline.home();
const times = [];
for (let pass = 0; pass < arguments[1]; pass++) {
  const begun = performance.now();
  timeline.paint();
  timeline.canvas.getContext("2d").getImageData(0, 0, 1, 1);
  times.push(performance.now() - begun);
}
return times;
"""


def pages():
    """Return name and result of each page."""
    backend, _ = open_backend("sim", 120.0)
    session = Session(backend, "stop_flag", LoopParams(), Extent(steps=STEPS // BLOCKS, warmup=20, timeout=120.0))
    runs = [session.new_run(mode) for mode in ("sync", "async")]
    for index in range(BLOCKS):
        runs = [replace(run, blocks=(*run.blocks, session.block(run.mode, index))) for run in runs]
    runs = [session.with_drawn_work(run) for run in runs]
    (ours, first), (theirs, second) = sides_of_runs(runs)
    yield "run", result_of(runs[0])
    yield "comparison", ComparisonResult(compare(ours, theirs, Policy()), first, second)
    yield "analysis", analyze(capture_of(runs[0]), "run", Choice())


def measured(driver, file):
    loads = []
    for _ in range(LOADS):
        driver.get("about:blank")
        driver.get(file.as_uri())
        while not driver.execute_script("return document.documentElement.dataset.ready !== undefined"):
            time.sleep(0.02)
        loads.append(driver.execute_script(TIMES))
    redraws = {
        name: driver.execute_script(REDRAW, every, REDRAWS) for name, every in (("one_step", False), ("all", True))
    }
    drawn = driver.execute_script(
        "return window.fdprofPage.timelines.get('p1').lines.map((line) => [line.positions.length, line.start.length])"
    )
    return {"loads": loads, "redraw_ms": redraws, "drawn_steps_and_spans": drawn}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fdprof-html-"))
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for option in (*OPTIONS, f"--user-data-dir={folder / 'browser'}"):
        options.add_argument(option)
    driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
    table = {}
    try:
        for name, result in pages():
            begun = time.perf_counter()
            text = REPORT.render(result)
            made_s = time.perf_counter() - begun
            file = folder / f"{name}.html"
            file.write_text(text, encoding="utf-8")
            found = measured(driver, file)
            table[name] = {"size_bytes": file.stat().st_size, "made_s": made_s, **found}
            middle = {key: statistics.median(load[key] for load in found["loads"]) for key in found["loads"][0]}
            redraw = {key: statistics.median(times) for key, times in found["redraw_ms"].items()}
            print(
                f"{name}: {file.stat().st_size / 1e6:.2f} MB, made in {made_s:.2f} s, first paint "
                f"{middle['first_paint_ms']:.0f} ms, contentful {middle['first_contentful_paint_ms']:.0f} ms, "
                f"ready {middle['ready_ms']:.0f} ms; redraw {redraw['one_step']:.1f} ms a step, {redraw['all']:.1f} ms "
                f"all; drawn steps and spans {found['drawn_steps_and_spans']}"
            )
        version = driver.capabilities["browserVersion"]
    finally:
        driver.quit()
        shutil.rmtree(folder, ignore_errors=True)
    if arguments.output:
        backend, _ = open_backend("sim", 30.0)
        result_file.write(
            arguments.output, "html_report", "sim", backend.environment(), browser=f"Chromium {version}",
            cores=os.cpu_count(), load=os.getloadavg(), steps=STEPS, pages=table,
        )  # fmt: skip


if __name__ == "__main__":
    main()
