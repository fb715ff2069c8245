"""The whole check of ``--backend vllm`` on a real server: see README.md in this folder.

    python tests/serving/vllm.py --engine-python ~/vllm/bin/python --out results/serving

Five runs go into the folder: ``vllm`` and ``native`` on the same prompts, ``openai`` on a server
that this script starts, and ``together``, one run of three engines with its figure. Where vLLM's
counts are not the native engine's to the last token, its shares must lie in the native engine's
95% intervals over prompts.
"""

from __future__ import annotations

import argparse
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from specbench.records.reading import Run, load_run
from specbench.records.schema import CellRecord
from specbench.serving.process import LOOPBACK, ServerProcess, free_port
from specbench.theory.clusters import cluster_sums
from specbench.theory.intervals import ratio_interval

DRAFTERS = ("ngram,match=first", "model")
EAGER = "--enforce-eager --max-model-len 1024"


def main() -> int:
    options = parse_options()
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    out: Path = options.out
    vllm = ["--backend", "vllm", "--engine-python", options.engine_python, "--engine-args", EAGER]
    size = ["--prompts", str(options.prompts), "--max-new-tokens", str(options.tokens)]
    common = ["--task", options.task, "--temperature", "0", "--dtype", "float32", *size]
    grid = [word for drafter in DRAFTERS for word in ("--drafter", drafter)]
    grid += ["--gamma", "2,4", "--batch-size", options.batch_size, *common]
    specbench("run", *grid, *vllm, "--out", out / "vllm")
    specbench("run", *grid, "--out", out / "native")
    served, native = load_run(out / "vllm"), load_run(out / "native")
    promises = [*finished(served), *parity(native, served), *gone(served)]
    specbench("compare", out / "native", out / "vllm")
    promises += through_url(served, out, common)
    one = ["--drafter", DRAFTERS[0], "--gamma", "2", *common]
    engines = ["--backend", "native", "--backend", "hf-assisted", *vllm]
    specbench("run", *one, *engines, "--out", out / "together")
    specbench("plot", out / "together")
    together = load_run(out / "together")
    promises += [*finished(together), *gone(together)]
    for sentence, holds in promises:
        print(f"{'ok    ' if holds else 'BROKEN'} {sentence}")
    return 0 if all(holds for _, holds in promises) else 1


Promise = tuple[str, bool]


def finished(run: Run) -> Iterator[Promise]:
    """Every cell was measured, and a server that speculates counted its drafts."""
    for cell in run.cells:
        counted = cell.server is None or cell.is_baseline or bool(cell.server["counts"]["drafts"])
        why = f": {cell.error}" if cell.error else ""
        yield f"{run.path.name} {cell.cell_id} is measured{why}", cell.status == "ok" and counted


def parity(native: Run, served: Run) -> Iterator[Promise]:
    """Cell by cell the counts of both engines, and which shares differ by more than prompts do."""
    theirs = {_point(cell): cell for cell in served.cells}
    for cell in native.cells:
        other = theirs.get(_point(cell))
        if cell.is_baseline or other is None or not other.server:
            continue
        counts, rounds = other.server["counts"], _rounds(native, cell)
        mine = [int(rounds["drafts"].sum()), int(rounds["drafted"].sum())]
        mine += [int(rounds[f"accepted {place}"].sum()) for place in range(cell.gamma)]
        its = [counts["drafts"], counts["drafted"], *counts["accepted_at"]]
        where = f"{cell.task} batch {cell.batch_size} {cell.drafter} γ = {cell.gamma}"
        sides = f"drafts, drafted, accepted at 1, 2, ...: native {mine}, vLLM {its}"
        yield f"{where}: {sides}{_apart(rounds, its)}", not _apart(rounds, its)


def _apart(rounds: dict[str, np.ndarray], its: Sequence[int]) -> str:
    """Which of vLLM's shares lie outside the native engine's 95% intervals over prompts."""
    drafts, drafted, *accepted_at = its
    shares = {"draft_acceptance_rate": ("accepted", "drafted", sum(accepted_at) / drafted)}
    for place, count in enumerate(accepted_at):
        shares[f"survival at {place + 1}"] = (f"accepted {place}", "drafts", count / drafts)
    outside = []
    for name, (top, bottom, share) in shares.items():
        interval = ratio_interval(rounds[top], rounds[bottom])
        if interval is not None and not interval.low <= share <= interval.high:
            outside.append(f"{name} {share:.3f}, not in {interval.low:.3f}-{interval.high:.3f}")
    return "; " + "; ".join(outside) if outside else ""


def _rounds(run: Run, cell: CellRecord) -> dict[str, np.ndarray]:
    """Sums [prompts] over a cell's rounds: drafts, drafted, accepted, accepted at a place."""
    table = run.rounds(cell.cell_id)
    accepted, drafted = np.array(table["num_accepted"]), np.array(table["num_drafted"])
    columns = {"drafts": drafted > 0, "drafted": drafted, "accepted": accepted}
    columns |= {f"accepted {place}": accepted > place for place in range(cell.gamma)}
    _, sums = cluster_sums(np.array(table["prompt_id"]), *columns.values())
    return dict(zip(columns, sums, strict=True))


def _point(cell: CellRecord) -> tuple[str, str, int, int]:
    return cell.task, cell.drafter, cell.gamma, cell.batch_size


def through_url(served: Run, out: Path, common: Sequence[str]) -> Iterator[Promise]:
    """The same server, started by hand and measured through its URL, counts the same."""
    first = next(cell for cell in served.cells if cell.drafter == DRAFTERS[0] and cell.gamma == 2)
    command = shlex.split((first.server or {})["command"])
    port = free_port()
    command[command.index("--port") + 1] = str(port)
    process = ServerProcess(command, os.environ, out / "openai.log", "vLLM")
    try:
        process.wait_until_healthy(port, "/health", 900.0)
        words = ["--target", "HuggingFaceTB/SmolLM2-135M-Instruct", "--drafter", first.drafter]
        words += ["--backend", f"openai:http://{LOOPBACK}:{port}", *common]
        specbench("run", *words, "--batch-size", str(first.batch_size), "--out", out / "openai")
    finally:
        process.stop()
    for cell in load_run(out / "openai").cells:
        other = next(one for one in served.cells if _point(one) == _point(cell))
        counts = [(one.server or {}).get("counts") for one in (cell, other)]
        yield f"openai {cell.cell_id} counts what vllm counted", counts[0] == counts[1] is not None


def gone(run: Run) -> Iterator[Promise]:
    """Nothing listens any more where the run's servers did."""
    for cell in run.cells:
        if cell.server:
            port = int(cell.server["url"].rpartition(":")[2])
            with socket.socket() as probe:
                yield (
                    f"{run.path.name} port {port} is free",
                    bool(probe.connect_ex((LOOPBACK, port))),
                )


def specbench(*words: object) -> None:
    """Run a command as a user does, its output shown."""
    line = ["specbench", *map(str, words)]
    print(f"$ {shlex.join(line)}", flush=True)
    subprocess.run([sys.executable, "-m", *line], check=False)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine-python", required=True, metavar="PATH")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--task", default="code,translation")
    parser.add_argument("--prompts", type=int, default=20, help="per task")
    parser.add_argument("--tokens", type=int, default=32, help="per prompt")
    parser.add_argument("--batch-size", default="1,4")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
