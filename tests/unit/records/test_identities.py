from __future__ import annotations

from collections.abc import Callable

import pytest

from specbench.records.identities import identities
from tests.unit.records import samples
from tests.unit.records.samples import Columns


def test_honest_tables_violate_nothing() -> None:
    assert identities(samples.cell(), *samples.single()) == []
    assert identities(samples.cell(batch_size=2), *samples.batch()) == []
    baseline = samples.cell(drafter="none", gamma=0, baseline="first")
    assert identities(baseline, *samples.single_baseline()) == []
    baseline = samples.cell(drafter="none", gamma=0, baseline="last", batch_size=2)
    assert identities(baseline, *samples.batch_baseline()) == []


def test_no_rounds_at_all_is_honest() -> None:
    rounds = {name: [] for name in samples.single()[0]}
    requests = samples.requests_table([{"num_tokens": 1, "decode_s": 0.0}])
    assert identities(samples.cell(), rounds, requests) == []


def put(column: str, row: int, value: object) -> Callable[[Columns, Columns], None]:
    def change(rounds: Columns, requests: Columns) -> None:
        table = rounds if column in rounds else requests
        table[column][row] = value

    return change


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (put("num_accepted", 0, 3), "round row 0 has 3 accepted but gamma 2"),
        (put("num_evaluated", 1, 3), "round row 1 has 3 evaluated but drafted 2"),
        (put("num_evaluated", 0, 1), "round row 0 has 2 accepted but evaluated 1"),
        (put("draft_levels", 0, 1), "round row 0 has 2 evaluated but draft levels 1"),
        (put("draft_levels", 1, 3), "round row 1 has 3 draft levels but gamma 2"),
        (put("num_emitted", 0, 2), "round row 0 of request 0 emitted 2, accepted + 1 is 3"),
        (put("num_emitted", 4, 4), "round row 4 of request 1 emitted 4, accepted + 1 is 3"),
        (put("num_emitted", 2, 0), "round row 2 of request 0 emitted 0, accepted + 1 is 1"),
        (put("output_ids", 1, [1, 2]), "request 1 emitted 1 + 3 tokens in prefill and rounds"),
        (put("num_tokens", 0, 7), "request 0 counts 7 tokens, its output has 6"),
        (put("request", 4, 2), "rounds name request 2, there are 2"),
        (put("decode_s", 0, 5.0), "other over its rounds is 4.1 s, decode time 5 s"),
        (put("verify_s", 0, 2.2), "other over its rounds is 5.1 s, decode time 4.1 s"),
        (put("wall_s", 1, 9.0), "time to first token + decode is 3.75 s, wall time 9 s"),
    ],
)
def test_a_planted_fault_is_named_with_both_sides(
    change: Callable[[Columns, Columns], None], sentence: str
) -> None:
    rounds, requests = samples.single()
    change(rounds, requests)
    found = identities(samples.cell(), rounds, requests)
    assert any(sentence in text for text in found), found


def test_tau_above_gamma_plus_one() -> None:
    rounds, requests = samples.single()
    rounds["num_accepted"] = [4] * 5
    assert "block efficiency: tau 5 is above gamma + 1 = 3" in identities(
        samples.cell(), rounds, requests
    )


def test_in_a_batch_a_row_may_wait_but_not_work_longer_than_it_was_there() -> None:
    point, (rounds, requests) = samples.cell(batch_size=2), samples.batch()
    requests["decode_s"][0], requests["wall_s"][0] = 9.0, 9.5
    assert identities(point, rounds, requests) == []
    requests["decode_s"][0], requests["wall_s"][0] = 3.0, 3.5
    (found,) = identities(point, rounds, requests)
    assert (
        found == "times: request 0: draft + verify + other over its rounds is 4 s, decode time 3 s"
    )


def test_missing_times_say_nothing() -> None:
    rounds, requests = samples.single()
    requests["wall_s"] = [None, None]
    assert identities(samples.cell(), rounds, requests) == []
