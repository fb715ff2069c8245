"""The shape of a run's files: a cell, its line in `cells.jsonl`, and the manifest.

Other people's scripts read these, so a field may be added and none is renamed. Seconds, bytes and
tokens; missing is null, never 0 and never NaN. A file written by a newer version keeps the fields
that this version does not know.

>>> cell = Cell(target="m", drafter="ngram", gamma=4, temperature=0, batch_size=1, task="chat")
>>> cell.cell_id.rpartition("-")[0]
'chat-t0-b1-r0-ngram-g4'
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from specbench.records.spec_text import DraftForm as DraftForm
from specbench.records.spec_text import draft_form, is_synthetic, split_spec

SCHEMA_VERSION = 1

BASELINE_DRAFTER = "none"

IDENTICAL, NEAR_TIE, DIVERGED = "identical", "near-tie", "DIVERGED"
"""Verdicts on a greedy cell beside plain decoding: the same tokens, others that rounding explains,
others that nothing explains, which is a bug."""

VARYING_BACKENDS = ("hf-assisted,defaults",)
"""Engines that end a draft of a model where it is unsure, whatever gamma was asked for."""

Block = tuple[str, float, int, int, int, float, str, *tuple[float, ...]]
"""(task, temperature, batch_size, repeat, top_k, top_p, backend): what shares its baselines; the
request rate follows where requests arrived at one, the context length where prompts were padded."""

_FILE_NAME = re.compile("[A-Za-z0-9_][A-Za-z0-9._-]*")


def _file_name(cell_id: str) -> str:
    """An id names the cell's tables, so it must not lead out of their folder, nor into a shell."""
    if not _FILE_NAME.fullmatch(cell_id):
        raise ValueError(f"{cell_id!r} is no id: letters, digits, dots and hyphens alone make one")
    return cell_id


CellId = Annotated[str, AfterValidator(_file_name)]
"""What the tables of a cell are called."""


class CellKey(BaseModel):
    """The fields that tell one point of the sweep from another."""

    model_config = ConfigDict(extra="allow")

    target: str
    drafter: str
    gamma: int = Field(ge=0)
    temperature: float = Field(ge=0)
    top_k: int = Field(default=0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    batch_size: int = Field(ge=1)
    task: str
    backend: str = "native"
    repeat: int = Field(default=0, ge=0)
    seed: int = 0
    baseline: Literal["first", "last"] | None = None
    request_rate: float = Field(default=0.0, ge=0)  # arrivals per second; 0: batch_size in flight
    context_length: int | None = Field(default=None, ge=1)  # of padded prompts; None: as they are

    @property
    def block(self) -> Block:
        """What this cell shares with its baselines."""
        return (
            self.task,
            self.temperature,
            self.batch_size,
            self.repeat,
            self.top_k,
            self.top_p,
            self.backend,
            *((self.request_rate,) if self.request_rate else ()),
            *(() if self.context_length is None else (self.context_length,)),
        )

    @property
    def is_baseline(self) -> bool:
        """Whether this is plain decoding with the same engine."""
        return self.drafter == BASELINE_DRAFTER

    @property
    def draft_form(self) -> DraftForm:
        """What gamma means here; alpha is one number, and the closed form holds, for chains only.

        Read from the drafter's SPEC and the backend, so that records of any age have it.
        """
        if self.backend in VARYING_BACKENDS and split_spec(self.drafter)[0] != "ngram":
            return "adaptive"
        return draft_form(self.drafter)


class Cell(CellKey):
    """One point of the sweep, before it is measured. Frozen and hashable."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @property
    def cell_id(self) -> str:
        """A readable name, safe in every file system: a slug and a hash of all fields.

        What came later counts where there is any, so that older cells keep their names.
        """
        valid = Cell(**self.model_dump())  # copies are not validated, and 1 is not spelt 1.0
        unused = {name for name in ("request_rate", "context_length") if not getattr(valid, name)}
        fields = json.dumps(valid.model_dump(exclude=unused), sort_keys=True)
        digest = hashlib.sha256(fields.encode()).hexdigest()[:6]
        length = self.baseline or f"g{self.gamma}"
        return "-".join(
            (
                _slug(self.task),
                f"t{self.temperature:g}",
                f"q{self.request_rate:g}" if self.request_rate else f"b{self.batch_size}",
                f"r{self.repeat}",
                *([f"c{self.context_length}"] if self.context_length else []),
                _slug(self.drafter),
                length,
                digest,
            )
        )


class CellRecord(CellKey):
    """One line of `cells.jsonl`: a cell and what was measured in it.

    Times in seconds, sizes in bytes, rates per second; every list by position starts at the first
    drafted position. None where a value was not measured or has no meaning (alpha of a baseline).
    """

    cell_id: CellId
    status: Literal["ok", "failed", "out_of_memory"] = "ok"
    error: str | None = None
    imported_from: str | None = None  # the tool whose numbers these are; it may tell no tables
    server: dict[str, Any] | None = None  # of a served cell: what it told, and the window's counts
    synthetic: bool = False  # acceptance was set by the user, not measured

    # acceptance (estimators of specbench.theory.estimators; the interval clusters by conversation)
    alpha: float | None = None
    alpha_ci: tuple[float, float] | None = None
    alpha_overlap: float | None = None
    alpha_by_position: list[float | None] | None = None
    survival_by_position: list[float] | None = None
    draft_acceptance_rate: float | None = None
    tau: float | None = None
    num_prompts: int | None = None
    num_rounds: int | None = None
    num_drafted: int | None = None
    num_evaluated: int | None = None
    num_accepted: int | None = None
    draft_length_mean: float | None = None
    draft_length_counts: list[int] | None = (
        None  # rounds that drafted 0, 1, .., gamma tokens/levels
    )
    tree_nodes: int | None = None  # verified per row and round, the root included; None for a chain

    # speed; draft_s, verify_s and other_s are means per step (one target forward)
    wall_s: float | None = None
    prefill_s: float | None = None
    shared_prefix: dict[str, float | None] | None = (
        None  # tokens read once for all prompts, seconds
    )
    decode_s: float | None = None
    ttft_s: float | None = None
    itl_s: float | None = None
    tokens: int | None = None
    tok_per_s: float | None = None
    speedup: float | None = None
    speedup_ci: tuple[float, float] | None = None
    end_to_end_speedup: float | None = None
    noise_floor: float | None = None
    c: float | None = None
    v: float | None = None
    overhead: float | None = None
    draft_s: float | None = None
    verify_s: float | None = None
    other_s: float | None = None
    sampling_s: float | None = None  # of other_s, choosing tokens
    timing_share: float | None = None  # of a step, taken by the marks that time it, at most
    step_s: float | None = None  # where a source times whole steps, or the chunks it streams
    num_requests: int | None = None  # where a source tells no more than their number
    requests_per_s: float | None = None
    goodput_per_s: float | None = None  # requests within the limits of --goodput, per second
    goodput_share: float | None = None  # of all requests
    percentiles: dict[str, dict[str, float]] | None = None  # of requests: ttft_s, itl_s, wall_s

    # the machine
    memory_peak_bytes: int | None = None
    memory_capacity_bytes: int | None = None
    bandwidth_bytes_per_s: float | None = None
    bandwidth_utilization: float | None = None  # of the measured copy
    read_bandwidth_utilization: float | None = None  # of the measured read
    bytes_per_target_forward: float | None = None
    bytes_per_emitted_token: float | None = None
    flops_per_target_forward: float | None = None
    compute_utilization: float | None = None  # of the measured matmul rate
    energy_j: float | None = None  # of decoding, the whole card
    energy_per_token_j: float | None = None
    memory: dict[str, Any] | None = None  # what lies in it, and the rows that fit
    traffic: dict[str, Any] | None = None  # bytes that must move, per target forward and in all
    counters: dict[str, Any] | None = None  # what the device counted meanwhile, or why not

    draft_sampling: Literal["sampled", "one-hot"] | None = None
    lossless: str | None = None
    warnings: list[str] = Field(default_factory=list)

    @model_validator(mode="before")
    @classmethod
    def _completed(cls, values: Any) -> Any:
        """A number that is not finite was not measured; older lines don't say what is synthetic."""
        if not isinstance(values, dict):
            return values
        return {"synthetic": is_synthetic(str(values.get("drafter"))), **_finite(values)}

    @classmethod
    def of(cls, cell: Cell, **fields: Any) -> CellRecord:
        """The record of a cell: its key, its id and the given fields."""
        return cls(**{**cell.model_dump(), "cell_id": cell.cell_id, **fields})

    @property
    def draft_form(self) -> DraftForm:
        """As :attr:`CellKey.draft_form`; a draft that was verified as a tree is one."""
        return "tree" if self.tree_nodes is not None else super().draft_form

    @property
    def parts_s(self) -> float | None:
        """Draft, verify and the rest of a step together; None where one of them is not known."""
        if self.draft_s is None or self.verify_s is None or self.other_s is None:
            return None
        return self.draft_s + self.verify_s + self.other_s

    @property
    def cell(self) -> Cell:
        """The point of the sweep that this record belongs to."""
        return Cell(**{name: getattr(self, name) for name in Cell.model_fields})

    def updated(self, **fields: Any) -> CellRecord:
        """A copy with some fields replaced, validated like a new one."""
        return CellRecord(**{**self.model_dump(), **fields})


class Manifest(BaseModel):
    """`manifest.json`: what was run, with what, where. Written first, rewritten as it fills."""

    model_config = ConfigDict(extra="allow", validate_assignment=True)

    schema_version: int = SCHEMA_VERSION
    name: str
    command: str = ""
    config: dict[str, Any] = Field(default_factory=dict)
    config_hash: str
    seed: int = 0
    created: str | None = None
    finished: str | None = None
    git: dict[str, Any] | None = None
    packages: dict[str, str | None] = Field(default_factory=dict)
    device: dict[str, Any] = Field(default_factory=dict)
    target: dict[str, Any] = Field(default_factory=dict)
    drafters: dict[str, dict[str, Any]] = Field(default_factory=dict)
    servers: dict[str, dict[str, Any]] = Field(default_factory=dict)  # by URL
    tasks: list[dict[str, Any]] = Field(default_factory=list)
    bandwidth_bytes_per_s: float | None = None  # of a copy, reads and writes both counted
    read_bandwidth_bytes_per_s: float | None = None
    matmul_flops_per_s: float | None = None
    num_cells: int | None = None  # of the whole plan
    timing: dict[str, Any] = Field(default_factory=dict)  # the clock, and what its marks cost
    dropped: list[dict[str, Any]] = Field(default_factory=list)
    captured: dict[str, Any] | None = None
    warnings: list[str] = Field(default_factory=list)

    @property
    def target_quantization(self) -> str | None:
        """The method that the target was quantised by while it was loaded, if it was."""
        told = self.target.get("quantization") or {}
        return None if told.get("source") == "checkpoint" else told.get("method")


def _slug(text: str) -> str:
    """Lower case letters, digits and dots; one hyphen for everything else; 40 of them at most."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:40].strip("-.") or "x"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
