# ruff: noqa: SIM300 - the expected value stands first
"""What every file of the plugin folders must provide, whatever files there are."""

import dataclasses
import inspect

import pytest
from fdprof.reports.protocol import EVERY
from fdprof.scenarios.protocol import Scenario

from fdprof import plugins
from fdprof.backends.protocol import Backend
from fdprof.faults.protocol import Fault
from fdprof.importers.protocol import Importer
from fdprof.model import Group, HazardCode, Memory
from fdprof.modes.protocol import Mode
from fdprof.params import LoopParams
from fdprof.scenario_check import check_scenario, load_scenario


def _methods(protocol):
    return {name for name, value in vars(protocol).items() if inspect.isfunction(value) and not name.startswith("_")}


@pytest.mark.parametrize("name", plugins.names("modes"))
def test_a_mode_states_memory_fence_lag_and_source(name):
    """A report can say what the mode is without running it."""
    mode = plugins.load("modes", name)
    assert isinstance(mode.memory, Memory)
    assert isinstance(mode.lag, int) and mode.lag >= 0
    assert isinstance(mode.fence, str) and mode.fence
    assert isinstance(mode.source, str) and mode.source


@pytest.mark.parametrize("name", plugins.names("modes"))
def test_a_mode_takes_the_calls_of_the_protocol(name):
    """Each method has the protocol's parameters, by name and order."""
    mode = plugins.load("modes", name)
    assert issubclass(mode, Mode)
    for method in _methods(Mode):
        assert list(inspect.signature(getattr(Mode, method)).parameters) == list(
            inspect.signature(getattr(mode, method)).parameters
        )
    assert ["self", "device", "groups"] == list(inspect.signature(mode.__init__).parameters)


@pytest.mark.parametrize("name", plugins.names("scenarios"))
def test_a_scenario_states_source_parameters_and_groups(name):
    """The parameters' type is a LoopParams with defaults, so the scenario's transfers are known before it runs."""
    scenario = plugins.load("scenarios", name)
    assert isinstance(scenario.source, str) and scenario.source
    assert issubclass(scenario.params_type, LoopParams)
    groups = scenario.groups(scenario.params_type())
    assert groups and all(isinstance(group, Group) for group in groups)
    assert len({group.name for group in groups}) == len(groups)
    assert _methods(Scenario) <= {member for member in dir(scenario) if callable(getattr(scenario, member))}


@pytest.mark.parametrize("name", plugins.names("scenarios"))
def test_a_scenario_declares_what_a_backend_can_carry(name):
    """The check that a user's own scenario must pass, for one row and for many."""
    scenario = load_scenario(name)
    for sequences in (1, 5, 64):
        params = scenario.params_type(sequences=sequences)
        check_scenario(scenario.groups(params), scenario.stream(params, 9), scenario.has_prepare)


@pytest.mark.parametrize("name", plugins.names("scenarios"))
def test_every_parameter_has_help_and_bounds_that_hold_its_default(name):
    """The command line makes its options from these."""
    for entry in dataclasses.fields(plugins.load("scenarios", name).params_type):
        assert entry.metadata["help"]
        if "choices" in entry.metadata:
            assert entry.default in entry.metadata["choices"]
        elif "low" in entry.metadata:
            assert entry.metadata["low"] <= entry.default <= entry.metadata["high"]
        else:
            entry.metadata["parse"](entry.default, "--option")


@pytest.mark.parametrize("name", plugins.names("faults"))
def test_a_fault_states_its_hazard_where_it_shows_and_its_source(name):
    """The laboratory runs it there, in a scenario and a correct mode that exist."""
    fault = plugins.load("faults", name)
    assert issubclass(fault, Fault)
    assert isinstance(fault.hazard, HazardCode)
    scenario, mode = fault.shows_in
    assert scenario in plugins.names("scenarios") and mode in plugins.names("modes")
    assert not plugins.load("modes", mode).is_control
    assert name == fault.name()
    assert fault.source


def test_every_hazard_has_a_fault_that_shows_its_detector():
    """A detector without one would be a claim that nothing tests."""
    assert set(HazardCode) == {plugins.load("faults", name).hazard for name in plugins.names("faults")}


@pytest.mark.parametrize("name", plugins.names("backends"))
def test_a_backend_says_what_is_missing_or_nothing(name):
    """missing() gives None, or what is missing with how to supply it."""
    answer = plugins.load("backends", name).missing()
    assert answer is None or (len(answer) == 2 and all(isinstance(part, str) and part for part in answer))


@pytest.mark.parametrize("name", plugins.names("backends"))
def test_a_backend_offers_the_protocol_and_its_own_name(name):
    """All methods of the protocol are there; the two clocks may be set when it is made."""
    backend = plugins.load("backends", name)
    assert name == backend.name
    assert _methods(Backend) - {"clock_ns", "thread_cpu_ns"} <= set(dir(backend))


def test_the_simulator_lacks_nothing(sim):
    """It works on every machine."""
    assert sim.missing() is None


@pytest.mark.parametrize("kind", ["modes", "scenarios", "backends", "faults"])
def test_every_plugin_file_says_what_it_is_in_its_docstring(kind):
    """The class or the module of a plugin is documented."""
    for name in plugins.names(kind):
        plugin = plugins.load(kind, name)
        assert inspect.getdoc(plugin if inspect.isclass(plugin) else type(plugin))


@pytest.mark.parametrize("name", plugins.names("importers"))
def test_an_importer_names_its_format_and_takes_the_calls_of_the_protocol(name):
    """A message can say what is read, and a file of another kind is left to the others."""
    importer = plugins.load("importers", name)
    assert isinstance(importer.format, str) and importer.format
    for method in _methods(Importer):
        expected = list(inspect.signature(getattr(Importer, method)).parameters)[1:]
        assert expected == list(inspect.signature(getattr(importer, method)).parameters)


@pytest.mark.parametrize("name", plugins.names("importers"))
def test_an_importer_does_not_take_what_is_no_capture(name, tmp_path):
    """Empty heads, text, other binaries and folders of something else belong to nobody."""
    importer = plugins.load("importers", name)
    (tmp_path / "notes.txt").write_text("notes", encoding="utf-8")
    assert not importer.sniff(tmp_path, b"")
    for head in (b"", b"notes", bytes(range(256))):
        assert not importer.sniff(tmp_path / "notes.txt", head)


@pytest.mark.parametrize("name", plugins.names("reports"))
def test_a_report_states_its_ending_and_what_it_can_show(name):
    """Outputs are matched by it in lower case, and a result of another kind is refused before anything is run."""
    report = plugins.load("reports", name)
    assert report.suffix.startswith(".") and report.suffix == report.suffix.lower()
    assert report.renders and set(report.renders) <= set(EVERY)
    assert ["result"] == list(inspect.signature(report.render).parameters)


def test_no_two_reports_share_an_ending():
    """The ending alone chooses."""
    endings = [plugins.load("reports", name).suffix for name in plugins.names("reports")]
    assert len(endings) == len(set(endings))


@pytest.mark.parametrize("name", plugins.names("reports"))
def test_a_report_shows_every_result_that_it_says_it_can(name, cases):
    """Of every kind, whatever is lacking in it and whatever it is called; a text ends in one line end."""
    report = plugins.load("reports", name)
    shown = [case for case in cases.names if isinstance(cases[case], report.renders)]
    assert set(report.renders) == {type(cases[case]) for case in shown}
    for case in shown:
        made = report.render(cases[case])
        assert made == report.render(cases[case]), f"{case} twice"
        assert made
        if isinstance(made, str):
            assert made.endswith("\n") and not made.endswith("\n\n"), case
            assert "\x1b" not in made and "\x07" not in made, case
