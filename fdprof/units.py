"""The only formatting of times, bytes and ratios for people."""

NS_PER_US = 1_000

NOT_OBSERVED = "-"


def us(ns: float | None, digits: int = 1) -> str:
    """Return nanoseconds as microseconds: 1234567 gives '1,234.6'; None gives '-'."""
    return NOT_OBSERVED if ns is None else f"{ns / NS_PER_US:,.{digits}f}"


def signed_us(ns: int) -> str:
    """Return a change in ns as microseconds to the ns: -1234567 gives '-1,234.567', 12 gives '+0.012'."""
    return f"{ns / NS_PER_US:+,.3f}"


def size(size_bytes: int) -> str:
    """Return a size in the largest binary unit that leaves at least one: 513 gives '513 B', 2048 '2.0 KiB'; -1 '-'."""
    if size_bytes < 0:
        return NOT_OBSERVED
    if size_bytes < 1024:
        return f"{size_bytes} B"
    value = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if value < 1024 or unit == "GiB":
            break
    return f"{value:.1f} {unit}"


SEVERAL = "{:.2f} × {}"
"""Copies a step and the size of each: '32.00 × 4 B'."""

_SHOWN_CHARACTERS = 200


def printable(text: str) -> str:
    """Return a text with what could drive a terminal escaped: control characters, line ends, marks of direction."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def shown(text: str) -> str:
    """Return a text from a file fit for a terminal: `printable`, and long ones cut in the middle."""
    clean = printable(text)
    if len(clean) <= _SHOWN_CHARACTERS * 3:
        return clean
    return f"{clean[:_SHOWN_CHARACTERS]} ... {clean[-_SHOWN_CHARACTERS:]}"


def counted(number: int, noun: str) -> str:
    """Return a number with its noun: 1 and 'call' give '1 call', 1200 gives '1,200 calls'."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def ratio(value: float | None) -> str:
    """Return a ratio with three decimals: 0.7812 gives '0.781'."""
    return NOT_OBSERVED if value is None else f"{value:.3f}"


def percent(share: float | None) -> str:
    """Return a share of one as per cent: 0.912 gives '91.2 %'."""
    return NOT_OBSERVED if share is None else f"{share * 100:.1f} %"
