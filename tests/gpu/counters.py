"""Are bytes, times and counters of a real GPU what they are said to be? About a minute.

    python -m tests.gpu.counters

Prints every counter, then holds against each other: event times and the host's, the traffic model
and the GPU's own counter (on a large matrix-vector loop whose bytes are known, and on a decode of
a model of 1.2 billion random weights), a decode with the sampler and without, timed and untimed.
Exits 1 if something is off, or if there is no CUDA device; needs no downloads.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from unittest.mock import patch

import torch
from torch import Tensor

from specbench.engine.loop import decode
from specbench.engine.prefill import prefill_all
from specbench.engine.request import Generation, Limits, Request
from specbench.measure import counters, nvml
from specbench.measure.bandwidth import copy_bandwidth, matmul_rate, read_bandwidth
from specbench.measure.clock import Clock, CudaClock, seconds_per_mark
from specbench.measure.counters import Counters
from specbench.measure.sampler import Sampler
from specbench.measure.watch import UNWATCHED, Watch
from specbench.models.description import traffic_of
from specbench.models.language_model import LanguageModel
from specbench.records.steps import all_steps
from specbench.records.traffic import traffic_fields
from specbench.theory.traffic import Traffic
from tests.clocks import NoClock
from tests.tiny import make_decoder, make_session

DEVICE = "cuda:0"
HOPPER = (9, 0)
MODEL_AND_COUNTER = 0.10  # may differ by this share
SAMPLER = 0.01  # of the time
TIMING = 0.02
EVENTS = 0.02
REPEATS = 5

SHAPE = {
    "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 4096,
    "tie_word_embeddings": True, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip


class Checks:
    """Prints one line per check and remembers failures."""

    def __init__(self) -> None:
        self.failed = 0

    def __call__(self, ok: bool, text: str) -> None:
        self.failed += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {text}", flush=True)


def main() -> int:
    if not torch.cuda.is_available():
        print("no CUDA device: nothing was measured")
        return 1
    check = Checks()
    print(f"{torch.cuda.get_device_name(DEVICE)}, torch {torch.__version__}")
    print(
        f"copy {copy_bandwidth(DEVICE) / 1e9:,.0f} GB/s, read {read_bandwidth(DEVICE) / 1e9:,.0f}"
    )
    print(f"matmul bfloat16 {matmul_rate(DEVICE, torch.bfloat16) / 1e12:,.0f} TFLOP/s")
    known_bytes(check)
    target = one_billion()
    decoded(check, target)
    costs(check, target)
    print(f"{check.failed} failed" if check.failed else "all ok")
    return 1 if check.failed else 0


def known_bytes(check: Checks) -> None:
    """A loop of matrix-vector products reads a matrix that no cache holds: 4 GiB a pass."""
    matrix = torch.ones(2**15, 2**16, dtype=torch.bfloat16, device=DEVICE)
    vector = torch.ones(2**16, 1, dtype=torch.bfloat16, device=DEVICE)
    size = matrix.numel() * matrix.element_size()
    clock = CudaClock(DEVICE)
    work = multiply(matrix, vector)
    work()
    with Sampler(nvml.uuid_of(DEVICE)) as sampler:
        torch.cuda.synchronize()
        sampler.resume()
        begin_s, begin = time.perf_counter(), clock.mark()
        passes = busy(work, 4.0)
        ((device_s,),) = clock.spans([(begin, clock.mark())])
        host_s = time.perf_counter() - begin_s
        sampler.pause()
    found = sampler.counters
    show(check, found)
    apart = device_s / host_s - 1
    check(abs(apart) <= EVENTS, f"events {device_s:.3f} s, host {host_s:.3f} s ({apart:+.1%})")
    compare(check, "matrix-vector loop", size * passes / host_s, found)
    windows(work, size)


def busy(work: Callable[[], Tensor], seconds: float) -> int:
    """Work for so long; returns how many times it was done."""
    begin, passes = time.perf_counter(), 0
    while time.perf_counter() - begin < seconds:
        for _ in range(5):
            work()
        passes += 5
        torch.cuda.synchronize()
    return passes


def windows(work: Callable[[], Tensor], size: int) -> None:
    """What GPM sees in short windows: LEAST_GPM_S is a guess until this was looked at."""
    for seconds in (0.01, 0.03, 0.1, 0.3, 1.0):
        with patch.object(counters, "LEAST_GPM_S", 0.0), Sampler(nvml.uuid_of(DEVICE)) as sampler:
            sampler.resume()
            passes = busy(work, seconds)
            sampler.pause()
        found = sampler.counters
        if found.dram_bytes_per_s is not None and found.seconds:
            seen = found.dram_bytes_per_s * found.seconds / (size * passes)
            print(f"     GPM over {1e3 * found.seconds:,.0f} ms sees {seen:.0%} of what moved")


def multiply(matrix: Tensor, vector: Tensor) -> Callable[[], Tensor]:
    return lambda: matrix @ vector


def show(check: Checks, found: Counters) -> None:
    """Every counter, and why one is missing."""
    for name, value in found.to_dict().items():
        print(f"     {name}: {value:,.4g}" if isinstance(value, float) else f"     {name}: {value}")
    check(found.unavailable is None, "NVML is readable")
    check(found.energy_j is not None, f"energy by {found.energy_method}")
    hopper = torch.cuda.get_device_capability(DEVICE) >= HOPPER
    readable = found.dram_bytes_per_s is not None
    check(readable or not hopper, "GPM is readable" if readable else "no GPM")


def compare(check: Checks, what: str, moved_per_s: float, found: Counters) -> None:
    """The traffic model against GPM."""
    if found.dram_bytes_per_s is None:
        print(f"     {what}: {moved_per_s / 1e9:,.0f} GB/s must move, no counter beside it")
        return
    apart = found.dram_bytes_per_s / moved_per_s - 1
    check(
        abs(apart) <= MODEL_AND_COUNTER,
        f"{what}: {moved_per_s / 1e9:,.0f} GB/s must move, GPM saw "
        f"{found.dram_bytes_per_s / 1e9:,.0f} ({apart:+.1%})",
    )


def one_billion() -> LanguageModel:
    """Random weights in the shape of Llama-3.2-1B."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.device(DEVICE):
        model = LlamaForCausalLM(LlamaConfig(**SHAPE)).to(torch.bfloat16).eval()
    return LanguageModel(model.requires_grad_(False), name="random 1B")


def decoded(check: Checks, target: LanguageModel) -> None:
    """Plain decoding at batch 1 and 8: what must move beside what the counter saw."""
    traffic = traffic_of(target.model)
    check(traffic is not None, "the model's description has all its parameters")
    if traffic is None:
        return
    for batch_size in (1, 8):
        with Sampler(nvml.uuid_of(DEVICE)) as sampler:
            generation = run(target, batch_size, CudaClock(DEVICE), sampler)
        found, steps = sampler.counters, all_steps(generation.rounds)
        moved = traffic_fields(steps, steps, cost(target, traffic))["traffic"]["total_bytes"]
        compare(check, f"decoding at batch {batch_size}", moved / (found.seconds or 1.0), found)
        emitted = sum(generation.rounds["num_emitted"])
        energy = (found.energy_j or 0.0) / emitted
        print(f"     {emitted / steps.seconds.sum():,.0f} tok/s, {energy:.3f} J/token")


def cost(target: LanguageModel, traffic: Traffic) -> dict[str, float | None]:
    per_token = traffic.kv_bytes_per_token
    return {
        "weight_bytes": target.weight_bytes,
        "kv_bytes_per_token": per_token,
        "kv_written_bytes_per_token": per_token,
        "drafter_weight_bytes": 0,
    }


def costs(check: Checks, target: LanguageModel) -> None:
    """The same decode plain, with the sampler, and untimed; alternating."""
    seconds: dict[str, list[float]] = {"plain": [], "sampled": [], "untimed": []}
    share = 0.0
    for _ in range(REPEATS):
        for name, times in seconds.items():
            clock: Clock = NoClock() if name == "untimed" else CudaClock(DEVICE)
            with ExitStack() as stack:
                watch: Watch = UNWATCHED
                if name == "sampled":
                    watch = stack.enter_context(Sampler(nvml.uuid_of(DEVICE)))
                torch.cuda.synchronize()
                begin = time.perf_counter()
                run(target, 1, clock, watch)
                torch.cuda.synchronize()
                times.append(time.perf_counter() - begin)
            if isinstance(watch, Sampler):
                share = max(share, watch.counters.sampler_share or 0.0)
    middle = {name: statistics.median(times) for name, times in seconds.items()}
    spread = max(seconds["plain"]) / min(seconds["plain"]) - 1
    print(f"     decoding took {middle['plain']:.2f} s, from fastest to slowest {spread:.1%}")
    sampled, timed = (
        middle["sampled"] / middle["plain"] - 1,
        middle["plain"] / middle["untimed"] - 1,
    )
    check(share <= SAMPLER, f"the sampler's own CPU time is {share:.2%} of decoding")
    check(sampled <= SAMPLER + spread, f"with the sampler decoding takes {sampled:+.2%}")
    mark = seconds_per_mark(CudaClock(DEVICE))
    check(timed <= TIMING + spread, f"timed it takes {timed:+.2%}; a mark {1e6 * mark:.1f} µs")


def run(target: LanguageModel, batch_size: int, clock: Clock, watch: Watch) -> Generation:
    """Two rounds of prompts, 256 tokens each."""
    requests = [
        Request(f"p{index}", f"p{index}", list(range(100 + index, 400 + index)))
        for index in range(2 * batch_size)
    ]
    session = make_session(target, requests, gamma=0, batch_size=batch_size, max_new_tokens=256)
    decoder = make_decoder(target, None, session, clock)
    prefills = prefill_all(target, requests, CudaClock(DEVICE))
    return decode(decoder, requests, prefills, Limits(256), watch)


if __name__ == "__main__":
    sys.exit(main())
