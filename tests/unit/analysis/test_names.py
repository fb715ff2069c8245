from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis.names import broken


@given(st.text(alphabet="ab/:,- .=", min_size=1), st.integers(1, 30))
def test_lines_fit_and_nothing_but_spaces_is_lost(name: str, width: int) -> None:
    lines = broken(name, width)
    assert all(len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == name.replace(" ", "")


def test_breaks_stand_where_a_reader_would_put_them() -> None:
    assert broken("model:drafters/SmolLM2-21M", 13) == ["model:", "drafters/", "SmolLM2-21M"]
    assert broken("ngram", 13) == ["ngram"]
    assert broken("abcdefgh", 3) == ["abc", "def", "gh"]
