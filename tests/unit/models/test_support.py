"""Which models are refused or limited, each by name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from transformers import CONFIG_MAPPING

from specbench.errors import SpecbenchError
from specbench.models.support import cache_argument, context_limit, require_rollback
from tests.tiny import config, language_model


@pytest.mark.parametrize(
    ("kind", "options", "reason"),
    [
        ("mamba", {}, "recurrent state"),
        ("mamba2", {}, "recurrent state"),
        ("falcon_mamba", {}, "recurrent state"),
        ("jamba", {}, "recurrent state"),
        ("bamba", {}, "recurrent state"),
        ("zamba2", {}, "recurrent state"),
        ("recurrent_gemma", {}, "recurrent state"),
        ("nemotron_h", {}, "recurrent state"),
        ("falcon_h1", {}, "recurrent state"),
        ("granitemoehybrid", {}, "recurrent state"),
        ("lfm2", {}, "recurrent state"),
        ("qwen3_next", {}, "recurrent state"),
        ("bloom", {}, "ALiBi"),
        ("mpt", {}, "ALiBi"),
        ("falcon", {"alibi": True}, "ALiBi"),
        ("pegasus", {}, "encoder-decoder"),
        ("m2m_100", {}, "encoder-decoder"),
    ],
)
def test_what_cannot_be_rolled_back_is_refused(kind, options, reason):
    with pytest.raises(SpecbenchError) as raised:
        require_rollback(CONFIG_MAPPING[kind](**options), "ORG/NAME")
    assert "ORG/NAME" in str(raised.value)
    assert kind in str(raised.value)
    assert reason in str(raised.value)
    assert raised.value.hint


def test_an_unknown_hybrid_is_recognised_by_its_layers():
    hybrid = config("llama")
    hybrid.layer_types = ["full_attention", "linear_attention"]
    with pytest.raises(SpecbenchError, match="recurrent state"):
        require_rollback(hybrid, "m")
    hybrid.layer_types = ["full_attention", "sliding_attention"]
    require_rollback(hybrid, "m")


@pytest.mark.parametrize("kind", ["llama", "gpt2", "opt", "phi", "phi3", "qwen3", "gemma", "olmo2"])
def test_full_attention_is_supported_up_to_its_positions(kind):
    require_rollback(config(kind), "m")
    assert context_limit(config(kind)) == 128


@pytest.mark.parametrize(
    ("kind", "options", "limit"),
    [
        ("mistral", {"sliding_window": 24}, 24),
        ("mistral", {"sliding_window": None}, 128),
        ("mistral", {"sliding_window": 4096}, 128),
        ("phi3", {"sliding_window": 24}, 24),
        ("qwen2", {"sliding_window": 24, "use_sliding_window": False}, 128),
        (
            "qwen2",
            {"sliding_window": 24, "use_sliding_window": True, "max_window_layers": 1},
            24,
        ),
        ("gemma2", {"sliding_window": 24}, 24),
        ("gemma3_text", {"sliding_window": 24}, 24),
        ("gpt_neo", {"window_size": 24}, 24),
        ("gpt_neo", {"window_size": 24, "attention_types": [[["global"], 2]]}, 128),
    ],
)
def test_a_sliding_window_limits_the_context(kind, options, limit):
    assert context_limit(config(kind, **options)) == limit


def longrope(**options):
    factors = {"short_factor": [1.0] * 4, "long_factor": [4.0, 8.0, 32.0, 64.0]}
    return config(
        "phi3",
        original_max_position_embeddings=32,
        rope_scaling={"rope_type": "longrope", **factors},
        **options,
    )


def test_longrope_limits_the_context_to_where_its_frequencies_change():
    assert context_limit(longrope()) == 32
    assert context_limit(longrope(sliding_window=20)) == 20


def test_a_config_without_positions_has_no_limit():
    free = SimpleNamespace(get_text_config=lambda: SimpleNamespace(model_type="free"))
    assert context_limit(free) >= 1 << 30


@pytest.mark.parametrize(
    ("accepted", "lacks"),
    [
        ({"input_ids", "past_key_values"}, "positions"),
        ({"input_ids", "position_ids"}, "key/value cache"),
        ({"input_ids"}, "key/value cache"),
    ],
)
def test_a_forward_that_would_swallow_an_argument_is_refused(accepted, lacks):
    with pytest.raises(SpecbenchError) as raised:
        cache_argument(accepted, config("llama"), "ORG/NAME")
    assert str(raised.value).startswith(f"ORG/NAME (model type 'llama') takes no {lacks}")


def test_both_names_of_the_cache_are_known():
    assert cache_argument({"position_ids", "cache"}, config("llama"), "m") == "cache"
    old = cache_argument({"position_ids", "past_key_values"}, config("llama"), "m")
    assert old == "past_key_values"


def test_a_model_whose_forward_has_no_positions_is_refused_when_wrapped():
    from transformers import RoFormerForCausalLM

    from specbench.models.target import LanguageModel

    small = CONFIG_MAPPING["roformer"](
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        is_decoder=True,
    )
    with pytest.raises(SpecbenchError, match=r"'roformer'.* takes no positions"):
        LanguageModel(RoFormerForCausalLM(small), name="ORG/NAME")


def test_the_wrapper_knows_its_limit():
    assert language_model("mistral", sliding_window=24).context_limit == 24
