"""How OpenAI-compatible servers differ: what they take beyond OpenAI's own parameters, and tell.

One table entry per server. Sources: vLLM's ``v1/metrics/loggers.py``, ``v1/spec_decode/metrics.py``
and its OpenAI protocol; SGLang's ``srt/metrics/collector.py`` and protocol; TensorRT-LLM's
``metrics/collector.py``.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from specbench.records.served.counts import Counts
from specbench.serving.counters import Page, Rise


@dataclass(frozen=True)
class Sampling:
    """How tokens are chosen and when an output ends.

    Attributes:
        top_k: 0 keeps all tokens.
        seed: names the random numbers, together with the request's name.
    """

    temperature: float
    top_k: int
    top_p: float
    max_tokens: int
    ignore_eos: bool
    seed: str = ""


@dataclass(frozen=True)
class Dialect:
    """What one kind of server takes and tells.

    Attributes:
        name: what records call it.
        owner: who ``/v1/models`` says owns the model.
        metrics_path: its metrics page, which has counters with this ``prefix``.
        takes: parameters beyond OpenAI's own that it understands.
        neutral: sent along with every request, so that defaults of the model's own configuration
            (top-k, min-p, a repetition penalty) change nothing.
        asks: sent along too, so that it tells how many tokens a chunk holds.
        salt: the parameter that keeps the prompts of one window from another's prefix cache.
        flush_path: the page that empties the prefix cache.
        finished, generated: counters of ended requests and of output tokens.
        cached: counter of prompt tokens that came from the prefix cache.
        drafts, drafted, accepted, accepted_at: counters of speculation; of the last one the label
            that holds the position is ``position``.
        figures: gauges about speculation that are no differences, kept under their own names.
    """

    name: str
    owner: str = ""
    metrics_path: str | None = None
    prefix: str = ""
    takes: frozenset[str] = frozenset()
    neutral: Mapping[str, Any] = field(default_factory=dict)
    asks: Mapping[str, Any] = field(default_factory=dict)
    salt: str | None = None
    flush_path: str | None = None
    finished: tuple[str, ...] = ()
    generated: tuple[str, ...] = ()
    cached: tuple[str, ...] = ()
    drafts: tuple[str, ...] = ()
    drafted: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    accepted_at: str = ""
    figures: tuple[str, ...] = ()

    def refusal(self, sampling: Sampling) -> str | None:
        """Why this server can't sample like this; None if it can."""
        wanted = {"top_k": sampling.top_k > 0, "ignore_eos": sampling.ignore_eos}
        missing = [name for name, asked in wanted.items() if asked and name not in self.takes]
        if not missing:
            return None
        options = " or ".join(f"--{name.replace('_', '-')}" for name in missing)
        return f"a server of the kind {self.name!r} takes no {options}"

    def parameters(self, sampling: Sampling, request: str, salt: str) -> dict[str, Any]:
        """The part of a request's body that says how to generate.

        Args:
            request: its name, so that requests don't share their random numbers.
            salt: of the window.
        """
        body: dict[str, Any] = {
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
            "stream": True,
            "stream_options": {"include_usage": True},
            **self.neutral,
        }
        if sampling.temperature > 0:
            body["top_p"] = sampling.top_p
            body["seed"] = zlib.crc32(f"{sampling.seed}/{request}".encode())
        if sampling.top_k:
            body["top_k"] = sampling.top_k
        if sampling.ignore_eos:
            body["ignore_eos"] = True
        if self.salt:
            body[self.salt] = salt
        return {**body, **self.asks}

    def counts(self, rise: Rise) -> Counts:
        """What the counters of speculation rose by."""
        by_position = rise.by_label(self.accepted_at, "position") if self.accepted_at else {}
        positions = sorted(by_position, key=int)
        return Counts(
            drafts=rise.total(*self.drafts),
            drafted=rise.total(*self.drafted),
            accepted=rise.total(*self.accepted),
            accepted_at=[by_position[position] for position in positions] or None,
            figures={
                name: value
                for name in self.figures
                if (value := rise.after.total(name)) is not None
            },
        )

    def speculates(self, page: Page) -> bool | None:
        """Whether a metrics page is that of a speculating server; None where it can't tell."""
        names = (*self.drafts, *self.drafted)
        return any(page.has(name) for name in names) if names else None

    def gamma(self, page: Page) -> int | None:
        """Tokens per draft, which is how many positions are counted; None where none are."""
        return len(page.by_label(self.accepted_at, "position")) or None


_USAGE_SO_FAR = {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}
_NO_PENALTY = {"min_p": 0.0, "repetition_penalty": 1.0}

VLLM = Dialect(
    name="vllm",
    owner="vllm",
    metrics_path="/metrics",
    prefix="vllm:",
    takes=frozenset({"top_k", "ignore_eos"}),
    neutral={"top_k": -1, **_NO_PENALTY},
    asks={"return_token_ids": True, **_USAGE_SO_FAR},
    salt="cache_salt",
    finished=("vllm:request_success_total",),
    generated=("vllm:generation_tokens_total",),
    cached=("vllm:prefix_cache_hits_total",),
    drafts=("vllm:spec_decode_num_drafts_total",),
    drafted=("vllm:spec_decode_num_draft_tokens_total",),
    accepted=("vllm:spec_decode_num_accepted_tokens_total",),
    accepted_at="vllm:spec_decode_num_accepted_tokens_per_pos_total",
)

SGLANG = Dialect(
    name="sglang",
    owner="sglang",
    metrics_path="/metrics",
    prefix="sglang:",
    takes=frozenset({"top_k", "ignore_eos"}),
    neutral={"top_k": -1, **_NO_PENALTY},
    asks={"return_meta_info": True, **_USAGE_SO_FAR},
    flush_path="/flush_cache",
    finished=("sglang:num_requests_total",),
    generated=("sglang:generation_tokens_total",),
    cached=("sglang:cached_tokens_total",),
    drafts=("sglang:spec_verify_calls_total",),
    figures=("sglang:spec_accept_length", "sglang:spec_accept_rate"),
)

TENSORRT_LLM = Dialect(
    name="tensorrt-llm",
    owner="tensorrt_llm",
    metrics_path="/prometheus/metrics",
    prefix="trtllm_",
    takes=frozenset({"top_k", "ignore_eos"}),
    neutral={"top_k": 0, **_NO_PENALTY},
    asks=_USAGE_SO_FAR,
    finished=("trtllm_request_success_total",),
    generated=("trtllm_generation_tokens_total",),
    drafted=("trtllm_spec_decode_num_draft_tokens_total",),
    accepted=("trtllm_spec_decode_num_accepted_tokens_total",),
    figures=("trtllm_spec_decode_acceptance_length", "trtllm_spec_decode_draft_overhead"),
)

PLAIN = Dialect(name="openai")
"""A server of a kind that is not known: what OpenAI's own interface has, no counters."""

DIALECTS = (VLLM, SGLANG, TENSORRT_LLM)
