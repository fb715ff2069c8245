"""The native backend keeps the states of prompts that a block's drafters read, and no others."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests import published
from tests.unit.backends.test_native import LIMITS, Load, cell, generate, requests


def test_heads_run_beside_drafters_that_need_no_states(load: Load, tmp_path: Path):
    backend = load()
    asked = requests(backend)
    target = backend.target
    layers = {"eagle_aux_hidden_state_layer_ids": [0, 1, 1]}
    heads = [
        f"medusa:{published.write_medusa(tmp_path / 'medusa', target)}",
        f"eagle:{published.write_eagle(tmp_path / 'eagle', target)}",
        f"eagle3:{published.write_eagle3(tmp_path / 'eagle3', target, **layers)}",
    ]
    expected = generate(backend, cell(), asked)
    cells = [cell(), cell("ngram", 2), *(cell(spec, 2, batch_size=2) for spec in heads)]
    backend.check(cells)
    assert set(backend.drafter_facts) == set(heads), "ngram has no weights"
    for spec in heads:
        facts = backend.drafter_facts[spec]
        (name,) = facts["files"]
        file = Path(spec.partition(":")[2]) / name
        assert facts["sha256"] == hashlib.sha256(file.read_bytes()).hexdigest()
        assert facts["files"] == {file.name: facts["sha256"]}
        assert facts["served_from"] == f"folder:{file.parent.resolve()}"
    for chosen, kept in ((cells[:2], set()), (cells[2:4], {2}), (cells, {0, 1, 2})):
        backend.begin_block(asked, chosen, LIMITS)
        for prefill, request in zip(backend._prefills.values(), asked, strict=True):
            assert set(prefill.hidden) == kept
            for states in prefill.hidden.values():
                assert states.shape == (len(request.token_ids), target.config.hidden_size)
        for point in chosen:
            assert backend.generate(point, asked, LIMITS).outputs == expected
        backend.end_block()
    assert backend.cost(cells[-1])["drafter_weight_bytes"] > 0
    own = [backend.cost(point)["drafter_kv_bytes_per_token"] for point in cells[2:]]
    assert own[0] == 0  # Medusa's heads keep none
    layer = 2 * target.config.num_key_value_heads * 8 * 4  # keys and values of 8 floats a head
    assert own[1:] == [layer, layer]
    assert backend.draft_sampling(cell(heads[1], 2, temperature=1.0)) == "sampled"
    assert backend.draft_sampling(cell(heads[1], 2)) == "one-hot"
