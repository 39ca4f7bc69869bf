# ruff: noqa: SIM300 - the expected value stands first
"""Where a step goes: parts of a mean step, and the bars that show them."""

import re
from dataclasses import replace

import pytest
from fdprof.reports._bars import show_sides, show_step, stacked
from fdprof.reports._console import Screen
from fdprof.reports._parts import Part, by_meaning, parts_of_result, parts_of_side
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from fdprof.meanings import Meaning

STEP = (
    Part("busy:compute", Meaning.BUSY, 500.0),
    Part("host:schedule", Meaning.HOST, 300.0),
    Part("blocked", Meaning.BLOCKED, 190.0),
    Part("host:", Meaning.HOST, 10.0),
)
"""1,000 ns."""


def _screen(width=80, is_ascii=True, color=False):
    return Screen(width, color, is_ascii)


def test_a_bar_is_in_the_order_of_the_meanings_and_as_long_as_they_are():
    """Of 40 cells: 20 busy; blocked up to 690 of 1,000, 27.6 cells; host the rest: 20, 8 and 12."""
    assert "#" * 20 + "b" * 8 + "h" * 12 == "".join(drawn for drawn, _ in stacked(_screen(), STEP, 1_000, 40))


def test_on_a_longer_scale_a_bar_is_shorter():
    """1,000 of 2,000 ns are half of it."""
    assert 20 == sum(len(drawn) for drawn, _ in stacked(_screen(), STEP, 2_000, 40))


@given(st.lists(st.tuples(st.sampled_from(Meaning), st.floats(0.1, 1e9)), min_size=1, max_size=12), st.integers(1, 200))
def test_a_bar_never_passes_its_end_and_ends_there(parts, width):
    """Each meaning is right to a cell."""
    made = [Part("", meaning, ns) for meaning, ns in parts]
    total = sum(part.ns for part in made)
    spans = stacked(_screen(is_ascii=False), made, total, width)
    assert width == sum(len(drawn) for drawn, _ in spans)
    length = {drawn[0]: len(drawn) for drawn, _ in spans}
    for meaning, ns in by_meaning(made).items():
        (sign,) = {drawn[0] for drawn, _ in stacked(_screen(is_ascii=False), [Part("", meaning, 1)], 1, 1)}
        assert abs(length.get(sign, 0) - ns / total * width) <= 1


def test_each_part_has_a_line_with_its_time_share_and_bar():
    """The bars are on the scale of the longest part, and none that is there is empty."""
    screen = _screen(60)
    show_step(screen, STEP, 1_000)
    lines = screen.text().splitlines()
    assert "where a step goes, us: the mean step of 1.0" == lines[0]
    assert "  " + "#" * 28 + "b" * 11 + "h" * 17 == lines[1]
    # 60 - 2 - 3 of the number - 11 of the share leave 44, half of them 22: 0.3 of 0.5 are 13.2, 0.19 are 8.4.
    assert "  0.5   50.0 %  " + "#" * 22 + "  busy:compute" == lines[3]
    assert "  0.3   30.0 %  " + "h" * 13 + " " * 11 + "host:schedule" == lines[4]
    assert "  0.2   19.0 %  " + "b" * 8 + " " * 16 + "blocked" == lines[5]
    assert "  0.0    1.0 %  " + "h" + " " * 23 + "host:" == lines[6]


def test_what_is_left_out_is_one_line():
    """The sum of the rest: 3 parts of 10 ns."""
    screen = _screen()
    show_step(screen, [Part(f"host:{number}", Meaning.HOST, 10.0) for number in range(15)], 150)
    assert screen.text().splitlines()[-1].split() == ["0.0", "20.0", "%", "3", "others"]


def test_a_step_without_parts_has_no_bar():
    """As without device rows."""
    screen = _screen()
    show_step(screen, (), 1_000)
    show_step(screen, STEP, 0)
    assert "" == screen.text()


@pytest.mark.parametrize("width", [40, 41, 60, 80, 120, 200])
def test_long_names_fold_beside_or_below_their_bar(width):
    """No line is too wide, and the number stays."""
    screen = _screen(width)
    show_step(screen, (Part("host:" + "核" * 90, Meaning.HOST, 1_000_000.0),), 1_000_000)
    text = screen.text()
    assert all(cell_len(line) <= width for line in text.splitlines())
    assert "1,000.0  100.0 %" in text


def test_two_sides_are_on_one_scale_with_a_legend():
    """The shorter one ends where its time does, and both times stand in one column."""
    screen = _screen(80)
    show_sides(screen, ("sync", "async"), [STEP, STEP[:1]])
    title, sync, asynchronous, legend = screen.text().splitlines()
    # 80 - 4 - 3 of the number - 2 - 7 of the name leave 64; busy 32, blocked up to 44.16, host to 64.
    assert "  sync   " + "#" * 32 + "b" * 12 + "h" * 20 + "  1.0" == sync
    assert "  async  " + "#" * 32 + " " * 32 + "  0.5" == asynchronous
    assert "  # busy   b blocked   h host" == legend
    assert "where a step goes, us: the mean step of each side on one scale" == title


def test_a_side_without_device_rows_has_no_bars():
    """Half a picture would be a wrong one."""
    screen = _screen()
    show_sides(screen, ("sync", "async"), [STEP, ()])
    assert "" == screen.text()


def test_colours_are_those_of_the_palette():
    """31 is red, 32 green, 33 yellow."""
    screen = _screen(60, is_ascii=False, color=True)
    show_step(screen, STEP, 1_000)
    bar = screen.text().splitlines()[1]
    assert ["32", "31", "33"] == re.findall(r"\x1b\[(\d+)m", bar.replace("\x1b[0m", ""))


def test_the_parts_of_a_result_add_up_to_its_step(cases):
    """Device busy by kind and idle by cause, of a run and of a capture."""
    for name in ("run", "analysis", "analysis_hostile"):
        result = cases[name]
        assert result.summaries["window_ns"].mean == pytest.approx(sum(part.ns for part in parts_of_result(result)))
    assert () == parts_of_result(cases["analysis_no_device"])


def test_the_parts_of_a_side_add_up_to_its_step(cases):
    """Sums over all steps, divided by their number."""
    comparison = cases["comparison"].comparison
    for side, of in zip((comparison.baseline, comparison.candidate), comparison.step_ns, strict=True):
        assert of["mean"] == pytest.approx(sum(part.ns for part in parts_of_side(side)))
    assert () == parts_of_side(replace(comparison.baseline, parts_ns=None))


def test_a_part_that_nobody_knows_is_shown_as_such(cases):
    """A baseline file is a person's to write."""
    side = replace(cases["comparison"].comparison.baseline, parts_ns={"busy:compute": 5, "moonlight": 7})
    assert [Meaning.BUSY, Meaning.NOT_CAPTURED] == [part.meaning for part in parts_of_side(side)]
