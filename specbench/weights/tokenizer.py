"""A target's tokenizer alone, where its weights are loaded by somebody else: a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from specbench.errors import SpecbenchError
from specbench.weights.finding import looks_like_path, resolve
from specbench.weights.quiet import quiet_transformers
from specbench.weights.source import DEFAULT_NAME


def load_tokenizer(name: str) -> Any:
    """The tokenizer of a folder, of the embedded default or of a name on the hub.

    Raises:
        SpecbenchError: it can't be had.
    """
    from transformers import AutoTokenizer

    folder = Path(name).expanduser()
    if name == DEFAULT_NAME:
        place: str | Path = resolve(name).path
    elif folder.is_dir() or not looks_like_path(name):
        place = folder if folder.is_dir() else name
    else:
        raise SpecbenchError(
            f"no tokenizer in {name!r}", "Give a folder or a hub name, or leave --target out"
        )
    try:
        with quiet_transformers():
            return AutoTokenizer.from_pretrained(place, trust_remote_code=False)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SpecbenchError(
            f"the tokenizer of {name!r} can't be loaded: {' '.join(str(error).split())[:200]}",
            "Leave --target out: then the server's own chat template makes the prompts",
        ) from error
