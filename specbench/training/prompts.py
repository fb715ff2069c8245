"""What the target is asked when its output is collected: prompts drawn from a grammar.

The grammar is ``prompts.toml``: each name has alternatives, and a name in braces inside one stands
for an alternative drawn at random. It spans the kinds of tasks that specbench measures (chat, code,
translation, summarization, extraction, stories) without containing any of their prompts.

>>> PromptGrammar({"prompt": ["Explain {topic}."], "topic": ["tides"]}).draw(random.Random(0)).text
'Explain tides.'
"""

from __future__ import annotations

import random
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from specbench.errors import SpecbenchError

PROMPTS_FILE = Path(__file__).with_name("prompts.toml")
PASSAGE = "passage"
SOURCE = "source"

_REFERENCE = re.compile(r"\{([\w-]+)\}")
"""A name in braces; what holds blanks, quotes or nothing at all is text."""
_MOST_DRAWS = 1000


@dataclass(frozen=True)
class TrainingPrompt:
    """A prompt's text; ``is_source`` says that the answer may serve as a passage later."""

    text: str
    is_source: bool


class PromptGrammar:
    """Draws prompts.

    Args:
        rules: name to alternatives; ``prompt`` is the start.
    """

    def __init__(self, rules: Mapping[str, Sequence[str]]) -> None:
        self.rules = rules

    @classmethod
    def read(cls, file: Path = PROMPTS_FILE) -> PromptGrammar:
        """The grammar of a TOML file.

        Raises:
            SpecbenchError: unreadable, not a table of lists of texts with a ``prompt``, or with a
                text that is empty or refers to what is not there.
        """
        try:
            rules = tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            why = getattr(error, "strerror", None) or error
            raise SpecbenchError(f"cannot read the prompt grammar {file}: {why}") from error
        for name, alternatives in rules.items():
            usable = isinstance(alternatives, list) and alternatives
            if not usable or not all(isinstance(text, str) for text in alternatives):
                raise SpecbenchError(f"{file}: {name!r} is not a list of texts")
        if "prompt" not in rules:
            raise SpecbenchError(f"{file} has no 'prompt' to start from")
        _check_texts(file, rules)
        return cls(rules)

    def draw(self, rng: random.Random, passages: Sequence[str] = ()) -> TrainingPrompt:
        """One prompt; those that need a passage come only once there are some.

        Raises:
            SpecbenchError: every alternative needs a passage, or the rules never end.
        """
        for _ in range(_MOST_DRAWS):
            start = rng.choice(self.rules["prompt"])
            text = self._expand(start, rng, passages)
            if text is not None:
                return TrainingPrompt(text, is_source=start == f"{{{SOURCE}}}")
        raise SpecbenchError(
            "the prompt grammar yields no prompt without a {passage}, and there is none yet",
            "Give it a rule that does not need one",
        )

    def _expand(self, text: str, rng: random.Random, passages: Sequence[str]) -> str | None:
        """The text with every reference replaced; None if a passage is wanted and there is none."""
        for _ in range(_MOST_DRAWS):
            found = next((m for m in _REFERENCE.finditer(text) if self._known(m[1])), None)
            if found is None:
                return text
            if found[1] != PASSAGE:
                chosen = rng.choice(self.rules[found[1]])
            elif passages:
                # braces in a text of the target's are no references
                chosen = rng.choice(passages).replace("{", "(").replace("}", ")")
            else:
                return None
            text = text[: found.start()] + chosen + text[found.end() :]
        raise SpecbenchError(f"the prompt grammar never ends: {text[:60]!r} goes on and on")

    def _known(self, name: str) -> bool:
        return name == PASSAGE or name in self.rules


def _check_texts(file: Path, rules: Mapping[str, Sequence[str]]) -> None:
    """Refuse texts that would be asked as nobody meant them, naming rule and text."""
    gives_passages = f"{{{SOURCE}}}" in rules["prompt"]
    for name, alternatives in rules.items():
        for number, text in enumerate(alternatives, 1):
            where = f"{file}: text {number} of {name!r}"
            if not text.strip():
                raise SpecbenchError(f"{where} is empty")
            for reference in _REFERENCE.findall(text):
                if reference == PASSAGE and not gives_passages:
                    raise SpecbenchError(
                        f"{where} has {{{PASSAGE}}}, and no earlier answer can be one",
                        f"Write '{{{SOURCE}}}' among the texts of 'prompt' as well",
                    )
                if reference != PASSAGE and reference not in rules:
                    raise SpecbenchError(
                        f"{where} has {{{reference}}}, and there is no {reference!r}",
                        f"Correct the name, or write {{ {reference} }} if it is text",
                    )
