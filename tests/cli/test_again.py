# ruff: noqa: SIM300 - the expected value stands first
"""The command that an HTML page gives for steps that it does not draw: it reads what the page was made of."""

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from fdprof.cli.captures import again

DATA = Path(__file__).parents[1] / "data" / "h200-2026-11-30"
CAPTURE = DATA / "both-ways" / "stop_flag_sync.fdprof"


@pytest.fixture
def sides(tmp_path):
    """What the script of the page written last knows of its sides."""

    def of(page="page.html"):
        text = (tmp_path / page).read_text(encoding="utf-8")
        (found,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
        return [side for part in json.loads(found)["parts"].values() for side in part["sides"]]

    return of


@pytest.fixture
def step_again(run_cli):
    """The length in ns of a step, by the side's command and the position that the page adds to it."""

    def of(side, block, at):
        position = side["source"]["first"][block] + at
        words = shlex.split(side["source"]["command"])
        assert "fdprof" == words[0]
        done = run_cli(*words[1:], "--steps", f"{position}:{position + 1}", "--json")
        assert 0 == done.exit_code, done.stderr
        return json.loads(done.stdout)["ledger"]["mean"]["window_ns"]

    return of


def test_of_a_run_it_names_its_folder_and_counts_over_all_blocks(run_cli, sides, step_again):
    """3 blocks of 12 steps: the fifth step of the last block is number 28 of the run."""
    options = ("--backend", "sim", "--steps", "12", "--blocks", "3", "--host-times", "lognormal:1", "-o", "page.html")
    assert 0 == run_cli("run", "stop_flag", "--mode", "sync", *options).exit_code
    (side,) = sides()
    assert [0, 12, 24] == side["source"]["first"]
    windows = side["steps"]["window_ns"]
    assert 36 == len(windows)
    assert windows[28] == step_again(side, 2, 4)
    assert windows[0] == step_again(side, 0, 0)


def test_of_a_comparison_it_names_the_folder_of_the_side(run_cli, tmp_path, sides, step_again):
    """Made at once, or of what was saved: the same page, and steps of the block before are not counted in."""
    options = (
        "--backend",
        "sim",
        "--steps",
        "30",
        "--blocks",
        "4",
        "--host-times",
        "lognormal:1",
        "--runs",
        "a folder",
    )
    run_cli("compare", "sync", "overlap", *options, "-o", "page.html")
    (place,) = (tmp_path / "a folder").iterdir()
    assert run_cli("report", f"a folder/{place.name}", "-o", "again.html").exit_code in (0, 1)
    assert (tmp_path / "again.html").read_text(encoding="utf-8") == (tmp_path / "page.html").read_text(encoding="utf-8")
    for name, side in zip(("baseline", "candidate"), sides(), strict=True):
        assert f"fdprof analyze 'a folder/{place.name}/{name}'" == side["source"]["command"]
        for block, position in ((0, 0), (3, 2)):
            at = side["steps"]["block"].index(block) + position
            assert side["steps"]["window_ns"][at] == step_again(side, block, position)


def test_of_a_capture_it_has_the_options_that_chose_the_steps(run_cli, tmp_path, sides, step_again):
    """The first step on the page is the capture's fourth."""
    shutil.copytree(CAPTURE, tmp_path / "a capture")
    chosen = ("--step-range", "^step$", "--device", "0", "--steps", "3:9")
    assert 0 == run_cli("analyze", "a capture", *chosen, "-o", "page.html").exit_code
    (side,) = sides()
    assert "fdprof analyze 'a capture' --step-range '^step$' --device 0" == side["source"]["command"]
    assert [3] == side["source"]["first"]
    assert side["steps"]["window_ns"][2] == step_again(side, 0, 2)


def test_of_what_was_not_saved_there_is_none(run_cli, sides):
    assert 0 == run_cli("run", "stop_flag", "--backend", "sim", "--no-save", "-o", "page.html").exit_code
    assert [None] == [side["source"] for side in sides()]


def test_it_is_one_line_for_a_shell_whatever_the_path_holds():
    assert "fdprof analyze 'a b; rm -rf.sqlite'" == again(Path("a b; rm -rf.sqlite"))
    assert "fdprof analyze ./-o" == again(Path("-o"))
    assert again(Path("a\x1b")) is None
    assert again(Path("new\nline")) is None
    assert "fdprof analyze a --process 7 --thread 8" == again(Path("a"), process=7, thread=8)
