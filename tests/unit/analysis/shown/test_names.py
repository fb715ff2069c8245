from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specbench.analysis.shown.names import broken, cut_in_middle, gamma_label, short_names


@given(st.text(alphabet="ab/:,- .=", min_size=1), st.integers(1, 30))
def test_lines_fit_and_nothing_but_spaces_is_lost(name: str, width: int) -> None:
    lines = broken(name, width)
    assert all(len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == name.replace(" ", "")


def test_breaks_stand_where_a_reader_would_put_them() -> None:
    assert broken("model:drafters/SmolLM2-21M", 13) == ["model:", "drafters/", "SmolLM2-21M"]
    assert broken("ngram", 13) == ["ngram"]
    assert broken("abcdefgh", 3) == ["abc", "def", "gh"]


def test_paths_are_shortened_where_that_still_tells_them_apart() -> None:
    names = [
        "model:/data/a/one,gamma=auto",
        "model:/data/b/two",
        "model:/data/c/two",
        "medusa:~/m,tree=./trees/wide.json",
        "synthetic:0.8,cost=model:/data/d/three",
        "model:ORG/NAME",
        "ngram",
    ]
    assert list(short_names(names).values()) == [
        "model:one,gamma=auto",
        "model:/data/b/two",
        "model:/data/c/two",
        "medusa:m,tree=wide.json",
        "synthetic:0.8,cost=model:three",
        "model:ORG/NAME",
        "ngram",
    ]
    assert list(short_names(names)) == names


@given(st.text(), st.integers(0, 40))
def test_a_cut_name_fits_and_keeps_its_ends(name: str, width: int) -> None:
    cut = cut_in_middle(name, width)
    assert len(cut) == min(len(name), width)
    if width > 2:
        assert cut[0:1] == name[0:1]
        assert cut[-1:] == name[-1:]


def test_gamma_says_what_it_is() -> None:
    assert gamma_label("tree", 4, 4.0) == "4"
    assert gamma_label("adaptive", 8) == "≤8"
