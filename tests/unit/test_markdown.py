# ruff: noqa: SIM300 - the expected value stands first
"""The Markdown report: for a comment on GitHub, in which no name becomes markup, a mention or a link."""

import re
from dataclasses import replace

import pytest
from fdprof.reports import _markdown
from fdprof.reports._markdown import MOST_CHARACTERS, Block, code, folded, page_of, paragraph, table, text
from fdprof.reports.markdown import REPORT
from fdprof.reports.protocol import Analyses
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fdprof import units
from fdprof.analysis.capture_result import analyze
from fdprof.analysis.steps import Choice

# CommonMark with GitHub's tables; rich brings it.
markdown_it = pytest.importorskip("markdown_it", reason="markdown-it-py, which reads Markdown, is not installed")
PARSER = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"])

NAMES = (
    "run", "run_interrupted", "run_wrong", "run_one_step", "comparison", "comparison_not_comparable",
    "comparison_wrong", "comparison_captures", "comparison_baseline_file", "analysis", "analysis_inflated",
    "analysis_no_device", "analysis_hostile", "analyses", "overhead",
)  # fmt: skip
OUR_TAGS = {"<br>", "<code>", "</code>", "<details>", "</details>", "<summary>", "</summary>"}
# What GitHub links or replaces in finished text that is not code.
LINKED = re.compile(r"@\w|#\d|GH-\d|://|www\.|:[\w+-]+:", re.IGNORECASE)

CHARACTERS = st.one_of(
    st.characters(categories=("L", "M", "N", "P", "S", "Zs", "Cc", "Cf")),
    st.sampled_from("\\`*_{}[]()<>#|~&!$@:-+=.1 \t\n"),
)
HOSTILE = st.text(CHARACTERS, min_size=1, max_size=60)


def _inline(tokens):
    for token in tokens:
        yield from token.children or ()


def _prose(tokens):
    """Return the text that is not code: GitHub links nothing in code."""
    found, is_code = [], False
    for token in _inline(tokens):
        if token.type == "html_inline":
            is_code = token.content == "<code>" or (is_code and token.content != "</code>")
        elif token.type == "text" and not is_code:
            found.append(token.content)
    return " ".join(found)


def _plain(markdown):
    """Return the text that a reader sees of a line of Markdown, and the kinds of what else is in it."""
    tokens = PARSER.parse(f"x{markdown}x")
    shown = "".join(token.content for token in _inline(tokens) if token.type in ("text", "code_inline"))
    kinds = {token.type for token in _inline(tokens)} | {token.type for token in tokens}
    return shown.replace("\u200b", "")[1:-1], kinds - {"paragraph_open", "paragraph_close", "inline"}


def test_every_case_is_shown_here(cases):
    """A new case gets its golden file."""
    assert set(cases.names) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_result_is_shown_as_it_was_looked_at(cases, golden, name):
    """Whole pages."""
    golden("markdown", f"{name}.md", REPORT.render(cases[name]))


@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_markup_of_ours_only(cases, name):
    """No tag, link or picture but those that this report writes, and every row has its table's columns."""
    page = REPORT.render(cases[name])
    tokens = PARSER.parse(page)
    tags = {tag for token in tokens if token.type == "html_block" for tag in re.findall(r"<[^>]*>", token.content)}
    tags |= {token.content for token in _inline(tokens) if token.type == "html_inline"}
    assert tags <= OUR_TAGS
    kinds = {token.type for token in _inline(tokens)}
    assert kinds <= {"text", "code_inline", "strong_open", "strong_close", "softbreak", "html_inline", "text_special"}
    assert not LINKED.search(_prose(tokens))
    for table_open, table_close in zip(_at(tokens, "table_open"), _at(tokens, "table_close"), strict=True):
        part = tokens[table_open:table_close]
        cells = [token.type for token in part if token.type in ("th_open", "td_open", "tr_open")]
        rows = " ".join(cells).split("tr_open")[1:]
        assert 1 == len({len(row.split()) for row in rows})


def _at(tokens, kind):
    return [index for index, token in enumerate(tokens) if token.type == kind]


def test_the_verdict_is_the_title_and_the_first_sentence_is_bold(cases):
    """Gates come next, then the times."""
    page = REPORT.render(cases["comparison"])
    title, _, first, *_ = page.splitlines()
    assert "## fdprof: async against sync: faster (simulated)" == title
    assert first.startswith("**async is faster than sync: 0.894 of its mean step")
    assert -1 < page.index("- gate `--max-ratio 0.9`: **passed**") < page.index("| step, mean |")
    wrong = "## fdprof: unfenced against sync: wrong tokens (simulated)"
    assert wrong == REPORT.render(cases["comparison_wrong"]).splitlines()[0]


def test_a_p99_is_shown_from_100_steps_on(cases):
    """As on the terminal: of 24 and of 72 it is a dash, and a note says why."""
    for name in ("run", "comparison", "analysis"):
        page = REPORT.render(cases[name])
        assert 1 == page.count("note: p99 is shown from 100 counted steps on")
    assert "| step | 1,209.8 | 1,209.8 | 1,209.8 | - | 1,209.8 | 0:3 |" in REPORT.render(cases["run"])
    assert "| step, p99 | - | - | - | - |" in REPORT.render(cases["comparison"])


def test_more_than_two_findings_are_folded(cases):
    """Their codes stand in the line that opens them."""
    analysis = cases["analysis"]
    assert "<summary>3 findings: pageable-destination, several-waits, copy-on-default-stream</summary>" in (
        REPORT.render(analysis)
    )
    two = REPORT.render(replace(analysis, findings=analysis.findings[:2]))
    assert "findings: pageable" not in two
    assert "- **pageable-destination** (proved, at most 292.6 µs a step): " in two


@given(HOSTILE)
def test_any_text_is_shown_as_it_is(name):
    """In a paragraph; what a terminal would obey is escaped first."""
    shown, kinds = _plain(text(name))
    assert " ".join(units.printable(name).split()) == " ".join(shown.split())
    assert kinds <= {"text", "text_special"}


@given(HOSTILE)
def test_any_name_is_shown_as_code(name):
    """Nothing in it is linked; spaces at its ends are kept."""
    shown, kinds = _plain(f" {code(name)} ")
    assert units.shown(name).split() == shown.split()
    assert kinds <= {"text", "text_special", "code_inline", "html_inline"}


@given(HOSTILE)
def test_no_text_begins_a_list_a_heading_or_a_rule(name):
    """At the beginning of a line."""
    kinds = {token.type for token in PARSER.parse(f"before\n{paragraph(name)}\n")}
    assert {"paragraph_open", "paragraph_close", "inline"} == kinds


@given(st.lists(st.lists(HOSTILE, min_size=1, max_size=3), min_size=1, max_size=4))
def test_no_name_breaks_a_table(rows):
    """Three cells in every row."""
    lines = table(["a", "b", "c"], [[code(row[0]), *map(text, row[1:])] for row in rows])
    tokens = PARSER.parse("\n".join(lines))
    assert len(rows) + 1 == len(_at(tokens, "tr_open"))
    assert 3 * len(rows) == len(_at(tokens, "td_open"))
    # GitHub takes a pipe for the end of a cell wherever it stands, also in code, unless a backslash is before it.
    assert all(4 == len(re.findall(r"(?<!\\)\|", line)) for line in lines)


@pytest.mark.parametrize(
    ("expected", "plain"),
    [
        ("@&#8203;user", "@user"),
        (r"\#&#8203;12", "#12"),
        ("GH-&#8203;12", "GH-12"),
        ("http:&#8203;//x", "http://x"),
        ("www&#8203;.x", "www.x"),
        (":&#8203;rocket:", ":rocket:"),
        (r"\<b\> \& \| \`x\` \*y\* \_z\_ \[a\](b) \~", "<b> & | `x` *y* _z_ [a](b) ~"),
        ("&#36;x&#36;", "$x$"),
        (r"a b@ \# : 5", "a b@ # : 5"),
    ],
)
def test_what_means_something_to_github_is_taken_apart(expected, plain):
    """Mentions and links are found in the finished text, where a backslash is gone."""
    assert expected == text(plain)


@pytest.mark.parametrize(
    ("expected", "name"),
    [
        ("`host:forward`", "host:forward"),
        ("<code>a&#124;b</code>", "a|b"),
        ("<code>a&#96;b</code>", "a`b"),
        ("<code>a&#92;b</code>", "a\\b"),
        ("<code>&#92;u202e</code>", "\u202e"),
        ("<code> a</code>", " a"),
    ],
)
def test_a_name_is_code_in_marks_or_tags(expected, name):
    """Tags where a mark, a pipe or a backslash in it would end the code or the cell."""
    assert expected == code(name)


def _blocks(*sizes):
    return [Block(f"part {number}", ("x" * size,)) for number, size in enumerate(sizes)]


def test_what_a_comment_has_no_room_for_is_left_out_whole_and_named():
    """50,000 characters fit, then 9,000 do not, then 100 do."""
    page = page_of(_blocks(50_000, 9_000, 100))
    assert ["x" * 50_000, "x" * 100] == page.split("\n\n")[:2]
    assert page.endswith(
        "Left out, because a comment holds no more: part 1 (1 part). The other formats have everything.\n"
    )
    assert len(page) < MOST_CHARACTERS


def test_what_is_needed_gets_its_room_first():
    """It stands at its place all the same."""
    first, last = _blocks(50_000, 20_000)
    page = page_of([first, replace(last, needed=True)])
    assert page.startswith("x" * 20_000 + "\n\nLeft out")
    assert "part 0" in page


def test_an_empty_part_is_none():
    """It leaves no hole."""
    assert "a\n\nb\n" == page_of([Block("", ("a",)), Block("", ()), Block("", ("", "")), Block("", ("b",))])
    assert "\n" == page_of([])


def test_a_hundred_captures_with_long_names_fit_a_comment(cases):
    """65,536 characters are GitHub's limit; what is left out is said."""
    hostile = cases["analysis_hostile"]
    page = REPORT.render(Analyses((replace(hostile, path="`" * 600, limits=("@a " * 200,) * 9),) * 100))
    assert len(page) <= MOST_CHARACTERS
    assert "Left out, because a comment holds no more: " in page


def test_a_page_that_is_just_too_long_is_cut(monkeypatch):
    """The sentence about it has its room kept."""
    monkeypatch.setattr(_markdown, "MOST_CHARACTERS", 2_000)
    assert len(page_of(_blocks(498))) == 499
    assert page_of(_blocks(499)).startswith("Left out")


def test_a_fold_has_empty_lines_inside():
    """Without them GitHub shows the Markdown in it as it is written."""
    assert ["<details>", "<summary>a &lt; b</summary>", "", "- x", "", "</details>"] == folded("a < b", ["- x"])


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(HOSTILE, min_size=4, max_size=4))
def test_no_name_of_a_capture_becomes_markup(build, names):
    """Ranges, call sites, the device, the file."""
    calls = [("cudaLaunchKernel", 1, 3), ("cudaMemcpy", 20, 70), ("cudaStreamSynchronize", 71, 72)]
    work = [(f"kernel {names[0]}", 4, 15, 0, 7), ("D2H pageable 4", 60, 61, 1, 7)]
    capture = build.a_loop(12, 100, calls, work, [(names[1], 16, 80), (names[2], 19, 75)])
    capture = replace(capture, devices=(replace(capture.devices[0], name=names[3]),), limits=(names[0],))
    page = REPORT.render(analyze(capture, names[3], Choice()))
    tokens = PARSER.parse(page)
    tags = {tag for token in tokens if token.type == "html_block" for tag in re.findall(r"<[^>]*>", token.content)}
    tags |= {token.content for token in _inline(tokens) if token.type == "html_inline"}
    assert tags <= OUR_TAGS
    assert not {"link_open", "image", "em_open", "s_open"} & {token.type for token in _inline(tokens)}
    assert not LINKED.search(_prose(tokens))
