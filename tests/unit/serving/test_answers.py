"""One stream as chunks and tokens: what is counted, and what is never guessed."""

from __future__ import annotations

from typing import Any

import pytest

from specbench.errors import SpecbenchError
from specbench.serving.answers import Answer


def answered(*events: dict[str, Any]) -> Answer:
    answer = Answer(0.0, 0.0)
    for number, event in enumerate(events):
        answer.add(float(number), event)
    return answer


def chunk(text: str, **more: Any) -> dict[str, Any]:
    usage = more.pop("usage", None)
    return {"choices": [{"text": text, **more}], "usage": usage and {"completion_tokens": usage}}


def end(tokens: int) -> dict[str, Any]:
    return {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": tokens}}


def test_token_ids_say_how_many_tokens_a_chunk_holds():
    events = chunk("a", token_ids=[1]), chunk("", token_ids=[2, 3]), chunk("bc", token_ids=[])
    answer = answered(*events, end(3)).checked()
    assert answer.chunk_s == [0.0, 1.0]  # text that came late holds no token of its own
    assert answer.chunk_tokens == [1, 2]
    assert (answer.token_ids, answer.text) == ([1, 2, 3], "abc")
    assert (answer.prompt_tokens, answer.num_tokens) == (7, 3)


def test_usage_so_far_says_it_too_but_not_which():
    answer = answered(chunk("a", usage=1), chunk("bcd", usage=4), end(4)).checked()
    assert answer.chunk_tokens == [1, 3]
    assert answer.token_ids is None


def test_a_role_is_no_chunk():
    role = {"choices": [{"delta": {"role": "assistant", "content": ""}}]}
    answer = answered(role, chunk("a"), end(1)).checked()
    assert answer.chunk_s == [1.0]


def test_text_alone_tells_no_number_of_tokens():
    answer = answered(chunk("a"), chunk("b c d"), end(4)).checked()
    assert answer.chunk_tokens == [None, None]
    assert answer.num_tokens == 4


def test_chunks_that_do_not_add_up_are_not_believed():
    answer = answered(chunk("a", token_ids=[1]), chunk("b", token_ids=[2]), end(5)).checked()
    assert answer.chunk_tokens == [None, None]
    assert answer.token_ids is None


def test_thoughts_are_output():
    delta = {"choices": [{"delta": {"reasoning_content": "hm", "content": None}}]}
    assert answered(delta, end(1)).checked().text == "hm"


@pytest.mark.parametrize(
    ("events", "reason"),
    [((end(0),), "holds no token"), ((chunk("a"),), "does not tell how many tokens")],
)
def test_an_answer_without_tokens_or_without_their_number_is_refused(events: Any, reason: str):
    with pytest.raises(SpecbenchError) as problem:
        answered(*events).checked()
    assert reason in str(problem.value)


def test_figures_of_a_request_keep_the_servers_names():
    vllm = {**end(1), "metrics": {"speculative_decoding": {"num_spec_steps": 3}}}
    sglang = chunk("a", meta_info={"id": "x", "spec_verify_ct": 3, "e2e_latency": 1.0})
    assert answered(vllm).figures == {"num_spec_steps": 3}
    assert answered(sglang).figures == {"spec_verify_ct": 3}
