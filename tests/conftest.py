"""What all tests share: no network, no screen, no colour, so that every machine tests the same."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# Set before any test imports the libraries that read them.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["MPLBACKEND"] = "Agg"
os.environ["COLUMNS"] = "80"
os.environ["NO_COLOR"] = "1"
os.environ.pop("FORCE_COLOR", None)

# How long an example takes says more of the machine than of the code.
settings.register_profile("no clock", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("no clock")
