"""Which keys the layers of a model see: all before them, or only the last few.

The cache keeps every key, in layers with a window too: a rollback would need those that a cache of
the window's size has dropped. The window stands in the mask instead, per row and by *positions*,
not slots: in a tree siblings lie in slots of their own and share a position.

Models whose layers are all alike take one mask, others one per kind of layer, as transformers
names the kinds.

>>> from transformers import Gemma2Config
>>> layer_windows(Gemma2Config(num_hidden_layers=4, sliding_window=9))
{'full_attention': None, 'sliding_attention': 9}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

FULL, SLIDING = "full_attention", "sliding_attention"


def layer_windows(config: Any) -> dict[str, int | None]:
    """Kind of layer -> how many last tokens it sees, its own included; None: all.

    Args:
        config: of a transformers model, or of its text.
    """
    text = config.get_text_config()
    window = getattr(text, "sliding_window", None)
    kinds = getattr(text, "layer_types", None)
    if kinds is None:
        slides = window and getattr(text, "use_sliding_window", True)
        kinds = [SLIDING if slides else FULL]
    seen = int(window) if window else None
    return {kind: seen if kind == SLIDING else None for kind in sorted(set(kinds))}


def masks_by_layer(
    windows: Mapping[str, int | None],
    visible: Tensor,
    positions: Tensor,
    slot_positions: Tensor,
    additive: Callable[[Tensor], Tensor],
) -> Tensor | dict[str, Tensor]:
    """What a model's forward takes for ``attention_mask``.

    Args:
        windows: of :func:`layer_windows`.
        visible: [B, S, slots] what tokens may see if nothing is too far away.
        positions: [B, S] of the tokens.
        slot_positions: [B, slots] of what lies in each slot, or [1, slots].
        additive: makes [B, 1, S, slots], added to attention scores, of what is hidden.
    """
    masks = {}
    for kind, window in windows.items():
        hidden = ~visible
        if window is not None:
            hidden |= slot_positions[:, None] <= positions[:, :, None] - window
        masks[kind] = additive(hidden)
    return masks if len(masks) > 1 else next(iter(masks.values()))


def open_own_windows(model: nn.Module) -> None:
    """Let layers that make a window of their own (GPT-Neo's local ones) see all tokens before.

    They count slots back from the last one covered, which in a tree lies beyond the row's last
    position. Contexts stay inside such a window, where it hides nothing.
    """
    for module in model.modules():
        if getattr(module, "attention_type", None) == "local" and hasattr(module, "bias"):
            module.bias.copy_(torch.ones_like(module.bias).tril())
