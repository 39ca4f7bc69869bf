# ruff: noqa: SIM300 - the expected value stands first
"""Where nsys is found, which one, and what is said when it cannot write reports."""

import shutil
import subprocess

import pytest

from fdprof.errors import EnvironmentMissing, InputError
from fdprof.nsys_tool import (
    Nsys,
    by_hand,
    export,
    export_formats,
    find_nsys,
    importer_problem,
    make_report,
    missing_libraries,
    profile_options,
    require_nsys,
)


@pytest.fixture
def nowhere(tmp_path, monkeypatch):
    """No nsys is named and none on PATH; the root of a file system that has none either."""
    monkeypatch.delenv("FDPROF_NSYS", raising=False)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    return tmp_path / "root"


@pytest.fixture
def real():
    """The nsys of this machine."""
    try:
        nsys = find_nsys()
    except EnvironmentMissing as error:
        pytest.skip(str(error))
    if nsys is None:
        pytest.skip("there is no nsys on PATH, in NVIDIA's folders or in FDPROF_NSYS")
    return nsys


def says_it_is(path, version):
    """Make a program that answers to --version as nsys does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho 'NVIDIA Nsight Systems version {version}-1234v0'\n", encoding="ascii")
    path.chmod(0o755)
    return path


def an_importer(folder, lines):
    """Return an nsys whose importer is a shell script of these lines."""
    path = folder / "host-linux-x64" / "QdstrmImporter"
    path.parent.mkdir(parents=True)
    path.write_text("#!/bin/sh\n" + lines, encoding="ascii")
    path.chmod(0o755)
    return Nsys(folder / "target-linux-x64" / "nsys", "2025.3.1", path)


def test_without_nsys_none_is_found_and_the_hint_names_the_variable(nowhere, monkeypatch):
    """`find_nsys` leaves it to the caller; `require_nsys` is exit code 6."""
    assert None is find_nsys(nowhere)
    monkeypatch.setattr("fdprof.nsys_tool.find_nsys", lambda: find_nsys(nowhere))
    with pytest.raises(EnvironmentMissing, match="nsys is not here") as raised:
        require_nsys()
    assert "FDPROF_NSYS" in raised.value.hint


def test_the_one_that_is_named_comes_before_the_one_on_path(nowhere, tmp_path, monkeypatch):
    """A user may try another version."""
    says_it_is(tmp_path / "bin" / "nsys", "2024.1.1")
    monkeypatch.setenv("FDPROF_NSYS", str(says_it_is(tmp_path / "own" / "nsys", "2023.4.4")))
    assert "2023.4.4" == find_nsys(nowhere).version


def test_a_named_one_that_cannot_be_run_is_no_reason_to_take_another(nowhere, tmp_path, monkeypatch):
    """What was asked for is not there, and a capture by another version would surprise."""
    says_it_is(tmp_path / "bin" / "nsys", "2024.1.1")
    monkeypatch.setenv("FDPROF_NSYS", str(tmp_path / "nothing"))
    with pytest.raises(EnvironmentMissing, match=r"FDPROF_NSYS is .*nothing") as raised:
        find_nsys(nowhere)
    assert "unset FDPROF_NSYS" in raised.value.hint


def test_the_one_on_path_comes_before_those_in_folders(nowhere, tmp_path):
    """As every other command."""
    says_it_is(nowhere / "opt/nvidia/nsight-systems/2025.1.1/target-linux-x64/nsys", "2025.1.1")
    says_it_is(tmp_path / "bin" / "nsys", "2024.1.1")
    assert "2024.1.1" == find_nsys(nowhere).version


def test_of_several_installations_the_newest_by_number_is_taken(nowhere):
    """2024.10 is newer than 2024.9, though it sorts before it as text."""
    for version in ("2024.9.1", "2024.10.1", "2023.4.4"):
        says_it_is(nowhere / f"opt/nvidia/nsight-systems/{version}/target-linux-x64/nsys", version)
    assert "2024.10.1" == find_nsys(nowhere).version


def test_nsight_compute_has_one_and_a_toolkit_may_have(nowhere):
    """In that order: a toolkit's is a script that may stand for nothing."""
    says_it_is(nowhere / "usr/local/cuda-13.0/bin/nsys", "2025.2.2")
    assert "2025.2.2" == find_nsys(nowhere).version
    says_it_is(nowhere / "opt/nvidia/nsight-compute/2025.3.0/host/target-linux-x64/nsys", "2025.3.1")
    assert "2025.3.1" == find_nsys(nowhere).version


def test_a_program_of_another_name_is_told_from_nsys(nowhere, tmp_path, monkeypatch):
    """Its answer is in the message."""
    other = tmp_path / "other"
    other.write_text("#!/bin/sh\necho 'something else 1.0'\n", encoding="ascii")
    other.chmod(0o755)
    monkeypatch.setenv("FDPROF_NSYS", str(other))
    with pytest.raises(EnvironmentMissing, match=r"names no version of Nsight Systems: 'something else 1.0"):
        find_nsys(nowhere)


def test_an_nsys_that_fails_is_told_with_its_last_words(nowhere, tmp_path, monkeypatch):
    """A library of nsys itself may be missing."""
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho no library >&2\nexit 127\n", encoding="ascii")
    broken.chmod(0o755)
    monkeypatch.setenv("FDPROF_NSYS", str(broken))
    with pytest.raises(EnvironmentMissing, match="exit code 127: no library"):
        find_nsys(nowhere)


def test_a_script_in_the_place_of_nsys_is_seen_through(real, tmp_path, monkeypatch):
    """nsys's own processes are known by the folder of the program that really runs."""
    install = tmp_path / "nsight-systems"
    (install / "bin").mkdir(parents=True)
    (install / real.path.parent.name).symlink_to(real.path.parent)
    script = install / "bin" / "nsys"
    script.write_text(f'#!/bin/sh\nexec {real.path} "$@"\n', encoding="ascii")
    script.chmod(0o755)
    monkeypatch.setenv("FDPROF_NSYS", str(script))
    assert real.path == find_nsys(tmp_path / "root").path


def test_a_library_that_the_importer_lacks_is_named(tmp_path):
    """By ldd, of a program that was linked with a library that is then removed."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or shutil.which("ldd") is None:
        pytest.skip("there is no C compiler, or no ldd, here")
    folder = tmp_path / "host-linux-x64"
    folder.mkdir()
    (tmp_path / "part.c").write_text("int part(void) { return 0; }\n", encoding="ascii")
    (tmp_path / "main.c").write_text("int part(void);\nint main(void) { return part(); }\n", encoding="ascii")
    library, program = folder / "libpart-of-it.so.1", folder / "QdstrmImporter"
    subprocess.run(
        [compiler, "-shared", "-fPIC", f"-Wl,-soname,{library.name}", "-o", library, tmp_path / "part.c"], check=True
    )
    subprocess.run([compiler, "-o", program, tmp_path / "main.c", library], check=True)
    nsys = Nsys(tmp_path / "target-linux-x64" / "nsys", "2025.3.1", program)
    # In the importer's own folder it is found, as nsys has it found.
    assert ([], None) == (missing_libraries(program), importer_problem(nsys))
    library.unlink()
    assert ["libpart-of-it.so.1"] == missing_libraries(program)
    problem = importer_problem(nsys)
    assert f"{program} lacks libpart-of-it.so.1" in str(problem)
    assert "install the package that has libpart-of-it.so.1" in problem.hint
    assert "LD_LIBRARY_PATH" in problem.hint


def test_of_libdw_the_packages_are_named(tmp_path):
    """The library that Nsight Compute's copy of nsys lacks on a bare server; libdw1 needs libelf1."""
    nsys = an_importer(
        tmp_path,
        "echo 'QdstrmImporter: error while loading shared libraries: libdw.so.1: cannot open shared object file' >&2\n"
        "exit 127\n",
    )
    problem = importer_problem(nsys)
    assert "lacks libdw.so.1" in str(problem)
    assert problem.hint.startswith("sudo apt-get install libdw1 libelf1 (Debian, Ubuntu); or put")
    assert 6 == problem.exit_code


def test_an_importer_that_fails_otherwise_is_told_with_its_last_words(tmp_path):
    """No library is made up."""
    problem = importer_problem(an_importer(tmp_path, "echo 'out of luck' >&2\nexit 3\n"))
    assert "fails with exit code 3: out of luck" in str(problem)


def test_an_nsys_without_an_importer_is_told(tmp_path):
    """A package of the target's programs alone has none."""
    assert "QdstrmImporter is not installed" in str(importer_problem(Nsys(tmp_path / "nsys", "2024.2.3", None)))


def test_a_recording_that_cannot_be_imported_says_how_to_do_it_by_hand(tmp_path):
    """Three commands, with the paths in them; a path with a blank in it is quoted."""
    nsys = an_importer(tmp_path, "echo 'error while loading shared libraries: libdw.so.1: cannot' >&2\nexit 127\n")
    recording = tmp_path / "my run" / "report.qdstrm"
    with pytest.raises(EnvironmentMissing, match=r"lacks libdw\.so\.1") as raised:
        make_report(nsys, recording, recording.with_suffix(".nsys-rep"))
    assert by_hand(nsys, recording) in raised.value.hint
    first, second, third = by_hand(nsys, recording).split(" && ")
    assert first.startswith(f"LD_LIBRARY_PATH={nsys.importer.parent}:FOLDER_OF_WHAT_IS_MISSING {nsys.importer} -i '")
    assert second == f"{nsys.path} export --type sqlite '{tmp_path}/my run/report.nsys-rep'"
    assert third == f"fdprof analyze '{tmp_path}/my run/report.sqlite'"


def test_an_importer_that_does_not_like_a_recording_is_an_input_error(tmp_path):
    """Exit 4: the installation is fine, the file is not."""
    nsys = an_importer(tmp_path, '[ "$1" = --version ] && exit 0\necho "File is corrupted." >&2\nexit 2\n')
    with pytest.raises(InputError, match=r"\(exit code 2\): File is corrupted\."):
        make_report(nsys, tmp_path / "report.qdstrm", tmp_path / "report.nsys-rep")


def test_the_real_one_lists_its_options_and_formats(real):
    """What captures are taken with is in every version that has been seen; the version has a year in it."""
    assert real.version.startswith("20")
    assert {"--trace", "--sample", "--output", "--capture-range"} <= profile_options(real)
    assert {"sqlite", "json"} & export_formats(real)


def test_the_real_one_refuses_what_is_no_report_and_leaves_nothing(real, tmp_path):
    """A damaged report: nsys's own words are passed on."""
    report, output = tmp_path / "bad.nsys-rep", tmp_path / "bad.sqlite"
    report.write_bytes(b"NVIDIA Tegra Profiler Report 36398880.\n" + bytes(64))
    with pytest.raises(InputError, match="did not export"):
        export(real, report, output)
    assert [report] == list(tmp_path.iterdir())
