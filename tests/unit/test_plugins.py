# ruff: noqa: SIM300 - the expected value stands first
"""fdprof.plugins: names, near misses and malformed files."""

import sys

import pytest

import fdprof.modes
from fdprof import plugins
from fdprof.errors import FdprofError, UsageError
from fdprof.modes.async_ import Async
from fdprof.modes.sync_pinned import SyncPinned


@pytest.fixture
def add_mode(tmp_path, monkeypatch):
    """Add a file to the folder of modes for one test."""
    monkeypatch.setattr(fdprof.modes, "__path__", [*fdprof.modes.__path__, str(tmp_path)])
    added = []

    def add(name, text):
        added.append(f"fdprof.modes.{name}")
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")

    yield add
    for module in added:
        sys.modules.pop(module, None)
        if hasattr(fdprof.modes, module.rsplit(".", 1)[1]):
            delattr(fdprof.modes, module.rsplit(".", 1)[1])


def test_names_are_those_of_the_files_sorted():
    """Python's own words lose their trailing underscore, modes show hyphens, protocol and _des are no plugins."""
    assert {"async", "overlap", "sync", "sync-pinned", "unfenced"} <= set(plugins.names("modes"))
    assert ["paddle", "sim"] == plugins.names("backends")
    assert plugins.names("modes") == sorted(plugins.names("modes"))
    assert not {"protocol", "async-", "async_"} & set(plugins.names("modes"))


def test_scenarios_keep_their_underscores():
    """stop_flag is shown as its file is named, and is found with a hyphen too."""
    assert "stop_flag" in plugins.names("scenarios")
    assert plugins.load("scenarios", "stop_flag") is plugins.load("scenarios", "stop-flag")


def test_async_is_found_without_its_underscore():
    """async_.py is named async."""
    assert Async is plugins.load("modes", "async")


@pytest.mark.parametrize("name", ["sync-pinned", "sync_pinned"])
def test_a_mode_is_found_with_hyphen_or_underscore(name):
    """Both spellings name sync_pinned.py."""
    assert SyncPinned is plugins.load("modes", name)


def test_a_near_miss_names_the_nearest():
    """overlp is one letter from overlap."""
    with pytest.raises(UsageError, match="no mode is named 'overlp'") as error:
        plugins.load("modes", "overlp")
    assert "did you mean overlap?" == error.value.hint


def test_a_name_like_no_other_lists_all():
    """With nothing near, the hint lists what there is."""
    with pytest.raises(UsageError, match="no backend is named 'xxxxxxxx'") as error:
        plugins.load("backends", "xxxxxxxx")
    assert "choose one of: paddle, sim" == error.value.hint


def test_protocol_is_no_plugin():
    """The file that says what a mode is cannot be chosen as one."""
    with pytest.raises(UsageError, match="no mode is named 'protocol'"):
        plugins.load("modes", "protocol")


def test_a_new_file_is_a_new_mode(add_mode):
    """Adding one thing is adding one file."""
    add_mode("made_up", "MODE = 'the mode'\n")
    assert "made-up" in plugins.names("modes")
    assert "the mode" == plugins.load("modes", "made-up")


def test_a_file_without_its_attribute_is_named_with_what_it_lacks(add_mode):
    """The message names the module and MODE, the hint says what to do."""
    add_mode("hollow", '"""A mode file that defines nothing."""\n')
    with pytest.raises(FdprofError, match=r"fdprof\.modes\.hollow provides no MODE") as error:
        plugins.load("modes", "hollow")
    assert "define MODE in that file" == error.value.hint


def test_names_import_no_plugin(add_mode):
    """Listing the names does not run the files: one that cannot be imported is still listed."""
    add_mode("broken", "raise RuntimeError('imported')\n")
    assert "broken" in plugins.names("modes")
    assert "fdprof.modes.broken" not in sys.modules


def test_every_public_name_can_be_imported_from_fdprof():
    """A name that moved would otherwise fail only in a user's hands."""
    import fdprof

    assert all(getattr(fdprof, name) is not None for name in [*fdprof.__all__, "__version__"])
