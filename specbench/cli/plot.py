"""``specbench plot``: measured points on the theory's curves, as files.

specbench plot results/main
specbench plot results/main --figure speedup-vs-alpha --format svg
specbench plot --list
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specbench.errors import SpecbenchError

if TYPE_CHECKING:
    import pandas as pd

    from specbench.analysis.fitted import RunFit
    from specbench.records.reading import Run

FORMATS = ("png", "svg", "pdf")


def _list_figures(wanted: bool) -> None:
    """Print the figures that there are, each with what it shows, and end."""
    if wanted:
        from specbench.cli._output import print_described

        print_described("plots")
        raise typer.Exit


def plot(
    run: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...", help="Runs: folders, or names in results/; drawn together."
        ),
    ],
    figure: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A figure; repeat for several. Default: all."),
    ] = None,
    out: Annotated[
        str | None,
        typer.Option(
            metavar="DIR",
            help="Where to write. Default: figures/ in the RUN's folder; here, for several.",
        ),
    ] = None,
    format: Annotated[
        str, typer.Option(metavar="NAME,NAME", help="File formats: png, svg, pdf.")
    ] = "png,svg",
    with_published: Annotated[
        bool,
        typer.Option(
            "--with-published", help="Lay published measurements over speedup-vs-alpha, hollow."
        ),
    ] = False,
    list_figures: Annotated[
        bool,
        typer.Option(
            "--list", callback=_list_figures, is_eager=True, help="List the figures, and end."
        ),
    ] = False,
) -> None:
    """Draw a run: theory and measurement together, and what lies behind the speedup.

    Of all figures those are drawn that the run has data for; for the others a note says what is
    missing. Prints the path of every file written. Several runs share each figure, so that two
    machines or two targets can be compared.
    """
    formats = _formats(format)
    if out is not None and not out.strip():
        raise SpecbenchError(f"--out {out!r} is no folder", "Write --out . for this one")

    from specbench import registry

    chosen = list(dict.fromkeys(figure or ["all"]))
    names = registry.names("plots") if chosen == ["all"] else chosen
    for name in names:
        registry.path("plots", name)  # an unknown name is refused before anything is read

    from specbench.cli._drawing import DrawingProcesses, save
    from specbench.records.store import load_run

    runs = [load_run(path) for path in run]
    with DrawingProcesses(len(names)) as processes:  # they get ready while the rest is read
        from specbench.analysis.fit import fit_run
        from specbench.cli._output import print_notes

        fits = [fit_run(loaded) for loaded in runs]
        frames = _frames(runs, fits, with_published)
        drawn, impossible = processes.pictures(names, frames, formats)
    default = fits[0].path / "figures" if len(fits) == 1 else Path("figures")
    folder = Path(out) if out is not None else default
    if impossible and (chosen != ["all"] or not drawn):  # of all, those that can are drawn
        raise next(iter(impossible.values()))
    for name, files in drawn.items():
        for path in save(files, folder, name):
            print(path)
    print_notes(error.message for error in impossible.values())
    if with_published and "speedup-vs-alpha" not in drawn:
        print_notes(["published measurements are laid over speedup-vs-alpha only"])
    print_notes(note for fit in fits for note in fit.warnings)


def _frames(
    runs: Sequence[Run], fits: Sequence[RunFit], with_published: bool
) -> dict[str, pd.DataFrame]:
    """What figures are drawn from, of all runs together."""
    from specbench.analysis.shown.frame import points_frame, published_frame
    from specbench.analysis.shown.more_frames import forwards_frame, positions_frame

    clash = len({fit.name for fit in fits}) < len(fits)
    titles = [str(fit.path) if clash else fit.name for fit in fits]
    parts = {
        "points": map(points_frame, fits, titles),
        "positions": map(positions_frame, fits, titles),
        "forwards": map(forwards_frame, runs, fits, titles),
    }
    frames = {name: _stacked(list(found)) for name, found in parts.items()}
    if with_published:
        frames["published"] = published_frame()
    return frames


def _stacked(frames: list[pd.DataFrame]) -> pd.DataFrame:
    """The frames of several runs as one; those without rows add nothing."""
    import pandas as pd

    filled = [frame for frame in frames if len(frame)]
    return pd.concat(filled, ignore_index=True) if filled else frames[0]


def _formats(text: str) -> list[str]:
    formats = list(dict.fromkeys(part.strip().lower() for part in text.split(",") if part.strip()))
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats:
        raise SpecbenchError(
            f"unknown file format {(unknown or [text])[0]!r}", f"Known: {', '.join(FORMATS)}"
        )
    return formats
