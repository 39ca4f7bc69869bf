"""Do nsys and our collector see the same loop?  The analyses of both, of one scenario and mode each, side by side.

usage: python benchmarks/capture_agreement.py FOLDER -o OUT.json

FOLDER holds SCENARIO_MODE_TOOL.json, as `fdprof capture SCENARIO --mode MODE --with TOOL -o` writes them (the parts
`modes` and `scenarios` of profiler_session.sh).  Two captures are two runs of two processes, so the host's times
differ by what processes differ by; the device's work and the counts are those of the loop.
"""

import argparse
import json
from pathlib import Path
from typing import Any

_TOOLS = ("nsys", "fdprof")
_TIMES = ("window_ns", "device_busy_ns", "device_idle_ns", "host_blocked_ns")


def _row(document: dict[str, Any]) -> dict[str, Any]:
    mean, p50 = document["ledger"]["mean"], document["ledger"]["p50"]
    return {
        "steps": document["steps"],
        "p50": {name: p50[name] for name in _TIMES},
        "mean": {name: mean[name] for name in _TIMES},
        "idle_by_cause_ns": document["idle_by_cause_ns"],
        "residual_ns": document["residual_ns"],
        "syncs_per_step": document["syncs_per_step"],
        # Not in the order of their cost, which is the host's.
        "transfers": sorted([t["size_bytes"], t["per_step"], t["memory"], t["lag"]] for t in document["transfers"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    options = parser.parse_args()
    rows = []
    header = "".join(f"{name.removesuffix('_ns'):>24}" for name in _TIMES)
    print(f"p50, µs: nsys, fdprof, ratio\n{'':28}{header}   syncs  transfers")
    for path in sorted(options.folder.glob("*_nsys.json")):
        name = path.name.removesuffix("_nsys.json")
        documents = {tool: json.loads((options.folder / f"{name}_{tool}.json").read_text()) for tool in _TOOLS}
        nsys, ours = (_row(documents[tool]) for tool in _TOOLS)
        rows.append({"loop": name, "nsys": nsys, "fdprof": ours})
        cells = ""
        for time in _TIMES:
            a, b = nsys["p50"][time], ours["p50"][time]
            cells += f"{a / 1e3:9.1f}{b / 1e3:9.1f}" + (f"{b / a:6.3f}" if a else "     -")
        same = [
            "same" if nsys[key] == ours[key] else f"{nsys[key]} {ours[key]}" for key in ("syncs_per_step", "transfers")
        ]
        print(f"{name:28}{cells}   {'  '.join(same)}")
    options.output.write_text(json.dumps({"benchmark": "capture_agreement", "loops": rows}) + "\n", encoding="utf-8")
    print(f"wrote {options.output}")


if __name__ == "__main__":
    main()
