"""Makes management events from the broker's events, by the mapping's rules. Without I/O.

Values that a broker's event lacks are taken from the known object: the event of the closing of a connection
has neither user nor virtual host, nor the time at which it was opened.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from gateway.mapping.errors import MappingError
from gateway.mapping.files import event_schemas, secret_patterns
from gateway.mapping.paths import Json, ReadPath, compile_path
from gateway.mapping.rules import ArgumentRule, EventRule
from gateway.mapping.rules import Mapping as MappingFile
from gateway.model.observations import Severity
from gateway.model.schema import Argument, ClassKey, EventSchema
from gateway.model.secrets import SecretRules
from gateway.model.values import Value, ValueType
from gateway.sources.rabbitmq.event_headers import readable_headers
from gateway.sources.rabbitmq.object_lives import KnownObject
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.reading import ClassReader, Conversion, Unreadable, conversion

_PEER = re.compile(r"(?P<host>.{1,255}):(?P<port>\d{1,5}) -> ", re.DOTALL)
"""The pattern of the broker's names of network connections: ``127.0.0.1:52110 -> 127.0.0.1:5672``."""

_LOGINS = "user.authentication."

ArgumentValue: TypeAlias = "Value | ObjectName | None"
"""An argument; a reference is the name of the other object."""


@dataclass(frozen=True, slots=True)
class RaisedEvent:
    """An event to be published.

    ``time`` is nanoseconds of the broker's clock; ``arguments`` are in schema order, ``None`` for absent.
    ``subject`` is the known state of the object concerned, also if the event reports its end. ``cause``
    identifies the broker's message that the event was made from: every source gives the same text for the
    same message, and for no other; it is empty if there was no message.
    """

    key: ClassKey
    time: int
    severity: Severity
    arguments: tuple[ArgumentValue, ...]
    subject: KnownObject | None = None
    cause: str = ""


@dataclass(frozen=True, slots=True)
class _ArgumentPlan:
    name: str
    convert: Conversion
    path: ReadPath | None
    known: int | None
    optional: bool


@dataclass(frozen=True, slots=True)
class _EventPlan:
    schema: EventSchema
    rule: EventRule
    severity: Severity
    arguments: tuple[_ArgumentPlan | _ReferencePlan, ...]
    subject: _ReferencePlan | None
    unless: tuple[tuple[str, re.Pattern[str]], ...]

    def concerns(self, document: Mapping[str, Json]) -> bool:
        """Return whether a broker's event with these headers is this event."""
        if any(document.get(header) != text for header, text in self.rule.when.items()):
            return False
        texts = ((pattern, document.get(header)) for header, pattern in self.unless)
        return not any(isinstance(text, str) and pattern.search(text) for pattern, text in texts)


@dataclass(frozen=True, slots=True)
class _ReferencePlan:
    """A reference: by the name at ``path``, or without ``path`` by the elements that name such an object."""

    reader: ClassReader
    path: ReadPath | None

    def name(self, document: Mapping[str, Json]) -> ObjectName | None:
        """Return the name of the object that it refers to; ``None`` if ``document`` lacks the name."""
        if self.path is None:
            return self.reader.name_of(document)
        text = self.path.find(document)
        return ObjectName(self.reader.schema.key.name, (text,)) if isinstance(text, str) and text else None


class EventMaker:
    """Makes management events.

    Args:
        mapping: the mapping whose events are made.
        readers: the reader of each class that arguments refer to.

    Attributes:
        schemas: the schemas of the events, in the mapping's order.
        unreadable: the number of events that lacked a required argument, by name; of unreadable arguments, by
            ``event.argument``.

    Raises:
        MappingError: an event refers to a class or property that does not exist, or an argument has no
            type.
    """

    def __init__(self, mapping: MappingFile, readers: Mapping[str, ClassReader]) -> None:
        secrets = SecretRules(secret_patterns(mapping))
        self.schemas = event_schemas(mapping)
        self.unreadable: Counter[str] = Counter()
        self._readers = readers
        self._plans: dict[str, list[_EventPlan]] = {}
        for name, schema in self.schemas.items():
            rule = mapping.events[name]
            if rule.trigger:
                self._plans.setdefault(rule.trigger, []).append(self._plan(schema, rule, secrets))

    @property
    def triggers(self) -> tuple[str, ...]:
        """The names of the broker's events that management events are made from."""
        return tuple(self._plans)

    def subjects(self, trigger: str, headers: Mapping[str, Json]) -> Iterable[ObjectName]:
        """Yield the objects that the events made from this one would be about."""
        for plan in self._plans.get(trigger, ()):
            subject = plan.subject.name(headers) if plan.subject and plan.concerns(headers) else None
            if subject is not None:
                yield subject

    def made(
        self,
        trigger: str,
        headers: Mapping[str, Json],
        time: int,
        known: Callable[[ObjectName], KnownObject | None],
    ) -> list[RaisedEvent]:
        """Return the events that are made from a broker's event. Never raises.

        Args:
            trigger: the name of the broker's event.
            headers: its headers, in JSON's types.
            time: its time (ns).
            known: returns the known state of an object, or its last state if this event ended it.
        """
        plans = self._plans.get(trigger)
        if not plans:
            return []
        readable = readable_headers(headers)
        events = []
        for plan in plans:
            if plan.concerns(readable):
                event = self._made(plan, readable, time, known)
                if event is None:
                    self.unreadable[plan.schema.key.name] += 1
                else:
                    events.append(event)
        return events

    def _made(
        self,
        plan: _EventPlan,
        headers: Mapping[str, Json],
        time: int,
        known: Callable[[ObjectName], KnownObject | None],
    ) -> RaisedEvent | None:
        name = plan.subject.name(headers) if plan.subject else None
        subject = known(name) if name is not None else None
        # The name in a login's event is that of the user, which the client chose.
        names_connection = "connection_name" if plan.rule.trigger.startswith(_LOGINS) else "name"
        document = {**headers, "gateway": _worked_out(headers, time, subject, names_connection)}
        values: list[ArgumentValue] = []
        for argument in plan.arguments:
            if isinstance(argument, _ReferencePlan):
                values.append(argument.name(document))
                continue
            value = self._value(plan, argument, document, subject)
            if value is None and not argument.optional:
                return None
            values.append(value)
        cause = _cause(plan.schema.key, headers)
        return RaisedEvent(plan.schema.key, time, plan.severity, tuple(values), subject, cause)

    def _value(
        self,
        plan: _EventPlan,
        argument: _ArgumentPlan,
        document: Mapping[str, Json],
        subject: KnownObject | None,
    ) -> Value | None:
        value = argument.convert(argument.path.find(document)) if argument.path else None
        if isinstance(value, Unreadable):
            self.unreadable[f"{plan.schema.key.name}.{argument.name}"] += 1
            value = None
        if value is None and subject is not None and argument.known is not None:
            return subject.properties[argument.known]
        return value

    # Compiling.

    def _plan(self, schema: EventSchema, rule: EventRule, secrets: SecretRules) -> _EventPlan:
        subject = rule.arguments[rule.subject] if rule.subject else None
        of_subject = self._reader_of(schema, subject.references) if subject else None
        return _EventPlan(
            schema,
            rule,
            Severity.INFO if rule.severity is None else rule.severity,
            tuple(
                self._argument_plan(schema, argument, rule.arguments[argument.name], of_subject, secrets)
                for argument in schema.arguments
            ),
            None if subject is None or of_subject is None else _ReferencePlan(of_subject, _path(subject)),
            tuple((header, re.compile(pattern)) for header, pattern in rule.unless.items()),
        )

    def _argument_plan(
        self,
        schema: EventSchema,
        argument: Argument,
        rule: ArgumentRule,
        subject: ClassReader | None,
        secrets: SecretRules,
    ) -> _ArgumentPlan | _ReferencePlan:
        if argument.type is ValueType.REFERENCE:
            return _ReferencePlan(self._reader_of(schema, rule.references), _path(rule))
        known = None
        if rule.known:
            known = subject.schema.positions.get(rule.known) if subject else None
            if subject is None or known is None or known >= len(subject.schema.properties):
                raise MappingError(
                    f"{schema.key}.{argument.name}: known: {rule.known!r} is no property of the subject"
                )
        return _ArgumentPlan(
            argument.name,
            conversion(argument, secrets, scale=rule.scale),
            _path(rule),
            known,
            argument.optional,
        )

    def _reader_of(self, schema: EventSchema, class_name: str) -> ClassReader:
        reader = self._readers.get(class_name)
        if reader is None:
            raise MappingError(f"{schema.key}: there is no class {class_name!r} to refer to")
        return reader


def _cause(key: ClassKey, headers: Mapping[str, Json]) -> str:
    """Return a digest of the headers; empty if they lack the time in milliseconds."""
    if not isinstance(headers.get("timestamp_in_ms"), int):
        return ""
    text = json.dumps(headers, sort_keys=True, separators=(",", ":"))
    return f"{key.name}-{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"


def _path(rule: ArgumentRule) -> ReadPath | None:
    return compile_path(rule.read) if rule.read else None


def _worked_out(
    headers: Mapping[str, Json], time: int, subject: KnownObject | None, names_connection: str
) -> dict[str, Json]:
    """Return computed fields: the object's lifetime, or the peer of an unknown connection.

    ``names_connection`` is the header that names the connection.
    """
    if subject is not None:
        lived = subject.created and subject.created <= time
        return {"lifetime": time - subject.created} if lived else {}
    name = headers.get(names_connection)
    peer = _PEER.match(name) if isinstance(name, str) else None
    return {"peer_host": peer["host"].strip("[]"), "peer_port": peer["port"]} if peer else {}
