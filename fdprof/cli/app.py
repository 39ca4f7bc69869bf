"""The command group and the one place where errors become messages and exit codes."""

import errno
import sys
import traceback
from typing import Any

import typer
from typer.core import TyperGroup

from fdprof.cli import compare, doctor, hazards, lists, report, run
from fdprof.cli.recording import INTERRUPTED
from fdprof.cli.scenario_options import command_with_options
from fdprof.errors import FdprofError, UsageError
from fdprof.params import LoopParams

_BUG = 70
_OUTPUT_LOST = frozenset({errno.ENOSPC, errno.EBADF, errno.EIO})


class ErrorBoundary(TyperGroup):
    """Turns an FdprofError into its message and exit code, and anything unexpected into one report and exit 70."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return name, command and the arguments left, with the options of the scenario they name."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command_with_options(name or "", rest) or command, rest

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:  # before there was a block to keep
            raise typer.Exit(INTERRUPTED) from error
        except FdprofError as error:
            print(f"fdprof: {error}", file=sys.stderr)  # noqa: T201
            if error.hint:
                print(f"  {error.hint}", file=sys.stderr)  # noqa: T201
            raise typer.Exit(error.exit_code) from error
        except Exception as error:
            if isinstance(error, OSError) and error.errno in _OUTPUT_LOST:
                print(f"fdprof: cannot write the output: {error.strerror}", file=sys.stderr)  # noqa: T201
                raise typer.Exit(UsageError.exit_code) from error
            if type(error).__module__.split(".")[0] in {"typer", "click"} or isinstance(error, BrokenPipeError):
                raise
            traceback.print_exc()
            print("fdprof: this is a bug in fdprof; please report it with the lines above", file=sys.stderr)  # noqa: T201
            raise typer.Exit(_BUG) from error


app = typer.Typer(
    cls=ErrorBoundary,
    name="fdprof",
    help="Measure what host transfers cost an LLM decode loop, and whether making them asynchronous helps.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("run")(run.command_for(LoopParams))
app.command("compare")(compare.command_for(LoopParams))
app.command("report")(report.report)
app.command("scenarios")(lists.scenarios)
app.command("modes")(lists.modes)
app.command("hazards")(hazards.hazards)
app.command("doctor")(doctor.doctor)
