# ruff: noqa: SIM300 - the expected value stands first
"""The HTML report as a text: one file that stands for itself, with everything escaped, and exact data in it."""

import base64
import hashlib
import html as markup
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jinja2", reason="jinja2 is not installed")

import fdprof.reports.html as module
from fdprof.reports._html.bars import bars_of, waterfall_of
from fdprof.reports._html.page import embedded
from fdprof.reports._html.ratios import Named, ratios_of
from fdprof.reports._html.run import run_data
from fdprof.reports._html.words import links_by_number
from fdprof.reports._parts import Part

from fdprof import units
from fdprof.analysis.results import result_of
from fdprof.analysis.timeline import timeline_of
from fdprof.comparison import Estimate
from fdprof.meanings import Meaning

ASSETS = Path(module.__file__).parent / "_html" / "assets"

CASES = [
    "run", "run_interrupted", "run_wrong", "run_one_step", "comparison", "comparison_not_comparable",
    "comparison_wrong", "comparison_captures", "comparison_baseline_file", "analysis", "analysis_inflated",
    "analysis_no_device", "analysis_hostile", "analyses", "overhead",
]  # fmt: skip


class Reader(HTMLParser):
    """Collects elements, the attributes that load something, and texts."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.elements, self.loads, self.styled, self.handlers = [], [], 0, []
        self.open, self.scripts = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        self.loads += [value for name, value in attributes if name in ("src", "href", "action", "data", "poster")]
        self.styled += any(name == "style" for name, _ in attributes)
        self.handlers += [name for name, _ in attributes if name.startswith("on")]
        if tag in ("script", "style"):
            self.open.append(tag)
            self.scripts.append((tag, dict(attributes), ""))

    def handle_endtag(self, tag):
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_data(self, data):
        if self.open:
            tag, attributes, text = self.scripts[-1]
            self.scripts[-1] = tag, attributes, text + data


@pytest.fixture(scope="module")
def page(cases):
    made = {}

    def of(name):
        if name not in made:
            made[name] = module.REPORT.render(cases[name])
        return made[name]

    return of


@pytest.fixture(scope="module")
def data(page):
    def of(name):
        (text,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', page(name))
        return json.loads(text)["parts"]

    return of


def test_every_golden_case_is_rendered_here(cases):
    assert set(cases.names) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_page_is_one_file_that_loads_nothing(page, name):
    """What is linked to lies in the page, and the icon is empty; no element has a style or a handler of its own."""
    reader = Reader(page(name))
    assert [] == [target for target in reader.loads if not target.startswith("#") and target != "data:,"]
    assert 0 == reader.styled
    assert [] == reader.handlers
    assert "html" == page(name).splitlines()[0][10:14]
    assert page(name).endswith("</html>\n")


@pytest.mark.parametrize("name", CASES)
def test_links_within_a_page_lead_to_something_and_ids_are_of_one_element(page, name):
    reader = Reader(page(name))
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert sorted(set(ids)) == sorted(ids)
    assert {target[1:] for target in reader.loads if target.startswith("#")} <= set(ids)


@pytest.mark.parametrize("name", CASES)
def test_the_policy_allows_the_pages_own_style_and_script_by_their_hashes_and_nothing_else(page, name):
    """A hash is over the exact text between the tags, as a browser sees it."""
    reader = Reader(page(name))
    (policy,) = (
        each["content"] for tag, each in reader.elements if each.get("http-equiv") == "Content-Security-Policy"
    )
    texts = {tag: text for tag, attributes, text in reader.scripts if attributes.get("type") != "application/json"}
    hashes = {tag: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for tag, text in texts.items()}
    assert (
        f"default-src 'none'; style-src 'sha256-{hashes['style']}'; script-src 'sha256-{hashes['script']}'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    ) == policy
    assert 3 == len(reader.scripts)


def test_data_cannot_end_its_script(page):
    """Neither < nor > nor & stands in the data, whatever the names are; read back, they are the names."""
    names = ["</script><!--", "a && b", "\u2028\u2029", "\ud800"]
    text = str(embedded({"names": names}))
    assert not re.search("[<>&\u2028\u2029\ud800]", text)
    assert {"names": names} == json.loads(text)
    with pytest.raises(ValueError, match="Out of range"):
        embedded({"ratio": float("nan")})


def test_a_name_that_is_markup_is_text(page, data):
    """The capture's names are markup, escapes and marks of direction: one script of ours, and no element of theirs."""
    text = page("analysis_hostile")
    assert "<script>window" not in text
    assert "&lt;script&gt;window.__pwned = 1&lt;/script&gt;" in text
    assert 3 == len(Reader(text).scripts)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", text)
    names = data("analysis_hostile")["p1"]["sides"][0]["timeline"]["names"]
    assert "kernel </script><!--" in names
    assert "kernel \\x1b[31mred\\x1b[0m\\x07" in names
    assert max(map(len, names)) < 500


@pytest.mark.parametrize("name", CASES)
def test_rendering_again_gives_the_same_text(page, cases, name):
    """Nothing of the machine or the hour is in it."""
    assert page(name) == module.REPORT.render(cases[name])


@pytest.mark.parametrize("name", ["run", "analysis", "analysis_no_device", "comparison"])
def test_the_sentences_and_the_numbers_are_in_the_page_without_its_script(page, cases, name):
    """Whoever switches scripts off, prints or greps still has them."""
    text = markup.unescape(page(name))
    result = cases[name]
    if name == "comparison":
        judgement = result.comparison.judgement
        assert f"{units.ratio(judgement.ratio.value)} of its mean step" in text
        assert units.signed_us(result.comparison.bridge.step_ns) in text
        return
    for sentence in result.headline:
        assert units.shown(sentence) in text
    assert f"<td>{units.us(result.summaries['window_ns'].mean)}</td>" in text
    for finding in result.findings:
        assert finding.code.value in text
        assert units.shown(finding.advice) in text


def test_the_data_of_a_timeline_are_its_exact_times(data, cases):
    """Starts are differences from the one before, the first from the first step's start; lengths are whole ns."""
    made = timeline_of(cases["analysis"].facts)
    raw = data("analysis")["p1"]["sides"][0]["timeline"]
    origin = made.starts_ns[0]
    assert (made.spans.start_ns - origin).tolist() == np.cumsum(raw["spans"]["start"]).tolist()
    assert (made.spans.end_ns - made.spans.start_ns).tolist() == raw["spans"]["length"]
    assert (made.ends_ns - origin).tolist() == raw["ends_ns"]
    sizes = np.full(len(made.spans), -1)
    sizes[np.cumsum(raw["spans"]["size_bytes"]["rows"])] = raw["spans"]["size_bytes"]["values"]
    assert made.spans.size_bytes.tolist() == sizes.tolist()
    assert made.flows.wait.tolist() == raw["flows"]["wait"]


def test_the_data_of_the_charts_are_the_ledgers(data, cases):
    ledger = cases["analysis"].facts.ledger
    steps = data("analysis")["p1"]["sides"][0]["steps"]
    assert ledger.window_ns.tolist() == steps["window_ns"]
    assert ledger.device_idle_ns.tolist() == steps["idle_ns"]
    assert ledger.host_blocked_ns.tolist() == steps["blocked_ns"]
    assert ledger.step.tolist() == steps["number"]


def test_what_is_not_observed_is_null_in_the_data_and_a_dash_in_the_page(page, data):
    assert data("analysis_no_device")["p1"]["sides"][0]["steps"]["idle_ns"] is None
    assert '<th scope="row">device busy</th><td>-</td>' in page("analysis_no_device")


def test_a_finding_links_to_the_steps_that_show_it(page, cases):
    """By position among the analysed steps, which is not the step's number in general."""
    reader = Reader(page("analysis"))
    linked = [int(each["data-position"]) for tag, each in reader.elements if each.get("class") == "to-step"]
    wanted = [position for finding in cases["analysis"].findings for position in finding.steps]
    assert wanted
    assert wanted == linked[-len(wanted) :]


def test_times_that_are_not_compared_do_not_stand_side_by_side(page, data):
    """Wrong tokens, and sides that are not comparable: neither bars nor charts, but the timeline of both."""
    for name in ("comparison_wrong", "comparison_not_comparable"):
        assert data(name)["p1"]["times"] is False
        assert "Where a step goes" not in page(name)
        assert 'data-chart="' not in page(name)
        assert all(side["timeline"] for side in data(name)["p1"]["sides"])
    assert data("comparison")["p1"]["times"] is True


def test_a_baseline_file_has_step_times_and_no_timeline(data):
    ours, theirs = data("comparison_baseline_file")["p1"]["sides"]
    assert ours["timeline"] is None
    assert len(theirs["steps"]["window_ns"]) == len(ours["steps"]["window_ns"])
    assert theirs["timeline"] is not None


def test_steps_of_several_blocks_say_which_block_they_are_of(page, data):
    """Two blocks of 12 counted steps: their numbers repeat, so the numbers of the table are no links."""
    steps = data("run")["p1"]["sides"][0]["steps"]
    assert [0] * 12 + [1] * 12 == steps["block"]
    assert "block 0, step 3" in page("run")
    assert data("analysis")["p1"]["sides"][0]["steps"]["block"] is None


def test_numbers_that_repeat_are_no_links(cases):
    assert {} == links_by_number(cases["run"].facts, "p1", 0)
    assert 45 == len(links_by_number(cases["analysis"].facts, "p1", 0))
    assert {} == links_by_number(None, "p1", 0)


def test_positions_of_steps_count_those_that_a_comparison_leaves_out(make_session):
    """Three blocks of 6 counted steps, of each the first 2 left out: 2, 6 + 2 and 12 + 2 in the saved run."""
    run = make_session(steps=6, warmup=2).run("sync", blocks=3)
    later = replace(run, blocks=tuple(replace(block, warmup=4, steps=4) for block in run.blocks))
    made = run_data(replace(result_of(later), again="fdprof analyze x"), "", 1_000, left_out=2)
    assert {"command": "fdprof analyze x", "first": [2, 8, 14]} == made["source"]
    assert [0] * 4 + [1] * 4 + [2] * 4 == made["steps"]["block"]


PARTS = (
    Part("busy:compute", Meaning.BUSY, 600.0),
    Part("host:a", Meaning.HOST, 100.0),
    Part("blocked", Meaning.BLOCKED, 300.0),
)


def test_the_pieces_of_a_bar_fill_it_and_stand_in_the_rows_too():
    """Of 1,000 ns: 600 busy, then idle by the largest cause: 300 blocked, 100 host."""
    bars = bars_of([("", PARTS)])
    (bar,) = bars.bars
    assert [("m-busy", "0.000", "600.000"), ("m-blocked", "600.000", "300.000"), ("m-host", "900.000", "100.000")] == [
        (piece.css, piece.start, piece.width) for piece in bar.stretches
    ]
    assert ["busy:compute", "blocked", "host:a", "step"] == [row.cells[0] for row in bars.rows]
    assert ["60.0 %", "30.0 %", "10.0 %", "100.0 %"] == [row.cells[2] for row in bars.rows]


def test_two_bars_are_on_the_scale_of_the_longer_one():
    """500 of 1,000 ns are half of the width; what one side lacks changes by all of it."""
    bars = bars_of([("a", PARTS), ("b", (Part("busy:compute", Meaning.BUSY, 500.0),))])
    assert "500.000" == bars.bars[1].stretches[0].width
    assert ("blocked", "0.3", "0.0", "-0.3") == bars.rows[1].cells
    assert ("step", "1.0", "0.5", "-0.5") == bars.rows[-1].cells


def test_without_parts_there_are_no_bars():
    assert bars_of([("", ())]) is None


def test_small_parts_are_one_row_and_still_add_up():
    """30 ranges of 10 ns: 24 rows are shown, the other 6 are 60 ns."""
    bars = bars_of([("", tuple(Part(f"host:{at}", Meaning.HOST, 10_000.0) for at in range(30)))])
    assert ("6 others", "60.0", "20.0 %") == bars.rows[24].cells
    assert ("step", "300.0", "100.0 %") == bars.rows[25].cells


def test_a_waterfall_goes_from_one_mean_to_the_other():
    """1,000 to 400 ns: 700 less blocked, 100 more host.  On a scale from 0 to 1,000."""
    made = waterfall_of(("a", "b"), (1000.0, 400.0), {"blocked": -700, "host:x": 100, "queued": 0}, -600)
    pieces = [(row.cells[0], [(piece.start, piece.width) for piece in row.stretches]) for row in made.rows]
    assert [
        ("a", [("0.000", "1000.000")]),
        ("blocked", [("300.000", "700.000")]),
        ("host:x", [("300.000", "100.000")]),
        ("together", []),
        ("b", [("0.000", "400.000")]),
    ] == pieces
    assert "-0.600" == made.rows[3].cells[1]
    assert "bars from 0.0 to 1.0 µs" == made.scale


def test_a_small_change_is_drawn_on_a_scale_that_says_it_does_not_begin_at_zero():
    """100,000 to 99,000 ns: the scale has a tenth of the change on either side."""
    made = waterfall_of(("a", "b"), (100_000.0, 99_000.0), {"blocked": -1000}, -1000)
    assert "bars from 98.9 to 100.1 µs: they do not begin at 0" == made.scale
    assert ("83.333", "833.333") == (made.rows[1].stretches[0].start, made.rows[1].stretches[0].width)


def test_ratios_share_a_scale_that_holds_one():
    """0.8 to 1.0 with 6 % of that on either side: 1 lies at 0.212 / 0.224."""
    made = ratios_of([Named("mean", Estimate(0.9, (0.8, 0.95)))], "")
    (row,) = made.rows
    one = next(piece for piece in row.stretches if piece.css == "bare")
    assert 1000 * 0.212 / 0.224 - 1 == pytest.approx(float(one.start), abs=0.01)
    assert "bars from 0.788 to 1.012; the thin line is at 1" == made.scale
    assert ratios_of([], "") is None


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("uplot-1.6.32.min.js", "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"),
        ("uplot-1.6.32.min.css", "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04"),
        ("uplot-LICENSE", "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd"),
    ],
)
def test_the_chart_library_is_the_published_one_unchanged(name, digest):
    """uPlot 1.6.32 as npm has it (dist/uPlot.iife.min.js, dist/uPlot.min.css, LICENSE), and nothing besides."""
    assert digest == hashlib.sha256((ASSETS / "vendor" / name).read_bytes()).hexdigest()
    assert 3 == len(list((ASSETS / "vendor").iterdir()))


def test_our_script_puts_no_text_in_as_markup():
    """textContent and append only; and no file of ours is longer than the project's limit."""
    for path in (*ASSETS.glob("*.js"), *ASSETS.glob("*.j2"), *ASSETS.glob("*.css")):
        text = path.read_text(encoding="utf-8")
        assert not re.search(
            r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|\|\s*safe", text
        ), path
        assert len(text.splitlines()) <= 500, path


def test_a_page_of_an_interrupted_run_says_so_beside_its_title(page):
    assert '<span class="badge doubt">interrupted</span>' in page("run_interrupted")
    assert "2 finished blocks shown" in page("run_interrupted")
    assert "interrupted" not in page("run").split("<script")[0]
