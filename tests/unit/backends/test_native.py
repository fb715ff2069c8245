"""The native backend: what the sweep relies on, on a tiny model."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from specbench.backends.base import Backend, EngineOptions, make_backend
from specbench.backends.native import NativeBackend
from specbench.engine.request import Limits, Request
from specbench.errors import SpecbenchError
from specbench.records.schema import Cell
from specbench.weights.progress import SILENT
from tests.tiny_target import CONTEXT, PROMPTS, stop_at, write_target
from tests.unit.weights.tiny import edit_config

Load = Callable[..., NativeBackend]
LIMITS = Limits(10)


def cell(drafter: str = "none", gamma: int = 0, **changes: object) -> Cell:
    key = {"target": "tiny", "temperature": 0.0, "batch_size": 1, "task": "mine", **changes}
    baseline = "first" if drafter == "none" else None
    return Cell(drafter=drafter, gamma=gamma, baseline=baseline, **key)  # type: ignore[arg-type]


def requests(backend: Backend, count: int = 4) -> list[Request]:
    labels = {"task": "mine", "category": "x", "turn": 0, "source": "test"}
    return [
        Request(f"p{index}", f"p{index}", backend.tokenizer(text)["input_ids"], (), labels)
        for index, text in enumerate(PROMPTS[:count])
    ]


def generate(backend: NativeBackend, point: Cell, asked: list[Request]) -> list[list[int]]:
    backend.check([point])
    backend.begin_block(asked, [point], LIMITS)
    generation = backend.generate(point, asked, LIMITS)
    backend.end_block()
    return generation.outputs


def test_an_unknown_backend_is_refused_with_those_that_exist():
    with pytest.raises(SpecbenchError) as caught:
        make_backend("vllmm")
    assert "unknown backend 'vllmm'" in str(caught.value)
    assert "native" in str(caught.value)


def test_what_is_known_after_loading(load: Load):
    backend = load()
    assert backend.device == "cpu"
    assert backend.stop_tokens == {2}
    assert backend.context_limit == CONTEXT
    assert backend.target_facts["dtype"] == "float32"
    assert len(backend.target_facts["sha256"]) == 64
    assert backend.tokenizer.decode(backend.tokenizer("hello")["input_ids"]) == "hello"


def test_greedy_outputs_are_those_of_generate(load: Load):
    backend = load()
    asked = requests(backend)
    expected = [
        backend.target.model.generate(
            torch.tensor([request.token_ids]), max_new_tokens=10, do_sample=False, pad_token_id=2
        )[0, len(request.token_ids) :].tolist()
        for request in asked
    ]
    limits = Limits(10, backend.stop_tokens)
    assert backend.greedy_outputs(asked, limits) == expected
    assert generate(backend, cell(), asked) == expected
    assert len({tuple(output) for output in expected}) == len(asked)


def test_stop_tokens_of_the_generation_config_end_an_output(load: Load, tmp_path: Path):
    plain = load()
    asked = requests(plain)
    stop = plain.greedy_outputs(asked, LIMITS)[0][4]
    folder = write_target(tmp_path / "stopping")
    stop_at(folder, [stop])
    backend = load(folder)
    assert backend.stop_tokens == {2, stop}
    [output, *_] = backend.greedy_outputs(asked, Limits(10, backend.stop_tokens))
    assert output[-1] == stop
    assert stop not in output[:-1]


def test_what_cannot_be_decoded_is_refused_before_its_weights_are_read(load: Load, tmp_path: Path):
    folder = write_target(tmp_path / "alibi")
    edit_config(folder, model_type="bloom", architectures=["BloomForCausalLM"])
    (folder / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(SpecbenchError, match=r"'bloom'\) computes ALiBi biases"):
        load(folder)
    plain = load()
    with pytest.raises(SpecbenchError, match=r"'bloom'\) computes ALiBi biases"):
        plain.check([cell(f"model:{folder}", 2)])


@pytest.mark.parametrize("drafter", ["ngram", "early-exit:1"])
@pytest.mark.parametrize("batch_size", [1, 3])
def test_drafting_changes_nothing_but_the_number_of_rounds(
    load: Load, drafter: str, batch_size: int
):
    backend = load()
    asked = requests(backend)
    plain = generate(backend, cell(), asked)
    assert generate(backend, cell(drafter, 3, batch_size=batch_size), asked) == plain


def test_warming_up_leaves_no_trace_in_what_is_measured(load: Load):
    asked = requests(load())
    cold, warm = load(), load()
    point = cell("early-exit:1", 2, temperature=1.0)
    for backend in (cold, warm):
        backend.check([point])
    cold._warm.add((point.drafter, point.gamma, point.batch_size, True))
    for backend in (cold, warm):
        backend.begin_block(asked, [point], LIMITS)
    generations = [backend.generate(point, asked, LIMITS) for backend in (cold, warm)]
    assert generations[0].outputs == generations[1].outputs
    timed = {"draft_s", "verify_s", "other_s", "sampling_s"}
    for column in generations[0].rounds.keys() - timed:
        assert generations[0].rounds[column] == generations[1].rounds[column], column


def test_each_shape_is_warmed_up_once_per_run(load: Load, monkeypatch: pytest.MonkeyPatch):
    backend = load()
    points = [cell(), cell("ngram", 2), cell("ngram", 4)]
    backend.check(points)
    warmed: list[Cell] = []
    real = backend.generate

    def counting(point: Cell, asked: list[Request], limits: Limits):
        warmed.append(point)
        return real(point, asked, limits)

    monkeypatch.setattr(backend, "generate", counting)
    for _ in range(2):
        backend.begin_block(requests(backend), points, LIMITS)
    assert warmed == points


def test_a_cell_that_cannot_run_does_not_stop_the_warm_up(
    load: Load, monkeypatch: pytest.MonkeyPatch
):
    backend = load()
    points = [cell("ngram", 2), cell("ngram", 4)]
    backend.check(points)
    propose = backend._drafters["ngram"].propose

    def failing(gamma: int):
        if gamma == 2:
            raise torch.OutOfMemoryError("too much")
        return propose(gamma)

    monkeypatch.setattr(backend._drafters["ngram"], "propose", failing)
    asked = requests(backend)
    backend.begin_block(asked, points, LIMITS)
    with pytest.raises(torch.OutOfMemoryError):
        backend.generate(points[0], asked, LIMITS)
    assert len(backend.generate(points[1], asked, LIMITS).outputs) == len(asked)


def test_one_prefill_per_prompt_serves_all_cells_of_a_block(load: Load):
    backend = load()
    asked = requests(backend)
    points = [cell(), cell("ngram", 2)]
    backend.check(points)
    backend.begin_block(asked, points, LIMITS)
    tables = [backend.generate(point, asked, LIMITS).requests for point in points]
    assert tables[0]["prefill_s"] == tables[1]["prefill_s"]
    assert all(seconds > 0 for seconds in tables[0]["prefill_s"])
    for table in tables:
        for first, prefill in zip(table["ttft_s"], table["prefill_s"], strict=True):
            assert first > prefill


def test_costs_are_the_bytes_of_weights_and_cache(load: Load):
    backend = load()
    asked = requests(backend)
    points = [cell(), cell("ngram", 2), cell("early-exit:1", 2)]
    backend.check(points)
    backend.begin_block(asked, points, LIMITS)
    weights = sum(p.numel() * 4 for p in backend.target.model.parameters())  # tied embedding
    plain, lookup, early = (backend.cost(point) for point in points)
    assert plain["weight_bytes"] == lookup["weight_bytes"] == weights
    assert (plain["drafter_weight_bytes"], lookup["drafter_weight_bytes"]) == (0, 0)
    assert 0 < early["drafter_weight_bytes"] < weights
    layers, kv_heads, head = 2, 2, 8
    assert plain["kv_bytes_per_token"] == 2 * layers * kv_heads * head * 4
    own = [cost["drafter_kv_bytes_per_token"] for cost in (plain, lookup, early)]
    assert own == [0, 0, 0]  # early exit writes into the target's cache


def test_how_a_drafter_proposes_is_known(load: Load):
    backend = load()
    points = [cell("ngram", 2), cell("early-exit:1", 2), cell("early-exit:1", 2, temperature=1.0)]
    backend.check(points)
    assert [backend.draft_sampling(point) for point in (cell(), *points)] == [
        None,
        "one-hot",
        "one-hot",
        "sampled",
    ]


@pytest.mark.parametrize(
    ("drafter", "parts"),
    [
        ("early-exit:2", ["early-exit:2", "from 1 to 1", "2 layers"]),
        ("early-exit:99", ["early-exit:99", "2 layers"]),
        ("model:/nowhere/at/all", ["/nowhere/at/all"]),
    ],
)
def test_a_drafter_that_does_not_fit_is_refused_before_any_block(
    load: Load, drafter: str, parts: list[str]
):
    backend = load()
    with pytest.raises(SpecbenchError) as caught:
        backend.check([cell(), cell(drafter, 2)])
    for part in parts:
        assert part in str(caught.value)


def test_a_drafter_of_another_vocabulary_is_refused_by_the_first_id_that_differs(
    load: Load, tmp_path: Path
):
    folder = other_vocabulary(tmp_path / "other")
    with pytest.raises(SpecbenchError) as caught:
        load().check([cell(f"model:{folder}", 2)])
    assert "has another vocabulary than target" in str(caught.value)
    assert "'b' there and 'a' here" in str(caught.value)


def test_a_drafter_with_too_short_a_context_fails_its_own_cells_only(load: Load, tmp_path: Path):
    folder = write_target(tmp_path / "short")
    edit_config(folder, max_position_embeddings=16)
    backend = load()
    point = cell(f"model:{folder}", 2)
    asked = requests(backend)
    backend.check([point])
    backend.begin_block(asked, [cell(), point], LIMITS)
    assert len(backend.generate(cell(), asked, LIMITS).outputs) == len(asked)
    with pytest.raises(SpecbenchError) as caught:
        backend.generate(point, asked, LIMITS)
    assert "beyond the context of drafter" in str(caught.value)


def test_the_drafter_model_is_loaded_in_the_targets_dtype(load: Load, targets: Path):
    backend = load("float32")
    point = cell(f"model:{targets / 'bfloat16'}", 2)
    asked = requests(backend)
    plain = generate(backend, cell(), asked)
    assert generate(backend, point, asked) == plain
    assert backend._drafters[point.drafter].model.dtype == torch.float32


def test_closing_frees_the_target(load: Load):
    backend = load()
    backend.close()
    assert not hasattr(backend, "target")


def other_vocabulary(folder: Path) -> Path:
    """The tiny target with the tokens "a" and "b" exchanged."""
    write_target(folder)
    file = folder / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    file.write_text(json.dumps(tokenizer), encoding="utf-8")
    return folder


def test_a_draft_model_may_have_a_dtype_of_its_own(load: Load, targets: Path):
    backend = load()
    spec = f"model:{targets / 'float32'},dtype=bfloat16"
    point = cell(spec, 3)
    expected = generate(backend, cell(), requests(backend))
    assert generate(backend, point, requests(backend)) == expected
    drafter = backend._drafters[spec]
    assert {weight.dtype for weight in drafter.modules[0].parameters()} == {torch.bfloat16}
    assert drafter.weight_bytes == backend.target.weight_bytes / 2
    assert backend.drafter_facts[spec]["dtype"] == "bfloat16"


THINKS = (
    "{% for m in messages %}{{ m.content }}{% endfor %}"
    "{% if add_generation_prompt and enable_thinking is defined and not enable_thinking %}"
    "<think></think>{% endif %}"
)


def test_what_a_chat_template_does_is_recorded_and_told(load: Load, tmp_path: Path):
    target = write_target(tmp_path / "chat", chat=True)
    (target / "chat_template.jinja").write_text(THINKS, encoding="utf-8")
    thinking = load(target)
    assert thinking.target_facts["chat_template"]["thinking"] == "possible"
    assert any("thinks before it answers" in text for text in thinking.notices)
    silent = load(target, chat_template_args={"enable_thinking": False})
    assert silent.target_facts["chat_template"]["thinking"] == "ended"
    assert not any("thinks" in text for text in silent.notices)
    assert load().target_facts["chat_template"] is None


def test_a_draft_model_whose_prompts_look_otherwise_is_told(load: Load, tmp_path: Path):
    chat, plain = write_target(tmp_path / "chat", chat=True), write_target(tmp_path / "plain")
    backend = load(chat)
    backend.check([cell(f"model:{plain}", 2), cell(f"model:{chat}", 2)])
    (told,) = [text for text in backend.notices if text.startswith("drafter ")]
    assert "plain has no chat template" in told


def test_a_prefix_is_shared_where_that_is_asked_for(load: Load):
    backend, asked = load(share_prefix=True), []
    labels = {"task": "mine", "category": "x", "turn": 0, "source": "test"}
    for index, text in enumerate(("say one", "say two", "say three and four")):
        ids = backend.tokenizer(text)["input_ids"]
        asked.append(Request(f"p{index}", f"p{index}", ids, (), labels))
    outputs = generate(backend, cell(), asked)
    assert outputs == generate(load(), cell(), asked)
    assert backend.shared_prefix["tokens"] == len("say ")
    assert backend.shared_prefix["seconds"] > 0
    generate(backend, cell(), requests(backend))
    assert backend.shared_prefix == {"tokens": 0, "seconds": None}
    assert load().shared_prefix is None


@pytest.mark.parametrize("kind", ["native", "hf-assisted"])
def test_a_draft_models_form_is_judged_with_the_users_template_settings(tmp_path: Path, kind: str):
    drafter = write_target(tmp_path / "drafter", chat=True)
    target = write_target(tmp_path / "target", chat=True)
    template = target / "chat_template.jinja"
    ending = "{% if enable_thinking is defined and not enable_thinking %}<think></think>{% endif %}"
    template.write_text(template.read_text(encoding="utf-8") + ending, encoding="utf-8")

    def told(**settings: object) -> list[str]:
        backend = make_backend(kind)
        options = EngineOptions(str(target), device="cpu", chat_template_args=settings)
        backend.load(options, SILENT)
        backend.check([cell(f"model:{drafter}", 2)])
        found = [notice for notice in backend.notices if "another form" in notice]
        backend.close()
        return found

    assert told() == []
    assert len(told(enable_thinking=False)) == 1
