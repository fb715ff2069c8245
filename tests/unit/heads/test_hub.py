"""A head by its hub name: fetched once, in one format, and found offline afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests import published
from tests.tiny import language_model
from tests.unit.weights.servers import Hub, serving

ROOT = Path(__file__).parents[3]


def opened(name: str, url: str, home: Path, offline: str = "0") -> list[object] | str:
    """What a process of its own reads from a hub name: folder, tensors, whether there is a
    ranking; or its refusal."""
    code = (
        "import json, sys\nfrom specbench.heads.files import open_checkpoint\n"
        "from specbench.errors import SpecbenchError\n"
        "try:\n    found = open_checkpoint(sys.argv[1])\n"
        "    ranked = found.ranking() is not None\n"
        "    print(json.dumps([str(found.folder), sorted(found.tensors), ranked]))\n"
        "except SpecbenchError as error:\n    print(json.dumps(str(error)))\n"
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "HF_ENDPOINT": url,
        "HF_HOME": str(home),
        "HF_HUB_OFFLINE": offline,
        "HF_HUB_DISABLE_XET": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code, name], env=environment, capture_output=True, text=True
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_medusas_own_file_and_the_ranking_are_fetched(tmp_path):
    target = language_model("llama")
    head = published.write_medusa(tmp_path / "head", target, file="medusa_lm_head.pt")
    hub = Hub("org/head", published.write_ranking(head, range(9)))
    hub.files["pytorch_model.bin"] = hub.files["README.md"] = b"not wanted"
    with serving(hub):
        found = opened("org/head", hub.url, tmp_path / "hf")
        unknown = opened("org/none", hub.url, tmp_path / "hf")
    folder, names, ranked = found
    assert names == sorted(published.medusa_tensors(target, 4, 1, 2, seed=1))
    assert ranked
    assert not (Path(folder) / "pytorch_model.bin").exists()
    assert not (Path(folder) / "README.md").exists()
    assert "the hub has no model 'org/none'" in unknown
    for offline in ("1", "0"):  # told to stay offline; or just no connection any more
        assert opened("org/head", hub.url, tmp_path / "hf", offline) == found
    refused = opened("org/other", hub.url, tmp_path / "hf", "1")
    assert "'org/other' can't be fetched" in refused
