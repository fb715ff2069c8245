"""The page as a whole: that it needs nothing else, escapes everything, and is there for any run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from specbench import registry
from specbench.records.schema import Cell, CellRecord, Manifest
from specbench.records.store import RunWriter, load_run
from specbench.report.document import build
from tests import pages
from tests.simulate import SimulatedDrafter, simulate_run
from tests.unit.report.undrawn import page_of

SECTIONS = [registry.load("sections", name) for name in registry.names("sections")]
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;{{ 7 * 7 }}$x^{$"
NOT_NUMBERS = re.compile(r"\b(nan|inf|None|null|undefined)\b")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with something for nearly every section."""
    drafters = {
        "ngram": SimulatedDrafter(0.7, 0.01),
        "model:drafters/small": SimulatedDrafter(0.8, 0.2),
        "eagle,tree=6": SimulatedDrafter(0.6, 0.05, nodes=6),
        "ngram,gamma=auto": SimulatedDrafter(0.7, 0.01, shortest=1),
        "synthetic:0.9": SimulatedDrafter(0.9, 0.0),
    }
    return simulate_run(
        tmp_path_factory.mktemp("runs") / "rich",
        drafters,
        gammas=(1, 2, 4),
        temperatures=(0.0, 1.0),
        prompts=8,
        tokens=24,
        cost={"weight_bytes": 1e9, "kv_bytes_per_token": 1e5},
        machine={"bandwidth_bytes_per_s": 1e11, "matmul_flops_per_s": 1e12},
        parameters=500_000_000,
    )


@pytest.fixture(scope="module")
def html(folder: Path) -> str:
    return build(load_run(folder))


@pytest.fixture(scope="module")
def page(html: str) -> pages.Element:
    return pages.parse(html)


def test_every_section_keeps_the_contract() -> None:
    orders = [module.ORDER for module in SECTIONS]
    figures = [figure for module in SECTIONS for figure in module.FIGURES]
    assert len(set(orders)) == len(orders) >= 10
    assert len(set(figures)) == len(figures)
    assert set(figures) <= set(registry.names("plots"))
    for module in SECTIONS:
        assert module.TITLE
        assert (module.__doc__ or "").partition("\n")[0].endswith(".")


def test_the_answer_comes_first_and_the_contents_lead_to_all_the_rest(page: pages.Element) -> None:
    ids = [section.attributes["id"] for section in page.all("section")]
    assert ids[:2] == ["answer", "warnings"]
    (nav,) = page.all("nav")
    assert [link.attributes["href"] for link in nav.all("a")] == [f"#{name}" for name in ids[2:]]
    assert {"speedup", "serving", "costs", "acceptance", "prediction", "limits", "claims"} <= set(
        ids
    )
    assert {"published", "cells", "method", "record"} <= set(ids)
    assert len(page.all("p", class_="answer")) == 1


def test_links_lead_somewhere(page: pages.Element) -> None:
    ids = {element.attributes.get("id") for element in page.walk()}
    references = [
        value
        for element in page.walk()
        for name, value in element.attributes.items()
        if name in ("href", "xlink:href", "src") and not value.startswith("data:")
    ]
    assert references
    assert all(value[:1] == "#" and value[1:] in ids for value in references)
    used = set(re.findall(r"url\(#([^)]+)\)", str([e.attributes for e in page.walk()])))
    assert used
    assert used <= ids


def test_nothing_is_loaded_or_run(html: str, page: pages.Element) -> None:
    names = {element.tag for element in page.walk()}
    assert not names & {"script", "iframe", "object", "embed", "img", "audio", "video", "form"}
    assert [link.attributes["href"] for link in page.all("link")] == ["data:,"]
    for element in page.walk():
        handlers = [name for name in element.attributes if name.startswith("on")]
        assert not handlers, element.tag
        outside = {
            name: value
            for name, value in element.attributes.items()
            if re.search(r"(https?:)?//", value) and not name.startswith("xmlns")
        }
        assert not outside, element.tag
    assert "@import" not in html
    assert "url(http" not in html
    policy = page.all("meta", http_equiv="Content-Security-Policy")[0].attributes["content"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def test_the_same_run_gives_the_same_bytes(tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.01)}
    run = load_run(simulate_run(tmp_path / "run", drafters, gammas=(1,), prompts=6, tokens=16))
    assert build(run) == build(run)


def test_every_figure_that_can_be_drawn_is_there_with_a_text(page: pages.Element) -> None:
    shown = [box.attributes["aria-label"] for box in page.all("div", role="img")]
    names = [text.removeprefix("Figure ").partition(".")[0] for text in shown]
    assert sorted([*names, "batch-crossover"]) == registry.names("plots")  # one batch size
    assert len(page.all("svg")) == len(names)
    assert all("tables of this report" in text and len(text) > 80 for text in shown)


def test_a_table_names_its_columns_and_its_rows(page: pages.Element) -> None:
    for table in page.all("table"):
        (head,) = table.all("thead")
        assert all(cell.attributes["scope"] == "col" for cell in head.all("th"))
        columns = len(head.all("th"))
        for row in table.all("tr")[1:]:
            if row.attributes.get("class") == "group":
                assert row.all("th")[0].attributes["colspan"] == str(columns)
            else:
                assert len(row.all("th")) == 1
                assert len(row.all("td")) == columns - 1


def test_no_missing_value_is_printed_as_one(page: pages.Element) -> None:
    assert not NOT_NUMBERS.findall(page.text)


def hostile_run(folder: Path) -> Path:
    """Names, tasks, errors and manifest fields that try to be markup."""
    manifest = Manifest(
        name=HOSTILE,
        command=HOSTILE,
        config={HOSTILE: HOSTILE},
        config_hash="x",
        target={"name": HOSTILE, "served_from": HOSTILE},
        device={"cpu": HOSTILE},
        tasks=[{"name": HOSTILE, "source": HOSTILE}],
        dropped=[{"cell": HOSTILE, "reason": HOSTILE}],
        warnings=[HOSTILE],
        packages={HOSTILE: HOSTILE},
    )
    key = {"target": HOSTILE, "task": HOSTILE, "temperature": 0.0, "batch_size": 1}
    with RunWriter.open(folder, manifest) as writer:
        cell = Cell(drafter=f"model:{HOSTILE}", gamma=1, **key)
        writer.write_cell(CellRecord.of(cell, status="failed", error=HOSTILE))
    return folder


def test_what_a_run_says_is_never_markup(tmp_path: Path) -> None:
    failed = page_of(hostile_run(tmp_path / "failed"))
    drafters = {f"ngram,x={HOSTILE}": SimulatedDrafter(0.7, 0.01)}
    options = {"gammas": (1,), "prompts": 6, "tokens": 16}
    named = simulate_run(tmp_path / "named", drafters, target=HOSTILE, tasks=(HOSTILE,), **options)
    with_figures = pages.parse(build(load_run(named)))
    for page, least in ((failed, 10), (with_figures, 10)):
        assert not page.all("script")
        assert not page.all("img")
        assert page.text.count(HOSTILE) >= least


def empty_run(folder: Path) -> Path:
    with RunWriter.open(folder, Manifest(name="empty", config_hash="x")):
        return folder


def failed_run(folder: Path) -> Path:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.01)}
    failed = [("ngram", 1), ("ngram", 2)]
    return simulate_run(folder, drafters, gammas=(1, 2), failed=failed, baseline=False)


def plain_run(folder: Path) -> Path:
    return simulate_run(folder, {}, prompts=6)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (empty_run, "No answer: .*holds no finished cell"),
        (failed_run, "No answer: no speculative cell of run finished: 2 of 2 cells failed"),
        (plain_run, "No answer: run holds baselines only, no drafter"),
    ],
)
def test_a_run_without_an_answer_says_why(tmp_path: Path, make, says: str) -> None:
    page = page_of(make(tmp_path / "run"))
    assert re.match(says, page.all("p", class_="answer")[0].text)
    ids = [section.attributes["id"] for section in page.all("section")]
    assert ids == ["answer", "warnings", "cells", "method", "record"]
    assert not NOT_NUMBERS.findall(page.text)


def test_a_run_without_a_baseline_has_acceptance_and_no_speedup(tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.01)}
    page = page_of(simulate_run(tmp_path / "run", drafters, baseline=False, prompts=6))
    answer = page.all("p", class_="answer")[0].text
    assert answer.startswith("No answer: no draft length can be recommended from run")
    assert "No baseline finished" in page.all("section", id="warnings")[0].text
    rows = pages.table(page, "Speedup, measured and predicted")
    assert [row[3:8] for row in rows[1:]] == [["-"] * 5] * 4
    fitted = pages.table(page, "Fitted over all γ")[1]
    assert fitted[1].startswith(("0.6", "0.7"))
    assert fitted[2:7] == ["-"] * 5
    assert not NOT_NUMBERS.findall(page.text)


def test_a_damaged_table_is_the_answer(folder: Path, tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.01)}
    run = simulate_run(tmp_path / "run", drafters, gammas=(1,), prompts=6)
    (file,) = (run / "rounds").glob("*ngram*")
    file.write_bytes(b"no parquet")
    answer = page_of(run).all("p", class_="answer")[0].text
    assert answer.startswith(f"No answer: {file} is damaged.")


def test_a_section_that_cannot_be_told_says_so_alone(tmp_path: Path) -> None:
    drafters = {"ngram": SimulatedDrafter(0.7, 0.01)}
    run = simulate_run(tmp_path / "run", drafters, gammas=(1,), prompts=6)
    (run / "diagnostics" / "uncertainty.json").write_text(json.dumps("wrong"))
    page = page_of(run)
    assert "uncertainty.json" in page.all("section", id="limits")[0].text
    assert page.all("section", id="claims")
