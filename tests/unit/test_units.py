# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.units: how times, bytes and ratios are shown."""

import pytest

from fdprof import units


@pytest.mark.parametrize(
    ("expected", "ns"), [("1,234.6", 1_234_567), ("0.0", 0), ("0.1", 99), ("-1.5", -1500), ("-", None)]
)
def test_us_shows_one_decimal_and_groups_of_three(expected, ns):
    """Nanoseconds are shown as microseconds; what was not observed is a dash."""
    assert expected == units.us(ns)


def test_us_takes_the_number_of_digits():
    """1,234,567 ns are 1,234.567 µs."""
    assert "1,234.567" == units.us(1_234_567, digits=3)


@pytest.mark.parametrize(
    ("expected", "size_bytes"),
    [
        ("0 B", 0),
        ("513 B", 513),
        ("1023 B", 1023),
        ("1.0 KiB", 1024),
        ("2.0 KiB", 2048),
        ("1.5 MiB", 3 * 2**19),
        ("1.0 GiB", 2**30),
        ("5120.0 GiB", 5 * 2**40),
    ],
)
def test_size_uses_the_largest_unit_that_leaves_at_least_one(expected, size_bytes):
    """Sizes go up to GiB and no further."""
    assert expected == units.size(size_bytes)


@pytest.mark.parametrize(("expected", "value"), [("0.781", 0.7812), ("1.000", 1), ("-", None)])
def test_ratio_shows_three_decimals(expected, value):
    """A ratio that is not known is a dash."""
    assert expected == units.ratio(value)


@pytest.mark.parametrize(("expected", "share"), [("91.2 %", 0.912), ("0.0 %", 0.0), ("100.0 %", 1), ("-", None)])
def test_percent_shows_a_share_of_one(expected, share):
    """0.912 of one is 91.2 %."""
    assert expected == units.percent(share)
