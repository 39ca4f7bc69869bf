# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.comparability: which fields differ, and what may."""

import pytest

from fdprof.analysis.comparability import known_fields, mismatches_of, unknown_of
from fdprof.comparison import Mismatch

FIELDS = {"tracer": "none", "gpu": "NVIDIA H200", "seed": 0, "device_work_ns": 1_000_000, "fault": None}


def _sides(build, ours=None, theirs=None, **changes):
    return [build.a_side([1], fields=FIELDS | (own or {}), call="", **changes) for own in (ours, theirs)]


def test_equal_fields_are_no_mismatch(build):
    """Nothing to allow."""
    assert () == mismatches_of(*_sides(build), frozenset())


@pytest.mark.parametrize(("field", "value"), [("tracer", "nsys"), ("gpu", "NVIDIA H100"), ("seed", 1), ("fault", "x")])
def test_a_field_that_differs_is_named_with_both_values(build, field, value):
    """And is allowed if its name was."""
    ours, theirs = _sides(build, theirs={field: value})
    assert (Mismatch(field, FIELDS[field], value, False),) == mismatches_of(ours, theirs, frozenset())
    assert mismatches_of(ours, theirs, frozenset({field}))[0].allowed
    assert not mismatches_of(ours, theirs, frozenset({"driver"}))[0].allowed


@pytest.mark.parametrize(
    ("work_ns", "differs"), [(1_020_000, False), (980_400, False), (1_021_000, True), (979_000, True)]
)
def test_device_work_may_differ_by_2_per_cent(build, work_ns, differs):
    """Of the larger: 20,400 of 1,020,000 and 20,000 of 1,000,000."""
    ours, theirs = _sides(build, theirs={"device_work_ns": work_ns})
    assert differs == bool(mismatches_of(ours, theirs, frozenset()))


def test_modes_of_one_call_may_have_other_device_work(build):
    """They were asked for the same; what they make of it is what is compared."""
    ours, theirs = (build.a_side([1], fields=FIELDS | {"device_work_ns": work}) for work in (100, 200))
    assert () == mismatches_of(ours, theirs, frozenset())


def test_what_one_side_does_not_know_is_told_and_no_mismatch(build):
    """A capture knows no seed, and its device work could not be read; a fault that is None is known to be none."""
    ours, theirs = _sides(build, theirs={"seed": None, "device_work_ns": None})
    assert () == mismatches_of(ours, theirs, frozenset())
    assert ("seed", "device_work_ns") == unknown_of(ours, theirs)


@pytest.mark.parametrize("both", [True, False])
def test_a_capture_that_is_doubtful_needs_leave_even_beside_one_as_doubtful(build, both):
    """Steps that were guessed on both sides are guessed twice."""
    ours = build.a_side([1], fields=FIELDS, doubts=("steps-inferred",))
    theirs = build.a_side([1], fields=FIELDS, doubts=("steps-inferred",) if both else ())
    expected = Mismatch("quality", "steps-inferred", "steps-inferred" if both else "no doubt", False)
    assert (expected,) == mismatches_of(ours, theirs, frozenset())
    assert mismatches_of(ours, theirs, frozenset({"quality"}))[0].allowed


def test_the_names_that_may_be_allowed_are_those_of_the_fields(build):
    """And quality, which is no field."""
    assert {"quality", *FIELDS} == known_fields(*_sides(build))
