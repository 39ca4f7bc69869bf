"""Gives `run` and `compare` the options of the scenario that the command line names."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import typer

from fdprof import plugins
from fdprof.cli import compare, run
from fdprof.params import LoopParams

_COMMANDS: dict[str, Callable[[type[LoopParams]], Callable[..., None]]] = {
    "run": run.command_for,
    "compare": compare.command_for,
}
_OPTION = "--scenario"


def command_with_options(name: str, arguments: Sequence[str]) -> Any:
    """Return the command of that name for the scenario in its arguments, None where the usual one is right."""
    if name not in _COMMANDS:
        return None
    scenario = _named_scenario(arguments)
    if scenario is None:
        return None
    from fdprof.scenario_check import load_scenario  # NumPy is behind it, and --help must not wait for NumPy

    params_type: type[LoopParams] = load_scenario(scenario).params_type
    if params_type is LoopParams:
        return None
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(name)(_COMMANDS[name](params_type))
    return typer.main.get_command(app)


def _named_scenario(arguments: Sequence[str]) -> str | None:
    """Return the first argument that is a scenario's name or an existing .py file."""
    known = plugins.names("scenarios")
    for argument in arguments:
        candidate = argument.removeprefix(_OPTION + "=")
        if candidate.replace("-", "_") in known or (plugins.is_path(candidate) and Path(candidate).is_file()):
            return candidate
    return None
