"""Finds Nsight Systems' command line, nsys, on this machine, and has it import and export what it recorded.

nsys records a .qdstrm file, which a program beside it, QdstrmImporter, makes into the .nsys-rep report; `nsys export`
makes sqlite of that.  Where a library of QdstrmImporter is missing, nsys leaves the .qdstrm alone and says little, so
that is looked into here.  Only this module knows where nsys lies and how it is called.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fdprof.errors import EnvironmentMissing, InputError

VARIABLE = "FDPROF_NSYS"
"""The environment variable that names the nsys to use."""

INSTALL = "install Nsight Systems, or set FDPROF_NSYS to the path of its nsys; runs without a profiler do not need it"

_TARGETS = {"x86_64": "target-linux-x64", "aarch64": "target-linux-sbsa-armv8"}
# Below the root of the file system, in the order of preference; of one pattern the newest.
_PLACES = (
    "opt/nvidia/nsight-systems/*/{target}/nsys",
    "opt/nvidia/nsight-compute/*/host/{target}/nsys",
    "usr/local/cuda*/bin/nsys",
)
_ELF = b"\x7fELF"
_VERSION = re.compile(r"version (\d+(?:\.\d+)+)")
_OPTION = re.compile(r"--[a-z][a-z-]+")
_WORD = re.compile(r"[a-z]+")
_ABSOLUTE = re.compile(r"/[^\s\"']+/nsys\b")
_LONGEST_WRAPPER = 4096
_NUMBERS = re.compile(r"\d+")
_NOT_FOUND = re.compile(r"^\s*(\S+) => not found", re.MULTILINE)
_LOADER_SAYS = re.compile(r"error while loading shared libraries: ([^\s:]+)")
# What a Debian or Ubuntu calls the packages of the libraries that have been seen missing.
_PACKAGES = {"libdw.so.1": "libdw1", "libelf.so.1": "libelf1"}

_ANSWER_S = 60  # on a cold file system it took 20 s for nsys to answer at all
_WORK_S = 1800  # importing or exporting: some 20 s a gigabyte of report


@dataclass(frozen=True, slots=True)
class Nsys:
    """One installation. `importer` is its QdstrmImporter, None where there is none."""

    path: Path
    version: str
    importer: Path | None

    @property
    def name(self) -> str:
        """The tool and its version in words."""
        return f"Nsight Systems {self.version}"


def find_nsys(root: Path = Path("/")) -> Nsys | None:
    """Return the nsys to use, None where there is none; EnvironmentMissing when the one that is named does not run.

    The one that FDPROF_NSYS names, else the one on PATH, else the newest of Nsight Systems' own folder, of Nsight
    Compute's, or of a CUDA toolkit's.  `root` is where those folders are looked for.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if shutil.which(named) is None:
            raise EnvironmentMissing(
                f"{VARIABLE} is {named}, which is no program that can be run",
                f"set it to the path of nsys, or unset it: unset {VARIABLE}",
            )
        return _nsys(Path(str(shutil.which(named))), root)
    on_path = shutil.which("nsys")
    if on_path is not None:
        return _nsys(Path(on_path), root)
    found = (_newest(root.glob(place.format(target=_target()))) for place in _PLACES)
    path = next((path for path in found if path is not None), None)
    return None if path is None else _nsys(path, root)


def require_nsys() -> Nsys:
    """Return the nsys to use; EnvironmentMissing where there is none."""
    nsys = find_nsys()
    if nsys is None:
        where = "neither on PATH nor in the folders of Nsight Systems, Nsight Compute or CUDA"
        raise EnvironmentMissing(f"nsys is not here: {where}", INSTALL)
    return nsys


def profile_options(nsys: Nsys) -> frozenset[str]:
    """Return the long options that `nsys profile --help` lists: they differ from version to version."""
    return frozenset(_OPTION.findall(_answer([str(nsys.path), "profile", "--help"])))


def export_formats(nsys: Nsys) -> frozenset[str]:
    """Return words of `nsys export --help`, the names of its formats among them."""
    return frozenset(_WORD.findall(_answer([str(nsys.path), "export", "--help"])))


def sampling_problem(nsys: Nsys) -> str | None:
    """Return why nsys cannot sample the CPU here, without which it takes no back-traces; None if it can."""
    done = _call([str(nsys.path), "status", "--environment"], _ANSWER_S)
    line = next((line for line in done.stdout.splitlines() if "(process-tree)" in line), "")
    if not line or line.rstrip().endswith("OK"):
        return None
    level = _paranoid_level()
    return (
        f"nsys may not sample the CPU here, so it takes no back-traces ({line.strip()}; "
        f"kernel.perf_event_paranoid is {'unknown' if level is None else level}): "
        "sudo sysctl kernel.perf_event_paranoid=2, and in a container allow the system call perf_event_open"
    )


def _paranoid_level() -> str | None:
    try:
        return Path("/proc/sys/kernel/perf_event_paranoid").read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None


def importer_problem(nsys: Nsys) -> EnvironmentMissing | None:
    """Return why this nsys can record and not write a report, with what to do about it; None if it can."""
    if nsys.importer is None:
        return EnvironmentMissing(
            f"nsys {nsys.version} at {nsys.path} cannot write reports: its QdstrmImporter is not installed",
            f"install the whole of Nsight Systems {nsys.version}, the host's programs included, or set {VARIABLE} to "
            "another nsys",
        )
    done = _call([str(nsys.importer), "--version"], _ANSWER_S, _libraries(nsys.importer))
    if done.returncode == 0:
        return None
    missing = missing_libraries(nsys.importer) or _LOADER_SAYS.findall(done.stderr)
    if not missing:
        return EnvironmentMissing(
            f"nsys {nsys.version} cannot write reports: {nsys.importer} --version fails with exit code "
            f"{done.returncode}: {_last(done)}",
            f"install Nsight Systems {nsys.version} again, or set {VARIABLE} to another nsys",
        )
    return EnvironmentMissing(
        f"nsys {nsys.version} cannot write reports: its importer {nsys.importer} lacks {', '.join(missing)}",
        _how_to_supply(missing),
    )


def missing_libraries(program: Path) -> list[str]:
    """Return the shared libraries that a program needs and that are not here, as ldd tells."""
    if shutil.which("ldd") is None:
        return []
    done = _call(["ldd", str(program)], _ANSWER_S, _libraries(program))
    return list(dict.fromkeys(_NOT_FOUND.findall(done.stdout)))


def make_report(nsys: Nsys, recording: Path, report: Path) -> None:
    """Make a report of a .qdstrm; EnvironmentMissing or InputError, with how to do it by hand, where nsys does not.

    The importer writes a few bytes behind the recording, which can be imported again all the same.
    """
    problem = importer_problem(nsys)
    if problem is not None or nsys.importer is None:
        message = f"{recording} is what nsys recorded, not yet a report. {problem}"
        raise EnvironmentMissing(message, f"{problem.hint if problem else INSTALL}; then: {by_hand(nsys, recording)}")
    command = [str(nsys.importer), "--input-file", str(recording), "--output-file", str(report)]
    done = _call(command, _WORK_S, _libraries(nsys.importer))
    if done.returncode or not report.exists():
        raise InputError(
            f"nsys did not import {recording} (exit code {done.returncode}): {_last(done)}",
            f"only the nsys that recorded it can import it (here {nsys.version}); by hand: {by_hand(nsys, recording)}",
        )


def export(nsys: Nsys, report: Path, output: Path, form: str = "sqlite") -> None:
    """Write a report out as sqlite, or in another of nsys's formats; InputError where nsys does not."""
    command = [str(nsys.path), "export", "--type", form, "--quiet", "true", "--output", str(output)]
    command += ["--lazy", "true"] if form == "sqlite" else []  # a table that is absent was not recorded; else it is 0
    is_done = False
    try:
        done = _call([*command, str(report)], _WORK_S)
        is_done = done.returncode == 0 and output.exists()
    finally:  # also when Ctrl-C comes
        if not is_done:
            output.unlink(missing_ok=True)
    if not is_done:
        raise InputError(
            f"nsys {nsys.version} did not export {report} (exit code {done.returncode}): {_last(done)}",
            "an older nsys cannot read a newer report; export it with the nsys that made it: "
            f"nsys export --type {form} {shlex.quote(report.name)}",
        )


def by_hand(nsys: Nsys, recording: Path) -> str:
    """Return the commands that make a .qdstrm into something that fdprof reads."""
    importer = nsys.importer or Path("QdstrmImporter")
    folders = f"{importer.parent}:FOLDER_OF_WHAT_IS_MISSING" if nsys.importer else "FOLDER_OF_WHAT_IS_MISSING"
    report = recording.with_suffix(".nsys-rep")
    steps = (
        f"LD_LIBRARY_PATH={shlex.quote(folders)} {shlex.quote(str(importer))} -i {shlex.quote(str(recording))}",
        f"{shlex.quote(str(nsys.path))} export --type sqlite {shlex.quote(str(report))}",
        f"fdprof analyze {shlex.quote(str(recording.with_suffix('.sqlite')))}",
    )
    return " && ".join(steps)


def _nsys(path: Path, root: Path) -> Nsys:
    version = _version(path)
    program = _program(path.resolve(), version, root)
    return Nsys(program, version, _importer(program))


def _version(path: Path) -> str:
    said = _answer([str(path), "--version"])
    match = _VERSION.search(said)
    if match is None:
        raise EnvironmentMissing(f"{path} --version names no version of Nsight Systems: {said[:200]!r}", INSTALL)
    return match[1]


def _is_version(path: Path, version: str) -> bool:
    try:
        return _version(path) == version
    except EnvironmentMissing:
        return False


def _program(path: Path, version: str, root: Path) -> Path:
    """Return the program itself where a shell script stands for it, as in a toolkit's bin; else the path as it is.

    Whoever has to tell nsys's own processes from those it started needs the one that really runs.
    """
    if _is_elf(path):
        return path
    target = f"{_target()}/nsys"
    places = (
        *path.parent.parent.glob(target),
        *path.parent.parent.glob(f"nsight-systems*/{target}"),
        *root.glob(f"opt/nvidia/nsight-systems/*/{target}"),
    )
    named = (Path(word) for word in _ABSOLUTE.findall(_head_of(path)))
    same = (place.resolve() for place in (*named, *places) if _is_elf(place) and _is_version(place, version))
    return next(same, path)


def _head_of(script: Path) -> str:
    """Return the beginning of a script, which a wrapper's whole is."""
    try:
        with script.open("rb") as file:
            return file.read(_LONGEST_WRAPPER).decode(errors="replace")
    except OSError:
        return ""


def _importer(program: Path) -> Path | None:
    """Return the QdstrmImporter that belongs to an nsys: nsys looks for it in the folders beside its own."""
    folder = program.parent.parent
    found = sorted([*folder.glob("*/QdstrmImporter"), *program.parent.glob("*/QdstrmImporter")])
    # Debian keeps the host's programs in another folder.
    found += sorted(folder.parent.parent.glob("nsight-systems/*/QdstrmImporter"))
    runnable = [path for path in found if os.access(path, os.X_OK)]
    here = [path for path in runnable if _target().removeprefix("target-linux") in path.parent.name]
    return next(iter(here or runnable), None)


def _target() -> str:
    return _TARGETS.get(platform.machine(), "target-linux-*")


def _newest(paths: Iterable[Path]) -> Path | None:
    """Return the path with the highest version in it, of those that can be run."""
    runnable = [path for path in paths if path.is_file() and os.access(path, os.X_OK)]
    return max(runnable, key=lambda path: ([int(one) for one in _NUMBERS.findall(str(path))], str(path)), default=None)


def _is_elf(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(4) == _ELF
    except OSError:
        return False


def _libraries(program: Path) -> dict[str, str]:
    """Return the environment that nsys starts its importer in: the importer's own folder comes first."""
    before = os.environ.get("LD_LIBRARY_PATH", "")
    return {**os.environ, "LD_LIBRARY_PATH": f"{program.parent}:{before}".rstrip(":")}


def _how_to_supply(missing: Sequence[str]) -> str:
    packages = [_PACKAGES[name] for name in missing if name in _PACKAGES]
    if "libdw1" in packages and "libelf1" not in packages:
        packages.append("libelf1")  # libdw needs it
    unknown = [name for name in missing if name not in _PACKAGES]
    ways = [f"sudo apt-get install {' '.join(packages)} (Debian, Ubuntu)"] if packages else []
    ways += [f"install the package that has {', '.join(unknown)}"] if unknown else []
    return "; ".join(ways) + "; or put a folder that holds them on LD_LIBRARY_PATH"


def _answer(command: Sequence[str]) -> str:
    done = _call(command, _ANSWER_S)
    if done.returncode:
        raise EnvironmentMissing(
            f"{' '.join(command)} fails with exit code {done.returncode}: {_last(done)}",
            f"install Nsight Systems again, or set {VARIABLE} to another nsys",
        )
    return done.stdout


def _call(
    command: Sequence[str], timeout_s: float, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            check=False,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentMissing(
            f"{command[0]} did not end within {timeout_s:.0f} s", "try it by hand: " + shlex.join(command)
        ) from error
    except OSError as error:
        raise EnvironmentMissing(
            f"{command[0]} cannot be run: {error.strerror or error}", f"set {VARIABLE} to another nsys"
        ) from error


def _last(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line that a program said, the one with the reason in it."""
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1].strip()[:300] if lines else "no message"
