"""What servers tell, in place of options that were left out: target, drafter, gamma."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from specbench.backends.base import Backend
from specbench.errors import SpecbenchError
from specbench.sweep.config import SweepConfig


def with_told(config: SweepConfig, engines: Mapping[str, Backend]) -> SweepConfig:
    """The sweep with what its servers tell; unchanged without a server.

    Args:
        engines: by what the user typed.

    Raises:
        SpecbenchError: a server does not answer, or neither it nor the user tells.
    """
    servers = {text: told for text, engine in engines.items() if (told := engine.told) is not None}
    if not servers:
        return config
    drafting = {text: told for text, told in servers.items() if engines[text].speculates}
    update: dict[str, Any] = {}
    if config.target is None:
        if len(servers) < len(engines):
            raise SpecbenchError(
                "a server beside another engine needs the target's name",
                "Give --target, so that all get the same prompts",
            )
        update["served_as"] = next(iter(servers.values()))["target"]
    for option, field in (("gamma", "gammas"), ("drafter", "drafters")):
        told = {text: facts[option] for text, facts in drafting.items()}
        values = _settled(option, told, getattr(config, field), field in config.model_fields_set)
        if values is not None:
            update[field] = values
    return config.model_copy(update=update)


def _settled(
    option: str, told: Mapping[str, Any], values: list[Any], given: bool
) -> list[Any] | None:
    """What servers tell where nothing was given; else None, and what was given has to be clear.

    Raises:
        SpecbenchError: a server does not tell, and not exactly one value was given.
    """
    silent = [text for text, value in told.items() if value is None]
    if silent and (not given or len(values) != 1):
        raise SpecbenchError(
            f"{silent[0]} does not tell its {option}", f"Give one value with --{option}"
        )
    return None if given else list(dict.fromkeys(told.values())) or None
