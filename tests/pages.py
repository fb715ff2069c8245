"""An HTML page taken apart, without a browser: its elements, its links, its text.

It refuses what browsers repair in silence: a tag that closes another one, an id that stands twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"meta", "link", "br", "hr", "img", "input", "wbr"}


@dataclass
class Element:
    """One element with all that is in it."""

    tag: str
    attributes: dict[str, str]
    children: list[Element | str] = field(default_factory=list)

    def walk(self) -> Iterator[Element]:
        """This element and all below it, in the order of the page."""
        yield self
        for child in self.children:
            if isinstance(child, Element):
                yield from child.walk()

    def all(self, tag: str, **wanted: str) -> list[Element]:
        """Elements of a tag whose attributes have these values (``class_`` for class)."""
        names = {key.rstrip("_").replace("_", "-"): value for key, value in wanted.items()}
        return [
            element
            for element in self.walk()
            if element.tag == tag
            and all(element.attributes.get(name) == value for name, value in names.items())
        ]

    @property
    def text(self) -> str:
        """All its text with single spaces, styles left out."""
        if self.tag == "style":
            return ""
        parts = [child if isinstance(child, str) else child.text for child in self.children]
        return " ".join(" ".join(parts).split())


class _Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Element("page", {})
        self._open = [self.page]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), f"<{tag}> has an attribute twice: {names}"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self._open[-1].children.append(element)
        if tag not in _VOID:
            self._open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].children.append(data)

    def close(self) -> None:
        super().close()
        assert self._open == [self.page], f"<{self._open[-1].tag}> is never closed"


def parse(html: str) -> Element:
    """The page; its one element is ``html``.

    Raises:
        AssertionError: tags do not match, or an id stands twice.
    """
    parser = _Parser()
    parser.feed(html)
    parser.close()
    ids = [element.attributes["id"] for element in parser.page.walk() if "id" in element.attributes]
    twice = {name for name in ids if ids.count(name) > 1}
    assert not twice, f"ids that stand twice: {sorted(twice)[:5]}"
    return parser.page


def table(page: Element, caption: str) -> list[list[str]]:
    """The rows of the table with that caption, as text; without headings of row groups."""
    found = [one for one in page.all("table") if one.all("caption")[0].text == caption]
    assert len(found) == 1, f"{len(found)} tables called {caption!r}"
    rows = [row for row in found[0].all("tr") if row.attributes.get("class") != "group"]
    return [[cell.text for cell in row.walk() if cell.tag in ("th", "td")] for row in rows]
