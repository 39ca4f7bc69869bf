"""Which commands run Python, and with which interpreter."""

# ruff: noqa: SIM300
import shutil
import sys
from pathlib import Path

import pytest

from fdprof.errors import UsageError
from fdprof.tracers._python_command import PythonCommand, python_command


@pytest.fixture
def bin_(tmp_path, monkeypatch):
    """A folder on PATH, alone there, with a python3 and a python3.11 in it."""
    folder = tmp_path / "b in"
    folder.mkdir()
    for name in ("python3", "python3.11"):
        (folder / name).symlink_to(sys.executable)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.chdir(tmp_path)
    return folder


def _script(path, text):
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    "words",
    [
        ("script.py",),
        ("script.py", "-I", "--with", "x"),
        ("-m", "package"),
        ("-mpackage", "-E"),
        ("-c", "print(1)", "-S"),
        ("-uBm", "package"),
        ("-W", "ignore", "script.py"),
        ("-Wignore", "script.py"),
        ("-X", "dev", "-O", "script.py"),
        ("-Xdev", "-q", "-c", ""),
        ("--check-hash-based-pycs", "never", "a script.py"),
        ("-i", "script.py"),
    ],
)
def test_python_with_a_program_is_a_python_command(bin_, words):
    """What stands behind the program is the program's, whatever it looks like."""
    assert PythonCommand(str(bin_ / "python3")) == python_command(("python3", *words))


def test_the_users_own_packages_stay_left_out(bin_):
    """-s decides what can be imported, so that the interpreter is asked with it."""
    assert ("-s",) == python_command(("python3", "-us", "script.py")).options


@pytest.mark.parametrize("words", [(), ("-",), ("-u",), ("-c",), ("-m",), ("-W",), ("-V",), ("-h",), ("--version",)])
def test_python_without_a_program_is_refused(bin_, words):
    """There would be nothing to profile, or nobody could say what."""
    with pytest.raises(UsageError, match="no program") as raised:
        python_command(("python3", *words))
    assert "python SCRIPT" in raised.value.hint
    assert "--with nsys" in raised.value.hint


@pytest.mark.parametrize("option", ["-I", "-E", "-S", "-uE", "-BIu"])
def test_an_option_that_keeps_the_profiler_out_is_refused_by_its_name(bin_, option):
    """Python would not read PYTHONPATH, or not run what lies there."""
    with pytest.raises(UsageError, match=r"\(-[IES]\)") as raised:
        python_command(("python3", option, "script.py"))
    assert "leave -" in raised.value.hint


@pytest.mark.parametrize(
    "first_line",
    [
        "#!{bin}/python3.11",
        "#! {bin}/python3.11 -u",
        "#!/usr/bin/env python3.11",
        "#!/usr/bin/env -S python3.11 -u",
        "#!/usr/bin/env -Spython3.11",
        "#!/usr/bin/env -S NAME=1 python3.11",
        "#!/bin/sh\n'''exec' \"{bin}/python3.11\" \"$0\" \"$@\"\n' '''",
    ],
)
def test_a_script_is_run_by_the_python_of_its_first_line(bin_, tmp_path, first_line):
    """The last one is what pip writes where the interpreter's path is long or holds a space."""
    plain = tmp_path / "plain"
    plain.symlink_to(bin_)  # a first line takes no space
    folder = bin_ if "exec" in first_line else plain
    _script(bin_ / "vllm", first_line.format(bin=folder) + "\nprint(1)\n")
    found = python_command(("vllm", "serve", "-I"))
    assert Path(sys.executable).resolve() == Path(found.interpreter).resolve()
    assert "python3.11" == Path(found.interpreter).name


def test_a_first_line_that_keeps_the_profiler_out_is_refused(bin_, tmp_path):
    """The hint of -I names the option; the message says where it stands."""
    script = _script(tmp_path / "tool", "#!/usr/bin/python3 -I\n")
    with pytest.raises(UsageError, match=r"the first line of .*tool.*-I"):
        python_command((str(script),))


@pytest.mark.parametrize("first", ["#!/bin/bash", "#!/usr/bin/env bash", "#!", "#!/usr/bin/env", "", "\x7fELF\x02"])
def test_a_program_whose_first_line_names_no_python_is_refused(bin_, tmp_path, first):
    """Binaries and shell scripts: the tracers that take any command are named."""
    program = _script(tmp_path / "program", first + "\n")
    with pytest.raises(UsageError, match="no Python command") as raised:
        python_command((str(program),))
    assert "--with nsys and --with fdprof" in raised.value.hint


def test_what_begins_with_any_bytes_is_no_python_command(bin_, tmp_path):
    """Bytes that are no text, and a pip line that a shell could not read."""
    program = _script(tmp_path / "program", "")
    for data in (b"#!\xff\xfe\x00python\n", b"#!/bin/sh\n'''exec' \"unclosed\n", bytes(range(256)) * 20):
        program.write_bytes(data)
        with pytest.raises(UsageError, match="no Python command"):
            python_command((str(program),))


def test_a_python_file_without_execute_permission_is_told_how_to_run(bin_, tmp_path):
    """The commonest slip: COMMAND is the script itself."""
    (tmp_path / "train.py").write_text("")
    for name in ("./train.py", "train.py"):
        with pytest.raises(UsageError) as raised:
            python_command((name,))
        assert f"python {name}" in raised.value.hint


def test_a_program_that_is_not_there_is_no_command(bin_):
    """As the shell says it."""
    with pytest.raises(UsageError, match="nothing-of-that-name"):
        python_command(("nothing-of-that-name", "script.py"))


def test_the_path_that_the_command_gets_is_the_one_searched(bin_, tmp_path):
    """Another PATH for the command finds another python3."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "python3").symlink_to(shutil.which(sys.executable))
    found = python_command(("python3", "x.py"), (("PATH", str(other)),))
    assert str(other / "python3") == found.interpreter
