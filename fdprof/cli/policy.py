"""What the options of `fdprof compare` ask of a comparison: bounds, gates, and fields that may differ."""

import dataclasses
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fdprof.errors import UsageError
from fdprof.params import Extent, LoopParams
from fdprof.units import printable

if TYPE_CHECKING:  # NumPy is behind them, and --help must not wait for NumPy
    from fdprof.comparison import Policy, Side

VERDICTS = ("slower", "faster", "same", "inconclusive")


def policy_of(
    same_within: str, allow: Sequence[str], fail_if: Sequence[str], max_ratio: float | None, max_p99: float | None
) -> "Policy":
    """Return the policy of these options; UsageError for the first that does not fit."""
    from fdprof.comparison import Policy, Verdict

    for verdict in fail_if:
        if verdict not in VERDICTS:
            raise UsageError(f"--fail-if is {printable(verdict)!r}", f"choose one of: {', '.join(VERDICTS)}")
    for option, limit in (("--max-ratio", max_ratio), ("--max-p99-ratio", max_p99)):
        if limit is not None and not (math.isfinite(limit) and limit > 0):
            raise UsageError(f"{option} is {limit:g}", "give a ratio above 0, for example 1.02")
    return Policy(
        same_within=share_of(same_within, "--same-within"),
        allowed=frozenset(allow),
        fail_if=frozenset(Verdict(verdict) for verdict in fail_if),
        max_ratio=max_ratio,
        max_p99_ratio=max_p99,
    )


def check_allowed(policy: "Policy", sides: Sequence["Side"]) -> None:
    """Raise UsageError for an --allow that names no field at all: it would allow nothing."""
    from fdprof.analysis.comparability import known_fields
    from fdprof.model import Environment

    known = known_fields(*sides)
    known |= {field.name for record in (LoopParams, Extent, Environment) for field in dataclasses.fields(record)}
    known |= {"scenario", "backend", "tracer", "fault", "audit", "device_work_ns"}
    for name in sorted(policy.allowed - known):
        raise UsageError(f"--allow {printable(name)!r}: there is no such field", f"one of: {', '.join(sorted(known))}")


def share_of(text: str, option: str) -> float:
    """Return per cent as a share of one: 0.5% gives 0.005; UsageError unless it is above 0% and below 100%.

    The sign must be there: 0.5 could be half a per cent or a half.
    """
    try:
        share = float(text.strip().removesuffix("%")) / 100 if text.strip().endswith("%") else math.nan
    except ValueError:
        share = math.nan
    if not 0 < share < 1:
        raise UsageError(f"{option} is {printable(text)!r}", "give per cent with its sign, for example 0.5%")
    return share
