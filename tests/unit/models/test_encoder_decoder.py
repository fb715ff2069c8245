"""An encoder-decoder as the engine sees it: what it begins with, reads, bans and refuses."""

from __future__ import annotations

import pytest
import torch

from specbench.errors import SpecbenchError
from specbench.models.decoder_positions import POSITIONS
from specbench.models.description import traffic_of
from specbench.models.encoder_decoder import EncoderDecoder, wrapped
from specbench.models.language_model import LanguageModel
from specbench.models.sources import SourceLayer, Sources
from specbench.models.support import unused_generation_settings
from specbench.weights.kinds import ENCODER_DECODERS
from tests.tiny import language_model, make_drafter, noisy_copy, requests, run_cell
from tests.tiny_seq2seq import encoder_decoder, generate_greedily, random_encoder_decoder


def test_what_is_loaded_is_what_can_be_told_its_positions():
    assert sorted(POSITIONS) == sorted(ENCODER_DECODERS)


def test_a_model_is_wrapped_as_what_it_is():
    assert type(wrapped(language_model().model)) is LanguageModel
    assert type(wrapped(encoder_decoder().model)) is EncoderDecoder


def test_a_prompt_is_the_source_and_a_row_begins_with_the_start_token():
    assert encoder_decoder("bart").layout([5, 6]) == ([2], [5, 6])
    assert language_model().layout([5, 6]) == ([5, 6], ())


def test_a_forced_first_token_stands_behind_the_start_token():
    model = random_encoder_decoder("mbart")
    model.generation_config.forced_bos_token_id = 7
    target, batch = EncoderDecoder(model), requests(3)
    assert target.start_tokens == [4, 7]
    expected = generate_greedily(target, batch, 9)
    assert {output[0] for output in expected} == {7}
    outputs = run_cell(target, None, batch, batch_size=3, max_new_tokens=8).outputs
    assert outputs == [output[1:] for output in expected]


@pytest.mark.parametrize("kind", ["t5", "marian"])
def test_banned_tokens_are_never_generated(kind):
    model, batch = random_encoder_decoder(kind), requests(3)
    usual = generate_greedily(EncoderDecoder(model), batch, 8)
    model.generation_config.bad_words_ids = [[usual[0][0]]]
    model.generation_config.suppress_tokens = [usual[1][0]]
    target = EncoderDecoder(model)
    expected = generate_greedily(target, batch, 8)
    assert expected != usual
    generation = run_cell(target, "ngram", batch, gamma=2, batch_size=3, max_new_tokens=8)
    assert generation.outputs == expected
    assert unused_generation_settings(model.generation_config, target.honours) == []


def test_banned_words_of_several_tokens_are_named_as_left_out():
    model = random_encoder_decoder("t5")
    model.generation_config.bad_words_ids = [[3], [4, 5]]
    found = unused_generation_settings(model.generation_config, EncoderDecoder(model).honours)
    assert found == ["bad_words_ids=[[3], [4, 5]]"]


def test_a_forward_reads_the_decoder_without_what_makes_a_sources_keys():
    """The description of T5 says the same, from its config alone."""
    model = random_encoder_decoder("t5")
    model.get_output_embeddings().weight = model.get_input_embeddings().weight
    target, traffic = EncoderDecoder(model), traffic_of(model)
    assert traffic is not None
    assert target.weight_bytes == traffic.weight_bytes
    encoder = sum(w.numel() * 4 for w in model.get_encoder().block.parameters())
    assert target.weight_bytes < sum(w.numel() * 4 for w in model.parameters()) - encoder
    alone = target.new_cache(1, 1)
    target.read_prompt([5, 6, 7], alone)
    assert sum(layer.bytes_per_token for layer in alone.sources.layers) == traffic.source_kv_bytes
    assert alone.bytes_per_token == traffic.kv_bytes_per_token


def test_what_does_not_fit():
    bart, t5 = encoder_decoder("bart"), encoder_decoder("t5")
    assert bart.misfit(64, 63) is None
    assert bart.misfit(65, 63) == "beyond the 64 that the target's encoder reads"
    assert bart.misfit(64, 64) == "output and draft take 65, beyond the decoder's 64"
    assert t5.misfit(100_000, 10_000) is None


def test_the_last_position_can_be_reached():
    target, batch = encoder_decoder("bart"), requests(2)
    generation = run_cell(target, "ngram", batch, gamma=2, batch_size=2, max_new_tokens=60)
    assert generation.outputs == generate_greedily(target, batch, 60)


def test_two_vocabularies_are_refused():
    model = random_encoder_decoder("marian")
    model.config.share_encoder_decoder_embeddings = False
    with pytest.raises(SpecbenchError, match="a vocabulary for its source and another"):
        EncoderDecoder(model, name="ORG/NAME")


def test_a_model_that_names_no_start_token_is_refused():
    model = random_encoder_decoder("t5")
    model.generation_config.decoder_start_token_id = None
    model.config.decoder_start_token_id = None
    with pytest.raises(SpecbenchError, match="ORG/NAME names no decoder_start_token_id"):
        EncoderDecoder(model, name="ORG/NAME")


def test_nothing_is_compiled():
    with pytest.raises(SpecbenchError, match="an encoder-decoder, are not captured"):
        encoder_decoder("t5").compile()


@pytest.mark.parametrize("spec", ["early-exit:1", "medusa:PATH", "eagle:PATH", "eagle3:PATH"])
def test_drafters_that_need_a_decoder_only_target_are_refused(spec):
    with pytest.raises(SpecbenchError, match=f"'{spec}' can't draft for tiny-t5"):
        make_drafter(encoder_decoder("t5"), spec)


def test_trees_are_refused():
    near = {"near": noisy_copy(encoder_decoder("t5"), 0.1)}
    with pytest.raises(SpecbenchError, match="no trees are drafted for tiny-t5"):
        make_drafter(encoder_decoder("t5"), "model:near,tree=6", near)


def test_drafters_of_another_kind_are_refused():
    models = {"llama": language_model(), "bart": encoder_decoder("bart"), "t5": encoder_decoder()}
    with pytest.raises(SpecbenchError, match="tiny-t5 alone is an encoder-decoder"):
        make_drafter(models["t5"], "model:llama", models)
    with pytest.raises(SpecbenchError, match="tiny-t5 alone is an encoder-decoder"):
        make_drafter(models["llama"], "model:t5", models)
    with pytest.raises(
        SpecbenchError, match=r"behind the tokens \[2\], target tiny-t5 behind \[0\]"
    ):
        make_drafter(models["t5"], "model:bart", models)


def test_there_is_room_for_the_longest_source_and_no_more():
    def source(length: int, value: float) -> list[SourceLayer]:
        filled = torch.full((1, 2, length, 3), value)
        return [SourceLayer(filled, -filled)]

    sources = Sources(2)
    sources.put(1, source(2, 1.0))
    sources.put(0, source(5, 2.0))
    assert sources.lengths == [5, 2]
    assert sources.layers[0].keys.shape == (2, 2, 5, 3)
    assert sources.padding.tolist() == [[False] * 5, [False] * 2 + [True] * 3]
    sources.put(0, source(1, 3.0))
    assert sources.layers[0].keys.shape == (2, 2, 2, 3)
    assert sources.padding.tolist() == [[False, True], [False, False]]
    for row, length, value in ((0, 1, 3.0), (1, 2, 1.0)):
        [layer] = sources.take(row)
        assert torch.equal(layer.keys, torch.full((1, 2, length, 3), value))
        assert torch.equal(layer.values, -layer.keys)


def test_all_rows_of_a_cache_are_shown_one_source():
    target = encoder_decoder("t5")
    cache = target.new_cache(3, 4)
    target.show_source([9, 8, 7], cache)
    tokens = torch.tensor([[0, 5]] * 3)
    logits = target.forward(tokens, cache, [0] * 3).logits
    alone = target.new_cache(1, 4)
    target.read_prompt([9, 8, 7], alone)
    expected = target.forward(tokens[:1], alone, [0]).logits
    assert torch.allclose(logits, expected.expand_as(logits), atol=1e-5)
