"""What two runs differ in, by name, with both values: machine, weights, versions, what was asked.

Ratios of runs that asked other things, or stopped at other lengths, compare workloads as well.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from specbench.analysis.pooling import Raw
from specbench.analysis.shown.names import some
from specbench.records.reading import Run
from specbench.records.schema import Manifest
from specbench.records.steps import integers, values

_QUANTIZATION = "quantization of the target"
_OTHER_LENGTH = 0.1
"""Mean output lengths that differ by this share are worth a note; samples differ by some."""


class RawPair(NamedTuple):
    """The tables of one cell in both runs."""

    name: str
    task: str
    a: Raw
    b: Raw


def run_differences(a: Run, b: Run) -> list[str]:
    """What the manifests differ in."""
    drafters = sorted({cell.drafter for cell in a.cells} & {cell.drafter for cell in b.cells})
    left, right = _facts(a, drafters), _facts(b, drafters)
    names = [name for name in dict.fromkeys([*left, *right]) if left.get(name) != right.get(name)]
    if None in (left[_QUANTIZATION], right[_QUANTIZATION]) and _QUANTIZATION in names:
        names.remove(_QUANTIZATION)  # what a server does not tell is no difference
    return [
        f"another {name}: {_shown(left.get(name))} in {a.path}, "
        f"{_shown(right.get(name))} in {b.path}"
        for name in names
    ]


def asked_differences(a: Run, b: Run, pairs: Iterable[RawPair]) -> list[str]:
    """Tasks whose prompts differ, and cells whose outputs are of another mean length."""
    prompts: dict[str, tuple[set[str], set[str]]] = defaultdict(lambda: (set(), set()))
    lengths = []
    for pair in pairs:
        for asked, (_, requests) in zip(prompts[pair.task], (pair.a, pair.b), strict=True):
            asked.update(values(requests, "prompt_id"))
        one, other = (float(integers(raw[1], "num_tokens").mean()) for raw in (pair.a, pair.b))
        if abs(one - other) > _OTHER_LENGTH * max(one, other):
            lengths.append(f"{pair.name}, {one:.4g} and {other:.4g}")
    notes = [
        f"other prompts of {task}: {len(one)} in {a.path}, {len(other)} in {b.path}, "
        f"{len(one & other)} of them in both"
        for task, (one, other) in prompts.items()
        if one != other
    ]
    if lengths:
        notes.append(f"outputs of another length, mean tokens in {a.path} and {b.path}: "
                     f"{some(lengths)}")  # fmt: skip
    return notes


def _facts(run: Run, drafters: Iterable[str]) -> dict[str, str | None]:
    """Name -> value; the weights of these drafters alone."""
    manifest = run.manifest
    gpu = manifest.device.get("gpu")
    machine = gpu.get("name") if isinstance(gpu, dict) else manifest.device.get("cpu")
    backends = sorted({cell.backend for cell in run.cells})
    facts: dict[str, Any] = {
        "target": manifest.target.get("name"),
        "dtype": manifest.target.get("dtype"),
        _QUANTIZATION: _quantization(manifest),
        "attention": manifest.target.get("attention"),
        "backend": ", ".join(backends) or None,
        "server": _servers(manifest.servers.values()),
        "device": manifest.device.get("device"),
        "machine": machine,
        "number of threads": manifest.device.get("threads"),
        "seed": manifest.seed,
        "commit": (manifest.git or {}).get("commit"),
        "number of prompts (--prompts)": manifest.config.get("prompts"),
        "source of prompts": _sources(manifest.tasks) or manifest.config.get("prompt_source"),
        "limit of output (--max-new-tokens)": manifest.config.get("max_new_tokens"),
        "--ignore-eos": manifest.config.get("ignore_eos"),
    }
    weights = {"target": manifest.target}
    weights |= {name: manifest.drafters.get(name, {}) for name in drafters}
    facts |= {f"sha256 of {name}": found.get("sha256") for name, found in weights.items()}
    facts |= {f"version of {name}": version for name, version in manifest.packages.items()}
    return {name: None if value is None else str(value) for name, value in facts.items()}


def _quantization(manifest: Manifest) -> str | None:
    """The method, or that there was none; a server says nothing of it."""
    return manifest.target_quantization or (None if manifest.servers else "none")


def _servers(servers: Iterable[Mapping[str, Any]]) -> str | None:
    """Kinds and versions of a run's servers, each once."""
    found = {f"{server.get('dialect')} {server.get('version') or '?'}" for server in servers}
    return ", ".join(sorted(found)) or None


def _sources(tasks: Sequence[dict[str, Any]]) -> str | None:
    """Where the prompts of all tasks came from, each source once."""
    found = dict.fromkeys(str(task["source"]) for task in tasks if task.get("source"))
    return ", ".join(sorted(found)) or None


def _shown(value: str | None) -> str:
    return "not known" if value is None else value
