# ruff: noqa: SIM300 - the expected value stands first
"""What earlier versions of fdprof saved is read, and says what it said then; what a later one saved is refused."""

import json
import shutil
from pathlib import Path

import pytest

from fdprof import baseline, capture_store, captured, store
from fdprof.errors import InputError

DATA = Path(__file__).parents[1] / "data"
OLD = DATA / "old-runs"
RUNS = ("run-1", "run-2", "run-3")
COMPARISONS = ("comparison-1", "comparison-3")


def then(name):
    """Return the report that the program of that time made."""
    return json.loads((OLD / name / "report.json").read_text(encoding="utf-8"))


def changes(old, new, place=""):
    """Yield where a document says something else than an old one; a null that was filled and a key more are none."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key, value in old.items():
            if key not in new:
                yield f"{place}/{key}", value, "no such key"
            else:
                yield from changes(value, new[key], f"{place}/{key}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (ours, theirs) in enumerate(zip(old, new, strict=True)):
            yield from changes(ours, theirs, f"{place}/{number}")
    elif isinstance(old, float) and isinstance(new, float):
        if old != pytest.approx(new, rel=1e-12):
            yield place, old, new
    elif old is not None and old != new:
        yield place, old, new


def reported(run_cli, *arguments):
    done = run_cli(*arguments, "--json")
    assert 0 == done.exit_code, done.stderr
    return json.loads(done.stdout)


def differences(name, new, *but):
    """Return what a report says otherwise than its old one; `but` are the beginnings of places that may differ."""
    return [entry for entry in changes(then(name), new) if not entry[0].startswith(but)]


WORDS = ("/findings", "/limits", "/headline")
"""Sentences, which are written better as time goes by, and which findings there are: not numbers of the recording."""


def test_every_version_that_was_written_is_here():
    """A format that goes up leaves its last writing here: one of each version, and the newest is today's."""
    of_runs = [json.loads((OLD / name / "saved" / "run.json").read_text())["schema_version"] for name in RUNS]
    assert list(range(store._OLDEST_VERSION, store.SCHEMA_VERSION + 1)) == of_runs
    for path, version in (
        (OLD / "baseline-1" / "saved.json", baseline.SCHEMA_VERSION),
        (OLD / "capture-1" / "saved" / "capture.json", captured.SCHEMA_VERSION),
        (OLD / "capture-1" / "saved" / "trace" / "tables.json", capture_store.SCHEMA_VERSION),
    ):
        assert version == json.loads(path.read_text())["schema_version"]


@pytest.mark.parametrize("name", RUNS)
def test_a_run_of_old_reports_the_times_that_it_reported_then(run_cli, name):
    """Every number, and the tokens, to the last digit."""
    new = reported(run_cli, "report", str(OLD / name / "saved"))
    old = then(name)
    assert 8 == old["steps"] == new["steps"]
    assert old["ledger"]["mean"]["window_ns"] == new["ledger"]["mean"]["window_ns"] > 0
    # Version 1 kept no table of waits: which group a wait was for is not known, and said to be so.
    lost = {"run-1": {("/transfers/0/wait_ns", None), ("/transfers/1/wait_ns", None)}}.get(name, set())
    found = differences(name, new, *WORDS)
    assert lost == {(place, value) for place, _, value in found}


@pytest.mark.parametrize("name", COMPARISONS)
def test_a_comparison_of_old_reports_the_ratio_that_it_reported_then(run_cli, name):
    """And the times of both sides; what was asked of it is asked again where that was saved."""
    done = run_cli("report", str(OLD / name / "saved"), "--json")
    assert 0 == done.exit_code, done.stderr
    new, old = json.loads(done.stdout), then(name)
    assert old["ratio"] == new["ratio"] < 1
    words = tuple(f"/{side}{words}" for side in ("baseline", "candidate") for words in WORDS)
    found = differences(name, new, *words, "/notes", "/reason", "/tokens_text", "/gates/0/text")
    lost = {f"/candidate/transfers/{number}/wait_ns" for number in (0, 1)} if name == "comparison-1" else set()
    assert lost == {place for place, _, _ in found}
    gates = [("--max-ratio 0.9", "open")] if name == "comparison-3" else []
    assert gates == [(gate["option"], gate["outcome"]) for gate in new["gates"]]
    assert (0.01 if name == "comparison-3" else 0.005) == new["same_within"]


def test_a_capture_of_old_is_analyzed_as_it_was_then(run_cli, monkeypatch):
    """By its record, with the inflation that was measured.

    Its copies name no stream and have no device interval, which is null and was -1 and 0; and a number that stood
    beside the word `certainty` is gone.
    """
    monkeypatch.chdir(OLD / "capture-1")
    new = reported(run_cli, "analyze", "saved")
    assert {"ratio": 1.05, "interval": [1.02, 1.08], "how": "measured in 6 rounds"} == new["inflation"]
    found = differences("capture-1", new, *WORDS, "/file")
    gone = {(place.split("/")[-1], value) for place, _, value in found}
    unknown = {("stream", None), ("is_default_stream", None), ("copy_alone_ns", None)}
    assert {("evidence", "no such key"), *unknown} == gone
    old = then("capture-1")
    assert old["ledger"] == new["ledger"] and old["idle_by_cause_ns"] == new["idle_by_cause_ns"]
    as_report = reported(run_cli, "report", "saved")
    assert new == as_report


def test_a_baseline_of_old_is_the_side_that_it_was_then(run_cli):
    """Its file is compared with, without an inflation, which there was none of then."""
    path = OLD / "baseline-1" / "saved.json"
    side = baseline.load(path)
    assert json.loads(path.read_text())["windows_ns"] == [windows.tolist() for windows in side.windows_ns]
    assert side.inflation is None
    arguments = ("--backend", "sim", "--steps", "8", "--warmup", "2", "--blocks", "6", "--no-save")
    new = reported(run_cli, "compare", "async", *arguments, "--baseline", str(path), "--allow", "python")
    old = then("baseline-1")["baseline"]
    assert old["block_means_ns"] == new["baseline"]["block_means_ns"]
    assert [] == list(changes(old, new["baseline"]))


@pytest.mark.parametrize("path", sorted((DATA / "h200-2026-11-30").glob("*.run")), ids=lambda path: path.name)
def test_a_run_of_version_2_on_a_gpu_is_reported(run_cli, path):
    """Of real hardware, where the simulator is too regular."""
    assert 2 == json.loads((path / "run.json").read_text())["schema_version"]
    document = reported(run_cli, "report", str(path))
    assert (40, True, 0) == (document["steps"], document["tokens_right"], document["residual_ns"])
    assert document["ledger"]["mean"]["window_ns"] > 500_000  # its device work is 500 µs


# What a later fdprof saved

NEWER = {
    "run": ("run-3/saved", "run.json", store.SCHEMA_VERSION, ("report",)),
    "comparison": ("comparison-3/saved", "candidate/run.json", store.SCHEMA_VERSION, ("report",)),
    "capture": ("capture-1/saved", "capture.json", captured.SCHEMA_VERSION, ("analyze",)),
    "capture reported": ("capture-1/saved", "capture.json", captured.SCHEMA_VERSION, ("report",)),
    "tables": ("capture-1/saved", "trace/tables.json", capture_store.SCHEMA_VERSION, ("analyze",)),
    "baseline": ("baseline-1/saved.json", "", baseline.SCHEMA_VERSION, ("compare", "async", "--baseline")),
}


@pytest.mark.parametrize("name", NEWER)
def test_what_a_newer_fdprof_saved_is_refused_by_its_version(run_cli, tmp_path, name):
    """Exit code 4; the message has the file, its version and what this fdprof reads, and no traceback."""
    place, file, newest, command = NEWER[name]
    copy = tmp_path / Path(place).name
    if (OLD / place).is_dir():
        shutil.copytree(OLD / place, copy)
    else:
        shutil.copy(OLD / place, copy)
    path = copy / file if file else copy
    document = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(document | {"schema_version": newest + 1}), encoding="utf-8")
    done = run_cli(*command, str(copy), *(("--backend", "sim", "--steps", "3") if command[0] == "compare" else ()))
    assert 4 == done.exit_code
    assert path.name in done.stderr and f"schema_version {newest + 1}" in done.stderr.replace(" is ", " ").replace(
        "'", ""
    )
    assert f"this fdprof reads {newest}" in done.stderr or f"to {newest}" in done.stderr
    assert "Traceback" not in done.stderr and "read it with the fdprof that wrote it" in done.stderr


@pytest.mark.parametrize("version", [0, -1, None, "3", 3.0, True, 10**30])
def test_a_version_that_never_was_is_refused(tmp_path, version):
    """And is no version 1."""
    copy = tmp_path / "saved"
    shutil.copytree(OLD / "run-3" / "saved", copy)
    document = json.loads((copy / "run.json").read_text(encoding="utf-8"))
    (copy / "run.json").write_text(json.dumps(document | {"schema_version": version}), encoding="utf-8")
    with pytest.raises(InputError, match="schema_version"):
        store.load(copy)
