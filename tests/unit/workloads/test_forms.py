"""How prompts are put for models with an encoder."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specbench.workloads import load_workload


@pytest.mark.parametrize(
    ("task", "prefix"),
    [("translation", "translate English to German: "), ("summarization", "summarize: ")],
)
def test_the_text_alone_or_behind_the_prefix_of_t5(task, prefix):
    [workload] = load_workload(task, 2, "offline")
    chat = workload.put("chat").prompts[0]
    plain = workload.put("plain").prompts[0]
    prefixed = workload.put("prefixed").prompts[0]
    assert chat == workload.prompts[0]
    assert plain.turns == chat.texts
    assert chat.turns[0].endswith(plain.turns[0])
    assert prefixed.turns == (prefix + plain.turns[0],)
    assert replace(prefixed, turns=chat.turns) == chat


@pytest.mark.parametrize("form", ["chat", "plain", "prefixed"])
def test_a_task_without_a_text_stays_as_it_is(form):
    [workload] = load_workload("chat", 2, "offline")
    assert workload.put(form) == workload
