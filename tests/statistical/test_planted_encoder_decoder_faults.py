"""Faults that are planted in what encoder-decoders have of their own: greedy parity sees each."""

from __future__ import annotations

import contextlib

import pytest
import torch

from specbench.models.decoder_positions import AddedPositions, RelativeBias
from specbench.models.sources import SourceCache, Sources
from tests.lossless import greedy_faults
from tests.parity.test_encoder_decoder_lossless import MAIN, cell, reference


def faults(kind: str, spec: str | None = None, batch_size: int = 3) -> list[str]:
    outputs = cell(kind, spec, batch_size, gamma=0 if spec is None else 3).outputs
    return greedy_faults(outputs, reference(kind)[: len(outputs)])


@pytest.fixture(autouse=True, scope="module")
def sound():
    """Before anything is planted; references and prompts are made then too."""
    for kind in MAIN:
        assert faults(kind) == []


@pytest.mark.parametrize("kind", MAIN)
def test_padding_of_sources_that_is_not_masked(kind, monkeypatch):
    measure = Sources._measure

    def unmasked(self, lengths, device):
        measure(self, lengths, device)
        self.padding = torch.zeros_like(self.padding)

    monkeypatch.setattr(Sources, "_measure", unmasked)
    assert faults(kind) != []
    assert faults(kind, batch_size=1) == [], "one source alone has no padding"


@pytest.mark.parametrize("kind", MAIN)
def test_the_source_of_another_row(kind, monkeypatch):
    put = Sources.put
    monkeypatch.setattr(
        Sources, "put", lambda self, row, source: put(self, (row + 1) % len(self.lengths), source)
    )
    assert faults(kind) != []


@pytest.mark.parametrize("kind", MAIN)
def test_a_slot_that_keeps_the_source_it_had(kind, monkeypatch):
    def keep(self, row, snapshot):
        super(SourceCache, self).restore(row, snapshot)
        if not self.sources.lengths[row]:
            self.sources.put(row, snapshot.source)

    monkeypatch.setattr(SourceCache, "restore", keep)
    assert faults(kind, batch_size=1) != []


@pytest.mark.parametrize("kind", MAIN)
def test_positions_of_the_first_row_for_all_rows(kind, monkeypatch):
    positions = RelativeBias if kind == "t5" else AddedPositions
    told = positions.told

    def first(self, positions, extent):
        return told(self, positions[:1].expand_as(positions), extent)

    monkeypatch.setattr(positions, "told", first)
    assert faults(kind, "ngram") != []
    assert faults(kind, "ngram", batch_size=1) == [], "one row alone is the first"


@pytest.mark.parametrize("kind", MAIN)
def test_positions_that_nobody_tells(kind, monkeypatch):
    positions = RelativeBias if kind == "t5" else AddedPositions
    monkeypatch.setattr(positions, "told", lambda *_: contextlib.nullcontext())
    assert faults(kind, batch_size=1) != []
