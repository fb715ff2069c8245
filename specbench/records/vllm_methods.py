"""What vLLM calls each kind of drafter in its ``--speculative-config``.

Source: vLLM's ``config/speculative.py``, of :data:`VERSION`.
"""

from __future__ import annotations

VERSION = "0.32.0"
"""The vLLM that has all of it."""

METHODS = {
    "ngram": "ngram",
    "model": "draft_model",
    "eagle": "eagle",
    "eagle3": "eagle3",
    "medusa": "medusa",
    "suffix": "suffix",
    "mtp": "mtp",
}
"""Kind of a SPEC -> what vLLM calls it."""

WITH_WEIGHTS = frozenset({"model", "eagle", "eagle3", "medusa"})
"""Kinds that are given weights of their own."""

SAMPLING = frozenset({"model", "eagle", "eagle3", "mtp"})
"""Kinds whose drafts can be drawn from the drafter's distribution."""
