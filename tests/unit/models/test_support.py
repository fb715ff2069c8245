"""Which models are refused or limited, each by name."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from transformers import CONFIG_MAPPING

from specbench.errors import SpecbenchError
from specbench.models.families import REFUSED
from specbench.models.support import cache_argument, context_limit, require_rollback
from tests.tiny import config, language_model

REFUSED_KINDS = [(kind, reason) for reason, kinds in REFUSED.items() for kind in kinds]


def refusal(config) -> str:
    with pytest.raises(SpecbenchError) as raised:
        require_rollback(config, "ORG/NAME")
    assert str(raised.value).startswith(f"ORG/NAME (model type {config.model_type!r}) ")
    assert "docs/models.md" in raised.value.hint
    return str(raised.value)


@pytest.mark.parametrize(("kind", "reason"), REFUSED_KINDS, ids=lambda value: str(value)[:20])
def test_what_cannot_be_decoded_rightly_is_refused_by_its_config(kind, reason):
    if kind not in CONFIG_MAPPING:
        pytest.skip(f"this transformers has no {kind}")
    assert str(reason) in refusal(CONFIG_MAPPING[kind]())


def test_a_family_that_was_not_tested_is_refused():
    assert "could be silently wrong" in refusal(CONFIG_MAPPING["xglm"]())


def test_falcon_runs_with_rotary_positions_alone():
    require_rollback(config("falcon"), "m")
    assert "ALiBi" in refusal(config("falcon", alibi=True))


@pytest.mark.parametrize(
    ("kind", "says"),
    [("linear_attention", "recurrent state"), ("chunked_attention", "attends in chunks")],
)
@pytest.mark.parametrize("family", ["llama", "persimmon"])
def test_layers_of_another_kind_are_recognised_in_any_family(family, kind, says):
    other = config("llama")
    other.model_type = family
    other.layer_types = ["full_attention", kind]
    assert says in refusal(other)


def test_a_window_that_no_test_covers_is_refused():
    assert "sliding window" in refusal(config("phimoe", sliding_window=24))
    require_rollback(config("phimoe", sliding_window=None), "m")
    require_rollback(config("mistral", sliding_window=24), "m")


@pytest.mark.parametrize("kind", ["llama", "gpt2", "opt", "phi", "phi3", "qwen3", "gemma", "olmo2"])
def test_attention_is_supported_up_to_its_positions(kind):
    require_rollback(config(kind), "m")
    assert context_limit(config(kind)) == 128


@pytest.mark.parametrize(
    ("kind", "options", "limit"),
    [
        ("mistral", {"sliding_window": 24}, 128),
        ("gemma2", {"sliding_window": 24}, 128),
        ("gpt_neo", {"window_size": 24}, 24),
        ("gpt_neo", {"window_size": 24, "attention_types": [[["global"], 2]]}, 128),
    ],
)
def test_only_a_window_that_no_mask_holds_limits_the_context(kind, options, limit):
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
    assert context_limit(longrope(sliding_window=20)) == 32


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


def test_the_wrapper_knows_its_limit():
    assert language_model("gpt_neo", window_size=24).context_limit == 24


def test_the_wrapper_refuses_too():
    from specbench.models.language_model import LanguageModel
    from tests.tiny import random_model

    with pytest.raises(SpecbenchError, match="was not tested here"):
        LanguageModel(random_model("persimmon"), name="ORG/NAME")
