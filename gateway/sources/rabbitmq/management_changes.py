"""Changes of a broker through its management API, their answers, and deletions without an answer.

A failed read loses nothing. For a change it matters whether it was certainly not made.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from urllib.parse import quote

from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.management_api import Answer, NotFound, Refused, error_of, is_login_refusal
from gateway.sources.rabbitmq.object_names import ObjectName

_SERVER_ERRORS = 500
_UNAVAILABLE = 503


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
    """

    virtual_host: str
    queue: str

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
    """The broker was not reached: certainly nothing was changed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The request was sent, or may have been; its outcome is unknown."""

    reason: str


ChangeAnswer: TypeAlias = Changed | NotFound | Refused | Rejected | NotSent | Unanswered
PurgeAnswer: TypeAlias = Purged | ChangeAnswer
BrokerAnswer: TypeAlias = Answer | PurgeAnswer


def change_answer_of(status: int, body: bytes) -> ChangeAnswer:
    """Return what an HTTP response to a change means. Any status and body give an answer; nothing raises."""
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
    """Return whether a refusal means that the broker itself got no answer in time.

    RabbitMQ 4.3 answers 400 then, if its cluster has no majority: "The operation to delete the queue from the
    metadata store timed out", or an Erlang term with ``{timeout,``. The deletion is made when there is a
    majority.
    """
    return "timed out" in reason or "{timeout," in reason


def path_of(*parts: str) -> str:
    """Return names as segments of a path: ``path_of("queues", "/", "a b")`` is ``queues/%2F/a%20b``."""
    return "/".join(quote(part, safe="") for part in parts)


MAX_PENDING: Final = 256
"""Maximum number of deletions that are followed at a time; the outcome of others stays unknown."""


@dataclass(slots=True)
class PendingDeletion:
    """A requested deletion of one object that the broker has not answered.

    Attributes:
        name: the name of the object.
        is_ambiguous: another request of the gateway can have deleted the object.
        is_ours: an event reported that the gateway's user deleted it.
    """

    name: ObjectName
    is_ambiguous: bool = False
    is_ours: bool = False


class PendingDeletions:
    """Finds out which deletions took place that the broker did not answer, as far as events prove it.

    A cluster without a majority may delete an object hours after the request. That an object is gone does not
    prove that it was deleted by this request: others delete objects, too. An event that names the gateway's
    user proves it, provided that no other request of the gateway can have had the same effect: the same
    deletion requested twice, or the deletion of a queue or exchange, which deletes its bindings.

    Args:
        user: the user who changes the broker for the gateway.
    """

    def __init__(self, user: str) -> None:
        self._user = user
        self._pending: list[PendingDeletion] = []

    def asked(self, name: ObjectName) -> None:
        """Note that the broker is asked to delete an object."""
        for one in self._pending:
            one.is_ambiguous |= _may_end_both(one.name, name)

    def follow(self, name: ObjectName) -> PendingDeletion | None:
        """Follow a deletion that was not answered; return ``None`` if too many are followed."""
        if len(self._pending) >= MAX_PENDING:
            return None
        ambiguous = any(_may_end_both(one.name, name) for one in self._pending)
        pending = PendingDeletion(name, ambiguous)
        self._pending.append(pending)
        return pending

    def ended(self, name: ObjectName, user: object) -> None:
        """Apply an event that reports that ``user`` deleted an object."""
        for one in self._pending:
            if one.name == name and not one.is_ambiguous and user == self._user:
                one.is_ours = True

    def forget(self, pending: PendingDeletion) -> None:
        """Stop following a deletion."""
        self._pending.remove(pending)


def _may_end_both(one: ObjectName, other: ObjectName) -> bool:
    return one == other or one.class_name != other.class_name
