"""Why a file can't be read or written, in words for people: none of a library's own."""

from __future__ import annotations

import re

_OF_SAFETENSORS = re.compile(r"([^:]+) \(os error \d+\)")


def reason(error: BaseException, otherwise: str) -> str:
    """The system's words for what went wrong.

    Args:
        error: of whatever library; the system's error may be what it was raised from.
        otherwise: said where the system had no part in it.
    """
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, OSError) and link.strerror:
            return link.strerror
        link = link.__cause__ or link.__context__
    found = _OF_SAFETENSORS.search(str(error))
    return found[1].strip() if found else otherwise
