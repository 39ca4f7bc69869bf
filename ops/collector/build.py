"""Builds the collector's library, once, into the cache of the ops.

It is linked with neither Paddle, nor Python, nor CUPTI, so that any process can load it.
"""

import hashlib
import platform
import shutil
import subprocess
from pathlib import Path

from fdprof.ops.cache import build_once, cache_folder, whole
from fdprof.ops.toolkit import header_folders

from fdprof.errors import EnvironmentMissing

TIMEOUT_S = 300.0
"""Ten times the slowest build seen."""

_SOURCES = Path(__file__).parent / "csrc"
_LIBRARY = "libfdprof_collector.so"
_HEADERS = ("cupti.h", "cupti_version.h", "cuda.h", "crt/host_defines.h", "nvtx3/nvToolsExt.h")
_FLAGS = ("-std=c++17", "-O2", "-shared", "-fPIC", "-fvisibility=hidden")
_SHOWN_LINES = 15


def collector_library(timeout_s: float = TIMEOUT_S) -> Path:
    """Return the library, building it first if the cache has none.

    Raises EnvironmentMissing if a compiler or CUPTI's headers are missing, if the build fails or takes longer, or if
    the cache cannot be written.
    """
    folders = _require_headers()
    version = (_folder_of("cupti_version.h", folders) / "cupti_version.h").read_bytes()
    library = cache_folder() / f"collector-{_key(version)}" / _LIBRARY
    found = whole(library)
    if found is not None:
        return found
    if shutil.which("g++") is None:
        raise EnvironmentMissing("the collector needs a C++ compiler, and there is no g++", "install g++ 8 or newer")
    about = {"headers": [str(folder) for folder in folders]}
    return build_once(library, lambda into: _compile(into, folders, timeout_s), about, timeout_s)


def _key(version: bytes) -> str:
    digest = hashlib.sha256(f"{platform.machine()} {_FLAGS}".encode() + version)
    for path in sorted(_SOURCES.iterdir()):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:20]


def _folder_of(header: str, folders: list[Path]) -> Path:
    return next(folder for folder in folders if (folder / header).exists())


def _require_headers() -> list[Path]:
    folders = header_folders()
    missing = [header for header in _HEADERS if not any((folder / header).exists() for folder in folders)]
    if missing:
        raise EnvironmentMissing(
            f"the collector is built with the headers of CUDA, and there is no {' and no '.join(missing)}",
            "install the CUDA toolkit and set CUDA_HOME to it, or pip install nvidia-cuda-cupti-cu12 "
            "nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12 nvidia-nvtx-cu12",
        )
    return folders


def _compile(into: Path, folders: list[Path], timeout_s: float) -> None:
    includes = [f"-I{folder}" for folder in folders]
    sources = [str(path) for path in sorted(_SOURCES.glob("*.cc"))]
    command = ["g++", *_FLAGS, *includes, *sources, "-o", str(into), "-ldl", "-lpthread"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=timeout_s, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired as error:
        raise EnvironmentMissing(f"the collector was not built within {timeout_s:g} s") from error
    if done.returncode:
        lines = "\n".join(done.stderr.strip().splitlines()[:_SHOWN_LINES])
        raise EnvironmentMissing(
            f"the collector could not be built (exit code {done.returncode}):\n{lines}",
            "mend what the compiler names; `fdprof doctor` shows which versions are in use",
        )
