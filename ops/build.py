"""Builds the native ops with paddle.utils.cpp_extension and keeps the result in a cache.

It must not run kernels, and a failing build must never end the process.  One folder of the cache holds one build,
named by a hash of all that shapes it: the source bytes, Paddle's and Python's version, CUDA or not, and the GPU
architectures.
"""

import hashlib
import importlib.machinery
import importlib.util
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from fdprof.ops.cache import build_once, cache_folder, whole
from fdprof.ops.toolkit import cuda_home

from fdprof.errors import EnvironmentMissing

MODULE_NAME = "fdprof_ops"
"""The name in PYBIND11_MODULE, which the file must carry too."""

BUILD_CUDA_VARIABLE = "FDPROF_BUILD_CUDA"
ARCHS_VARIABLE = "FDPROF_CUDA_ARCHS"

BUILD_TIMEOUT_S = 900.0
"""Several times the slowest build seen, on a laptop's two cores."""

_SOURCE_FOLDER = Path(__file__).parent / "csrc"
_LIBRARY = f"{MODULE_NAME}.so"
_SHOWN_LINES = 15

# Runs in a child process, because Paddle's load() ends the process on some failures, prints, and imports what it built.
_CHILD = """
import json, sys
from paddle.utils.cpp_extension import load
load(**json.loads(sys.argv[1]))
"""


@dataclass(frozen=True, slots=True)
class Target:
    """What is built for; `cuda_archs` ("90" is compute capability 9.0) is empty for the CPU build."""

    paddle: str
    python: str
    machine: str
    cuda_archs: tuple[str, ...]

    @property
    def for_cuda(self) -> bool:
        return bool(self.cuda_archs)


def current_target() -> Target:
    """Return the target of this process: CUDA if its Paddle has it and sees a GPU, or FDPROF_BUILD_CUDA=1 demands it.

    The architectures are FDPROF_CUDA_ARCHS ("90" or "80,90"), or else the compute capability of Paddle's current GPU.
    """
    paddle = _import_paddle()
    archs: tuple[str, ...] = ()
    is_demanded = os.environ.get(BUILD_CUDA_VARIABLE) == "1"
    if is_demanded and not paddle.is_compiled_with_cuda():
        raise EnvironmentMissing(
            f"{BUILD_CUDA_VARIABLE}=1, but this paddlepaddle {paddle.__version__} is built for the CPU",
            f"install paddlepaddle-gpu or unset {BUILD_CUDA_VARIABLE}",
        )
    if paddle.is_compiled_with_cuda() and (is_demanded or paddle.device.cuda.device_count() > 0):
        archs = _cuda_archs(paddle)
    return Target(
        # full_version tells apart builds that share __version__; the commit tells apart development wheels.
        paddle=f"{paddle.__version__}+{getattr(paddle.version, 'commit', 'unknown')[:12]}",
        python=f"{sys.implementation.name}-{sys.version_info.major}.{sys.version_info.minor}",
        machine=platform.machine(),
        cuda_archs=archs,
    )


def sources(target: Target) -> list[Path]:
    """Return the files to compile, in a fixed order; the CUDA kernels only for a CUDA target."""
    found = sorted(_SOURCE_FOLDER.glob("*.cc"))
    return found + sorted(_SOURCE_FOLDER.glob("cuda/*.cu")) if target.for_cuda else found


def build_key(target: Target) -> str:
    """Return the name of the target's folder in the cache: 20 hex digits of a hash of all that shapes the build."""
    digest = hashlib.sha256(json.dumps([asdict(target), _flags(target)], sort_keys=True).encode())
    for path in sorted(path for path in _SOURCE_FOLDER.rglob("*") if path.is_file()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(_SOURCE_FOLDER).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:20]


def path_of_library(target: Target) -> Path:
    """Return where the target's library is, or will be once built."""
    return cache_folder() / build_key(target) / _LIBRARY


def built_library(target: Target) -> Path | None:
    """Return the target's library if it is in the cache, whole; None otherwise."""
    return whole(path_of_library(target))


def build(target: Target, *, verbose: bool = False, timeout_s: float = BUILD_TIMEOUT_S) -> Path:
    """Return the target's library, building it first if the cache has none; the timeout bounds wait and build each.

    Raises EnvironmentMissing if the cache cannot be written, a compiler is missing, or the build fails or takes longer.
    """
    library = built_library(target)
    if library is not None:
        return library
    _require_compilers(target)
    return build_once(
        path_of_library(target), lambda into: _compile(target, into, verbose, timeout_s), asdict(target), timeout_s
    )


def import_library(library: Path) -> ModuleType:
    """Return the module in a built library; it registers nothing with Paddle, as all ops are plain functions."""
    _import_paddle()  # the symbols are resolved in Paddle's libraries
    loader = importlib.machinery.ExtensionFileLoader(MODULE_NAME, str(library))
    spec = importlib.util.spec_from_loader(MODULE_NAME, loader)
    assert spec is not None
    try:
        module = importlib.util.module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        raise EnvironmentMissing(
            f"the built ops cannot be loaded: {error}",
            f"remove the folder {library.parent}, so that they are built again",
        ) from error
    return module


def _import_paddle() -> Any:
    try:
        import paddle
    except ImportError as error:
        raise EnvironmentMissing(
            f"the ops need Paddle, which cannot be imported ({error})", "pip install 'fdprof[paddle]'"
        ) from error
    return paddle


def _cuda_archs(paddle: Any) -> tuple[str, ...]:
    chosen = os.environ.get(ARCHS_VARIABLE)
    if chosen:
        archs = tuple(sorted({arch.strip() for arch in chosen.split(",") if arch.strip()}))
        if archs and all(arch.rstrip("af").isdigit() for arch in archs):
            return archs
        raise EnvironmentMissing(
            f"{ARCHS_VARIABLE} is {chosen!r}, expected numbers such as 90 or 80,90",
            f"correct or unset {ARCHS_VARIABLE}",
        )
    if paddle.device.cuda.device_count() < 1:
        raise EnvironmentMissing(
            f"{BUILD_CUDA_VARIABLE}=1 without a GPU does not say what to build for",
            f"set {ARCHS_VARIABLE}, for instance 90 for an H200",
        )
    major, minor = paddle.device.cuda.get_device_capability()
    return (f"{major}{minor}",)


def _flags(target: Target) -> dict[str, list[str]]:
    # -std: Paddle 2.6 would append c++14.  -gencode: Paddle 2.6 gives none, and nvcc's default is an old architecture.
    gencode = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in target.cuda_archs]
    return {
        "extra_cxx_cflags": ["-std=c++17", "-O2", "-w"],
        "extra_cuda_cflags": ["-std=c++17", "-O2", *gencode] if target.for_cuda else [],
    }


def _cuda_includes() -> list[str]:
    """Return the toolkit's header folders for g++, which nvcc would know: since CUDA 13 Thrust lies apart, in cccl."""
    home = cuda_home()
    folders = [home / "include", home / "include" / "cccl"] if home else []
    return [str(folder) for folder in folders if folder.is_dir()]


def _require_compilers(target: Target) -> None:
    if not any(shutil.which(name) for name in ("g++", "c++")):
        raise EnvironmentMissing("the ops need a C++ compiler, and there is no g++", "install g++ 8 or newer")
    if target.for_cuda and cuda_home() is None:
        raise EnvironmentMissing(
            "the ops need nvcc and the CUDA headers for a Paddle built for CUDA, and there are none",
            "install the CUDA toolkit, or set CUDA_HOME to it",
        )


def _compile(target: Target, into: Path, verbose: bool, timeout_s: float) -> None:
    # Not in the cache: Paddle passes the folder through a shell unquoted, so it must hold no blank.
    with tempfile.TemporaryDirectory(prefix="fdprof-build-") as folder:
        arguments = {
            "name": MODULE_NAME,
            "sources": [str(path) for path in sources(target)],
            "build_directory": folder,
            "verbose": True,  # into the log, which holds the compiler's words if it fails
            # Not among the flags: a library built on one machine must have the same key on another.
            "extra_include_paths": _cuda_includes() if target.for_cuda else [],
            **_flags(target),
        }
        output = _run_child([sys.executable, "-c", _CHILD, json.dumps(arguments)], folder, verbose, timeout_s)
        built = next(iter(Path(folder).rglob(_LIBRARY)), None)
        if built is None:
            raise EnvironmentMissing(
                "the ops could not be built: Paddle's build ended without a library; its last lines:\n" + output
            )
        shutil.copyfile(built, into)


def _run_child(command: list[str], folder: str, verbose: bool, timeout_s: float) -> str:
    """Return the last lines the command wrote; raise EnvironmentMissing with them if it failed."""
    home = cuda_home()
    environment = {
        "GLOG_minloglevel": "2",  # Paddle's warnings about the card are doctor's business
        **os.environ,
        **({"CUDA_HOME": str(home)} if home else {}),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    log = Path(folder) / "build.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=None if verbose else file,
            stderr=None if verbose else file,
            start_new_session=True,  # so that compilers can be ended with it
        )
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    output = _telling_lines(log.read_text(encoding="utf-8", errors="replace"))
    if code is None:
        raise EnvironmentMissing(f"the ops were not built within {timeout_s:g} s; last lines:\n{output}")
    library_exists = any(Path(folder).rglob(_LIBRARY))
    if code != 0 and not library_exists:
        raise EnvironmentMissing(
            f"the ops could not be built (exit code {code}); last lines:\n{output}",
            "mend what the compiler names; `fdprof doctor` shows which versions are in use",
        )
    return output


def _telling_lines(log: str) -> str:
    """Return the compiler's errors if it wrote any, else the last lines: Paddle ends the log with two tracebacks."""
    lines = log.splitlines()
    errors = [line for line in lines if re.search(r"\berror: |\bfatal\b|^nvcc fatal|: undefined reference", line)]
    return "\n".join(errors[:_SHOWN_LINES] or lines[-_SHOWN_LINES:])
