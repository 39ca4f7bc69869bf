"""Puts the HTML page together: the parts of a result, the templates, style, script and data, all in one text."""

import base64
import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fdprof.reports._html import theme
from fdprof.reports._html.capture import part_of_capture
from fdprof.reports._html.comparison import part_of_comparison
from fdprof.reports._html.overhead import part_of_overhead
from fdprof.reports._html.run import part_of_run
from fdprof.reports._html.view import Part
from fdprof.reports.protocol import Analyses, ComparisonResult, Reportable
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from fdprof.analysis.inflation import OverheadResult
from fdprof.analysis.results import RunResult
from fdprof.meanings import Meaning
from fdprof.version import VERSION

_ASSETS = Path(__file__).with_name("assets")
UPLOT = "vendor/uplot-1.6.32.min"
_SCRIPTS = (
    "page.js",
    "timeline_data.js",
    "timeline_view.js",
    "timeline_draw.js",
    "timeline_words.js",
    "timeline.js",
    "keys.js",
    "charts.js",
    "start.js",
)
"""In this order; they share one function's scope."""

_ESCAPED = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}
"""What could end a script element or a line of it, as JSON writes it too."""

MOST_SPANS = 40_000
"""Spans drawn on a page, over all of its timelines: about 1.2 MB, and a redraw within a frame or two."""


def page_of(result: Reportable) -> str:
    """Return the page of a result."""
    parts = _parts(result)
    style = theme.variables() + _text(f"{UPLOT}.css") + _text("style.css")
    script = _script()
    return _environment().get_template("page.html.j2").render(
        title=parts[0].title if len(parts) == 1 else f"{len(parts)} captures",
        parts=parts,
        version=VERSION,
        style=Markup(style),
        script=Markup(script),
        style_hash=_hash(style),
        script_hash=_hash(script),
        data=embedded({"meanings": [meaning.value for meaning in Meaning], "parts": {p.id: p.data for p in parts}}),
    )  # fmt: skip


def _parts(result: Reportable) -> list[Part]:
    if isinstance(result, Analyses):
        most = max(MOST_SPANS // max(len(result.results), 1), 1)
        return [part_of_capture(entry, f"p{at}", most) for at, entry in enumerate(result.results, 1)]
    if isinstance(result, ComparisonResult):
        return [part_of_comparison(result, "p1", MOST_SPANS)]
    if isinstance(result, OverheadResult):
        return [part_of_overhead(result, "p1")]
    if isinstance(result, RunResult):
        return [part_of_run(result, "p1", MOST_SPANS)]
    return [part_of_capture(result, "p1", MOST_SPANS)]


def embedded(data: Mapping[str, object]) -> Markup:
    """Return data as JSON that may stand inside a script element, whatever texts it holds."""
    return Markup(json.dumps(data, separators=(",", ":"), allow_nan=False).translate(_ESCAPED))


@cache
def _environment() -> Environment:
    return Environment(
        loader=FileSystemLoader(_ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@cache
def _text(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


@cache
def _script() -> str:
    """Return uPlot and our own files, each group in a scope of its own."""
    own = "\n".join(_text(name) for name in _SCRIPTS)
    return f'{_text(f"{UPLOT}.js")}\n(function () {{\n"use strict";\n{own}}}());\n'


def _hash(text: str) -> str:
    """Return the hash by which the page's own policy lets this text run."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
