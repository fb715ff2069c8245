"""A tiny configuration of every family that runs, and the table of docs/models.md made from them.

    python -m tests.families        # writes the table into the document

What is no field of a family's config is left out, so the sizes common to all can stand here once.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from specbench.models.families import REFUSED, Runs, behaviour_of
from specbench.models.language_model import LanguageModel
from tests.tiny import random_model
from tests.tiny_seq2seq import encoder_decoder

DOCUMENT = Path(__file__).parents[1] / "docs" / "models.md"
WINDOW = 7
"""Tokens: prompts of the tests are up to 14 long, and outputs come behind them."""

_UNTIED = {"tie_word_embeddings": False}
_HEAD = {"head_dim": 8}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
_LOCAL_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
_ROUTED_EXPERTS = {
    "n_routed_experts": 4,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}
_SLIDING = {"sliding_window": WINDOW}
_MIXED = {**_SLIDING, "layer_types": ["sliding_attention", "full_attention"]}
_LATENT = {
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 12,  # values narrower than keys
    "num_key_value_heads": 4,
    **_ROUTED_EXPERTS,
}


@dataclass(frozen=True)
class Family:
    """One family of models.

    Attributes:
        kind: its ``model_type``.
        known_as: names of models, as users say them.
        changes: of the tiny config.
    """

    kind: str
    known_as: str
    changes: dict[str, Any] = field(default_factory=dict, hash=False)

    @property
    def behaviour(self) -> Runs:
        found = behaviour_of(self.kind)
        assert isinstance(found, Runs)
        return found


FAMILIES = (
    Family("llama", "Llama 1 to 3, SmolLM2, Yi, TinyLlama"),
    Family("qwen3", "Qwen3"),
    Family("qwen3_moe", "Qwen3 MoE", {**_HEAD, **_EXPERTS}),
    Family("qwen2_moe", "Qwen2 MoE", {**_EXPERTS, "shared_expert_intermediate_size": 16}),
    Family("olmo", "OLMo"),
    Family("olmo2", "OLMo 2"),
    Family("olmoe", "OLMoE", _EXPERTS),
    Family("granite", "Granite 3"),
    Family("granitemoe", "Granite 3 MoE", _LOCAL_EXPERTS),
    Family("cohere", "Command R", _UNTIED),
    Family("gemma", "Gemma"),
    Family("phi", "Phi-1, Phi-2"),
    Family("phimoe", "Phi-3.5 MoE", _LOCAL_EXPERTS),
    Family("stablelm", "StableLM"),
    Family("gpt_neox", "GPT-NeoX, Pythia"),
    Family("falcon", "Falcon with rotary positions"),
    Family("glm", "GLM-4 9B", {**_HEAD, **_UNTIED}),
    Family("glm4", "GLM-4-0414", {**_HEAD, **_UNTIED}),
    Family("glm4_moe", "GLM-4.5", {**_HEAD, **_UNTIED, **_ROUTED_EXPERTS}),
    Family("nemotron", "Nemotron-4, Minitron", _UNTIED),
    Family("seed_oss", "Seed-OSS", {**_HEAD, **_UNTIED}),
    Family("helium", "Helium", _HEAD),
    Family("arcee", "Arcee AFM"),
    Family("apertus", "Apertus"),
    Family("ernie4_5", "ERNIE 4.5", {**_HEAD, **_UNTIED}),
    Family("hunyuan_v1_dense", "Hunyuan", {**_HEAD, **_UNTIED}),
    Family("minimax_m2", "MiniMax-M2", {**_HEAD, **_LOCAL_EXPERTS}),
    Family("gpt2", "GPT-2"),
    Family("gpt_bigcode", "StarCoder", {"n_inner": 48, **_UNTIED}),
    Family("opt", "OPT"),
    Family("mistral", "Mistral", _SLIDING),
    Family("mixtral", "Mixtral", {**_SLIDING, **_LOCAL_EXPERTS}),
    Family(
        "qwen2", "Qwen2, Qwen2.5", {**_SLIDING, "use_sliding_window": True, "max_window_layers": 1}
    ),
    Family("phi3", "Phi-3, Phi-4", _SLIDING),
    Family("starcoder2", "StarCoder2", {**_SLIDING, **_UNTIED}),
    Family("gemma2", "Gemma 2", {**_HEAD, **_MIXED, **_UNTIED}),
    Family("gemma3_text", "Gemma 3, text", {**_HEAD, **_MIXED, **_UNTIED}),
    Family("cohere2", "Command R7B, Command A", {**_MIXED, **_UNTIED}),
    Family("olmo3", "OLMo 3", _MIXED),
    Family("ministral", "Ministral", {**_HEAD, **_MIXED}),
    Family("gpt_oss", "gpt-oss", {**_HEAD, **_MIXED, **_LOCAL_EXPERTS}),
    Family("exaone4", "EXAONE 4", _MIXED),
    Family("smollm3", "SmolLM3", {**_MIXED, **_UNTIED}),
    Family("gpt_neo", "GPT-Neo, TinyStories"),
    Family("deepseek_v2", "DeepSeek-V2", {**_LATENT, "head_dim": 8}),
    Family("deepseek_v3", "DeepSeek-V3, R1", _LATENT),
    Family("t5", "T5, FLAN-T5"),
    Family("mt5", "mT5"),
    Family("bart", "BART"),
    Family("mbart", "mBART"),
    Family("marian", "Marian, OPUS-MT"),
)


@functools.cache
def tiny(family: Family) -> LanguageModel:
    """A family's model with random weights."""
    if family.behaviour is Runs.ENCODER_DECODER:
        return encoder_decoder(family.kind)
    return LanguageModel(random_model(family.kind, **family.changes), name=f"tiny-{family.kind}")


def table() -> str:
    """Every family that was tested or is refused by name, as Markdown."""
    lines = ["| `model_type` | models | cache and positions | |", "|---|---|---|---|"]
    for behaviour in Runs:
        for family in FAMILIES:
            if family.behaviour is behaviour:
                lines.append(f"| `{family.kind}` | {family.known_as} | {behaviour} | runs |")
    for reason, kinds in REFUSED.items():
        lines += [f"| `{kind}` | | {reason} | refused |" for kind in kinds]
    return "\n".join(lines) + "\n"


def document() -> str:
    """What the document says before its table, and the table as it should be."""
    before, _, _ = DOCUMENT.read_text(encoding="utf-8").partition("| `model_type` |")
    return before + table()


if __name__ == "__main__":
    DOCUMENT.write_text(document(), encoding="utf-8")
