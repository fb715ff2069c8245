"""The report in a real browser: nothing asked for, nothing wider than the page, nothing lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from specbench.records.importing import read
from specbench.records.importing.cells import Given
from specbench.records.importing.folder import write
from specbench.records.importing.pairing import add_speedups
from specbench.records.store import load_run
from specbench.report.document import build
from tests import foreign
from tests.browser.browser import Browser
from tests.simulate import SimulatedDrafter, simulate_run

pytestmark = pytest.mark.browser

EXAMPLE = Path(__file__).resolve().parents[2] / "results" / "example"
HOSTILE = "<script>window.owned = 1</script><img src=x onerror='window.owned = 1'>"
HOSTILE_DRAFTERS = {
    "ngram": SimulatedDrafter(0.7, 0.01),
    f"model:{HOSTILE}": SimulatedDrafter(0.5, 0.1),
}
KINDS = ("example", "hostile", "failed", "imported")
WIDTHS = (360, 1280)

OPEN_ALL = "document.querySelectorAll('details').forEach(one => one.open = true);"
TOO_WIDE = """
const inBox = one => one.closest('.scroll') !== null && !one.classList.contains('scroll');
return [...document.querySelectorAll('body *')]
  .filter(one => !inBox(one) && one.getBoundingClientRect().right > innerWidth + 0.5)
  .map(one => one.tagName + '.' + one.className + ' ' + one.textContent.slice(0, 60));
"""
STUCK = """
return [...document.querySelectorAll('table, svg, pre code')].filter(one => {
  const box = one.closest('.scroll');
  if (box === null) return true;
  if (box.scrollWidth <= box.clientWidth) return false;
  if (!['auto', 'scroll'].includes(getComputedStyle(box).overflowX)) return true;
  box.scrollLeft = 1e6;
  const moved = box.scrollLeft > 0;
  box.scrollLeft = 0;
  return !moved;
}).map(one => one.tagName + ' ' + one.textContent.slice(0, 60));
"""
LOST = """
return [...document.querySelectorAll('a[href], use')]
  .map(one => one.getAttribute('href') || one.getAttribute('xlink:href'))
  .filter(link => !link.startsWith('#') || document.getElementById(link.slice(1)) === null);
"""
SIZES = """
return [...document.querySelectorAll('svg')].map(one => {
  const box = one.getBoundingClientRect();
  return [box.width, box.height];
});
"""
FAINT = """
const parsed = text => text.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
  .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
const ground = one => {
  for (let at = one; at; at = at.parentElement) {
    const colour = parsed(getComputedStyle(at).backgroundColor);
    if (colour.length < 4 || colour[3] > 0) return colour;
  }
  return [255, 255, 255];
};
return [...document.querySelectorAll('body *:not(svg, svg *)')]
  .filter(one => [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim()))
  .filter(one => {
    const lights = [light(parsed(getComputedStyle(one).color)), light(ground(one))];
    const pair = lights.sort((a, b) => b - a);
    return (pair[0] + 0.05) / (pair[1] + 0.05) < 4.5;
  }).map(one => one.tagName + '.' + one.className);
"""


class Reports:
    """A report of each kind of run, made when first asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __getitem__(self, kind: str) -> Path:
        file = self._folder / f"{kind}.html"
        if not file.exists():
            run: Path = getattr(self, f"_{kind}")()
            file.write_text(build(load_run(run)), encoding="utf-8")
        return file

    def _example(self) -> Path:
        return EXAMPLE

    def _hostile(self) -> Path:
        return simulate_run(
            self._folder / "hostile", HOSTILE_DRAFTERS, gammas=(1, 2, 4), target=HOSTILE
        )

    def _failed(self) -> Path:
        failed = [(name, 1) for name in HOSTILE_DRAFTERS]
        folder = self._folder / "failed"
        return simulate_run(folder, HOSTILE_DRAFTERS, gammas=(1,), failed=failed, baseline=False)

    def _imported(self) -> Path:
        files = [
            foreign.write(self._folder / "plain.json", foreign.vllm()),
            foreign.write(self._folder / "spec.json", foreign.vllm_speculative()),
        ]
        given = Given(drafter="eagle", task="chat")
        name, sources, cells = read(files, None, given)
        add_speedups(cells)
        write(self._folder / "imported", name, sources, cells, given, notes=[])
        return self._folder / "imported"


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    return Reports(tmp_path_factory.mktemp("reports"))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_asked_for_and_nothing_overflows(
    browser: Browser, reports: Reports, kind: str, width: int
) -> None:
    seen = browser.open(reports[kind], width)
    assert seen.console == []
    assert seen.requests == []
    for unfold in ("", OPEN_ALL):
        browser.ask(unfold)
        assert browser.ask("return innerWidth") == width
        assert browser.ask("return document.documentElement.scrollWidth") <= width
        assert browser.ask(TOO_WIDE) == []
        assert browser.ask(STUCK) == []


def test_wide_tables_scroll_on_a_phone(browser: Browser, reports: Reports) -> None:
    browser.open(reports["example"], 360)
    boxes = "[...document.querySelectorAll('.scroll')]"
    wide = browser.ask(f"return {boxes}.filter(box => box.scrollWidth > box.clientWidth).length")
    assert wide >= 5


@pytest.mark.parametrize("kind", KINDS)
def test_links_lead_somewhere_and_figures_have_size(
    browser: Browser, reports: Reports, kind: str
) -> None:
    browser.open(reports[kind], 1280)
    assert browser.ask(LOST) == []
    sizes = browser.ask(SIZES)
    assert len(sizes) >= {"example": 8, "hostile": 7, "failed": 0, "imported": 2}[kind]
    assert all(width > 300 and height > 150 for width, height in sizes)


def test_names_are_never_run(browser: Browser, reports: Reports) -> None:
    for kind in ("hostile", "failed"):
        browser.open(reports[kind], 1280)
        assert browser.ask("return document.scripts.length + document.images.length") == 0
        assert browser.ask("return window.owned") is None
        assert browser.ask("return document.body.innerText").count("<script>") > 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_legible_in_both_schemes(browser: Browser, reports: Reports, scheme: str) -> None:
    browser.open(reports["example"], 1280, scheme)
    browser.ask(OPEN_ALL)
    assert browser.ask(FAINT) == []
    dark = browser.ask("return getComputedStyle(document.body).backgroundColor")
    assert (dark == "rgb(22, 22, 24)") == (scheme == "dark")


def test_the_answer_is_in_view_at_once(browser: Browser, reports: Reports) -> None:
    for width in WIDTHS:
        browser.open(reports["example"], width)
        box = "document.querySelector('.answer').getBoundingClientRect()"
        assert browser.ask(f"return {box}.top") < 300
