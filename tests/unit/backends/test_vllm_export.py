"""A draft model with wider heads computes what it computed: attention done by hand, both ways."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from specbench.backends._vllm_export import for_vllm
from specbench.weights.finding import resolve
from tests.unit.weights.tiny import write_folder

SIZE, WIDE, HEADS, KEY_HEADS = 8, 32, 4, 2


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.setenv("SPECBENCH_CACHE", str(tmp_path / "cache"))
    folder = write_folder(tmp_path / "draft")
    return folder, for_vllm(resolve(str(folder)))


def attention(folder: Path, states: Tensor, rotated: int) -> Tensor:
    """The first layer's attention over states [S, H], of whose heads ``rotated`` dims turn."""
    config = json.loads((folder / "config.json").read_text())
    weights = load_file(folder / "model.safetensors")
    part = "model.layers.0.self_attn."
    q, k, v = (states @ weights[f"{part}{name}_proj.weight"].T for name in "qkv")
    size = config["head_dim"]
    theta = config["rope_parameters"]["rope_theta"]
    angles = torch.arange(len(states))[:, None] * theta ** -(
        torch.arange(0, rotated, 2).double() / rotated
    )

    def heads(x: Tensor) -> Tensor:
        return x.view(len(x), -1, size).transpose(0, 1)

    def turned(x: Tensor) -> Tensor:
        a, b = x[..., : rotated // 2], x[..., rotated // 2 : rotated]
        cos, sin = angles.cos(), angles.sin()
        return torch.cat((a * cos - b * sin, b * cos + a * sin, x[..., rotated:]), dim=-1)

    queries, keys = turned(heads(q)), turned(heads(k)).repeat_interleave(HEADS // KEY_HEADS, 0)
    scores = queries @ keys.transpose(1, 2) / math.sqrt(size)
    scores = scores + torch.full_like(scores, -math.inf).triu(1)
    mixed = scores.softmax(-1) @ heads(v).repeat_interleave(HEADS // KEY_HEADS, 0).to(scores)
    joined = mixed.transpose(0, 1).reshape(len(states), -1)
    return joined @ weights[f"{part}o_proj.weight"].T.to(joined)


def test_wider_heads_change_nothing(folders: tuple[Path, Path]):
    narrow, wide = folders
    states = torch.randn(7, 32, generator=torch.Generator().manual_seed(0))
    config = json.loads((wide / "config.json").read_text())
    assert config["head_dim"] == WIDE
    rotated = int(WIDE * config["rope_parameters"]["partial_rotary_factor"])
    assert rotated == SIZE
    before, after = attention(narrow, states, SIZE), attention(wide, states, rotated)
    torch.testing.assert_close(before, after)


def test_it_is_written_once_and_only_where_it_is_needed(folders: tuple[Path, Path], tmp_path: Path):
    narrow, wide = folders
    written = (wide / "model.safetensors").stat().st_mtime_ns
    assert for_vllm(resolve(str(narrow))) == wide
    assert (wide / "model.safetensors").stat().st_mtime_ns == written
    assert for_vllm(resolve(str(wide))) == wide
    assert (wide / "tokenizer.json").is_file()
