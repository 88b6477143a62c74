"""A reverse proxy before a management API: as real ones do, it changes paths, or answers, in its own way."""

from __future__ import annotations

import http.client
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import quote, unquote

PREFIX: Final = "/rabbit"
"""The path below which the management API is."""

PathChange = Callable[[str], str]
"""What a proxy makes of a path, which has no query."""


def kept(path: str) -> str:
    """Return a path as HAProxy does, or nginx with ``$request_uri``."""
    return path


def decoded(path: str) -> str:
    """Return a path as nginx does where ``proxy_pass`` has a URI: decoded, normalised, and escaped again."""
    return quote(re.sub("/+", "/", unquote(path)), safe="/!$&'()*+,;=:@~.-_")


def escaped_twice(path: str) -> str:
    """Return a path as Apache does with ``AllowEncodedSlashes NoDecode`` and without ``nocanon``, once."""
    return path.replace("%", "%25")


def lower_case(path: str) -> str:
    """Return a path in lower case."""
    return path.lower()


Reply = tuple[int, bytes]
"""Status and body of an answer."""


def unchanged(_: str, reply: Reply) -> Reply:
    """Return an answer to a path as it is."""
    return reply


def failing(*paths: str) -> Callable[[str, Reply], Reply]:
    """Return a change by which everything below ``/api/`` that begins so is answered with the status 500."""
    error = 500, b'{"error":"internal_server_error","reason":"it is broken"}'
    return lambda path, reply: error if path.removeprefix("/api/").startswith(paths) else reply


def lacking(collection: str, which: Callable[[dict[str, Any]], bool]) -> Callable[[str, Reply], Reply]:
    """Return a change by which listings of a collection lack the objects with such a document."""

    def change(path: str, reply: Reply) -> Reply:
        if path.partition("?")[0] != f"/api/{collection}":
            return reply
        answer = json.loads(reply[1])
        page = answer if isinstance(answer, dict) else {"items": answer}
        page["items"] = [one for one in page["items"] if not which(one)]
        return reply[0], json.dumps(answer if answer is page else page["items"]).encode()

    return change


def failing_listings(*collections: str) -> Callable[[str, Reply], Reply]:
    """Return a change by which the listings of all objects of these collections are answered with 500."""
    fails = failing(*collections)
    listings = {f"/api/{one}" for one in collections}
    return lambda path, reply: fails(path, reply) if path.partition("?")[0] in listings else reply


def caching() -> Callable[[str, Reply], Reply]:
    """Return a change by which each answer to the same path and query is the first one."""
    kept_replies: dict[str, Reply] = {}
    return kept_replies.setdefault


@dataclass(slots=True)
class Proxy:
    """A running proxy.

    Attributes:
        url: the URL of the management API behind it.
        change: what it makes of paths; it can be replaced, as by a reload.
        seen: method and path of the requests that it forwarded.
        answer: what it makes of answers, by their path with its query; it can be replaced, too.
        before_put: called before a PUT is forwarded.
        limited: number of requests that it still refuses with the status 429, and ``retry_after``.
        retry_after: the seconds that it then demands.
    """

    url: str
    change: PathChange
    seen: list[tuple[str, str]] = field(default_factory=list)
    answer: Callable[[str, Reply], Reply] = unchanged
    before_put: Callable[[], object] = str
    limited: int = 0
    retry_after: int = 1


@contextmanager
def proxy(port: int, change: PathChange) -> Iterator[Proxy]:
    """Provide a proxy below `PREFIX` to the management API at a port of loopback."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            if running.limited == 0:
                self._forward()
                return
            running.limited -= 1
            self.rfile.read(int(self.headers.get("content-length", 0)))
            self.send_response(429)
            self.send_header("retry-after", str(running.retry_after))
            self.send_header("content-length", "0")
            self.end_headers()

        def _forward(self) -> None:
            path, mark, query = self.path.removeprefix(PREFIX).partition("?")
            target = running.change(path) + mark + query
            running.seen.append((self.command, target))
            if self.command == "PUT":
                running.before_put()
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {name: value for name, value in self.headers.items() if name.lower() != "connection"}
            far = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            try:
                far.request(self.command, target, body or None, headers)
                # It has the socket, where the broker closes the connection, and keeps one that breaks.
                with far.getresponse() as answer:
                    status, content = running.answer(target, (answer.status, answer.read()))
            finally:
                far.close()
            self.send_response(status)
            for name in ("content-type", "content-encoding"):
                if value := answer.getheader(name):
                    self.send_header(name, value)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_PUT = do_POST = do_DELETE = _serve  # noqa: N815  names of http.server

        def log_message(self, *_: object) -> None:
            """Print nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        running = Proxy(f"http://127.0.0.1:{server.server_address[1]}{PREFIX}", change)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield running
        finally:
            server.shutdown()
