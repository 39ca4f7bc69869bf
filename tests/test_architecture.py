# ruff: noqa: SIM300 - the expected value stands first
"""Who may import whom, and a few rules of form, read from the source with `ast`."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = {"fdprof": ROOT / "fdprof", **{f"fdprof.{name}": ROOT / name for name in ("ops", "scenarios", "reports")}}
MAX_LINES = 500


def _modules():
    """Return the path of every module by its dotted name."""
    found = {}
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join((package, *parts)).removesuffix(".__init__")] = path
    return found


MODULES = _modules()
TREES = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in MODULES.items()}
every_module = pytest.mark.parametrize("name", sorted(MODULES))


def _in(name, *packages):
    return any(name == package or name.startswith(package + ".") for package in packages)


def _imports(name):
    """Return the dotted names a module imports, at any depth; `from a import b` gives a.b if that is a module."""
    found = set()
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert 0 == node.level, f"{name} has a relative import in line {node.lineno}"
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES.keys()
            found.update(submodules or {node.module})
    return found


def _own_imports(name):
    return {imported for imported in _imports(name) if _in(imported, "fdprof")}


def _importers(library):
    return {name for name in MODULES if any(_in(imported, library) for imported in _imports(name))}


def _outside(names, *allowed):
    return sorted(name for name in names if not _in(name, *allowed))


def test_the_walk_sees_the_modules_and_their_imports():
    """The checks below are not empty: known modules are found and known imports are seen."""
    assert {"fdprof.model", "fdprof.backends._des", "fdprof.scenarios.stop_flag", "fdprof.ops.ops"} <= MODULES.keys()
    assert {"fdprof.errors", "numpy"} <= _imports("fdprof.model")
    assert "fdprof.plugins" in _imports("fdprof.session")  # written `from fdprof import plugins`
    assert "fdprof.errors" in _imports("fdprof.session")


def test_errors_import_nothing():
    """The bottom of the import graph."""
    assert set() == _imports("fdprof.errors")


def test_the_model_imports_only_errors():
    """The records know nothing else of the program, and no I/O, Paddle or pandas."""
    assert {"fdprof.errors"} == _own_imports("fdprof.model")
    assert not {"pathlib", "os", "io", "json", "paddle", "pandas"} & _imports("fdprof.model")


def test_units_import_nothing():
    """Formatting needs no other module."""
    assert set() == _imports("fdprof.units")


@pytest.mark.parametrize(
    ("library", "allowed"),
    [
        ("paddle", ("fdprof.backends.paddle", "fdprof.ops", "fdprof.cli.doctor", "fdprof.diagnosis")),
        ("pandas", ("fdprof.tables",)),
        ("rich", ("fdprof.cli", "fdprof.reports._console", "fdprof.reports._table", "fdprof.reports._bars")),
        ("typer", ("fdprof.cli", "fdprof.__main__")),
        ("nvtx", ("fdprof.markers",)),
        ("pynvml", ("fdprof.nvml",)),
        ("scipy", ("fdprof.analysis.resampling",)),
        ("jinja2", ("fdprof.reports._html.page",)),
        ("markupsafe", ("fdprof.reports._html.page",)),
        ("perfetto", ("fdprof.reports._perfetto.trace",)),
        ("msgspec", ("fdprof.importers._chrome",)),
        ("adbc_driver_sqlite", ("fdprof.importers._nsys_tables",)),
        ("sqlite3", ("fdprof.importers._nsys_tables",)),
    ],
)
def test_a_library_is_imported_only_where_it_belongs(library, allowed):
    """Replacing a library touches one place."""
    assert [] == _outside(_importers(library), *allowed)


def test_paddle_pandas_and_nvtx_are_imported_somewhere():
    """The rule above finds the imports it allows."""
    assert "fdprof.backends.paddle" in _importers("paddle")
    assert "fdprof.tables" in _importers("pandas")
    assert "fdprof.markers" in _importers("nvtx")


def test_the_capture_imports_only_the_model_and_below():
    """The columnar record knows no format and does no I/O."""
    assert {"fdprof.model"} == _own_imports("fdprof.capture")
    assert not {"pathlib", "os", "io", "json", "sqlite3", "pyarrow", "msgspec"} & _imports("fdprof.capture")


@pytest.mark.parametrize("name", sorted(name for name in MODULES if _in(name, "fdprof.importers")))
def test_importers_know_records_and_neither_analysis_nor_what_runs(name):
    """A format is read into a Capture, and nothing is concluded there."""
    closed = ("fdprof.analysis", "fdprof.backends", "fdprof.modes", "fdprof.session", "fdprof.cli", "fdprof.reports")
    assert [] == sorted(imported for imported in _own_imports(name) if _in(imported, *closed))


@pytest.mark.parametrize("name", sorted(name for name in MODULES if _in(name, "fdprof.tracers")))
def test_tracers_know_neither_each_other_nor_what_is_done_with_a_capture(name):
    """A tracer runs a command and leaves files; what several share is private to the folder, and no tracer."""
    own = _own_imports(name) - {name}
    shared = {"fdprof.tracers.protocol"} | {i for i in own if i.startswith("fdprof.tracers._")}
    assert [] == sorted(i for i in own if _in(i, "fdprof.tracers") and i not in shared)
    closed = ("fdprof.analysis", "fdprof.cli", "fdprof.reports", "fdprof.session", "fdprof.backends", "fdprof.overhead")
    assert [] == sorted(i for i in own if _in(i, *closed))


def test_the_collectors_library_needs_neither_paddle_nor_what_runs():
    """It is loaded into any process."""
    for name in (
        name for name in MODULES if _in(name, "fdprof.ops.collector", "fdprof.ops.toolkit", "fdprof.ops.cache")
    ):
        own = {i for i in _own_imports(name) if not _in(i, "fdprof.ops", "fdprof.errors")}
        assert [] == sorted(own), name
        assert "paddle" not in _imports(name)


ANALYSIS = sorted(name for name in MODULES if _in(name, "fdprof.analysis"))


@pytest.mark.parametrize("name", ANALYSIS)
def test_analysis_imports_only_records_units_errors_and_itself(name):
    """Analysis is a function of records."""
    records = ("fdprof.model", "fdprof.capture", "fdprof.finding", "fdprof.comparison", "fdprof.api_calls")
    records = (*records, "fdprof.run_capture", "fdprof.meanings")
    assert [] == _outside(_own_imports(name), "fdprof.analysis", "fdprof.units", "fdprof.errors", *records)


@pytest.mark.parametrize("name", ANALYSIS)
def test_analysis_does_no_io(name):
    """No file is opened and nothing printed."""
    assert not {"pathlib", "os", "io", "sys", "json", "sqlite3", "subprocess", "logging"} & _imports(name)
    called = {
        node.func.id for node in ast.walk(TREES[name]) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not {"open", "print", "input"} & called


@pytest.mark.parametrize("name", sorted(name for name in MODULES if _in(name, "fdprof.reports")))
def test_reports_import_neither_each_other_nor_what_runs(name):
    """A report shows what it is given; what several share is private to the folder, and no report."""
    own = _own_imports(name) - {name}
    shared = {"fdprof.reports", "fdprof.reports.protocol"} | {i for i in own if i.startswith("fdprof.reports._")}
    assert [] == sorted(i for i in own if _in(i, "fdprof.reports") and i not in shared)
    assert [] == sorted(i for i in own if _in(i, "fdprof.cli", "fdprof.session", "fdprof.backends"))


@pytest.mark.parametrize("name", sorted(name for name in MODULES if _in(name, "fdprof.modes")))
def test_modes_know_only_the_backend_protocol(name):
    """A mode runs on any backend, and knows neither another mode nor the recorder."""
    allowed = ("fdprof.backends.protocol", "fdprof.modes.protocol", "fdprof.model", "fdprof.errors")
    assert [] == _outside(_own_imports(name), *allowed)


@pytest.mark.parametrize("name", sorted(name for name in MODULES if _in(name, "fdprof.faults")))
def test_faults_know_no_mode_and_no_detector(name):
    """A fault stands between any mode and any backend, and what finds it is not told of it."""
    allowed = ("fdprof.backends.protocol", "fdprof.faults.protocol", "fdprof.model", "fdprof.tokens")
    assert [] == _outside(_own_imports(name), *allowed)


def test_the_detectors_know_no_fault():
    """They find a fault by what really happened."""
    assert not {imported for imported in _imports("fdprof.analysis.hazards") if _in(imported, "fdprof.faults")}


@pytest.mark.parametrize("name", sorted(name for name in MODULES if _in(name, "fdprof.scenarios")))
def test_scenarios_know_no_backend_and_no_mode(name):
    """Of backends and modes a scenario may see the protocols, and of other scenarios only theirs."""
    closed = ("fdprof.backends", "fdprof.modes", "fdprof.scenarios", "fdprof.session", "fdprof.recorder", "fdprof.cli")
    found = {imported for imported in _own_imports(name) if _in(imported, *closed)}
    assert [] == sorted(i for i in found if not i.endswith(".protocol"))


def test_one_backend_does_not_import_another():
    """sim works where paddle does not, and the other way round."""
    assert "fdprof.backends.paddle" not in _imports("fdprof.backends.sim")
    assert not {"fdprof.backends.sim", "fdprof.backends._des"} & _imports("fdprof.backends.paddle")


@every_module
def test_only_the_command_line_imports_the_command_line(name):
    """Everything below cli works as a library."""
    if not _in(name, "fdprof.cli", "fdprof.__main__"):
        assert [] == sorted(imported for imported in _own_imports(name) if _in(imported, "fdprof.cli"))


def _broad_handlers(name):
    """Return the handlers of `except:`, `except Exception` and `except BaseException`."""
    found = []
    for node in ast.walk(TREES[name]):
        if isinstance(node, ast.ExceptHandler):
            kinds = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
            if any(kind is None or ast.unparse(kind) in {"Exception", "BaseException"} for kind in kinds):
                found.append(node)
    return found


@every_module
def test_no_module_catches_everything(name):
    """A broad handler hides bugs; the command line has the one boundary that turns a bug into exit code 70."""
    if name != "fdprof.cli.app":
        assert [] == [handler.lineno for handler in _broad_handlers(name)]


@pytest.mark.skipif("fdprof.cli.app" not in MODULES, reason="there is no fdprof.cli.app yet")
def test_the_command_lines_boundary_is_one_and_ends_in_a_raise():
    """It may report a bug, but not go on after it."""
    handlers = _broad_handlers("fdprof.cli.app")
    assert len(handlers) <= 1
    assert all(isinstance(handler.body[-1], ast.Raise) for handler in handlers)


@every_module
def test_every_module_has_a_docstring(name):
    """Empty __init__ files aside."""
    assert not TREES[name].body or ast.get_docstring(TREES[name])


@every_module
def test_a_module_stays_below_500_lines(name):
    """A longer one does more than one thing."""
    assert len(MODULES[name].read_text(encoding="utf-8").splitlines()) < MAX_LINES


@pytest.mark.parametrize(
    "module",
    [
        "fdprof.session",
        pytest.param(
            "fdprof.cli.app",
            marks=pytest.mark.skipif("fdprof.cli.app" not in MODULES, reason="there is no fdprof.cli.app yet"),
        ),
    ],
)
def test_importing_it_loads_neither_paddle_nor_pandas(module):
    """Both take seconds: --help and the simulator must do without them."""
    code = f"import {module}, sys; print(*sorted({{'paddle', 'pandas', 'torch'}} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert "" == done.stdout.strip()
