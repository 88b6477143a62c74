"""Steps of operations: generators of requests, which get each answer; and the fresh read of one object.

An answer that the steps cannot continue with is raised as a `CallFailedError`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from gateway.dialects.qmf.statuses import Status
from gateway.mapping.paths import Json
from gateway.model.operations import Answer, MethodCall, Outcome
from gateway.model.schema import Argument, Direction
from gateway.model.secrets import MASK, SecretRules, mask_uris
from gateway.model.validation import validate
from gateway.model.values import Value, Values
from gateway.sources.rabbitmq.amqp10_sessions import sessions_of
from gateway.sources.rabbitmq.listing import listed_items
from gateway.sources.rabbitmq.management_api import (
    ADMINISTRATIVE,
    PAGED_COLLECTIONS,
    PAUSE_DEMANDED,
    Document,
    NotFound,
    Refused,
    page_by_name,
    page_of,
)
from gateway.sources.rabbitmq.management_changes import (
    BrokerAnswer,
    BrokerRequest,
    Change,
    Changed,
    Lookup,
    NotSent,
    Purge,
    Purged,
    Rejected,
    Unanswered,
)
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.object_places import Place, place_of
from gateway.sources.rabbitmq.path_proof import path_of
from gateway.sources.rabbitmq.reading import ClassReader


@dataclass(frozen=True, slots=True)
class Pause:
    """Continue after so many nanoseconds; other operations proceed meanwhile."""

    duration: int


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a method that returns more than its success.

    Attributes:
        text: one line for people.
        outputs: its OUT arguments, in the order of the schema.
        confirmed: the broker has confirmed the outcome, so the caller need not wait until the object shows
            it.
    """

    text: str
    outputs: Values
    confirmed: bool


Step: TypeAlias = Change | Lookup | Purge | Pause
Steps: TypeAlias = Generator[Step, Json, None]
"""The steps of a method.

A `Lookup` is answered with what was found, or ``None``. A `Purge` is answered with the number of messages, or
``None`` if it is unknown; any other step with ``None``. A step that fails ends the method, unless it catches
the `CallFailedError`.
"""

ResultSteps: TypeAlias = Generator[Step, Json, Result | None]
"""The steps of a method that may return a result."""

ReadSteps: TypeAlias = Generator[Lookup, Json, "Mapping[str, Json] | None"]
"""The steps that read one object. They return it as a listing shows it, or ``None`` if it is gone."""


class CallFailedError(Exception):
    """A call ends with this status; the text is one line for people.

    ``sent``: it is the answer, or the lack of one, to a change that was sent.
    """

    def __init__(self, status: Status, text: str, *, sent: bool = False) -> None:
        self.status = status
        self.sent = sent
        self.text = " ".join(text.split())
        super().__init__(self.text)


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """How many queues a broker has deleted, as its nodes count them.

    Attributes:
        deleted: the count.
        uptimes: for how long each node has run, by its name (ns).
    """

    deleted: int
    uptimes: Mapping[str, int]

    def are_as(self, before: QueueCounts, elapsed: int) -> bool:
        """Return whether no queue was deleted since ``before``, which was ``elapsed`` nanoseconds ago.

        A node that was started again since counts from zero.
        """
        ran_on = self.uptimes.keys() == before.uptimes.keys() and min(self.uptimes.values()) >= elapsed
        return ran_on and self.deleted == before.deleted


@dataclass(slots=True)
class Evidence:
    """What the steps of a call have read of its object, by which the effect of the call is judged.

    Attributes:
        figures: the figures of a queue before it was purged, which may be older than its messages.
        ready: its present depth right before that; ``None`` if that is not shown.
        is_purged: its present depth proves that it was purged.
        life: what the next object of the name would not show, before this one was to end; ``None`` if
            nothing was found.
        counts: how many queues the broker had deleted then; ``None`` if that is not known.
    """

    figures: Mapping[str, Json] = field(default_factory=dict)
    ready: int | None = None
    is_purged: bool = False
    life: Json = None
    counts: QueueCounts | None = None


@dataclass(frozen=True, slots=True)
class Invocation:
    """A call in the form that its method receives.

    Attributes:
        target: the object.
        created: when it was created, nanoseconds; 0 if unknown.
        arguments: the arguments by name; absent ones are left out.
        lockout: the virtual hosts and users whom the configuration allows to be locked out.
        evidence: what the steps read of the object before it was changed.
        user: the user who changes the broker, if events report who sets objects; else empty.
        settings: the events that report that the object was set, since the call began.
    """

    target: ObjectName
    created: int = 0
    arguments: Mapping[str, Value] = field(default_factory=dict)
    lockout: frozenset[str] = frozenset()
    evidence: Evidence = field(default_factory=Evidence)
    user: str = ""
    settings: Sequence[Mapping[str, object]] = ()

    def text(self, name: str) -> str:
        """Return an argument of type string; empty if it is absent."""
        value = self.arguments.get(name, "")
        return value if isinstance(value, str) else ""

    def number(self, name: str) -> int:
        """Return an argument of an integer type; 0 if it is absent."""
        value = self.arguments.get(name, 0)
        return value if isinstance(value, int) else 0

    def flag(self, name: str) -> bool:
        """Return an argument of type bool; false if it is absent."""
        return self.arguments.get(name) is True


@dataclass(frozen=True, slots=True)
class Method:
    """The steps of a method, and the signs of its effect.

    Attributes:
        steps: the requests that it sends.
        ends: the object is gone after it.
        empties: it takes the messages of a queue, which the queue's figures show some seconds later.
        slow: the broker may show the object for long after it has carried the request out.
        lists: classes of which other objects change, too, and which are listed soon.
    """

    steps: Callable[[Invocation], ResultSteps]
    ends: bool = False
    empties: bool = False
    slow: bool = False
    lists: tuple[str, ...] = ()


Running: TypeAlias = Generator[Step, Json, None]
"""The steps of a call or fresh read, with all that belongs to it; they answer it themselves."""


@dataclass(slots=True)
class Task:
    """A call or read in progress.

    Attributes:
        steps: its steps; each is sent the answer to the one before.
        deadline: after this it must not begin to change anything (ns); 0 for no deadline.
        due: when it continues (ns).
        request: the request whose answer it awaits.
        sent: a change was handed out.
        token: of the operation; 0 for none.
    """

    steps: Running
    deadline: int
    due: int
    token: int = 0
    request: BrokerRequest | None = None
    begun: bool = False
    sent: bool = False


def reply_to(request: BrokerRequest, answer: BrokerAnswer, writer: str) -> Json:
    """Return the part of an answer that is passed to the steps.

    Args:
        request: the request that was sent.
        answer: its answer.
        writer: the user who changes the broker.

    Raises:
        CallFailedError: the steps cannot continue with it.
    """
    match answer:
        case Document(body) if isinstance(request, Lookup):
            return body
        case Changed():
            return None
        case Purged(messages):
            return messages
        case NotFound():
            if isinstance(request, Lookup):
                return None
            raise CallFailedError(Status.UNKNOWN_OBJECT, "the broker knows no such object", sent=True)
        case Refused():
            text, sent = _refusal_text(request, answer, writer), not isinstance(request, Lookup)
            raise CallFailedError(Status.FORBIDDEN, text, sent=sent)
        case Rejected(reason):
            raise CallFailedError(Status.EXCEPTION, reason, sent=True)
        case NotSent(reason, pause):
            why = PAUSE_DEMANDED if pause else "the broker's management API cannot be reached"
            raise CallFailedError(Status.EXCEPTION, f"not carried out: {why} ({reason})")
        case Unanswered(reason):
            text = f"no answer of the broker ({reason}): it may have been carried out"
            raise CallFailedError(Status.OUTCOME_UNKNOWN, text, sent=True)
    reason = getattr(answer, "reason", "it answers something else")
    why = PAUSE_DEMANDED if getattr(answer, "pause", 0) else "the broker cannot be read"
    raise CallFailedError(Status.EXCEPTION, f"not carried out: {why} ({reason})")


def _refusal_text(request: BrokerRequest, refusal: Refused, writer: str) -> str:
    if isinstance(request, Lookup) and not request.as_writer:
        return f"the broker may not be read ({refusal.reason})"
    if refusal.login:
        return (
            f"the management API refuses user {writer!r} ({refusal.reason}): check name and"
            " password under 'writing'"
        )
    return (
        f"user {writer!r} may not do that ({refusal.reason}): it needs the tag 'administrator', and"
        " for queues and exchanges a permission in their virtual host"
    )


def _inputs(reader: ClassReader | None, call: MethodCall) -> list[Argument] | None:
    """Return the arguments that a method takes; ``None`` if there is no such method."""
    methods = reader.schema.methods if reader is not None else ()
    method = next((one for one in methods if one.name == call.method), None)
    if method is None:
        return None
    return [one for one in method.arguments if one.direction is not Direction.OUT]


def invalid_call(reader: ClassReader | None, call: MethodCall) -> Answer | None:
    """Return the answer to a call that does not match the schema of its class; ``None`` if it does."""
    inputs = _inputs(reader, call)
    if inputs is None:
        return Answer(
            call.token, Outcome.UNKNOWN_ELEMENT, f"not sent: {call.key} has no method {call.method!r}"
        )
    if len(inputs) != len(call.arguments):
        text = f"not sent: {call.method} takes {len(inputs)} arguments, {len(call.arguments)} were given"
        return Answer(call.token, Outcome.WRONG_VALUE, text)
    for argument, value in zip(inputs, call.arguments, strict=True):
        wrong = None if value is None else validate(argument, value)
        if wrong is not None:
            return Answer(call.token, wrong.outcome, f"not sent: {argument.name}: {wrong.text}")
    return None


def named_arguments(reader: ClassReader | None, call: MethodCall) -> dict[str, Value]:
    """Return the arguments by name, without absent ones, and without optional ones that are empty.

    AM2 cannot distinguish an absent argument from an empty one, and a call means the same either way.
    """
    return {
        argument.name: value
        for argument, value in zip(_inputs(reader, call) or [], call.arguments, strict=True)
        if value is not None and not (argument.optional and not value)
    }


_SECRETS = SecretRules()


def json_of(value: Value) -> Json:
    """Return ``value`` as JSON.

    Raises:
        CallFailedError: JSON has no such value.
    """
    if isinstance(value, Mapping):
        return {key: json_of(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [json_of(inner) for inner in value]
    if isinstance(value, str | int | float):
        return value
    raise CallFailedError(Status.INVALID_PARAMETER, f"JSON knows no {type(value).__name__}")


def unmasked(written: Json, present: Json) -> Json:
    """Return ``written`` with its masked parts replaced by those of ``present``, which was shown with masks.

    A password is kept only if the rest of its text is unchanged: a user who may not read it could otherwise
    have it sent to another host.

    Raises:
        CallFailedError: a masked part was not there before.
    """
    if isinstance(written, Mapping):
        before = present if isinstance(present, Mapping) else {}
        kept = {key: inner for key, inner in before.items() if _SECRETS.hides(key) and key not in written}
        return {**kept, **{key: unmasked(inner, before.get(key)) for key, inner in written.items()}}
    if isinstance(written, list):
        return [_unmasked_text(item, present) if isinstance(item, str) else item for item in written]
    return _unmasked_text(written, present) if isinstance(written, str) else written


def _unmasked_text(written: str, present: Json) -> str:
    if not _SECRETS.shows_mask(written):
        return written
    for text in present if isinstance(present, list) else [present]:
        if isinstance(text, str) and mask_uris(text) == written:
            return text
    raise CallFailedError(
        Status.INVALID_PARAMETER,
        f"the password behind {MASK} is kept only where nothing else of the text is changed: write it again",
    )


_NameOf: TypeAlias = Callable[[Json], ObjectName | None]


def read_single(name: ObjectName, collection: str, columns: tuple[str, ...], name_of: _NameOf) -> ReadSteps:
    """Read one object again; return it as a listing shows it, or ``None`` if it is gone.

    Args:
        name: the name of the object.
        collection: the collection of the management API that lists its class.
        columns: the columns that are needed.
        name_of: returns the name of the object in a document.
    """
    match name.class_name:
        case "session":
            return _read_session(name.leaf)
        case "link":
            return _read_link(name.parts)
        case "vhost":
            # The page of one is for administrators, and RabbitMQ 4.x answers 500 to a listing that is
            # filtered by name.
            return _read_at(Place(collection, is_listing=True), name, columns, name_of)
    return _read_at(place_of(name, collection), name, columns, name_of)


def _read_at(place: Place, name: ObjectName, columns: tuple[str, ...], name_of: _NameOf) -> ReadSteps:
    """Read an object at its place, as the one who changes the broker where only administrators see it."""
    answer = yield Lookup(place.target(columns), as_writer=name.class_name in ADMINISTRATIVE)
    if answer is None:
        return None
    items = place.items(answer)
    found = None if items is None else _named(items, name, name_of)
    if items is None or (found is None and not place.is_listing):
        text = f"the management API answers with something else than {name}"
        raise CallFailedError(Status.EXCEPTION, text)
    return found


def _named(items: list[Json], name: ObjectName, name_of: _NameOf) -> Mapping[str, Json] | None:
    """Return the document of an object in a listing."""
    listed = listed_items(name.class_name, items)
    return next((item for item in listed if isinstance(item, Mapping) and name_of(item) == name.plain), None)


_MAX_LISTED: Final = 5_000
"""Maximum number of objects of a class of which all are listed because one of them seems to be gone."""


def check_missing(name: ObjectName, collection: str, known: int, name_of: _NameOf) -> Steps:
    """Look for an object that is missing at its place in a listing whose path has no names in it.

    A proxy may have rules for some paths, or for the names in them.

    Args:
        name: the name of the object.
        collection: the collection of the management API that lists its class.
        known: the number of objects of the class that are known.
        name_of: returns the name of the object in a document.

    Raises:
        CallFailedError: it is listed, or cannot be looked for.
    """
    target = collection
    if collection in PAGED_COLLECTIONS:
        target = page_by_name(collection, name.plain.leaf)
    elif known > _MAX_LISTED:
        text = f"the management API answers that there is no {name}: the next listing will show it"
        raise CallFailedError(Status.EXCEPTION, text)
    answer = yield Lookup(target, as_writer=name.class_name in ADMINISTRATIVE)
    items, last = page_of(Document(answer)) or ([], False)
    if not last:
        raise CallFailedError(Status.EXCEPTION, f"whether {name} is gone cannot be found out")
    if _named(items, name, name_of) is not None:
        text = (
            f"the management API answers that there is no {name}, and lists it: does a proxy in front of it"
            " change paths or answers?"
        )
        raise CallFailedError(Status.EXCEPTION, text)


def _read_session(session: str) -> ReadSteps:
    connection = session.rpartition(" (")[0]
    answer = yield Lookup(path_of("connections", connection, "sessions"))
    found = sessions_of(connection, "", answer)
    sessions = found.sessions if found else ()
    return next((one for one in sessions if _worked_out(one, "name") == session), None)


def _read_link(parts: tuple[str, ...]) -> ReadSteps:
    host, session, direction, handle = parts
    connection = session.rpartition(" (")[0]
    answer = yield Lookup(path_of("connections", connection, "sessions"))
    found = sessions_of(connection, host, answer)
    for link in found.links if found else ():
        wanted = (_worked_out(link, "session"), _worked_out(link, "direction")) == (session, direction)
        if wanted and str(link.get("handle")) == handle:
            return link
    return None


def _worked_out(document: Mapping[str, Json], key: str) -> Json:
    worked_out = document.get("gateway")
    return worked_out.get(key) if isinstance(worked_out, Mapping) else None


def limits_of(answer: Json) -> dict[str, Mapping[str, Json] | None] | None:
    """Return limits by virtual host, from ``GET /api/vhost-limits``; ``None`` if that is no such answer.

    Those of a virtual host are ``None`` if they cannot be read. One without an entry has no limits, and one
    whose limits were cleared has ``[]``, as Erlang's empty list becomes in JSON.
    """
    if not isinstance(answer, list):
        return None
    limits: dict[str, Mapping[str, Json] | None] = {}
    for entry in answer:
        host, value = (entry.get("vhost"), entry.get("value")) if isinstance(entry, Mapping) else (None, None)
        if not isinstance(host, str):
            return None  # it may be of any virtual host
        if value == []:
            value = {}
        limits[host] = value if isinstance(value, Mapping) else None
    return limits
