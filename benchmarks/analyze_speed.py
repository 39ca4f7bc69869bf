"""Measure how fast `fdprof analyze` reads a capture, against other tools on the same files in the same run.

usage: python benchmarks/analyze_speed.py CAPTURE... [--nsys NSYS] [--hta-python PYTHON] [--nsys-ai NSYS_AI] [-o RESULT]

Each tool's value is a command line: a path, or a path with words before it ("env HOME=FOLDER nsys-ai").  Nsight Systems
and nsys-ai read .sqlite files, HolisticTraceAnalysis .json and .json.gz ones.  The tools take turns, so that a busy
moment of the machine does not fall on one of them only; the median of the turns is shown, and after a tool's first
turn that fails or takes too long it gets no other on that file.  Everything is read warm: the files were just copied.

The peak is the largest of any one process that the command started and waited for, not their sum.
"""

import argparse
import contextlib
import gzip
import os
import platform
import shlex
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# A process starts with the peak of the one it was forked from, so this one must stay small: fdprof, with NumPy and
# pandas, is imported only when everything is measured.

RULES = "cuda_api_sync,cuda_memcpy_async,cuda_memcpy_sync,gpu_gaps,gpu_time_util"
REPORTS = "cuda_api_sum,cuda_gpu_mem_time_sum,nvtx_gpu_proj_sum"
SKILLS = ("sync_cost_analysis", "gpu_idle_gaps")
HTA_PROGRAM = """
import sys
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_files={0: sys.argv[1]}, trace_dir="")
analysis.get_temporal_breakdown(visualize=False)
analysis.get_idle_time_breakdown(visualize=False)
analysis.get_cuda_kernel_launch_stats(ranks=[0], visualize=False)
"""
MIB = 1 << 20
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # getrusage(2): kilobytes, but bytes on macOS


@dataclass(frozen=True)
class Measurement:
    wall_s: float
    cpu_s: float
    peak_bytes: int
    problem: str | None = None  # None: it ran to its end and reported success


@dataclass
class Tool:
    """A tool on one file: the commands that together are its answer, and what each turn measured of them."""

    name: str
    commands: dict[str, list[str]]
    fresh_copy: bool = False  # it changes the file or leaves a cache beside it, so each turn gets a copy of its own
    turns: list[dict[str, Measurement]] = field(default_factory=list)

    def problem(self) -> str | None:
        """Return the first thing that went wrong, if anything did."""
        return next((part.problem for turn in self.turns for part in turn.values() if part.problem), None)

    def median(self, value: str, part: str | None = None) -> float:
        """Return the median over the turns of one part's value, or of all parts: times added, the largest peak."""
        add = max if value == "peak_bytes" else sum
        return statistics.median(
            add(getattr(measured, value) for name, measured in turn.items() if part in (None, name))
            for turn in self.turns
        )


def measure(command: list[str], timeout_s: float) -> Measurement:
    """Run a command to its end, or end it and all that it started."""
    with tempfile.TemporaryFile() as errors:
        begin = time.perf_counter()
        try:
            # A session of its own, so that what it started can be ended with it.
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True)
        except OSError as error:
            return Measurement(0, 0, 0, f"cannot start: {error.strerror}")
        timed_out = False

        def on_alarm(*_: object) -> None:
            nonlocal timed_out
            timed_out = True
            with contextlib.suppress(ProcessLookupError):  # it ended just now
                os.killpg(child.pid, signal.SIGKILL)

        previous = signal.signal(signal.SIGALRM, on_alarm)
        signal.setitimer(signal.ITIMER_REAL, timeout_s)
        try:
            _, status, usage = os.wait4(child.pid, 0)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, previous)
        wall_s = time.perf_counter() - begin
        child.returncode = os.waitstatus_to_exitcode(status)  # wait4 took it from under subprocess
        problem = None
        if timed_out:
            problem = f"not done after {timeout_s:g} s"
        elif child.returncode:
            errors.seek(0)
            lines = errors.read().decode("utf-8", "replace").split("\n")
            said = [line.strip(" │╭╰─╮╯") for line in lines]
            problem = f"failed ({child.returncode}): {next((line for line in reversed(said) if line), 'no message')}"
    return Measurement(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * MAXRSS_UNIT, problem)


def rows_of(path: Path) -> int:
    """Return the rows of all tables of an export, or the events of a trace."""
    if path.suffix == ".sqlite":
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        rows = sum(connection.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0] for name in tables)
        connection.close()
        return rows
    # Counted in pieces, not parsed: parsing would make this process large.  Every event has one "ph".
    found, end = 0, b""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        while piece := file.read(MIB):
            found += (end + piece).count(b'"ph":')
            end = piece[-4:]
    return found


def first_line(command: list[str]) -> str | None:
    """Return what a command says first, such as its version."""
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return next(iter(output.splitlines()), None)


def versions_of(options: argparse.Namespace) -> dict[str, str | None]:
    """Return each tool's version, of those asked for."""
    of_package = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
    versions = {}
    if options.nsys:
        versions["nsys"] = first_line([*options.nsys, "--version"])
    if options.hta_python:
        versions["hta"] = first_line([*options.hta_python, "-c", of_package, "HolisticTraceAnalysis"])
    if options.nsys_ai:
        listed = first_line([*options.nsys_ai, "--version"])  # 0.3.0 does not know it
        python = Path(options.nsys_ai[-1]).parent / "python"
        versions["nsys-ai"] = listed or first_line([str(python), "-c", of_package, "nsys-ai"])
    return versions


def tools_for(path: Path, folder: Path, options: argparse.Namespace) -> list[Tool]:
    """Return the tools that read this kind of file.  fdprof reads the file itself, others that may write a copy."""
    tools = [Tool("fdprof", {"analyze": [*options.fdprof, "analyze", str(path), "--json"]})]
    if path.suffix == ".sqlite":
        copy = str(folder / path.name)
        if options.nsys:
            analyze = [*options.nsys, "analyze", "--rule", RULES, "--format", "csv", copy]
            stats = [*options.nsys, "stats", "--report", REPORTS, "--format", "csv", copy]
            tools.append(Tool("nsys", {"analyze": analyze, "stats": stats}))
        if options.nsys_ai:
            own = str(folder / "nsys-ai" / path.name)
            commands = {skill: [*options.nsys_ai, "skill", "run", skill, own, "--format", "json"] for skill in SKILLS}
            tools.append(Tool("nsys-ai", commands, fresh_copy=True))
    elif options.hta_python:
        tools.append(Tool("hta", {"load and 3 tables": [*options.hta_python, "-c", HTA_PROGRAM, str(path)]}))
    return tools


def take_turns(path: Path, options: argparse.Namespace) -> list[Tool]:
    """Measure all tools on one file."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tools = tools_for(path, folder, options)
        if any(tool.name == "nsys" for tool in tools):
            shutil.copyfile(path, folder / path.name)
        for turn in range(options.repeat):
            for tool in tools:
                if tool.problem():
                    continue
                own = folder / tool.name
                if tool.fresh_copy:
                    own.mkdir()
                    shutil.copyfile(path, own / path.name)
                measured: dict[str, Measurement] = {}
                for part, command in tool.commands.items():
                    measured[part] = measure(command, options.timeout)
                    note = measured[part].problem or f"{measured[part].wall_s:.2f} s"
                    print(f"  turn {turn + 1}: {tool.name} {part}: {note}", file=sys.stderr, flush=True)
                tool.turns.append(measured)
                if tool.fresh_copy:
                    shutil.rmtree(own)
    return tools


def start_up(options: argparse.Namespace) -> tuple[str, float] | None:
    """Return the command that shows fdprof's start-up, and its median wall time."""
    for flag in ("--version", "--help"):
        turns = [measure([*options.fdprof, flag], options.timeout) for _ in range(max(5, options.repeat))]
        if not any(turn.problem for turn in turns):
            return f"fdprof {flag}", statistics.median(turn.wall_s for turn in turns)
    return None


def report(tools: list[Tool], rows: int, start_s: float | None) -> list[dict[str, Any]]:
    """Print one file's table and return it."""
    fdprof = tools[0]
    base_s = None if fdprof.problem() else fdprof.median("wall_s")
    table = []
    print(f"  {'tool':<9} {'part':<20} {'wall s':>8} {'CPU s':>8} {'peak MiB':>9} {'/ fdprof':>9}  problem")
    for tool in tools:
        parts: list[str | None] = list(tool.commands)
        for part in [*parts, None] if len(parts) > 1 else parts:
            wall_s, cpu_s = tool.median("wall_s", part), tool.median("cpu_s", part)
            peak = tool.median("peak_bytes", part)
            turns = [[m for name, m in turn.items() if part in (None, name)] for turn in tool.turns]
            problem = next((m.problem for turn in turns for m in turn if m.problem), None)
            ratio = wall_s / base_s if base_s and not problem else None
            table.append({"tool": tool.name, "part": part or "all", "wall_s": wall_s, "cpu_s": cpu_s})
            table[-1] |= {"peak_bytes": peak, "wall_ratio": ratio, "problem": problem}
            table[-1]["wall_turns_s"] = [sum(m.wall_s for m in turn) for turn in turns]
            table[-1]["peak_turns_bytes"] = [max(m.peak_bytes for m in turn) for turn in turns]
            print(
                f"  {tool.name:<9} {part or 'all':<20} {wall_s:8.2f} {cpu_s:8.2f} {peak / MIB:9.0f} "
                f"{'-' if ratio is None else f'{ratio:.2f}':>9}  {problem or ''}"
            )
    if base_s is not None and start_s is not None and base_s > start_s:
        speed = rows / (base_s - start_s)
        table[0]["rows_per_s"] = speed
        print(f"  fdprof: {speed:,.0f} rows/s, its start-up of {start_s:.2f} s not counted")
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("captures", type=Path, nargs="+")
    parser.add_argument("--fdprof", type=shlex.split, default=[sys.executable, "-m", "fdprof"])
    parser.add_argument("--nsys", type=shlex.split, help="Nsight Systems' nsys")
    parser.add_argument("--hta-python", type=shlex.split, help="a Python that has HolisticTraceAnalysis")
    parser.add_argument("--nsys-ai", type=shlex.split)
    parser.add_argument("--repeat", type=int, default=3, help="turns of each tool on each file")
    parser.add_argument("--timeout", type=float, default=240.0, help="s, of one command")
    parser.add_argument("-o", "--out", type=Path)
    options = parser.parse_args()
    for path in options.captures:
        if not path.is_file():
            parser.error(f"{path}: no such file")
    for name in ("nsys", "hta_python", "nsys_ai"):
        command = getattr(options, name)
        if not command or not shutil.which(command[0]):
            why = "not given" if not command else f"no program {command[0]}"
            print(f"skipped: {name.replace('_', '-')} ({why})")
            setattr(options, name, None)

    started = start_up(options)
    if started:
        print(f"start-up: {started[0]} {started[1]:.3f} s")
    files = []
    for path in options.captures:
        rows, size = rows_of(path), path.stat().st_size
        tools = take_turns(path, options)
        print(f"{path.name}: {rows:,} {'rows' if path.suffix == '.sqlite' else 'events'}, {size / 1e6:,.1f} MB")
        table = report(tools, rows, started[1] if started else None)
        files.append({"file": path.name, "size_bytes": size, "rows": rows, "tools": table})

    if options.out:
        versions = versions_of(options)
        from result_file import write

        from fdprof.model import Environment
        from fdprof.version import VERSION

        environment = Environment(
            fdprof=VERSION,
            python=platform.python_version(),
            os=f"{platform.system()} {platform.release()}",
            cpu=cpu_name(),
            cpu_count=os.cpu_count(),
        )
        start = {"command": started[0], "wall_s": started[1]} if started else None
        write(
            options.out,
            "analyze_speed",
            "none",
            environment,
            repeat=options.repeat,
            timeout_s=options.timeout,
            versions=versions,
            start_up=start,
            files=files,
        )


def cpu_name() -> str:
    """Return the processor's name as the system tells it."""
    information = Path("/proc/cpuinfo")
    lines = information.read_text(encoding="utf-8").splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


if __name__ == "__main__":
    main()
