"""What drafters with heads make of their options and checkpoints."""

from __future__ import annotations

import pytest
import torch

from specbench.drafters.base import drafter_class
from specbench.drafters.spec import parse_spec
from specbench.errors import SpecbenchError
from specbench.sampling.warp import SamplingParams
from tests import published
from tests.tiny import alpha, language_model, make_drafter, requests, run_cell

IDS = tuple(range(0, 61, 2))


@pytest.mark.parametrize("kind", ["medusa", "eagle"])
def test_a_cut_vocabulary(target, folder, tmp_path, kind):
    """Only the most frequent ids are drafted; q is theirs, 0 elsewhere; fewer bytes are read."""
    head = tmp_path / kind
    (published.write_medusa if kind == "medusa" else published.write_eagle)(head, target)
    published.write_ranking(head, [60, *range(40)])
    whole, cut = (make_drafter(target, f"{kind}:{head}{text}") for text in ("", ",vocab=9"))
    width = published.sizes(target)[0]
    assert whole.weight_bytes - cut.weight_bytes == 4 * width * (61 - 9)
    allowed = {60, *range(8)}
    drafts = []
    propose = cut.propose
    cut.propose = lambda gamma: drafts.append(propose(gamma)) or drafts[-1]
    sampling = SamplingParams(1.0)
    run_cell(target, cut, requests(4), gamma=2, batch_size=2, sampling=sampling)
    assert drafts
    for draft in drafts:
        assert set(draft.tokens.unique().tolist()) <= allowed
        assert draft.probs.sum(-1).allclose(torch.ones(2, 2))
        elsewhere = [token for token in range(61) if token not in allowed]
        assert draft.probs[..., elsewhere].abs().max() == 0


@torch.inference_mode()
def test_the_config_may_name_the_cut(target, tmp_path):
    head = published.write_eagle(tmp_path, target, draft_vocab_size=9)
    published.write_ranking(head, range(20, 50))
    assert make_drafter(target, f"eagle:{head}").ids.tolist() == list(range(20, 29))
    assert make_drafter(target, f"eagle:{head},vocab=30").ids.tolist() == list(range(20, 50))
    assert make_drafter(target, f"eagle:{head},vocab=61").ids is None


def test_output_layers_with_a_bias_are_cut_with_it(tmp_path):
    target = language_model("phi")
    layer = target.model.get_output_embeddings()
    assert layer.bias is not None
    head = published.write_ranking(published.write_medusa(tmp_path, target), [5, 3, 9])
    drafter = make_drafter(target, f"medusa:{head},vocab=3")
    states = torch.randn(4, 2, 32)
    ours = drafter.output.logits(states)
    assert torch.allclose(ours, layer(states)[..., [5, 3, 9]], atol=1e-6)


@torch.inference_mode()
def test_own_output_layers_are_used_and_cut(target, tmp_path):
    head = published.write_medusa(tmp_path, target, version=1)
    published.write_ranking(head, [7, 1, 4])
    tensors = published.medusa_tensors(target, 4, 1, 1, seed=1)
    states = torch.randn(4, 2, 32)
    for text, ids in (("", list(range(61))), (",vocab=3", [7, 1, 4])):
        drafter = make_drafter(target, f"medusa:{head}{text}")
        logits = drafter.output.logits(states)
        for index in range(4):
            expected = states[index] @ tensors[f"{index}.1.weight"][ids].T
            assert torch.allclose(logits[index], expected, atol=1e-5)
        blocks = 4 * (32 * 32 + 32)
        assert drafter.weight_bytes == 4 * (blocks + 4 * len(ids) * 32)


def test_weight_bytes(target, folder, tmp_path):
    width, vocab = published.sizes(target)
    eagle = published.eagle_tensors(target)
    drafter = make_drafter(target, f"eagle:{published.write_eagle(tmp_path / 'e', target)}")
    own = sum(tensor.numel() for tensor in eagle.values())
    assert drafter.weight_bytes == 4 * (own + vocab * width)
    layers = {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}
    head = published.write_eagle3(tmp_path / "e3", target, ids=IDS, **layers)
    own = sum(
        tensor.numel()
        for name, tensor in published.eagle3_tensors(target, IDS).items()
        if "2" not in name
    )
    assert make_drafter(target, f"eagle3:{head}").weight_bytes == 4 * own


def test_no_more_tokens_than_medusa_has_heads(target, tmp_path):
    spec = f"medusa:{published.write_medusa(tmp_path, target, num_heads=3)}"
    parsed = parse_spec(spec)
    kind = drafter_class(parsed)
    at = {"temperature": 0.0, "batch_size": 1}
    assert kind.impossible(parsed, gamma=3, **at) is None
    assert "3 Medusa heads" in kind.impossible(parsed, gamma=4, **at)
    unknown = parse_spec("medusa:some-org/some-head")
    assert kind.impossible(unknown, gamma=9, **at) is None, "known once it is here"
    run_cell(target, spec, requests(2), gamma=3)
    with pytest.raises(SpecbenchError, match="gamma 4 is beyond the 3 Medusa heads"):
        run_cell(target, spec, requests(2), gamma=4)


def test_a_tree_needs_room_for_its_levels(folder):
    at = {"temperature": 0.0, "batch_size": 1, "gamma": 4}
    for kind in ("medusa", "eagle", "eagle3"):
        for text, possible in ((",tree=5", True), (",tree=4", False), (",tree=chain", True)):
            parsed = parse_spec(f"{kind}:{folder / kind}{text}")
            assert (drafter_class(parsed).impossible(parsed, **at) is None) == possible


def test_what_the_checkpoint_left_open_is_in_the_record(target, tmp_path):
    layers = {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}
    head = published.write_speculators(tmp_path, target, ids=IDS, **layers)
    generation = run_cell(target, f"eagle3:{head}", requests(2), gamma=2)
    assert ["norm_before_residual" in note for note in generation.notes] == [True]


def test_trained_heads_are_right_now_and_then(target, folder):
    for kind in ("medusa", "eagle", "eagle3"):
        generation = run_cell(target, f"{kind}:{folder / kind}", requests(7), gamma=4)
        assert 0.2 < alpha(generation) < 0.9
