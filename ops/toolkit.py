"""Finds the CUDA toolkit: compiler, headers and CUPTI's library."""

import importlib.util
import os
import shutil
from pathlib import Path


def cuda_home() -> Path | None:
    """Return the CUDA toolkit's folder: a guess only counts if both nvcc and the headers are there.

    Paddle takes the folder above the first nvcc on PATH, which has no headers if that nvcc is a wrapper script.
    """
    guesses = [Path(home) for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")) if home]
    on_path = shutil.which("nvcc")
    if on_path:
        guesses += [Path(on_path).parent.parent, Path(on_path).resolve().parent.parent]
    guesses.append(Path("/usr/local/cuda"))
    for home in guesses:
        if (home / "bin/nvcc").exists() and (home / "include/cuda_runtime.h").exists():
            return home
    return None


def package_folders() -> list[Path]:
    """Return the folders of NVIDIA's own packages from PyPI in this Python (nvidia-cuda-cupti-cu12 and the like)."""
    spec = importlib.util.find_spec("nvidia")
    places = [Path(place) for place in spec.submodule_search_locations or ()] if spec else []
    return [folder for place in places for folder in sorted(place.glob("*")) if folder.is_dir()]


def header_folders() -> list[Path]:
    """Return the folders that may hold CUDA's, CUPTI's and NVTX's headers, the toolkit's first."""
    home = cuda_home()
    folders = [home / "include", home / "extras" / "CUPTI" / "include"] if home else []
    folders += [folder / "include" for folder in package_folders()]
    return [folder for folder in folders if folder.is_dir()]


def cupti_library() -> Path | None:
    """Return CUPTI's library, the toolkit's first; None where neither it nor a package has one."""
    home = cuda_home()
    folders = [home / "extras" / "CUPTI" / "lib64", home / "lib64"] if home else []
    folders += [folder / "lib" for folder in package_folders()]
    found = (library for folder in folders for library in sorted(folder.glob("libcupti.so*"), reverse=True))
    return next(found, None)
