"""fdprof.analysis.clocks: what is said of a GPU's clocks, and when nothing is."""

# ruff: noqa: SIM300 - the expected value stands first
from dataclasses import replace

import pytest

from fdprof.analysis.clocks import after_blocks_mhz, clock_notes, throttled
from fdprof.analysis.results import result_of
from fdprof.analysis.sides import side_of_run
from fdprof.model import GpuState

HARMLESS = ("gpu idle", "applications clocks setting", "display clocks setting")
THROTTLES = (
    "software power cap",
    "hardware slowdown",
    "sync boost",
    "software thermal slowdown",
    "hardware thermal slowdown",
    "hardware power brake",
)


def state(mhz, *reasons, asked=True):
    """Return what NVML says with the SM at this clock; `asked`: it also says what holds the clocks down."""
    return GpuState(mhz, 3_201, 41, 300_000, reasons if asked else None)


def blocks(*mhz):
    """Return the states around blocks that end at these clocks, each begun at 345 MHz, as an idle GPU runs."""
    return tuple((state(345, "gpu idle"), state(clock)) for clock in mhz)


@pytest.fixture
def make_side(make_session):
    """Make a side of a simulated run of two blocks, with these states around its blocks."""
    side = side_of_run(result_of(make_session(steps=6, warmup=2).run("sync", blocks=2)), 0)

    def make(*gpu, label="sync"):
        return replace(side, gpu=gpu, label=label)

    return make


def test_a_simulated_run_has_nothing_to_say(make_session):
    """No GPU, so no states and no notes."""
    side = side_of_run(result_of(make_session(steps=6, warmup=2).run("sync", blocks=2)), 0)
    assert ((), ()) == side.gpu
    assert [] == clock_notes([side, side])


def test_clocks_that_stand_still_are_not_mentioned(make_side):
    """1,980 MHz after each of four blocks; the 345 MHz before them are a GPU that had nothing to do."""
    sides = [make_side(*blocks(1_980, 1_980)), make_side(*blocks(1_980, 1_980), label="async")]
    assert [] == clock_notes(sides)


@pytest.mark.parametrize(
    ("ours", "theirs", "ranges"),
    [
        ((1_980, 1_900), (1_980, 1_980), "sync 1,900 to 1,980, async 1,980 to 1,980"),
        ((1_980, 1_980), (1_755, 1_980), "sync 1,980 to 1,980, async 1,755 to 1,980"),
        ((1_980, 1_980), (1_755, 1_755), "sync 1,980 to 1,980, async 1,755 to 1,755"),
        ((1_980, 1_980), (1_960, 1_980), "sync 1,980 to 1,980, async 1,960 to 1,980"),
        ((2_000, 2_000), (2_000, 1_979), "sync 2,000 to 2,000, async 1,979 to 2,000"),
        ((600, 607), (600, 600), "sync 600 to 607, async 600 to 600"),
    ],
)
def test_clocks_that_moved_by_more_than_1_percent_are_told(make_side, ours, theirs, ranges):
    """Within a side or from one to the other; 1 % of 2,000 MHz is 20, of 1,980 19.8, of 607 6.07: the last three are
    20 of 1,980, 21 of 2,000 and 7 of 607.
    """
    sides = [make_side(*blocks(*ours)), make_side(*blocks(*theirs), label="async")]
    assert [f"the SM clock moved between blocks: {ranges} MHz"] == clock_notes(sides)


@pytest.mark.parametrize("last", [2_000, 1_990, 1_980])
def test_clocks_that_moved_by_1_percent_or_less_are_not_told(make_side, last):
    """Exactly 1 % of 2,000 MHz is 20: 1,980 is no move, and 1,979 (above) is."""
    sides = [make_side(*blocks(2_000, 2_000)), make_side(*blocks(2_000, last), label="async")]
    assert [] == clock_notes(sides)


def test_only_sides_whose_clock_was_read_are_named(make_side):
    """A capture has no states, and the clock of a block could not be read: 1,900 and 1,980 are of the one side."""
    nowhere = make_side(label="a.nsys-rep")
    unread = make_side((), (state(1_980), state(None)), label="overlap")
    moved = make_side(*blocks(1_980, 1_900))
    assert ["the SM clock moved between blocks: sync 1,900 to 1,980 MHz"] == clock_notes([nowhere, moved, unread])
    assert [] == clock_notes([nowhere, unread])


def test_the_clock_of_a_block_is_the_one_after_it(make_side):
    """Of five blocks two have no clock that was read after them."""
    side = make_side(*blocks(1_980, 1_755), (), (state(1_980), state(None)), *blocks(1_500))
    assert [1_980, 1_755, 1_500] == after_blocks_mhz(side)


@pytest.mark.parametrize("reason", THROTTLES)
def test_each_throttle_reason_is_told(make_side, reason):
    """After the second block of two, and in one side of two."""
    side = make_side((state(1_980), state(1_980)), (state(1_980), state(1_980, "gpu idle", reason)), label="async")
    expected = f"the GPU held its clocks down in async: {reason} after 1 block"
    assert [expected] == clock_notes([make_side(*blocks(1_980, 1_980)), side])


@pytest.mark.parametrize("reason", HARMLESS)
def test_reasons_that_hold_nothing_down_are_not_told(make_side, reason):
    """Nothing to do, or clocks as somebody set them; also all three at once."""
    for reasons in ((reason,), HARMLESS):
        side = make_side(*[(state(1_980), state(1_980, *reasons))] * 2)
        assert {} == throttled(side)
        assert [] == clock_notes([side, side])


def test_a_throttle_before_a_block_is_not_of_the_block(make_side):
    """What held the clocks down before it was over when it ended."""
    side = make_side(*[(state(1_980, "software power cap"), state(1_980))] * 2)
    assert {} == throttled(side)
    assert [] == clock_notes([side, side])


def test_where_no_reason_was_read_none_is_told(make_side):
    """None is not asked, or not answered; no states at all are the same."""
    side = make_side((state(1_980), state(1_980, asked=False)), ())
    assert {} == throttled(side)
    assert [] == clock_notes([side])


def test_blocks_are_counted_for_each_reason_in_the_order_of_the_alphabet(make_side):
    """The power cap after 1,200 blocks of 1,201, the hardware slowdown after one of them."""
    capped = (state(1_980), state(1_980, "software power cap"))
    both = (state(1_980), state(1_980, "software power cap", "hardware slowdown"))
    side = make_side(*[capped] * 1_199, both, *blocks(1_980))
    assert [("hardware slowdown", 1), ("software power cap", 1_200)] == list(throttled(side).items())
    assert [
        "the GPU held its clocks down in sync: hardware slowdown after 1 block, software power cap after 1,200 blocks"
    ] == clock_notes([side])


def test_moved_clocks_come_first_and_then_each_side_that_was_held_down(make_side):
    """Three notes: 1,700 to 1,980 MHz is more than 1 %, and both sides have a reason, in the order of the sides."""
    ours = make_side(*blocks(1_980), (state(1_980), state(1_980, "software power cap")))
    theirs = make_side(*blocks(1_980), (state(1_980), state(1_700, "hardware slowdown")), label="async")
    assert [
        "the SM clock moved between blocks: sync 1,980 to 1,980, async 1,700 to 1,980 MHz",
        "the GPU held its clocks down in sync: software power cap after 1 block",
        "the GPU held its clocks down in async: hardware slowdown after 1 block",
    ] == clock_notes([ours, theirs])
