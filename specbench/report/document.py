"""From a run to one HTML document: every section in its order, set by the templates.

The document needs nothing but itself: its style lies in it, figures are part of it, it has no
script, and its first lines forbid a browser to load or run anything else. Everything that comes
from a run is escaped. The same run gives the same document, byte by byte.

>>> html = build(load_run("results/main"))                                      # doctest: +SKIP
"""

from __future__ import annotations

from types import ModuleType

from jinja2 import Environment, PackageLoader, StrictUndefined

from specbench import registry
from specbench.errors import SpecbenchError
from specbench.records.reading import Run
from specbench.report.material import Material
from specbench.report.parts import Paragraph, Section

OPENING = 20
"""Sections whose ORDER is below this come before the list of contents."""


def build(run: Run) -> str:
    """The whole report of a run.

    A run without a finished cell has one too, which says so.
    """
    material = Material.of(run)
    modules = {name: registry.load("sections", name) for name in registry.names("sections")}
    ordered = sorted(modules, key=lambda name: modules[name].ORDER)
    sections = {name: _section(name, modules[name], material) for name in ordered}
    kept = {name: section for name, section in sections.items() if section.parts}
    return (
        _environment()
        .get_template("report.html")
        .render(
            run=run.manifest.name,
            target=material.target,
            machine=material.machine,
            created=run.manifest.created,
            opening=[one for name, one in kept.items() if modules[name].ORDER < OPENING],
            evidence=[one for name, one in kept.items() if modules[name].ORDER >= OPENING],
        )
    )


def _section(name: str, module: ModuleType, material: Material) -> Section:
    try:
        parts = module.section(material)
    except SpecbenchError as error:
        parts = [Paragraph(f"{error}.", "warning")]
    return Section(name, module.TITLE, parts)


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("specbench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
