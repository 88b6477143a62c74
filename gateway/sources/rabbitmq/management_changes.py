"""Changes of a broker through its management API, and their answers.

A failed read loses nothing. For a change it matters whether it was certainly not made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.management_api import (
    NO_API,
    WITHHELD,
    Answer,
    NotFound,
    Refused,
    by_proxy,
    error_of,
    is_login_refusal,
    is_missing,
    is_withheld,
)
from gateway.sources.rabbitmq.path_proof import path_of

_SERVER_ERRORS = 500
_EXPLAINED = frozenset({401, 403, 404})
"""Statuses below 500 that the broker gives a reason for."""
_OF_PROXIES = frozenset({408, 429})
"""Statuses below 500 that only a proxy answers, which may have forwarded the request."""


@dataclass(frozen=True, slots=True)
class Change:
    """A request that changes the broker. It is sent once.

    Attributes:
        method: the HTTP method.
        target: path and query below ``/api/``.
        body: the value that is sent as JSON; ``None`` for no body.
        reason: the reason that the client of a closed connection gets.
    """

    method: Literal["PUT", "POST", "DELETE"]
    target: str
    body: Mapping[str, Json] | None = field(default=None, repr=False)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A request for a single fact that an operation needs.

    Attributes:
        target: path and query below ``/api/``.
        as_writer: it is sent as the user who changes the broker, not as the one who reads it.
    """

    target: str
    as_writer: bool = False


@dataclass(frozen=True, slots=True)
class Purge:
    """A request to drop the messages of a queue that are ready for delivery. It is sent once.

    It is not a `Change`, because over AMQP the broker reports how many messages it dropped. The management
    API does not report that.

    Attributes:
        virtual_host: the virtual host of the queue.
        queue: the name of the queue.
        clusters: the names of the cluster that has the queue, as far as they are known.
    """

    virtual_host: str
    queue: str
    clusters: frozenset[str] = frozenset()

    @property
    def over_http(self) -> Change:
        """The purge as a request to the management API."""
        return Change("DELETE", f"{path_of('queues', self.virtual_host, self.queue)}/contents")


BrokerRequest: TypeAlias = Change | Lookup | Purge


@dataclass(frozen=True, slots=True)
class Changed:
    """A status 2xx: the change was made."""


@dataclass(frozen=True, slots=True)
class Purged:
    """The broker dropped so many messages."""

    messages: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """The broker understood and changed nothing. ``reason`` is one line for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """The broker was not reached: certainly nothing was changed.

    ``pause``: nanoseconds for which a server before it demands that nothing is sent; 0 for no demand.
    """

    reason: str
    pause: int = 0


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The request was sent, or may have been; its outcome is unknown."""

    reason: str


ChangeAnswer: TypeAlias = Changed | NotFound | Refused | Rejected | NotSent | Unanswered
PurgeAnswer: TypeAlias = Purged | ChangeAnswer
BrokerAnswer: TypeAlias = Answer | PurgeAnswer


def change_answer_of(status: int, body: bytes, *, lacks_api: bool = False) -> ChangeAnswer:
    """Return what an HTTP response to a change means. Any status and body give an answer; nothing raises.

    ``lacks_api``: its headers say so (`gateway.sources.rabbitmq.management_api.is_without_api`).
    """
    if 200 <= status < 300:  # noqa: PLR2004  the class of success
        return Changed()
    error, reason = error_of(body)
    text = f"status {status}{': ' if reason else ''}{reason}"
    # It may look at answers, too, so that the request may have reached the broker, which says why it refuses
    # one, but for a few that it does not even understand.
    if not error and (body or status in _EXPLAINED):
        return Unanswered(by_proxy(status))
    is_not_found = status == 404  # noqa: PLR2004
    withheld = WITHHELD if is_not_found and is_withheld(body) else ""
    if withheld or status in {401, 403}:
        return Refused(is_login_refusal(error, reason), withheld or reason or text)
    if is_not_found and is_missing(body):
        return NotSent(NO_API) if lacks_api else NotFound()
    if status >= _SERVER_ERRORS or status in _OF_PROXIES or _is_timeout(reason):
        return Unanswered(text)
    return Rejected(reason or text)


def _is_timeout(reason: str) -> bool:
    """Return whether a refusal means that the broker itself got no answer in time.

    RabbitMQ 4.3 answers 400 then, if its cluster has no majority: "The operation to delete the queue from the
    metadata store timed out", or an Erlang term with ``{timeout,``. The deletion is made when there is a
    majority.
    """
    return "timed out" in reason or "{timeout," in reason
