"""Gives `run`, `compare`, `capture` and `overhead` the options of the scenario that the command line names."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import typer

from fdprof import plugins
from fdprof.cli import capture, compare, overhead, run
from fdprof.errors import UsageError
from fdprof.params import LoopParams

_COMMANDS: dict[str, Callable[[type[LoopParams]], Callable[..., None]]] = {
    "run": run.command_for,
    "compare": compare.command_for,
    "capture": capture.of_scenario,
    "overhead": overhead.command_for,
}
_OPTION = "--scenario"
_FLAGS = frozenset(
    {"--audit", "--diagnose", "--measure-inflation", "--json", "--force", "--save", "--no-save", "--help", "--"}
)


def command_with_options(name: str, arguments: Sequence[str]) -> Any:
    """Return the command of that name for the scenario in its arguments, None where the usual one is right."""
    if name not in _COMMANDS:
        return None
    if name == "capture":
        if "--" in arguments:
            return _captures_a_command(arguments)
        _require_scenario(arguments)
    scenario = _named_scenario(name, arguments)
    if scenario is None:
        return None
    from fdprof.scenario_check import load_scenario  # NumPy is behind it, and --help must not wait for NumPy

    params_type: type[LoopParams] = load_scenario(scenario).params_type
    if params_type is LoopParams:
        return None
    return _click(name, _COMMANDS[name](params_type))


def _click(name: str, function: Callable[..., None]) -> Any:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    app.command(name)(function)
    return typer.main.get_command(app)


def _captures_a_command(arguments: Sequence[str]) -> Any:
    """Return `capture` for the command behind the --, which Click does not tell apart; UsageError with both kinds."""
    own = arguments[: list(arguments).index("--")]
    before = [value for option, value in _pairs(own) if option is None]
    if before:
        raise UsageError(
            f"{before[0]!r} stands before the --, where only options of fdprof do",
            "give a scenario, or a command behind the --",
        )
    return _click("capture", capture.of_command())


def _require_scenario(arguments: Sequence[str]) -> None:
    first = next((value for option, value in _pairs(arguments) if option is None), None)
    if first is not None and "--help" not in arguments:
        capture.require_scenario(first, arguments)


def _named_scenario(name: str, arguments: Sequence[str]) -> str | None:
    """Return the scenario that the arguments name, if it is there: the first that is no option and no option's value.

    `compare` names it by --scenario, of which the last counts.
    """
    found = [value for option, value in _pairs(arguments) if option == (_OPTION if name == "compare" else None)]
    if not found:
        return None
    scenario = found[-1] if name == "compare" else found[0]
    is_there = scenario.replace("-", "_") in plugins.names("scenarios") or Path(scenario).is_file()
    return scenario if is_there else None


def _pairs(arguments: Sequence[str]) -> Iterator[tuple[str | None, str]]:
    """Yield each value with its option, None for a positional one."""
    waiting: str | None = None
    for argument in arguments:
        if waiting is not None:
            yield waiting, argument
            waiting = None
        elif not argument.startswith("-") or argument == "-":
            yield None, argument
        elif "=" in argument:
            option, value = argument.split("=", 1)
            yield option, value
        elif argument not in _FLAGS:
            waiting = argument
