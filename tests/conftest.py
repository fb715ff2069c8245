"""What all tests share: no network, no screen, no colour, so that every machine tests the same."""

from __future__ import annotations

import os
import sys

import pytest
from hypothesis import HealthCheck, settings

# Set before any test imports the libraries that read them.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("HF_HUB_ETAG_TIMEOUT", "100")  # a busy machine is no broken hub
os.environ.setdefault("HF_HUB_DOWNLOAD_TIMEOUT", "100")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["MPLBACKEND"] = "Agg"
os.environ["COLUMNS"] = "80"
os.environ["NO_COLOR"] = "1"
os.environ.pop("FORCE_COLOR", None)

# How long an example takes says more of the machine than of the code, and a run like the last one
# finds what the last one found.
settings.register_profile(
    "same everywhere",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("same everywhere")


@pytest.fixture(autouse=True)
def same_draws() -> None:
    """What draws without a seed draws the same, whichever tests came before in this process."""
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)
