"""The grammar of training prompts: the built-in one is sound, and broken ones are refused."""

from __future__ import annotations

import random
import re
import tomllib
from pathlib import Path

import pytest

from specbench.errors import SpecbenchError
from specbench.training.prompts import PROMPTS_FILE, PromptGrammar

RULES: dict[str, list[str]] = tomllib.loads(PROMPTS_FILE.read_text(encoding="utf-8"))
REFERENCE = re.compile(r"\{([^{}\n]*)\}")


def references(name: str) -> set[str]:
    """Names in braces; what holds quotes or blanks is code or JSON."""
    found = {inner for text in RULES[name] for inner in REFERENCE.findall(text)}
    return {inner for inner in found if re.fullmatch(r"\w+", inner)}


def test_every_reference_of_the_grammar_exists():
    for name in RULES:
        assert references(name) <= RULES.keys() | {"passage"}, name


def test_every_rule_of_the_grammar_is_reachable():
    reached, left = set(), ["prompt"]
    while left:
        name = left.pop()
        if name not in reached and name != "passage":
            reached.add(name)
            left += references(name)
    assert reached == RULES.keys()


def test_no_rule_of_the_grammar_leads_back_to_itself():
    def depth(name: str, above: tuple[str, ...] = ()) -> int:
        assert name not in above, f"{' > '.join(above)} > {name}"
        below = references(name) - {"passage"}
        return 1 + max((depth(inner, (*above, name)) for inner in below), default=0)

    assert depth("prompt") < 10


def test_no_reference_is_left_in_a_prompt_and_the_same_seed_draws_the_same():
    grammar = PromptGrammar.read()

    def drawn(seed: int) -> list[str]:
        rng = random.Random(seed)
        return [grammar.draw(rng, ["A text about tides."]).text for _ in range(300)]

    texts = drawn(0)
    assert texts == drawn(0)
    assert texts != drawn(1)
    assert len(set(texts)) > 200
    for text in texts:
        assert not {inner for inner in REFERENCE.findall(text) if inner in RULES}, text


def test_passages_come_only_once_there_are_some():
    grammar = PromptGrammar({"prompt": ["Sum up: {passage}", "{source}"], "source": ["Write."]})
    rng = random.Random(0)
    without = [grammar.draw(rng) for _ in range(50)]
    assert {prompt.text for prompt in without} == {"Write."}
    assert all(prompt.is_source for prompt in without)
    texts = {grammar.draw(rng, ["One.", "Two."]).text for _ in range(50)}
    assert texts == {"Write.", "Sum up: One.", "Sum up: Two."}


def test_braces_of_code_and_of_passages_stay_what_they_are():
    rules = {"prompt": ['{"a": {word}, {unknown}} {passage}'], "word": ["b"]}
    prompt = PromptGrammar(rules).draw(random.Random(0), ["x = {word}"])
    assert prompt.text == '{"a": b, {unknown}} x = (word)'


def test_a_grammar_that_never_ends_is_refused():
    with pytest.raises(SpecbenchError, match="never ends"):
        PromptGrammar({"prompt": ["{prompt} again"]}).draw(random.Random(0))


def test_a_grammar_of_passages_alone_is_refused():
    with pytest.raises(SpecbenchError, match="no prompt without a"):
        PromptGrammar({"prompt": ["{passage}"]}).draw(random.Random(0))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('question = ["What?"]', "has no 'prompt'"),
        ('prompt = "What?"', "'prompt' is not a list of texts"),
        ("prompt = []", "'prompt' is not a list of texts"),
        ("prompt = [1]", "'prompt' is not a list of texts"),
        ("prompt", "cannot read the prompt grammar"),
        ('prompt = ["a", "{nix}"]', r"text 2 of 'prompt' has \{nix\}, and there is no 'nix'"),
        ('prompt = ["{Word}"]\nword = ["a"]', r"has \{Word\}, and there is no 'Word'"),
        ('prompt = ["{word}"]\nword = ["{a-b}"]', r"text 1 of 'word' has \{a-b\}, and there is"),
        ('prompt = [""]', "text 1 of 'prompt' is empty"),
        ('prompt = ["{word}"]\nword = ["a", " "]', "text 2 of 'word' is empty"),
        ('prompt = ["a", "Sum up: {passage}"]', r"text 2 of 'prompt' has \{passage\}, and no"),
        (
            'prompt = ["{word}", "b"]\nword = ["{passage}"]\nsource = ["Write."]',
            r"text 1 of 'word' has \{passage\}, and no earlier answer can be one. Write '\{source",
        ),
        ('prompt = ["{source}", "{passage}"]', r"has \{source\}, and there is no 'source'"),
    ],
)
def test_a_broken_file_is_refused_by_name(tmp_path: Path, text: str, message: str):
    file = tmp_path / "mine.toml"
    file.write_text(text)
    with pytest.raises(SpecbenchError, match=message) as failure:
        PromptGrammar.read(file)
    assert "mine.toml" in str(failure.value)


def test_a_sound_file_is_read_with_braces_that_are_text(tmp_path: Path):
    file = tmp_path / "mine.toml"
    file.write_text(
        'prompt = ["{a-b} { text } {} {\\"a\\": 1}", "{source}", "On {passage}"]\n'
        'a-b = ["x"]\nsource = ["Write."]\n'
    )
    grammar, rng = PromptGrammar.read(file), random.Random(0)
    texts = {grammar.draw(rng, ["y"]).text for _ in range(50)}
    assert texts == {'x { text } {} {"a": 1}', "Write.", "On y"}


def test_a_missing_file_is_refused_by_name(tmp_path: Path):
    with pytest.raises(SpecbenchError, match=r"cannot read the prompt grammar .*nowhere\.toml"):
        PromptGrammar.read(tmp_path / "nowhere.toml")
