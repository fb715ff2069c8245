"""Round times of a gamma that was not measured, where slow conversations accept less."""

from __future__ import annotations

from specbench.analysis.prediction.left_out import LeftOut
from specbench.theory.acceptance import Iid
from specbench.theory.round_lines import RoundLines
from tests.choice_worlds import Drafter, World, tasks

GAMMAS = (1, 2, 3, 4, 6, 8)


def test_an_unmeasured_gamma_takes_the_step_of_the_conversations_that_would_need_it() -> None:
    world = World(prompts=400, context=0.1, slower=2.0, noise=0.02, cell=0.0)
    (group,) = tasks(Drafter(0.65, spread=0.15), GAMMAS, [world], seed=0)
    for gamma in GAMMAS:
        others = group.evidence.without(gamma)
        lines = RoundLines.of(others.times, group.evidence.plain)
        model = Iid.fit(others.sample)
        assert lines is not None
        assert model is not None
        left_out = LeftOut(gamma, group.evidence, others, model, lines)
        assert abs(left_out.log_seconds()) < 0.005, gamma  # one step for all gammas: 0.05
        names = group.evidence.plain.names
        assert abs(left_out.log_seconds(names[:200])) < 0.01
