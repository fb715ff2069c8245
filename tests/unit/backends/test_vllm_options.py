"""SPECs as vLLM's options, and what an installed version says of itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from specbench.backends._vllm_options import Installed, Options, lacks_mtp, refusal
from specbench.drafters.spec import parse_spec
from specbench.errors import SpecbenchError

REFUSED = 'METHODS = "ngram", "draft_model"\nraise ValueError("draft model is not supported yet")'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ngram,match=first,min=2,max=4", {"prompt_lookup_min": 2, "prompt_lookup_max": 4}),
        ("model:x", {"method": "draft_model", "model": "/x"}),
        ("eagle3:x", {"method": "eagle3", "model": "/x"}),
        ("medusa:x", {"method": "medusa", "model": "/x"}),
    ],
)
def test_a_spec_becomes_its_method(text: str, expected: dict[str, Any]):
    spec = parse_spec(text)
    assert refusal(spec) is None
    weights = "/x" if spec.argument else None
    options = Options.of(spec, 3, samples=False, weights=weights)
    assert options.config["num_speculative_tokens"] == 3
    assert expected.items() <= options.config.items()
    assert not options.samples


@pytest.mark.parametrize(
    ("text", "samples"), [("model:x", True), ("eagle:x", True), ("medusa:x", False), ("mtp", True)]
)
def test_drafters_with_a_distribution_are_told_to_sample(text: str, samples: bool):
    options = Options.of(parse_spec(text), 3, samples=True)
    assert options.samples == samples
    assert (options.config.get("draft_sample_method") == "probabilistic") == samples


def test_a_method_that_is_named_and_refused_is_lacking():
    old = Installed("/old/python", "0.13.0", REFUSED)
    assert old.lacks("ngram") is None
    assert old.lacks("model") == "vLLM 0.13.0 in /old/python has no draft_model; 0.32.0 has"
    assert not old.can_sample_drafts


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("model:x,tree=8", "chains of a fixed length"),
        ("suffix,max=3", "no option max"),
        ("medusa:x,vocab=512", "no option vocab"),
    ],
)
def test_what_vllm_has_no_option_for_is_refused(text: str, reason: str):
    assert reason in str(refusal(parse_spec(text)))


def test_suffix_decoding_needs_a_package_of_its_own():
    without = Installed("/a/python", "0.32.0", '"suffix"')
    reason = "vLLM's suffix decoding needs arctic-inference, which /a/python lacks"
    assert without.lacks("suffix") == reason
    assert Installed("/a/python", "0.32.0", '"suffix"', arctic=True).lacks("suffix") is None


def test_a_target_without_heads_of_its_own_has_no_mtp():
    assert "(llama) has no heads for mtp" in str(lacks_mtp({"model_type": "llama"}))
    assert lacks_mtp({"model_type": "mimo", "num_nextn_predict_layers": 1}) is None
    assert lacks_mtp({"text_config": {"mtp_num_hidden_layers": 1}}) is None


def test_a_program_that_is_no_python_is_named(tmp_path: Path):
    silent = tmp_path / "python"
    silent.write_text("#!/bin/sh\n", encoding="utf-8")
    silent.chmod(0o755)
    with pytest.raises(SpecbenchError, match="is no Python"):
        Installed.find(str(silent))
