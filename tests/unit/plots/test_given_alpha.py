"""Synthetic drafters and padded prompts in figures: marked, apart, and never among real alphas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from specbench.analysis.shown.formats import SYNTHETIC_NOTE
from specbench.errors import SpecbenchError
from specbench.plots import (
    alpha_by_task_and_temperature,
    base,
    batch_crossover,
    speedup_vs_alpha,
    speedup_vs_gamma,
)
from specbench.theory import closed_form
from tests.unit.plots.frames import points
from tests.unit.plots.test_figures import texts_of_legend

ALPHAS = (0.2, 0.4, 0.6, 0.8, 0.9)
FAMILY = tuple(f"synthetic:{alpha},cost=eagle:shape" for alpha in ALPHAS)


def title(figure: object) -> str:
    return " ".join(figure._suptitle.get_text().split())  # type: ignore[attr-defined]


def world(gammas: tuple[int, ...] = (2, 4, 8), noise: float = 0.0) -> pd.DataFrame:
    """Speedups that are the extended model's, but for noise."""
    frame = points(FAMILY, gammas=gammas)
    frame["alpha"] = [float(name.partition(":")[2].partition(",")[0]) for name in frame["drafter"]]
    frame["c"] = frame["fit_c"] = 0.1
    frame["draft_t1"] = 0.1 * frame["gamma"]
    frame["verify_t1"], frame["other_t1"] = 1.0 + 0.02 * frame["gamma"], 0.05
    cost = frame["draft_t1"] + frame["verify_t1"] + frame["other_t1"]
    tokens = [
        closed_form.expected_tokens(alpha, gamma)
        for alpha, gamma in zip(frame["alpha"], frame["gamma"], strict=True)
    ]
    frame["speedup"] = np.array(tokens) / cost * (1 + noise)
    return frame


def test_alphas_of_one_cost_are_points_of_one_panel_on_the_fitted_curve() -> None:
    frame = world()
    figure = speedup_vs_alpha.draw(frame)
    (axis,) = figure.axes
    assert "synthetic:A,cost=eagle:shape" in axis.get_title().replace("\n", "")
    curves = [line for line in axis.get_lines() if line.get_linewidth() > 3]
    assert len(curves) == 3  # gammas
    drawn = {
        (round(x, 6), round(y, 6))
        for container in axis.containers
        for x, y in container.lines[0].get_xydata()
    }
    assert len(drawn) == len(frame) == 15
    for x, y in drawn:
        near = [np.interp(x, line.get_xdata(), line.get_ydata()) for line in curves]
        assert min(abs(value - y) for value in near) < 0.01
    assert "extended model" in texts_of_legend(figure)


def test_other_costs_and_real_drafters_have_panels_of_their_own() -> None:
    frame = pd.concat(
        [world(), points(("synthetic:0.5,cost=ngram", "ngram"), gammas=(2,))], ignore_index=True
    )
    axes = speedup_vs_alpha.draw(frame).axes
    titles = [axis.get_title().partition("\ncurves")[0].replace("\n", "") for axis in axes]
    assert titles == ["§ synthetic:A,cost=eagle:shape", "§ synthetic:0.5,cost=ngram", "ngram"]
    wide = [sum(line.get_linewidth() > 3 for line in axis.get_lines()) for axis in axes]
    assert wide == [3, 1, 0]


@pytest.mark.parametrize("draw", [speedup_vs_alpha.draw, speedup_vs_gamma.draw])
def test_a_mark_and_a_line_say_that_alpha_was_set(draw: object) -> None:
    mixed = pd.concat([world(), points(gammas=(2, 4))], ignore_index=True)
    assert SYNTHETIC_NOTE in title(draw(mixed))  # type: ignore[operator]
    assert SYNTHETIC_NOTE not in title(draw(points(gammas=(2, 4))))  # type: ignore[operator]


def test_a_figure_of_alphas_leaves_it_out_by_name() -> None:
    mixed = pd.concat([world(), points(gammas=(2, 4))], ignore_index=True)
    mixed["fit_alpha_low"], mixed["fit_alpha_high"] = mixed["alpha_low"], mixed["alpha_high"]
    figure = alpha_by_task_and_temperature.draw(mixed)
    assert len(figure.axes) == 1
    assert "without 15 synthetic cells, whose alpha was set" in title(figure)
    with pytest.raises(SpecbenchError, match="all drafters are synthetic, whose alpha was set"):
        alpha_by_task_and_temperature.draw(world())


def test_every_figure_of_points_puts_contexts_apart() -> None:
    two = [points(gammas=(2, 4)).assign(context_length=length) for length in (512.0, 2048.0)]
    frame = pd.concat(two, ignore_index=True)
    for figure in (speedup_vs_gamma.draw(frame), speedup_vs_alpha.draw(frame)):
        titles = [axis.get_title().replace("\N{NO-BREAK SPACE}", " ") for axis in figure.axes]
        assert ["context 512" in text for text in titles] == [True, False]
        assert ["context 2048" in text for text in titles] == [False, True]
    assert "prompts of 512 tokens" in title(speedup_vs_gamma.draw(two[0]))
    assert "tokens" not in title(speedup_vs_gamma.draw(points(gammas=(2, 4))))


def test_prompts_as_they_are_have_a_panel_beside_padded_ones() -> None:
    padded = points(gammas=(2, 4)).assign(context_length=512.0)
    frame = pd.concat([padded, points(gammas=(2, 4))], ignore_index=True)
    titles = [axis.get_title() for axis in speedup_vs_gamma.draw(frame).axes]
    assert ["no padding" in text for text in titles] == [True, False]
    frame = pd.concat([frame, frame.assign(batch_size=4)], ignore_index=True)
    assert len(batch_crossover.draw(frame).axes) == 2


def test_a_figure_is_as_high_as_its_legend() -> None:
    names = tuple(f"model:an/organisation-with-a-name-of-{n}-letters" for n in range(6))
    many = points(names, gammas=(2, 4), batch_sizes=(1, 4))  # a row of panels, which is low
    figure = speedup_vs_gamma.draw(many)
    base.pictures(figure, ["png"])
    (legend,) = figure.legends
    box = legend.get_window_extent().transformed(figure.transFigure.inverted())
    assert 0.0 < box.y0 < box.y1 <= 1.0
