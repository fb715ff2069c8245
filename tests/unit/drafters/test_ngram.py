"""Prompt lookup against a definition that searches the whole text each time."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from specbench.drafters.base import Session
from specbench.drafters.ngram import NgramDrafter
from specbench.models.cache import RowCache
from specbench.models.rows import Row, Rows
from specbench.sampling.warp import SamplingParams


def started(drafter: NgramDrafter, texts: list[list[int] | None]) -> NgramDrafter:
    """The drafter with one row per text; None is an empty slot."""
    rows = Rows(len(texts), 64, torch.device("cpu"))
    drafter.start(Session(rows, RowCache(len(texts), 64), SamplingParams(), 64, 4, 0, 0))
    for slot, text in enumerate(texts):
        if text is not None:
            rows.slots[slot] = Row(list(text), 1, f"p{slot}", active=True)
            drafter.begin(slot, {})
    return drafter


def draft(text: list[int], gamma: int = 4, **options) -> list[int]:
    proposed = started(NgramDrafter(**options), [text]).propose(gamma)
    return proposed.tokens[0, : proposed.lengths[0]].tolist()


def test_the_longest_suffix_comes_first():
    text = [1, 2, 3, 9, 9, 3, 7, 7, 2, 3]
    assert draft(text) == [9, 9, 3, 7]
    assert draft(text, max_size=1) == [7, 7, 2, 3]


def test_recent_and_first_occurrence():
    text = [5, 1, 1, 5, 2, 2, 5]
    assert draft(text, gamma=2) == [2, 2]
    assert draft(text, gamma=2, match="first") == [1, 1]


def test_a_repetition_is_continued_beyond_the_end_of_the_text():
    assert draft([8, 1, 2, 1, 2], gamma=5) == [1, 2, 1, 2, 1]
    assert draft([4, 4], gamma=3) == [4, 4, 4]


def test_the_first_match_stops_at_the_end_of_the_text():
    assert draft([8, 1, 2, 1, 2], gamma=5, match="first") == [1, 2]
    assert draft([4, 4], gamma=3, match="first") == [4]


def test_nothing_found_drafts_nothing():
    assert draft([1, 2, 3]) == []
    assert draft([1]) == []
    assert draft([1, 2, 1], min_size=2) == []


def search(text: list[int], gamma: int, low: int, high: int, match: str) -> list[int]:
    """The definition: what followed the longest suffix that occurs earlier."""
    for size in range(high, low - 1, -1):
        if size >= len(text):
            continue
        ends = [end for end in range(size, len(text)) if text[end - size : end] == text[-size:]]
        if ends:
            start = ends[0] if match == "first" else ends[-1]
            longer = list(text)
            for index in range(gamma):
                if start + index >= len(text) and match == "first":
                    break
                longer.append(longer[start + index])
            return longer[len(text) :]
    return []


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=6), min_size=1, max_size=6),
    st.integers(1, 3),
    st.integers(0, 2),
    st.sampled_from(["recent", "first"]),
    st.integers(1, 6),
)
def test_growing_text_is_looked_up_as_if_searched_anew(pieces, low, more, match, gamma):
    """The index is extended by what was committed, piece by piece."""
    drafter = started(NgramDrafter(low, low + more, match), [pieces[0]])
    for index, _ in enumerate(pieces):
        if index:
            drafter.rows[0].tokens.extend(pieces[index])
        text = drafter.rows[0].tokens
        proposed = drafter.propose(gamma)
        found = proposed.tokens[0, : proposed.lengths[0]].tolist()
        assert found == search(text, gamma, low, low + more, match)


def test_rows_of_different_drafts_are_padded_and_empty_slots_draft_nothing():
    drafter = started(NgramDrafter(match="first"), [[4, 4], None, [1, 2, 3, 1, 2, 3], [7, 8]])
    proposed = drafter.propose(3)
    assert proposed.lengths == [1, 0, 3, 0]
    assert proposed.tokens.shape == (4, 3)
    assert proposed.tokens[2].tolist() == [1, 2, 3]
    assert proposed.probs is None


def test_no_row_finds_anything():
    proposed = started(NgramDrafter(), [[1, 2], None]).propose(4)
    assert proposed.tokens.shape == (2, 0)
    assert proposed.tokens.dtype == torch.long
    assert proposed.lengths == [0, 0]


def test_a_new_prompt_in_a_slot_forgets_the_old_one():
    drafter = started(NgramDrafter(), [[6, 7, 6]])
    assert drafter.propose(1).tokens.tolist() == [[7]]
    drafter.rows.slots[0] = Row([1, 2, 6], 1, "next", active=True)
    drafter.begin(0, {})
    assert drafter.propose(1).lengths == [0]


@pytest.mark.parametrize("gamma", [1, 2, 7])
def test_never_longer_than_gamma(gamma):
    assert len(draft([1, 2, 3, 1, 2, 3], gamma)) == gamma
