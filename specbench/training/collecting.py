"""The corpus of an order: what it holds must be answers to what the order asks, and enough.

collector = Collector(order)  # reads the grammar and the outputs, before any model is loaded
corpus = collector.collect(target, sha256, listener)
"""

from __future__ import annotations

import time

from specbench.errors import SpecbenchError
from specbench.models.language_model import LanguageModel
from specbench.training.corpus import Corpus
from specbench.training.eagle3 import feature_layers
from specbench.training.generate import Plan, extend
from specbench.training.order import Listener, Order
from specbench.training.outputs import adopt, read_outputs
from specbench.training.prompts import PROMPTS_FILE, PromptGrammar
from specbench.training.source import OUTPUTS, PROMPTS, Source


class Collector:
    """Collects the answers that an order asks for.

    Args:
        order: its grammar and its outputs are read.

    Raises:
        SpecbenchError: one of them is unreadable or broken.
    """

    def __init__(self, order: Order) -> None:
        self.order = order
        file = order.prompts or PROMPTS_FILE
        self.grammar = PromptGrammar.read(file)
        self.prompts = Source.of_prompts(file)
        self.outputs = read_outputs(order.outputs) if order.outputs is not None else None

    def collect(self, target: LanguageModel, sha256: object, listener: Listener) -> Corpus:
        """The corpus with enough tokens, its states those that any kind of drafter reads.

        Args:
            target: whose output it is.
            sha256: of the target's weights; None where it is not known.
            listener: is told how far things are.

        Raises:
            SpecbenchError: the folder is another target's, answers other prompts, or has no need of
                the prompts that were given.
        """
        depth = target.config.num_hidden_layers
        layers = tuple(sorted({*feature_layers(depth), depth}))
        about = {"target": target.name, "layers": list(layers), "sha256": sha256}
        corpus = Corpus(self.order.corpus, about)
        self._check_prompts(corpus, listener)
        self._name_other_outputs(corpus, listener)
        before, begin = set(corpus.shards()), time.monotonic()

        def report(tokens: int) -> None:
            listener.collecting(tokens, self.order.tokens)

        if self.outputs is not None:
            adopt(corpus, target, self.outputs, layers, report=report)
            if left_out := self.outputs.left_out(target.context_limit):
                listener.message(left_out)
        self._check_need(corpus)
        plan = Plan(
            seed=self.order.budget.seed,
            batch_size=self.order.batch_size,
            max_new_tokens=min(self.order.max_new_tokens, target.context_limit // 2),
            layers=layers,
            source=self.prompts,
        )
        extend(corpus, target, self.grammar, plan, self.order.tokens, report=report)
        made = sorted(set(corpus.shards()) - before)
        if made:
            minutes = (time.monotonic() - begin) / 60
            tokens = corpus.num_tokens(made)
            listener.message(f"collected {tokens:,} tokens in {minutes:.1f} minutes")
        return corpus

    def _check_prompts(self, corpus: Corpus, listener: Listener) -> None:
        """Refuse answers to other prompts; those to unknown ones too if prompts were given."""
        asked = [source for source in corpus.num_answers() if source.kind == PROMPTS]
        for source in asked:
            if source.sha256 is None and self.order.prompts is None:
                listener.message(
                    f"the corpus {corpus.folder} is of an earlier version: which prompts it"
                    " answers is not known"
                )
            elif source.sha256 != self.prompts.sha256:
                raise SpecbenchError(
                    f"the corpus {corpus.folder} answers {source.words}, not {self.prompts.words}",
                    "Use another --corpus, or the --prompts it was made with",
                )

    def _name_other_outputs(self, corpus: Corpus, listener: Listener) -> None:
        """Tell of answers from files that the order does not name: they are learned from too."""
        ours = None if self.outputs is None else self.outputs.source.sha256
        for source, count in corpus.num_answers().items():
            if source.kind == OUTPUTS and (source.sha256 is None or source.sha256 != ours):
                listener.message(
                    f"the corpus {corpus.folder} also holds {count} answers from {source.words}"
                )

    def _check_need(self, corpus: Corpus) -> None:
        """Refuse prompts of the user's that would not be asked."""
        is_asked = any(source.kind == PROMPTS for source in corpus.num_answers())
        if self.order.prompts is None or is_asked:
            return
        tokens = corpus.num_tokens()
        if tokens >= self.order.tokens:
            raise SpecbenchError(
                f"nothing in {self.order.prompts} would be asked: the outputs in {corpus.folder}"
                f" have {tokens:,} tokens already",
                "Raise --tokens, or leave --prompts out",
            )
