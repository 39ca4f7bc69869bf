"""`fdprof scenarios` and `fdprof modes`: what there is to choose from."""

import json as json_format
from typing import Any

import typer

from fdprof import plugins, units
from fdprof.cli.options import Json
from fdprof.params import LoopParams


def scenarios(json: Json = False) -> None:
    """List the scenarios with what each moves a step."""
    rows = []
    for name in plugins.names("scenarios"):
        scenario = plugins.load("scenarios", name)
        params: LoopParams = scenario.params_type()
        tensors = [tensor for group in scenario.groups(params) for tensor in group.tensors]
        rows.append(
            {
                "name": name,
                "transfers": [{"name": tensor.name, "size_bytes": tensor.size_bytes} for tensor in tensors],
                "sequences": params.sequences,
                "source": scenario.source,
                "summary": (type(scenario).__doc__ or "").strip().splitlines()[0],
            }
        )
    _print(json, "scenarios", rows, _scenario_line)


def modes(json: Json = False) -> None:
    """List the transfer modes: host memory, fence, lag and source."""
    rows = []
    for name in plugins.names("modes"):
        mode = plugins.load("modes", name)
        rows.append(
            {
                "name": name,
                "memory": mode.memory.value,
                "fence": mode.fence,
                "lag": mode.lag,
                "source": mode.source,
                "summary": (mode.__doc__ or "").strip().splitlines()[0],
            }
        )
    _print(json, "modes", rows, _mode_line)


def _scenario_line(row: dict[str, Any]) -> str:
    moved = ", ".join(f"{transfer['name']} {units.size(transfer['size_bytes'])}" for transfer in row["transfers"])
    return f"{row['name']:<12} {row['summary']}\n{'':<12} to the host each step: {moved}; source: {row['source']}"


def _mode_line(row: dict[str, Any]) -> str:
    return (
        f"{row['name']:<12} {row['summary']}\n"
        f"{'':<12} {row['memory']} memory, lag {row['lag']}; fence: {row['fence']}; source: {row['source']}"
    )


def _print(as_json: bool, kind: str, rows: list[dict[str, Any]], line: Any) -> None:
    if as_json:
        typer.echo(json_format.dumps({"schema_version": 1, "kind": kind, kind: rows}, indent=2))
        return
    for row in rows:
        typer.echo(line(row))
