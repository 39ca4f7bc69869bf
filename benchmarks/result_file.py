"""The file that a benchmark leaves: which benchmark, on what and when, and its own tables."""

import dataclasses
import json
import time
from pathlib import Path
from typing import Any

from fdprof.model import Environment


def write(output: Path, benchmark: str, backend: str, environment: Environment, **tables: Any) -> None:
    """Write one JSON document and say where."""
    document = {
        "benchmark": benchmark,
        "backend": backend,
        "when": time.strftime("%Y-%m-%d"),
        "environment": dataclasses.asdict(environment),
        **tables,
    }
    output.write_text(json.dumps(document) + "\n", encoding="utf-8")
    print(f"wrote {output}")
