"""Provenance: the commit is specbench's own, and absence is said, not invented."""

from __future__ import annotations

import json
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from specbench.records import provenance


def git(folder: Path, *words: str) -> str:
    names = ("-c", "user.name=Test", "-c", "user.email=test@example.invalid")
    result = subprocess.run(
        ["git", "-C", str(folder), *names, *words], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "code.py").write_text("a = 1\n")
    git(tmp_path, "add", "code.py")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    return tmp_path


def test_a_clean_checkout_gives_its_commit(checkout: Path):
    commit = git(checkout, "rev-parse", "HEAD")
    assert provenance.git_state(checkout) == {"commit": commit, "dirty": False}


def test_a_change_makes_it_dirty_an_untracked_file_does_not(checkout: Path):
    (checkout / "results.txt").write_text("x")
    assert provenance.git_state(checkout)["dirty"] is False
    (checkout / "code.py").write_text("a = 2\n")
    assert provenance.git_state(checkout)["dirty"] is True


def test_a_repository_around_an_installed_copy_is_not_ours(checkout: Path):
    installed = checkout / "venv" / "site-packages"
    installed.mkdir(parents=True)
    assert provenance.git_state(installed) is None


def test_no_repository_no_commit_and_no_git_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    assert provenance.git_state(tmp_path) is None
    git(tmp_path, "init", "--quiet")
    assert provenance.git_state(tmp_path) is None
    monkeypatch.setenv("PATH", "")
    assert provenance.git_state(tmp_path) is None


def test_versions_of_absent_packages_are_none():
    found = provenance.package_versions(("numpy", "no-such-package-at-all"))
    assert found["numpy"][0].isdigit()
    assert found["no-such-package-at-all"] is None
    assert "specbench" in found


def test_the_command_can_be_typed_again():
    words = ["/opt/venv/bin/specbench", "run", "--out", "my results"]
    assert provenance.command_line(words) == "specbench run --out 'my results'"
    assert provenance.command_line(["/src/specbench/__main__.py", "doctor"]) == "specbench doctor"


def test_the_moment_is_utc_to_the_second():
    before = datetime.now(UTC).replace(microsecond=0)
    moment = datetime.fromisoformat(provenance.utc_now())
    assert moment.utcoffset().total_seconds() == 0
    assert before <= moment <= datetime.now(UTC)
    assert moment.microsecond == 0


def test_everything_together_is_plain_json():
    collected = provenance.collect()
    assert json.loads(json.dumps(collected)) == collected
    assert set(collected) == {"command", "created", "git", "packages", "platform"}
