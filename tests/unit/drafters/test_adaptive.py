"""gamma=auto: when a draft ends, what the rule learns, and that the output stays the target's."""

from __future__ import annotations

import itertools

import pytest
import torch

from specbench.drafters._adaptive import StopRule
from specbench.sampling.warp import SamplingParams
from tests import lossless, tiny

SURE, UNSURE = 0.95, 0.05


def confidence(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def drafted(rule: StopRule, value: float, most: int = 30) -> int:
    """Tokens that one row drafts at the same confidence all along."""
    rule.begin([True])
    while rule.go_on(confidence(value)) and rule.lengths[0] < most:
        pass
    return rule.lengths[0]


def test_a_dear_token_is_not_drafted_and_a_cheap_one_is():
    assert drafted(StopRule(cost=2.0), SURE) == 1
    assert drafted(StopRule(cost=0.01), SURE) > drafted(StopRule(cost=0.3), SURE)


def test_doubt_ends_the_draft_and_the_doubted_token_stays():
    rule = StopRule(cost=0.1)
    rule.begin([True, True])
    assert rule.go_on(confidence(SURE, UNSURE))
    assert rule.go_on(confidence(SURE, SURE))
    assert rule.lengths == [2, 1]  # the second row ended on its first token, which counts


def test_the_rule_maximises_expected_tokens_per_time():
    """With known chances, stopping where the rate would fall is the best stopping place."""
    rule = StopRule(cost=0.2)
    rule._accepted, rule._evaluated = [0.8 * 1000] * 10, [1000.0] * 10
    rule._recent_accepted, rule._recent_evaluated = 800.0, 1000.0
    rates = [(1 - 0.8 ** (gamma + 1)) / (1 - 0.8) / (1 + 0.2 * gamma) for gamma in range(1, 30)]
    assert drafted(rule, SURE) == 1 + rates.index(max(rates))


def test_learns_from_evaluated_tokens_only():
    rule = StopRule(cost=0.001)
    before = list(rule._evaluated)
    rule.begin([True])
    for value in (0.95, 0.85, 0.75, 0.65):
        rule.go_on(confidence(value))
    rule.learn([1])  # the first was accepted, the second rejected, the others never looked at
    changed = [index for index in range(10) if rule._evaluated[index] != before[index]]
    assert changed == [8, 9]
    assert rule._accepted[9] / rule._evaluated[9] > 0.95
    assert rule._accepted[8] / rule._evaluated[8] < 0.85


def test_rejections_shorten_later_drafts_and_reset_forgets_them():
    rule = StopRule(cost=0.1)
    first = drafted(rule, SURE)
    for _ in range(20):
        drafted(rule, SURE)
        rule.learn([0])
    assert drafted(rule, SURE) == 1 < first
    rule.reset()
    assert drafted(rule, SURE) == first


def test_rows_without_a_request_draft_nothing():
    rule = StopRule(cost=0.01)
    rule.begin([True, False])
    rule.go_on(confidence(SURE, SURE))
    assert rule.lengths == [1, 0]
    rule.learn([1, 0])


@pytest.mark.parametrize("batch_size", [1, 3, 8])
@pytest.mark.parametrize("spec", ["model:d,gamma=auto,c=0.05", "early-exit:1,gamma=auto,c=0.05"])
def test_greedy_output_is_the_targets_and_lengths_vary(spec, batch_size):
    target = tiny.language_model("llama")
    models = {"d": tiny.noisy_copy(target, 0.2)}
    batch = tiny.requests(9)
    expected = tiny.run_cell(target, None, batch, max_new_tokens=24).outputs
    cell = tiny.run_cell(
        target, spec, batch, gamma=6, batch_size=batch_size, max_new_tokens=24, models=models
    )
    assert lossless.greedy_faults(cell.outputs, expected) == []
    assert len(set(cell.rounds["num_drafted"])) > 1
    assert any("gamma=auto" in note for note in cell.notes)


def sampled_p_value(sampling: SamplingParams) -> float:
    """Chi-square of 1500 sampled outputs of three tokens against the enumerated joint."""
    target = tiny.OncePerPrompt(tiny.language_model("llama", vocab_size=7))
    models = {"d": tiny.noisy_copy(target, 0.3)}
    prompt = [1, 2, 3, 1, 2]
    cell = tiny.run_cell(
        target, "model:d,gamma=auto,c=0.05", tiny.copies(prompt, 1500),
        gamma=4, batch_size=50, max_new_tokens=3, sampling=sampling, models=models,
    )  # fmt: skip
    assert len(set(cell.rounds["num_drafted"])) > 1
    return lossless.joint_p_value(
        cell.outputs, lossless.enumerated_joint(target, prompt, sampling, 3)
    )


@pytest.mark.parametrize("sampling", [SamplingParams(0.7, top_k=3), SamplingParams(1.0, top_p=0.9)])
def test_sampled_output_is_distributed_as_the_targets(sampling):
    assert sampled_p_value(sampling) > lossless.SOUND


def test_dropping_doubted_tokens_would_bias_the_output(monkeypatch):
    """The fault that the rule avoids by keeping the token on which a draft ends."""

    def without_doubted(rule):
        return [len(list(itertools.takewhile(lambda bin: bin >= 2, bins))) for bins in rule._bins]

    monkeypatch.setattr(StopRule, "lengths", property(without_doubted))
    assert sampled_p_value(SamplingParams(1.0)) < lossless.BROKEN
