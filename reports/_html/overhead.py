"""The part of the HTML page that shows what profiling costs: a row and an interval for each condition."""

from fdprof.reports import _overhead_text as words
from fdprof.reports._html.ratios import Named, ratios_of
from fdprof.reports._html.view import Badge, Part, Table
from fdprof.reports._html.words import INTERRUPTED, SIMULATED, environment_facts

from fdprof import units
from fdprof.analysis.inflation import OverheadResult


def part_of_overhead(result: OverheadResult, part: str) -> Part:
    """Return the part of a measurement of overhead."""
    rows = tuple(tuple(units.shown(cell) for cell in row) for row in words.overhead_rows(result))
    badges: list[Badge] = []
    if result.environment.profile is not None:
        badges.append(SIMULATED)
    if result.interrupted:
        badges.append(INTERRUPTED)
    return Part(
        id=part,
        title=units.shown(words.overhead_title(result)),
        badges=tuple(badges),
        facts=(("loop", units.shown(words.overhead_subject(result))), *environment_facts(result.environment)),
        notes=(
            *(units.shown(line) for line in words.overhead_missing(result)),
            *(units.shown(note) for note in words.overhead_notes(result)),
        ),
        numbers=(Table("times per step, µs", words.OVERHEAD_HEADINGS, rows),),
        ratios=ratios_of(
            [Named(each.name, each.cost.ratio) for each in result.conditions if each.cost is not None],
            "mean step under each condition, as a ratio to the bare loop's",
        ),
    )
