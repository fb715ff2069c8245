"""Checkpoints: what is in the folder, and that the drafters that read it draft as trained."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from specbench.errors import SpecbenchError
from specbench.heads.checkpoint import load_eagle, load_eagle3, load_medusa
from specbench.heads.decoder import layer_config
from specbench.models.language_model import LanguageModel
from specbench.training.batches import Split
from specbench.training.checkpoint import Origin, write_checkpoint
from specbench.training.corpus import Sample
from specbench.training.head_files import save_head
from specbench.training.loop import Budget, train
from specbench.training.output_layer import require_plain_head
from specbench.training.session import KINDS
from specbench.training.state import Progress
from specbench.training.trainee import Trainee
from tests.tiny import VOCAB, random_model, requests, run_cell
from tests.unit.training import plain

ORIGIN = Origin(
    target={"name": "ORG/tiny", "served_from": "hub:ORG/tiny@1", "sha256": "ab" * 32},
    corpus={
        "samples": 9,
        "greedy": 4,
        "tokens": 1234,
        "kept_out": 2,
        "checked": 2,
        "sources": [
            {"kind": "prompts", "file": "built-in", "sha256": "ab" * 32, "answers": 3},
            {"kind": "prompts", "file": "p.toml", "sha256": "cd" * 32, "answers": 2},
            {"kind": "outputs", "file": "o.jsonl", "sha256": "ef" * 32, "answers": 1},
            {"kind": "prompts", "file": None, "sha256": None, "answers": 1},
            {"kind": "outputs", "file": None, "sha256": None, "answers": 2},
        ],
    },
    budget={"minutes": 1.0, "steps": None, "seed": 0},
    licence="apache-2.0",
)
RANKING = torch.arange(VOCAB).flip(0)
FILES = {
    "eagle": {"model.safetensors", "token_ranking.safetensors"},
    "eagle3": {"model.safetensors"},
    "medusa": {"medusa_lm_head.safetensors", "token_ranking.safetensors"},
    "model": {"model.safetensors", "generation_config.json"},
}


def progress() -> Progress:
    checks = [
        {"step": 0, "greedy": [0.1, None], "overlap": [0.2, 0.3]},
        {"step": 5, "greedy": [0.4, 0.5], "overlap": [0.6, None]},
    ]
    return Progress(5, 61.0, 1.5, checks)


def trained(kind: str, folder: Path, vocab: int = 50, steps: int = 25) -> Trainee:
    target = plain.target()
    torch.manual_seed(0)
    made = KINDS[kind](target, RANKING[:vocab])
    split = Split(list(plain.answers(20, 12)), list(plain.answers(2, seed=5)))
    folder.mkdir()
    train(made, split, folder, Budget(minutes=None, steps=steps, tokens_per_step=300))
    return made


@pytest.mark.parametrize("kind", plain.KIND_NAMES)
def test_the_folder_has_weights_config_history_and_card(kind: str, tmp_path: Path):
    made = KINDS[kind](plain.target(), RANKING[:20])
    write_checkpoint(tmp_path, made, RANKING, progress(), ORIGIN)
    names = {file.name for file in tmp_path.iterdir()}
    assert names == FILES[kind] | {"config.json", "training.json", "README.md"}
    facts = json.loads((tmp_path / "training.json").read_text())
    assert facts["kind"] == kind
    assert facts["checks"] == progress().checks
    assert facts["parameters"] == sum(p.numel() for p in made.module.parameters())
    card = (tmp_path / "README.md").read_text()
    assert card.startswith("---\nlicense: apache-2.0\nbase_model: ORG/tiny\n---\n")
    assert "| 1 | 0.100 | 0.400 | 0.200 | 0.600 |\n| 2 | - | 0.500 | 0.300 | - |\n" in card
    for file in FILES[kind] & {"model.safetensors", "medusa_lm_head.safetensors"}:
        dtypes = {k: t.dtype for k, t in load_file(tmp_path / file).items()}
        assert {t for k, t in dtypes.items() if k not in ("d2t", "t2d")} == {torch.bfloat16}


def test_the_card_says_what_the_answers_are_to_and_what_is_taken_on_trust(tmp_path: Path):
    made = KINDS["medusa"](plain.target(), RANKING[:20])
    write_checkpoint(tmp_path, made, RANKING, progress(), ORIGIN)
    card = (tmp_path / "README.md").read_text()
    assert (
        "- Data: 9 answers of two tokens or more, 4 of them greedy, with\n"
        "  1,234 tokens; 2 kept out of training\n"
        "- Corpus: 3 of the target's own answers to the built-in prompts (SHA-256 abababab)\n"
        "- Corpus: 2 of the target's own answers to the prompts of p.toml (SHA-256 cdcdcdcd)\n"
        "- Corpus: 1 from the file o.jsonl (SHA-256 efefefef), taken on trust as the target's\n"
        "- Corpus: 1 of the target's own answers to prompts that are not known\n"
        "- Corpus: 2 from a file not known, taken on trust as the target's\n"
    ) in card


def test_a_card_without_licence_does_not_invent_one(tmp_path: Path):
    made = KINDS["medusa"](plain.target(), RANKING[:20])
    origin = Origin(ORIGIN.target, ORIGIN.corpus, ORIGIN.budget, None)
    write_checkpoint(tmp_path, made, RANKING, progress(), origin)
    card = (tmp_path / "README.md").read_text()
    assert "license:" not in card
    assert "- Licence: that of the target\n" in card


def test_the_ranking_is_at_least_as_long_as_the_draft_vocabulary(tmp_path, monkeypatch):
    monkeypatch.setattr("specbench.training.checkpoint._LONGEST_RANKING", 10)
    made = KINDS["medusa"](plain.target(), RANKING[:20])
    write_checkpoint(tmp_path, made, RANKING, progress(), ORIGIN)
    ranking = load_file(tmp_path / "token_ranking.safetensors")["ranking"]
    assert ranking.dtype == torch.int32
    assert ranking.tolist() == list(range(60, 40, -1))
    assert json.loads((tmp_path / "config.json").read_text())["draft_vocab_size"] == 20


def test_a_full_disk_leaves_no_half_checkpoint(tmp_path: Path, no_room):
    made = KINDS["eagle"](plain.target(), RANKING[:20])
    (tmp_path / "training.pt").write_bytes(b"kept")
    with no_room(2000), pytest.raises(SpecbenchError, match="cannot write the checkpoint to "):
        write_checkpoint(tmp_path, made, RANKING, progress(), ORIGIN)
    assert [file.name for file in tmp_path.iterdir()] == ["training.pt"]
    write_checkpoint(tmp_path, made, RANKING, progress(), ORIGIN)


@pytest.mark.parametrize("vocab", [20, VOCAB])
def test_eagle3_maps_its_ids_by_offsets(vocab: int, tmp_path: Path):
    made = KINDS["eagle3"](plain.target(), RANKING[:vocab])
    made.save(tmp_path)
    tensors = load_file(tmp_path / "model.safetensors")
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["eagle_aux_hidden_state_layer_ids"] == [2, 3, 3]
    assert config["draft_vocab_size"] == vocab == len(tensors["lm_head.weight"])
    if vocab == VOCAB:
        assert not {"d2t", "t2d"} & tensors.keys()
    else:
        assert tensors["d2t"].dtype == torch.int64
        assert tensors["d2t"].tolist() == [41] * 20  # ids 41 to 60
        assert tensors["t2d"].tolist() == [False] * 41 + [True] * 20
    head = plain.target().model.get_output_embeddings().weight
    wanted = head[VOCAB - vocab :].bfloat16()
    assert torch.equal(tensors["lm_head.weight"], wanted)


@pytest.mark.parametrize("vocab", [50, VOCAB])
@pytest.mark.parametrize(
    ("kind", "load"), [("eagle", load_eagle), ("eagle3", load_eagle3), ("medusa", load_medusa)]
)
def test_heads_load_as_they_were_saved(kind: str, load, vocab: int, tmp_path: Path):
    made = plain.trainee(kind, vocab)
    write_checkpoint(tmp_path, made, RANKING, progress(), ORIGIN)
    loaded = load(str(tmp_path), plain.target())
    saved = made.module.state_dict()
    for name, tensor in loaded.head.state_dict().items():
        assert torch.equal(tensor, saved[name].bfloat16().float()), name


@pytest.mark.parametrize("kind", ["eagle", "eagle3", "medusa"])
def test_drafts_are_accepted_where_training_says_so(kind: str, tmp_path: Path):
    """The engine's rounds against the places of training: one off anywhere and they part."""
    made = trained(kind, tmp_path / kind)
    write_checkpoint(tmp_path / kind, made, RANKING, progress(), ORIGIN)
    batch = requests(6)  # prompts of the training, so that some drafts are accepted
    cell = run_cell(plain.target(), f"{kind}:{tmp_path / kind}", batch, gamma=2, max_new_tokens=14)
    by_name = {r.prompt_id: (r, out) for r, out in zip(batch, cell.outputs, strict=True)}
    accepted = cell.rounds["num_accepted"]
    places = zip(cell.rounds["prompt_id"], cell.rounds["position"], accepted, strict=True)
    compared = 0
    for name, position, num_accepted in places:
        request, output = by_name[name]
        tokens = [*request.token_ids, *output]
        known = len(request.token_ids) + position  # tokens committed before the round
        if known + 2 > len(tokens):
            continue
        states = plain.full_states(plain.target(), tokens[:-1])
        sample = Sample(tokens, len(request.token_ids), 0.0, states)
        logits = [logits for logits, _ in plain.draft(made, sample, known - 2)][:2]
        drafted = made.columns[torch.stack(logits).argmax(dim=-1)].tolist()
        hits = [d == t for d, t in zip(drafted, tokens[known : known + 2], strict=True)]
        assert num_accepted == (0 if not hits[0] else sum(hits))
        compared += 1
    assert compared > 20
    assert 0 < sum(accepted) < 2 * len(accepted)


def test_a_config_says_its_sizes_where_they_are_defaults(tmp_path: Path):
    made = plain.trainee("eagle")
    config = layer_config(plain.target(), hidden_size=4096, vocab_size=32000)
    save_head(tmp_path, made.module, config, {}, {})
    written = json.loads((tmp_path / "config.json").read_text())
    assert written["hidden_size"] == 4096
    assert written["vocab_size"] == 32000
    assert {"intermediate_size", "num_attention_heads", "num_key_value_heads"} <= written.keys()


def test_a_target_that_changes_its_logits_behind_its_head_is_refused():
    require_plain_head(plain.target())
    require_plain_head(LanguageModel(random_model("phi")))  # its output layer has a bias
    model = random_model("llama")
    forward = model.forward

    def capped(*args, **options):
        outputs = forward(*args, **options)
        outputs.logits = outputs.logits.tanh()
        return outputs

    target = LanguageModel(model, name="capped")
    model.forward = capped
    with pytest.raises(SpecbenchError, match="target capped scales or caps its logits"):
        require_plain_head(target)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("gemma2", {"final_logit_softcapping": 30.0}),
        ("gemma2", {"final_logit_softcapping": 900.0}),
        ("granite", {"logits_scaling": 1.01}),
        ("cohere", {"logit_scale": 0.99}),
    ],
)
def test_caps_and_scales_of_a_config_are_seen_however_small_the_logits(
    kind: str, changes: dict[str, float]
):
    model = random_model(kind, spread=0.01, **changes)
    with pytest.raises(SpecbenchError, match="scales or caps its logits behind its output layer"):
        require_plain_head(LanguageModel(model, name=kind))


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("gemma2", {"final_logit_softcapping": None}),
        ("granite", {"logits_scaling": 1.0}),
        ("cohere", {"logit_scale": 1.0}),
    ],
)
def test_a_config_that_neither_caps_nor_scales_is_accepted(kind: str, changes: dict[str, object]):
    require_plain_head(LanguageModel(random_model(kind, **changes), name=kind))


def test_a_scale_of_the_states_before_the_output_layer_is_refused():
    model = random_model("llama")
    model.lm_head.register_forward_pre_hook(lambda _, inputs: (inputs[0] * 1.01,))
    with pytest.raises(SpecbenchError, match="caps its states before its output layer"):
        require_plain_head(LanguageModel(model, name="scaled"))
