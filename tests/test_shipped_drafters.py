"""The trained drafters inside the package: small, described, and loadable for their target."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors import safe_open

from specbench import registry
from specbench.drafters.base import Host, build_drafter
from specbench.models.language_model import LanguageModel
from specbench.sweep.config import build
from specbench.sweep.defaults import DEFAULT_SWEEP
from specbench.sweep.grid import plan
from specbench.weights.shipped import SHIPPED
from specbench.weights.source import DEFAULT_NAME
from tests import tiny

KINDS = sorted(folder.name for folder in SHIPPED.iterdir())
MOST_BYTES = 36 * 2**20


def test_the_default_compares_them():
    assert KINDS
    assert {*KINDS, "ngram"} == set(DEFAULT_SWEEP["drafters"])
    assert set(KINDS) <= set(registry.names("drafters"))
    assert {cell.drafter for cell in plan(build({})).cells} == {*KINDS, "ngram", "none"}


def test_together_they_are_small():
    sizes = [file.stat().st_size for file in SHIPPED.rglob("*") if file.is_file()]
    assert sum(sizes) <= MOST_BYTES


@pytest.mark.parametrize("kind", KINDS)
def test_each_has_weights_in_bfloat16_and_a_card(kind: str):
    folder = SHIPPED / kind
    (weights,) = [f for f in folder.glob("*.safetensors") if f.name != "token_ranking.safetensors"]
    with safe_open(weights, "pt") as tensors:
        names = [name for name in tensors.keys() if name not in ("d2t", "t2d")]  # noqa: SIM118
        assert {tensors.get_slice(name).get_dtype() for name in names} == {"BF16"}
    card = (folder / "README.md").read_text(encoding="utf-8")
    for said in ("license: apache-2.0", "Training: ", " steps in ", "Data: ", DEFAULT_NAME):
        assert said in card
    checks = json.loads((folder / "training.json").read_text())["checks"]
    assert checks[-1]["overlap"][0] > checks[0]["overlap"][0]


@pytest.fixture(scope="module")
def look_alike() -> LanguageModel:
    """A random target with the sizes of the embedded one, but two layers."""
    model = tiny.random_model(
        "llama",
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=64,
        num_attention_heads=9,
        num_key_value_heads=3,
    )
    return LanguageModel(model, name=DEFAULT_NAME)


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"model"}))
def test_heads_load_and_draft_without_being_named(kind: str, look_alike: LanguageModel):
    batch = tiny.requests(2)
    expected = tiny.run_cell(look_alike, None, batch, max_new_tokens=4).outputs
    cell = tiny.run_cell(look_alike, kind, batch, gamma=2, max_new_tokens=4)
    assert cell.outputs == expected
    assert max(cell.rounds["num_drafted"]) == 2


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"model"}))
def test_the_record_names_them_and_not_where_they_lie(kind: str, look_alike: LanguageModel):
    host = Host(look_alike, lambda name: pytest.fail(f"loaded {name}"))
    unnamed, named = (build_drafter(spec, host) for spec in (kind, f"{kind}:{SHIPPED / kind}"))
    assert unnamed.weights["served_from"] == f"specbench: smollm2-135m-instruct/{kind}"
    assert named.weights["served_from"] == f"folder:{SHIPPED / kind}"
    assert str(SHIPPED) not in str(unnamed.weights)
    assert unnamed.weights["sha256"] == named.weights["sha256"]


def test_the_draft_model_is_an_ordinary_folder():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(SHIPPED / "model", dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(SHIPPED / "model")
    assert model.config.vocab_size == 49152 == len(tokenizer)
    logits = model(torch.tensor([tokenizer("Once upon a time")["input_ids"]])).logits
    assert logits.isfinite().all()
