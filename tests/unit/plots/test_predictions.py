"""The two figures on predictions: predicted-vs-measured and gap-decomposition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.patches import Rectangle

from specbench.analysis.fit import fit_run
from specbench.analysis.rounds.gap import TERMS
from specbench.analysis.shown.frame import points_frame
from specbench.errors import SpecbenchError
from specbench.plots import base
from specbench.records.store import load_run
from tests.simulate import SimulatedDrafter, simulate_run
from tests.unit.plots.frames import draw, points

FIGURES = ("predicted-vs-measured", "gap-decomposition")
DRAFTERS = ("ngram", "model:ORG/A-LONG-NAME", "early-exit:6")
TASKS = ("translation", "summarization", "code", "chat")
TREE = "eagle:/data/heads/small,tree=24"


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize(
    "frame",
    [
        points(gammas=(1, 2, 4)),
        points(DRAFTERS[:2], TASKS[:2], gammas=(1, 2, 4)),
        points(DRAFTERS, TASKS, (0.0, 1.0), (1,), (1, 2, 4, 8)),
        points((*DRAFTERS[:2], TREE), TASKS[:2], (0.0,), (1, 4), (2, 4, 8)),
    ],
    ids=["one group", "one row", "a whole run", "batches and a tree"],
)
def test_labels_units_and_a_legend_that_lies_over_no_panel(name: str, frame: pd.DataFrame) -> None:
    figure = draw(name, frame)
    figure.draw_without_rendering()
    assert "speedup" in figure.get_supylabel()
    assert "SmolLM2-135M-Instruct" in figure.get_suptitle()
    label, title = figure._supylabel, figure._suptitle
    assert not label.get_window_extent().overlaps(title.get_window_extent())
    (legend,) = figure.legends
    beside = legend.get_window_extent()
    for axis in figure.axes:
        assert not beside.overlaps(axis.get_window_extent())
        assert axis.get_title()
    titles = [axis.title.get_window_extent() for axis in figure.axes]
    assert not any(a.overlaps(b) for i, a in enumerate(titles) for b in titles[:i])


def test_predictions_stand_over_measurements_with_both_intervals() -> None:
    frame = points(gammas=(1, 2, 4))
    (axis,) = draw(FIGURES[0], frame).axes
    closed, extended = axis.containers
    assert list(closed[0].get_ydata()) == list(frame["held_out_closed_form"])
    assert list(extended[0].get_ydata()) == list(frame["held_out"])
    assert list(extended[0].get_xdata()) == list(frame["speedup"])
    ends = [bar.get_segments() for bar in extended[2]]
    assert ends[0][0][:, 0] == pytest.approx(
        [frame["speedup_low"].iloc[0], frame["speedup_high"].iloc[0]]
    )
    assert ends[1][0][:, 1] == pytest.approx(
        [frame["held_out_low"].iloc[0], frame["held_out_high"].iloc[0]]
    )
    (line,) = [line for line in axis.get_lines() if len(line.get_xdata()) == 2]
    assert list(line.get_xdata()) == list(line.get_ydata()) == list(axis.get_xlim())
    assert axis.get_xlim() == axis.get_ylim()


def test_terms_stack_up_to_the_measured_speedup() -> None:
    frame = points(gammas=(1, 2, 4))
    (axis,) = draw(FIGURES[1], frame).axes
    bars = [patch for patch in axis.patches if isinstance(patch, Rectangle)]
    assert len(bars) == len(TERMS) * 3
    sums = {}
    for bar in bars:
        place = round(bar.get_x() + bar.get_width() / 2)
        sums[place] = sums.get(place, 0.0) + bar.get_height()
    (marks,) = [box[0] for box in axis.containers if hasattr(box, "has_yerr")]
    assert [sums[place] for place in range(3)] == pytest.approx(list(marks.get_ydata()))
    assert list(marks.get_ydata()) == pytest.approx(
        list(np.log(frame["speedup"] / frame["closed_form"]))
    )
    assert [label.get_text() for label in axis.get_xticklabels()] == ["1", "2", "4"]
    looks = {(bar.get_hatch(), bar.get_facecolor()) for bar in bars}
    assert len({hatch for hatch, _ in looks}) == len(TERMS)  # told apart in grey


@pytest.mark.parametrize(
    ("name", "words"), [(FIGURES[0], "three of one"), (FIGURES[1], "times of")]
)
def test_what_was_not_predicted_is_refused(name: str, words: str) -> None:
    frame = points(gammas=(2, 4)).assign(held_out=float("nan"), gap_rest=float("nan"))
    with pytest.raises(SpecbenchError) as caught:
        draw(name, frame)
    assert name in caught.value.message
    assert words in caught.value.message + caught.value.hint


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_measured_is_refused(name: str) -> None:
    with pytest.raises(SpecbenchError, match="nothing to draw"):
        draw(name, points(gammas=(1, 2, 4)).assign(speedup=float("nan")))


@pytest.mark.parametrize("name", FIGURES)
def test_without_intervals_there_are_bare_points(name: str) -> None:
    frame = points(gammas=(1, 2, 4))
    frame[["speedup_low", "speedup_high", "held_out_low", "held_out_high"]] = float("nan")
    draw(name, frame).draw_without_rendering()


@pytest.mark.parametrize("name", FIGURES)
def test_a_run_is_drawn_and_written_byte_for_byte(name: str, tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.01), "model:x": SimulatedDrafter(0.6, 0.1)}
    run = simulate_run(tmp_path / "run", drafters, gammas=(1, 2, 4), prompts=6, tokens=24)
    frame = points_frame(fit_run(load_run(run)))
    first = base.pictures(draw(name, frame), ["png", "svg"])
    second = base.pictures(draw(name, frame), ["png", "svg"])
    assert list(first) == ["png", "svg"]
    assert first == second
