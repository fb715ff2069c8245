"""Published architectures to be measured without their weights: ``shape:NAME``.

What a step costs follows from a model's configuration; what its weights hold does not matter. Each
file in ``_shapes`` is one published configuration: ``source``, ``parameters`` (tied ones once), the
figures under ``config``, and ``null``, the keys that are null there, which TOML can't say.
``shape:PATH`` is a folder of your own with a ``config.json`` and no weights.

>>> find_shape("llama-3.1-8b").parameters
8030261248
"""

from __future__ import annotations

import copy
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specbench import registry
from specbench.errors import SpecbenchError

PREFIX = "shape:"


@dataclass(frozen=True)
class Shape:
    """One published configuration.

    Attributes:
        name: what follows ``shape:``.
        source: whose configuration it is, and of when.
        parameters: tied ones count once.
        config: as ``config.json`` has it, as far as it decides what a forward does.
    """

    name: str
    source: str
    parameters: int
    config: Mapping[str, Any]

    @property
    def bfloat16_bytes(self) -> int:
        """Bytes of its weights in bfloat16."""
        return 2 * self.parameters

    def transformers_config(self) -> Any:
        """As transformers has it."""
        from transformers import CONFIG_MAPPING

        values = copy.deepcopy(dict(self.config))
        return CONFIG_MAPPING[values.pop("model_type")](**values)


def is_shape(name: str | None) -> bool:
    """Whether a target's or a drafter model's name means an architecture with random weights."""
    return name is not None and name.startswith(PREFIX)


def all_shapes() -> list[Shape]:
    """Every published configuration that is here, by name."""
    return [find_shape(name) for name in registry.names("shapes")]


def find_shape(name: str) -> Shape:
    """The configuration of a name, without ``shape:``.

    Raises:
        SpecbenchError: there is none; the message suggests close names and lists all.
    """
    values = tomllib.loads(registry.path("shapes", name).read_text(encoding="utf-8"))
    config = {**values["config"], **dict.fromkeys(values.get("null", ()))}
    return Shape(name, values["source"], values["parameters"], config)


def shape_folder(name: str) -> Path | None:
    """The folder that ``shape:PATH`` means; None where it is a published name.

    Raises:
        SpecbenchError: it is a folder without a ``config.json``.
    """
    asked = name.removeprefix(PREFIX)
    folder = Path(asked).expanduser()
    if not asked or asked in registry.names("shapes") or not folder.is_dir():
        return None
    if not (folder / "config.json").is_file():
        raise SpecbenchError(
            f"the folder {asked!r} has no config.json", "A shape's folder holds at least that file"
        )
    return folder
