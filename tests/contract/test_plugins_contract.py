# ruff: noqa: SIM300 - the expected value stands first
"""What every file of the plugin folders must provide, whatever files there are."""

import dataclasses
import inspect

import pytest
from fdprof.scenarios.protocol import Scenario

from fdprof import plugins
from fdprof.backends.protocol import DECODE_TENSORS, Backend, tensor_spec
from fdprof.model import Group, Memory
from fdprof.modes.protocol import Mode
from fdprof.params import LoopParams


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
    """transfer and read have the protocol's parameters, by name and order."""
    mode = plugins.load("modes", name)
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
def test_a_scenario_transfers_device_tensors_that_exist(name):
    """Each tensor of a group is a decode tensor with its shape for this batch."""
    scenario = plugins.load("scenarios", name)
    for group in scenario.groups(scenario.params_type(sequences=5)):
        for tensor in group.tensors:
            assert tensor.name in DECODE_TENSORS
            assert tensor_spec(tensor.name, 5) == tensor


@pytest.mark.parametrize("name", plugins.names("scenarios"))
def test_every_parameter_has_help_and_bounds_that_hold_its_default(name):
    """The command line makes its options from these."""
    for entry in dataclasses.fields(plugins.load("scenarios", name).params_type):
        assert entry.metadata["help"]
        assert entry.metadata["low"] <= entry.default <= entry.metadata["high"]


@pytest.mark.parametrize("name", plugins.names("backends"))
def test_a_backend_says_what_is_missing_or_nothing(name):
    """missing() gives None, or what is missing with how to supply it."""
    answer = plugins.load("backends", name).missing()
    assert answer is None or (len(answer) == 2 and all(isinstance(part, str) and part for part in answer))


@pytest.mark.parametrize("name", plugins.names("backends"))
def test_a_backend_offers_the_protocol_and_its_own_name(name):
    """All methods of the protocol are there; clock_ns may be set when it is made."""
    backend = plugins.load("backends", name)
    assert name == backend.name
    assert _methods(Backend) - {"clock_ns"} <= set(dir(backend))


def test_the_simulator_lacks_nothing(sim):
    """It works on every machine."""
    assert sim.missing() is None


@pytest.mark.parametrize("kind", ["modes", "scenarios", "backends"])
def test_every_plugin_file_says_what_it_is_in_its_docstring(kind):
    """The class or the module of a plugin is documented."""
    for name in plugins.names(kind):
        plugin = plugins.load(kind, name)
        assert inspect.getdoc(plugin if inspect.isclass(plugin) else type(plugin))
