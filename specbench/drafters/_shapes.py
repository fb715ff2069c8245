"""Trees of a fixed form, for drafters whose levels do not see each other's tokens (Medusa).

A node is named by its path: (0, 2) is the third best guess of the second level below the best guess
of the first. Guesses of a level are the same whatever stands above them, so the form can be fixed
before anything is drafted (Cai et al. 2024, arXiv 2401.10774). ``tree=N`` takes the form that is
best if guesses are right as often as CHANCES says. ``tree=FILE`` reads one: a JSON list of paths,
or a path per line, its numbers apart by commas or spaces.

>>> best_shape(2, 4).paths
((0,), (1,), (0, 0), (0, 1))
"""

from __future__ import annotations

import functools
import heapq
import json
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from specbench.drafters._tree import CHAIN, refuse_huge
from specbench.drafters.base import Draft, Session
from specbench.drafters.spec import DrafterSpec
from specbench.errors import SpecbenchError
from specbench.measure.transfer import to_device

NodePath = tuple[int, ...]

_MOST_DIGITS = 10

CHANCES = (0.6, 0.12, 0.06, 0.035, 0.025, 0.018, 0.014, 0.011, 0.009, 0.008)
"""How often the best, second best, ... guess is taken to be right: 60% and 84% for the best five,
as is reported of Medusa's first head. Only the order of the products of these matters."""


@dataclass(frozen=True)
class Shape:
    """The form of a tree: its nodes' paths without the root, level by level."""

    paths: tuple[NodePath, ...]

    @classmethod
    def of(cls, paths: Iterable[NodePath]) -> Shape:
        return cls(tuple(sorted(paths, key=lambda path: (len(path), path))))

    @property
    def levels(self) -> int:
        return max(map(len, self.paths))

    @property
    def siblings(self) -> int:
        """The most children that a node has."""
        return max(self.parents.count(parent) for parent in set(self.parents))

    @property
    def parents(self) -> list[int]:
        """[N] node number of each one's parent, the root being 0 and the first path 1."""
        numbers = {(): 0} | {path: number for number, path in enumerate(self.paths, start=1)}
        return [numbers[path[:-1]] for path in self.paths]

    def cut(self, levels: int, guesses: float = math.inf) -> Shape:
        """What is left with fewer levels or guesses per level; the best guess if nothing is."""
        left = tuple(p for p in self.paths if len(p) <= levels and max(p) < guesses)
        return Shape(left or ((0,),))


@functools.cache
def best_shape(levels: int, num_nodes: int) -> Shape:
    """The most probable nodes by CHANCES; the best guesses of all levels are always among them.

    Args:
        levels: below the root.
        num_nodes: the root not counted, at least ``levels``.
    """
    chosen = {(0,) * level for level in range(1, levels + 1)}
    frontier: list[tuple[float, NodePath]] = [(-CHANCES[0], (0,))]
    while frontier and len(chosen) < num_nodes:
        _, path = heapq.heappop(frontier)
        chosen.add(path)
        *above, rank = path
        following = [(*above, rank + 1)] if rank + 1 < len(CHANCES) else []
        following += [(*path, 0)] if len(path) < levels else []
        for other in following:
            chance = math.prod(CHANCES[rank] for rank in other)
            heapq.heappush(frontier, (-chance, other))
    return Shape.of(chosen)


@functools.cache
def read_shape(file: Path) -> Shape:
    """A form from a file.

    Raises:
        SpecbenchError: it can't be read, or its paths are no tree.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not a text"
        raise SpecbenchError(f"cannot read tree {file}: {reason}") from error
    paths = _json_paths(file, text) if text.lstrip().startswith("[") else _line_paths(file, text)
    if not paths:
        raise SpecbenchError(f"tree {file} has no paths", "Write one per line, for example 0,1")
    known, before = {(), *paths}, set[NodePath]()
    for path in paths:
        if not path or path in before:
            raise SpecbenchError(f"tree {file}: path {list(path)} is empty or given twice")
        if path[:-1] not in known:
            raise SpecbenchError(
                f"tree {file}: path {list(path)} has no parent", f"Add {list(path[:-1])}"
            )
        before.add(path)
    return Shape.of(paths)


def shape_of(spec: DrafterSpec, gamma: int) -> Shape | None:
    """The form that ``tree=`` means at a draft length; None for a chain, the default.

    Raises:
        SpecbenchError: not a number of nodes that has room for gamma levels, nor a good file.
    """
    value = spec.options.get("tree", CHAIN)
    if value == CHAIN:
        return None
    reason = no_shape(spec, gamma)
    if reason is not None:
        raise SpecbenchError(f"drafter {spec.text!r} at gamma {gamma}: {reason}")
    if re.fullmatch(r"\d+", value):
        return best_shape(gamma, int(value) - 1)
    return read_shape(Path(value).expanduser()).cut(gamma)


def no_shape(spec: DrafterSpec, gamma: int) -> str | None:
    """Why ``tree=`` has no form with gamma levels, or None.

    Raises:
        SpecbenchError: its file can't be read.
    """
    value = spec.options.get("tree", CHAIN)
    if value == CHAIN:
        return None
    if re.fullmatch(r"\d+", value):
        refuse_huge(spec, spec.integer("tree", 2, minimum=2))
        room = int(value) > gamma
        return None if room else f"tree={value} has no room for {gamma} levels below the root"
    if not value:
        raise SpecbenchError(f"drafter {spec.text!r}: tree= is empty", "Write tree=N or tree=FILE")
    shape = read_shape(Path(value).expanduser())
    refuse_huge(spec, len(shape.paths) + 1)
    levels = shape.levels
    return None if levels >= gamma else f"tree {value} has {levels} levels"


def draft_shape(
    logits: Tensor, shape: Shape, session: Session, vocab_size: int, ids: Tensor | None = None
) -> Draft:
    """Fill a form with the best guesses of each level.

    Args:
        logits: [B, L, V_drafter], one level each; the form has L levels.
        shape: the form.
        session: the cell's rows.
        vocab_size: the target's V; ids that only the drafter's (padded) head has are not proposed.
        ids: [V_drafter] the target's id of each of the drafter's, or None: they are the same.
    """
    logits = logits[..., :vocab_size]
    shape = shape.cut(logits.shape[1], logits.shape[2])
    guesses = logits.topk(1 + max(map(max, shape.paths)), dim=-1).indices  # [B, L, k]
    form = [(len(path) - 1, path[-1]) for path in shape.paths]
    levels, ranks = to_device(form, logits.device).unbind(dim=1)
    tokens = guesses[:, levels, ranks]  # [B, N]
    parents = to_device(shape.parents, logits.device).expand_as(tokens)
    active = [row.active for row in session.rows.slots]
    return Draft(
        tokens if ids is None else ids[tokens],
        [len(shape.paths) * on for on in active],
        parents=parents,
        levels=[shape.levels * on for on in active],
        siblings=shape.siblings,
    )


def _json_paths(file: Path, text: str) -> list[NodePath]:
    try:
        listed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SpecbenchError(f"tree {file} is not JSON: {error}") from None
    for path in listed:
        good = isinstance(path, list) and all(type(rank) is int and rank >= 0 for rank in path)
        if not good:
            raise SpecbenchError(
                f"tree {file}: {json.dumps(path)} is no path", "Write a list of ranks, from 0 on"
            )
    return [tuple(path) for path in listed]


def _line_paths(file: Path, text: str) -> list[NodePath]:
    paths = []
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            paths.append(_one_path(file, number, re.split(r"[,\s]+", line.strip())))
    return paths


def _one_path(file: Path, number: int, ranks: Sequence[str]) -> NodePath:
    if not all(rank.isdecimal() and len(rank) < _MOST_DIGITS for rank in ranks):
        raise SpecbenchError(
            f"tree {file} line {number}: {' '.join(ranks)!r} is no path",
            "Write ranks from 0 on, for example 0,1",
        )
    return tuple(int(rank) for rank in ranks)
