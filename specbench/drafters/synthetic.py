"""A drafter of known acceptance, to calibrate the instrument (``synthetic:A``).

It replays the target's own recorded greedy output and corrupts each token with probability 1 - A,
so acceptance is i.i.d. with alpha = A while target, verify and loop are the real ones. Two modes:

* float32: the target decides. It accepts what equals its own choice, the output is lossless.
* other dtypes, and random weights, where a near-tie may flip and derail the replay: the coin itself
  decides, and the replayed token is committed. The output is the recorded one, so ``lossless`` says
  nothing. On random weights no token is a stop token.

``cost=SPEC`` (last, takes the rest) runs another drafter for its time and drops what it proposes: a
chain of fixed length, as what is verified is one. Temperature 0 only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from specbench.drafters.base import Draft, Drafter, Host, Session, build_drafter, drafter_class
from specbench.drafters.spec import DrafterSpec, parse_spec
from specbench.errors import SpecbenchError
from specbench.measure.transfer import to_device
from specbench.models.rows import up_to_stop
from specbench.records.spec_text import draft_form
from specbench.sampling.rng import keyed_uniforms
from specbench.weights.shapes import is_shape


class SyntheticDrafter(Drafter):
    """Replays ``Row.reference`` with i.i.d. corruption.

    Args:
        alpha: chance that a token is left intact.
        target_decides: compare with the target's own choice, else with the recording.
    """

    OPTIONS = ("cost",)
    drafts_for_encoders = True

    def __init__(
        self,
        alpha: float,
        *,
        target_decides: bool,
        stop_tokens: frozenset[int],
        vocab_size: int,
        cost: Drafter | None = None,
    ) -> None:
        self.alpha = alpha
        self.target_decides = target_decides
        self.stop_tokens = stop_tokens
        self.vocab_size = vocab_size
        self.cost = cost
        self.weights = cost.weights if cost else {}
        self.weight_bytes = cost.weight_bytes if cost else 0
        self.modules = cost.modules if cost else ()
        self.shared_layers = cost.shared_layers if cost else 0
        self.one_step = cost.one_step if cost else False
        self.needs_hidden_layers = cost.needs_hidden_layers if cost else ()
        # its notices are of what lowers alpha, which is set here

    @classmethod
    def check(cls, spec: DrafterSpec) -> None:
        super().check(spec)
        text = spec.need_argument("A")
        try:
            alpha = float(text)
        except ValueError:
            alpha = math.nan
        if not 0 <= alpha <= 1:
            raise SpecbenchError(
                f"drafter {spec.text!r}: {text!r} is not an acceptance from 0 to 1",
                "Write for example synthetic:0.8",
            )
        if "cost" in spec.options:
            cost = parse_spec(spec.options["cost"])
            if cost.kind == "synthetic":
                raise SpecbenchError(f"drafter {spec.text!r}: cost= can't be synthetic itself")
            drafter_class(cost).check(cost)
            if draft_form(cost.text) != "chain":
                raise SpecbenchError(
                    f"drafter {spec.text!r}: cost= has to draft chains of fixed length",
                    "What is verified is a chain of gamma tokens: leave out tree= and gamma=auto",
                )

    @classmethod
    def impossible(
        cls, spec: DrafterSpec, *, gamma: int, temperature: float, batch_size: int
    ) -> str | None:
        if temperature > 0:
            return "synthetic drafters replay greedy output"
        if "cost" not in spec.options:
            return None
        cost = parse_spec(spec.options["cost"])
        return drafter_class(cost).impossible(
            cost, gamma=gamma, temperature=temperature, batch_size=batch_size
        )

    @classmethod
    def build(cls, spec: DrafterSpec, host: Host) -> SyntheticDrafter:
        cost, means_nothing = spec.options.get("cost"), is_shape(host.target.name)
        return cls(
            float(spec.need_argument("A")),
            target_decides=host.target.dtype == torch.float32 and not means_nothing,
            stop_tokens=frozenset() if means_nothing else host.target.stop_tokens,
            vocab_size=host.target.vocab_size,
            cost=build_drafter(cost, host) if cost else None,
        )

    def draft_widths(self, gamma: int) -> Sequence[int]:
        return range(gamma + 1)

    def start(self, session: Session) -> None:
        super().start(session)
        self._coins: list[list[bool]] = [[] for _ in session.rows.slots]
        self._derailed: set[str] = set()
        if self.cost:
            self.cost.start(session)
            self.cache = self.cost.cache

    def begin(self, slot: int, hidden: dict[int, Tensor]) -> None:
        row, session = self.rows[slot], self.session
        stream = f"coin/{self.alpha}/{session.gamma}"
        uniforms = keyed_uniforms(
            session.seed, session.repeat, row.prompt_id, stream, len(row.reference)
        )
        self._coins[slot] = (uniforms < self.alpha).tolist()
        if self.cost:
            self.cost.begin(slot, hidden)

    def rehearse(self, prompt_lengths: Sequence[int]) -> None:
        if self.cost:
            self.cost.rehearse(prompt_lengths)

    def propose(self, gamma: int) -> Draft:
        replays = [self._next_recorded(slot, gamma + 1) for slot in range(len(self.rows))]
        drafts = [
            self._corrupt(slot, up_to_stop(replay[:gamma], self.stop_tokens))  # nothing after it
            for slot, replay in enumerate(replays)
        ]
        width = max(len(draft) for draft in drafts)
        tokens = self._pad(drafts, width)
        replay = None if self.target_decides else self._pad(replays, width + 1, filler=-1)
        if self.cost:  # last: copying tokens to the device would wait for its kernels
            self.cost.propose(gamma)
        return Draft(tokens, [len(draft) for draft in drafts], replay=replay)

    def commit(self, num_accepted: Sequence[int], hidden: dict[int, Tensor] | None = None) -> None:
        if self.cost:
            self.cost.commit(num_accepted, hidden)

    def notes(self) -> list[str]:
        said = self.cost.notes() if self.cost else []
        if self._derailed:
            said = [
                *said,
                f"{len(self._derailed)} prompts left the recorded output and were not drafted on",
            ]
        return said

    def _next_recorded(self, slot: int, count: int) -> list[int]:
        """The recorded tokens after what is committed; none once the output has left them."""
        row = self.rows[slot]
        done = len(row.output)
        if not row.active or row.prompt_id in self._derailed:
            return []
        ended = done > len(row.reference)
        if ended or (self.target_decides and row.reference[done - 1] != row.output[-1]):
            self._derailed.add(row.prompt_id)
            return []
        return row.reference[done : done + count]

    def _corrupt(self, slot: int, recorded: list[int]) -> list[int]:
        done = len(self.rows[slot].output)
        intact = self._coins[slot][done : done + len(recorded)]
        return [
            token if keep else (token + 1) % self.vocab_size
            for token, keep in zip(recorded, intact, strict=True)
        ]

    def _pad(self, tokens: list[list[int]], width: int, filler: int = 0) -> Tensor:
        padded = [row[:width] + [filler] * (width - len(row)) for row in tokens]
        return to_device(padded, self.rows.device).view(len(tokens), width)


DRAFTER = SyntheticDrafter
