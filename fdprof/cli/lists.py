"""`fdprof scenarios` and `fdprof modes`: what there is to choose from, and what each moves a step.

What is moved is counted, not declared: each is run for a few steps on the simulator, with the journal on.
"""

import json as json_format
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fdprof import plugins, units
from fdprof.cli.options import Json
from fdprof.params import Extent, LoopParams

if TYPE_CHECKING:  # NumPy is behind it, and --help must not wait for NumPy
    from fdprof.analysis.movement import Movement

_STEPS = 16
"""Enough for two inserted requests of insert_tasks."""


def scenarios(json: Json = False) -> None:
    """List the scenarios with what each moves a step."""
    rows = []
    for name in plugins.names("scenarios"):
        scenario = plugins.load("scenarios", name)
        params: LoopParams = scenario.params_type()
        moved = _movements(name, plugins.names("modes"))
        of = moved["sync"]
        rows.append(
            {
                "name": name,
                "groups": [
                    {
                        "name": group.name,
                        "direction": group.direction.value,
                        "needed_in_step": group.needed_in_step,
                        "transfers": [{"name": t.name, "size_bytes": t.size_bytes} for t in group.tensors],
                    }
                    for group in scenario.groups(params)
                ],
                "sequences": params.sequences,
                "transfers_per_step": of.transfers,
                "to_host_bytes_per_step": of.to_host_bytes,
                "to_device_bytes_per_step": of.to_device_bytes,
                "syncs_per_step": {mode: movement.syncs for mode, movement in moved.items()},
                "host_memory_bytes": {mode: movement.host_memory_bytes for mode, movement in moved.items()},
                "source": scenario.source,
                "summary": _summary(type(scenario)),
            }
        )
    _print(json, "scenarios", rows, _scenario_lines)


def modes(
    scenario: Annotated[
        str, typer.Option("--scenario", help="The scenario whose transfers are counted.")
    ] = "stop_flag",
    json: Json = False,
) -> None:
    """List the transfer modes with what each moves a step."""
    rows = []
    moved = _movements(scenario, plugins.names("modes"))
    for name, movement in moved.items():
        mode = plugins.load("modes", name)
        rows.append(
            {
                "name": name,
                "memory": mode.memory.value,
                "fence": mode.fence,
                "lag": mode.lag,
                "scenario": scenario,
                "transfers_per_step": movement.transfers,
                "to_host_bytes_per_step": movement.to_host_bytes,
                "to_device_bytes_per_step": movement.to_device_bytes,
                "syncs_per_step": movement.syncs,
                "host_memory_bytes": movement.host_memory_bytes,
                "source": mode.source,
                "summary": _summary(mode),
            }
        )
    _print(json, "modes", rows, _mode_lines)


def _movements(scenario: str, modes: list[str]) -> "dict[str, Movement]":
    """Return what each mode moves in a step of the scenario."""
    from fdprof.analysis.movement import movement_of
    from fdprof.scenario_check import load_scenario
    from fdprof.session import Session, open_backend

    loaded = load_scenario(scenario)
    params = loaded.params_type()
    backend, _ = open_backend("sim", 30.0)
    session = Session(backend, scenario, params, Extent(steps=_STEPS, warmup=1), audit=True)
    return {mode: movement_of(session.block(mode, 0), loaded.groups(params)) for mode in modes}


def _summary(documented: Any) -> str:
    return (documented.__doc__ or "").strip().splitlines()[0]


def _scenario_lines(row: dict[str, Any]) -> str:
    lines = [f"{row['name']}: {row['summary']}"]
    for group in row["groups"]:
        moved = ", ".join(f"{transfer['name']} {units.size(transfer['size_bytes'])}" for transfer in _shown(group))
        needed = ", needed in the same step" if group["needed_in_step"] else ""
        lines.append(f"{group['name']}, {group['direction']}{needed}: {moved}")
    lines.append(
        f"a step of {row['sequences']} sequences: {_count(row['transfers_per_step'])} transfers, "
        f"{units.size(round(row['to_host_bytes_per_step']))} to the host, "
        f"{units.size(round(row['to_device_bytes_per_step']))} to the device"
    )
    lines.append("syncs a step: " + ", ".join(f"{mode} {_count(n)}" for mode, n in row["syncs_per_step"].items()))
    held = ", ".join(f"{mode} {units.size(n)}" for mode, n in row["host_memory_bytes"].items())
    lines.append(f"host memory: {held}")
    lines.append(f"source: {row['source']}")
    return "\n    ".join(lines)


def _shown(group: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the transfers of a group, those numbered alike as one."""
    shown: dict[str, dict[str, Any]] = {}
    for transfer in group["transfers"]:
        stem = transfer["name"].rstrip("0123456789").rstrip("_")
        shown.setdefault(stem if stem != transfer["name"] else transfer["name"], {"sizes": []})["sizes"].append(
            transfer["size_bytes"]
        )
    return [
        {
            "name": name if len(entry["sizes"]) == 1 else f"{len(entry['sizes'])} × {name}",
            "size_bytes": entry["sizes"][0],
        }
        for name, entry in shown.items()
    ]


def _mode_lines(row: dict[str, Any]) -> str:
    return "\n    ".join(
        [
            f"{row['name']}: {row['summary']}",
            f"a step of {row['scenario']}: {_count(row['transfers_per_step'])} transfers, "
            f"{units.size(round(row['to_host_bytes_per_step']))} to the host, "
            f"{units.size(round(row['to_device_bytes_per_step']))} to the device, "
            f"{_count(row['syncs_per_step'])} syncs; "
            f"host memory: {row['memory']}, {units.size(row['host_memory_bytes'])}; lag {row['lag']}",
            f"fence: {row['fence']}",
            f"source: {row['source']}",
        ]
    )


def _count(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _print(as_json: bool, kind: str, rows: list[dict[str, Any]], lines: Any) -> None:
    if as_json:
        typer.echo(json_format.dumps({"schema_version": 1, "kind": kind, kind: rows}, indent=2))
        return
    for row in rows:
        typer.echo(lines(row))
