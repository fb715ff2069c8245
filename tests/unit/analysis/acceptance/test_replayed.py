"""A trace of the text predicts what models by position can't: matches that come in stretches."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from specbench.analysis.acceptance.replayed import ReplayedTokens, Traces
from specbench.analysis.fit import fit_run
from specbench.analysis.machine.limits import limits_of
from specbench.analysis.pooling import GroupKey, RawTables, groups
from specbench.analysis.prediction.held_out import accuracy, held_out, predict
from specbench.records.store import RunWriter, load_run
from specbench.records.trace_summary import summarize_trace
from specbench.records.traces import TraceRecord, columns_of, write_trace
from specbench.theory.acceptance import Counts, Sample
from specbench.theory.replay import replay_drafts
from tests.cost_worlds import World
from tests.replays import drafts_of
from tests.simulate import SimulatedDrafter, simulate_run

GAMMAS = (1, 2, 3, 4, 6, 8)
LENGTH = 400


def stretches(texts: int, seed: int = 0) -> list[np.ndarray]:
    """Matches of a copying drafter: long runs of hits, long runs of misses."""
    generator = np.random.default_rng(seed)
    found = []
    for _ in range(texts):
        hits, state = [], True
        while len(hits) < LENGTH:
            hits += [float(state)] * int(generator.geometric(0.1 if state else 0.3))
            state = not state
        found.append(np.array(hits[:LENGTH]))
    return found


def counted(texts: list[np.ndarray]) -> tuple[Sample, ReplayedTokens]:
    """Counts of the loop at each gamma, and the same rounds from the trace."""
    names = np.array([f"c{index:02d}" for index in range(len(texts))])
    sample, rounds, emitted = {}, {}, np.zeros(len(texts))
    for gamma in GAMMAS:
        replayed = replay_drafts([drafts_of(text, gamma) for text in texts], gamma)
        sample[gamma] = Counts(names, replayed.accepted, replayed.evaluated)
        rounds[gamma] = replayed.rounds
        emitted = replayed.rounds + replayed.accepted.sum(axis=1)
    # what is emitted differs by gamma at the end of a text only; the last gamma's stands for all
    return sample, ReplayedTokens(names, emitted, rounds)


def test_the_text_tells_what_no_alpha_by_position_can() -> None:
    sample, replayed = counted(stretches(24))
    still = World(context=0.0, noise=0.0)
    evidence, speedups = still.evidence(sample, np.random.default_rng(0))
    by_model, by_text = predict(evidence, speedups), predict(evidence, speedups, replayed)
    assert by_model is not None
    assert by_text is not None
    assert {cell.acceptance for cell in by_text.cells} == {"replay"}
    assert "replay" not in {cell.acceptance for cell in by_model.cells}
    assert by_text.errors.worst < 0.01 < by_model.errors.worst
    assert max(abs(cell.tokens_error) for cell in by_text.cells) < 0.01
    assert "over 6 cells (6 with tokens replayed on a trace)" in accuracy([by_text])
    assert "replayed" not in accuracy([by_model])


def test_measured_speedups_lie_inside_the_intervals() -> None:
    sample, replayed = counted(stretches(24))
    world, generator = World(cell=0.02), np.random.default_rng(1)
    found = [predict(*world.evidence(sample, generator), replayed) for _ in range(10)]
    inside = [cell.inside for prediction in found if prediction for cell in prediction.cells]
    assert len(inside) == 60
    assert np.mean(inside) >= 0.9


def test_a_trace_that_does_not_fit_the_rounds_is_left_alone() -> None:
    sample, _ = counted(stretches(24))
    _, other = counted(stretches(24, seed=5))
    worse = replace(other, emitted=0.5 * other.emitted)
    evidence, speedups = World().evidence(sample, np.random.default_rng(0))
    found = predict(evidence, speedups, worse)
    assert found == predict(evidence, speedups)


def test_a_gamma_s_own_rounds_have_no_say() -> None:
    sample, replayed = counted(stretches(24))
    evidence, speedups = World().evidence(sample, np.random.default_rng(0))
    before = held_out(evidence, 4, speedups[4], replayed)
    strange = replace(evidence.times[4], verify_s=9 * evidence.times[4].verify_s)
    after = held_out(replace(evidence, times={**evidence.times, 4: strange}), 4, 0.3, replayed)
    assert before is not None
    assert after is not None
    assert after.speedup == before.speedup


def test_conversations_that_are_left_out_leave_the_trace_too() -> None:
    _, replayed = counted(stretches(3))
    only = np.array([True, False, False])
    assert replayed.per_round(4, only) == replayed.emitted[0] / replayed.rounds[4][0]
    assert np.isnan(replayed.per_round(4, np.zeros(3, dtype=bool)))


def traced_run(folder: Path, *, longest: int = 8, **changes: object) -> Path:
    """A simulated run, and a trace of its drafter on its text, but of another world."""
    simulate_run(folder, {"ngram": SimulatedDrafter(alpha=0.7, c=0.02)}, gammas=GAMMAS)
    run = load_run(folder)
    text = next(cell for cell in run.cells if cell.baseline == "first")
    requests = RawTables(run).of(text)[1]
    cell = text.cell.model_copy(update={"drafter": "ngram", "gamma": longest, "baseline": None})
    rows = [
        {
            "prompt_id": str(requests["prompt_id"][index]), "request": index,
            "conversation": str(requests["conversation"][index]), "position": start + 1,
            "accept": draft[~np.isnan(draft)].tolist(), "overlap": None, "max_p": None,
        }
        for index, hits in enumerate(stretches(len(requests["prompt_id"])))
        for start, draft in enumerate(
            drafts_of(hits[: int(requests["num_tokens"][index]) - 1], longest)
        )
    ]  # fmt: skip
    columns = columns_of(rows)
    fields = {**summarize_trace(columns, longest, (longest,)), **changes}
    record = TraceRecord.of(cell, str(fields.pop("text_cell", text.cell_id)), **fields)
    with RunWriter.open(folder, run.manifest) as writer:
        write_trace(writer, record, columns)
    return folder


def traces_of(folder: Path) -> tuple[Traces, GroupKey]:
    run = load_run(folder)
    return Traces.of(run, RawTables(run)), next(group.key for group in groups(run.cells))


def test_a_trace_is_found_by_drafter_task_and_temperature(tmp_path: Path) -> None:
    traces, key = traces_of(traced_run(tmp_path / "run"))
    found = traces.replayed(key, GAMMAS)
    assert found is not None
    assert set(found.emitted.tolist()) == {63.0}
    assert found.rounds[8].sum() < found.rounds[1].sum()
    warm = key._replace(setting=key.setting._replace(temperature=1.0))
    batched = key._replace(setting=key.setting._replace(batch_size=4))
    padded = key._replace(setting=key.setting._replace(context_length=512))
    assert traces.replayed(warm, GAMMAS) is None
    assert traces.replayed(padded, GAMMAS) is None
    assert traces.replayed(batched, GAMMAS) is not None
    assert traces.replayed(key._replace(drafter="eagle"), GAMMAS) is None
    assert traces.replayed(key, (4, 9)) is None  # longer than what was traced
    assert not traces.problems


def test_rounds_that_the_trace_does_not_give_are_named(tmp_path: Path) -> None:
    """Here the trace is another world's: at temperature 0 it would give the loop's own rounds."""
    fitted = fit_run(load_run(traced_run(tmp_path / "run")))
    (group,) = fitted.groups
    assert group.prediction is not None
    assert {cell.acceptance for cell in group.prediction.cells} == {"iid"}
    assert any("are not those that were measured" in text for text in fitted.warnings)


def test_a_trace_of_another_text_is_not_used(tmp_path: Path) -> None:
    traces, key = traces_of(traced_run(tmp_path / "run", text_cell="gone"))
    assert traces.replayed(key, GAMMAS) is None
    (problem,) = traces.problems
    assert "its text, gone, is not in the run" in problem


def test_a_trace_of_other_weights_is_not_used(tmp_path: Path) -> None:
    folder = traced_run(tmp_path / "run", drafter_sha256="a" * 64)
    manifest = folder / "manifest.json"
    facts = json.loads(manifest.read_text(encoding="utf-8"))
    facts["drafters"] = {"ngram": {"sha256": "b" * 64}}
    manifest.write_text(json.dumps(facts), encoding="utf-8")
    traces, key = traces_of(folder)
    assert traces.replayed(key, GAMMAS) is None
    (problem,) = traces.problems
    assert "other weights" in problem


@pytest.mark.parametrize("change", ["twice", "short"])
def test_positions_that_are_not_the_text_s_are_refused(tmp_path: Path, change: str) -> None:
    folder = traced_run(tmp_path / "run")
    (table,) = (folder / "diagnostics").glob("*.parquet")
    whole = pq.read_table(table)
    first = whole.slice(0, 63)
    pq.write_table(pa.concat_tables([whole, first]) if change == "twice" else first, table)
    traces, key = traces_of(folder)
    assert traces.replayed(key, GAMMAS) is None
    (problem,) = traces.problems
    assert "positions are not those of the text" in problem


def test_a_damaged_trace_is_named_and_nothing_else_is_lost(tmp_path: Path) -> None:
    folder = traced_run(tmp_path / "run")
    (table,) = (folder / "diagnostics").glob("*.parquet")
    table.write_bytes(b"nothing")
    run = load_run(folder)
    fitted = fit_run(run)
    assert fitted.groups[0].prediction is not None
    assert any("cannot be used" in text and table.name in text for text in fitted.warnings)
    (folder / "diagnostics" / "traces.jsonl").write_text("{}\n", encoding="utf-8")
    fitted = fit_run(load_run(folder))
    assert any("no trace is used" in text for text in fitted.warnings)
    limits_of(run, fitted)  # does not need them


def test_half_a_line_of_traces_is_named(tmp_path: Path) -> None:
    folder = traced_run(tmp_path / "run")
    with (folder / "diagnostics" / "traces.jsonl").open("a", encoding="utf-8") as file:
        file.write('{"target":')
    traces, key = traces_of(folder)
    assert traces.replayed(key, GAMMAS) is not None
    (problem,) = traces.check()
    assert problem.endswith("is cut short, and its trace is left out")


def test_all_traces_are_checked_at_once(tmp_path: Path) -> None:
    assert not traces_of(traced_run(tmp_path / "whole"))[0].check()
    (problem,) = traces_of(traced_run(tmp_path / "other", text_cell="gone"))[0].check()
    assert problem.startswith("the trace of ngram (code, T = 0) cannot be used: its text, gone")


def test_no_number_is_no_error() -> None:
    sample, replayed = counted(stretches(24))
    evidence, speedups = World().evidence(sample, np.random.default_rng(0))
    nothing = replace(replayed, emitted=0.0 * replayed.emitted)
    assert predict(evidence, speedups, nothing) == predict(evidence, speedups)
