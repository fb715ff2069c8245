"""Trees and adaptive drafts in a cell's line, computed by hand from the tables in samples.py."""

from __future__ import annotations

from specbench.records.schema import CellRecord
from specbench.records.summary import identities, summarize
from tests.golden.test_summary_golden import check
from tests.unit.records import samples


def test_a_tree_is_counted_by_depth() -> None:
    point = samples.cell(drafter="eagle:x,tree=8", gamma=3)
    fields = summarize(point, *samples.tree(), [samples.single_baseline()])
    check(
        fields,
        {
            "num_drafted": 28,
            "alpha": 6 / 8,
            "alpha_by_position": [3 / 4, 2 / 3, 1.0],
            "survival_by_position": [3 / 4, 2 / 4, 1 / 4],
            "draft_acceptance_rate": 6 / 28,
            "tau": 2.5,  # the leaf: less than the 2.75 of the depths
            "draft_length_mean": 3.0,
            "draft_length_counts": [0, 0, 0, 4],
            "tree_nodes": 8,
            "c": 0.1,
            "v": 1.5,
            "overhead": 0.2,
            "speedup": 10 / 8,
        },
    )
    assert CellRecord.of(point, **fields).draft_form == "tree"
    assert identities(point, *samples.tree()) == []


def test_an_adaptive_draft_is_counted_by_its_lengths() -> None:
    point = samples.cell(drafter="eagle:x,gamma=auto", gamma=4)
    fields = summarize(point, *samples.adaptive(), [samples.single_baseline()])
    check(
        fields,
        {
            "alpha": 6 / 8,
            "alpha_by_position": [3 / 4, 1 / 2, 1.0, 1.0],
            "survival_by_position": [3 / 4, 1 / 4, 1 / 4, 1 / 4],
            "tau": 2.5,
            "draft_length_mean": 2.0,
            "draft_length_counts": [0, 2, 1, 0, 1],
            "tree_nodes": None,
            "c": 0.1,
            "v": 1.2,  # of all rounds: hardly any draft reaches the cap
            "speedup": 10 / 6,
        },
    )
    assert identities(point, *samples.adaptive()) == []


def test_a_chain_s_lengths_are_counted_and_no_round_is_no_number() -> None:
    assert summarize(samples.cell(), *samples.single())["draft_length_counts"] == [1, 0, 4]
    assert "draft_length_counts" not in summarize(
        samples.cell(drafter="none", gamma=0, baseline="first"), *samples.single_baseline()
    )
    rounds, _ = samples.single()
    nothing = {name: [] for name in rounds}
    requests = samples.requests_table([{"num_tokens": 1, "decode_s": 0.0}])
    fields = summarize(samples.cell(), nothing, requests, [(nothing, requests)])
    assert fields["draft_length_counts"] == [0, 0, 0]
    for name in ("tau", "alpha", "tok_per_s", "speedup", "c", "itl_s", "draft_s"):
        assert fields.get(name) is None, name
