from __future__ import annotations

import itertools
import math
import sys

import pandas as pd
import pytest
from matplotlib.figure import Figure

from specbench import registry
from specbench.analysis.shown.frame import published_frame
from specbench.errors import SpecbenchError
from specbench.plots import base, speedup_vs_alpha, speedup_vs_gamma
from specbench.records.speedup import within_noise
from specbench.theory import closed_form
from tests.unit.plots.frames import draw, points

TASKS = ("translation", "summarization", "code", "chat")
DRAFTERS = ("ngram", "model:ORG/A-LONG-NAME", "early-exit:6")
FIGURES = ("speedup-vs-alpha", "speedup-vs-gamma")


def texts_of_legend(figure: Figure) -> list[str]:
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_every_figure_is_found_by_name_and_describes_itself() -> None:
    assert set(registry.names("plots")) >= set(FIGURES)
    for name in registry.names("plots"):
        assert registry.describe("plots", name).endswith(".")


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize(
    "frame",
    [
        points(),
        points(DRAFTERS, TASKS, (0.0, 1.0), (1,), (1, 2, 4, 8)),
        points(DRAFTERS[:2], TASKS[:2], (0.0,), (1, 4, 8), (2, 4)),
        points(("ngram",), ("code",), (0.0, 0.3, 0.7, 1.0, 1.3), (1,), (3,)),
    ],
    ids=["one point", "a whole run", "batches", "five temperatures"],
)
def test_labels_units_and_a_legend_that_lies_over_no_panel(name: str, frame: pd.DataFrame) -> None:
    figure = draw(name, frame)
    figure.draw_without_rendering()
    assert "speedup over the baseline (×)" in figure.get_supylabel()
    assert ("α" if name.endswith("alpha") else "γ") in figure.get_supxlabel()
    assert "SmolLM2-135M-Instruct" in figure.get_suptitle()
    (legend,) = figure.legends
    beside = legend.get_window_extent()
    for axis in figure.axes:
        assert not beside.overlaps(axis.get_window_extent())
        assert axis.get_title()
        # The no-gain line is in every panel.
        assert any(list(line.get_ydata()) == [1.0, 1.0] for line in axis.get_lines())
    titles = [axis.title.get_window_extent() for axis in figure.axes]
    assert not any(a.overlaps(b) for i, a in enumerate(titles) for b in titles[:i])


@pytest.mark.parametrize("name", [*FIGURES, "batch-crossover"])
def test_an_interval_that_reaches_far_leaves_the_panel_with_a_mark(name: str) -> None:
    frame = points(DRAFTERS[:1], ("code",), (0.0,), (1, 4), (2,))
    shown = draw(name, frame)
    most = frame[["speedup", "speedup_high", "closed_form", "extended"]].max().max()
    assert most < shown.axes[0].get_ylim()[1] < 1.2 * max(most, 1.6)
    assert "95% interval" in texts_of_legend(shown)

    frame.loc[0, "speedup_high"] = 3000.0
    cut = draw(name, frame)
    assert cut.axes[0].get_ylim()[1] < 4 * most
    assert "95% interval\n(▲ goes on)" in texts_of_legend(cut)
    marks = [
        line
        for axis in cut.axes
        for line in axis.get_lines()
        if line.get_marker() == "^" and list(line.get_ydata()) == [1.0]
    ]
    assert len(marks) == 1


def test_alpha_has_a_panel_per_drafter_and_batch_with_a_curve_per_gamma() -> None:
    frame = points(DRAFTERS, TASKS[2:], (0.0, 1.0), (1, 4), (2, 8))
    figure = speedup_vs_alpha.draw(frame)
    assert len(figure.axes) == 6
    curves = [line for line in figure.axes[0].get_lines() if len(line.get_xdata()) == 101]
    assert len(curves) == 2
    c = frame[frame["drafter"] == "ngram"]["fit_c"].iloc[0]
    assert curves[1].get_ydata()[70] == pytest.approx(closed_form.speedup(0.7, 8, c))
    assert len({str(line.get_linestyle()) + str(line._dash_pattern) for line in curves}) == 2
    assert {"γ = 2", "γ = 8", "code", "T = 1", "no gain (1×)"} <= set(texts_of_legend(figure))


def test_alpha_points_stand_at_the_measured_values_with_both_intervals() -> None:
    frame = points(gammas=(4,))
    (container,) = speedup_vs_alpha.draw(frame).axes[0].containers
    line, _, bars = container
    assert line.get_xydata().tolist() == [[frame["alpha"].iloc[0], frame["speedup"].iloc[0]]]
    ends = [segment for bar in bars for segment in bar.get_segments()]
    assert ends[0][:, 0] == pytest.approx([frame["alpha_low"].iloc[0], frame["alpha_high"].iloc[0]])
    assert ends[1][:, 1] == pytest.approx(
        [frame["speedup_low"].iloc[0], frame["speedup_high"].iloc[0]]
    )


def test_gamma_has_a_panel_per_task_temperature_and_batch() -> None:
    figure = speedup_vs_gamma.draw(points(DRAFTERS, TASKS, (0.0, 1.0), (1, 4), (1, 2, 4)))
    assert len(figure.axes) == 4 * 2 * 2
    assert figure.axes[0].get_title() == "translation · T = 0 · batch 1"
    assert len(figure.axes[0].containers) == 3  # measured points of three drafters
    labels = [tick.get_text() for tick in figure.axes[-1].get_xticklabels()]
    assert labels == ["1", "2", "4"]


def test_gamma_lines_are_the_models() -> None:
    frame = points(gammas=(1, 2, 4, 8))
    lines = speedup_vs_gamma.draw(frame).axes[0].get_lines()
    closed = next(line for line in lines if len(line.get_xdata()) == 8)
    alpha, c = frame["fit_alpha"].iloc[0], frame["fit_c"].iloc[0]
    assert list(closed.get_ydata()) == pytest.approx(
        [closed_form.speedup(alpha, gamma, c) for gamma in range(1, 9)]
    )
    assert any(
        len(line.get_ydata()) == 4 and list(line.get_ydata()) == list(frame["extended"])
        for line in lines
    )


def test_the_band_of_noise_is_as_wide_as_what_records_call_noise() -> None:
    axis = Figure().subplots()
    base.no_gain_line(axis, 0.25)
    (band,) = axis.patches
    low, high = band.get_y(), band.get_y() + band.get_height()
    assert (low, high) == pytest.approx((0.8, 1.25))
    assert within_noise(low * 1.001, 0.25)
    assert not within_noise(low * 0.999, 0.25)


def test_names_differ_in_more_than_colour() -> None:
    looks = base.named_looks([f"drafter {index}" for index in range(7)])
    assert len({look.marker for look in looks.values()}) == 7
    ordered = base.ordered_looks([1, 2, 3, 4, 6, 8])
    assert len({str(look.dash) for look in ordered.values()}) == 6


def test_lightness_rises_with_gamma() -> None:
    def lightness(colour: str) -> float:
        red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
        return 0.299 * red + 0.587 * green + 0.114 * blue

    values = [lightness(look.colour) for look in base.ordered_looks([1, 2, 4, 8]).values()]
    assert all(later - earlier > 20 for earlier, later in itertools.pairwise(values))


def test_synthetic_drafters_are_called_so() -> None:
    frame = points(("synthetic:0.8",))
    assert "synthetic" in speedup_vs_alpha.draw(frame).axes[0].get_title()
    assert "§ synthetic:0.8" in texts_of_legend(speedup_vs_gamma.draw(frame))


def test_two_runs_are_told_apart() -> None:
    frame = pd.concat([points(), points().assign(run="other")], ignore_index=True)
    assert {"ngram · main", "ngram · other"} <= set(texts_of_legend(speedup_vs_gamma.draw(frame)))
    assert len(speedup_vs_alpha.draw(frame).axes) == 2


@pytest.mark.parametrize("name", FIGURES)
def test_points_without_an_interval_or_noise_floor_are_drawn_bare(name: str) -> None:
    frame = points(gammas=(2, 4))
    frame[["alpha_low", "alpha_high", "speedup_low", "speedup_high", "noise_floor"]] = float("nan")
    figure = draw(name, frame)
    figure.draw_without_rendering()
    assert "noise floor" not in texts_of_legend(figure)


@pytest.mark.parametrize("name", FIGURES)
def test_nothing_measured_is_refused(name: str) -> None:
    for frame in (points().assign(speedup=float("nan")), points().iloc[:0]):
        with pytest.raises(SpecbenchError) as caught:
            draw(name, frame)
        assert name in str(caught.value)


@pytest.mark.parametrize("name", FIGURES)
def test_pictures_repeat_byte_for_byte(name: str) -> None:
    first = base.pictures(draw(name, points()), ["png", "svg"])
    second = base.pictures(draw(name, points()), ["png", "svg"])
    assert first["png"].startswith(b"\x89PNG")
    assert b"<svg" in first["svg"]
    assert first == second


def test_no_global_state_of_pyplot_is_touched() -> None:
    draw(FIGURES[0], points())
    assert "matplotlib.pyplot" not in sys.modules


TREE, AUTO = "eagle:/data/heads/small,tree=24", "model:/data/models/tiny,gamma=auto"


def test_alpha_leaves_out_what_has_no_single_alpha_and_says_so() -> None:
    figure = speedup_vs_alpha.draw(points(("ngram", TREE, AUTO), TASKS[:2], gammas=(2, 4)))
    assert len(figure.axes) == 1
    title = " ".join(figure.get_suptitle().split())
    assert "4 tree cells and 4 gamma=auto cells are not on this figure: they have" in title
    one = speedup_vs_alpha.draw(points(("ngram", TREE))).get_suptitle()
    assert "1 tree cell is not on this figure: it has" in " ".join(one.split())
    assert "not on this figure" not in speedup_vs_alpha.draw(points()).get_suptitle()


def test_alpha_without_a_chain_is_refused() -> None:
    with pytest.raises(SpecbenchError, match="no single alpha"):
        speedup_vs_alpha.draw(points((TREE, AUTO)))


def test_gamma_joins_the_points_of_trees_and_draws_no_model_of_them() -> None:
    frame = points((TREE,), gammas=(1, 4, 8))
    figure = speedup_vs_gamma.draw(frame)
    (axis,) = figure.axes
    ((line, _, _),) = axis.containers
    assert list(line.get_ydata()) == list(frame["speedup"])
    assert line.get_linestyle() != "None"
    assert len(axis.get_lines()) == 1 + 2 + 1  # points, two rows of caps, no gain: no model
    labels = texts_of_legend(figure)
    assert "eagle:small,tree=24" in labels
    assert not {"closed form", "extended model"} & set(labels)
    assert "levels of a tree" in figure.get_supxlabel()


def test_gamma_draws_chains_as_before_beside_trees() -> None:
    figure = speedup_vs_gamma.draw(points(("ngram", TREE, AUTO), gammas=(1, 4, 8)))
    labels = texts_of_legend(figure)
    assert {"closed form", "extended model", "model:tiny,gamma=auto"} <= set(labels)
    chain, *others = (container[0] for container in figure.axes[0].containers)
    assert chain.get_linestyle() == "None"
    assert all(line.get_linestyle() != "None" for line in others)


def test_published_measurements_lie_over_the_curves_with_their_source() -> None:
    published = published_frame()
    figure = speedup_vs_alpha.draw(points(DRAFTERS[:2], TASKS[:2], gammas=(2, 4)), published)
    assert any("Leviathan et al. 2023" in text for text in texts_of_legend(figure))
    for axis in figure.axes:
        (marks,) = [line for line in axis.lines if line.get_marker() == "h"]
        assert marks.get_fillstyle() == "none"
        assert list(marks.get_ydata()) == list(published["speedup"])
        assert axis.get_ylim()[1] > published["speedup"].max()
    plain = speedup_vs_alpha.draw(points())
    assert not any("Leviathan" in text for text in texts_of_legend(plain))


@pytest.mark.parametrize("name", FIGURES)
def test_without_times_of_rounds_there_are_points_and_no_curves(name: str) -> None:
    frame = points(gammas=(2, 4)).assign(
        fit_c=float("nan"), c=float("nan"), closed_form=float("nan"), extended=float("nan")
    )
    figure = draw(name, frame)
    figure.draw_without_rendering()
    assert "nan" not in " ".join(axis.get_title() for axis in figure.axes)


def test_a_server_that_tells_no_alpha_is_drawn_over_gamma_without_models() -> None:
    """Drafts of prompt lookup vary in length, so a server's alpha is not known; its speedup is."""
    frame = points(("ngram", "model:x"), gammas=(2, 4))
    served = frame["drafter"] == "ngram"
    unknown = ["alpha", "alpha_low", "alpha_high", "c", "fit_c", "fit_alpha", "extended"]
    frame.loc[served, [*unknown, "closed_form"]] = float("nan")
    figure = speedup_vs_gamma.draw(frame)
    assert "ngram" in texts_of_legend(figure)
    (axis,) = figure.axes
    drawn = {float(y) for line in axis.get_lines() for y in line.get_ydata()}
    assert set(frame[served]["speedup"]) <= drawn
    with pytest.raises(SpecbenchError, match="both a measured alpha and a speedup"):
        speedup_vs_alpha.draw(frame[served])
    frame.loc[served, "speedup"] = float("nan")
    with pytest.raises(SpecbenchError, match="no cell has a measured speedup"):
        speedup_vs_gamma.draw(frame[served])


def test_a_legend_has_nothing_that_is_not_drawn() -> None:
    """Of an imported run: no c, no intervals, one γ of a tree."""
    frame = points(("ngram", "eagle:x,tree=8"), gammas=(4,))
    unknown = ["fit_c", "closed_form", "extended", "alpha_low", "alpha_high"]
    bare = frame.assign(**dict.fromkeys([*unknown, "speedup_low", "speedup_high"], math.nan))
    labels = texts_of_legend(draw("speedup-vs-gamma", bare))
    absent = ("extended model", "closed form", "95% interval", "joined")
    assert not any(text.startswith(absent) for text in labels)
    labels = texts_of_legend(draw("speedup-vs-alpha", bare))
    assert not any("closed form" in text or "95% interval" in text for text in labels)
    assert {"Gamma", "γ = 4"} <= set(labels)
    labels = texts_of_legend(draw("speedup-vs-gamma", frame))
    assert {"extended model", "closed form", "95% interval"} <= set(labels)
