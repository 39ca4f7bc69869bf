# ruff: noqa: SIM300 - the expected value stands first
"""The palette: every meaning is seen on its page, and told from every other by everybody."""

import itertools

import numpy as np
import pytest
from fdprof.reports._palette import PALETTE
from rich.cells import cell_len

from fdprof.meanings import Meaning

PAGES = {"light": "#ffffff", "dark": "#14161a"}
LEAST_CONTRAST = 3.0  # WCAG 2.2, 1.4.11: graphics that carry meaning
LEAST_DISTANCE = 0.1  # in OKLab, five times what a trained eye just notices

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB; the first is everybody else.
KINDS_OF_EYES = {
    "typical": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_CONES = np.array(
    [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
     [0.0883024619, 0.2817188376, 0.6299787005]]
)  # fmt: skip
TO_OKLAB = np.array(
    [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
     [0.0259040371, 0.7827717662, -0.8086757660]]
)  # fmt: skip


def _linear(color):
    """Return the linear RGB of '#rrggbb'."""
    parts = np.array([int(color[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def _contrast(one, other):
    lower, higher = sorted(float(_linear(color) @ [0.2126, 0.7152, 0.0722]) for color in (one, other))
    return (higher + 0.05) / (lower + 0.05)


def _seen(color, eyes):
    return TO_OKLAB @ np.cbrt(TO_CONES @ np.clip(np.array(KINDS_OF_EYES[eyes]) @ _linear(color), 0, 1))


def test_the_measures_are_those_that_are_known():
    """Black on white has 21:1; white is 1 in lightness and grey to every eye; red and green are one hue to some."""
    assert 21 == pytest.approx(_contrast("#000000", "#ffffff"))
    for eyes in KINDS_OF_EYES:
        assert [1, 0, 0] == pytest.approx(list(_seen("#ffffff", eyes)), abs=1e-3)
    assert abs(_seen("#ff0000", "typical")[1] - _seen("#008000", "typical")[1]) > 0.3
    assert abs(_seen("#ff0000", "deuteranopia")[1] - _seen("#008000", "deuteranopia")[1]) < 0.06


def test_every_meaning_has_a_shade():
    """A new meaning cannot be forgotten."""
    assert set(Meaning) == set(PALETTE)


@pytest.mark.parametrize("theme", PAGES)
@pytest.mark.parametrize("meaning", Meaning)
def test_a_colour_stands_out_from_its_page(theme, meaning):
    """3:1 at least."""
    assert _contrast(getattr(PALETTE[meaning], theme), PAGES[theme]) >= LEAST_CONTRAST


@pytest.mark.parametrize("theme", PAGES)
@pytest.mark.parametrize("eyes", KINDS_OF_EYES)
def test_any_two_colours_are_told_apart_with_any_eyes(theme, eyes):
    """Also with one kind of cones missing."""
    for one, other in itertools.combinations(Meaning, 2):
        ours, theirs = (_seen(getattr(PALETTE[meaning], theme), eyes) for meaning in (one, other))
        assert np.linalg.norm(ours - theirs) >= LEAST_DISTANCE, (one, other)


def test_signs_and_blocks_are_one_cell_and_no_two_alike():
    """A bar without colours is read by them."""
    for kind in ("sign", "block", "terminal"):
        assert len(Meaning) == len({getattr(shade, kind) for shade in PALETTE.values()})
    assert all(shade.sign.isascii() and len(shade.sign) == 1 for shade in PALETTE.values())
    assert all(1 == cell_len(shade.block) for shade in PALETTE.values())


def test_the_terminals_colours_are_of_the_sixteen():
    """A terminal's user has chosen those to be seen on his background."""
    basic = {"red", "green", "yellow", "blue", "magenta", "cyan"}
    assert {shade.terminal.removeprefix("bright_") for shade in PALETTE.values()} <= basic | {"black"}
