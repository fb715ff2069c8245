"""Watches Hugging Face's own generation loop, round by round, without changing what it computes.

The loop asks a candidate generator for a draft, runs the target over it, and tells the generator
how many tokens matched; here those three moments are marked. Plain decoding has no generator, so
its rounds are read off the target's forwards. Two things are arranged so that both loops measure
what specbench's own does:

* Hugging Face drafts before it has read the prompt and verifies that draft with the prompt. Here
  the first draft is made (the drafter reads the prompt with it) and withheld: the first forward is
  a prefill, and every round after it is a draft and its verification.
* Stop tokens and the length limit are judged by :class:`Ending` on committed tokens alone, and the
  loop's own limit lies beyond reach, so that no draft is shortened and no accept count is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import StoppingCriteria

from specbench.engine.request import Limits
from specbench.measure.clock import Clock
from specbench.measure.watch import UNWATCHED, Watch


@dataclass
class Step:
    """One forward of the target over a draft.

    Attributes:
        marks: clock marks at begin, after drafting, after the forward, at the end.
        num_drafted: tokens that were proposed.
        num_accepted: those that matched.
    """

    marks: list[Any]
    num_drafted: int = 0
    num_accepted: int = 0


@dataclass
class Trail:
    """What happened in one request.

    Attributes:
        steps: the rounds after the first token.
        prefill: marks (begin, end) of the stretches that went into reading the prompt.
        drafter_prefill: of those in which the drafter read it.
        first: from the end of the prefill to the first token.
    """

    steps: list[Step] = field(default_factory=list)
    prefill: list[tuple[Any, Any]] = field(default_factory=list)
    drafter_prefill: list[tuple[Any, Any]] = field(default_factory=list)
    first: list[tuple[Any, Any]] = field(default_factory=list)


class Ending(StoppingCriteria):
    """Ends the loop at a stop token or the length limit, and closes plain decoding's rounds.

    transformers 5.17 also asks its criteria about tokens that are only drafted: while a draft is
    open, the answer is no.
    """

    def __init__(self, watch: LoopWatch, limits: Limits, prompt_length: int) -> None:
        self.watch = watch
        self.limits = limits
        self.seen = prompt_length
        self.last = prompt_length + limits.max_new_tokens

    def __call__(self, input_ids: Tensor, scores: Any, **kwargs: Any) -> Tensor:
        new = [] if self.watch.verifying else input_ids[0, self.seen :].tolist()
        done = False
        if new:
            self.seen += len(new)
            done = self.seen >= self.last or any(t in self.limits.stop_tokens for t in new)
            self.watch.committed()
        return torch.full((len(input_ids),), done, device=input_ids.device)


class LoopWatch:
    """Marks the moments of one request.

    Args:
        model: the target.
        clock: gives the marks.
        region: told when decoding begins, which is when the first token is known.
    """

    def __init__(self, model: torch.nn.Module, clock: Clock, region: Watch = UNWATCHED) -> None:
        self.model = model
        self.region = region
        self.clock = clock
        self.trail = Trail()
        self.verifying = False  # a draft is out and not judged yet
        self._drafting = False  # forwards are the drafter's: early exit drafts with the target
        self._assisted = False
        self._begin = clock.mark()
        self._forward: Any = None
        self._open: Step | None = None

    @contextmanager
    def on(self) -> Iterator[Trail]:
        """Watch what ``model.generate`` does inside."""
        model: Any = self.model
        make = model._get_candidate_generator

        def watched(*args: Any, **kwargs: Any) -> Any:
            generator = make(*args, **kwargs)
            self._attach(generator)
            return generator

        hooks = [
            model.register_forward_pre_hook(lambda *_: self._forward_begins()),
            model.register_forward_hook(lambda *_: self._forward_ends()),
        ]
        model._get_candidate_generator = watched
        try:
            self._begin = self.clock.mark()
            yield self.trail
        finally:
            del model._get_candidate_generator
            for hook in hooks:
                hook.remove()

    def committed(self) -> None:
        """Tokens of the open round, or the first one, are part of the text now."""
        end = self.clock.mark()
        if self._open is not None:
            self._open.marks.append(end)
            self.trail.steps.append(self._open)
            self._open = None
        else:
            self.trail.first.append((self._forward, end))
            self.region.resume()
        self._begin = self.clock.mark()

    def _attach(self, generator: Any) -> None:
        """Put marks around a candidate generator's two methods."""
        self._assisted = True
        propose, learn = generator.get_candidates, generator.update_candidate_strategy

        def get_candidates(input_ids: Tensor, *args: Any, **kwargs: Any) -> Any:
            before = self.clock.mark()
            if not self.trail.first:
                self._read_prompt(generator, propose, input_ids, before, args, kwargs)
                return input_ids, None
            self._drafting = True
            candidates, logits = propose(input_ids, *args, **kwargs)
            self._drafting, self.verifying = False, True
            drafted = candidates.shape[1] - input_ids.shape[1]
            self._open = Step([self._begin, self.clock.mark()], drafted)
            return candidates, logits

        def update_candidate_strategy(input_ids: Tensor, scores: Any, num_matches: Any) -> None:
            self.verifying = False
            if self._open is not None:  # the withheld draft teaches nothing
                self._open.num_accepted = int(num_matches)
                learn(input_ids, scores, num_matches)

        generator.get_candidates = get_candidates
        generator.update_candidate_strategy = update_candidate_strategy

    def _read_prompt(
        self,
        generator: Any,
        propose: Callable[..., Any],
        input_ids: Tensor,
        before: Any,
        args: Any,
        kwargs: Any,
    ) -> None:
        """Let the drafter read the prompt; what it drafts on the way is dropped."""
        self.trail.prefill.append((self._begin, before))
        if hasattr(generator, "assistant_model"):
            self._drafting = True
            propose(input_ids, *args, **kwargs)
            self._drafting = False
            if hasattr(generator, "probs"):
                generator.probs.clear()
        after = self.clock.mark()
        self.trail.drafter_prefill.append((before, after))
        self._begin = after

    def _forward_begins(self) -> None:
        if self._drafting or not self.trail.first or self._assisted:
            return
        self._open = Step([self._begin, self._begin])  # plain decoding: a round is a forward

    def _forward_ends(self) -> None:
        if self._drafting:
            return
        self._forward = self.clock.mark()
        if self._open is not None:
            self._open.marks.append(self._forward)
        else:
            self.trail.prefill.append((self._begin, self._forward))
