"""The loop that a mode is recorded in: of the options, or of the saved run that it is compared with."""

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_type_hints

import typer

from fdprof import plugins
from fdprof.cli.comparands import Comparand
from fdprof.errors import InputError, UsageError
from fdprof.params import Extent, LoopParams
from fdprof.units import shown

_DISTRIBUTION = re.compile(r"fixed|(log)?normal:[\d.e+-]+")


@dataclass(frozen=True, slots=True)
class Loop:
    """Scenario, backend, and every parameter with its value."""

    scenario: str
    backend: str
    params_type: type[LoopParams]
    options: Mapping[str, Any]


def is_given(ctx: typer.Context, name: str) -> bool:
    """Return whether an option stands on the command line."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def loop_of(
    ctx: typer.Context,
    other: Comparand | None,
    scenario: str,
    backend: str,
    params_type: type[LoopParams],
    options: Mapping[str, Any],
) -> Loop:
    """Return the loop to record.

    Against a saved run or baseline it is that one's loop, but for what was given on the command line.  InputError
    where what was saved is no such loop; no name that was saved is ever taken for a path.
    """
    saved = {} if other is None else other.side.fields
    if other is None or "scenario" not in saved:
        return Loop(scenario, backend, params_type, options)

    from fdprof.scenario_check import load_scenario  # NumPy is behind it, and --help must not wait for NumPy

    label = shown(other.side.label)
    if not is_given(ctx, "scenario"):
        scenario = _known(saved["scenario"], "scenarios", label, "give its file: --scenario PATH")
    if not is_given(ctx, "backend"):
        backend = _known(saved.get("backend"), "backends", label, "give --backend")
    params_type = load_scenario(scenario).params_type
    values = {}
    for record in (params_type, Extent):
        taken = {}
        for field in dataclasses.fields(record):
            if field.name in saved and not is_given(ctx, field.name):
                taken[field.name] = _checked(saved[field.name], field, get_type_hints(record)[field.name], label)
            else:
                values[field.name] = options.get(field.name, field.default)
        try:
            record(**taken)
        except UsageError as error:
            raise InputError(f"{label}: its parameters are none: {error}", "save it again") from error
        values |= taken
    return Loop(scenario, backend, params_type, values)


def _known(name: object, kind: str, label: str, hint: str) -> str:
    """Return a saved name if it is that of a file of the project."""
    if isinstance(name, str) and name in plugins.names(kind):
        return name
    raise InputError(f"{label} is of {kind.removesuffix('s')} {shown(repr(name))}, which is not fdprof's own", hint)


def _checked(value: Any, field: "dataclasses.Field[Any]", expected: type, label: str) -> Any:
    """Return a saved parameter; InputError where it is of another kind, or names a file."""
    option = "--" + field.name.replace("_", "-")
    if expected is float and type(value) is int:
        value = float(value)
    if type(value) is not expected:
        raise InputError(
            f"{label}: its {field.name} is {shown(repr(value))}, expected {expected.__name__}", f"give {option}"
        )
    if "parse" in field.metadata and isinstance(value, str) and not _DISTRIBUTION.fullmatch(value):
        raise InputError(
            f"{label}: its {field.name} were read from the file {shown(repr(value))}", f"give {option} FILE"
        )
    return value
