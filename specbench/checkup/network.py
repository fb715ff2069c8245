"""Whether the model hub and the package index answer, by the clients that a run would use.

Variables that tell those clients to stay off the network are respected and named. What is cached
needs neither, so a hub that does not answer is a warning, unless ``--online`` asks for it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from specbench.checkup.finding import Finding, check, fail, ok, short, warn

if TYPE_CHECKING:
    from specbench.checkup.machine import Machine

_HUB_TIMEOUT_S = 4.0
_INDEX_TIMEOUT_S = 15.0
_HUB_SWITCHES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE")
_INDEX_SWITCHES = ("PIP_NO_INDEX", "UV_OFFLINE", "UV_NO_INDEX")
_OFF = {"", "0", "false", "no", "off"}
_WAY_OUT = "What is cached can be used; for the rest look at proxy and name service"


@check("network", "model hub")
def model_hub(machine: Machine) -> Finding | None:
    return _reached(machine, _HUB_SWITCHES, lambda: reach_hub())


@check("network", "package index")
def package_index(machine: Machine) -> Finding | None:
    return _reached(machine, _INDEX_SWITCHES, lambda: reach_index())


def reach_hub() -> str | None:
    """Ask the hub for the embedded default; the reason if it does not answer."""
    from huggingface_hub import HfApi

    from specbench.weights.source import DEFAULT_NAME

    try:
        HfApi().model_info(DEFAULT_NAME, timeout=_HUB_TIMEOUT_S)
    except Exception as error:  # transport errors have other classes in each version of the client
        return short(error)
    return None


def reach_index() -> str | None:
    """Ask for the embedded default's package as a first run would; the reason if it fails."""
    from specbench.weights.download import installers, reason_of
    from specbench.weights.embedded import REQUIREMENT

    found = installers()
    if not found:
        return "neither pip nor uv was found"
    asks = {
        "pip": ("index", "versions", "--timeout", "5", REQUIREMENT.partition("==")[0]),
        "uv": ("pip", "install", "--dry-run", "--no-deps", "--python", sys.executable, REQUIREMENT),
    }
    try:
        result = subprocess.run(
            [*found[0].command, *asks[found[0].kind]],
            capture_output=True,
            text=True,
            timeout=_INDEX_TIMEOUT_S,
            check=False,
            env={**os.environ, "PIP_RETRIES": "0", "UV_HTTP_TIMEOUT": "5"},
        )
    except subprocess.TimeoutExpired:
        return f"{found[0].kind} had no answer after {_INDEX_TIMEOUT_S:.0f} s"
    except OSError as error:
        return short(error)
    return None if result.returncode == 0 else reason_of(result.stderr)


def _reached(
    machine: Machine, switches: tuple[str, ...], reach: Callable[[], str | None]
) -> Finding | None:
    """Ask, unless told not to; ``--online`` makes it a failure if there is no answer."""
    if machine.online is False:
        return None
    worse = fail if machine.online else warn
    set_ = [name for name in switches if machine.environment.get(name, "").lower() not in _OFF]
    if set_:
        value = f"not asked: {set_[0]}={machine.environment[set_[0]]} is set"
        if machine.online:
            return fail(value, f"Unset {set_[0]}", reachable=None, switch=set_[0])
        return ok(value, reachable=None, switch=set_[0])
    reason = reach()
    if reason is not None:
        return worse(f"not reachable: {reason}", _WAY_OUT, reachable=False)
    return ok("reachable", reachable=True)
