"""The command group and the one place where errors become messages and exit codes."""

import contextlib
import errno
import os
import sys
import traceback
from collections.abc import Iterator
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from fdprof.cli import analyze, capture, compare, doctor, hazards, lists, overhead, report, run
from fdprof.cli.recording import INTERRUPTED
from fdprof.cli.scenario_options import command_with_options
from fdprof.errors import EnvironmentMissing, FdprofError, InputError, UsageError
from fdprof.params import LoopParams
from fdprof.units import printable

_BUG = 70
_PIPE_CLOSED = 141  # a shell's exit code for SIGPIPE
_UNREACHABLE = frozenset({errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.ELOOP})
"""What merely asking whether a user's path is there may meet."""

_INSTALL = "install fdprof again, with what it depends on; `python -m pip check` lists what is missing"
_OUTPUT_LOST = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EBADF, errno.EIO})


def _tell(message: str) -> None:
    """Print `message` to standard error; the exit code must be right even where that cannot be written.

    Paths and libraries' errors bring along what others wrote, so it is escaped here.
    """
    lines = "\n".join(printable(line) for line in message.split("\n"))
    with contextlib.suppress(OSError):
        print(f"fdprof: {lines}", file=sys.stderr)  # noqa: T201


@contextlib.contextmanager
def _boundary() -> Iterator[None]:
    """Turn an FdprofError into its message and exit code, and anything unexpected into one report and exit 70."""
    try:
        yield
    except KeyboardInterrupt as error:  # before there was a block to keep
        raise typer.Exit(getattr(error, "exit_code", INTERRUPTED)) from error
    except BrokenPipeError as error:  # whoever read the output had enough; 1 would be a failed gate
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is still buffered goes nowhere, without an error
        raise typer.Exit(_PIPE_CLOSED) from error
    except FdprofError as error:
        _tell(f"{error}\n  {error.hint}" if error.hint else str(error))
        raise typer.Exit(error.exit_code) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno in _OUTPUT_LOST:
            _tell(f"cannot write the output: {error.strerror}")
            raise typer.Exit(UsageError.exit_code) from error
        if isinstance(error, OSError) and error.errno in _UNREACHABLE and error.filename is not None:
            _tell(f"cannot look at {error.filename!s:.200}: {error.strerror}\n  give a path that can be reached")
            raise typer.Exit(InputError.exit_code) from error
        if isinstance(error, ModuleNotFoundError) and error.name and not error.name.startswith("fdprof"):
            _tell(f"the package {error.name} is not installed, which fdprof needs\n  {_INSTALL}")
            raise typer.Exit(EnvironmentMissing.exit_code) from error
        if type(error).__module__.split(".")[0] in {"typer", "click"}:
            raise
        traceback.print_exc()
        _tell("this is a bug in fdprof; please report it with the lines above")
        raise typer.Exit(_BUG) from error


class ErrorBoundary(TyperGroup):
    """The command group; parsing it prints its help, so that stands behind the boundary as well."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        with _boundary():
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return name, command and the arguments left, with the options of the scenario they name."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command_with_options(name or "", rest) or command, rest

    def invoke(self, ctx: Any) -> Any:
        with _boundary():
            return super().invoke(ctx)


app = typer.Typer(
    cls=ErrorBoundary,
    name="fdprof",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(asked: bool) -> None:
    if asked:
        from fdprof import __version__

        typer.echo(f"fdprof {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Measure what host transfers cost an LLM decode loop, and whether making them asynchronous helps."""


app.command("run")(run.command_for(LoopParams))
app.command("compare")(compare.command_for(LoopParams))
app.command("analyze")(analyze.analyze)
app.command("capture")(capture.of_scenario(LoopParams))
app.command("overhead")(overhead.command_for(LoopParams))
app.command("report")(report.report)
app.command("scenarios")(lists.scenarios)
app.command("modes")(lists.modes)
app.command("hazards")(hazards.hazards)
app.command("doctor")(doctor.doctor)
