"""Families of models, by what their caches and positions do: those that run, and why others don't.

A family is what a config calls ``model_type``. One that runs here has a test that holds its greedy
output, drafted as a chain and as a tree, against transformers' own ``generate``. A family that is
not listed is refused: a forward that ignores rows' own positions gives no error, only other tokens.
"""

from __future__ import annotations

from enum import StrEnum

from specbench.weights.kinds import ENCODER_DECODERS


class Runs(StrEnum):
    """What the engine decodes, in the words of docs and messages."""

    ROTARY = "full attention, rotary positions"
    LEARNED = "full attention, learned positions"
    WINDOW = "sliding windows, alone or among layers of full attention"
    INSIDE = "a window of its own making; contexts stay inside it"
    LATENT = "latent attention"
    ENCODER_DECODER = "encoder and decoder; rows of the decoder have lengths of their own"


class Refused(StrEnum):
    """Why the engine does not decode something: the end of a sentence that begins with its name."""

    ALIBI = "computes ALiBi biases from padding masks, which per-row lengths do not have"
    RECURRENT = "keeps a recurrent state, which cannot be rolled back after a rejected draft"
    SHARED_POSITIONS = "takes positions from the longest row of a batch, not from each row"
    SPARSE = "picks keys by an index of its own, which rollbacks and trees would falsify"
    CHUNKED = "attends in chunks, for which the engine makes no masks"
    WINDOW = "has a sliding window, with which its family was not tested here"
    ENCODER_DECODER = (
        "is an encoder-decoder whose decoder the engine can't tell each row's positions"
    )
    UNKNOWN = "is of a family that was not tested here, so its output could be silently wrong"


FAMILIES: dict[Runs, tuple[str, ...]] = {
    Runs.ROTARY: (
        "llama", "qwen3", "qwen3_moe", "qwen2_moe", "olmo", "olmo2", "olmoe", "granite",
        "granitemoe", "cohere", "gemma", "phi", "phimoe", "stablelm", "gpt_neox", "falcon", "glm",
        "glm4", "glm4_moe", "nemotron", "seed_oss", "helium", "arcee", "apertus", "ernie4_5",
        "hunyuan_v1_dense", "minimax_m2",
    ),
    Runs.LEARNED: ("gpt2", "gpt_bigcode", "opt"),
    Runs.WINDOW: (
        "mistral", "mixtral", "qwen2", "phi3", "starcoder2", "gemma2", "gemma3_text", "cohere2",
        "olmo3", "ministral", "gpt_oss", "exaone4", "smollm3",
    ),
    Runs.INSIDE: ("gpt_neo",),
    Runs.LATENT: ("deepseek_v2", "deepseek_v3"),
    Runs.ENCODER_DECODER: ENCODER_DECODERS,
}  # fmt: skip

REFUSED: dict[Refused, tuple[str, ...]] = {
    Refused.ENCODER_DECODER: ("pegasus", "m2m_100"),
    Refused.ALIBI: ("bloom", "mpt"),
    Refused.RECURRENT: (
        "mamba", "mamba2", "falcon_mamba", "rwkv", "recurrent_gemma", "xlstm", "jamba", "bamba",
        "zamba", "zamba2", "nemotron_h", "falcon_h1", "granitemoehybrid", "lfm2", "lfm2_moe",
        "qwen3_next", "qwen3_5_text", "qwen3_5_moe_text", "minimax", "kimi_linear", "olmo_hybrid",
    ),
    Refused.SHARED_POSITIONS: ("llama4_text",),
    Refused.SPARSE: ("deepseek_v32", "glm_moe_dsa"),
}  # fmt: skip

_RUNS = {family: behaviour for behaviour, members in FAMILIES.items() for family in members}
_REFUSED = {family: reason for reason, members in REFUSED.items() for family in members}


def behaviour_of(family: str) -> Runs | Refused:
    """What is known of a family."""
    return _RUNS.get(family) or _REFUSED.get(family) or Refused.UNKNOWN
