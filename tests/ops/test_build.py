"""The build and its cache: whole or not at all, whatever else happens."""

import fcntl
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fdprof.errors import EnvironmentMissing

paddle = pytest.importorskip("paddle", reason="the ops need Paddle, which is not installed")

from fdprof.ops import build  # noqa: E402  after the skip
from fdprof.ops.cache import CACHE_VARIABLE  # noqa: E402

WAIT_S = 600


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    folder = tmp_path / "a cache"  # the blank is on purpose: Paddle's build cannot take one
    monkeypatch.setenv(CACHE_VARIABLE, str(folder))
    return folder


def test_importing_the_package_does_not_import_paddle() -> None:
    """`import fdprof.ops` and its modules are free of Paddle until the first op is used."""
    program = "import sys, fdprof.ops, fdprof.ops.ops, fdprof.ops.build; print('paddle' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_two_processes_building_at_once_end_with_one_library(cache: Path) -> None:
    """Both load the same file, nothing half-built remains, and what a killed build left does not matter."""
    folder = cache / build.build_key(build.current_target())
    folder.mkdir(parents=True)
    (folder / "fdprof_ops.so").write_bytes(b"half a library")
    (cache / f".{folder.name}-killed").mkdir()
    program = (
        "from fdprof.ops import ops\n"
        "e = ops.Event(); e.record() if not ops.built_for_cuda else None\n"
        "print(ops.load().__file__)\n"
    )
    processes = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate(timeout=WAIT_S) for process in processes]
    library = folder / "fdprof_ops.so"
    for process, (output, errors) in zip(processes, outputs, strict=True):
        assert process.returncode == 0, errors
        assert str(library) == output.splitlines()[-1]
    assert [library] == list(cache.rglob("*.so"))
    assert [folder, cache / f"{folder.name}.lock"] == sorted(cache.iterdir())


def test_a_half_built_folder_is_not_used(cache: Path) -> None:
    """A library counts only with the manifest that is written after it, and with the size stated there."""
    target = build.current_target()
    library = build.path_of_library(target)
    library.parent.mkdir(parents=True)
    assert cache == library.parent.parent
    library.write_bytes(b"half a library")
    assert build.built_library(target) is None
    (library.parent / "build.json").write_text("{")
    assert build.built_library(target) is None
    (library.parent / "build.json").write_text(json.dumps({"size_bytes": 999}))
    assert build.built_library(target) is None
    (library.parent / "build.json").write_text(json.dumps({"size_bytes": len(b"half a library")}))
    assert library == build.built_library(target)


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message has the folder, the hint the variable that moves it."""
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "file" / "cache"))
    with pytest.raises(EnvironmentMissing, match=r"cannot be built into the cache .*file/cache") as caught:
        build.build(build.current_target())
    assert CACHE_VARIABLE in str(caught.value.hint)


def test_a_failed_build_shows_what_the_compiler_said(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not Paddle's traceback around it; and the cache holds nothing that looks built."""
    broken = tmp_path / "csrc"
    broken.mkdir()
    (broken / "broken.cc").write_text("int main( { }\n")
    monkeypatch.setattr(build, "_SOURCE_FOLDER", broken)
    target = build.Target(paddle="any", python="any", machine="any", cuda_archs=())
    with pytest.raises(EnvironmentMissing, match=r"(?s)could not be built.*broken\.cc:1:\d+: error:") as caught:
        build.build(target)
    assert "Traceback" not in str(caught.value)
    assert build.built_library(target) is None
    assert [path for path in cache.iterdir() if path.is_dir()] == []


def test_a_build_that_takes_too_long_is_ended(cache: Path) -> None:
    """The compilers end with it, and the message says how long it was given."""
    target = build.Target(paddle="any", python="any", machine="any", cuda_archs=())
    with pytest.raises(EnvironmentMissing, match=r"not built within 0\.01 s"):
        build.build(target, timeout_s=0.01)
    assert build.built_library(target) is None


def test_waiting_for_another_build_has_a_timeout(cache: Path) -> None:
    """The lock's file is named, so that its holder can be found."""
    target = build.current_target()
    cache.mkdir()
    lock = cache / f"{build.build_key(target)}.lock"
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(EnvironmentMissing, match=r"another process has been building the ops for 0\.05 s"):
            build.build(target, timeout_s=0.05)


def test_a_missing_compiler_is_named(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before Paddle's build is tried, which would end in a traceback."""
    monkeypatch.setenv("PATH", "")
    with pytest.raises(EnvironmentMissing, match=r"need a C\+\+ compiler"):
        build.build(build.Target(paddle="any", python="any", machine="any", cuda_archs=()))


def test_the_key_changes_with_all_that_shapes_the_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paddle, Python, machine, architectures and source bytes."""
    base = build.Target(paddle="1", python="1", machine="1", cuda_archs=())
    others = [
        build.Target(paddle="2", python="1", machine="1", cuda_archs=()),
        build.Target(paddle="1", python="2", machine="1", cuda_archs=()),
        build.Target(paddle="1", python="1", machine="2", cuda_archs=()),
        build.Target(paddle="1", python="1", machine="1", cuda_archs=("90",)),
    ]
    keys = {build.build_key(target) for target in (base, *others)}
    (tmp_path / "one.cc").write_text("int a;")
    monkeypatch.setattr(build, "_SOURCE_FOLDER", tmp_path)
    keys.add(build.build_key(base))
    (tmp_path / "one.cc").write_text("int b;")
    keys.add(build.build_key(base))
    assert len(keys) == 7


@pytest.mark.skipif(paddle.is_compiled_with_cuda(), reason="this Paddle is built for CUDA")
def test_cuda_demanded_of_a_cpu_paddle_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """FDPROF_BUILD_CUDA=1 cannot give a Paddle what it lacks."""
    monkeypatch.setenv(build.BUILD_CUDA_VARIABLE, "1")
    with pytest.raises(EnvironmentMissing, match="built for the CPU"):
        build.current_target()
