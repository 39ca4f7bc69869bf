# ruff: noqa: SIM300 - the expected value stands first
"""The timeline of the HTML report in a browser: what it draws, what pointer and keys do, how steps are found."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fdprof.reports._palette import PALETTE

from fdprof import units
from fdprof.analysis.timeline import LaneKind, timeline_of
from fdprof.meanings import Meaning

TIMELINE = (
    "const timeline = window.fdprofPage.timelines.get('p1');const view = timeline.view; const line = timeline.lines[0];"
)


@pytest.fixture
def timeline(cases):
    """All steps of the capture of the sync loop, which the page draws too, so that spans have the same numbers."""
    return timeline_of(cases["analysis"].facts)


def state(page):
    """Return what is in view: from and to, ns from the current step's start, and that step's position."""
    return page.js(TIMELINE + "return {from: view.from, to: view.to, position: line.positions[view.anchors[0]]}")


def place_of(page, span):
    """Return where the middle of what is in view of a span is in the window."""
    page.scroll_to(".canvas-scroll")
    page.frames()
    return page.js(
        TIMELINE + "const span = arguments[0], box = timeline.canvas.getBoundingClientRect();"
        "const row = timeline.layout.rows.find((each) => each.lane === line.lanes[line.lane[span]]);"
        "const x = (time) => Math.min(Math.max(view.x(line, time - line.segments[0].start), view.gutter), view.width);"
        "const middle = (x(line.start[span]) + x(line.end[span])) / 2;"
        "return [box.left + middle, box.top + row.y + row.height / 2 - view.scroll]",
        int(span),
    )


def longest_wait(timeline, position):
    """Return the longest blocking call that begins in a step."""
    lanes = np.array([lane.kind is LaneKind.CALLS for lane in timeline.lanes])[timeline.spans.lane]
    blocked = timeline.spans.meaning == tuple(Meaning).index(Meaning.BLOCKED)
    start = timeline.spans.start_ns
    inside = (start >= timeline.starts_ns[position]) & (start < timeline.ends_ns[position])
    rows = np.flatnonzero(lanes & blocked & inside)
    return int(rows[np.argmax((timeline.spans.end_ns - start)[rows])])


def exact(ns):
    return f"{int(ns):,} ns"


def test_every_lane_is_drawn_in_the_colours_of_what_happens(show):
    """The sync loop's step has kernels, a blocking copy, launches, and idle time with host code and start latency."""
    page = show("analysis")
    counts = page.js(
        "const canvas = document.querySelector('.canvas-scroll canvas');"
        "const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data; const found = {};"
        "for (let at = 0; at < data.length; at += 4) { const key = `${data[at]},${data[at + 1]},${data[at + 2]}`;"
        "found[key] = (found[key] || 0) + 1; } return found"
    )
    for meaning in (Meaning.BUSY, Meaning.BLOCKED, Meaning.LAUNCH, Meaning.HOST, Meaning.QUEUED):
        colour = PALETTE[meaning].light
        key = ",".join(str(int(colour[at : at + 2], 16)) for at in (1, 3, 5))
        assert counts.get(key, 0) > 20, meaning


def test_the_pointer_shows_the_exact_times_of_a_span(show, timeline):
    """The longest wait of the step in view: its start into the step and its length, to the ns."""
    page = show("analysis")
    position = state(page)["position"]
    span = longest_wait(timeline, position)
    page.mouse("mouseMoved", *place_of(page, span))
    page.until("return !document.querySelector('.tip').hidden")
    tip = page.find(".tip").text
    spans = timeline.spans
    assert timeline.names[spans.name[span]] in tip
    assert f"lasts: {exact(spans.end_ns[span] - spans.start_ns[span])}" in tip
    assert f"starts: {exact(spans.start_ns[span] - timeline.starts_ns[position])} into the step" in tip


def test_a_click_selects_a_span_and_tells_what_hangs_together(show, timeline):
    """The blocking copy's details name its own copy on the device, with that one's length."""
    page = show("analysis")
    span = longest_wait(timeline, state(page)["position"])
    page.click(*place_of(page, span))
    flows, spans = timeline.flows, timeline.spans
    copy = int(flows.copy[np.flatnonzero(flows.issue == span)[0]])
    details = page.find(".details")
    assert timeline.names[spans.name[span]] in details.text
    assert f"{timeline.names[spans.name[copy]]}, {exact(spans.end_ns[copy] - spans.start_ns[copy])}" in details.text
    assert "polite" == details.get_attribute("aria-live")
    page.press("\ue00c")  # Escape
    assert "Nothing is selected." == details.text


def test_a_copy_names_the_wait_that_ends_on_it(show, cases):
    """In the overlap loop the fence of one step waits for the copies of the step before."""
    page = show("comparison_captures")
    made = timeline_of(cases["comparison_captures"].candidate.facts)
    flow = int(np.flatnonzero((made.flows.copy >= 0) & (made.flows.wait >= 0))[0])
    copy, wait = int(made.flows.copy[flow]), int(made.flows.wait[flow])
    page.js(
        "const timeline = window.fdprofPage.timelines.get('p1'); timeline.reveal(timeline.lines[1], arguments[0])", copy
    )
    text = page.find(".details").text
    assert made.names[made.spans.name[wait]] in text
    assert exact(made.spans.end_ns[wait] - made.spans.start_ns[wait]) in text


def test_plus_and_minus_zoom_and_home_shows_the_whole_step(show):
    """A press of + shows 1 / 1.4 of the time, about the middle; - takes it back."""
    page = show("analysis")
    page.js(TIMELINE + "timeline.scroller.focus()")
    first = state(page)
    page.press("+")
    near = state(page)
    assert (first["to"] - first["from"]) / 1.4 == pytest.approx(near["to"] - near["from"])
    assert (first["from"] + first["to"]) / 2 == pytest.approx((near["from"] + near["to"]) / 2)
    page.press("-")
    assert first["to"] == pytest.approx(state(page)["to"])
    page.press("+")
    page.press("\ue011")  # Home
    assert first == state(page)


def test_end_shows_everything_that_is_drawn(show, timeline):
    page = show("analysis")
    page.js(TIMELINE + "timeline.scroller.focus()")
    page.press("\ue010")  # End
    now = state(page)
    assert timeline.ends_ns[-1] - timeline.starts_ns[0] == now["to"] - now["from"]


def test_the_arrow_keys_and_dragging_pan(show):
    """An arrow pans by 0.15 of the width; a drag of 100 pixels by as much time as lies on 100 pixels."""
    page = show("analysis")
    page.js(TIMELINE + "timeline.scroller.focus()")
    first = state(page)
    page.press("\ue014")  # ArrowRight
    assert first["from"] + 0.15 * (first["to"] - first["from"]) == pytest.approx(state(page)["from"])
    page.press("\ue012")  # ArrowLeft
    assert first["from"] == pytest.approx(state(page)["from"])
    x, y = page.js(
        "const b = document.querySelector('.canvas-scroll').getBoundingClientRect(); return [b.left + 600, b.top + 40]"
    )
    scale = page.js(TIMELINE + "return view.scale")
    page.mouse("mouseMoved", x, y)
    page.mouse("mousePressed", x, y, clickCount=1)
    for moved in (20, 60, 100):
        page.mouse("mouseMoved", x - moved, y, button="left", buttons=1)
    page.mouse("mouseReleased", x - 100, y, clickCount=1)
    assert first["from"] + 100 / scale == pytest.approx(state(page)["from"], abs=1.5 / scale)


def test_the_wheel_zooms_with_control_or_once_the_timeline_was_clicked(show):
    """Else it scrolls the page, and a hint says how to zoom."""
    page = show("analysis")
    page.scroll_to(".canvas-scroll")
    x, y = page.js(
        "const b = document.querySelector('.canvas-scroll').getBoundingClientRect(); return [b.left + 600, b.top + 40]"
    )
    first = state(page)
    page.js("addEventListener('scrollend', () => { window.hasScrolled = true })")
    page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-120)
    page.until("return !document.querySelector('.hint').hidden")
    assert first == state(page)
    page.until("return window.hasScrolled")  # while the page still moves, the timeline is soon elsewhere
    page.js(TIMELINE + "timeline.scroller.focus({preventScroll: true})")
    y = page.js("return document.querySelector('.canvas-scroll').getBoundingClientRect().top + 40")
    page.mouse("mouseWheel", x, y, deltaX=0, deltaY=-120)
    page.until(TIMELINE + f"return view.to - view.from < {0.9 * (first['to'] - first['from'])}")
    page.js("document.activeElement.blur()")
    near = state(page)
    page.mouse("mouseWheel", x, y, deltaX=0, deltaY=120, modifiers=2)
    page.until(TIMELINE + f"return view.to - view.from > {1.1 * (near['to'] - near['from'])}")


def test_n_and_p_go_to_the_next_and_the_previous_step(show):
    page = show("analysis")
    page.js(TIMELINE + "timeline.scroller.focus()")
    first = state(page)["position"]
    page.press("n")
    assert first + 1 == state(page)["position"]
    page.press("p")
    page.press("p")
    assert first - 1 == state(page)["position"]


def test_slash_goes_to_the_search_and_enter_to_the_step(show, timeline):
    """The status says the step and its length."""
    page = show("analysis")
    page.js(TIMELINE + "timeline.scroller.focus()")
    page.press("/")
    page.press("17\ue007")
    assert 17 == state(page)["position"]
    length = units.us(int(timeline.ends_ns[17] - timeline.starts_ns[17]))
    assert f"step 17, {length} µs" == page.find(".status").text


@pytest.mark.parametrize(
    ("wanted", "answer"),
    [
        ("999", "There is no step 999: the numbers are 0 to 44."),
        ("x", '"x" is no step: give its number.'),
        ("<b>", '"<b>" is no step: give its number.'),
    ],
)
def test_a_search_that_finds_nothing_says_so(show, wanted, answer):
    page = show("analysis")
    page.find("input").send_keys(wanted + "\ue007")
    assert answer == page.find(".status").text


def test_keys_are_the_timelines_only_while_it_has_the_focus(show):
    """WCAG 2.1.4: a letter that is pressed elsewhere does nothing."""
    page = show("analysis")
    first = state(page)
    page.find("#theme").send_keys("n+")
    page.frames()
    assert first == state(page)


def test_a_span_is_reached_and_read_by_keys_alone(show, timeline):
    """The full stop selects the first call of the step, then the next one of its lane; the details are announced."""
    page = show("analysis")
    page.js(TIMELINE + "timeline.scroller.focus()")
    page.press(".")
    spans, position = timeline.spans, state(page)["position"]
    calls = np.array([lane.kind is LaneKind.CALLS for lane in timeline.lanes])[spans.lane]
    mine = np.flatnonzero(
        calls & (spans.start_ns >= timeline.starts_ns[position]) & (spans.start_ns < timeline.ends_ns[position])
    )
    begins = [exact(spans.start_ns[span] - timeline.starts_ns[position]) for span in mine[:2]]
    assert f"{begins[0]} into the step" in page.find(".details").text
    page.press(".")
    assert f"{begins[1]} into the step" in page.find(".details").text


def test_a_finding_leads_to_a_step_that_shows_it(show, cases):
    """The link's step is the one in view, and the timeline has the focus."""
    page = show("analysis")
    wanted = cases["analysis"].findings[0].steps[1]
    page.find(".finding .shown-by a:nth-of-type(2)").click()
    assert wanted == state(page)["position"]
    assert page.js(TIMELINE + "return document.activeElement === timeline.scroller")


def test_enter_on_one_of_the_longest_steps_shows_it(show, cases):
    page = show("analysis")
    page.find(".charts a.to-step").send_keys("\ue007")
    assert cases["analysis"].worst[0].position == state(page)["position"]


def test_a_click_on_an_outlier_shows_its_step(show, cases):
    """The mark of the second longest step is where its position lies on the chart's width."""
    page = show("analysis")
    page.scroll_to("[data-chart=steps] .plot")
    worst = cases["analysis"].worst[1]
    x, y = page.js(
        "const over = document.querySelector('[data-chart=steps] .u-over').getBoundingClientRect();"
        "const steps = JSON.parse(document.getElementById('data').textContent).parts.p1.sides[0].steps.window_ns;"
        "return [over.left + (over.width * arguments[0]) / (steps.length - 1), over.top + over.height / 2]",
        worst.position,
    )
    page.click(x, y)
    assert worst.position == state(page)["position"]


def test_a_steps_spans_stand_in_a_table_in_their_order(show, timeline):
    """Of the step in view; a press on a name selects that span."""
    page = show("analysis")
    position = state(page)["position"]
    page.js("document.querySelector('.timeline .as-table').open = true")
    page.until("return document.querySelector('.timeline .filled tbody tr') !== null")
    rows = page.js(
        "return [...document.querySelectorAll('.timeline .filled tbody tr')]"
        ".map((row) => [...row.children].map((cell) => cell.textContent))"
    )
    spans = timeline.spans
    touching = (spans.start_ns < timeline.ends_ns[position]) & (spans.end_ns > timeline.starts_ns[position])
    assert int(touching.sum()) == len(rows)
    starts = [int(row[3].replace(",", "")) for row in rows]
    assert sorted(starts) == starts
    assert (spans.start_ns[touching] - timeline.starts_ns[position]).tolist() == starts
    page.find(".timeline .filled tbody tr:last-child button").click()
    assert rows[-1][0] in page.find(".span-name").text


def test_both_sides_of_a_comparison_are_aligned_at_the_start_of_the_same_step(show):
    """Where A's step starts on the screen, B's starts too; n moves both."""
    page = show("comparison_captures")
    starts = TIMELINE + (
        "return timeline.lines.map((each, at) => [each.positions[view.anchors[at]], view.x(each, view.origin(each))])"
    )
    (ours, left), (theirs, right) = page.js(starts)
    assert (ours, left) == (theirs, right)
    page.js(TIMELINE + "timeline.scroller.focus()")
    page.press("n")
    (ours, left), (theirs, right) = page.js(starts)
    assert (ours, left) == (theirs, right)


def test_a_side_that_is_a_baseline_file_has_no_timeline_and_the_other_one_has(show):
    page = show("comparison_baseline_file")
    assert 1 == page.js(TIMELINE + "return timeline.lines.length")
    assert "async" == page.js(TIMELINE + "return line.side.label")


def test_a_lane_that_is_out_of_sight_is_scrolled_to_when_its_span_is_selected(browser, write_page, build):
    """A capture with 200 streams is higher than its box; the last stream's kernel is reached by the table."""
    from fdprof.analysis.capture_result import analyze
    from fdprof.analysis.steps import Choice

    work = [(f"kernel {at}", 10 + at, 11 + at, 0, 100 + at) for at in range(200)]
    capture = build.a_loop(4, 400, [("cudaLaunchKernel", 1, 5)], work)
    browser.show(write_page("streams", analyze(capture, "streams.json", Choice())))
    high, room = browser.js(
        "const e = document.querySelector('.canvas-scroll'); return [e.scrollHeight, e.clientHeight]"
    )
    assert high > 2 * room
    browser.js(
        TIMELINE
        + "const lane = line.lanes.find((each) => each.label.includes('299')); timeline.reveal(line, lane.spans[0])"
    )
    browser.until(TIMELINE + "return view.scroll > 0")
    assert "kernel 199" == browser.find(".span-name").text
    assert [] == browser.console


MANY = 10_000


@pytest.fixture(scope="module")
def many(write_page, build) -> Path:
    """The page of a capture of which not every step is drawn."""
    from fdprof.analysis.capture_result import analyze
    from fdprof.analysis.steps import Choice

    calls = [("cudaLaunchKernel", 1 + 2 * at, 2 + 2 * at) for at in range(8)] + [("cudaMemcpy", 20, 70)]
    work = [
        *((f"kernel {at}", 20 + 5 * at, 24 + 5 * at, at, 7) for at in range(8)),
        ("D2H pageable 4", 66, 68, 8, 7),
    ]
    capture = build.a_loop(MANY, 100, calls, work, [("forward", 0, 18), ("transfer", 19, 71)])
    return write_page("many", replace(analyze(capture, "many.json", Choice()), again="fdprof analyze many.json"))


def test_the_file_is_below_five_megabytes_and_loads(browser, many):
    """The bar of the issue is 5 MB."""
    assert many.stat().st_size < 5_000_000
    browser.show(many)
    assert [] == browser.console
    drawn, known = browser.js(TIMELINE + "return [line.positions.length, line.side.steps.number.length]")
    assert MANY == known
    assert 100 < drawn < known


def test_a_step_that_is_not_drawn_is_said_to_be_none_and_how_it_can_be_had(browser, many):
    """The nearest drawn step is offered, and the command draws the wanted one between its neighbours."""
    browser.show(many)
    wanted = browser.js(
        TIMELINE + "const drawn = new Set(line.positions); let at = 5000; while (drawn.has(at)) at++; return at"
    )
    browser.find("input").send_keys(f"{wanted}\ue007")
    nearest = browser.js(
        TIMELINE + "return line.positions.reduce((best, at) =>"
        "Math.abs(at - arguments[0]) < Math.abs(best - arguments[0]) ? at : best)",
        wanted,
    )
    status = browser.find(".status").text
    assert f"step {wanted} is not among the steps drawn here. The nearest that is: Show step {nearest}" in status
    assert f"fdprof analyze many.json --steps {wanted - 1}:{wanted + 2} -o steps.html" in status
    browser.find(".status button").click()
    assert nearest == state(browser)["position"]


def test_zooming_out_over_all_of_it_draws(browser, many):
    """Everything drawn fits, and the lanes are not empty: busy has pixels."""
    browser.show(many)
    browser.js(TIMELINE + "timeline.all(); timeline.paint()")
    colour = PALETTE[Meaning.BUSY].light
    wanted = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    found = browser.js(
        TIMELINE + "const data = timeline.canvas.getContext('2d')"
        ".getImageData(0, 0, timeline.canvas.width, timeline.canvas.height).data; let count = 0;"
        "for (let at = 0; at < data.length; at += 4) if (data[at] === arguments[0][0] &&"
        " data[at + 1] === arguments[0][1] && data[at + 2] === arguments[0][2]) count++; return count",
        wanted,
    )
    assert found > 100
