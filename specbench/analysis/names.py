"""Long names (``model:ORG/NAME,key=value``) broken into lines where a reader would break them."""

from __future__ import annotations

import re

_PART = re.compile(r"[^/:,\- ]+[/:,\- ]?|[/:,\- ]")


def broken(name: str, width: int) -> list[str]:
    """Lines of at most ``width`` characters, broken after ``/ : , -`` or a space where possible.

    >>> broken("model:drafters/SmolLM2-21M", 13)
    ['model:', 'drafters/', 'SmolLM2-21M']
    """
    lines = [""]
    for part in _PART.findall(name):
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
        while len(lines[-1].rstrip()) > width:
            lines[-1:] = [lines[-1][:width], lines[-1][width:]]
    return [line.rstrip() for line in lines]
