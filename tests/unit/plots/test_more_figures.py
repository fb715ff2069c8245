"""The figures behind the speedup, drawn from runs: the recorded example, and the smallest ones."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.colors
import numpy as np
import pandas as pd
import pytest
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure

from specbench import registry
from specbench.analysis.fit import fit_run
from specbench.analysis.shown.frame import points_frame
from specbench.analysis.shown.more_frames import forwards_frame, positions_frame
from specbench.errors import SpecbenchError
from specbench.plots import base
from specbench.plots.batch_crossover import spread_out
from specbench.records.store import load_run
from tests.simulate import STEP_S, SimulatedDrafter, simulate_run

EXAMPLE = Path(__file__).parents[3] / "results" / "example"
NGRAM = {"ngram": SimulatedDrafter(0.7, 0.02)}
MEASURED: dict[str, Any] = {
    "cost": {"weight_bytes": 1e9, "kv_bytes_per_token": 1e5},
    "machine": {"bandwidth_bytes_per_s": 1e11, "matmul_flops_per_s": 1e12},
    "parameters": 500_000_000,
}
FROM_ONE_CELL = (
    "alpha-by-task-and-temperature",
    "acceptance-by-position",
    "time-per-round",
    "bandwidth-roofline",
)

Frames = dict[str, pd.DataFrame]


def frames_of(folder: Path) -> Frames:
    run = load_run(folder)
    fitted = fit_run(run)
    return {
        "points": points_frame(fitted),
        "positions": positions_frame(fitted),
        "forwards": forwards_frame(run, fitted),
    }


def simulated(folder: Path, **options: Any) -> Frames:
    return frames_of(simulate_run(folder / "run", options.pop("drafters", NGRAM), **options))


@pytest.fixture(scope="module")
def example() -> Frames:
    return frames_of(EXAMPLE)


def draw(name: str, frames: Frames) -> Figure:
    function = registry.load("plots", name).draw
    wanted = inspect.signature(function).parameters
    figure = function(**{key: frames[key] for key in wanted if key in frames})
    assert isinstance(figure, Figure)
    figure.draw_without_rendering()
    return figure


def legend_texts(figure: Figure) -> list[str]:
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def check_layout(figure: Figure) -> None:
    """A title, axis titles with a unit or a meaning, and a legend that lies over no panel."""
    assert figure.get_suptitle()
    assert figure.get_supxlabel()
    (legend,) = figure.legends
    beside = legend.get_window_extent()
    for axis in figure.axes:
        assert not beside.overlaps(axis.get_window_extent())
        assert axis.get_title()
    titles = [axis.title.get_window_extent() for axis in figure.axes]
    assert not any(a.overlaps(b) for i, a in enumerate(titles) for b in titles[:i])


@pytest.mark.parametrize("name", FROM_ONE_CELL)
def test_the_recorded_example_is_drawn(name: str, example: Frames) -> None:
    check_layout(draw(name, example))


@pytest.fixture(
    scope="module",
    params=[
        {"gammas": (1,)},
        {"gammas": (4,), "prompts": 1},
        {"gammas": (1, 8), "batch_sizes": (1, 4)},
    ],
    ids=["one cell", "one prompt", "two batch sizes"],
)
def small(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Frames:
    return simulated(tmp_path_factory.mktemp("small"), **request.param, **MEASURED)


@pytest.mark.parametrize("name", FROM_ONE_CELL)
def test_small_runs_are_drawn(name: str, small: Frames) -> None:
    check_layout(draw(name, small))


def test_alpha_stands_at_the_groups_alpha_with_its_interval(tmp_path: Path) -> None:
    options = {"tasks": ("code", "chat"), "temperatures": (0.0, 1.0), "gammas": (1, 4)}
    frames = simulated(tmp_path, **options)
    (axis,) = draw("alpha-by-task-and-temperature", frames).axes
    assert len(axis.containers) == 2  # temperatures
    first = frames["points"][lambda f: f["temperature"] == 0.0].drop_duplicates("task")
    line, _, (bars,) = axis.containers[0]
    assert list(line.get_ydata()) == pytest.approx(list(first["fit_alpha"]))
    ends = [tuple(segment[:, 1]) for segment in bars.get_segments()]
    assert ends[0] == pytest.approx(
        (first["fit_alpha_low"].iloc[0], first["fit_alpha_high"].iloc[0])
    )
    assert [tick.get_text() for tick in axis.get_xticklabels()] == ["code", "chat"]


def test_positions_have_the_iid_line_and_the_model_in_use(tmp_path: Path) -> None:
    falling = {"eagle:x": SimulatedDrafter(0.0, 0.02, alphas=(0.9, 0.6, 0.4, 0.3))}
    frames = simulated(tmp_path, drafters=falling, gammas=(2, 3, 4), prompts=24)
    (axis,) = draw("acceptance-by-position", frames).axes
    rows = frames["positions"]
    assert rows["model"].iloc[0] in ("monotone-hazard", "per-position")
    iid, model = (line for line in axis.get_lines() if line.get_linestyle() != "None")
    assert list(iid.get_ydata()) == pytest.approx([rows["iid_alpha"].iloc[0]] * 2)
    assert list(model.get_ydata()) == pytest.approx(list(rows["model_alpha"]))
    measured = axis.containers[0][0]
    assert list(measured.get_ydata()) == pytest.approx([0.9, 0.6, 0.4, 0.3], abs=0.08)


def test_where_acceptance_may_be_iid_its_line_is_the_only_one(tmp_path: Path) -> None:
    frames = simulated(tmp_path, gammas=(2, 4), prompts=24)
    assert set(frames["positions"]["model"]) == {"iid"}
    (axis,) = draw("acceptance-by-position", frames).axes
    (iid,) = (line for line in axis.get_lines() if line.get_linestyle() != "None")
    assert list(iid.get_ydata()) == pytest.approx([frames["positions"]["iid_alpha"].iloc[0]] * 2)


def test_the_parts_of_a_round_add_up_to_what_it_costs(tmp_path: Path) -> None:
    frames = simulated(tmp_path, gammas=(4,), v=1.2, overhead=0.1, noise=0.0)
    figure = draw("time-per-round", frames)
    axis = figure.axes[0]
    widths = [bar.get_width() for bars in axis.containers[:3] for bar in bars]
    assert widths == pytest.approx([4 * 0.02, 1.2, 0.1])
    assert [tick.get_text() for tick in axis.get_yticklabels()] == ["ngram γ = 4"]
    row = frames["points"].iloc[0]
    assert row["step_s"] == pytest.approx(STEP_S)
    assert [row["round_low"], row["round_high"]] == pytest.approx([sum(widths)] * 2)  # no noise
    assert {"draft", "verify", "the rest"} <= set(legend_texts(figure))


def test_a_rounds_interval_that_reaches_far_leaves_the_panel(tmp_path: Path) -> None:
    frames = simulated(tmp_path, gammas=(2, 4), v=1.2)
    frames["points"].loc[0, "round_high"] = 1e4
    figure = draw("time-per-round", frames)
    (axis,) = figure.axes
    assert axis.get_xlim()[1] < 4.0
    (mark,) = (line for line in axis.get_lines() if line.get_marker() == ">")
    assert list(mark.get_xdata()) == [1.0]
    assert list(mark.get_ydata()) == [0], "the first bar's"
    assert "95% interval of the round\n(▶ goes on)" in legend_texts(figure)


def test_batches_are_joined_at_each_drafters_best_gamma(tmp_path: Path) -> None:
    frames = simulated(
        tmp_path,
        gammas=(1, 6),
        batch_sizes=(1, 4, 8),
        prompts=24,
        v=lambda gamma, batch: 1.0 + 0.08 * gamma * (batch - 1),
    )
    figure = draw("batch-crossover", frames)
    check_layout(figure)
    (axis,) = figure.axes
    assert [text.get_text() for text in axis.texts] == ["6", "1", "1"]
    (line, _, _) = axis.containers[0]
    best = frames["points"].groupby("batch_size")["speedup"].max()
    assert list(line.get_ydata()) == pytest.approx(list(best))
    assert any(list(line.get_ydata()) == [1.0, 1.0] for line in axis.get_lines())


MANY = {
    **{name: SimulatedDrafter(0.7, 0.02) for name in ("ngram", "model", "medusa", "eagle")},
    "eagle,tree=9": SimulatedDrafter(0.7, 0.02, nodes=8),
    "model,gamma=auto": SimulatedDrafter(0.7, 0.02, shortest=1),
    "synthetic:0.7": SimulatedDrafter(0.7, 0.02),
}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Frames:
    options = {"gammas": (1, 3, 4), "batch_sizes": (1, 2), "prompts": 4, "tokens": 24, **MEASURED}
    return simulated(tmp_path_factory.mktemp("many"), drafters=MANY, **options)


@pytest.fixture(scope="module")
def many_drawn(many: Frames) -> Callable[[str], Figure]:
    """Each figure of many drafters, drawn once."""
    return functools.cache(lambda name: draw(name, many))


@pytest.mark.parametrize("name", registry.names("plots"))
def test_many_drafters_stay_inside_the_panels_and_apart(
    name: str, many_drawn: Callable[[str], Figure]
) -> None:
    figure = many_drawn(name)
    check_layout(figure)
    for axis in figure.axes:
        panel = axis.get_window_extent()
        for container in axis.containers:
            if isinstance(container, ErrorbarContainer) and container.lines[0] is not None:
                for x, y in axis.transData.transform(container.lines[0].get_xydata()):
                    assert panel.x0 <= x <= panel.x1
                    assert panel.y0 <= y <= panel.y1
        texts = [text.get_window_extent() for text in axis.texts]
        assert not any(a.overlaps(b) for i, a in enumerate(texts) for b in texts[:i])


def test_points_of_one_gamma_are_nearer_to_it_than_to_the_next(
    many_drawn: Callable[[str], Figure],
) -> None:
    axis = many_drawn("speedup-vs-gamma").axes[0]
    drawn = np.array([container.lines[0].get_xdata() for container in axis.containers])
    assert drawn.shape == (7, 3)  # drafters and gammas
    assert (drawn[:, 1] < np.sqrt(12)).all()
    assert (drawn[:, 2] > np.sqrt(12)).all()
    assert all(len(set(places)) == 7 for places in drawn.T)


@pytest.mark.parametrize(
    ("name", "chains"), [("alpha-by-task-and-temperature", 4), ("speedup-vs-alpha", 5)]
)
def test_a_row_of_panels_is_one_batch_size(
    name: str, chains: int, many_drawn: Callable[[str], Figure]
) -> None:
    axes = many_drawn(name).axes
    rows: dict[float, list[str]] = {}
    for axis in axes:
        rows.setdefault(round(axis.get_position().y0, 2), []).append(axis.get_title())
    first, second = rows.values()
    assert len(first) == len(second) == chains  # the synthetic one has no measured alpha
    assert all("batch 1" in title for title in first)
    assert all("batch 2" in title for title in second)


@pytest.mark.parametrize(
    ("heights", "moved"),
    [
        ([1.0, 2.0], [1.0, 2.0]),
        ([1.0, 1.2], [0.85, 1.35]),
        ([1.0, 1.0, 1.0, 3.0], [0.5, 1.0, 1.5, 3.0]),
        ([1.0, 1.4, 1.5], [0.8, 1.3, 1.8]),
        ([], []),
    ],
)
def test_numbers_are_moved_apart_as_little_as_it_takes(
    heights: list[float], moved: list[float]
) -> None:
    assert spread_out(heights, 0.5) == pytest.approx(moved)


def test_the_roofline_has_a_flat_and_a_rising_line(tmp_path: Path) -> None:
    figure = draw("bandwidth-roofline", simulated(tmp_path, gammas=(4,), **MEASURED))
    (axis,) = figure.axes
    flat, rising = (line for line in axis.get_lines() if len(line.get_xdata()) == 64)
    assert set(flat.get_ydata()) == {10.0}  # 1 GB at 100 GB/s, in ms
    assert rising.get_ydata()[0] == pytest.approx(rising.get_xdata()[0])  # 1 ms per token
    assert {"plain decoding", "verification", "batch 1"} <= set(legend_texts(figure))


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("batch-crossover", {}, "one batch size only (1)"),
        ("batch-crossover", {"baseline": False}, "no cell has a measured speedup"),
        ("time-per-round", {"baseline": False}, "finished baseline"),
        ("bandwidth-roofline", {}, "the peak bandwidth was not measured"),
        ("bandwidth-roofline", {**MEASURED, "parameters": None}, "size"),
        (
            "acceptance-by-position",
            {"drafters": {"eagle:x,tree=9": SimulatedDrafter(0.7, 0.02, nodes=8)}},
            "no draft of fixed length",
        ),
        (
            "alpha-by-task-and-temperature",
            {"drafters": {"ngram": SimulatedDrafter(0.7, 0.02, draft_chance=0.0)}},
            "no token was evaluated",
        ),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(
    name: str, options: dict[str, Any], says: str, tmp_path: Path
) -> None:
    frames = simulated(tmp_path, gammas=(2,), **options)
    with pytest.raises(SpecbenchError) as caught:
        draw(name, frames)
    assert says in str(caught.value)
    assert name in str(caught.value)


def test_without_round_times_the_roofline_says_so() -> None:
    with pytest.raises(SpecbenchError, match="no target forward was timed"):
        draw("bandwidth-roofline", {"forwards": pd.DataFrame()})


def test_the_label_of_alpha_is_whole_and_clear_of_the_title(tmp_path: Path) -> None:
    drafters = dict.fromkeys(("ngram", "model:a", "medusa"), SimulatedDrafter(0.7, 0.02))
    frames = simulated(tmp_path, drafters=drafters, gammas=(2,), prompts=2)
    figure = draw("alpha-by-task-and-temperature", frames)
    label, title = (
        text.get_window_extent() for text in (figure._supylabel, figure._suptitle) if text
    )
    assert label.y0 >= 0
    assert label.y1 <= title.y0


def test_no_series_has_the_colour_of_reference_lines() -> None:
    names = [str(index) for index in range(len(base.PALETTE))]
    for look in base.named_looks(names).values():
        red, green, blue = matplotlib.colors.to_rgb(look.colour)
        assert max(red, green, blue) > 0.4
    assert max(matplotlib.colors.to_rgb(base.INK)) < 0.2


def test_positions_of_few_rounds_are_hollow(tmp_path: Path) -> None:
    frames = simulated(tmp_path, gammas=(8,), prompts=2, tokens=40)
    few = frames["positions"]["evaluated"] < 10
    figure = draw("acceptance-by-position", frames)
    enough, hollow = figure.axes[0].containers
    assert [len(part[0].get_xdata()) for part in (enough, hollow)] == [sum(~few), sum(few)]
    assert hollow[0].get_markerfacecolor() == "white" != enough[0].get_markerfacecolor()
    assert "in fewer than 10 rounds" in legend_texts(figure)
