# ruff: noqa: SIM300 - the expected value stands first
"""The JSON report against the schema that is shipped with it, and the schema against what it is for."""

import gzip
import importlib.resources
import importlib.util
import json
import re
from collections.abc import Iterator
from dataclasses import fields, replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
from fdprof.reports.json_ import SCHEMA_VERSION
from fdprof.reports.protocol import Analyses, ComparisonResult

from fdprof import baseline, plugins
from fdprof.analysis.capture_result import analyze
from fdprof.analysis.compare import compare
from fdprof.analysis.facts import Bound
from fdprof.analysis.inflation import BLOCKS as OF_ONE_PROCESS
from fdprof.analysis.inflation import ROUNDS
from fdprof.analysis.results import result_of
from fdprof.analysis.sides import side_of_capture, sides_of_runs
from fdprof.analysis.steps import Choice
from fdprof.analysis.verdict import BATCHES, BLOCKS
from fdprof.capture import ApiKind, Evidence
from fdprof.comparison import Outcome, Policy, Verdict, WaitChange
from fdprof.finding import FindingCode
from fdprof.imports import import_capture
from fdprof.model import Direction, Environment, HazardCode, Memory, WrongValue
from fdprof.params import Extent
from fdprof.session import Session

jsonschema = pytest.importorskip("jsonschema", reason="jsonschema, by which documents are held against the schema")

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests" / "data" / "h200-2026-11-30"
DOCS = ROOT / "docs" / "json.md"
PLACE = importlib.resources.files("fdprof.reports") / "schema" / "report.schema.json"
SCHEMA: dict[str, Any] = json.loads(PLACE.read_text(encoding="utf-8"))
DEFS: dict[str, Any] = SCHEMA["$defs"]
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
REPORT = plugins.load("reports", "json")
KINDS = ("run", "comparison", "analysis", "analyses", "overhead")
MAPS = {"params", "parameters", "idle_by_cause_ns", "bridge_ns", "calls_per_step", "evidence", "fields"}
"""Keys whose objects have names of the caller's or the capture's as keys."""


def _case_names() -> tuple[str, ...]:
    spec = importlib.util.spec_from_file_location("fdprof_tests_case_names", ROOT / "tests" / "golden_cases.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names: tuple[str, ...] = module.Cases(None).names
    return names


every_case = pytest.mark.parametrize("case", _case_names())


def no_number(text):
    raise AssertionError(f"{text} is no JSON")


def document_of(result):
    """Return the document of a result as a reader of JSON gets it, and not as Python's own might."""
    return json.loads(REPORT.render(result), parse_constant=no_number)


def validator_of(kind):
    """Return the check of one kind of document: where five are tried at once, no reason is told."""
    without = {key: value for key, value in SCHEMA.items() if key != "oneOf"}
    return jsonschema.Draft202012Validator(without | {"$ref": f"#/$defs/{kind}"})


def problems(document):
    """Return what is wrong with a document."""
    return [
        f"{'/'.join(map(str, error.absolute_path))}: {error.message[:300]}"
        for error in validator_of(document["kind"]).iter_errors(document)
    ]


def require_valid(document):
    assert [] == problems(document)


def nodes(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every schema in a schema, with where it stands."""
    if isinstance(schema, dict):
        yield path, schema
        for name in ("properties", "$defs"):
            for key, value in schema.get(name, {}).items():
                yield from nodes(value, f"{path}/{key}")
        for name in ("items", "additionalProperties"):
            yield from nodes(schema.get(name), f"{path}/*")
        for name in ("oneOf", "anyOf", "allOf"):
            for value in schema.get(name, []):
                yield from nodes(value, path)


def properties() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield every key of the schema: where it stands, its name, its schema."""
    for path, node in nodes(SCHEMA):
        for key, value in node.get("properties", {}).items():
            yield path, key, value


# The schema itself


def test_the_schema_is_a_schema():
    """Of draft 2020-12, by that draft's own schema; its name has the version of the documents."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert "https://json-schema.org/draft/2020-12/schema" == SCHEMA["$schema"]
    assert SCHEMA["$id"].endswith(f":{SCHEMA_VERSION}")
    assert SCHEMA_VERSION == SCHEMA["properties"]["schema_version"]["const"]


def test_the_schema_is_shipped():
    """A wheel holds what pyproject.toml names as the package's data."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    data = re.search(r'^"fdprof\.reports" = \[(.*)\]$', project, re.MULTILINE)
    assert data is not None and '"schema/*.json"' in data.group(1)
    assert PLACE.is_file()


def test_the_walk_sees_the_whole_schema():
    """The checks below are not empty: a key at the top, of a document, of what stands in one."""
    seen = {f"{path}/{key}" for path, key, _ in properties()}
    assert {"/schema_version", "/run/efficiency", "/other_threads/blocked_ns", "/spread/mild"} <= seen
    assert len(seen) > 200


def test_every_key_is_described_with_its_unit():
    """By a sentence of its own, or by that of what it refers to; a name that ends in a unit says it there."""
    units = {
        "_ns": r"\bns\b",
        "_bytes": "bytes",
        "_mhz": "MHz",
        "_mw": "mW",
        "_c": "°C",
        "_ratio": " / |ratio",
        "_share": "share|what was gained",
    }
    for path, key, value in properties():
        referred = DEFS[value["$ref"].removeprefix("#/$defs/")] if "$ref" in value else {}
        text = value.get("description") or referred.get("description") or ""
        assert len(text) > 2, f"{path}/{key}"
        of_numbers = not path.endswith("max_step")  # which has numbers of steps, by the columns' names
        for ending, words in units.items():
            if key.endswith(ending) and of_numbers:
                assert re.search(words, f"{text} {referred.get('title', '')}"), f"{path}/{key}"


def test_every_object_is_closed_and_all_its_keys_are_there():
    """Only objects keyed by names are open, and their values are described; a key that is not known is null."""
    open_ = set()
    for path, node in nodes(SCHEMA):
        kinds = node.get("type", [])
        if "object" not in ([kinds] if isinstance(kinds, str) else kinds):
            continue
        if "properties" not in node:
            open_.add(path.split("/")[-1])
            assert node["additionalProperties"] not in (True, {}), path
            continue
        assert list(node["properties"]) == node["required"], path
        # Documents stand inside others, and so say at that place that nothing is left over.
        is_closed = node.get("additionalProperties") is False or node.get("unevaluatedProperties") is False
        assert is_closed or path.removeprefix("/") in (*KINDS, "baseline_file"), path
    assert MAPS | {"idle_by_cause"} == open_ | {"idle_by_cause_ns"}
    for path, node in nodes(SCHEMA):
        for use in node.get("oneOf", []):
            name = use.get("$ref", "").removeprefix("#/$defs/")
            if name in (*KINDS, "baseline_file"):
                assert node["unevaluatedProperties"] is False, path
    assert DEFS["analyses"]["properties"]["analyses"]["items"]["unevaluatedProperties"] is False


def _enum(where, key):
    return DEFS[where]["properties"][key]["enum"]


def _values(words: type[Enum]):
    return [word.value for word in words]


def test_the_words_of_the_schema_are_those_of_the_program():
    """A finding, a verdict or an environment's entry that is added has to be added here too."""
    assert [entry.name.lower() for entry in reversed(Evidence)] == DEFS["certainty"]["enum"]
    assert _values(FindingCode) == _enum("finding", "code")
    assert _values(HazardCode) == _enum("hazard", "code")
    assert _values(Bound) == _enum("analysis", "bound")
    assert _values(Memory) == _enum("run_transfer", "memory")
    assert _values(Direction) == _enum("run_transfer", "direction") == _enum("analysis_transfer", "direction")
    assert [*_values(Verdict), None] == _enum("comparison", "verdict")
    assert [*_values(WaitChange), None] == _enum("comparison", "removed_or_moved")
    assert [BLOCKS, BATCHES, None] == _enum("comparison", "unit")
    assert _values(Outcome) == _enum("gate", "outcome")
    assert [ROUNDS, OF_ONE_PROCESS] == _enum("condition", "unit")
    kinds = DEFS["analysis"]["properties"]["calls_per_step"]["propertyNames"]["enum"]
    assert [kind.name.lower() for kind in ApiKind] == kinds
    assert [entry.name for entry in fields(Environment)] == list(DEFS["environment"]["properties"])


# Documents


@every_case
def test_a_document_fits_the_schema(cases, case):
    """Of every kind, and of runs and captures that lack things; whoever validates need not know the kind."""
    document = document_of(cases[case])
    require_valid(document)
    assert VALIDATOR.is_valid(document)


@every_case
def test_a_document_is_as_it_was(cases, golden, case):
    """Whole: a key that changes is seen."""
    golden("json", f"{case}.json", REPORT.render(cases[case]))


def test_the_cases_are_of_every_kind(cases):
    assert set(KINDS) == {document_of(cases[case])["kind"] for case in cases.names}


CONTRACT = {
    "every": "schema_version kind source",
    "both": "steps ledger idle_by_cause_ns residual_ns syncs_per_step transfers findings limits",
    "run": "efficiency tokens_right stale_reads overrun_tokens first_wrong",
    "comparison": "baseline candidate ratio ratio_interval detectable_ratio verdict removed_or_moved tokens_equal "
    "mismatches bridge_ns",
    "ledger": "window_ns device_busy_ns device_idle_ns host_blocked_ns harmful_wait_ns harmless_wait_ns",
    "finding": "code certainty cost_ns_per_step evidence advice",
}
"""What fdprof promises to whoever reads its JSON."""


@every_case
def test_the_keys_that_are_promised_are_there(cases, case):
    """With exactly these names."""
    document = document_of(cases[case])
    kind = document["kind"]
    assert set(CONTRACT["every"].split()) <= document.keys()
    assert set(CONTRACT.get(kind, "").split()) <= document.keys()
    if kind in ("run", "analysis"):
        assert set(CONTRACT["both"].split()) <= document.keys()
        assert {"mean", "p50", "p90", "p99", "max"} == document["ledger"].keys()
        for columns in document["ledger"].values():
            assert set(CONTRACT["ledger"].split()) <= columns.keys()
        for finding in document["findings"]:
            assert set(CONTRACT["finding"].split()) <= finding.keys()


BOTH_WAYS = [
    *("run_wrong", "comparison", "comparison_captures", "comparison_baseline_file"),
    *("analysis_inflated", "analyses", "overhead"),
]
"""Cases that have every key between them: each takes seconds."""


def _objects(value, pattern=(), name=""):
    """Yield every object of a document that has keys of ours, with the pattern of its place."""
    if isinstance(value, dict) and name not in MAPS:
        yield pattern, value
        for key, entry in value.items():
            yield from _objects(entry, (*pattern, key), key)
    if isinstance(value, list):
        for entry in value:
            yield from _objects(entry, (*pattern, "*"), name)


@pytest.mark.parametrize("case", BOTH_WAYS)
def test_a_document_without_one_of_its_keys_or_with_another_does_not_fit(cases, case):
    """So the schema says something of every key; keys that stand alike in a list are tried once."""
    document = document_of(cases[case])
    places = dict(_objects(document))
    own = validator_of(document["kind"])
    assert len(places) > 2
    for pattern, value in places.items():
        value["not_a_key"] = None
        assert not own.is_valid(document), f"{pattern} takes any key"
        del value["not_a_key"]
        for key in list(value):
            taken = value.pop(key)
            assert not own.is_valid(document), f"{pattern}: {key} may be missing"
            value[key] = taken
    require_valid(document)


@pytest.mark.parametrize(
    ("case", "place", "wrong"),
    [
        ("run", ("kind",), "walk"),
        ("run", ("steps",), 12.5),
        ("run", ("steps",), -1),
        ("run", ("efficiency",), "0.9"),
        ("run", ("transfers", 0, "size_bytes"), -1),
        ("run", ("idle_by_cause_ns",), {"a cause that there is not": 1.0}),
        ("analysis", ("bound",), "hosts"),
        ("analysis", ("headline",), ["one sentence"]),
        ("analysis", ("calls_per_step",), {"jump": 1.0}),
        ("analysis", ("findings", 0, "certainty"), "perhaps"),
        ("analysis", ("findings", 0, "code"), "new-code"),
        ("comparison", ("verdict",), "quicker"),
        ("comparison", ("ratio_interval",), [0.9]),
        ("comparison", ("bridge_ns", "busy:compute"), 0.5),
        ("comparison", ("schema_version",), 2),
    ],
)
def test_a_value_that_cannot_be_does_not_fit(cases, case, place, wrong):
    """Types, signs and words are said, not only keys."""
    document = document_of(cases[case])
    *above, last = place
    at = document
    for key in above:
        at = at[key]
    assert at[last] != wrong
    at[last] = wrong
    assert not VALIDATOR.is_valid(document)


# Whatever can be recorded


def _runs(make_session, scenario, modes, blocks, **params):
    session = make_session(scenario, steps=6, warmup=2, **params)
    sides = [session.new_run(mode) for mode in modes]
    for block in range(blocks):
        for at, mode in enumerate(modes):
            recorded = replace(session.block(mode, block), position=block * len(modes) + at)
            sides[at] = replace(sides[at], blocks=(*sides[at].blocks, recorded))
    return [session.with_drawn_work(side) for side in sides]


@pytest.mark.parametrize("scenario", plugins.names("scenarios"))
@pytest.mark.parametrize("mode", plugins.names("modes"))
def test_a_run_of_every_scenario_in_every_mode_fits_the_schema(make_session, scenario, mode):
    """The control without a fence too, whose values are wrong."""
    (run,) = _runs(make_session, scenario, [mode], 1)
    document = document_of(result_of(run))
    require_valid(document)
    assert 6 == document["steps"] or not document["tokens_right"]
    for finding in document["findings"]:
        for step in finding["steps"]:
            # One block, whose warm-up are steps 0 and 1.
            assert {"position": step["position"], "block": 0, "step": step["position"] + 2} == step


@pytest.mark.parametrize(
    "params",
    [{"launch": "graph"}, {"device_times": "lognormal:0.3", "host_times": "normal:0.2"}, {"wait": "poll"}],
    ids=["graph", "varying", "poll"],
)
@pytest.mark.parametrize("scenario", ["stop_flag", "logprobs"])
def test_a_comparison_fits_the_schema(make_session, scenario, params):
    """With few blocks, with enough for a verdict, of sides that may not be compared, and with a fault of the tokens."""
    for modes, blocks in ((("sync", "overlap"), 2), (("sync-pinned", "async"), 6), (("async", "unfenced"), 2)):
        (first, ours), (second, theirs) = sides_of_runs(_runs(make_session, scenario, modes, blocks, **params))
        for policy in (Policy(), Policy(same_within=0.05, fail_if=frozenset(Verdict), max_ratio=0.9, max_p99_ratio=1)):
            document = document_of(ComparisonResult(compare(first, second, policy), ours, theirs))
            require_valid(document)
            assert modes == (document["baseline"]["label"], document["candidate"]["label"])


def test_an_audited_run_fits_the_schema(sim):
    """With a fault of the laboratory the audit finds a hazard; without one it finds none, which is not null."""
    params = plugins.load("scenarios", "stop_flag").params_type()
    for fault, mode in (("event-recorded-again", "overlap"), (None, "async")):
        session = Session(sim, "stop_flag", params, Extent(steps=6, warmup=2), audit=True, fault=fault)
        run = replace(session.new_run(mode), blocks=(session.block(mode, 0),))
        document = document_of(result_of(run))
        require_valid(document)
        assert (fault, True, bool(fault)) == (document["fault"], document["audited"], bool(document["hazards"]))
        assert document["hazards"] is not None


def test_a_side_from_a_file_fits_the_schema(cases, tmp_path):
    """On either side and on both: it has step times and no steps."""
    made = cases["comparison"]
    baseline.save(tmp_path / "side.json", made.comparison.baseline)
    side = baseline.load(tmp_path / "side.json")
    for first, second, ours, theirs in (
        (side, made.comparison.candidate, None, made.candidate),
        (made.comparison.candidate, side, made.candidate, None),
        (side, side, None, None),
    ):
        document = document_of(ComparisonResult(compare(first, second, Policy()), ours, theirs))
        require_valid(document)
        kinds = ["baseline" if entry is None else "run" for entry in (ours, theirs)]
        assert kinds == [document["baseline"]["kind"], document["candidate"]["kind"]]


def _recordings():
    """Return the captures of the H200, and the runs that were captured, which are read as captures too."""
    return sorted(path for path in DATA.rglob("*") if path.suffix in (".gz", ".fdprof", ".run"))


@pytest.fixture(scope="module")
def analyses(tmp_path_factory):
    """The analyses of all captures of the H200, by their names."""
    place = tmp_path_factory.mktemp("exports") / "capture.sqlite"
    made = {}
    for path in _recordings():
        read = path
        if path.name.endswith(".sqlite.gz"):
            place.write_bytes(gzip.decompress(path.read_bytes()))
            read = place
        name = str(path.relative_to(DATA))
        made[name] = analyze(import_capture(read, lambda _: None), path.name, Choice())
    return made


def test_the_analysis_of_every_capture_fits_the_schema(analyses):
    """By four importers, whole and in part; several in one document too."""
    assert {"nsys", "kineto", "paddle_trace"} < {entry.facts.capture.source for entry in analyses.values()}
    for name, entry in analyses.items():
        document = document_of(entry)
        assert (name, []) == (name, problems(document))
        numbers = entry.facts.steps.numbers.tolist()
        for finding in document["findings"]:
            for step in finding["steps"]:
                position = step["position"]
                assert {"position": position, "block": None, "step": numbers[position]} == step
    several = document_of(Analyses(tuple(list(analyses.values())[:3])))
    require_valid(several)
    part = next(iter(analyses.values()))
    require_valid(document_of(analyze(part.facts.capture, part.path, Choice(), None, 3, 4)))


def test_the_comparison_of_any_two_captures_fits_the_schema(analyses):
    """Each with the next one, of another loop or another tool; whatever differs is allowed to."""
    entries = list(analyses.values())
    verdicts = set()
    for ours, theirs in zip(entries[::3], entries[1::3], strict=False):
        sides = [side_of_capture(entry, len(entry.facts.steps), 0) for entry in (ours, theirs)]
        everything = frozenset({"quality", *sides[0].fields, *sides[1].fields})
        for policy in (Policy(), Policy(allowed=everything)):
            document = document_of(ComparisonResult(compare(*sides, policy), ours, theirs))
            assert [] == problems(document)
            verdicts.add(document["verdict"])
    assert "not comparable" in verdicts and len(verdicts) > 1


# Numbers that JSON has not


@pytest.mark.parametrize("got", [float("nan"), float("inf"), -float("inf")])
def test_a_wrong_value_that_is_no_number_is_null(cases, got):
    """As floats are in memory that no copy has filled; the value that was expected stays."""
    wrong = WrongValue(step=4, sequence=1, tensor="scores", expected=0.25, got=got)
    document = document_of(replace(cases["run_wrong"], first_wrong=wrong))
    require_valid(document)
    assert {"step": 4, "sequence": 1, "tensor": "scores", "expected": 0.25, "got": None} == document["first_wrong"]


def test_a_number_that_json_has_not_is_never_written(cases):
    """A bug that makes one is seen, and no file that readers refuse comes of it."""
    with pytest.raises(ValueError, match="not JSON compliant"):
        REPORT.render(replace(cases["run"], efficiency=float("nan")))


def test_what_a_capture_does_not_know_of_a_transfer_is_null(build):
    """A copy without a size, whose call is not in the capture and whose stream it does not name."""
    work = [("kernel gemm", 10, 60, 0), ("D2H pinned", 62, 64, None, -1)]
    capture = build.a_loop(6, 100, [("cudaLaunchKernel", 1, 3), ("cudaEventSynchronize", 20, 70)], work)
    (transfer,) = document_of(analyze(capture, "x", Choice()))["transfers"]
    unknown = {"size_bytes", "bytes_per_step", "stream", "is_default_stream", "issue_ns", "blocking_share"}
    assert unknown <= {key for key, value in transfer.items() if value is None}
    assert 2_000 == transfer["copy_ns"]  # 62 to 64 µs
    assert 1 == transfer["per_step"]


# docs/json.md

_OBJECTS = (*KINDS, *(name for name in DEFS if name not in KINDS))


def _type_of(value) -> str:
    """Return the type of a key in words, with a link to the table of what it holds."""
    if "$ref" in value:
        name = value["$ref"].removeprefix("#/$defs/")
        return f"[{name}](#{name})" if "properties" in DEFS[name] else _type_of(DEFS[name])
    if "const" in value:
        return f"`{json.dumps(value['const'])}`"
    if "enum" in value:
        return ", ".join("null" if word is None else f"`{word}`" for word in value["enum"])
    if "oneOf" in value:
        return " or ".join(_type_of(entry) for entry in value["oneOf"] if entry != {"type": "null"}) + " or null"
    kinds = [value["type"]] if isinstance(value["type"], str) else list(value["type"])
    words = []
    for kind in kinds:
        if kind == "array":
            item = value.get("items")
            words.append("list" if item is None else f"list of {_one(_type_of(item))}")
        elif kind == "object" and "additionalProperties" in value and "properties" not in value:
            words.append(f"name → {_one(_type_of(value['additionalProperties']))}")
        else:
            words.append(kind)
    return " or ".join(words)


def _one(words: str) -> str:
    return f"({words})" if " or " in words else words


def _rows(properties_: dict[str, Any], above: str = "") -> Iterator[str]:
    for key, value in properties_.items():
        name = f"{above}{key}"
        text = value.get("description") or DEFS[value["$ref"].removeprefix("#/$defs/")].get("description", "")
        yield f"| `{name}` | {_type_of(value)} | {text.replace('|', chr(92) + '|')} |"
        if "properties" in value:
            yield from _rows(value["properties"], f"{name}.")


def _tables() -> str:
    """Return the tables of docs/json.md."""
    lines = []
    for name in _OBJECTS:
        entry = DEFS[name]
        if "properties" not in entry:
            continue
        lines += [f"### {name}", ""]
        if entry["title"] != name or "description" in entry:
            about = [entry["title"]] if entry["title"] != name else []
            text = ": ".join([*about, *filter(None, [entry.get("description")])])
            lines += [f"{text[0].upper()}{text[1:]}.", ""]
        lines += ["| key | type | meaning |", "|---|---|---|", *_rows(entry["properties"]), ""]
    return "\n".join(lines)


def test_the_documentation_has_every_key_of_the_schema(request):
    """docs/json.md is made of the schema: pytest --update-golden writes its tables again."""
    mark = "<!-- made of report.schema.json from here on -->\n\n"
    above, _, tables = DOCS.read_text(encoding="utf-8").partition(mark)
    if request.config.getoption("--update-golden"):
        DOCS.write_text(f"{above}{mark}{_tables()}", encoding="utf-8")
    else:
        assert _tables() == tables
    assert "report.schema.json" in above
