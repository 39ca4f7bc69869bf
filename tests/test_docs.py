"""README and help say what is true: names, commands, and the output that the README shows."""

# ruff: noqa: SIM300
import gzip
import re
import shlex
from pathlib import Path

import pytest

from fdprof import plugins
from fdprof.backends.paddle import PaddleBackend

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COMMANDS = ("run", "compare", "analyze", "report", "scenarios", "modes", "hazards", "doctor", "capture", "overhead")


@pytest.mark.parametrize("name", [*plugins.names("modes"), *plugins.names("scenarios"), *plugins.names("backends")])
def test_every_mode_scenario_and_backend_is_named_in_the_readme(name):
    """A plugin that the README does not name cannot be found."""
    assert f"`{name}`" in README


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_and_is_named_in_the_readme(run_cli, command):
    """Help is the command's docstring."""
    done = run_cli(command, "--help")
    assert 0 == done.exit_code
    assert done.stdout.strip()
    assert f"fdprof {command}" in README


def _examples():
    # Every fence is read, so that the end of one block is not taken for the start of the next.
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    blocks = [text for language, text in fences if not language]
    lines = [line.split("#")[0].split(">")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("fdprof ") and not line.startswith(("fdprof:", "fdprof doctor"))]


@pytest.mark.parametrize("line", _examples())
def test_every_example_of_the_readme_runs_on_the_simulator(run_cli, line):
    """Exit 0, or 5 for what is wrong on purpose and must be caught."""
    words = shlex.split(line)[1:]
    # Not runs/, which holds what the reader of the README made.
    arguments = [str(ROOT / word) if word.startswith(("docs/", "tests/")) else word for word in words]
    Path("runs").mkdir()
    export = ROOT / "tests" / "data" / "h200-2026-11-30" / "stop_flag_async.nsys.sqlite.gz"
    Path("runs", "capture.sqlite").write_bytes(gzip.decompress(export.read_bytes()))
    reads_captures = any(word.endswith(".gz") for word in arguments)
    if arguments[0] in ("run", "compare") and not reads_captures:
        arguments += ["--backend", "sim"]
    if "--baseline" in arguments:  # the line above it in the README
        assert 0 == run_cli("compare", "sync", "--save-baseline", "runs/base.json", "--backend", "sim").exit_code
    assert (5 if "unfenced" in line or "--fault" in line else 0) == run_cli(*arguments).exit_code


def _captures():
    blocks = re.findall(r"^```sh\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    lines = [line.split("#")[0].strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("fdprof ") and " -- " not in line]


@pytest.mark.skipif(PaddleBackend.missing() is None, reason="a GPU works here, on which these would run")
@pytest.mark.parametrize("line", _captures())
def test_what_needs_a_gpu_is_written_as_it_must_be(run_cli, line):
    """Exit code 6, something is missing, and not 2: the options are right."""
    assert 6 == run_cli(*shlex.split(line)[1:]).exit_code


def test_the_loop_of_ones_own_that_the_readme_names_runs_in_every_mode(run_cli):
    """docs/my_loop.py is complete: its values are right, its option is taken, its transfers are listed."""
    for mode in plugins.names("modes"):
        options = ("--mode", mode, "--embedding", "300", "--backend", "sim", "--steps", "20", "--no-save")
        done = run_cli("run", str(ROOT / "docs" / "my_loop.py"), *options)
        assert (5 if plugins.load("modes", mode).is_control else 0) == done.exit_code
        assert "transfer hidden_state: 1.2 KiB device to host" in done.stdout
    assert "fdprof run docs/my_loop.py --mode overlap --embedding 4096" in README


def _shown(marker):
    return re.search(rf"<!-- output: {marker} -->\n```\n(.*?)^```", README, re.DOTALL | re.MULTILINE).group(1)


def test_the_output_on_the_first_screen_is_what_the_command_prints(run_cli):
    """The simulator is deterministic, so the README can be exact."""
    assert _shown("compare") == run_cli("compare", "sync", "async", "--backend", "sim").stdout


def test_the_capture_in_the_readme_is_analyzed_as_shown(run_cli, monkeypatch):
    """The file is in the repository, so the README can be exact; it stops where the longest steps begin."""
    line = next(line for line in _examples() if line.startswith("fdprof analyze") and "--steps" in line)
    monkeypatch.chdir(ROOT)
    shown = _shown("analyze")
    assert shown.endswith("\n...\n")
    assert run_cli(*shlex.split(line)[1:]).stdout.startswith(shown.removesuffix("...\n"))


def test_the_caught_control_is_what_the_command_prints(run_cli):
    """The message of exit 5, whole."""
    assert _shown("unfenced") in run_cli("run", "stop_flag", "--mode", "unfenced", "--backend", "sim").stderr


def test_the_python_example_of_the_readme_runs(monkeypatch, tmp_path, capsys):
    """All but its last line, which needs a saved run of the reader's own."""
    monkeypatch.chdir(tmp_path)
    code = re.search(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE).group(1)
    lines = code.strip().splitlines()
    assert lines[-1].startswith("saved = fdprof.load(")
    exec("\n".join(lines[:-1]), {})
    # 2 blocks of 100 counted steps, 20 warm-up steps and the one overrun step of lag 1.
    assert re.search(r"counted +200\.0", capsys.readouterr().out)
