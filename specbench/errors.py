"""The one error type that users see.

Every failure that can be foreseen (a name that does not exist, a file that cannot be read, a model
that cannot be rolled back) is raised as :class:`SpecbenchError` and caught once, in the command
line, where it becomes one line on stderr and exit code 2. Anything else is a bug and keeps its
traceback.
"""

from __future__ import annotations

_REASON_CHARS = 160


def first_line(error: BaseException) -> str:
    """What a foreign error says in its first line; its type where it says nothing."""
    return str(error).strip().partition("\n")[0] or type(error).__name__


def short_reason(error: BaseException) -> str:
    """The type of a foreign error and its first line, cut short."""
    name, said = type(error).__name__, first_line(error)
    return name if said == name else f"{name}: {said}"[:_REASON_CHARS]


class SpecbenchError(Exception):
    """An expected failure: what is wrong, with the offending value, and the way out.

    Args:
        message: what is wrong, naming the value, without a final full stop.
        hint: what to do about it; may be empty.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        self.message = " ".join(message.split())
        self.hint = " ".join(hint.split())
        super().__init__(f"{self.message}. {self.hint}" if self.hint else self.message)

    def __reduce__(self) -> tuple[type[SpecbenchError], tuple[str, str]]:
        """So that it crosses from one process to another whole."""
        return type(self), (self.message, self.hint)
