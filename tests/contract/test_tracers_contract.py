"""What every file of fdprof/tracers that provides a TRACER must keep to, whatever files there are."""

# ruff: noqa: SIM300 - the expected value stands first
import importlib
import inspect
import pkgutil
import sys
from dataclasses import replace

import pytest

from fdprof import tracers
from fdprof.errors import EnvironmentMissing, FdprofError, UsageError
from fdprof.tracers.protocol import CUDA_PROFILER_API, Request, Tracer

NAMES = sorted(module.name for module in pkgutil.iter_modules(tracers.__path__) if not module.name.startswith("_"))
PROVIDING = [name for name in NAMES if hasattr(importlib.import_module(f"fdprof.tracers.{name}"), "TRACER")]
every_tracer = pytest.mark.parametrize("name", PROVIDING)


def tracer(name):
    return importlib.import_module(f"fdprof.tracers.{name}").TRACER


@pytest.fixture
def request_of(tmp_path):
    """Make a request of a Python command."""
    folder = tmp_path / "folder"
    folder.mkdir()

    def made(**more):
        given = {"command": (sys.executable, "-c", "pass"), "folder": folder, "limit_s": 60}
        return Request(**(given | more))

    return made


def test_the_four_tracers_are_there():
    """The tests below are not empty, and only the protocol provides none."""
    assert {"nsys", "fdprof", "torch", "paddle"} <= set(PROVIDING)
    assert ["protocol"] == [name for name in NAMES if name not in PROVIDING]


@every_tracer
def test_a_tracer_has_the_members_of_the_protocol(name):
    """Each method has the protocol's parameters, by name and order, and what is no method has its type."""
    for member, value in vars(Tracer).items():
        if member.startswith("_"):
            continue
        its = getattr(tracer(name), member)
        assert list(inspect.signature(value).parameters)[1:] == list(inspect.signature(its).parameters)
    for member, kind in inspect.get_annotations(Tracer, eval_str=True).items():
        assert isinstance(getattr(tracer(name), member), kind)


@every_tracer
def test_a_tracer_says_in_words_which_profiler_it_is(name):
    """One line, for messages and lists."""
    text = tracer(name).tool
    assert text == text.strip() and text.isprintable() and 3 <= len(text) <= 60


def test_no_two_tracers_are_called_the_same():
    assert len(PROVIDING) == len({tracer(name).tool for name in PROVIDING})


@every_tracer
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"command": ("no-such-command-anywhere",)},
        {"command": ("/",)},
        {"command": ("",)},
        {"command": ("a\0b",)},
        {"command": (sys.executable,)},
        {"command": (sys.executable, "no/such/file.py")},
        {"command": ("true", "\udcff")},
        {"graph_trace": "node"},
        {"graph_trace": "nothing"},
        {"capture_range": CUDA_PROFILER_API},
        {"capture_range": "a@b"},
        {"capture_range": ""},
        {"capture_range": "measured", "repeat": 3},
        {"repeat": 3},
        {"environment": (("PATH", ""),)},
        {"environment": (("PATH", "/nowhere"),), "command": ("python3", "-c", "pass")},
        {"quiet": True, "limit_s": 0.001},
    ],
)
def test_missing_returns_a_reason_or_none_and_never_raises(name, more, request_of):
    """A reason is a usage error or something that is missing here, and says what to do; nothing is run or written."""
    request = request_of(**more)
    problem = tracer(name).missing(request)
    assert problem is None or isinstance(problem, UsageError | EnvironmentMissing)
    if problem is not None:
        assert str(problem).isprintable() and problem.hint
    assert [] == list(request.folder.iterdir())


@every_tracer
def test_missing_on_a_machine_with_nothing_on_it_returns_a_reason_or_none(name, request_of, monkeypatch, tmp_path):
    """No PATH, no toolkit, no cache and no home."""
    for variable in ("CUDA_HOME", "CUDA_PATH", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("FDPROF_CACHE_DIR", "/dev/null/cache")
    problem = tracer(name).missing(request_of())
    assert problem is None or (isinstance(problem, FdprofError) and problem.hint)


@every_tracer
@pytest.mark.parametrize("more", [{"command": ("no-such-command-anywhere",)}, {"repeat": 3}])
def test_a_request_that_means_nothing_anywhere_is_refused(name, more, request_of):
    """Whatever is installed; several captures of one command need a range to begin at."""
    assert isinstance(tracer(name).missing(request_of(**more)), UsageError | EnvironmentMissing)


@every_tracer
def test_the_same_question_has_the_same_answer(name, request_of):
    """Asking changes nothing."""
    first, second = (tracer(name).missing(replace(request_of(), limit_s=5)) for _ in range(2))
    assert (type(first), str(first)) == (type(second), str(second))
