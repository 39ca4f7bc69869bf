# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.analysis.comparability: which fields differ, and what may."""

import pytest

from fdprof.analysis.comparability import is_same_recording, known_fields, mismatches_of, unknown_of
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
    ("work_ns", "differs"), [(1_020_000, False), (980_100, False), (1_021_000, True), (979_000, True)]
)
def test_device_work_may_differ_by_2_per_cent(build, work_ns, differs):
    """Of the larger: 20,400 of 1,020,000 and 20,000 of 1,000,000; 19,900 is more than 2 % of 980,100."""
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


@pytest.mark.parametrize(
    ("theirs", "is_same"),
    [
        ({"positions": (1, 2)}, False),
        ({"positions": (2, 3)}, True),  # a block in common
        ({"positions": (2, 3), "call": "another"}, False),
        ({"positions": (2, 3), "call": ""}, False),
    ],
)
def test_runs_are_the_same_recording_by_call_and_position(build, theirs, is_same):
    """Equal times alone say nothing: the simulator repeats itself."""
    ours = build.a_side([1], [2], positions=(0, 3))
    assert is_same == is_same_recording(ours, build.a_side([1], [2], **theirs))


def test_captures_are_the_same_recording_by_their_times(build):
    """A baseline that was saved from a capture, and the capture."""
    one, same, other = (build.a_side(steps, call="", fields={"tracer": "nsys"}) for steps in ([1, 2], [1, 2], [1, 3]))
    assert is_same_recording(one, same)
    assert not is_same_recording(one, other)


def test_values_that_look_alike_are_told_apart():
    """A number and its text, an empty text."""
    assert "2 against '2'" == Mismatch("cpu_count", 2, "2", False).text
    assert "'' against 'x'" == Mismatch("os", "", "x", False).text
    assert "none against x" == Mismatch("fault", None, "x", False).text


def test_the_names_that_may_be_allowed_are_those_of_the_fields(build):
    """And quality, which is no field."""
    assert {"quality", *FIELDS} == known_fields(*_sides(build))
