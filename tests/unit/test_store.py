"""fdprof.store: what is saved is what is loaded."""

# ruff: noqa: SIM300
from dataclasses import replace

import pytest

from fdprof import store
from fdprof.errors import UsageError


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
