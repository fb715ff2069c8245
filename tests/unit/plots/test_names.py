"""Names that a run's files may hold, drawn: nothing overlaps, and nothing is complained about."""

from __future__ import annotations

import matplotlib
import pandas as pd
import pytest
from matplotlib.text import Text

from specbench import registry
from specbench.analysis.fit import fit_run
from specbench.analysis.shown.frame import points_frame
from specbench.analysis.shown.more_frames import forwards_frame, positions_frame
from specbench.plots import base
from specbench.plots._names import readable
from specbench.records.store import load_run
from tests.simulate import SimulatedDrafter, simulate_run

HOSTILE = "\x1b[1m\x07翻🚀\r\n$\\frac{a}${b}%s" + "t" * 300


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.02), "model:x": SimulatedDrafter(0.6, 0.1)}
    folder = simulate_run(
        tmp_path_factory.mktemp("runs") / "run",
        drafters,
        gammas=(1, 2, 4),
        tasks=("code", "chat"),
        batch_sizes=(1, 2),
        prompts=6,
        tokens=16,
        cost={"weight_bytes": 1e9, "kv_bytes_per_token": 1e5},
        machine={"bandwidth_bytes_per_s": 1e11, "matmul_flops_per_s": 1e12},
        parameters=500_000_000,
    )
    run = load_run(folder)
    fitted = fit_run(run)
    return {
        "points": points_frame(fitted),
        "positions": positions_frame(fitted),
        "forwards": forwards_frame(run, fitted),
    }


def renamed(frame: pd.DataFrame) -> pd.DataFrame:
    columns = [c for c in ("run", "target", "task", "drafter") if c in frame]
    changed = {c: [old if old == "none" else HOSTILE + old for old in frame[c]] for c in columns}
    return frame.assign(**changed)


@pytest.mark.parametrize("figure", registry.names("plots"))
def test_a_figure_of_any_names_is_drawn_without_a_word(
    honest: dict[str, pd.DataFrame], figure: str
) -> None:
    frames = {key: renamed(frame) for key, frame in honest.items()}
    drawn = base.drawn(figure, frames)
    with matplotlib.rc_context(base.NO_FORMULAS):
        drawn.draw_without_rendering()  # a warning would be an error here
    (legend,) = drawn.legends
    beside = legend.get_window_extent()
    for axis in drawn.axes:
        assert axis.get_window_extent().width > 50
        assert not beside.overlaps(axis.get_window_extent())
    texts = "".join(text.get_text() for text in drawn.findobj(Text))
    assert not set(texts) & set("\x1b\x07\r翻🚀")
    assert "\\u001b" in texts


def test_names_that_are_cut_alike_stay_apart() -> None:
    names = [f"{'a' * 100}{middle}{'b' * 100}" for middle in ("one", "two", "three")]
    frame = readable(pd.DataFrame({"task": [*names, "code"], "alpha": [0.1, 0.2, 0.3, 0.4]}))
    assert frame["task"].nunique() == 4
    assert frame["task"].str.len().max() <= 60
    assert frame["task"].iloc[-1] == "code"
    assert list(frame["alpha"]) == [0.1, 0.2, 0.3, 0.4]


def test_ordinary_names_stay_as_they_are() -> None:
    names = ["model:ORG/NAME", "eagle,tree=24", "ngram", "α ≤ 4 · τ", "none"]
    assert list(readable(pd.DataFrame({"drafter": names}))["drafter"]) == names
