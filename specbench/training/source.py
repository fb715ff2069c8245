"""Where the answers of a corpus come from: the prompts they were asked with, or a file of outputs.

>>> Source("prompts", "mine.toml", "ab" * 32).words
'the prompts of mine.toml (SHA-256 abababab)'
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from specbench.training.prompts import PROMPTS_FILE

PROMPTS, OUTPUTS = "prompts", "outputs"
BUILT_IN = "built-in"


@dataclass(frozen=True)
class Source:
    """What answers are to, or were read from.

    Attributes:
        kind: PROMPTS, for answers that training asked for, or OUTPUTS, for those given elsewhere.
        file: name of the grammar or of the file of outputs, BUILT_IN for the grammar that comes
            with specbench; None where it is not known, as in corpora of earlier versions.
        sha256: of the file's content; None where it is not known.
    """

    kind: str
    file: str | None = None
    sha256: str | None = None

    @classmethod
    def of_prompts(cls, file: Path) -> Source:
        """Of answers to a grammar's prompts; the file is readable."""
        return cls(PROMPTS, BUILT_IN if file == PROMPTS_FILE else file.name, _sha256(file))

    @classmethod
    def of_outputs(cls, file: Path) -> Source:
        """Of the answers in a file; it is readable."""
        return cls(OUTPUTS, file.name, _sha256(file))

    @classmethod
    def from_json(cls, text: str) -> Source:
        return cls(**json.loads(text))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @property
    def words(self) -> str:
        """For messages and cards."""
        if self.file is None or self.sha256 is None:
            return "prompts that are not known" if self.kind == PROMPTS else "a file not known"
        named = f"(SHA-256 {self.sha256[:8]})"
        if self.kind == OUTPUTS:
            return f"the file {self.file} {named}"
        if self.file == BUILT_IN:
            return f"the built-in prompts {named}"
        return f"the prompts of {self.file} {named}"


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
