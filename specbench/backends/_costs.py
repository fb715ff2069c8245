"""What forwards of a target and a drafter move and compute.

The names are those of :data:`specbench.records.traffic.Cost`.
"""

from __future__ import annotations

from collections.abc import Collection

from specbench.drafters.base import Drafter
from specbench.models.description import held_bytes
from specbench.models.language_model import LanguageModel, Prefill
from specbench.models.sources import SourceCache, SourceSnapshot
from specbench.theory.traffic import Experts, Traffic

Costs = dict[str, float | None]


def target_costs(weight_bytes: float, traffic: Traffic | None, experts: Experts | None) -> Costs:
    """Of a target's forwards; operations only of an architecture that is known.

    Args:
        weight_bytes: of all weights, experts included.
        traffic: None where the architecture is not described.
        experts: as :func:`specbench.models.description.experts_of` finds them; None: nobody knows
            how many a forward reads, so what its weights are is not known either.
    """
    if traffic is None:
        if experts is None:
            return {"weight_bytes": None}
        return {
            "weight_bytes": weight_bytes,
            "expert_bytes": experts.num_bytes,
            "num_experts": experts.count,
            "active_experts": experts.active,
        }
    return {
        "weight_bytes": weight_bytes,
        "expert_bytes": traffic.experts.num_bytes,
        "num_experts": traffic.experts.count,
        "active_experts": traffic.experts.active,
        "lookup_bytes": traffic.lookup_bytes,
        "multiplied_weights": traffic.multiplied,
        "attention_flops_per_pair": traffic.attention_flops,
    }


def drafter_costs(
    drafter: Drafter | None, target: LanguageModel, kv_bytes_per_token: float | None
) -> Costs:
    """Of a drafter's steps, and of what it adds to memory; zeros of plain decoding.

    Args:
        kv_bytes_per_token: of the target's cache.
    """
    if drafter is None:
        return {
            "drafter_weight_bytes": 0,
            "drafter_held_bytes": 0,
            "drafter_kv_bytes_per_token": 0,
            "drafter_one_step": False,
        }
    own = drafter.cache.bytes_per_token if drafter.cache is not None else 0
    read = own
    if drafter.shared_layers and kv_bytes_per_token is not None:
        read = kv_bytes_per_token * drafter.shared_layers / target.config.num_hidden_layers
    return {
        "drafter_weight_bytes": drafter.weight_bytes,
        "drafter_held_bytes": held_bytes(drafter.modules, beyond=target.model),
        "drafter_kv_bytes_per_token": own,
        "drafter_kv_read_bytes_per_token": read,
        "drafter_one_step": drafter.one_step,
    }


def source_costs(prefills: Collection[Prefill], drafter: Drafter | None) -> Costs:
    """Of what decoding reads of the sources beside its own text; nothing where there are none."""
    snapshots = [prefill.snapshot for prefill in prefills]
    layers = [
        layer for one in snapshots[:1] if isinstance(one, SourceSnapshot) for layer in one.source
    ]
    if not layers:
        return {}
    cache = drafter.cache if drafter is not None else None
    drafted = cache.sources.layers if isinstance(cache, SourceCache) else []
    return {
        "source_tokens": sum(len(prefill.layout.source) for prefill in prefills) / len(prefills),
        "source_kv_bytes_per_token": sum(layer.bytes_per_token for layer in layers),
        "drafter_source_kv_bytes_per_token": sum(layer.bytes_per_token for layer in drafted),
    }
