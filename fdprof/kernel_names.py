"""Kernels' names as people say them, from the demangled names of C++."""

import re

_CLOSES = {")": "(", "]": "[", "}": "{", ">": "<"}
_OPERATOR = re.compile(r"\boperator\s*(\(\)|<=>|<<=|>>=|->\*|->|<<|>>|<=|>=|<|>)")
_SIGNATURE, _LAMBDA = "\0", "\1"  # what stands for a bracket and all within


def short_name(kernel: str) -> str:
    """Return a kernel's name without what its namespace, template and signature add.

    'void at::add<4, Op<float> >(int, float*)' gives 'add'.  A name that is no C++ declaration is left as it is.
    """
    skeleton = _skeleton(kernel.replace("(anonymous namespace)", "").removeprefix("void "))
    if skeleton is None:
        return kernel
    # The last parenthesis: a lambda's name begins with its function's, signature and all.
    head, signature, _ = skeleton.rpartition(_SIGNATURE)
    last = (head if signature else skeleton).rsplit("::", 1)[-1]
    if signature and "operator" not in last:
        last = last.rsplit(" ", 1)[-1]  # what a function returns stands before it
    return last.translate({ord(_SIGNATURE): None, ord(_LAMBDA): None}).strip() or kernel


def _skeleton(name: str) -> str | None:
    """Return a name with a mark for each outermost bracket, and none for a template's; None where they do not match."""
    symbols = {at for found in _OPERATOR.finditer(name) for at in range(found.start(1), found.end(1))}
    opened: list[str] = []
    kept = []
    for at, character in enumerate(name):
        # Inside parentheses < and > may compare.
        is_bracket = at not in symbols and not (character in "<>" and opened and opened[-1] != "<")
        if is_bracket and character in "([{<":
            if not opened and character != "<":
                kept.append(_SIGNATURE if character == "(" else _LAMBDA)
            opened.append(character)
        elif is_bracket and character in _CLOSES:
            if not opened or opened.pop() != _CLOSES[character]:
                return None
        elif not opened:
            kept.append(character)
    return None if opened else "".join(kept)
