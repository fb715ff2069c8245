"""Figures inside a document: nothing of one may reach another, or the page."""

from __future__ import annotations

import pytest

from specbench.plots import _rows, base, speedup_vs_gamma
from specbench.report.pictures import inline_svg, pictures
from tests import pages
from tests.unit.plots import frames


def drawn(name: str) -> str:
    points = frames.points(drafters=("ngram", "model:a"), gammas=(1, 2, 4))
    return str(inline_svg(speedup_vs_gamma.draw(points), name))


def test_names_are_the_figures_own() -> None:
    both = drawn("one") + drawn("two")
    page = pages.parse(both)
    names = [e.attributes["id"] for e in page.walk() if "id" in e.attributes]
    assert len(names) > 50
    assert all(name.startswith(("one-", "two-")) for name in names)
    first, second = page.all("svg")
    for svg, prefix in ((first, "#one-"), (second, "#two-")):
        links = [e.attributes["xlink:href"] for e in svg.walk() if "xlink:href" in e.attributes]
        assert links
        assert all(link.startswith(prefix) for link in links)


def test_only_the_drawing_is_left() -> None:
    text = drawn("one")
    assert text.startswith("<svg ")
    for gone in ("<style", "<metadata", "<!--", "<?xml", "DOCTYPE"):
        assert gone not in text
    head = text.partition(">")[0]
    assert "viewBox=" in head
    assert "width=" not in head
    assert "height=" not in head


def test_what_cannot_be_drawn_is_said() -> None:
    points = frames.points(gammas=(1, 2))
    found = pictures(["speedup-vs-gamma", "batch-crossover"], {"points": points})
    assert [part.kind for part in found] == ["picture", "bullets"]
    assert "batch-crossover" in found[1].items[0].text


def test_a_picture_is_as_wide_as_it_was_drawn() -> None:
    points = frames.points(gammas=(1, 2))
    (picture,) = pictures(["speedup-vs-gamma"], {"points": points})
    width = speedup_vs_gamma.draw(points).get_figwidth()
    assert picture.width == round(96 * width)
    assert "speedup-vs-gamma" in picture.alt
    assert _rows.short_name(str(points["target"].iloc[0])) in picture.alt


@pytest.mark.parametrize("figure", ["speedup-vs-gamma", "speedup-vs-alpha"])
def test_dollar_signs_in_names_are_no_formula(figure: str) -> None:
    points = frames.points(drafters=("ngram", "model:a$b_$c^{$\\frac$"), gammas=(1, 2))
    assert inline_svg(base.drawn(figure, {"points": points}), "one").startswith("<svg ")
