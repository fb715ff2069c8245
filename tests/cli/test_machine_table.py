"""The table of the machine: columns that the run has anything in, within 80 columns."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.analysis.machine.measured import MachineUse
from specbench.cli._machine_table import machine_document, machine_sentences, print_machine

PLAIN = MachineUse(0.0, 1, "none", 0, 0.82, 0.80, 0.004, 1.6e10, 410.0, None, 1.234, 0.001)
LONG = replace(
    PLAIN, drafter="model:meta-llama/Llama-3.2-1B-Instruct", temperature=0.7, batch_size=256,
    gamma=16, rows_with=350.0,
)  # fmt: skip


def printed(capsys: pytest.CaptureFixture[str], *uses: MachineUse) -> str:
    print_machine(uses)
    return capsys.readouterr().out


def test_everything_that_is_known_fits_80_columns(capsys: pytest.CaptureFixture[str]):
    out = printed(capsys, PLAIN, LONG)
    assert max(map(len, out.splitlines())) <= 80
    plain = next(line for line in out.splitlines() if line.startswith("plain decoding"))
    assert plain.split()[2:] == ["0", "1", "-", "82%", "80%", "0.4%", "16.00", "410", "1.234"]
    assert "410/350" in out
    for name in ("moved", "counted", "compute", "GB", "rows", "J/token"):
        assert f"\n{name}: " in out


def test_columns_that_nothing_is_known_of_are_left_out(capsys: pytest.CaptureFixture[str]):
    on_cpu = replace(PLAIN, counted=None, energy_per_token_j=None)
    out = printed(capsys, on_cpu)
    assert "counted" not in out
    assert "J/token" not in out
    assert "82%" in out
    assert printed(capsys) == ""


def test_a_sentence_tells_the_least_and_the_most_of_what_is_known():
    assert machine_sentences(
        [replace(PLAIN, energy_per_token_j=None), replace(LONG, moved=0.3)]
    ) == [
        "over all cells, bytes that must move need 30% to 82% of the peak bandwidth; "
        "the GPU's counter saw 80% of it; memory peaks at 16.00 GB; "
        "410 rows fit without a drafter; 350 rows fit beside one; an emitted token takes 1.23 J"
    ]
    assert machine_sentences([]) == []


def test_the_document_has_all_fields_by_their_names():
    document = machine_document(LONG)
    assert document["bandwidth_utilization"] == 0.82
    assert document["bandwidth_utilization_counted"] == 0.80
    assert document["rows_with_drafter"] == 350.0
    assert document["energy_per_token_j"] == 1.234
