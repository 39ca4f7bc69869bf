"""Draws docs/images/html-report-*.png: the HTML report in a browser, of captures of an H200 and of a comparison.

    python docs/html_pictures.py

Needs Chromium with chromedriver, and selenium.
"""

import base64
import gzip
import shutil
import tempfile
import time
from pathlib import Path

from fdprof.reports.html import REPORT
from fdprof.reports.protocol import ComparisonResult
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from fdprof.analysis.capture_result import CaptureResult, analyze
from fdprof.analysis.compare import compare
from fdprof.analysis.sides import side_of_capture, sides_of_runs
from fdprof.analysis.steps import Choice
from fdprof.comparison import Policy
from fdprof.imports import import_capture
from fdprof.params import Extent, LoopParams
from fdprof.session import Session, open_backend

IMAGES = Path(__file__).parent / "images"
CAPTURES = Path(__file__).parents[1] / "tests" / "data" / "h200-2026-11-30" / "both-ways"
WIDTH = 1280


def analysis(name: str, folder: Path) -> CaptureResult:
    """Return the analysis of a capture by nsys on an H200."""
    path = folder / f"{name}.sqlite"
    with gzip.open(CAPTURES / f"{name}.nsys.sqlite.gz") as packed, path.open("wb") as file:
        shutil.copyfileobj(packed, file)
    return analyze(import_capture(path, lambda text: None), path.name, Choice())


def captures(folder: Path) -> ComparisonResult:
    """Return the comparison of two captures."""
    ours, theirs = analysis("stop_flag_sync", folder), analysis("stop_flag_overlap", folder)
    first, second = (side_of_capture(each, len(each.facts.steps), 0) for each in (ours, theirs))
    return ComparisonResult(compare(first, second, Policy(allowed=frozenset({"steps"}))), ours, theirs)


def modes() -> ComparisonResult:
    """Return what `fdprof compare sync async` comes to on the simulator."""
    backend, _ = open_backend("sim", 30.0)
    session = Session(backend, "stop_flag", LoopParams(), Extent(steps=60, warmup=5))
    (ours, first), (theirs, second) = sides_of_runs([session.run(mode, 6) for mode in ("sync", "async")])
    return ComparisonResult(compare(ours, theirs, Policy(allowed=frozenset())), first, second)


class Camera:
    """Takes pictures of pages."""

    def __init__(self, folder: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for option in ("--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'browser'}"):
            options.add_argument(option)
        self._driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))

    def take(self, name: str, file: Path, from_css: str, height: int, dark: bool = False, act: str = "") -> None:
        """Write the picture of so many pixels from the top of an element on."""
        send = self._driver.execute_cdp_cmd
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        metrics = {"width": WIDTH, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        send("Emulation.setDeviceMetricsOverride", metrics)
        send("Emulation.setEmulatedMedia", {"features": scheme})
        self._driver.get(file.as_uri())
        while not self._driver.execute_script("return document.documentElement.dataset.ready !== undefined"):
            time.sleep(0.05)
        self._driver.execute_script(act)
        self._driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        place = "return document.querySelector(arguments[0]).getBoundingClientRect().top + scrollY"
        top = max(self._driver.execute_script(place, from_css) - 12, 0)
        clip = {"x": 0, "y": top, "width": WIDTH, "height": height, "scale": 1}
        taken = send("Page.captureScreenshot", {"format": "png", "captureBeyondViewport": True, "clip": clip})
        (IMAGES / f"{name}.png").write_bytes(base64.b64decode(taken["data"]))
        print(f"wrote {IMAGES / name}.png")

    def close(self) -> None:
        self._driver.quit()


def main() -> None:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        folder = Path(made)
        pages = {"capture": analysis("stop_flag_sync", folder), "captures": captures(folder), "modes": modes()}
        files = {name: folder / f"{name}.html" for name in pages}
        for name, file in files.items():
            file.write_text(REPORT.render(pages[name]), encoding="utf-8")
        camera = Camera(folder)
        try:
            camera.take("html-report-top", files["capture"], "header", 800)
            # The wait of the step in view.
            wait = (
                "const t = fdprofPage.timelines.get('p1'); const l = t.lines[1]; const at = t.view.anchors[1];"
                "t.select(l, l.flows.map((each) => each.wait).find((span) => l.start[span] > l.starts[at]))"
            )
            camera.take("html-report-timeline", files["captures"], ".timeline", 560, act=wait)
            camera.take("html-report-compare", files["modes"], "header", 900, dark=True)
        finally:
            camera.close()


if __name__ == "__main__":
    main()
