"""SPECs: what they parse to, and what each mistake is answered with."""

from __future__ import annotations

import pytest

from specbench import registry
from specbench.drafters.base import drafter_class
from specbench.drafters.spec import parse_spec
from specbench.errors import SpecbenchError


@pytest.mark.parametrize(
    ("text", "kind", "argument", "options"),
    [
        ("ngram", "ngram", None, {}),
        ("ngram,max=3", "ngram", None, {"max": "3"}),
        (
            "ngram,min=2,max=4,match=first",
            "ngram",
            None,
            {"min": "2", "max": "4", "match": "first"},
        ),
        ("model:ORG/NAME", "model", "ORG/NAME", {}),
        ("model:/a,b/c.gguf", "model", "/a,b/c.gguf", {}),
        ("model:C:\\models\\m", "model", "C:\\models\\m", {}),
        ("early-exit:6", "early-exit", "6", {}),
        ("synthetic:0.8", "synthetic", "0.8", {}),
        ("synthetic:0.8,cost=ngram,max=2", "synthetic", "0.8", {"cost": "ngram,max=2"}),
        ("synthetic:1,cost=model:ORG/NAME", "synthetic", "1", {"cost": "model:ORG/NAME"}),
        ("  ngram  ", "ngram", None, {}),
    ],
)
def test_parsed(text, kind, argument, options):
    spec = parse_spec(text)
    assert (spec.kind, spec.argument, spec.options) == (kind, argument, options)
    assert spec.text == text.strip()
    drafter_class(spec).check(spec)


def check(text: str) -> None:
    spec = parse_spec(text)
    drafter_class(spec).check(spec)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["''"]),
        ("ngam", ["'ngam'", "ngram"]),
        ("base", ["'base'"]),
        ("spec", ["'spec'"]),
        ("../ngram", ["'../ngram'"]),
        ("ngram,3", ["'3'", "key=value"]),
        ("ngram:3", ["'ngram'", "no argument", "'3'"]),
        ("ngram:", ["'ngram'", "no argument"]),
        ("ngram,maxi=3", ["'maxi'", "'max'", "match, max, min"]),
        ("ngram,max=0", ["max=0", "at least 1"]),
        ("ngram,max=-1", ["max=-1", "at least 1"]),
        ("ngram,max=two", ["max=two", "whole number"]),
        ("ngram,max=", ["max=", "whole number"]),
        ("ngram,max=1.5", ["max=1.5", "whole number"]),
        ("ngram,max=²", ["max=²", "whole number"]),
        pytest.param(f"ngram,max={'9' * 5000}", ["whole number"], id="5000 digits"),
        ("ngram,min=4", ["min=4", "max=3"]),
        ("ngram,match=last", ["match=last", "recent or first"]),
        ("model:", ["'model:'", "NAME"]),
        ("model:A,quick=1", ["'quick'", "quantization, topk, tree"]),
        ("model:A,tree=9999999", ["9999999", "beyond 1024"]),
        ("model:A,tree=0", ["tree=0", "Write for example model:A,tree=16"]),
        ("model:A,gamma=auto,c=nan", ["c=nan", "model:A,gamma=auto,c=0.1"]),
        ("model:A,gamma=4", ["gamma=4", "auto"]),
        ("model:A,c=0.1", ["c=", "gamma=auto"]),
        ("early-exit:2,gamma=auto,c=0", ["c=0", "positive"]),
        ("model:A,tree=8,gamma=auto", ["gamma=auto", "not trees"]),
        ("early-exit", ["'early-exit'", "K"]),
        ("early-exit:0", ["'0'", "number of layers"]),
        (f"early-exit:{'1' * 5000}", ["number of layers"]),
        ("early-exit:-2", ["'-2'", "number of layers"]),
        ("early-exit:half", ["'half'", "number of layers"]),
        ("early-exit:²", ["'²'", "number of layers"]),
        pytest.param(f"early-exit:{'9' * 5000}", ["number of layers"], id="layers of 5000 digits"),
        ("synthetic", ["'synthetic'", "A"]),
        ("synthetic:1.2", ["'1.2'", "0 to 1"]),
        ("synthetic:-0.1", ["'-0.1'", "0 to 1"]),
        ("synthetic:nan", ["'nan'", "0 to 1"]),
        ("synthetic:high", ["'high'", "0 to 1"]),
        ("synthetic:0.5,cost=", ["''"]),
        ("synthetic:0.5,cost=nothing", ["'nothing'"]),
        ("synthetic:0.5,cost=ngram,maxi=2", ["'maxi'", "'max'"]),
        ("synthetic:0.5,cost=synthetic:0.2", ["cost=", "synthetic"]),
        ("ngram,cost=ngram", ["'cost'"]),
        ("ngram,max=2,max=3", ["max=", "twice"]),
    ],
)
def test_mistakes_are_answered_with_the_value(text, words):
    with pytest.raises(SpecbenchError) as raised:
        check(text)
    answer = f"{raised.value} {raised.value.hint}"
    assert all(word in answer for word in words), answer
    assert "\n" not in answer


def test_every_kind_is_described():
    for name in registry.names("drafters"):
        assert len(registry.describe("drafters", name)) > 20
