"""Workloads: where the prompts of a run come from, and how they become token ids.

A task is a file in ``tasks/`` (see ``tasks/README.md``), read from the hub, an installed package or
the prompts that ship with specbench; or a JSONL file of the user's own. The source that served is
always named in :attr:`Workload.source`, and one that was tried in vain in :attr:`Workload.notice`.

>>> [workload] = load_workload("json", limit=2)
>>> workload.source, len(workload.prompts)
('offline', 2)
"""

from __future__ import annotations

from specbench.workloads.load import load_workload
from specbench.workloads.prompt import Prompt, Workload
from specbench.workloads.render import render

__all__ = ["Prompt", "Workload", "load_workload", "render"]
