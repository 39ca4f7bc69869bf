"""`fdprof doctor`: what works here and what does not, each with its fix."""

import dataclasses
import json as json_format

import typer

from fdprof.cli.options import Json

_MARKS = {"ok": "ok  ", "missing": "no  ", "unknown": "?   "}


def doctor(json: Json = False) -> None:
    """Check driver, GPU, nvcc, Paddle and its kernels, pinned memory, the ops, nsys and the collector."""
    from fdprof.diagnosis import diagnose

    checks = diagnose()
    if json:
        document = {"schema_version": 1, "kind": "doctor", "checks": [dataclasses.asdict(check) for check in checks]}
        typer.echo(json_format.dumps(document, indent=2))
        return
    for check in checks:
        typer.echo(f"{_MARKS[check.status]} {check.name}: {check.detail}")
        if check.fix:
            typer.echo(f"       {check.fix}")
