"""Tiny random models of many architectures, and one way to run a cell on them.

Weights are drawn from a seed, wide enough that outputs are lively: what a model does on a machine
is what it does on every machine, up to the last bits of float32.

    target = language_model("llama")
    drafter = noisy_copy(target, noise=0.3)          # agrees often, not always
    generation = run_cell(target, "model:d", requests(4), gamma=4, models={"d": drafter})
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from specbench.drafters.base import Drafter, Host, Session, build_drafter
from specbench.engine.autoregressive import Autoregressive
from specbench.engine.loop import Decoder, decode
from specbench.engine.prefill import prefill_all
from specbench.engine.request import Generation, Limits, Request
from specbench.engine.speculative import Speculative
from specbench.measure.clock import Clock, HostClock
from specbench.models.encoder_decoder import wrapped
from specbench.models.language_model import LanguageModel, Prefill
from specbench.models.rows import Rows
from specbench.sampling.warp import SamplingParams

torch.set_num_threads(1)

VOCAB = 61
GREEDY = SamplingParams()

_SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
_UNTIED = {"tie_word_embeddings": False}  # a tied random model mostly repeats its last token
_OWN_SIZES: dict[str, dict[str, Any]] = {
    "mistral": {"sliding_window": None},
    "phi": {"num_key_value_heads": 4, **_UNTIED},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32, **_UNTIED},
    "gpt2": {"n_inner": 48, **_UNTIED},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]], **_UNTIED},
    "gemma": {"head_dim": 8, **_UNTIED},
    "qwen3": {"head_dim": 8},
    "falcon": _UNTIED,
}
_WITHOUT_GROUPS = {"opt", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_neox", "falcon"}
ARCHITECTURES = (
    "llama", "qwen2", "qwen3", "mistral", "phi", "phi3", "opt", "gpt2", "gpt_neo", "gpt_neox",
    "gemma", "olmo2", "falcon", "stablelm",
)  # fmt: skip


def config(kind: str, **changes: Any) -> Any:
    """A transformers config of a tiny model of some type."""
    from transformers import CONFIG_MAPPING

    sizes = {**_SIZES, **_OWN_SIZES.get(kind, {}), **changes}
    if kind in _WITHOUT_GROUPS:
        del sizes["num_key_value_heads"]
    return CONFIG_MAPPING[kind](**sizes)


@torch.inference_mode(False)  # whoever asks first: weights are to be trained on as well
def random_model(kind: str, *, seed: int = 0, spread: float = 1.5, **changes: Any) -> nn.Module:
    """A transformers causal LM with seeded weights, float32, in eval mode.

    Args:
        kind: a model type of transformers.
        seed: of the weights.
        spread: standard deviation of the logits, roughly; 0 would make every token equal.
        changes: fields of the config.
    """
    from transformers import AutoModelForCausalLM

    settings = config(kind, **changes)
    with torch.random.fork_rng():  # what is no matrix stays as its class draws it
        torch.manual_seed(seed)
        model = AutoModelForCausalLM._model_mapping[type(settings)](settings).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.normal_(0, 1 / weight.shape[-1] ** 0.5, generator=generator)
            elif name.endswith("bias"):
                weight.normal_(0, 0.1, generator=generator)
        model.get_output_embeddings().weight.mul_(spread)
    return model


class Words:
    """A tokenizer that can only be asked for its vocabulary."""

    def __init__(self, words: Sequence[str]) -> None:
        self._ids = {word: index for index, word in enumerate(words)}

    def get_vocab(self) -> dict[str, int]:
        return dict(self._ids)

    def __len__(self) -> int:
        return len(self._ids)


@functools.cache
def language_model(kind: str = "llama", **options: Any) -> LanguageModel:
    """:func:`random_model` as the engine sees it, made once per set of options."""
    return LanguageModel(random_model(kind, **options), name=f"tiny-{kind}")


def noisy_copy(target: LanguageModel, noise: float, seed: int = 1) -> LanguageModel:
    """A drafter that agrees with the target the more, the less noise its weights get."""
    model = copy.deepcopy(target.model)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                change = torch.empty_like(weight).normal_(0, 1, generator=generator)
                weight.add_(noise * weight.std() * change)
    return wrapped(model, target.tokenizer, f"{target.name}+noise")


def with_head(target: LanguageModel, width: int) -> LanguageModel:
    """The same model with a head and an embedding of another width, as padded checkpoints have."""
    model = copy.deepcopy(target.model)
    for layer in (model.get_input_embeddings(), model.get_output_embeddings()):
        old = layer.weight.detach()
        torch.manual_seed(width)
        padding = torch.randn(max(0, width - len(old)), old.shape[1]) * old.std()
        layer.weight = nn.Parameter(torch.cat([old[:width], padding]))
    model.config.vocab_size = width
    return LanguageModel(model, target.tokenizer, f"{target.name}/{width}")


def requests(count: int, *, vocab: int = VOCAB, seed: int = 0, shortest: int = 3) -> list[Request]:
    """Ragged prompts that repeat themselves a little, as texts do: lengths differ by up to 11."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for index in range(count):
        length = shortest + int(torch.randint(0, 12, (1,), generator=generator))
        phrase = torch.randint(0, vocab, (max(2, length // 2),), generator=generator).tolist()
        made.append(Request(f"p{index}", f"c{index}", (phrase * 3)[:length]))
    return made


def copies(prompt: Sequence[int], count: int) -> list[Request]:
    """One prompt under many names, so that only the random numbers differ."""
    return [Request(f"s{index}", f"s{index}", list(prompt)) for index in range(count)]


def shared_prefills(
    target: LanguageModel, batch: Sequence[Request], drafter: Drafter | None = None
) -> dict[str, Prefill]:
    """Prefills of requests with the states that a drafter needs; equal prompts are read once."""
    layers = drafter.needs_hidden_layers if drafter else ()
    by_prompt: dict[tuple[int, ...], Prefill] = {}
    found = {}
    for request in batch:
        key = tuple(request.token_ids)
        if key not in by_prompt:
            prefills = prefill_all(target, [request], HostClock(), layers)
            by_prompt[key] = prefills[request.prompt_id]
        found[request.prompt_id] = by_prompt[key]
    return found


class OncePerPrompt(LanguageModel):
    """A model that reads equal prompts once; makes thousands of requests with one prompt cheap."""

    def __init__(self, like: LanguageModel) -> None:
        super().__init__(like.model, like.tokenizer, like.name)
        self._known: dict[tuple[int, ...], Any] = {}

    def prefill(self, token_ids: Sequence[int], cache: Any) -> torch.Tensor:
        key = tuple(token_ids)
        if key not in self._known:
            logits = super().prefill(token_ids, cache)
            self._known[key] = (cache.snapshot(0, len(key)), logits)
        snapshot, logits = self._known[key]
        cache.restore(0, snapshot)
        return logits


def make_session(
    target: LanguageModel,
    batch: Sequence[Request],
    *,
    gamma: int,
    batch_size: int,
    sampling: SamplingParams = GREEDY,
    max_new_tokens: int = 16,
    seed: int = 0,
    repeat: int = 0,
    drafter: Drafter | None = None,
) -> Session:
    """A session with exactly the room that the engine promises to need."""
    contexts = (target.layout(request.token_ids).context for request in batch)
    longest = max(map(len, contexts)) + max_new_tokens
    capacity = longest + gamma + 1
    rows = Rows(batch_size, capacity, target.device)
    drafted = drafter.most_drafted(gamma) if drafter else gamma
    cache = target.new_cache(batch_size, longest + drafted + 1)
    return Session(rows, cache, sampling, capacity, gamma, seed, repeat)


def make_drafter(
    target: LanguageModel, spec: str, models: Mapping[str, LanguageModel] | None = None
) -> Drafter:
    """A drafter from its SPEC; ``model:NAME`` finds NAME in ``models``."""
    return build_drafter(spec, Host(target, (models or {}).__getitem__))


def make_decoder(
    target: LanguageModel, drafter: Drafter | None, session: Session, clock: Clock | None = None
) -> Decoder:
    clock = clock or HostClock()
    if drafter is None:
        return Autoregressive(target, session, clock)
    return Speculative(target, drafter, session, clock)


def run_cell(
    target: LanguageModel,
    spec: str | Drafter | None,
    batch: Sequence[Request],
    *,
    gamma: int = 0,
    batch_size: int = 1,
    sampling: SamplingParams = GREEDY,
    max_new_tokens: int = 16,
    stop_tokens: Sequence[int] = (),
    seed: int = 0,
    repeat: int = 0,
    models: Mapping[str, LanguageModel] | None = None,
    clock: Clock | None = None,
    prefills: Mapping[str, Prefill] | None = None,
) -> Generation:
    """One cell through the engine's loop; ``spec`` None is the baseline."""
    drafter = make_drafter(target, spec, models) if isinstance(spec, str) else spec
    session = make_session(
        target,
        batch,
        gamma=gamma,
        batch_size=batch_size,
        sampling=sampling,
        max_new_tokens=max_new_tokens,
        seed=seed,
        repeat=repeat,
        drafter=drafter,
    )
    decoder = make_decoder(target, drafter, session, clock)
    limits = Limits(max_new_tokens, frozenset(stop_tokens))
    return decode(decoder, batch, prefills or shared_prefills(target, batch, drafter), limits)


def with_references(
    target: LanguageModel, batch: Sequence[Request], length: int, stop_tokens: Sequence[int] = ()
) -> list[Request]:
    """The requests with ``length`` tokens of recorded greedy output, for drafters that replay."""
    recorded = run_cell(target, None, batch, max_new_tokens=length, stop_tokens=stop_tokens)
    return [
        replace(request, reference=output)
        for request, output in zip(batch, recorded.outputs, strict=True)
    ]


def hugging_face_greedy(
    target: LanguageModel, batch: Sequence[Request], length: int, stop_tokens: Sequence[int] = ()
) -> list[list[int]]:
    """What transformers' own ``generate`` says, one prompt at a time."""
    outputs = []
    for request in batch:
        ids = torch.tensor([list(request.token_ids)])
        generated = target.model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=length,
            do_sample=False,
            eos_token_id=list(stop_tokens) or None,
            pad_token_id=0,
        )
        outputs.append(generated[0, ids.shape[1] :].tolist())
    return outputs


def alpha(generation: Generation) -> float:
    """Accepted over evaluated drafted tokens."""
    return sum(generation.rounds["num_accepted"]) / max(1, sum(generation.rounds["num_evaluated"]))
