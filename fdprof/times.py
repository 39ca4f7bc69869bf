"""How the times of a step vary: fixed, normal, lognormal, or a list of recorded times; seeded.

Tails are what asynchrony hides or exposes, so a loop can be given some.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fdprof.errors import UsageError
from fdprof.units import NS_PER_US

if TYPE_CHECKING:  # --help must not wait for NumPy
    import numpy as np
    import numpy.typing as npt

_MAX_VARIATION = 10.0
_MAX_RECORDED = 1_000_000
_MAX_US = 10_000_000.0
_FORMS = "give fixed, normal:CV, lognormal:CV (CV: standard deviation / mean) or a file with one time in µs a line"


@dataclass(frozen=True, slots=True)
class Times:
    """A distribution of times around a mean.

    `kind` is "fixed", "normal", "lognormal" or "recorded"; `variation` the coefficient of variation (standard
    deviation / mean) of the middle two; `recorded_us` the list of the last.
    """

    kind: str
    variation: float = 0.0
    recorded_us: tuple[float, ...] = ()

    def draw(self, mean_ns: int, count: int, seed: Sequence[int]) -> "npt.NDArray[np.int64]":
        """Return `count` times in ns.

        Fixed: all `mean_ns`.  Normal: none below 0, which raises the mean where the variation is large.  Lognormal:
        the mean is `mean_ns`.  Recorded: the list in its order, again from its start when it ends; `mean_ns` and the
        seed play no part.
        """
        import numpy as np

        if self.kind == "fixed":
            return np.full(count, mean_ns, dtype=np.int64)
        if self.kind == "recorded":
            listed = np.rint(np.array(self.recorded_us) * NS_PER_US).astype(np.int64)
            return np.resize(listed, count)
        generator = np.random.default_rng(seed)
        if self.kind == "normal":
            drawn = generator.normal(mean_ns, self.variation * mean_ns, count)
        else:
            # exp(N(m, s)) has the mean exp(m + s² / 2) and the variation sqrt(exp(s²) - 1).
            sigma = math.sqrt(math.log1p(self.variation**2))
            drawn = mean_ns * generator.lognormal(-(sigma**2) / 2, sigma, count)
        return np.asarray(np.maximum(np.rint(drawn), 0), dtype=np.int64)


def parse_times(text: str, option: str) -> Times:
    """Return what an option of times asks for; UsageError, naming the option, when it asks for nothing known."""
    name, colon, rest = text.partition(":")
    if text == "fixed":
        return Times("fixed")
    if name in ("normal", "lognormal") and colon:
        try:
            variation = float(rest)
        except ValueError:
            variation = math.nan
        if not 0 <= variation <= _MAX_VARIATION:
            raise UsageError(f"{option} is {text!r}, expected {name}:0 to {name}:{_MAX_VARIATION:g}", _FORMS)
        return Times(name, abs(variation))  # -0 is in the range
    return Times("recorded", recorded_us=_read(Path(text), option))


def _read(path: Path, option: str) -> tuple[float, ...]:
    """Return the times of a file: one number in µs a line; empty lines and lines that start with # are skipped."""
    found: list[float] = []
    try:
        if str(path) != "." and path.exists() and not path.is_file():
            raise UsageError(f"{option}: {path} is no regular file", _FORMS)
        with path.open(encoding="utf-8-sig") as lines:
            for number, line in enumerate(lines, start=1):
                entry = line.strip()
                if not entry or entry.startswith("#"):
                    continue
                if len(found) == _MAX_RECORDED:
                    raise UsageError(f"{option}: {path} has more than {_MAX_RECORDED:,} times", "shorten the file")
                found.append(_time_us(entry, f"{option}: {path}, line {number}"))
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option}: {str(path)!r} is no distribution, and no file that can be read", _FORMS) from error
    if not found:
        raise UsageError(f"{option}: {path} holds no times", _FORMS)
    return tuple(found)


def _time_us(entry: str, where: str) -> float:
    try:
        value = float(entry)
    except ValueError:
        value = math.nan
    if not 0 <= value <= _MAX_US:
        raise UsageError(f"{where}: {entry[:40]!r}, expected a time of 0 to {_MAX_US:,.0f} µs", _FORMS)
    return value
