"""Changes of a broker through its management API, and what came of them, as values.

Of a reading that fails nothing is lost; of a change it matters whether it was certainly not made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import quote

from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.management_api import Answer, NotFound, Refused, error_of, is_login_refusal

_SERVER_ERRORS = 500
_UNAVAILABLE = 503


@dataclass(frozen=True, slots=True)
class Change:
    """A request that changes the broker; it is made once.

    Attributes:
        method: of HTTP.
        target: path and query below ``/api/``.
        body: what is sent as JSON; ``None`` for nothing.
        reason: why, as the client of a connection is told that is closed.
    """

    method: Literal["PUT", "POST", "DELETE"]
    target: str
    body: Mapping[str, Json] | None = field(default=None, repr=False)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Lookup:
    """A request for something single that an operation has to know.

    Attributes:
        target: path and query below ``/api/``.
        as_writer: as the user who changes the broker, not as the one who reads it.
    """

    target: str
    as_writer: bool = False


@dataclass(frozen=True, slots=True)
class Purge:
    """Throw away the messages of a queue that are ready for delivery; it is made once.

    It is apart from `Change` because the broker says over AMQP how many it threw away. The management API
    does the same and does not say it.

    Attributes:
        virtual_host: of the queue.
        queue: its name.
    """

    virtual_host: str
    queue: str

    @property
    def over_http(self) -> Change:
        """The same as a request to the management API."""
        return Change("DELETE", f"{path_of('queues', self.virtual_host, self.queue)}/contents")


BrokerRequest: TypeAlias = Change | Lookup | Purge


@dataclass(frozen=True, slots=True)
class Changed:
    """2xx: it is done."""


@dataclass(frozen=True, slots=True)
class Purged:
    """The broker threw away so many messages."""

    messages: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """The broker understood and did nothing. ``reason`` is one line for people."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotSent:
    """The broker was not reached: certainly nothing was done."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """It was sent, or may have been, and nobody can say what came of it."""

    reason: str


ChangeAnswer: TypeAlias = Changed | NotFound | Refused | Rejected | NotSent | Unanswered
PurgeAnswer: TypeAlias = Purged | ChangeAnswer
BrokerAnswer: TypeAlias = Answer | PurgeAnswer


def change_answer_of(status: int, body: bytes) -> ChangeAnswer:
    """What an HTTP response to a change says. Any status and any octets give an answer; nothing raises."""
    if 200 <= status < 300:  # noqa: PLR2004  the class of success
        return Changed()
    error, reason = error_of(body)
    text = f"status {status}{': ' if reason else ''}{reason}"
    if status in {401, 403}:
        return Refused(is_login_refusal(error, reason), reason or text)
    if status == 404 and error:  # noqa: PLR2004  not found; without JSON it is no RabbitMQ that says so
        return NotFound()
    if (status >= _SERVER_ERRORS and status != _UNAVAILABLE) or _is_timeout(reason):
        return Unanswered(text)
    return Rejected(reason or text)


def _is_timeout(reason: str) -> bool:
    """Whether a refusal means that the broker itself got no answer in time.

    RabbitMQ 4.3 answers 400 then, where its cluster has no majority: "The operation to delete the queue from
    the metadata store timed out", or an Erlang term with ``{timeout,``. It is done when there is a majority.
    """
    return "timed out" in reason or "{timeout," in reason


def path_of(*parts: str) -> str:
    """Names as segments of a path: ``path_of("queues", "/", "a b")`` is ``queues/%2F/a%20b``."""
    return "/".join(quote(part, safe="") for part in parts)
