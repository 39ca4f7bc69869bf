"""The exceptions a user may meet, each with its exit code.  This module imports nothing."""


class FdprofError(Exception):
    """What failed, where, got against expected; `hint` says what to do next.

    `exit_code` is the code of product.md section 5 that the command line returns.
    """

    exit_code = 70

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class GateFailed(FdprofError):
    """A condition that the caller set for a comparison is not met."""

    exit_code = 1


class UsageError(FdprofError):
    """The command line or an argument is wrong: unknown name, number out of range, existing output."""

    exit_code = 2


class NotComparable(FdprofError):
    """Two sides differ in something other than what is compared."""

    exit_code = 3


class Inconclusive(FdprofError):
    """A comparison cannot decide what it was asked for."""

    exit_code = 3


class InputError(FdprofError):
    """A file cannot be used; the message names its path and the place in it."""

    exit_code = 4


class ScenarioFailed(FdprofError):
    """A loop could not be carried through: a CUDA error, or a wait that did not end in time."""

    exit_code = 4


class WrongResult(FdprofError):
    """Tokens differ from the reference, or a read returned another step's values."""

    exit_code = 5


class EnvironmentMissing(FdprofError):
    """Something needed is not there: GPU, Paddle, nvcc, nsys.  The hint says which command supplies it."""

    exit_code = 6
