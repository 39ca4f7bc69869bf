"""How many processes abort that read Parquet and end at once, by what Arrow is given to read from.

usage: python benchmarks/arrow_exit.py [RUN] [--times 120] [--at-once 4] [-o OUT.json]

`file of Python's` is what open() gives, `Arrow's own` what fdprof.parquet.opened does.  With the folder of a saved RUN
also `fdprof analyze RUN` and `fdprof report RUN`.  Arrow lets go of a file of Python's in one of its threads, and a
thread that asks for Python's lock while Python ends is ended, which C++ takes for a fault.  The rate depends on how
busy the machine is: compare within one run.
"""

import argparse
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from result_file import write

from fdprof.session import open_backend

_LIMIT_S = 120
_READ = """
import sys
from pathlib import Path
import pyarrow.parquet as pq
from fdprof.parquet import opened
path = Path(sys.argv[1])
for _ in range(3):
    with (path.open("rb") if sys.argv[2] == "python" else opened(path)) as file:
        pq.read_table(file)
"""


def _exit_code(command: list[str]) -> int:
    return subprocess.run(command, capture_output=True, timeout=_LIMIT_S).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, nargs="?")
    parser.add_argument("--times", type=int, default=120)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.parquet"
        pq.write_table(pa.table({name: list(range(500)) for name in "abcdefgh"}), path)
        commands = {
            "a file of Python's": [sys.executable, "-c", _READ, str(path), "python"],
            "Arrow's own": [sys.executable, "-c", _READ, str(path), "arrow"],
        }
        if options.run is not None:
            commands |= {
                f"fdprof {verb} RUN": [sys.executable, "-m", "fdprof", verb, str(options.run)]
                for verb in ("analyze", "report")
            }
        turns = list(commands) * options.times  # in turns, so that a busy moment falls on all of them
        with ThreadPoolExecutor(options.at_once) as pool:
            codes = list(pool.map(lambda name: _exit_code(commands[name]), turns))
    rows = {name: Counter(str(c) for t, c in zip(turns, codes, strict=True) if t == name) for name in commands}
    for name, counts in rows.items():
        print(f"{name:20}{dict(counts)} by exit code")
    if options.output is not None:
        backend, _ = open_backend("sim", 120.0)
        parameters = {"times": options.times, "at_once": options.at_once, "pyarrow": pa.__version__}
        write(options.output, "arrow_exit", "none", backend.environment(), parameters=parameters, exit_codes=rows)


if __name__ == "__main__":
    main()
