"""Options shared by commands: those made from parameter records, and where output goes."""

import dataclasses
import importlib.util
import inspect
import os
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from fdprof import plugins
from fdprof.errors import EnvironmentMissing, UsageError
from fdprof.params import MAX_BLOCKS
from fdprof.units import printable

if TYPE_CHECKING:  # NumPy is behind it, and --help must not wait for NumPy
    from fdprof.reports.protocol import Report, Reportable

Command = TypeVar("Command", bound=Callable[..., None])

Backend = Annotated[
    str, typer.Option("--backend", help="auto, paddle or sim; auto takes a GPU with Paddle if one works.")
]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output, prose on standard error.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        help="Also write the report here; its ending chooses the format: .html, .perfetto-trace, .md, .json, .csv, "
        ".parquet, .transfers.csv, .transfers.parquet or .txt.",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing output.")]
Runs = Annotated[Path, typer.Option("--runs", help="Folder that runs are saved in.")]
WorkOf = Annotated[
    Path | None,
    typer.Option(
        "--work-of",
        help="Folder of a run of this loop, bare as a rule: run its very kernels, and do not calibrate. "
        "Under a profiler, calibrating hides what that costs the device.",
    ),
]
Save = Annotated[bool, typer.Option("--save/--no-save", help="Save the run, so that `fdprof report` can reopen it.")]


def options_of(*record_types: type[Any]) -> Callable[[Command], Command]:
    """Return a decorator that gives a command an option for each field of the records, with its help and default.

    The command takes them as **options and hands them to `record_from`, which checks the bounds.
    """

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        added = []
        for record_type in record_types:
            types = get_type_hints(record_type)
            for field in dataclasses.fields(record_type):
                option = typer.Option("--" + field.name.replace("_", "-"), help=field.metadata["help"])
                annotation: Any = Annotated.__class_getitem__((types[field.name], option))  # type: ignore[attr-defined]
                added.append(
                    inspect.Parameter(
                        field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=annotation
                    )
                )
        command.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in (*own, *added)} | {"return": None}
        return command

    return decorate


def with_parameters_of(template: Callable[..., None]) -> Callable[[Command], Command]:
    """Return a decorator that gives a command the parameters of another function too, which it takes in **options."""

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command)
        *own, rest = signature.parameters.values()
        more = [
            parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(template).parameters.values()
        ]
        command.__signature__ = signature.replace(parameters=[*own, *more, rest])  # type: ignore[attr-defined]
        return command

    return decorate


def record_from(record_type: type[Any], options: Mapping[str, Any]) -> Any:
    """Return the record made of its options; UsageError when one does not fit."""
    return record_type(**{field.name: options[field.name] for field in dataclasses.fields(record_type)})


def check_blocks(blocks: int) -> None:
    if not 1 <= blocks <= MAX_BLOCKS:
        raise UsageError(f"--blocks is {blocks}, expected 1 to {MAX_BLOCKS}", "choose --blocks in that range")


def check_output(output: Path | None, force: bool, inputs: Sequence[Path] = ()) -> None:
    """Raise UsageError, before anything is run, when `output` cannot be written or has no report for its ending.

    Or when it is one of the inputs, or lies in one: --force replaces outputs.
    """
    if output is not None:
        check_place(output, "-o", force)
        _require_packages(output)
        place = output.resolve()
        for path in inputs:
            read = path.resolve()
            # The folder one stands in may be what is read; a new file beside what it holds is in nobody's way.
            is_beside = read == Path.cwd() == place.parent and not os.path.lexists(output)
            if read in (place, *place.parents) and not is_beside:
                raise UsageError(f"-o {output} would replace or add to what is read: {path}", "choose another -o")


def _require_packages(output: Path) -> None:
    """Raise EnvironmentMissing, before anything is run, for the first package that its report lacks."""
    for name in _report_for(output).needs:
        if importlib.util.find_spec(name) is None:
            raise EnvironmentMissing(
                f"{output.name} needs the package {name}, which is not installed", f"pip install {name}"
            )


def check_place(output: Path, option: str, force: bool) -> None:
    """Raise UsageError, before anything is run, when the file that an option names cannot be written."""
    try:
        parent = output.resolve().parent  # a link is written through
    except (OSError, RuntimeError) as error:
        raise UsageError(f"cannot write {output}: its links lead nowhere", f"choose another {option}") from error
    try:
        if output.is_dir():
            raise UsageError(f"{output} is a folder", "give the name of a file")
        if output.exists() and not output.is_file():
            raise UsageError(f"{output} is no regular file", f"choose another {option}")
        if os.path.lexists(output) and not force:
            raise UsageError(f"{output} exists", f"choose another {option}, or pass --force to replace it")
        if not parent.exists():
            raise UsageError(f"the folder of {output} does not exist", f"create {parent} first")
        if not parent.is_dir():
            raise UsageError(f"{parent} is not a folder", f"choose another {option}")
        with tempfile.TemporaryFile(dir=parent):
            pass
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror or error}", f"choose another {option}") from error


def check_renders(output: Path | None, kind: type) -> None:
    """Raise UsageError when the report that an output's name asks for has nothing to show of this kind of result."""
    if output is not None and kind not in _report_for(output).renders:
        able = [report.suffix for report in _reports() if kind in report.renders]
        raise UsageError(
            f"a {_report_for(output).suffix} file cannot hold this: it has neither steps nor transfers",
            f"use one of: {', '.join(able)}",
        )


def show(result: "Reportable", as_json: bool, output: Path | None, force: bool) -> None:
    """Write the report to `output` if one is given, then print it, as JSON or for people.

    In this order, because nobody may read what is printed.
    """
    not_written = None if output is None else _written(result, output, force)
    report = plugins.load("reports", "json") if as_json else _terminal()
    typer.echo(report.render(result), nl=False, color=True)  # the report itself leaves colours out where none belong
    if not_written is not None:
        raise not_written


def _written(result: "Reportable", output: Path, force: bool) -> UsageError | None:
    """Write the report to a file; return what kept it from being written."""
    from fdprof.documents import write_bytes

    content = _report_for(output).render(result)
    try:
        write_bytes(output, content if isinstance(content, bytes) else content.encode(), replaces=force)
    except FileExistsError:
        return UsageError(f"{output} has come to exist meanwhile", "choose another -o, or pass --force to replace it")
    except OSError as error:
        return UsageError(f"cannot write {output}: {error.strerror or error}", "choose another -o")
    say(f"wrote {printable(str(output))}")
    return None


def say(text: str) -> None:
    """Print prose on standard error, nothing in which drives a terminal."""
    typer.echo("\n".join(printable(line) for line in text.split("\n")), err=True)


def progress(text: str) -> None:
    """Print a line of progress when a person is watching."""
    if sys.stderr.isatty():
        say(text)


def _reports() -> "list[Report]":
    return [plugins.load("reports", name) for name in plugins.names("reports")]


def _report_for(output: Path) -> "Report":
    """Return the report for a file's name; of several endings that fit the longest decides."""
    fitting = [report for report in _reports() if output.name.lower().endswith(report.suffix)]
    if fitting:
        return max(fitting, key=lambda report: len(report.suffix))
    endings = ", ".join(sorted(report.suffix for report in _reports()))
    raise UsageError(f"no report writes {output.suffix or 'a file without an ending'}", f"use one of: {endings}")


def _terminal() -> "Report":
    """Return the terminal report for where standard output goes."""
    from fdprof.reports.terminal import terminal_report

    return terminal_report(sys.stdout, os.environ)
