"""The families that run are those that are tested, and the document's table says just that."""

from __future__ import annotations

import pytest

from specbench.models import families
from specbench.models.families import Refused, Runs, behaviour_of
from tests.families import DOCUMENT, FAMILIES, document


def test_what_runs_is_what_is_tested():
    tested = [family.kind for family in FAMILIES]
    listed = [kind for kinds in families.FAMILIES.values() for kind in kinds]
    assert len(tested) == len(set(tested))
    assert sorted(tested) == sorted(listed)


def test_every_behaviour_has_a_family():
    assert {family.behaviour for family in FAMILIES} == set(Runs)


def test_no_family_runs_and_is_refused():
    refused = {kind for kinds in families.REFUSED.values() for kind in kinds}
    assert not refused & {family.kind for family in FAMILIES}
    assert all(isinstance(behaviour_of(kind), Refused) for kind in refused)
    assert behaviour_of("no such family") is Refused.UNKNOWN


def test_the_documents_table_is_the_tests():
    """If not: python -m tests.families."""
    assert DOCUMENT.read_text(encoding="utf-8") == document()


def test_a_family_less_in_the_tests_is_seen(monkeypatch):
    monkeypatch.setattr("tests.families.FAMILIES", FAMILIES[1:])
    with pytest.raises(AssertionError):
        test_the_documents_table_is_the_tests()
