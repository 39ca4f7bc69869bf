# ruff: noqa: SIM300 - the expected value stands first
"""Tables in the room there is."""

import pytest
from fdprof.reports._console import Screen
from fdprof.reports._table import show_table, width_of
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

ROWS = [("step", "1,209.8", "1,081.9"), ("host blocked", "9.0", "-")]


def _shown(width, headings, *sections):
    screen = Screen(width, False, False)
    show_table(screen, headings, sections)
    return screen.text()


def test_a_table_that_fits_has_its_numbers_to_the_right():
    """Names begin where the line begins."""
    assert (
        "                    sync     async\n"
        "  ────────────────────────────────\n"
        "  step           1,209.8   1,081.9\n"
        "  host blocked       9.0         -\n"
    ) == _shown(80, ("sync", "async"), ROWS)
    # 2 before, a name of 12, two numbers of 7 with 3 before each.
    assert 34 == width_of(Screen(80, False, False), ("sync", "async"), ROWS)


def test_sections_have_an_empty_line_between_and_empty_ones_are_none():
    """Also where the first or the last is empty."""
    lines = _shown(80, ("sync", "async"), [], ROWS[:1], [], ROWS[1:], []).splitlines()
    assert ["", 5] == [lines[3], len(lines)]


def test_long_headings_fold_before_numbers_or_names_do():
    """Their end stands above the numbers."""
    text = _shown(40, ("a heading of several words", "another of many words"), ROWS)
    assert "  host blocked          9.0            -" in text
    assert all(len(line) <= 40 for line in text.splitlines())
    assert "…" not in text


def test_a_long_name_folds_into_two_lines_and_a_longer_one_stands_above():
    """Its numbers stay on one line."""
    name = "cudaMemcpyAsync, transfer > aten::to"  # 44 - (5 + 7 + 4) - 3 × 2 leave 22 cells
    folded = _shown(46, ("calls", "blocked", "idle"), [(name, "2.00", "371.2", "29.1")])
    assert "  cudaMemcpyAsync,         2.00    371.2  29.1\n  transfer > aten::to\n" in folded
    above = _shown(46, ("calls", "blocked", "idle"), [(f"{name} > aten::copy_ > more", "2.00", "371.2", "29.1")])
    assert f"  {name} >\n  aten::copy_ > more\n" in above
    assert above.endswith("   2.00    371.2  29.1\n")


def test_columns_that_do_not_fit_follow_with_the_names_again():
    """As many in each part, so that the parts are alike; a row without numbers there is left out."""
    rows = [("harmless wait", "1,000.0", "2,000.0", "3,000.0", "4,000.0"), ("efficiency", "1 %", "2 %")]
    lines = _shown(40, ("mean", "p50", "p90", "max"), rows).splitlines()
    assert "  harmless wait   1,000.0   2,000.0" == lines[2]
    assert "  efficiency          1 %       2 %" == lines[3]
    assert "  harmless wait   3,000.0   4,000.0" == lines[7]
    assert 8 == len(lines)


def test_where_not_even_a_column_fits_each_number_stands_behind_its_heading():
    """A number that is itself as wide as the page is the extreme."""
    assert ("  step\n    sync\n    " + "9" * 36 + "\n") == _shown(40, ("sync",), [("step", "9" * 36)])


@pytest.mark.parametrize("name", ["核心カーネル", "e\u0301t\u00e9", "🚀 launch", "❤️"])
def test_names_of_other_widths_keep_the_columns_in_line(name):
    """Two cells for a Chinese sign or a picture, none for an accent of its own."""
    lines = _shown(80, ("sync",), [(name, "1.0"), ("step", "2.0")]).splitlines()
    assert 1 == len({cell_len(line) for line in lines[1:]})


NAMES = st.text(st.characters(categories=("L", "M", "P", "S", "Zs", "Cc", "Cf")), min_size=1, max_size=60)
NUMBERS = st.integers(0, 10**12).map(lambda ns: f"{ns / 1e3:,.1f}")


@given(st.data(), st.integers(40, 200), st.integers(1, 8))
def test_no_line_is_too_wide_and_every_number_is_whole(data, width, columns):
    """Names of any kind, and numbers of up to a thousand seconds."""
    headings = data.draw(st.lists(NAMES, min_size=columns, max_size=columns))
    cells = st.lists(NUMBERS, min_size=columns, max_size=columns)
    rows = data.draw(st.lists(st.tuples(NAMES, cells).map(lambda row: (row[0], *row[1])), min_size=1, max_size=4))
    text = _shown(width, headings, rows)
    assert all(cell_len(line) <= width for line in text.splitlines())
    words = text.split()
    for row in rows:
        for number in row[1:]:
            assert number in words


def test_a_table_as_wide_as_the_page_is_not_folded():
    """2 + 40 + 3 + 4 = 49 cells; on 48 the gap goes first, 2 cells are enough; on 47 the name folds."""
    row = [("n" * 40, "12.5")]
    assert "  " + "n" * 40 + "   12.5" == _shown(49, ("sync",), row).splitlines()[2]
    assert "  " + "n" * 40 + "  12.5" == _shown(48, ("sync",), row).splitlines()[2]
    assert ["  " + "n" * 39 + "  12.5", "  n"] == _shown(47, ("sync",), row).splitlines()[2:]
