"""The first layers of a model as a model of their own, sharing weights and cache.

Nothing is copied but the module shells on the way to the layer list: a shell copy gets a shorter
list and a config that says so, and keeps embedding, final norm and head. Because the layers that
remain are the target's, K/V that they write is what the target's own forward writes, so the
drafter reads the target's cache and leaves it valid.
"""

from __future__ import annotations

import copy

from torch import nn

from specbench.errors import SpecbenchError
from specbench.models.language_model import LanguageModel


def first_layers(target: LanguageModel, num_layers: int) -> LanguageModel:
    """A view of ``target`` that exits after ``num_layers`` layers, through its final norm and head.

    Raises:
        SpecbenchError: there are not more layers than that, or the layer list is not found.
    """
    total = target.config.num_hidden_layers
    if not 1 <= num_layers < total:
        raise SpecbenchError(
            f"early-exit:{num_layers} needs a number of layers from 1 to {total - 1}",
            f"{target.name} has {total} layers",
        )
    path = _layer_list(target.model, total)
    if path is None:
        raise SpecbenchError(
            f"early-exit: no list of {total} layers in {type(target.model).__name__}",
            "Use ngram or model:NAME for this architecture",
        )
    shell = _shell_copy(target.model)
    parent = shell
    for name in path[:-1]:
        child = _shell_copy(getattr(parent, name))
        parent._modules[name] = child
        parent = child
    parent._modules[path[-1]] = nn.ModuleList(list(getattr(parent, path[-1]))[:num_layers])
    _shorten_configs(shell, path, num_layers)
    return LanguageModel(shell, target.tokenizer, f"{target.name}[:{num_layers}]")


def _layer_list(model: nn.Module, total: int) -> list[str] | None:
    """The attribute path of the module list that holds the decoder layers."""
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and len(module) == total:
            return name.split(".")
    return None


def _shell_copy(module: nn.Module) -> nn.Module:
    """The module with its own child table; children and parameters are shared."""
    shell = copy.copy(module)
    shell._modules = dict(module._modules)
    return shell


def _shorten_configs(shell: nn.Module, path: list[str], num_layers: int) -> None:
    """Give every shell on the path one config that has as many layers as the list."""
    config = copy.deepcopy(shell.config)
    text = config.get_text_config()
    layer_types = getattr(text, "layer_types", None)
    if layer_types:
        text.layer_types = layer_types[:num_layers]
    text.num_hidden_layers = num_layers
    shell.config = config
    module = shell
    for name in path[:-1]:
        module = getattr(module, name)
        if hasattr(module, "config"):
            module.config = text
