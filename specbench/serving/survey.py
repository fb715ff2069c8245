"""What a running server tells about itself before anything is measured.

Its kind shows in who owns the model in ``/v1/models``, else in the names on its metrics page, else
in its own pages; a server that shows none of these is measured as a plain OpenAI-compatible one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from specbench.errors import SpecbenchError
from specbench.serving.client import Client
from specbench.serving.counters import Page, parse
from specbench.serving.dialects import DIALECTS, PLAIN, SGLANG, Dialect

_SGLANG_KINDS = {
    "EAGLE": "eagle",
    "EAGLE3": "eagle3",
    "NEXTN": "mtp",
    "STANDALONE": "model",
    "NGRAM": "ngram",
}
"""SGLang's names of its algorithms -> the kind of a drafter's SPEC."""


@dataclass(frozen=True)
class ServerFacts:
    """What is known of a server; None where it does not tell.

    Attributes:
        dialect: its kind.
        model: the name that requests give.
        speculates: whether it drafts at all.
        gamma: tokens per draft; of a tree its levels.
        drafter: the kind of a drafter's SPEC, with what shapes a tree.
        context_limit: most tokens of a prompt and its output together.
        counted: whether it has a metrics page with its counters.
    """

    dialect: Dialect
    model: str
    version: str | None = None
    speculates: bool | None = None
    gamma: int | None = None
    drafter: str | None = None
    context_limit: int | None = None
    counted: bool = False

    def document(self) -> dict[str, Any]:
        """For the manifest: plain values."""
        return {**asdict(self), "dialect": self.dialect.name}


async def survey(client: Client, wanted: str | None = None) -> ServerFacts:
    """Ask a server what it is.

    Args:
        wanted: the model to measure where several are served.

    Raises:
        SpecbenchError: it does not answer, or is no OpenAI-compatible server.
    """
    model = _model(client, await client.json("/v1/models"), wanted)
    dialect, page = await _dialect(client, str(model.get("owned_by")))
    version = await client.json("/version") if dialect is not PLAIN else None
    facts: dict[str, Any] = {
        "dialect": dialect,
        "model": str(model["id"]),
        "version": version.get("version") if isinstance(version, dict) else None,
        "context_limit": model.get("max_model_len"),
        "counted": page is not None,
    }
    if page is not None:
        facts |= {"speculates": dialect.speculates(page), "gamma": dialect.gamma(page)}
    if dialect is SGLANG:
        facts |= await _sglang(client)
    return ServerFacts(**facts)


async def read_page(client: Client, dialect: Dialect) -> Page | None:
    """A server's metrics; None where it has no such page, or nothing of its own on it.

    Raises:
        SpecbenchError: no answer in time, an error, or lines that can't be read.
    """
    text = await client.text(dialect.metrics_path) if dialect.metrics_path else None
    if text is None or dialect.prefix not in text:
        return None
    page = parse(text)
    return page if any(name.startswith(dialect.prefix) for name, _ in page.samples) else None


def _model(client: Client, answer: Any, wanted: str | None) -> dict[str, Any]:
    """The model to measure: the wanted one, or the only one that is no adapter of another."""
    models = answer.get("data") if isinstance(answer, dict) else None
    if not models or not all(isinstance(model, dict) and "id" in model for model in models):
        raise SpecbenchError(
            f"{client.address.root} is no OpenAI-compatible server: /v1/models lists no model",
            "Give the URL under which /v1/models is found",
        )
    found = [model for model in models if not model.get("parent")]
    if wanted is not None:
        found = [model for model in models if wanted in (model["id"], model.get("root"))]
    if len(found) != 1:
        names = ", ".join(str(model["id"]) for model in models)
        raise SpecbenchError(
            f"{client.address.root} serves {names}, {len(found)} of them are meant",
            "Name one with ,model=NAME",
        )
    model: dict[str, Any] = found[0]
    return model


async def _dialect(client: Client, owner: str) -> tuple[Dialect, Page | None]:
    """The kind of a server, and its metrics page if it has one."""
    for dialect in DIALECTS:
        if owner == dialect.owner:
            return dialect, await read_page(client, dialect)
    for dialect in DIALECTS:
        if (page := await read_page(client, dialect)) is not None:
            return dialect, page
    if await _sglang_info(client) is not None:
        return SGLANG, None
    return PLAIN, None


async def _sglang_info(client: Client) -> dict[str, Any] | None:
    for path in ("/server_info", "/get_server_info"):
        info = await client.json(path)
        if isinstance(info, dict) and "speculative_algorithm" in info:
            return info
    return None


async def _sglang(client: Client) -> dict[str, Any]:
    """What SGLang's own page tells: its arguments, drafts and trees."""
    info = await _sglang_info(client)
    if info is None:
        return {}
    facts: dict[str, Any] = {"version": info.get("version")}
    if info.get("context_length"):
        facts["context_limit"] = info["context_length"]
    algorithm = info["speculative_algorithm"]
    if not algorithm:
        return {**facts, "speculates": False}
    drafter = _SGLANG_KINDS.get(str(algorithm).upper(), str(algorithm).lower())
    steps, width = info.get("speculative_num_steps"), info.get("speculative_eagle_topk")
    nodes = info.get("speculative_num_draft_tokens")  # the root counts
    if width and width > 1:
        return {**facts, "speculates": True, "gamma": steps, "drafter": f"{drafter},tree={nodes}"}
    gamma = steps or (nodes - 1 if nodes else None)
    return {**facts, "speculates": True, "gamma": gamma, "drafter": drafter}
