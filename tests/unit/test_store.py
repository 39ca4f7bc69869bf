"""fdprof.store: what is saved is what is loaded."""

# ruff: noqa: SIM300
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fdprof import store
from fdprof.errors import InputError, UsageError
from fdprof.model import GpuState


@pytest.fixture
def finished_run(make_session):
    session = make_session(steps=6, warmup=2)
    run = session.new_run("overlap")
    return replace(run, blocks=tuple(session.block("overlap", index) for index in range(2)))


def test_a_loaded_run_equals_the_saved_one(tmp_path, finished_run):
    """Every record and every column survives."""
    (folder,) = store.create(tmp_path, [finished_run])
    assert store.load(folder).interrupted  # until it is finished: a killed process cannot say so
    for block in finished_run.blocks:
        store.add_block(folder, block)
    store.finish(folder, finished_run)
    loaded = store.load(folder)
    assert finished_run.blocks == loaded.blocks
    assert replace(finished_run, params=dict(finished_run.params)) == loaded


def test_a_folder_that_exists_is_not_taken(tmp_path, finished_run):
    """A second run of the same name gets another folder."""
    (first,), (second,) = store.create(tmp_path, [finished_run]), store.create(tmp_path, [finished_run])
    assert [finished_run.id, f"{finished_run.id}-2"] == [first.name, second.name]


def test_a_run_of_more_blocks_than_can_be_compared_is_refused(tmp_path, finished_run, monkeypatch):
    """Two blocks where one is the most."""
    (folder,) = store.create(tmp_path, [finished_run])
    for block in finished_run.blocks:
        store.add_block(folder, block)
    monkeypatch.setattr(store, "MAX_BLOCKS", 1)
    with pytest.raises(InputError, match="has 2 blocks, at most 1 are read"):
        store.load(folder)


@pytest.mark.parametrize("name", ["a:b", "s3:b", "file:zz", "~", "lat\udce9"])
def test_a_folder_is_what_its_name_says_and_no_address(tmp_path, monkeypatch, finished_run, name):
    """Arrow takes URIs for addresses and "~" for a home."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (folder,) = store.create(Path(name), [finished_run])
    for block in finished_run.blocks:
        store.add_block(folder, block)
    assert finished_run.blocks == store.load(folder).blocks
    assert not (tmp_path / "home").exists()


def test_arrow_reads_a_run_itself(tmp_path, monkeypatch, finished_run):
    """It lets go of a file of Python's in a thread of its own, which aborts a process that ends meanwhile."""
    given = []
    for name in ("read_table", "read_metadata"):
        real = getattr(pq, name)
        monkeypatch.setattr(pq, name, lambda source, real=real, **more: given.append(source) or real(source, **more))
    assert finished_run.blocks == store.load(kept_in(tmp_path, finished_run)).blocks
    assert {pa.OSFile} == {type(source) for source in given}


def kept_in(place, run):
    (folder,) = store.create(place, [run])
    for block in run.blocks:
        store.add_block(folder, block)
    return folder


@pytest.mark.parametrize("table", ["calls", "ranges", "kernels", "waits"])
@pytest.mark.parametrize(("end", "words"), [(-1, "ends before it begins"), (2**62, "more than a day from the steps")])
def test_times_that_cannot_be_are_damage(tmp_path, finished_run, table, end, words):
    """A row that ends before it begins, or after 146 years."""
    path = kept_in(tmp_path, finished_run) / "block-001" / f"{table}.parquet"
    columns = pq.read_table(path)
    ends = columns["end_ns"].to_numpy().copy()
    ends[len(ends) // 2] = end
    at = columns.column_names.index("end_ns")
    pq.write_table(columns.set_column(at, "end_ns", [ends]), path)
    with pytest.raises(InputError, match=words):
        store.load(path.parents[1])


def test_a_block_of_another_run_is_refused(tmp_path, finished_run):
    """A block says which run it is of; one that was saved before blocks did says nothing."""
    mine = kept_in(tmp_path / "a", finished_run)
    other = kept_in(tmp_path / "b", replace(finished_run, id="another"))
    shutil.rmtree(mine / "block-000")
    shutil.copytree(other / "block-000", mine / "block-000")
    with pytest.raises(InputError, match="it is of another run"):
        store.load(mine)
    document = json.loads((mine / "block-000" / "block.json").read_text(encoding="utf-8"))
    del document["run"]
    (mine / "block-000" / "block.json").write_text(json.dumps(document), encoding="utf-8")
    assert 2 == len(store.load(mine).blocks)


@pytest.mark.parametrize("field", ["fdprof", "python", "gpu", "profile"])
def test_a_number_for_a_text_of_the_environment_is_damage(tmp_path, finished_run, field):
    """Reports print it as a text."""
    folder = kept_in(tmp_path, finished_run)
    document = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    document["environment"][field] = 1
    (folder / "run.json").write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError, match=r"run\.json"):
        store.load(folder)


def test_a_block_is_not_written_over(tmp_path, finished_run):
    """Two writers of one folder cannot mix their blocks."""
    (folder,) = store.create(tmp_path, [finished_run])
    store.add_block(folder, finished_run.blocks[0])
    with pytest.raises(UsageError, match="block-000 exists"):
        store.add_block(folder, finished_run.blocks[0])


def test_a_step_table_has_a_row_a_step_and_missing_values_for_what_was_not_observed(make_session):
    """2 warm-up, 6 counted and no overrun step in sync, whose fence wait is missing, not 0."""
    from fdprof.tables import step_table

    session = make_session(steps=6, warmup=2)
    run = replace(session.new_run("sync"), blocks=(session.block("sync", 0),))
    frame = step_table(run)
    assert ["warm-up"] * 2 + ["counted"] * 6 == frame["part"].tolist()
    assert frame["fence_wait_ns"].isna().all()


# What version 3 added: digests of reads, states of the GPU, the call

STATE = GpuState(1_980, 3_201, 41, 312_456, ("software power cap", "sync boost"))
UNREAD = GpuState(None, None, None, None, None)


def rewrite(path, **changes):
    """Write a JSON file again with other entries; an entry that is ... is left out."""
    document = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({name: value for name, value in document.items() if value is not ...}), encoding="utf-8")


def drop_digests(block):
    """Write the reads of a saved block again as they were before version 3."""
    path = block / "reads.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["digest"]), path)


def make_version_2(folder):
    """Take out of a saved run what version 3 added."""
    rewrite(folder / "run.json", schema_version=2, call=...)
    for block in folder.glob("block-*"):
        rewrite(block / "block.json", gpu=...)
        drop_digests(block)


@pytest.fixture
def saved(tmp_path, finished_run):
    """Save a finished run, or the two of a comparison, and return the folder of each."""

    def save(*runs):
        folders = store.create(tmp_path, runs)
        for folder, run in zip(folders, runs, strict=True):
            for block in run.blocks:
                store.add_block(folder, block)
            store.finish(folder, run)
        return folders

    return save


def test_the_states_of_the_gpu_survive(saved, finished_run):
    """Two states around the first block, one with nothing but None; none around the second."""
    first, second = finished_run.blocks
    run = replace(finished_run, blocks=(replace(first, gpu=(STATE, UNREAD)), replace(second, gpu=())))
    (folder,) = saved(run)
    assert [(STATE, UNREAD), ()] == [block.gpu for block in store.load(folder).blocks]


def test_a_run_has_a_digest_a_read_and_its_call_and_both_survive(saved, finished_run):
    """A read each of 8 steps, whose values differ, so 8 digests, none of them -1; the call is some name, not empty."""
    (folder,) = saved(finished_run)
    loaded = store.load(folder)
    for recorded, block in zip(finished_run.blocks, loaded.blocks, strict=True):
        digest = block.log.reads["digest"]
        assert recorded.log.reads["digest"].tolist() == digest.tolist()
        assert (np.int64, 8, 8) == (digest.dtype, len(digest), len(set(digest.tolist())))
        assert (digest >= 0).all()
    assert loaded.call
    assert finished_run.call == loaded.call


def test_a_folder_is_saved_as_version_3(saved, finished_run):
    """run.json says so: a program of version 2 must not read it as one of its own."""
    (folder,) = saved(finished_run)
    assert 3 == json.loads((folder / "run.json").read_bytes())["schema_version"]


def test_a_folder_of_version_2_is_read_without_what_version_3_added(saved, finished_run):
    """Digest -1 for each read, no states and no call; all the rest is as it was."""
    blocks = [replace(block, gpu=(STATE, STATE)) for block in finished_run.blocks]
    (folder,) = saved(replace(finished_run, blocks=tuple(blocks)))
    make_version_2(folder)
    loaded = store.load(folder)
    assert ["", (), ()] == [loaded.call, *(block.gpu for block in loaded.blocks)]
    for recorded, block in zip(finished_run.blocks, loaded.blocks, strict=True):
        assert [-1] * len(recorded.log.reads) == block.log.reads["digest"].tolist()
    # With the three taken out of the recorded run too, the runs are equal.
    bare = []
    for block in finished_run.blocks:
        reads = block.log.reads
        without = replace(reads, columns=reads.columns | {"digest": np.full(len(reads), -1)})
        bare.append(replace(block, log=replace(block.log, reads=without)))
    expected = replace(finished_run, params=dict(finished_run.params), call="", blocks=tuple(bare))
    assert expected == loaded


@pytest.mark.parametrize("version", [4, 0, -1, 10**30])
def test_a_folder_of_another_version_is_refused(saved, finished_run, version):
    """The message has the version and those that are read, the hint what could read it: exit code 4."""
    (folder,) = saved(finished_run)
    rewrite(folder / "run.json", schema_version=version)
    with pytest.raises(InputError) as caught:
        store.load(folder)
    expected = f"{folder / 'run.json'} has schema_version {version}, this fdprof reads 1 to 3"
    assert (4, expected) == (caught.value.exit_code, str(caught.value))
    assert "read it with the fdprof that wrote it" == caught.value.hint


def test_what_the_kernels_were_asked_for_survives_and_may_be_missing(saved, finished_run):
    """Folders of version 3 that were saved before it was kept do not say; a damaged one is refused by its name."""
    (folder,) = saved(finished_run)
    assert finished_run.work is not None
    assert finished_run.work == store.load(folder).work
    for missing in (None, ...):
        rewrite(folder / "run.json", work=missing)
        assert store.load(folder).work is None
    for damaged in ({"kernel_ns": -1, "step_ns": 5}, {"kernel_ns": 1}, {"kernel_ns": 1.5, "step_ns": 5}, [1, 2]):
        rewrite(folder / "run.json", work=damaged)
        with pytest.raises(InputError) as caught:
            store.load(folder)
        assert str(folder / "run.json") in str(caught.value)


def test_a_run_without_its_blocks_is_all_but_them(saved, finished_run):
    """Not a file of them is read: here they are gone."""
    (folder,) = saved(finished_run)
    for block in folder.glob("block-*"):
        shutil.rmtree(block)
        block.touch()
    assert replace(finished_run, params=dict(finished_run.params), blocks=()) == store.load_head(folder)
    with pytest.raises(InputError, match="nothing"):
        store.load_head(folder.parent / "nothing")


def test_a_folder_of_version_3_must_have_what_version_3_added(saved, finished_run):
    """Each in turn, by the file that lacks it: it is damaged, not old."""
    (folder,) = saved(finished_run)
    block = folder / "block-001"

    def said():
        with pytest.raises(InputError) as caught:
            store.load(folder)
        return str(caught.value)

    rewrite(folder / "run.json", call=...)
    assert f"{folder / 'run.json'} has no 'call'" == said()
    rewrite(folder / "run.json", call="a")
    rewrite(block / "block.json", gpu=...)
    assert f"{block / 'block.json'} has no 'gpu'" == said()
    rewrite(block / "block.json", gpu=[])
    drop_digests(block)
    assert said().startswith(f"cannot read {block / 'reads.parquet'}: ")
    assert "digest" in said()


GOOD_STATE = {"sm_clock_mhz": 1, "memory_clock_mhz": 2, "temperature_c": 3, "power_mw": 4, "throttle": ["sync boost"]}


@pytest.mark.parametrize(
    ("said", "state"),
    [
        (": '-1' where an integer >= 0 is expected", GOOD_STATE | {"sm_clock_mhz": -1}),
        (": '1980.5' where an integer >= 0 is expected", GOOD_STATE | {"memory_clock_mhz": 1980.5}),
        (": 'sync boost' where a list is expected", GOOD_STATE | {"throttle": "sync boost"}),
        (": '\\x1b[31m' where printable text is expected", GOOD_STATE | {"throttle": ["\x1b[31m"]}),
        (" has no 'power_mw'", {name: value for name, value in GOOD_STATE.items() if name != "power_mw"}),
        (": 'int' object is not subscriptable", 5),
    ],
)
def test_what_nvml_cannot_have_said_is_refused(saved, finished_run, said, state):
    """The message names block.json."""
    (folder,) = saved(finished_run)
    rewrite(folder / "block-000" / "block.json", gpu=[GOOD_STATE, state])
    with pytest.raises(InputError) as caught:
        store.load(folder)
    assert f"{folder / 'block-000' / 'block.json'}{said}" == str(caught.value)


@pytest.mark.parametrize("call", [5, None, "two\nlines"])
def test_a_call_that_is_no_text_is_refused(saved, finished_run, call):
    """The message names run.json."""
    (folder,) = saved(finished_run)
    rewrite(folder / "run.json", call=call)
    with pytest.raises(InputError, match="where printable text is expected") as caught:
        store.load(folder)
    assert str(caught.value).startswith(f"{folder / 'run.json'}: ")


def test_the_runs_of_a_comparison_without_a_call_get_the_folders_name_as_one(saved, finished_run):
    """One call made both, so the two have the same, as a folder of version 2 could not say; each alone has none."""
    folders = saved(finished_run, replace(finished_run, mode="sync"))
    for folder in folders:
        make_version_2(folder)
    place = store.place_of(folders)
    runs = store.load_any(place)
    assert ["overlap", "sync"] == [run.mode for run in runs]
    assert [str(place)] * 2 == [run.call for run in runs]
    assert ["", ""] == [store.load_any(folder)[0].call for folder in folders]


def test_the_runs_of_a_comparison_keep_the_call_that_was_saved(saved, finished_run):
    """The name that the recording gave goes before the folder's, which may have been moved."""
    folders = saved(finished_run, replace(finished_run, mode="sync"))
    runs = store.load_any(store.place_of(folders))
    assert [finished_run.call] * 2 == [run.call for run in runs]
