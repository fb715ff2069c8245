"""What files of other tools say of load, failures and repeats, and what is taken for granted."""

from __future__ import annotations

import codecs
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from specbench.errors import SpecbenchError
from specbench.records import importing
from specbench.records.importing.cells import Given, Imported
from specbench.records.importing.notes import told
from specbench.records.importing.pairing import add_speedups, unpaired
from tests import foreign

NOTHING = Given()


def imported(folder: Path, *files: Any, given: Given = NOTHING) -> tuple[list[Imported], list[str]]:
    """Cells with speedups, and notes; a list is a file of lines."""
    paths = [
        foreign.write(
            folder / f"f{place}.json",
            *(file if isinstance(file, list) else [file]),
            lines=isinstance(file, list),
        )
        for place, file in enumerate(files)
    ]
    _, _, cells = importing.read(paths, None, given)
    add_speedups(cells)
    return cells, [*told(note for cell in cells for note in cell.notes), *unpaired(cells)]


def at_rate(document: dict[str, Any], rate: float, peak: int) -> dict[str, Any]:
    """As `vllm bench serve --request-rate` writes it."""
    open_loop = {"max_concurrency": None, "max_concurrent_requests": peak}
    return {**document, "request_rate": rate, **open_loop}


def test_cells_of_one_request_rate_are_paired_whatever_their_peaks(tmp_path: Path) -> None:
    cells, notes = imported(
        tmp_path,
        at_rate(foreign.vllm(), 4.0, peak=9),
        at_rate(foreign.vllm_speculative(), 4.0, peak=5),
        at_rate(foreign.vllm_speculative(), 8.0, peak=9),
    )
    assert [cell.key["request_rate"] for cell in cells] == [4.0, 4.0, 8.0]
    assert [cell.key["batch_size"] for cell in cells] == [1, 1, 1]
    assert [cell.fields.get("speedup") for cell in cells] == [None, pytest.approx(1.6), None]
    (alone,) = (note for note in notes if "no speedup" in note)
    assert alone.endswith("another request rate (4 per second, not 8 per second)")


def test_a_rate_is_no_closed_loop_of_the_same_size(tmp_path: Path) -> None:
    slow = foreign.vllm_speculative(request_rate="2.0")
    cells, _ = imported(tmp_path, foreign.vllm(), slow)
    assert [cell.key["request_rate"] for cell in cells] == [0.0, 2.0]
    assert [cell.key["batch_size"] for cell in cells] == [4, 4]
    assert "speedup" not in cells[1].fields


@pytest.mark.parametrize("rate", ["fast", -1.0])
def test_a_rate_that_is_none_is_refused(tmp_path: Path, rate: Any) -> None:
    with pytest.raises(SpecbenchError, match="request_rate is"):
        imported(tmp_path, foreign.vllm(request_rate=rate))


def test_a_peak_stands_for_the_batch_size_only_until_it_is_given(tmp_path: Path) -> None:
    peak = foreign.vllm_speculative(max_concurrency=None, max_concurrent_requests=7)
    (cell,), notes = imported(tmp_path, peak)
    assert cell.key["batch_size"] == 7
    (guess,) = (text for text in cell.fields["warnings"] if "a guess (--batch-size)" in text)
    assert f"f0.json: {guess}" in notes
    (cell,), notes = imported(tmp_path, peak, given=Given(batch_size=4))
    assert cell.key["batch_size"] == 4
    assert not any("guess" in text for text in (*notes, *cell.fields["warnings"]))


def spec_bench_pair(questions: int = 8) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Questions of different speeds, each twice as fast as plain: 10 rounds of 2 tokens in the
    time that 10 plain tokens take."""
    plain = foreign.spec_bench("plain-temp-0.0", [[1] * 20] * questions, 0.1, ["qa"])
    spec = foreign.spec_bench("eagle-temp-0.0", [[2] * 10] * questions, 0.1, ["qa"])
    for place in range(questions):
        for answers in (plain, spec):
            choice = answers[place]["choices"][0]
            choice["wall_time"] = [seconds / (1 + place) for seconds in choice["wall_time"]]
    return plain, spec


def test_of_a_question_answered_again_the_last_answer_counts(tmp_path: Path) -> None:
    plain, spec = spec_bench_pair()
    first = json.loads(json.dumps(spec[4:]))
    for answer in first:
        answer["choices"][0]["wall_time"] = [100.0, 100.0]
    cells, notes = imported(tmp_path, plain, [*first, *spec])
    assert cells[1].fields["speedup"] == pytest.approx(2.0)
    assert cells[1].fields["num_rounds"] == 80
    assert [note for note in notes if "again" in note] == [
        "f1.json: 4 questions answered again, the last answer counts"
    ]


def test_several_choices_do_not_make_a_question_count_more(tmp_path: Path) -> None:
    plain, spec = spec_bench_pair()
    for answer in spec[4:]:
        answer["choices"] *= 2
    cells, _ = imported(tmp_path, plain, spec)
    assert cells[1].fields["speedup"] == pytest.approx(2.0)
    assert cells[1].fields["end_to_end_speedup"] == pytest.approx(2.0)


def test_both_speedups_are_over_the_questions_that_both_sides_answered(tmp_path: Path) -> None:
    plain, spec = spec_bench_pair()
    cells, _ = imported(tmp_path, plain, spec[5:])
    assert cells[1].fields["speedup"] == pytest.approx(2.0)
    assert cells[1].fields["end_to_end_speedup"] == pytest.approx(2.0)


def test_a_question_of_which_a_turn_failed_is_left_out(tmp_path: Path) -> None:
    plain, spec = spec_bench_pair()
    choice = spec[0]["choices"][0]
    choice["turns"], choice["wall_time"] = ["one", "ERROR"], [50.0, 50.0]
    cells, notes = imported(tmp_path, plain, spec)
    assert cells[1].fields["num_prompts"] == 7
    assert cells[1].fields["speedup"] == pytest.approx(2.0)
    assert "f1.json: 1 question left out, as a turn failed (ERROR)" in notes


def test_a_question_of_which_a_turn_took_no_time_is_left_out(tmp_path: Path) -> None:
    plain, spec = spec_bench_pair()
    spec[0]["choices"][0]["wall_time"][1] = 0.0
    cells, notes = imported(tmp_path, plain, spec)
    assert cells[1].fields["speedup"] == pytest.approx(2.0)
    assert "f1.json: 1 question left out, as a turn took no time" in notes


def test_the_noise_floor_is_of_the_times_that_speedups_are_of(tmp_path: Path) -> None:
    """Throughput at a set rate of arrival is that rate, however slow a server is."""
    plain = [foreign.vllm(mean_tpot_ms=time, output_throughput=500.0) for time in (80.0, 112.0)]
    cells, _ = imported(tmp_path, *plain, foreign.vllm_speculative())
    assert [cell.fields["noise_floor"] for cell in cells] == [pytest.approx(0.4)] * 3


@pytest.mark.parametrize("lacking", ["plain", "speculative"])
def test_a_time_that_is_missing_is_told(tmp_path: Path, lacking: str) -> None:
    plain, spec = foreign.vllm(), foreign.vllm_speculative()
    del (plain if lacking == "plain" else spec)["mean_tpot_ms"]
    _, notes = imported(tmp_path, plain, spec)
    (note,) = (note for note in notes if "no speedup" in note)
    assert note.endswith("it or its plain decoding lacks the time per output token")


@pytest.mark.parametrize("told_by", [{"accept_length": 3.1}, {"backend": "sglang"}])
def test_bench_serving_of_sglang_is_refused_by_name(tmp_path: Path, told_by: Any) -> None:
    with pytest.raises(SpecbenchError) as problem:
        imported(tmp_path, foreign.vllm(), foreign.vllm(**told_by))
    assert "f1.json is of SGLang's bench_serving, which is not read" in problem.value.message
    assert "--backend openai:URL" in (problem.value.hint or "")


def llama(drafted: int, accepted: int, **changes: Any) -> dict[str, Any]:
    """Requests that ended at the length limit, as :func:`tests.foreign.llama_cpp`."""
    document = foreign.llama_cpp(drafted, accepted, 12.5)
    for request in document["results"]:
        request |= {"finish_reason": "length", **changes}
    return document


@pytest.mark.parametrize("gamma", [1, 2, 3])
def test_a_gamma_that_llama_cpp_contradicts_is_refused(tmp_path: Path, gamma: int) -> None:
    with pytest.raises(SpecbenchError) as problem:  # 100 rounds a request
        imported(tmp_path, llama(400, 100), given=Given(gamma=gamma))
    said = f"drafted 1600 tokens in 400 rounds, 4.00 a round, above gamma {gamma}"
    assert said in problem.value.message


def test_rounds_that_may_have_been_cut_are_no_contradiction(tmp_path: Path) -> None:
    stopped = llama(408, 100, finish_reason="stop")  # two rounds a request were not counted
    cells, _ = imported(tmp_path, stopped, given=Given(gamma=4))
    assert cells[0].fields["draft_length_mean"] == pytest.approx(4.08)
    whole = llama(408, 100)  # at the length limit nothing is cut
    with pytest.raises(SpecbenchError, match="above gamma 4"):
        imported(tmp_path, whole, given=Given(gamma=4))


def test_a_gamma_that_vllm_contradicts_is_refused(tmp_path: Path) -> None:
    short = foreign.vllm_speculative(spec_decode_per_position_acceptance_rates=[0.7, 0.4])
    with pytest.raises(SpecbenchError, match=r"3\.00 a round, above gamma 2"):
        imported(tmp_path, short)


def failing(document: dict[str, Any], which: Sequence[int]) -> dict[str, Any]:
    """Some of llama.cpp's requests failed, which its summary leaves out."""
    for place in which:
        document["results"][place] |= {
            "ok": False,
            "error": "HTTP 500: no room",
            "draft_n": 0,
            "completion_tokens": 0,
            "predicted_ms": None,
        }
    for row in document["summary"]:
        done = [
            request
            for request in document["results"]
            if request["ok"] and row["category"] in ("overall", request["category"])
        ]
        row["requests"] = row["turns"] = len(done)
        row["draft_n"] = sum(request["draft_n"] for request in done)
        row["accepted"] = sum(request["draft_n_accepted"] for request in done)
    return document


def test_a_file_of_failed_requests_is_no_plain_decoding(tmp_path: Path) -> None:
    with pytest.raises(SpecbenchError, match="all 8 requests failed, the first one with 'HTTP 500"):
        imported(tmp_path, failing(foreign.llama_cpp(), range(8)))
    with pytest.raises(SpecbenchError, match="all 20 requests failed, so nothing tells"):
        imported(tmp_path, foreign.vllm(completed=0, failed=20))


def test_a_category_of_failed_requests_is_a_failed_cell(tmp_path: Path) -> None:
    document = failing(llama(200, 100), (1, 3, 5, 7))
    cells, notes = imported(tmp_path, document, given=Given(gamma=2))
    failed = next(cell for cell in cells if cell.key["task"] == "math")
    assert failed.fields["status"] == "failed"
    assert failed.key["gamma"] == 2
    assert any("math: all 4 requests failed" in note for note in notes)


def test_a_failed_result_of_vllm_is_a_failed_cell_without_numbers(tmp_path: Path) -> None:
    (cell,), _ = imported(tmp_path, foreign.vllm_speculative(completed=0, failed=20))
    assert cell.fields == {"status": "failed", "error": "all 20 requests failed"}


def test_failed_requests_are_warned_of_in_plain_decoding_too(tmp_path: Path) -> None:
    document = failing(llama(200, 100), (0, 2))
    cells, notes = imported(tmp_path, document, given=Given(gamma=2))
    assert "coding: 2 of 4 requests failed and are in no number" in cells[0].fields["warnings"]
    assert "f0.json: coding: 2 of 4 requests failed and are in no number" in notes
    (plain,), notes = imported(tmp_path, foreign.vllm(completed=12, failed=8))
    assert plain.fields["warnings"] == ["8 of 20 requests failed and are in no number"]
    assert f"f0.json: {plain.fields['warnings'][0]}" in notes


def test_a_failed_plain_cell_is_no_baseline(tmp_path: Path) -> None:
    """As a sweep tells of it, whose configuration says that it was not to draft."""
    key = "speculative_config.num_speculative_tokens"
    failed = {**foreign.vllm(completed=0, failed=20, mean_tpot_ms=1.0), key: 0}
    other = foreign.vllm(max_concurrency=8)
    cells, notes = imported(tmp_path, failed, foreign.vllm_speculative(), other)
    assert cells[0].failed
    assert any("no speedup" in note and "batch size (8, not 4)" in note for note in notes)
    assert "speedup" not in cells[1].fields


def test_filters_of_llama_cpp_are_in_the_key(tmp_path: Path) -> None:
    document = llama(200, 100)
    document["config"]["extra_inputs"] = {"temperature": 0.7, "top_p": 0.9, "top_k": 40}
    cells, notes = imported(tmp_path, foreign.llama_cpp(), document, given=Given(gamma=2))
    spec = [cell for cell in cells if not cell.is_baseline]
    assert {(cell.key["top_k"], cell.key["top_p"]) for cell in spec} == {(40, 0.9)}
    assert not any("top_k" in text for cell in spec for text in cell.fields["warnings"])
    assert any("temperature (0, not 0.7); top k (0, not 40)" in note for note in notes)
    document["config"]["extra_inputs"] = {"temperature": 0.7}
    cells, _ = imported(tmp_path, document, given=Given(gamma=2))
    assert "top_k or top_p is not told, taken as none" in cells[0].fields["warnings"]


def test_cells_of_another_target_are_named(tmp_path: Path) -> None:
    document = llama(200, 100)
    document["config"]["model"] = "qwen"
    _, notes = imported(tmp_path, foreign.llama_cpp(), document, given=Given(gamma=2))
    (note,) = (note for note in notes if "no speedup" in note)
    assert note.startswith("no speedup for 2 speculative cells")
    assert note.endswith("another target (unnamed, not qwen: --target names it)")


def test_a_file_given_twice_is_taken_once(tmp_path: Path) -> None:
    cells, notes = imported(tmp_path, foreign.vllm(), foreign.vllm(), foreign.vllm_speculative())
    assert [cell.is_baseline for cell in cells] == [True, False]
    assert "noise_floor" not in cells[1].fields
    assert "f1.json: the same as f0.json, taken once" in notes
    file = foreign.write(tmp_path / "once.json", foreign.vllm())
    _, sources, cells = importing.read([file, file], None, Given())
    assert (len(sources), len(cells)) == (1, 1)
    assert "once.json: given more than once, taken once" in told(cells[0].notes)


def test_one_note_tells_of_all_files(tmp_path: Path) -> None:
    files = [foreign.vllm_speculative(duration=60.0 + place) for place in range(6)]
    _, notes = imported(tmp_path, *files)
    assert [note for note in notes if "temperature" in note] == [
        "f0.json, f1.json, f2.json and 3 more: the temperature is not told, taken as 0 "
        "(--temperature)"
    ]


def test_gamma_is_the_length_of_all_drafts_where_nothing_else_tells_it(tmp_path: Path) -> None:
    document = foreign.vllm_speculative()
    del document["spec_decode_per_position_acceptance_rates"]
    (cell,), notes = imported(tmp_path, document)
    assert cell.key["gamma"] == 3
    assert "f0.json: gamma is not told, taken as drafted tokens / drafts" in notes
    (cell,), _ = imported(tmp_path, document, given=Given(gamma=5))
    assert cell.key["gamma"] == 5
    with pytest.raises(SpecbenchError, match="does not tell the gamma"):
        imported(tmp_path, {**document, "spec_decode_draft_tokens": 5999})


@pytest.mark.parametrize(
    ("gamma", "says"), [(2, "a gamma of 2 and rates of 3 positions"), (10**11, "longer than 1024")]
)
def test_a_gamma_that_cannot_be_is_refused(tmp_path: Path, gamma: int, says: str) -> None:
    with pytest.raises(SpecbenchError, match=says):
        imported(tmp_path, foreign.vllm_speculative(num_speculative_tokens=gamma))


def test_what_vllm_tells_of_requests_is_kept(tmp_path: Path) -> None:
    told_too = {"request_goodput": 0.095, "median_ttft_ms": 90.0, "p99_tpot_ms": 120.0}
    (cell,), _ = imported(tmp_path, foreign.vllm(**told_too, p90_e2el_ms=4000.0, p99_itl_ms=1.0))
    assert cell.fields["requests_per_s"] == 0.19
    assert cell.fields["goodput_per_s"] == 0.095
    assert cell.fields["goodput_share"] == pytest.approx(0.095 * 104.0 / 20)
    assert cell.fields["percentiles"] == {
        "ttft_s": {"p50": 0.09},
        "itl_s": {"p99": 0.12},
        "wall_s": {"p90": 4.0},
    }
    (cell,), _ = imported(tmp_path, foreign.vllm(request_goodput=None))
    assert [cell.fields[name] for name in ("goodput_per_s", "goodput_share", "percentiles")] == [
        None
    ] * 3


@pytest.mark.parametrize(
    "encoded",
    [
        lambda text: codecs.BOM_UTF8 + text.encode(),
        lambda text: codecs.BOM_UTF16_LE + text.encode("utf-16-le"),
    ],
)
def test_files_as_powershell_writes_them_are_read(tmp_path: Path, encoded: Any) -> None:
    lines = [json.dumps(foreign.sglang(steps=0, tau=1.0)), json.dumps(foreign.sglang())]
    file = tmp_path / "out.jsonl"
    file.write_bytes(encoded("\r\n".join(lines) + "\r\n"))
    _, _, cells = importing.read([file], None, Given())
    assert [cell.is_baseline for cell in cells] == [True, False]
