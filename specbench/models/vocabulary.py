"""Whether two models speak the same token ids.

Speculation compares ids, so target and drafter must mean the same by each. The check is by
*content*: two heads of equal width may belong to different tokenizers, and two heads of different
width (padded to a multiple of 64, say) may share one.
"""

from __future__ import annotations

from specbench.errors import SpecbenchError
from specbench.models.language_model import LanguageModel


def require_same_vocabulary(target: LanguageModel, drafter: LanguageModel) -> None:
    """Refuse a drafter whose token ids mean something else than the target's.

    Without tokenizers (random test models) only equal head widths are accepted.

    Raises:
        SpecbenchError: naming the first id that differs, or the sizes.
    """
    hint = "The drafter must share the target's tokenizer: pick one of the same model family"
    if target.tokenizer is None or drafter.tokenizer is None:
        if target.vocab_size != drafter.vocab_size:
            raise SpecbenchError(
                f"drafter {drafter.name} has {drafter.vocab_size} ids, "
                f"target {target.name} has {target.vocab_size}, and there is no tokenizer to "
                "compare",
                hint,
            )
        return
    ours = {index: token for token, index in target.tokenizer.get_vocab().items()}
    theirs = {index: token for token, index in drafter.tokenizer.get_vocab().items()}
    for index in sorted(ours.keys() & theirs.keys()):
        if ours[index] != theirs[index]:
            raise SpecbenchError(
                f"drafter {drafter.name} has another vocabulary than target {target.name}: "
                f"id {index} is {theirs[index]!r} there and {ours[index]!r} here",
                hint,
            )
    unshared = len(ours.keys() ^ theirs.keys())
    if unshared > max(64, len(ours) // 100):
        raise SpecbenchError(
            f"drafter {drafter.name} has another vocabulary than target {target.name}: "
            f"{len(theirs)} tokens there, {len(ours)} here",
            hint,
        )


def require_same_layout(target: LanguageModel, drafter: LanguageModel) -> None:
    """Refuse a drafter that puts prompts elsewhere than the target, or begins outputs otherwise.

    Raises:
        SpecbenchError: one of the two has an encoder, or their start tokens differ.
    """
    if target.has_encoder != drafter.has_encoder:
        with_one = target if target.has_encoder else drafter
        raise SpecbenchError(
            f"drafter {drafter.name} can't draft for target {target.name}: {with_one.name} alone"
            " is an encoder-decoder",
            "The drafter must be of the target's family",
        )
    ours, theirs = target.layout(()).context, drafter.layout(()).context
    if list(ours) != list(theirs):
        raise SpecbenchError(
            f"drafter {drafter.name} begins its outputs behind the tokens {list(theirs)}, "
            f"target {target.name} behind {list(ours)}",
            "The drafter must be of the target's family",
        )
