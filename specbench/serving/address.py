"""Where a server listens: the URL that the user gave, the only one that is ever contacted.

>>> Address.parse("http://127.0.0.1:8000/v1/").url("/metrics")
'http://127.0.0.1:8000/metrics'
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from specbench.errors import SpecbenchError

KEY_VARIABLES = ("SPECBENCH_API_KEY", "OPENAI_API_KEY")
"""Where a server's key is looked for; it is sent to the server and written nowhere."""


@dataclass(frozen=True)
class Address:
    """A server's root: scheme, host, port and whatever path stands before ``/v1``."""

    root: str

    @classmethod
    def parse(cls, text: str) -> Address:
        """From what the user typed; a closing ``/v1`` is left away.

        Raises:
            SpecbenchError: no such URL, or it holds a password or a query.
        """
        try:
            parts = urlsplit(text.strip())
            port = parts.port
        except ValueError as error:
            raise SpecbenchError(f"{text!r} is no URL: {error}", _SHAPE) from error
        if "@" in parts.netloc:  # not repeated: it may hold a password
            raise SpecbenchError(
                "a server's URL must not hold a name or password",
                f"Put the key into the environment variable {KEY_VARIABLES[0]}",
            )
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
            raise SpecbenchError(f"{text!r} is no URL of a server", _SHAPE)
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        where = host if port is None else f"{host}:{port}"
        path = parts.path.rstrip("/").removesuffix("/v1").rstrip("/")
        return cls(f"{parts.scheme}://{where}{path}")

    def url(self, path: str) -> str:
        """The URL of a path on this server."""
        return f"{self.root}{path}"

    @property
    def is_loopback(self) -> bool:
        """Whether it is this machine, which no proxy reaches."""
        host = urlsplit(self.root).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost" or host.endswith(".localhost")


def api_key(environment: Mapping[str, str] = os.environ) -> str | None:
    """The key to send, from the environment; None where there is none."""
    found = (environment.get(name, "").strip() for name in KEY_VARIABLES)
    return next((key for key in found if key), None)


_SHAPE = "Give one like http://127.0.0.1:8000"
