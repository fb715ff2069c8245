"""The plan: under ten minutes, complete, and made of commands that this version understands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specbench.drafters.spec import parse_spec
from tests.gpu.plan import ALPHAS, GAMMAS, TOTAL_S, Options, plan, prepare
from tests.gpu.stages import Stage

OUT = Path("results/h200")


def words(stage: Stage) -> list[str]:
    (command,) = stage.commands
    return list(command.words)


def values(stage: Stage, option: str) -> list[str]:
    """What follows an option, each time that it is there."""
    found = words(stage)
    return [found[place + 1] for place, word in enumerate(found) if word == option]


def by_name(options: Options) -> dict[str, Stage]:
    return {stage.name: stage for stage in plan(options)}


@pytest.mark.parametrize("options", [Options(OUT), Options(OUT, smollm2=OUT, engines=("a", "b"))])
def test_all_budgets_fit_into_ten_minutes(options: Options):
    assert sum(stage.budget_s for stage in plan(options)) <= TOTAL_S <= 600 - 10


def test_every_alpha_meets_every_gamma_with_both_drafters():
    stages = by_name(Options(OUT))
    for name, cost in (("model", "model:shape:llama-3.2-1b"), ("eagle", "eagle:shape")):
        stage = stages[f"synthetic-{name}"]
        assert values(stage, "--drafter") == [f"synthetic:{a},cost={cost}" for a in ALPHAS]
        assert values(stage, "--gamma") == [",".join(map(str, GAMMAS))]
        assert values(stage, "--target") == ["shape:llama-3.1-8b"]
        assert values(stage, "--dtype") == ["bfloat16"]


def test_plain_decoding_is_measured_at_three_batch_sizes_captured_and_eager():
    stages = by_name(Options(OUT))
    for name in ("8b", "8b-eager"):
        assert values(stages[name], "--batch-size") == ["1,8,64"]
    assert "--no-cuda-graph" in words(stages["8b-eager"])
    assert "--no-cuda-graph" in stages["8b-eager"].options
    assert values(stages["8b-compile"], "--batch-size") == ["1"]
    assert values(stages["8b-compile"], "--gamma") == ["4"]
    assert "--compile" in stages["8b-compile"].options


def test_runs_have_the_options_they_need_named():
    for stage in plan(Options(OUT)):
        for command in stage.commands:
            if any(word.startswith("shape:") for word in command.words):
                assert "shape:NAME" in stage.options


def test_every_spec_is_one():
    for options in (Options(OUT), Options(OUT, smollm2=Path("weights"))):
        runs = [stage for stage in plan(options) if stage.commands]
        runs = [stage for stage in runs if "run" in stage.commands[0].words]
        specs = [spec for stage in runs for spec in values(stage, "--drafter")]
        assert len(specs) >= len(runs) > 0
        assert [parse_spec(spec).text for spec in specs] == specs


def test_weights_bring_the_trained_drafters_and_need_no_shapes():
    without, given = by_name(Options(OUT)), by_name(Options(OUT, smollm2=Path("weights")))
    assert values(without["smollm2"], "--target") == ["shape:smollm2-135m"]
    assert values(without["smollm2"], "--drafter") == ["synthetic:0.8,cost=ngram"]
    assert values(without["smollm2-eager"], "--drafter") == ["synthetic:0.8,cost=ngram"]
    assert values(given["smollm2"], "--target") == ["weights"]
    kinds = [parse_spec(spec).kind for spec in values(given["smollm2"], "--drafter")]
    assert kinds == ["ngram", "model", "medusa", "eagle"]
    assert given["smollm2"].options == ()


def test_other_engines_are_run_where_there_are_any_and_weights():
    assert by_name(Options(OUT))["engines"].left_out == (
        "not available in this version: no other engine"
    )
    lacking = by_name(Options(OUT, engines=("other",)))["engines"]
    assert lacking.left_out == "no weights for them: give --smollm2 FOLDER"
    stages = by_name(Options(OUT, smollm2=OUT, engines=("hf-assisted", "other")))
    assert values(stages["engine-other"], "--backend") == ["other"]
    assert values(stages["engine-hf-assisted"], "--backend") == ["hf-assisted"]


def test_vllm_is_run_last_where_there_are_weights_and_an_environment_of_it():
    lacking = by_name(Options(OUT, smollm2=OUT))["engine-vllm"]
    assert lacking.left_out is not None
    assert lacking.left_out.endswith("give --smollm2 FOLDER and --vllm-python PATH")
    options = Options(OUT, smollm2=Path("weights"), vllm_python=Path("vllm/bin/python"))
    stage = by_name(options)["engine-vllm"]
    assert [one.name for one in plan(options)][-2:] == ["engine-vllm", "figures"]
    assert values(stage, "--engine-python") == ["vllm/bin/python"]
    assert values(stage, "--drafter") == ["ngram,match=first"]
    assert stage.options == ("--backend", "--engine-python")


def test_every_run_is_fitted_and_drawn_and_only_if_it_was_measured():
    stages = plan(Options(OUT))
    runs = [one.name for one in stages if one.commands and "run" in one.commands[0].words]
    commands = stages[-1].commands
    fitted = [str(command.stdout) for command in commands[: len(runs)]]  # before any figure
    assert fitted == [f"{OUT}/fits/{name}.json" for name in runs]
    assert all(command.needs for command in commands)
    assert stages[-1].reserved


def test_tiny_is_the_same_plan_on_the_cpu_with_a_shape_of_its_own(tmp_path: Path):
    options = Options(tmp_path, tiny=True)
    assert [stage.name for stage in plan(options)] == [stage.name for stage in plan(Options(OUT))]
    stage = by_name(options)["synthetic-model"]
    assert values(stage, "--target") == [f"shape:{tmp_path / 'tiny'}"]
    assert values(stage, "--device") == ["cpu"]
    prepare(options)
    config = json.loads((tmp_path / "tiny" / "config.json").read_text())
    assert config["num_hidden_layers"] == 2


def test_only_the_tiny_plan_writes_a_shape(tmp_path: Path):
    prepare(Options(tmp_path))
    assert list(tmp_path.iterdir()) == []
