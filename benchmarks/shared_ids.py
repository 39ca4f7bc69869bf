"""In which captures calls share their correlation ids: fdprof uses such a capture up to the first of them.

usage: python benchmarks/shared_ids.py CAPTURE... [-o OUT.txt]

A line a capture: its format, its name, how many calls it has, and `ends` where it is not used whole.
"""

import argparse
from collections import Counter
from pathlib import Path

from fdprof.errors import FdprofError
from fdprof.imports import import_capture
from fdprof.joinable import joinable


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", type=Path, nargs="+")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    lines, counts = [], Counter[str]()
    for path in options.captures:
        try:
            capture = joinable(import_capture(path, lambda _: None))  # saved captures are joined already, and not cut
        except FdprofError as error:
            lines.append(f"{'refused':14}{path.name}: {str(error).replace(str(path), path.name)[:100]}")
            continue
        ends = [limit for limit in capture.limits if "share their correlation ids" in limit]
        lines.append(
            f"{capture.source:14}{path.name}: {len(capture.api):,} calls" + "".join(f"; ends: {e}" for e in ends)
        )
        counts[capture.source] += 1
        counts["of which end early"] += bool(ends)
    lines.append(", ".join(f"{name} {count}" for name, count in sorted(counts.items())))
    print("\n".join(lines))
    if options.output is not None:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
