"""What every drafter keeps, tested on each file in ``drafters/`` as it arrives."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from specbench import registry
from specbench.drafters.base import Drafter, drafter_class
from specbench.drafters.spec import parse_spec
from specbench.engine.loop import decode
from specbench.engine.request import Limits
from specbench.engine.teacher import read_lesson
from specbench.errors import SpecbenchError
from specbench.sampling.warp import SamplingParams
from tests.published import write_eagle, write_eagle3, write_medusa
from tests.tiny import (
    language_model,
    make_decoder,
    make_drafter,
    make_session,
    noisy_copy,
    requests,
    shared_prefills,
    with_references,
)

SPECS = {
    "eagle": "eagle:{folder}/eagle",
    "eagle3": "eagle3:{folder}/eagle3",
    "early-exit": "early-exit:1",
    "medusa": "medusa:{folder}/medusa",
    "model": "model:near",
    "ngram": "ngram,max=2",
    "synthetic": "synthetic:0.7",
}
"""A working SPEC of each kind whose name alone is none here."""

TEMPERATURES = (0.0, 0.8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Random heads for the target of :func:`recorded`."""
    made, target = tmp_path_factory.mktemp("heads"), language_model("llama")
    write_medusa(made / "medusa", target)
    write_eagle(made / "eagle", target)
    layers = {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}
    write_eagle3(made / "eagle3", target, ids=range(1, 61, 2), **layers)
    return made


@pytest.fixture(params=registry.names("drafters"))
def spec(request, folder) -> str:
    return SPECS.get(request.param, request.param).format(folder=folder)


def possible(spec: str, temperature: float) -> bool:
    parsed = parse_spec(spec)
    kind = drafter_class(parsed)
    return kind.impossible(parsed, gamma=3, temperature=temperature, batch_size=3) is None


class Recording:
    """Passes everything on to a decoder; keeps each draft and what was accepted of it."""

    def __init__(self, decoder) -> None:
        self.inner = decoder
        self.session, self.clock, self.drafter = decoder.session, decoder.clock, decoder.drafter
        self.drafts: list = []
        propose = self.drafter.propose

        def keep(gamma):
            draft = propose(gamma)
            self.drafts.append((draft, [row.active for row in self.session.rows.slots]))
            return draft

        self.drafter.propose = keep

    def round(self):
        return self.inner.round()


def recorded(spec: str, temperature: float, gamma: int = 3):
    target = language_model("llama")
    batch = with_references(target, requests(5), 12 + gamma + 1)
    sampling = SamplingParams(temperature, top_k=20)
    session = make_session(
        target, batch, gamma=gamma, batch_size=3, sampling=sampling, max_new_tokens=12
    )
    drafter = make_drafter(target, spec, {"near": noisy_copy(target, 0.2)})
    recording = Recording(make_decoder(target, drafter, session))
    generation = decode(recording, batch, shared_prefills(target, batch, drafter), Limits(12))
    return drafter, recording.drafts, generation


def test_it_is_a_drafter_with_a_description(spec):
    kind = drafter_class(parse_spec(spec))
    assert issubclass(kind, Drafter)
    assert registry.describe("drafters", parse_spec(spec).kind)


def test_an_unknown_option_is_refused(spec):
    parsed = parse_spec(f"{spec},no_such_option=1")
    with pytest.raises(SpecbenchError, match="no_such_option"):
        drafter_class(parsed).check(parsed)


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_drafts_have_the_promised_shapes(spec, temperature):
    if not possible(spec, temperature):
        pytest.skip("not a cell that can exist")
    drafter, drafts, generation = recorded(spec, temperature)
    assert [len(output) for output in generation.outputs] == [12] * 5
    assert any(not all(active) for _, active in drafts), "some slots must run empty"
    for draft, active in drafts:
        batch, width = draft.tokens.shape
        assert batch == 3
        assert width in drafter.draft_widths(3), "the target's steps are captured for these"
        assert drafter.drafts_trees(3) == (draft.parents is not None)
        assert width <= 3
        assert draft.tokens.dtype == torch.long
        assert max(draft.lengths) == width or width == 3
        assert all(length == 0 for length, on in zip(draft.lengths, active, strict=True) if not on)
        assert ((draft.tokens >= 0) & (draft.tokens < 61)).all()
        if draft.probs is not None:
            assert drafter.samples
            assert draft.probs.shape == (batch, width, 61)
            assert torch.allclose(draft.probs.sum(-1), torch.ones(batch, width), atol=1e-5)
            drawn = draft.probs.gather(2, draft.tokens[..., None]).squeeze(2)
            assert (drawn > 0).all(), "a drafted token has a chance of having been drafted"


def test_it_samples_exactly_where_it_says_so(spec):
    for temperature in filter(lambda t: possible(spec, t), TEMPERATURES):
        drafter, drafts, _ = recorded(spec, temperature)
        gives_q = any(draft.probs is not None for draft, _ in drafts)
        assert gives_q == (temperature > 0 and drafter.samples)


@pytest.mark.parametrize("temperature", TEMPERATURES)
def test_what_it_guesses_on_a_text_is_what_it_drafts(spec, temperature):
    """Tokens that were evaluated stand behind accepted ones, and so on the text itself."""
    if drafter_class(parse_spec(spec)).guesses is Drafter.guesses:
        pytest.skip("it can't be traced")
    gamma, sampling = 3, SamplingParams(temperature, top_k=20)
    drafter, drafts, generation = recorded(spec, temperature, gamma)
    guesses = []
    for request, output in zip(requests(5), generation.outputs, strict=True):
        layers, count = drafter.needs_hidden_layers, len(output) - gamma
        prompt, target = request.token_ids, language_model("llama")
        lesson = read_lesson(target, prompt, output, count, layers, sampling)
        with torch.inference_mode():
            guesses.append(list(drafter.guesses(lesson.text, gamma, sampling)))
    names = ("request", "slot", "step", "position", "num_evaluated")
    deepest = -1
    columns = (generation.rounds[name] for name in names)
    for request, slot, step, position, evaluated in zip(*columns, strict=True):
        draft, start = drafts[step][0], position - 1
        if start >= len(generation.outputs[request]) - gamma:
            continue
        for depth in range(evaluated):
            place = (0, start + depth) if drafter.only_prefix else (depth, start)
            guess = guesses[request][place[0]]
            if guess.probs is not None:
                torch.testing.assert_close(guess.probs[place[1]], draft.probs[slot, depth])
            else:
                assert guess.tokens[place[1]] == draft.tokens[slot, depth]
            deepest = max(deepest, depth)
    seldom = temperature > 0 and not drafter.samples  # a copy is accepted now and then only
    assert deepest >= (0 if seldom else 1)


def test_a_drafter_serves_one_cell_after_another(spec):
    """State does not leak from cell to cell, whatever gamma and batch size were before."""
    from tests.tiny import run_cell

    target = language_model("llama")
    batch = with_references(target, requests(4), 20)
    drafter = make_drafter(target, spec, {"near": noisy_copy(target, 0.2)})

    def columns(gamma, batch_size):
        generation = run_cell(target, drafter, batch, gamma=gamma, batch_size=batch_size)
        return generation.outputs, generation.rounds["num_accepted"]

    first = columns(3, 2)
    columns(1, 3)
    assert columns(3, 2) == first


def test_weight_bytes_are_known(spec):
    drafter, _, _ = recorded(spec, 0.0)
    assert isinstance(drafter.weight_bytes, int)
    assert (drafter.weight_bytes > 0) == bool(drafter.modules or drafter.shared_layers)
