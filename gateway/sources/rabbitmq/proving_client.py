"""HTTP clients of the management API whose answers are the broker's own, and about what was meant.

They prove a path before they send a request with names in it. A request whose path would change is not sent:
it raises a `PathFaultError`. The proof of a node counts for some time only, and for a short time before a
change, or where an object is reported missing.

Each request that reads, also for a proof, is one to which no cache has an answer. The answer of a cache
raises a `CachedAnswerError`.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Generator, Iterable
from datetime import UTC, datetime
from typing import Any, Final, TypeAlias

import httpx

from gateway.model.texts import error_line, one_line
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.management_api import PAUSES_SECONDS, demanded_pause, pause_of
from gateway.sources.rabbitmq.path_proof import PathAnswer, PathProof, path_of, proof_steps, takes_proof

KEPT_SECONDS: Final = 3.0
"""Seconds for which an idle connection is used again.

RabbitMQ 4.x closes one after 5 s (3.10 after 60 s): a request that was sent just then has no answer.
"""
PROVED_SECONDS: Final = 60.0
"""Time for which a proof counts for reading."""
JUST_NOW_SECONDS: Final = 5.0
"""Time for which a proof counts for a change, and for the report that an object is missing."""
PROVING_SECONDS: Final = 5.0
"""Maximum time to wait for one answer of a proof beside the overview, or before a change."""
_MAX_OCTETS: Final = 64 * 1024
"""Maximum size of an answer that proves something; more of it is not read."""


class PathFaultError(httpx.RequestError):
    """A request was not sent, because its path would not arrive as it is; the text says why in one line."""


class CachedAnswerError(httpx.RequestError):
    """A cache between gateway and broker gave an answer of before; the text says so in one line."""


class UnprovedError(httpx.ProxyError):
    """A change was not sent, because its path could not be proved.

    Attributes:
        pause: nanoseconds for which the server demands that nothing is sent; 0 for no demand.
    """

    pause = 0


_Asking: TypeAlias = Generator[httpx.Request, PathAnswer, "httpx.Response | None"]
"""Yields the requests of a proof; returns the answer of a server that serves no requests now."""

_COPIED: Final = ("accept-encoding", "connection", "user-agent")
_MOMENT: Final = b"_="
"""Begin of the parameter that no earlier request had."""


def uncached(request: httpx.Request) -> None:
    """Change a request that reads into one to which no cache has an answer; RabbitMQ ignores what it adds."""
    if request.method != "GET":
        return
    kept = [one for one in request.url.query.split(b"&") if one and not one.startswith(_MOMENT)]
    query = b"&".join([*kept, b"%b%x" % (_MOMENT, time.time_ns())])
    request.url = request.url.copy_with(query=query)
    request.headers["cache-control"] = "no-cache"


def not_cached(response: httpx.Response) -> None:
    """Check that a response is that of the server.

    Raises:
        CachedAnswerError: a cache had it.
    """
    age = response.headers.get("age", "0").strip()
    if age != "0" and response.request.method == "GET":
        text = f"a cache in front of it gave an answer that is {one_line(age)} s old"
        raise CachedAnswerError(text, request=response.request)


class _Paths:
    """The proofs of the paths to each node.

    Args:
        nodes: the URLs below which the nodes have their paths.
    """

    def __init__(self, nodes: Iterable[str]) -> None:
        self._roots = [str(httpx.URL(node)) for node in nodes]
        self._proofs: dict[str, tuple[PathProof, float]] = {}

    def before(self, request: httpx.Request) -> _Asking:
        """Prove the path of a request.

        Raises:
            PathFaultError: the request must not be sent.
            UnprovedError: nothing can be proved now, so that a change must not be sent.
        """
        return self.proved(request, PROVED_SECONDS if request.method == "GET" else JUST_NOW_SECONDS)

    def after(self, request: httpx.Request, response: httpx.Response) -> _Asking | None:
        """Return the proof to make because an object was reported missing; ``None`` if none is needed."""
        if request.method != "GET" or response.status_code != httpx.codes.NOT_FOUND:
            return None
        is_old = self._lacks(*self._place(request.url), JUST_NOW_SECONDS)
        return self.proved(request, JUST_NOW_SECONDS) if is_old else None

    def last(self, node: str) -> PathProof | None:
        """Return the last proof of the paths to a node; ``None`` before the first one."""
        return self._proofs.get(str(httpx.URL(node)), (None, 0.0))[0]

    def _place(self, url: httpx.URL) -> tuple[str, str]:
        """Return the root of a URL, and the path and query below it; empty texts for a URL elsewhere."""
        text = str(url)
        return next(((root, text[len(root) :]) for root in self._roots if text.startswith(root)), ("", ""))

    def _lacks(self, root: str, target: str, age: float) -> bool:
        _, made = self._proofs.get(root, (None, -age))
        return bool(root) and takes_proof(target) and time.monotonic() - made >= age

    def proved(self, request: httpx.Request, age: float) -> _Asking:
        """Prove the path of a request, unless that was done within so many seconds; errors as of `before`."""
        root, target = self._place(request.url)
        if self._lacks(root, target, age):
            found = yield from self._steps(root, request)
            if not isinstance(found, PathProof):
                return _unproved(request, found)
        proof = self._proofs.get(root, (PathProof(), 0.0))[0]
        if root and (fault := proof.fault(target)):
            raise PathFaultError(fault, request=request)
        return None

    def _steps(
        self, root: str, request: httpx.Request
    ) -> Generator[httpx.Request, PathAnswer, PathProof | PathAnswer]:
        """Prove the paths to a node, by requests that are sent as ``request`` is."""
        headers = {name: request.headers[name] for name in _COPIED if name in request.headers}
        timeouts = dict(request.extensions.get("timeout", {}))
        if request.method != "GET":
            timeouts["read"] = min(timeouts.get("read") or PROVING_SECONDS, PROVING_SECONDS)
        extensions = {"timeout": timeouts}
        steps = proof_steps()
        try:
            target = next(steps)
            while True:
                answer = yield httpx.Request("GET", root + target, headers=headers, extensions=extensions)
                target = steps.send(answer)
        except StopIteration as end:
            found: PathProof | PathAnswer = end.value
        if isinstance(found, PathProof):
            self._proofs[root] = found, time.monotonic()
        return found


def _unproved(request: httpx.Request, answer: PathAnswer) -> httpx.Response:
    """Return the answer to a request that was not sent, because the server answered its proof so."""
    status, body, pause = answer
    if request.method != "GET" and status != httpx.codes.UNAUTHORIZED:
        error = UnprovedError(f"status {status} to the proof of its path", request=request)
        error.pause = pause
        raise error
    # Whole seconds, as the header has them: too late rather than too early.
    headers = {"retry-after": str(-(-pause // SECOND))} if pause else {}
    return httpx.Response(status, headers=headers, stream=httpx.ByteStream(body), request=request)


def demanded_by(response: httpx.Response) -> int:
    """Return the nanoseconds for which a server demands that nothing is sent; 0 for no demand."""
    pause = demanded_pause(response.headers.get("retry-after", ""), datetime.now(UTC))
    return pause_of(response.status_code, pause)


def _not_sent(request: httpx.Request, error: httpx.RequestError) -> httpx.RequestError:
    """Return the error of a request whose proof failed with ``error``: a change was certainly not sent."""
    if request.method == "GET" or isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
        return error
    if isinstance(error, UnprovedError):
        return error
    return UnprovedError(f"no answer to the proof of its path ({error_line(error)})", request=request)


class ManagementClient(httpx.AsyncClient):
    """A client of one or several nodes' management API.

    Args:
        nodes: the URLs below which the nodes have their paths, each ending with a slash; a path alone is
            relative to the first.
        settings: what `httpx.AsyncClient` takes.
    """

    def __init__(self, nodes: Iterable[str], **settings: Any) -> None:  # noqa: ANN401  those of httpx
        roots = list(nodes)
        super().__init__(base_url=roots[0], **settings)
        self._paths = _Paths(roots)

    async def prove(self, node: str) -> PathProof | None:
        """Prove the paths below a node's URL now; return the last proof, ``None`` if there is none."""
        request = self.build_request("GET", f"{node}{path_of('/')}", timeout=PROVING_SECONDS)
        with contextlib.suppress(httpx.HTTPError):
            await self._ask(self._paths.proved(request, JUST_NOW_SECONDS))
        return self._paths.last(node)

    async def send(self, request: httpx.Request, **how: Any) -> httpx.Response:  # noqa: ANN401  those of httpx
        """Send a request whose path is proved.

        Raises:
            PathFaultError: it was not sent, because its path would change.
            UnprovedError: it was not sent, because nothing can be proved now.
            CachedAnswerError: a cache answered it.
            httpx.HTTPError: as `httpx.AsyncClient.send`.
        """
        try:
            shown = await self._ask(self._paths.before(request))
        except (httpx.TransportError, CachedAnswerError) as error:
            raise _not_sent(request, error) from error
        if shown is None:
            shown = await self._exchange(request, **how)
            again = self._paths.after(request, shown)
            if again is not None:
                await shown.aclose()
                shown = await self._ask(again) or await self._exchange(request, **how)
        if not how.get("stream"):
            await shown.aread()
        return shown

    async def _exchange(self, request: httpx.Request, **how: Any) -> httpx.Response:  # noqa: ANN401
        uncached(request)
        response = await super().send(request, **how)
        try:
            not_cached(response)
        except CachedAnswerError:
            await response.aclose()
            raise
        return response

    async def _ask(self, asking: _Asking) -> httpx.Response | None:
        try:
            probe = next(asking)
            while True:
                response = await self._exchange(probe, stream=True)
                body = bytearray()
                try:
                    async for part in response.aiter_raw():
                        body += part
                        if len(body) > _MAX_OCTETS:
                            break
                finally:
                    await response.aclose()
                answer = PathAnswer(response.status_code, bytes(body), demanded_by(response))
                probe = asking.send(answer)
        except StopIteration as end:
            shown: httpx.Response | None = end.value
            return shown


class ManagementSession(httpx.Client):
    """The same without asynchronous calls, for one node, and for commands.

    If a server demands a pause, what was not sent, and what only reads, is sent after it.

    Args:
        node: the URL below which the node has its paths, ending with a slash.
        settings: what `httpx.Client` takes.
    """

    def __init__(self, node: str, **settings: Any) -> None:  # noqa: ANN401  those of httpx
        super().__init__(base_url=node, **settings)
        self._paths = _Paths([node])

    def send(self, request: httpx.Request, **how: Any) -> httpx.Response:  # noqa: ANN401  those of httpx
        """Send a request whose path is proved; errors as of `ManagementClient.send`."""
        left = int(PAUSES_SECONDS * SECOND)
        while True:
            try:
                shown = self._send(request, **how)
                pause = demanded_by(shown) if request.method == "GET" else 0
                if not 0 < pause <= left:
                    return shown
            except UnprovedError as error:
                pause = error.pause
                if not 0 < pause <= left:
                    raise
            left -= pause
            time.sleep(pause / SECOND)

    def _send(self, request: httpx.Request, **how: Any) -> httpx.Response:  # noqa: ANN401  those of httpx
        try:
            shown = self._ask(self._paths.before(request))
        except (httpx.TransportError, CachedAnswerError) as error:
            raise _not_sent(request, error) from error
        if shown is None:
            shown = self._exchange(request, **how)
            again = self._paths.after(request, shown)
            if again is not None:
                shown.close()
                shown = self._ask(again) or self._exchange(request, **how)
        if not how.get("stream"):
            shown.read()
        return shown

    def _exchange(self, request: httpx.Request, **how: Any) -> httpx.Response:  # noqa: ANN401  those of httpx
        uncached(request)
        response = super().send(request, **how)
        try:
            not_cached(response)
        except CachedAnswerError:
            response.close()
            raise
        return response

    def _ask(self, asking: _Asking) -> httpx.Response | None:
        try:
            probe = next(asking)
            while True:
                response = self._exchange(probe)
                answer = PathAnswer(response.status_code, response.content, demanded_by(response))
                probe = asking.send(answer)
        except StopIteration as end:
            shown: httpx.Response | None = end.value
            return shown
