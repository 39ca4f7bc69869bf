# ruff: noqa: SIM300 - the expected value stands first
"""The HTML report in a browser: it loads alone, runs nothing of others, and can be read by everybody and on paper."""

import base64

import pytest
from fdprof.reports._html.theme import _PAGE

CASES = (
    "run",
    "run_interrupted",
    "run_wrong",
    "run_one_step",
    "comparison",
    "comparison_not_comparable",
    "comparison_wrong",
    "comparison_captures",
    "comparison_baseline_file",
    "analysis",
    "analysis_inflated",
    "analysis_no_device",
    "analysis_hostile",
    "analyses",
    "overhead",
)
OPENED = ("run_one_step", "analysis", "analysis_hostile")
every_case = pytest.mark.parametrize("name", CASES)


def test_every_golden_case_is_shown(cases):
    """A case that is added later is looked at too."""
    assert set(cases.names) == set(CASES)


@every_case
def test_a_page_loads_without_a_word_in_the_console_and_without_a_request(show, name):
    """Everything is in the file; its icon is an empty data address, which is no request."""
    page = show(name)
    assert [] == page.console
    assert [] == [address for address in page.requests if not address.startswith("data:")]


@every_case
def test_nothing_scrolls_sideways_on_a_narrow_screen(show, name):
    """Wide tables have scrollers of their own."""
    page = show(name, width=400)
    page.frames()
    wide, room = page.js("const e = document.documentElement; return [e.scrollWidth, e.clientWidth]")
    assert wide <= room


@pytest.mark.parametrize(
    ("name", "dark"),
    [(name, False) for name in CASES]
    + [(name, True) for name in ("run_wrong", "comparison", "analysis", "analysis_hostile", "overhead")],
)
def test_axe_finds_nothing(show, axe, name, dark):
    """WCAG 2 A and AA and axe's best practices, with everything open where there is most; in dark too."""
    page = show(name, dark=dark)
    if name in OPENED:
        page.js("for (const each of document.querySelectorAll('details')) each.open = true")
        page.until(
            "return document.querySelectorAll('.as-table').length === document.querySelectorAll('.filled table').length"
        )
    page.js(axe)
    found = page.js_async("axe.run(document, {resultTypes: ['violations']}).then(arguments[0])")
    told = [(rule["id"], [node["html"][:200] for node in rule["nodes"]][:3]) for rule in found["violations"]]
    assert [] == told
    assert len(found["passes"]) > 10


def test_a_script_from_elsewhere_does_not_run(show):
    """The page's policy knows the hash of its own script only; a canary that may run would be set."""
    page = show("analysis")
    page.js(
        "window.__ran = 0; const script = document.createElement('script');"
        "script.textContent = 'window.__ran = 1'; document.body.append(script)"
    )
    assert 0 == page.js("return window.__ran")
    assert any("Content Security Policy" in line for line in page.console)


def test_the_page_cannot_fetch(show):
    """connect-src falls back on default-src, which is none; a picture from elsewhere is none either."""
    page = show("analysis")
    fetched = page.js_async(
        "const done = arguments[0]; fetch('http://127.0.0.1:9/').then(() => done('yes'), () => done('no'))"
    )
    assert "no" == fetched
    assert any("Content Security Policy" in line and "127.0.0.1" in line for line in page.console)


def test_markup_in_names_is_shown_as_text_and_runs_nothing(show):
    """Ranges, kernels, tool, file and device of this capture are named with markup; a script would set the canary."""
    page = show("analysis_hostile")
    page.js("for (const each of document.querySelectorAll('details')) each.open = true")
    page.until("return document.querySelector('.timeline .filled table') !== null")
    text = page.js("return document.body.innerText")
    assert "<script>window.__pwned = 1</script>" in text
    assert "</script><!--" in text
    assert "kernel gemm<float, 'a' | \"b\"> & co; `rm` *bold*" in text
    assert page.js("return window.__pwned === undefined")
    assert 2 == page.js("return document.scripts.length")
    assert [] == page.console


def test_a_name_of_thousands_of_characters_wraps(show):
    """The kernel of 4,000 k is cut in the middle to 400 of them; the table scrolls in its own box."""
    page = show("analysis_hostile", width=420)
    page.js("for (const each of document.querySelectorAll('details')) each.open = true")
    page.until("return document.querySelector('.timeline .filled table') !== null")
    assert page.js("return [...document.querySelectorAll('button.link')].some((each) => each.textContent.length > 400)")
    assert page.js("const e = document.documentElement; return e.scrollWidth <= e.clientWidth")


def _background(page):
    return page.js("return getComputedStyle(document.body).backgroundColor")


def _as_rgb(colour):
    red, green, blue = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


def test_the_page_is_light_or_dark_as_the_system_is_until_it_is_switched(show):
    """paper is #ffffff in light and #14161a in dark."""
    light, dark = (_as_rgb(colour) for colour in _PAGE["paper"])
    page = show("analysis")
    assert light == _background(page)
    page.prefer("dark")
    assert dark == _background(page)
    page.find("#theme").click()
    assert light == _background(page)
    page.find("#theme").click()
    assert dark == _background(page)


def test_the_charts_are_painted_anew_in_the_other_colours(show):
    """The timeline's first pixel is the ruler's background, raised: #f5f6f8 in light, #1c1f24 in dark."""
    page = show("analysis")
    first = "return [...document.querySelector('.canvas-scroll canvas').getContext('2d').getImageData(1, 1, 1, 1).data]"
    assert [0xF5, 0xF6, 0xF8, 255] == page.js(first)
    page.find("#theme").click()
    page.frames()
    assert [0x1C, 0x1F, 0x24, 255] == page.js(first)


@pytest.mark.parametrize(("name", "tables"), [("analysis", 2), ("comparison", 3), ("overhead", 0)])
def test_a_page_can_be_printed(show, name, tables):
    """On the way everything is opened and filled: the distribution, and a table of spans a side; then it is closed."""
    page = show(name, dark=True)
    closed = "return document.querySelectorAll('details:not([open])').length"
    before = page.js(closed)
    page.js(
        "window.__seen = []; addEventListener('beforeprint', () => window.__seen.push("
        "document.querySelectorAll('details:not([open]):not(.keys-help)').length,"
        "document.querySelectorAll('.filled table').length))"
    )
    printed = base64.b64decode(page.command("Page.printToPDF", printBackground=True)["data"])
    assert b"%PDF" == printed[:4]
    assert b"/Type /Page" in printed
    assert [0, tables] == page.js("return window.__seen")
    assert before == page.js(closed)
    assert [] == page.console


def test_on_paper_the_colours_are_the_light_ones(show):
    """Whatever the system or the switch say."""
    page = show("analysis", dark=True)
    page.command(
        "Emulation.setEmulatedMedia", media="print", features=[{"name": "prefers-color-scheme", "value": "dark"}]
    )
    try:
        assert _as_rgb(_PAGE["paper"][0]) == _background(page)
    finally:
        page.command("Emulation.setEmulatedMedia", media="", features=[])


def test_several_captures_have_a_table_of_contents(show):
    """Two captures: each has an entry that leads to it, and a timeline of its own."""
    page = show("analyses")
    links = page.js("return [...document.querySelectorAll('.contents a')].map((each) => [each.textContent, each.hash])")
    assert [["stop_flag_sync.sqlite", "#p1"], ["stop_flag_overlap.sqlite", "#p2"]] == links
    assert 2 == page.js("return window.fdprofPage.timelines.size")


def test_what_is_simulated_says_so_beside_the_title(show):
    assert "simulated" in show("run").find(".badges").text.lower()
    assert "simulated" in show("comparison").find(".badges").text.lower()
    assert 0 == show("analysis").js("return document.querySelectorAll('.badge').length")


def test_wrong_values_stand_above_all_numbers(show):
    page = show("run_wrong")
    assert "wrong values" in page.find(".badges").text
    assert page.find(".sentences p").text.startswith("Wrong values: ")
    assert "wrong tokens" in show("comparison_wrong").find(".badges").text
