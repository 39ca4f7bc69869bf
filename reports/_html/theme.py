"""The colours of the HTML report for light and for dark, as CSS variables; those of the meanings are the palette's."""

from fdprof.reports._palette import PALETTE

from fdprof.meanings import Meaning

_PAGE = {
    "paper": ("#ffffff", "#14161a"),
    "raised": ("#f5f6f8", "#1c1f24"),
    "sunken": ("#eceef1", "#24282f"),
    "ink": ("#15181c", "#e4e7eb"),
    "muted": ("#515a65", "#a4adb8"),
    "rule": ("#d5d9df", "#343a43"),
    "strong-rule": ("#8a939e", "#6b7683"),
    "accent": ("#0a58a6", "#7db9ff"),
    "good": ("#176b34", "#7fd49a"),
    "bad": ("#a3200d", "#ff9c8c"),
    "doubt": ("#7a4d00", "#f0c060"),
    "side-a": ("#5b6673", "#9aa5b1"),
    "side-b": ("#0a58a6", "#7db9ff"),
}
"""Texts have a contrast of 4.5:1 with paper, raised and sunken, which axe checks in both themes."""


def css_of(meaning: Meaning) -> str:
    """Return the class of a meaning: 'm-not-captured'."""
    return "m-" + meaning.value.replace(" ", "-")


def variables() -> str:
    """Return the style sheet of the colours: light, dark where the reader's system is, and what the switch chose."""
    light, dark = (_declared(number) for number in range(2))
    fills = "".join(
        f".{css_of(meaning)}{{fill:var(--{css_of(meaning)});background-color:var(--{css_of(meaning)})}}\n"
        for meaning in Meaning
    )
    return (
        f":root{{color-scheme:light;{light}}}\n"
        f"@media (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}\n"
        f":root[data-theme=dark]{{color-scheme:dark;{dark}}}\n"
        f"@media print{{:root,:root:not([data-theme=light]),:root[data-theme=dark]{{color-scheme:light;{light}}}}}\n"
        f"{fills}"
    )


def _declared(number: int) -> str:
    meanings = {css_of(meaning): (shade.light, shade.dark) for meaning, shade in PALETTE.items()}
    return "".join(f"--{name}:{both[number]};" for name, both in (_PAGE | meanings).items())
