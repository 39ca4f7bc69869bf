"""A headless Chromium for the tests of the HTML report; they are skipped, with the reason, where there is none."""

import importlib.util
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fdprof.reports.html import REPORT
from fdprof.reports.protocol import Reportable

_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # containers run as root
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_READY_S = 30


class Page:
    """One page at a time in a browser."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def show(self, file: Path, *, dark: bool = False, width: int = 1280, height: int = 900) -> None:
        """Open a file, with empty logs, and return when its script is done."""
        self.size(width, height)
        self.prefer("dark" if dark else "light")
        for kind in ("browser", "performance"):
            self._driver.get_log(kind)
        self._driver.get(file.as_uri())
        self.until("return document.documentElement.dataset.ready !== undefined")

    def size(self, width: int, height: int = 900) -> None:
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.command("Emulation.setDeviceMetricsOverride", **metrics)

    def prefer(self, scheme: str) -> None:
        """Be a system in light or dark colours."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.command("Emulation.setEmulatedMedia", features=features)

    def command(self, name: str, **arguments: Any) -> Any:
        return self._driver.execute_cdp_cmd(name, arguments)

    def js(self, body: str, *arguments: Any) -> Any:
        return self._driver.execute_script(body, *arguments)

    def js_async(self, body: str) -> Any:
        return self._driver.execute_async_script(body)

    def until(self, condition: str) -> None:
        """Return when a condition holds; fails after half a minute."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self._driver, _READY_S, poll_frequency=0.02).until(
            lambda driver: driver.execute_script(condition)
        )

    def frames(self) -> None:
        """Return when what was asked to be drawn is drawn."""
        self.js_async("const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))")

    def find(self, css: str) -> Any:
        return self._driver.find_element("css selector", css)

    def scroll_to(self, css: str) -> None:
        self.js("document.querySelector(arguments[0]).scrollIntoView({block: 'center'})", css)
        self.frames()

    def press(self, key: str) -> None:
        """Press a key on whatever has the focus."""
        self._driver.switch_to.active_element.send_keys(key)
        self.frames()

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Send one event of the mouse, in CSS pixels of the window: mouseMoved, mousePressed, mouseReleased, ..."""
        button = {} if kind in ("mouseMoved", "mouseWheel") and "button" not in more else {"button": "left"}
        self.command("Input.dispatchMouseEvent", type=kind, x=x, y=y, **{**button, **more})

    def click(self, x: float, y: float) -> None:
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, clickCount=1)
        self.mouse("mouseReleased", x, y, clickCount=1)
        self.frames()

    @property
    def console(self) -> list[str]:
        """What the console was told since the last page was opened: errors, warnings, violated policies."""
        return [entry["message"] for entry in self._driver.get_log("browser")]

    @property
    def requests(self) -> list[str]:
        """The addresses that were asked for, but the page's own."""
        events = [json.loads(entry["message"])["message"] for entry in self._driver.get_log("performance")]
        asked = [
            event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"
        ]
        return [address for address in asked if address != self._driver.current_url.split("#")[0]]


@pytest.fixture(scope="module")  # and no longer: other tests look at which children this process has
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """A browser; the tests are skipped where Chromium, its driver or selenium is missing."""
    pytest.importorskip("jinja2", reason="jinja2 is not installed")
    if importlib.util.find_spec("selenium") is None:
        pytest.skip("selenium is not installed: pip install 'fdprof[test]'")
    chromium = next((found for name in _CHROMIUM if (found := shutil.which(name))), None)
    driver_path = shutil.which("chromedriver")
    if chromium is None or driver_path is None:
        pytest.skip("there is no Chromium with its driver: apt-get install chromium chromium-driver")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for option in (*_OPTIONS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(driver_path))
    try:
        yield Page(driver)
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def write_page(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, Reportable], Path]:
    """Write the page of a result once under a name, and return its file."""
    folder = tmp_path_factory.mktemp("pages")

    def write(name: str, result: Reportable) -> Path:
        path = folder / f"{name}.html"
        if not path.exists():
            path.write_text(REPORT.render(result), encoding="utf-8")
        return path

    return write


@pytest.fixture
def show(browser: Page, write_page: Callable[[str, Reportable], Path], cases: Any) -> Callable[..., Page]:
    """Show the page of one of the golden cases."""

    def open_case(name: str, **how: Any) -> Page:
        browser.show(write_page(name, cases[name]), **how)
        return browser

    return open_case


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core."""
    spec = importlib.util.find_spec("axe_playwright_python")
    if spec is None or spec.origin is None:
        pytest.skip("axe-core is not installed: pip install 'fdprof[test]'")
    return Path(spec.origin).with_name("axe.min.js").read_text(encoding="utf-8")
