"""What a sweep is asked to measure: one validated object, from options, a TOML file, or defaults.

Every value is checked here, before anything is loaded, and a wrong one is answered with one line
that names it. The names in a TOML file are those of the options: ``gamma = [1, 2, 4]``,
``max-new-tokens = 64`` (or ``max_new_tokens``).

>>> SweepConfig(gammas="1,2,2,4").gammas
[1, 2, 4]
>>> SweepConfig(seed=1).digest() == SweepConfig(seed=1, out="elsewhere").digest()
True
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, model_validator

from specbench import registry
from specbench.backends.spec import facts_of
from specbench.drafters.spec import QUANTIZATION, quantised
from specbench.errors import SpecbenchError
from specbench.records.spec_text import quantised_name
from specbench.sweep import fields
from specbench.sweep.defaults import DEFAULT_SWEEP, OTHER_TARGET_DRAFTERS, SHAPE_SWEEP
from specbench.sweep.options import (
    FIELD_OPTIONS,
    a_drafter,
    a_list,
    by_field,
    plain_text,
    read_file,
)
from specbench.weights.methods import check_method
from specbench.weights.shapes import is_shape
from specbench.weights.source import DEFAULT_NAME

_NOT_MEASUREMENT = {"drafter_quantization", "engine_python", "out", "resume", "retry_failed"}
_CAME_LATER: dict[str, Any] = {
    **{"cuda_graph": True, "compile": False, "context_lengths": None},
    **{"request_rates": None, "served_as": None, "engine_args": None, "goodput": None},
    **{"chat_template_args": {}, "share_prefix": False, "target_quantization": None},
}
"""Fields and their defaults, which older versions did not have."""

_FOR_ENGINES = ("engine_python", "engine_args", "goodput")
"""Fields that say nothing to engines that do not name them among what they read."""


class SweepConfig(BaseModel):
    """The grid and how it is measured. Lists are in the order given, duplicates removed.

    Raises:
        SpecbenchError: a value is out of range or unknown; the message names option and value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    target: fields.Text = DEFAULT_SWEEP["target"]
    drafters: fields.Drafters = DEFAULT_SWEEP["drafters"]
    target_quantization: fields.Method = None  # None: as it comes
    drafter_quantization: fields.Method = None  # put into the SPECs of draft models
    gammas: fields.Counts = DEFAULT_SWEEP["gammas"]
    temperatures: fields.Temperatures = DEFAULT_SWEEP["temperatures"]
    top_k: fields.TopK = DEFAULT_SWEEP["top_k"]
    top_p: fields.TopP = DEFAULT_SWEEP["top_p"]
    batch_sizes: fields.Counts = DEFAULT_SWEEP["batch_sizes"]
    request_rates: fields.Rates = None  # arrivals per second; None: batch_sizes in flight
    context_lengths: fields.CountsOrNone = None  # None: prompts as they are
    tasks: fields.Tasks = DEFAULT_SWEEP["tasks"]
    prompts: fields.Count = DEFAULT_SWEEP["prompts"]
    max_new_tokens: fields.MaxNewTokens = DEFAULT_SWEEP["max_new_tokens"]
    repeats: fields.Count = DEFAULT_SWEEP["repeats"]
    backends: fields.Backends = DEFAULT_SWEEP["backends"]
    engine_python: fields.Program = None  # of the environment of an engine that is started
    engine_args: fields.Words = None  # more words of its command
    goodput: fields.Limits = None  # limits of latency that a server's answers are to meet
    device: fields.Device = "auto"
    dtype: fields.Dtype = "auto"
    attention: fields.Attention = "auto"
    threads: fields.Threads = None
    cuda_graph: fields.Switch = True
    compile: fields.Switch = False
    seed: fields.Seed = 0
    ignore_eos: fields.Switch = False
    prompt_source: fields.PromptSource = "auto"
    share_prefix: fields.Switch = False
    chat_template_args: fields.TemplateArgs = {}
    out: fields.Folder = None
    resume: fields.Switch = False
    retry_failed: fields.Switch = False
    served_as: str | None = None  # the target's name, where none was given and a server tells it

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, values: Any) -> Any:
        """Shipped drafters are for the embedded target only; SPECs say how they are quantised."""
        if not isinstance(values, dict):
            return values
        if values.get("target") is not None and not _served(values):
            shape = is_shape(str(values["target"]).strip())
            values = {**(SHAPE_SWEEP if shape else {"drafters": OTHER_TARGET_DRAFTERS}), **values}
        return _with_quantised_drafters(values)

    @model_validator(mode="after")
    def _quantised_here(self) -> Self:
        """Servers load weights themselves."""
        method = self.target_quantization or self.drafter_quantization
        for backend in self.backends:
            if method is not None and not facts_of(backend).loads_weights:
                raise SpecbenchError(
                    f"quantization {method!r} is for weights that specbench loads, and {backend}"
                    " loads its own",
                    "Name a checkpoint that is quantised, or use the server's own options",
                )
        return self

    @model_validator(mode="after")
    def _shapes_have_no_files(self) -> Self:
        """Random weights are made while a model is loaded here."""
        for backend in self.backends:
            facts = facts_of(backend)
            if is_shape(self.target) and not (facts.loads_weights or facts.runs_already):
                raise SpecbenchError(
                    f"--backend {backend} reads its target from files, and {self.target!r} has"
                    " none: its weights are random",
                    "Measure it with --backend native",
                )
        return self

    @model_validator(mode="after")
    def _no_stop_tokens_of_shapes(self) -> Self:
        """Random weights write no text that could end."""
        if is_shape(self.target) and not self.ignore_eos:
            raise SpecbenchError(
                f"--stop-at-eos is not usable with --target {self.target!r}",
                "Leave it out: the tokens of random weights mean nothing, stop tokens neither",
            )
        return self

    @model_validator(mode="after")
    def _prefixes_are_shared_here(self) -> Self:
        """Servers share prefixes as they do; every request is made to look like a new one."""
        others = [text for text in self.backends if not facts_of(text).shares_prefixes]
        if self.share_prefix and others:
            raise SpecbenchError(
                f"--share-prefix is not usable with --backend {others[0]}",
                "It is for specbench's own engine, native",
            )
        return self

    @model_validator(mode="after")
    def _no_option_without_its_engine(self) -> Self:
        """What no engine would read was meant for one that is not there."""
        read = {field for text in self.backends for field in facts_of(text).reads}
        for field in _FOR_ENGINES:
            if getattr(self, field) is not None and field not in read:
                every = registry.names("backends")
                needed = " or ".join(kind for kind in every if field in facts_of(kind).reads)
                raise SpecbenchError(
                    f"{FIELD_OPTIONS[field]} says nothing to --backend {', '.join(self.backends)}",
                    f"Leave it out, or measure with --backend {needed}",
                )
        return self

    @property
    def target_name(self) -> str:
        """The target in words; the embedded default has a name too."""
        name = self.target or self.served_as or Path(DEFAULT_NAME).name
        return quantised_name(name, self.target_quantization)

    @property
    def folder(self) -> Path:
        """Where the run is written: ``out``, else a name that the same sweep always gets.

        That name, ``results/<target>-<8 hex of the configuration>``, is what lets the same command
        typed again find its finished cells.
        """
        if self.out is not None:
            return self.out
        short = re.sub(r"[^A-Za-z0-9._]+", "-", Path(self.target_name).name).strip("-.")[:40]
        return Path("results") / f"{short or 'target'}-{self.digest()[:8]}"

    def measurement(self) -> dict[str, Any]:
        """The fields that decide what is measured, as plain JSON values: what a manifest keeps.

        Fields that came later are left out at their defaults, as in the versions without them.
        """
        values = self.model_dump(mode="json", exclude=_NOT_MEASUREMENT)
        return {
            name: value
            for name, value in values.items()
            if name not in _CAME_LATER or value != _CAME_LATER[name]
        }

    def digest(self) -> str:
        """SHA-256 (hex) of :meth:`measurement`, blind to the order of lists.

        The same cells in another order are the same sweep: their order inside a block is drawn
        from the seed. Files named as target or task count by name, not by content.
        """
        return digest_of(self.measurement())


def digest_of(values: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of plain JSON values by name, blind to the order of lists."""
    ordered = {
        name: sorted(value) if isinstance(value, list) else value for name, value in values.items()
    }
    return hashlib.sha256(json.dumps(ordered, sort_keys=True).encode()).hexdigest()


def build(options: dict[str, Any], file: Path | None = None) -> SweepConfig:
    """The sweep of explicit options over those of a TOML file over the defaults.

    Args:
        options: option name (``max-new-tokens`` or ``max_new_tokens``) -> value; ``None`` means
            that the option was not given.
        file: the argument of ``--config``.

    Raises:
        SpecbenchError: a value or key is wrong, or the file cannot be read.
    """
    from_file = read_file(file) if file is not None else {}
    given = {name: value for name, value in options.items() if value is not None}
    return SweepConfig(**(by_field(from_file, f"in {file}") | by_field(given, "among the options")))


def _with_quantised_drafters(values: dict[str, Any]) -> dict[str, Any]:
    """The values with a method for draft models in the SPECs, which are what is recorded.

    Raises:
        SpecbenchError: there is no draft model.
    """
    method = values.get("drafter_quantization")
    if method is None:
        return values
    check_method(plain_text(method, "drafter_quantization"), "--drafter-quantization")
    asked = values.get("drafters", DEFAULT_SWEEP["drafters"])
    texts = a_list(asked, "drafters", a_drafter, split=False)
    drafters = [quantised(text, method.strip()) for text in texts]
    if not any(QUANTIZATION in text for text in drafters):
        raise SpecbenchError(
            f"--drafter-quantization {method!r} has no draft model to quantise",
            "It is for --drafter model or model:NAME",
        )
    return {**values, "drafters": drafters}


def _served(values: dict[str, Any]) -> bool:
    """Whether a server drafts with whatever it was started with."""
    backends = values.get("backends", ())
    texts = backends if isinstance(backends, list | tuple) else (backends,)
    return any(isinstance(text, str) and facts_of(text).runs_already for text in texts)
