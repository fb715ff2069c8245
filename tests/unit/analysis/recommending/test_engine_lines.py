from __future__ import annotations

import json
import shlex
from types import SimpleNamespace
from typing import Any

import pytest

from specbench.analysis.recommending.engine_lines import Line, lines
from specbench.analysis.recommending.schedule import Range, Schedule

HEAD = "org/EAGLE-head"


def serving(
    drafter: str,
    ranges: tuple[Range, ...] = (Range(1, 1, 4),),
    temperature: float = 0.0,
    quantization: str | None = None,
) -> dict[str, Line]:
    load: Any = SimpleNamespace(temperature=temperature)
    served: Any = SimpleNamespace(drafter=drafter)
    made = lines(Schedule(load, served, ranges, None, {}), "org/Target", quantization)
    return {line.engine: line for line in made}


def vllm_config(line: Line) -> dict[str, Any]:
    words = shlex.split(line.text)
    assert words[:3] == ["vllm", "serve", "org/Target"]
    found: dict[str, Any] = json.loads(words[words.index("--speculative-config") + 1])
    return found


def test_prompt_lookup() -> None:
    made = serving("ngram,min=2,max=4,match=first")
    assert vllm_config(made["vLLM"]) == {
        "method": "ngram",
        "num_speculative_tokens": 4,
        "prompt_lookup_min": 2,
        "prompt_lookup_max": 4,
    }
    assert "--speculative-algorithm NGRAM --speculative-num-draft-tokens 5" in made["SGLang"].text
    assert made["Hugging Face"].text == (
        "model.generate(**inputs, prompt_lookup_num_tokens=4, max_matching_ngram_size=4)"
    )
    assert made["Hugging Face"].notes == ()
    recent = serving("ngram")
    for engine in ("vLLM", "Hugging Face"):
        assert any("match=first" in note for note in recent[engine].notes)


def test_what_was_quantised_is_said_beside_every_line() -> None:
    target = "the target was measured as int8: quantise it there too, else α may be another"
    plain = serving("model:org/Small")
    both = serving("model:org/Small,quantization=int4", quantization="int8")
    for engine, line in both.items():
        assert line.text == plain[engine].text
        assert line.notes[-2:] == (target, target.replace("target", "drafter").replace("8", "4"))
    assert not any("quantise" in note for line in plain.values() for note in line.notes)


def test_a_draft_model() -> None:
    made = serving("model:org/Small")
    config = {"method": "draft_model", "num_speculative_tokens": 4, "model": "org/Small"}
    assert vllm_config(made["vLLM"]) == config
    assert "--speculative-algorithm STANDALONE" in made["SGLang"].text
    assert "--speculative-num-steps 4 --speculative-eagle-topk 1 " in made["SGLang"].text
    assert made["SGLang"].text.endswith("--speculative-num-draft-tokens 5")
    assert made["Hugging Face"].text == (
        "model.generate(**inputs, assistant_model=drafter, num_assistant_tokens=4, "
        "num_assistant_tokens_schedule='constant', assistant_confidence_threshold=0)"
    )
    warm = vllm_config(serving("model:org/Small", temperature=0.7)["vLLM"])
    assert warm == {**config, "draft_sample_method": "probabilistic"}


def test_drafters_that_only_servers_have() -> None:
    suffix = serving("suffix", temperature=0.7)["vLLM"]
    assert vllm_config(suffix) == {"method": "suffix", "num_speculative_tokens": 4}
    assert suffix.notes[0] == "it needs the package arctic-inference"
    heads = serving("mtp", temperature=0.7)["vLLM"]
    assert vllm_config(heads) == {
        "method": "mtp",
        "num_speculative_tokens": 4,
        "draft_sample_method": "probabilistic",
    }
    assert serving("mtp")["Hugging Face"].notes == ("it has no mtp drafter",)
    sglang = serving("mtp")["SGLang"].text
    assert "--speculative-algorithm EAGLE --speculative-num-steps 4" in sglang  # no draft model


@pytest.mark.parametrize(("kind", "method"), [("eagle", "EAGLE"), ("eagle3", "EAGLE3")])
def test_heads(kind: str, method: str) -> None:
    made = serving(f"{kind}:{HEAD}")
    assert vllm_config(made["vLLM"])["method"] == kind
    assert f"--speculative-algorithm {method} " in made["SGLang"].text
    assert HEAD in made["SGLang"].text
    assert made["Hugging Face"] == Line("Hugging Face", "", (f"it has no {kind} drafter",))


def test_a_schedule_is_vllm_s_and_ends_where_it_was_measured() -> None:
    ranges = (Range(1, 4, 4), Range(5, 16, 2))
    made = serving(f"eagle:{HEAD}", ranges)
    config = vllm_config(made["vLLM"])
    assert config["num_speculative_tokens_per_batch_size"] == [[1, 4, 4], [5, 16, 2]]
    assert config["num_speculative_tokens"] == 4
    assert " --max-num-seqs 16 " in made["vLLM"].text
    assert any("4 at 1–4, 2 at 5–16" in note for note in made["SGLang"].notes)
    stopping = serving(f"eagle:{HEAD}", (Range(1, 4, 4), Range(5, 16, 0)))
    assert "--max-num-seqs" not in stopping["vLLM"].text


def test_trees_go_where_they_are_verified() -> None:
    made = serving(f"eagle:{HEAD},tree=24,topk=3")
    assert made["vLLM"].notes == ("it verifies chains only, not trees",)
    assert made["SGLang"].text.endswith(
        "--speculative-num-steps 4 --speculative-eagle-topk 3 --speculative-num-draft-tokens 24"
    )


@pytest.mark.parametrize(
    ("drafter", "engine", "why"),
    [
        ("early-exit:6", "vLLM", "no early-exit drafter"),
        ("early-exit:6", "SGLang", "no early-exit drafter"),
        ("medusa:org/heads", "SGLang", "no medusa drafter"),
        ("eagle", "vLLM", "lies in specbench's own package"),
        ("model", "Hugging Face", "lies in specbench's own package"),
        ("model:org/Small,gamma=auto", "vLLM", "gamma=auto"),
        (f"eagle:{HEAD},vocab=4096", "vLLM", "4096 tokens only"),
        ("medusa:org/heads,tree=16", "vLLM", "chains only"),
    ],
)
def test_what_an_engine_can_not_run_is_said(drafter: str, engine: str, why: str) -> None:
    line = serving(drafter)[engine]
    assert line.text == ""
    assert why in line.notes[0]


def test_early_exit_is_hugging_face_s_own() -> None:
    assert "assistant_early_exit=6, num_assistant_tokens=4" in (
        serving("early-exit:6")["Hugging Face"].text
    )


def test_one_sequence_at_a_time_needs_a_gamma_for_it() -> None:
    line = serving("ngram", (Range(1, 3, 0), Range(4, 4, 2)))["Hugging Face"]
    assert line.text == ""
    assert "one sequence at a time" in line.notes[0]
