"""What a check says, what becomes of one that breaks, and what all of them promise."""

from __future__ import annotations

import pytest

from specbench import checkup
from specbench.checkup import CHECKS, Finding, examine, what_spoils
from specbench.checkup.finding import Check, check, fail, ok, warn
from specbench.checkup.machine import Machine
from tests.unit.checkup.worlds import World, one


def test_a_finding_gets_the_name_and_the_section_of_its_check(world: World):
    asked = check("here", "thing")(lambda machine: ok("fine", bytes=3))
    finding = one(asked, world.machine())
    assert (finding.section, finding.name, finding.verdict) == ("here", "thing", "ok")
    assert (finding.value, finding.facts) == ("fine", {"bytes": 3})


def test_several_findings_have_their_own_names_and_none_is_no_line(world: World):
    several = check("here", "things")(
        lambda machine: [ok("1", name="a"), fail("2", "do", name="b")]
    )
    assert [found.name for found in several.findings(world.machine())] == ["a", "b"]
    assert check("here", "nothing")(lambda machine: None).findings(world.machine()) == []


def test_a_check_that_breaks_is_a_warning_and_the_others_go_on(world: World):
    def break_down(machine: Machine) -> Finding:
        raise ValueError("no\nluck")

    checks = [check("here", "broken")(break_down), check("here", "whole")(lambda machine: ok("x"))]
    broken, whole = examine(world.machine(), checks)
    assert (broken.verdict, broken.value) == ("warn", "could not be looked at: no")
    assert broken.advice
    assert whole.verdict == "ok"


def test_a_sentence_stands_alone():
    finding = warn("12 °C", "Warm it", name="temperature")
    assert finding.sentence == "temperature: 12 °C. Warm it"
    assert ok("fine", name="x").sentence == "x: fine"


def test_checks_have_names_of_their_own_that_fit_the_column():
    names = [one_check.name for one_check in CHECKS]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 17
    assert len(names) >= 25


def test_what_spoils_asks_those_that_do_and_keeps_what_is_not_ok(monkeypatch: pytest.MonkeyPatch):
    asked: list[tuple[str, bool]] = []

    def declare(name: str, spoils: bool, finding: Finding) -> Check:
        def ask(machine: Machine) -> Finding:
            asked.append((name, machine.in_use))
            return finding

        return check("here", name, spoils=spoils)(ask)

    checks = (
        declare("quiet", True, ok("yes")),
        declare("shared", True, warn("by 41", "End it")),
        declare("pretty", False, warn("no", "Paint it")),
    )
    monkeypatch.setattr(checkup, "CHECKS", checks)
    assert what_spoils("cpu") == ["shared: by 41. End it"]
    assert asked == [("quiet", True), ("shared", True)]


def test_these_spoil_a_measurement():
    spoiling = {one_check.name for one_check in CHECKS if one_check.spoils}
    assert spoiling == {
        "GPU processes", "GPU memory", "throttling", "CPU quota", "CPU load", "memory",
    }  # fmt: skip
