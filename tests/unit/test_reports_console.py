# ruff: noqa: SIM300 - the expected value stands first
"""The page that a terminal gets: width, colours and characters by where it goes, and wrapping."""

import io
import os

import pytest
from fdprof.reports._console import Screen, look_of, wrapped
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len


class _Stream(io.StringIO):
    """A stream of an encoding, on a terminal or not."""

    def __init__(self, encoding="utf-8", is_terminal=True):
        super().__init__()
        self._encoding, self._is_terminal = encoding, is_terminal

    @property
    def encoding(self):
        return self._encoding

    def isatty(self):
        return self._is_terminal


PIPE = _Stream(is_terminal=False)
XTERM = {"TERM": "xterm-256color"}


@pytest.mark.parametrize(
    ("color", "stream", "environ"),
    [
        (True, _Stream(), XTERM),
        (True, _Stream(), {}),  # Windows has no TERM
        (False, _Stream(), {"TERM": "dumb"}),
        (False, _Stream(), {"TERM": "unknown"}),
        (False, _Stream(), {**XTERM, "NO_COLOR": "1"}),
        (False, _Stream(), {**XTERM, "NO_COLOR": "0"}),  # set to anything
        (True, _Stream(), {**XTERM, "NO_COLOR": ""}),  # but to something
        (False, PIPE, XTERM),
        (False, PIPE, {}),
        (True, PIPE, {**XTERM, "FORCE_COLOR": "1"}),
        (True, PIPE, {"FORCE_COLOR": "1"}),
        (False, PIPE, {"FORCE_COLOR": ""}),
        (False, PIPE, {"FORCE_COLOR": "1", "NO_COLOR": "1"}),
        (False, PIPE, {"FORCE_COLOR": "1", "TERM": "dumb"}),
        (True, PIPE, {"CLICOLOR_FORCE": "1"}),
        (False, PIPE, {"CLICOLOR_FORCE": "0"}),
    ],
)
def test_colours_go_where_they_are_taken_or_asked_for(color, stream, environ):
    """no-color.org, and what rich does with FORCE_COLOR and dumb terminals."""
    assert color is look_of(stream, {"COLUMNS": "80", **environ})[1]


@pytest.mark.parametrize(
    ("width", "stream", "environ", "columns"),
    [
        (100, PIPE, {}, None),
        (72, PIPE, {"COLUMNS": "72"}, None),
        (72, _Stream(), {"COLUMNS": "72"}, None),
        (60, PIPE, {"COLUMNS": "72"}, 60),
        (100, PIPE, {"COLUMNS": ""}, None),
        (100, PIPE, {"COLUMNS": "wide"}, None),
        (100, PIPE, {"COLUMNS": "0"}, None),
        (100, PIPE, {"COLUMNS": "-5"}, None),
        (100, PIPE, {"COLUMNS": "٨٠"}, None),  # digits, and no number that a shell writes
    ],
)
def test_the_width_is_the_one_that_is_given_or_a_hundred(width, stream, environ, columns):
    """A pipe has none of its own."""
    assert width == look_of(stream, environ, columns)[0]


def test_a_terminal_without_columns_is_asked(monkeypatch):
    """As `shutil.get_terminal_size` does."""
    monkeypatch.setattr("shutil.get_terminal_size", lambda fallback: os.terminal_size((132, 50)))
    assert 132 == look_of(_Stream(), {})[0]
    assert 100 == look_of(PIPE, {})[0]


@pytest.mark.parametrize(
    ("is_ascii", "encoding"),
    [
        (False, "utf-8"),
        (False, "utf-16"),
        (False, "gb18030"),
        (True, "ascii"),
        (True, "latin-1"),  # has µ and no bars
        (True, "cp437"),  # has bars and no Chinese
        (True, "cp932"),
        (True, "no-such-encoding"),
        (True, None),
    ],
)
def test_an_encoding_that_lacks_anything_gets_ascii(is_ascii, encoding):
    """Names may hold any character."""
    assert is_ascii is look_of(_Stream(encoding), XTERM)[2]


def test_a_number_stays_with_its_unit():
    """12 cells would take 'a wait of 5.0'; the unit would begin the next line."""
    assert ["a wait of", "5.0 µs"] == wrapped("a wait of 5.0 µs", 13)
    assert ["a wait of 5.0 µs"] == wrapped("a wait of 5.0 µs", 16)
    assert ["that is", "45.2 % of it"] == wrapped("that is 45.2 % of it", 12)
    assert ["copies:", "2.00 × 4 B"] == wrapped("copies: 2.00 × 4 B", 13)
    assert ["kernels 5", "usable"] == wrapped("kernels 5 usable", 10)  # 'us' begins a word here


def test_a_word_longer_than_the_line_is_cut_and_no_other():
    """It begins on a line of its own."""
    assert ["a", "bbbb", "bb c"] == wrapped("a bbbbbb c", 4)
    assert ["核心", "核"] == wrapped("核心核", 5)  # two cells each: the fifth stays empty


def test_the_first_line_may_be_wider():
    """By the indent of the lines below."""
    assert ["aa bb", "cc", "dd"] == wrapped("aa bb cc dd", 3, hang=2)


@given(st.text(st.characters(categories=("L", "M", "N", "P", "S", "Zs", "Cc", "Cf"))), st.integers(2, 60))
def test_no_line_is_too_wide_and_nothing_but_spaces_is_lost(text, width):
    """Whatever a name holds."""
    clean = Screen(80, False, False).clean(text)
    lines = wrapped(clean, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(clean.split(" ")) == "".join("".join(lines).split(" "))


@given(st.text())
def test_an_ascii_page_holds_ascii_only(text):
    """What cannot be written is written as its code."""
    screen = Screen(80, False, True)
    screen.say(text)
    assert screen.text().isascii()


def test_our_own_signs_have_readable_stand_ins():
    """Not their codes."""
    assert "5 us +-3.5 %, 2 x 4 B, a -> b, ---" == Screen(80, False, True).clean("5 µs ±3.5 %, 2 × 4 B, a → b, ───")
    assert "\\u6838" == Screen(80, False, True).clean("核")


def test_no_two_empty_lines_and_none_at_the_ends():
    """Parts that are missing leave no holes."""
    screen = Screen(80, False, False)
    screen.blank()
    screen.say("a")
    screen.blank()
    screen.blank()
    screen.say("b")
    screen.blank()
    assert "a\n\nb\n" == screen.text()


def test_without_colour_there_is_no_escape_at_all():
    """Not even bold."""
    pages = []
    for color in (False, True):
        screen = Screen(80, color, False)
        screen.put(("plain ", ""), ("bold", "bold"), ("red", "red"))
        pages.append(screen.text())
    assert "plain boldred\n" == pages[0]
    assert "plain \x1b[1mbold\x1b[0m\x1b[31mred\x1b[0m\n" == pages[1]


def test_what_drives_a_terminal_is_shown_as_its_code():
    """Escape sequences, marks of direction and ends of lines come from names in captures."""
    assert "\\x1b[31m \\u202e \\n" == Screen(80, False, False).clean("\x1b[31m \u202e \n")


@pytest.mark.parametrize("given", ["100000", "2147483648", "9" * 40])
def test_no_width_is_so_large_that_a_page_would_take_the_memory(given):
    """A bar is as long as the page is wide."""
    assert 1_000 == look_of(PIPE, {"COLUMNS": given})[0]
    assert 1_000 == look_of(PIPE, {}, columns=int(given))[0]
