"""Captured steps on a real GPU: the same tokens, one wait per round, and how much faster.

    python -m tests.gpu.capture                          # random weights only
    python -m tests.gpu.capture --weights models/SmolLM2-135M-Instruct
    python -m tests.gpu.capture --compile

Three checks, each a line or more, and exit code 1 if one fails:

* tokens: in float32 a tiny Llama says the same with captured steps as without, with every kind of
  drafter, greedy and sampled, at batch sizes 1 and 3; nothing fell back or was captured late;
* waits: torch sees the host wait once per round at most, captured or not;
* speed: plain decoding and a drafter in the dimensions of SmolLM2-135M, bfloat16, batch size 1,
  captured and not by turns; captured must be at least twice as fast. With ``--weights``, the same
  for a folder's weights on a text.

Needs a CUDA device, torch and transformers; no data set and no network.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from specbench.drafters.base import Drafter, Session
from specbench.engine.loop import decode
from specbench.engine.prefill import prefill_all
from specbench.engine.request import Generation, Limits, Request
from specbench.measure.clock import clock_for
from specbench.models.capture import Capturing
from specbench.models.cuda_graphs import CudaGraphs
from specbench.models.kept_caches import Caches
from specbench.models.language_model import LanguageModel
from specbench.models.rows import Rows
from specbench.sampling.warp import SamplingParams
from tests.published import write_eagle, write_eagle3, write_medusa
from tests.tiny import (
    language_model,
    make_decoder,
    make_drafter,
    noisy_copy,
    random_model,
    requests,
    with_references,
)

DEVICE = torch.device("cuda:0")
SPECS = (
    *(None, "ngram", "model:near", "model:near,gamma=auto", "model:near,tree=12,topk=3"),
    *("early-exit:1", "synthetic:0.6", "medusa:{}/medusa", "medusa:{}/medusa,tree=12"),
    *("eagle:{}/eagle", "eagle:{}/eagle,tree=12,topk=3", "eagle3:{}/eagle3"),
)
SMOLLM2 = {
    "vocab_size": 49152,
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 30,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}
TEXT = (
    "A lighthouse keeper counts the ships that pass at night, and writes down where they go. " * 6
)
LEAST_RATIO = 2.0


class Engine:
    """A target and a drafter in cells of one kind, with captured steps or without."""

    def __init__(
        self,
        target: LanguageModel,
        drafter: Drafter | None,
        batch: Sequence[Request],
        *,
        captured: bool,
        gamma: int = 0,
        batch_size: int = 1,
        temperature: float = 0.0,
        length: int = 16,
    ) -> None:
        self.target, self.drafter, self.batch = target, drafter, list(batch)
        self.gamma, self.batch_size, self.length = gamma, batch_size, length
        self.sampling = SamplingParams(temperature)
        self.capturing = Capturing(CudaGraphs(DEVICE), print) if captured else None
        self.caches, self.clock = Caches(self.capturing), clock_for(DEVICE)
        self.waits: list[int] = []
        layers = drafter.needs_hidden_layers if drafter else ()
        if self.capturing is not None:
            with self.capturing.opened(), torch.inference_mode():
                prefill_all(target, self.batch, self.clock, layers, self.caches)
                decoder = make_decoder(target, drafter, self._session(), self.clock)
                if drafter is not None:
                    drafter.start(decoder.session)
                decoder.rehearse([len(request.token_ids) for request in self.batch])
        self.prefills = prefill_all(target, self.batch, self.clock, layers, self.caches)

    def run(self, count_waits: bool = False) -> Generation:
        decoder: Any = make_decoder(self.target, self.drafter, self._session(), self.clock)
        if count_waits:
            decoder = Counted(decoder, self.waits)
        return decode(decoder, self.batch, self.prefills, Limits(self.length))

    def tokens_per_s(self) -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        outputs = self.run().outputs
        torch.cuda.synchronize()
        return sum(map(len, outputs)) / (time.perf_counter() - begin)

    def _session(self) -> Session:
        longest = max(len(request.token_ids) for request in self.batch) + self.length
        drafted = self.drafter.most_drafted(self.gamma) if self.drafter else 0
        capacity = longest + self.gamma + 1
        rows = Rows(self.batch_size, capacity, DEVICE)
        cache = self.caches.take(self.target, self.batch_size, longest + drafted + 1)
        return Session(rows, cache, self.sampling, capacity, self.gamma, 0, 0, self.caches)


class Counted:
    """Counts how often torch makes the host wait in each round of a decoder."""

    def __init__(self, decoder: Any, counts: list[int]) -> None:
        self.inner, self.counts = decoder, counts
        self.session, self.clock, self.drafter = decoder.session, decoder.clock, decoder.drafter

    def round(self) -> Any:
        before = torch.cuda.get_sync_debug_mode()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.cuda.set_sync_debug_mode("warn")
            try:
                result = self.inner.round()
            finally:
                torch.cuda.set_sync_debug_mode(before)
        self.counts.append(sum("synchronizing" in str(warning.message) for warning in caught))
        return result


def on_gpu(model: LanguageModel, dtype: torch.dtype = torch.float32) -> LanguageModel:
    return LanguageModel(model.model.to(DEVICE, dtype), model.tokenizer, model.name)


def check_tokens(folder: Path) -> list[str]:
    """What is wrong with the tokens or the waits of captured steps in float32."""
    on_cpu = language_model("llama", seed=7)
    near = on_gpu(noisy_copy(on_cpu, 0.15))
    write_medusa(folder / "medusa", on_cpu)
    write_eagle(folder / "eagle", on_cpu)
    write_eagle3(folder / "eagle3", on_cpu, eagle_aux_hidden_state_layer_ids=[0, 1, 2])
    batch = with_references(on_cpu, requests(7), 30)
    target = on_gpu(on_cpu)
    faults = []
    for text in SPECS:
        for temperature in (0.0, 1.0):
            if text is not None and text.startswith("synthetic") and temperature > 0:
                continue
            for batch_size in (1, 3):
                found = compare(
                    target, near, text and text.format(folder), batch, temperature, batch_size
                )
                name = f"{text} T={temperature:g} B={batch_size}"
                faults += [f"{name}: {fault}" for fault in found]
    print(f"tokens and waits: {len(faults)} faults in {len(SPECS)} kinds of cells")
    return faults


def compare(
    target: LanguageModel,
    near: LanguageModel,
    spec: str | None,
    batch: Sequence[Request],
    temperature: float,
    batch_size: int,
) -> list[str]:
    """One kind of cell, captured and not."""
    faults, outputs = [], []
    options: dict[str, Any] = {"gamma": 4 if spec else 0, "batch_size": batch_size}
    for captured in (False, True):
        drafter = make_drafter(target, spec, {"near": near}) if spec else None
        engine = Engine(
            target, drafter, batch, captured=captured, temperature=temperature, **options
        )
        outputs.append(engine.run(count_waits=True).outputs)
        allowed = 1 if spec is None or "auto" not in spec else 1 + options["gamma"]
        if max(engine.waits) > allowed:
            faults.append(f"a round waits {max(engine.waits)} times, captured {captured}")
        if engine.capturing is not None:
            faults += [f"not captured: {reason}" for reason in engine.capturing.eager.values()]
            faults += [f"late: {step}" for step in engine.capturing.take_late()]
    if outputs[0] != outputs[1]:
        faults.append("captured steps say other tokens")
    return faults


def check_speed(
    name: str, target: LanguageModel, batch: Sequence[Request], compiled: bool
) -> list[str]:
    """Tokens per second of plain decoding and prompt lookup, captured and not by turns."""
    faults = []
    for spec, gamma in ((None, 0), ("ngram", 4), ("early-exit:8", 4)):
        engines = [
            Engine(
                target,
                make_drafter(target, spec) if spec else None,
                batch,
                captured=captured,
                gamma=gamma,
                length=128,
            )
            for captured in (False, True)
        ]
        for engine in engines:
            engine.tokens_per_s()
        pairs = [[engine.tokens_per_s() for engine in engines] for _ in range(5)]
        ratio = statistics.median(captured / plain for plain, captured in pairs)
        plain, captured = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(
            f"{name} {spec or 'plain'}: {plain:.0f} tok/s as it is, {captured:.0f} captured"
            f"{' and compiled' if compiled else ''}, ratio {ratio:.2f}"
        )
        if ratio < LEAST_RATIO:
            faults.append(f"{name} {spec or 'plain'}: only {ratio:.2f} times as fast")
    return faults


def random_smollm2() -> tuple[LanguageModel, list[Request]]:
    model = random_model("llama", **SMOLLM2)
    generator = torch.Generator().manual_seed(0)
    batch = [
        Request(f"r{index}", "r", torch.randint(0, 49152, (90,), generator=generator).tolist())
        for index in range(2)
    ]
    return on_gpu(LanguageModel(model, name="SmolLM2 shape"), torch.bfloat16), batch


def loaded(folder: Path) -> tuple[LanguageModel, list[Request]]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16).to(DEVICE).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ids = tokenizer(TEXT)["input_ids"]
    batch = [Request("t0", "t", ids), Request("t1", "t", ids[: len(ids) // 2])]
    return LanguageModel(model, tokenizer, folder.name), batch


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--weights", type=Path, help="folder of a model to time as well")
    parser.add_argument("--compile", action="store_true", help="compile captured steps")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device")
        return 1
    torch.backends.cuda.matmul.allow_tf32 = False
    print(f"{torch.cuda.get_device_name(DEVICE)}, torch {torch.__version__}")
    with tempfile.TemporaryDirectory() as folder:
        faults = check_tokens(Path(folder))
    timed = [random_smollm2()]
    if options.weights is not None:
        timed.append(loaded(options.weights))
    for target, batch in timed:
        if options.compile:
            target.compile()
        faults += check_speed(target.name, target, batch, options.compile)
    for fault in faults:
        print(f"FAULT {fault}")
    print("all as it should be" if not faults else f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
