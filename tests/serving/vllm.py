"""The whole check of ``--backend vllm`` on a real server: see README.md in this folder.

    python tests/serving/vllm.py --engine-python ~/vllm/bin/python --out results/serving

One run of three engines goes into ``engines``, with its figures, and a run per drafter and gamma
through the URL of a server that this script starts into ``openai-*``. Where vLLM's counts are not
the native engine's to the last token, its shares must lie in the native engine's 95% intervals
over prompts.
"""

from __future__ import annotations

import argparse
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from specbench.records.reading import Run, load_run
from specbench.records.schema import BASELINE_DRAFTER, CellRecord
from specbench.serving.process import LOOPBACK, ServerProcess, free_port
from specbench.theory.clusters import cluster_sums
from specbench.theory.intervals import ratio_interval

DRAFTERS = ("ngram,match=first", "model")
TARGET = "HuggingFaceTB/SmolLM2-135M-Instruct"
EAGER = "--enforce-eager --max-model-len 1024"


def main() -> int:
    options = parse_options()
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    out: Path = options.out
    vllm = ["--backend", "vllm", "--engine-python", options.engine_python, "--engine-args", EAGER]
    asked = f"--task {options.task} --batch-size {options.batch_size} --temperature 0".split()
    asked += f"--prompts {options.prompts} --max-new-tokens {options.tokens}".split()
    drafters = [word for drafter in DRAFTERS for word in ("--drafter", drafter)]
    grid = [*drafters, "--gamma", "2,4", *asked, "--dtype", "float32"]
    backends = ["--backend", "native", "--backend", "hf-assisted", *vllm]
    specbench("run", *grid, *backends, "--out", out / "engines")
    engines = load_run(out / "engines")
    native, served = engines.of_backend("native"), engines.of_backend("vllm")
    promises = [*finished(engines), *parity(native, served), *gone(served)]
    for run in through_urls(served, out, asked):
        promises += [*finished(run), *parity(native, run), *gone(run)]
    both = [out / "engines", out / "engines", "--backend-a", "native", "--backend-b", "vllm"]
    specbench("compare", *both, "--judge")
    specbench("plot", out / "engines", "--figure", "speedup-vs-gamma")
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


def through_urls(served: Run, out: Path, asked: Sequence[str]) -> Iterator[Run]:
    """The same servers, started by hand and measured through their URLs."""
    commands = {(cell.drafter, cell.gamma): (cell.server or {})["command"] for cell in served.cells}
    plain = commands.pop((BASELINE_DRAFTER, 0))
    with running(plain, out / "plain.log") as baseline:
        for (drafter, gamma), command in commands.items():
            folder = out / f"openai-{drafter.partition(',')[0]}-{gamma}"
            with running(command, out / f"{folder.name}.log") as url:
                words = ["--target", TARGET, "--drafter", drafter, *asked]
                specbench(
                    "run", *words, "--backend", f"openai:{url},baseline={baseline}", "--out", folder
                )
            yield load_run(folder)


@contextmanager
def running(command: str, log: Path) -> Iterator[str]:
    """The server of a command, on another port; its URL."""
    words, port = shlex.split(command), free_port()
    words[words.index("--port") + 1] = str(port)
    process = ServerProcess(words, os.environ, log, "vLLM")
    try:
        process.wait_until_healthy(port, "/health", 900.0)
        yield f"http://{LOOPBACK}:{port}"
    finally:
        process.stop()


def gone(run: Run) -> Iterator[Promise]:
    """Nothing listens any more where the run's servers did; plain ones may serve other runs."""
    for url in sorted({cell.server["url"] for cell in run.cells if cell.server and cell.gamma}):
        port = int(url.rpartition(":")[2])
        with socket.socket() as probe:
            yield f"{run.path.name} port {port} is free", bool(probe.connect_ex((LOOPBACK, port)))


def specbench(*words: object) -> None:
    """Run a command as a user does, its output shown."""
    line = ["specbench", *map(str, words)]
    print(f"$ {shlex.join(line)}", flush=True)
    subprocess.run([sys.executable, "-m", *line], check=False)


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--engine-python", required=True, metavar="PATH")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--task", default="code")
    parser.add_argument("--prompts", type=int, default=6, help="per task")
    parser.add_argument("--tokens", type=int, default=8, help="per prompt")
    parser.add_argument("--batch-size", default="1,4")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
