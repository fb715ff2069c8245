"""A trace of the text predicts what models by position can't: matches that come in stretches."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specbench.analysis.fit import fit_run
from specbench.analysis.pooling import groups
from specbench.analysis.prediction import accuracy, held_out, predict
from specbench.analysis.replayed import ReplayedTokens, Traces
from specbench.records.schema import Cell
from specbench.records.store import RunWriter, load_run
from specbench.records.trace_summary import summarize_trace
from specbench.records.traces import TraceRecord, columns_of, write_trace
from specbench.theory.acceptance import Counts, Sample
from specbench.theory.replay import drafts_of, replay_drafts
from tests.cost_worlds import World
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


def traced_run(folder: Path, *, longest: int = 8, drafter: str = "ngram") -> Path:
    """A simulated run, and a trace of its drafter on a text of its own."""
    simulate_run(folder, {"ngram": SimulatedDrafter(alpha=0.7, c=0.02)}, gammas=GAMMAS)
    run = load_run(folder)
    key = next(group.key for group in groups(run.cells))
    cell = Cell(
        target=key.setting.target, drafter=drafter, gamma=longest, temperature=0.0,
        batch_size=1, task=key.setting.task,
    )  # fmt: skip
    rows = [
        {
            "prompt_id": f"p{index}", "request": index, "conversation": f"c{index}",
            "position": start + 1, "accept": draft[~np.isnan(draft)].tolist(),
            "overlap": None, "max_p": None,
        }
        for index, text in enumerate(stretches(12))
        for start, draft in enumerate(drafts_of(text[:63], longest))
    ]  # fmt: skip
    columns = columns_of(rows)
    record = TraceRecord.of(cell, "text", **summarize_trace(columns, longest, (longest,)))
    with RunWriter.open(folder, run.manifest) as writer:
        write_trace(writer, record, columns)
    return folder


def test_a_trace_is_found_by_drafter_task_and_temperature(tmp_path: Path) -> None:
    run = load_run(traced_run(tmp_path / "run"))
    key = next(group.key for group in groups(run.cells))
    traces = Traces.of(run)
    found = traces.replayed(key, GAMMAS)
    assert found is not None
    assert found.emitted.tolist() == [63.0] * 12
    assert found.rounds[8].sum() < found.rounds[1].sum()
    warm = key._replace(setting=key.setting._replace(temperature=1.0))
    batched = key._replace(setting=key.setting._replace(batch_size=4))
    assert traces.replayed(warm, GAMMAS) is None
    assert traces.replayed(batched, GAMMAS) is not None
    assert traces.replayed(key._replace(drafter="eagle"), GAMMAS) is None
    assert traces.replayed(key, (4, 9)) is None  # longer than what was traced


def test_fit_reads_it(tmp_path: Path) -> None:
    """Here the trace is another world's, so the models win; both were asked."""
    (group,) = fit_run(load_run(traced_run(tmp_path / "run"))).groups
    assert group.prediction is not None
    assert {cell.acceptance for cell in group.prediction.cells} == {"iid"}


def test_a_damaged_trace_is_named_and_nothing_else_is_lost(tmp_path: Path) -> None:
    folder = traced_run(tmp_path / "run")
    (table,) = (folder / "diagnostics").glob("*.parquet")
    table.write_bytes(b"nothing")
    (group,) = fit_run(load_run(folder)).groups
    assert group.prediction is not None
    assert any("no replay" in text and table.name in text for text in group.warnings)
    (folder / "diagnostics" / "traces.jsonl").write_text("{}\n", encoding="utf-8")
    fitted = fit_run(load_run(folder))
    assert any("traces.jsonl" in text for text in fitted.warnings)


def test_no_number_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    sample, replayed = counted(stretches(24))
    evidence, speedups = World().evidence(sample, np.random.default_rng(0))
    nothing = replace(replayed, emitted=0.0 * replayed.emitted)
    assert predict(evidence, speedups, nothing) == predict(evidence, speedups)
