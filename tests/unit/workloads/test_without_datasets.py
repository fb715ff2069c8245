"""Without the package `datasets` everything but the hub's prompts works."""

from __future__ import annotations

import json
import subprocess
import sys

from tests.cli.conftest import ROOT

PROGRAM = """
import json, sys
sys.modules["datasets"] = None  # importing it raises ImportError
import specbench.backends.native, specbench.cli.run, specbench.sweep.runner
from specbench.workloads.load import load_workload
(workload,) = load_workload("chat", 2)
print(json.dumps([workload.source, len(workload.prompts), workload.notice]))
"""


def test_the_offline_prompts_serve_and_the_notice_says_why():
    result = subprocess.run(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    source, count, notice = json.loads(result.stdout.splitlines()[-1])
    assert (source, count) == ("offline", 2)
    assert "package datasets is not installed" in notice
