"""Tiny quantised models, of real libraries where they are installed and by hand where not."""

from __future__ import annotations

import copy
import importlib.util

import pytest
import torch
from torch import nn

from specbench.models.encoder_decoder import wrapped
from specbench.models.language_model import LanguageModel
from specbench.weights import quantizing
from tests.tiny import language_model

WIDE = {"hidden_size": 64, "intermediate_size": 96, "vocab_size": 61}
"""Sizes that int4 can divide: rows of 64 and 96 weights, matrices of a multiple of 16 rows."""

CPU = torch.device("cpu")


def needs(package: str) -> pytest.MarkDecorator:
    """Skips a test by name where a package is not installed."""
    missing = importlib.util.find_spec(package) is None
    return pytest.mark.skipif(missing, reason=f"{package} is not installed")


def wide_model(kind: str = "llama", seed: int = 0) -> LanguageModel:
    """A tiny random model that can be quantised."""
    return language_model(kind, seed=seed, **WIDE)


def quantised(model: LanguageModel, method: str) -> LanguageModel:
    """A copy of a model with quantised weights."""
    module = copy.deepcopy(model.model)
    quantizing.quantize(module, quantizing.prepared(method, module, torch.float32, CPU))
    return wrapped(module, model.tokenizer, f"{model.name}, {method}")


class PackedLinear(nn.Module):
    """A layer as GPTQ's are: buffers in place of parameters. 4 bits, groups of 32, no bias."""

    def __init__(self, in_features: int, out_features: int) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        groups = in_features // 32
        self.register_buffer(
            "qweight", torch.zeros(in_features // 8, out_features, dtype=torch.int32)
        )
        self.register_buffer("qzeros", torch.zeros(groups, out_features // 8, dtype=torch.int32))
        self.register_buffer("scales", torch.ones(groups, out_features, dtype=torch.float16))
        self.register_buffer("g_idx", torch.arange(in_features, dtype=torch.int32) // 32)
        self.register_buffer("wf", torch.zeros(8, dtype=torch.int32), persistent=False)
        self.bias = None

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Nothing of the layer's is used: zeros [..., out_features]."""
        return states.new_zeros(*states.shape[:-1], self.out_features)
