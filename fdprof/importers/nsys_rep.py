"""What nsys itself writes, a report or a raw recording: only nsys can read it, so it is exported where nsys is."""

import tempfile
from pathlib import Path

from fdprof.capture import Capture
from fdprof.errors import EnvironmentMissing, InputError
from fdprof.importers.nsys import IMPORTER as NSYS
from fdprof.importers.protocol import Progress
from fdprof.nsys_tool import INSTALL, Nsys, export, find_nsys, make_report

_REPORT_MAGIC = b"NVIDIA Tegra Profiler Report"
_RECORDING_MAGIC = b"NVIDIA Nsight Systems Stream"
_RECORDING_HEAD = 256  # some bytes come before the words
_BY_HAND = "nsys export --type sqlite --output {output} {report}"


class NsysReportImporter:
    """.nsys-rep and .qdstrm files, by way of `nsys export`."""

    format = "Nsight Systems report (.nsys-rep) or recording (.qdstrm), where nsys is here to export it"

    def sniff(self, path: Path, head: bytes) -> bool:
        return head.startswith(_REPORT_MAGIC) or _is_recording(head)

    def read(self, path: Path, progress: Progress) -> Capture:
        with path.open("rb") as file:
            is_recording = _is_recording(file.read(_RECORDING_HEAD))
        by_hand = path.with_suffix(".sqlite")
        if is_recording and by_hand.is_file():  # whoever finished it by hand, as the error says, reads it from here on
            return NSYS.read(by_hand, progress)
        nsys = find_nsys()
        if nsys is None:
            raise _needs_nsys(path, is_recording)
        with tempfile.TemporaryDirectory(prefix="fdprof-") as folder:
            return _through(nsys, path, Path(folder), is_recording, progress)


def _through(nsys: Nsys, path: Path, folder: Path, is_recording: bool, progress: Progress) -> Capture:
    """Return the capture by way of an export in this folder, and of a report in it where there is none yet."""
    report = path.resolve()
    if is_recording:
        progress(f"making a report of {path.name} with nsys")
        report = folder / "made.nsys-rep"
        make_report(nsys, path.resolve(), report)
    progress(f"exporting {path.name} with nsys")
    output = folder / "export.sqlite"
    export(nsys, report, output)
    try:
        return NSYS.read(output, progress)
    except InputError as error:  # it names a file that is gone by then
        raise InputError(str(error).replace(str(output), f"what nsys exported of {path}"), error.hint) from error


def _is_recording(head: bytes) -> bool:
    return _RECORDING_MAGIC in head[:_RECORDING_HEAD]


def _needs_nsys(path: Path, is_recording: bool) -> EnvironmentMissing:
    if is_recording:
        return EnvironmentMissing(
            f"{path} is a raw recording, which only the nsys that made it can read, and there is no nsys here",
            f"analyze it where that nsys is, or {INSTALL}",
        )
    by_hand = _BY_HAND.format(output=path.with_suffix(".sqlite").name, report=path.name)
    return EnvironmentMissing(
        f"{path} is an Nsight Systems report, which only nsys can read, and there is no nsys here",
        f"export it where nsys is, and analyze the result: {by_hand}",
    )


IMPORTER = NsysReportImporter()
