"""What a sweep measures where nothing is said: the main job, and what other targets allow."""

from __future__ import annotations

from typing import Any

DEFAULT_SWEEP: dict[str, Any] = {
    "target": None,  # the embedded SmolLM2-135M-Instruct
    "drafters": ["ngram", "model", "medusa", "eagle"],  # prompt lookup and what is shipped
    "gammas": [1, 2, 4],
    "temperatures": [0.0, 1.0],
    "top_k": 0,
    "top_p": 1.0,
    "batch_sizes": [1],
    "tasks": ["translation", "summarization", "code", "chat"],
    "prompts": 3,
    "max_new_tokens": 12,
    "repeats": 1,
    "backends": ["native"],
}
"""What ``specbench run`` measures when nothing is said: the main job.

All four main tasks, the four drafters that the embedded 135M model has, three draft lengths, greedy
and sampled, sized so that it takes some minutes on two cores. Few prompts and few tokens make wide
intervals, which the tables say; ``--prompts`` and ``--max-new-tokens`` narrow them.
"""

OTHER_TARGET_DRAFTERS = ["ngram"]
"""The drafters of another target where none is named: prompt lookup, which every target has."""

SHAPE_SWEEP: dict[str, Any] = {
    "drafters": [f"synthetic:{alpha},cost=eagle:shape" for alpha in (0.6, 0.8, 0.9)],
    "temperatures": [0.0],
    "ignore_eos": True,
}
"""What is measured of ``--target shape:NAME`` where nothing else is said: what an EAGLE head in its
dimensions costs, at three acceptances. Its tokens mean nothing, so none of them ends an output."""
