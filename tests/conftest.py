"""Fixtures of the whole suite, and the `gpu` marker: such tests are skipped, with the reason, where no GPU works."""

import importlib.util
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fdprof import plugins
from fdprof.backends.paddle import PaddleBackend
from fdprof.backends.sim import SimBackend
from fdprof.params import Extent
from fdprof.session import Session


def _load(name: str) -> ModuleType:
    """Return a module beside this file; with --import-mode=importlib the folder is not on sys.path."""
    spec = importlib.util.spec_from_file_location(f"fdprof_tests_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_BUILDERS = _load("builders")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="Write the golden files instead of comparing.")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("gpu")]
    # Asked only when it matters: the answer imports Paddle.
    problem = PaddleBackend.missing() if marked else None
    if problem is not None:
        for item in marked:
            item.add_marker(pytest.mark.skip(reason=problem[0]))


@pytest.fixture(scope="session")
def build() -> ModuleType:
    """The makers of tests/builders.py."""
    return _BUILDERS


@pytest.fixture(scope="session")
def cases() -> Any:
    """The results that the golden files show, by name: tests/golden_cases.py."""
    return _load("golden_cases").Cases(_BUILDERS)


@pytest.fixture(scope="session")
def golden(request: pytest.FixtureRequest) -> Callable[[str, str, str], None]:
    """Compare a whole text with tests/golden/<report>/<case>, or write it with --update-golden."""
    folder = Path(__file__).with_name("golden")

    def check(report: str, case: str, text: str) -> None:
        path = folder / report / case
        if request.config.getoption("--update-golden"):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode())
        assert path.is_file(), f"{path} is not there: look at the output, then pytest --update-golden"
        assert path.read_bytes().decode() == text

    return check


@pytest.fixture(scope="session")
def hostile() -> ModuleType:
    """The makers and checks of tests/hostile_files.py."""
    return _load("hostile_files")


@pytest.fixture(scope="session")
def captures() -> Path:
    """The folder of captures with known right answers, which lies beside the project and is not there for everybody."""
    folder = Path(__file__).parents[2] / "shared" / "captures"
    if not folder.is_dir():
        pytest.skip("the folder of shared captures (../shared/captures) is not there")
    return folder


@pytest.fixture
def sim() -> SimBackend:
    """A simulator of the shipped profile at virtual time 0."""
    return SimBackend(30)


@pytest.fixture
def round_sim(monkeypatch: pytest.MonkeyPatch) -> SimBackend:
    """A simulator of the builders' round, made-up costs."""
    monkeypatch.setattr("fdprof.backends.sim.load_profile", lambda name: _BUILDERS.round_profile())
    return SimBackend(30)


@pytest.fixture
def make_session() -> Callable[..., Session]:
    """Make a session; `params` are the scenario's, and the backend is a new simulator unless one is given."""

    def make(
        scenario: str = "stop_flag",
        backend: Any = None,
        steps: int = 20,
        warmup: int = 3,
        timeout: float = 30.0,
        **params: Any,
    ) -> Session:
        values = plugins.load("scenarios", scenario).params_type(**params)
        extent = Extent(steps=steps, warmup=warmup, timeout=timeout)
        return Session(backend or SimBackend(timeout), scenario, values, extent)

    return make


@pytest.fixture
def run_cli(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Run the command line in an empty folder and return its result: exit_code, stdout, stderr."""
    from typer.testing import CliRunner

    from fdprof.cli.app import app

    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Any:
        return CliRunner().invoke(app, list(arguments))

    return run


@pytest.fixture
def takes_signals() -> Iterator[None]:
    """Have SIGINT, SIGTERM and SIGHUP do what they do by default: under nohup or in a shell's job some are ignored."""
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
