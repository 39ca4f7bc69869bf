"""An Nsight Systems report itself: only nsys can read it, so it is exported first where nsys is."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from fdprof.capture import Capture
from fdprof.errors import EnvironmentMissing, InputError
from fdprof.importers.nsys import IMPORTER as NSYS
from fdprof.importers.protocol import Progress

_MAGIC = b"NVIDIA Tegra Profiler Report"
_EXPORT = "nsys export --type sqlite --output {output} {report}"
_TIMEOUT_S = 600


class NsysReportImporter:
    """.nsys-rep files, by way of `nsys export`."""

    format = "Nsight Systems report (.nsys-rep), where nsys is on PATH to export it"

    def sniff(self, path: Path, head: bytes) -> bool:
        return head.startswith(_MAGIC)

    def read(self, path: Path, progress: Progress) -> Capture:
        nsys = shutil.which("nsys")
        if nsys is None:
            by_hand = _EXPORT.format(output=path.with_suffix(".sqlite").name, report=path.name)
            raise EnvironmentMissing(
                f"{path} is an Nsight Systems report, which only nsys can read, and nsys is not on PATH",
                f"export it where nsys is, and analyze the result: {by_hand}",
            )
        with tempfile.TemporaryDirectory(prefix="fdprof-") as folder:
            output = Path(folder) / "export.sqlite"
            progress(f"exporting {path.name} with nsys")
            command = [nsys, "export", "--type", "sqlite", "--output", str(output), str(path.resolve())]
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise InputError(
                    f"nsys did not export {path}: {error}", "export it by hand: " + " ".join(command)
                ) from error
            if done.returncode or not output.exists():
                said = (done.stderr or done.stdout).strip().splitlines()
                raise InputError(
                    f"nsys did not export {path} (exit code {done.returncode}): {said[-1] if said else 'no message'}",
                    "an older nsys cannot read a newer report; export it with the nsys that made it",
                )
            try:
                return NSYS.read(output, progress)
            except InputError as error:  # it names a file that is gone by then
                raise InputError(
                    str(error).replace(str(output), f"what nsys exported of {path}"), error.hint
                ) from error


IMPORTER = NsysReportImporter()
