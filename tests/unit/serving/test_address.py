"""Where a server is: what is a URL, what is this machine, where the key comes from."""

from __future__ import annotations

import pytest

from specbench.errors import SpecbenchError
from specbench.serving.address import Address, api_key


@pytest.mark.parametrize(
    ("text", "root"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        ("http://127.0.0.1:8000/v1/", "http://127.0.0.1:8000"),
        ("https://example.org/team/v1", "https://example.org/team"),
        (" http://[::1]:8000/ ", "http://[::1]:8000"),
    ],
)
def test_pages_lie_beside_v1_whichever_way_the_url_was_typed(text: str, root: str):
    address = Address.parse(text)
    assert address.root == root
    assert address.url("/metrics") == f"{root}/metrics"


@pytest.mark.parametrize(
    "text", ["", "8000", "ftp://x", "http://", "http://x:port", "http://x?a=1"]
)
def test_what_is_no_url_of_a_server_is_refused_by_name(text: str):
    with pytest.raises(SpecbenchError) as problem:
        Address.parse(text)
    assert repr(text) in str(problem.value)


def test_a_password_in_a_url_is_refused_and_not_repeated():
    with pytest.raises(SpecbenchError) as problem:
        Address.parse("http://me:secret@127.0.0.1:8000")
    assert "secret" not in str(problem.value)
    assert "SPECBENCH_API_KEY" in str(problem.value)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("localhost", True),
        ("[::1]", True),
        ("10.0.0.1", False),
        ("a.b", False),
    ],
)
def test_only_this_machine_is_loopback(host: str, loopback: bool):
    assert Address.parse(f"http://{host}:8000").is_loopback is loopback


def test_the_key_is_specbenchs_own_before_openais():
    both = {"SPECBENCH_API_KEY": "mine", "OPENAI_API_KEY": "other"}
    assert api_key(both) == "mine"
    assert api_key({"OPENAI_API_KEY": " other "}) == "other"
    assert api_key({"SPECBENCH_API_KEY": ""}) is None
