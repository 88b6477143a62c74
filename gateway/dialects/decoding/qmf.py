"""Decodes bodies of AM2, AM01 and AM1, by the schemas and calls in the bodies before them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from gateway.dialects.decoding.plain import Body, Decoded, Plain, message, plain
from gateway.dialects.decoding.written_again import (
    Arguments,
    is_written_again,
    layouts_of,
    with_arguments,
)
from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.am01 import codec as am01_codec
from gateway.dialects.qmf.am01.messages import ALL, ClassDescription, Revision
from gateway.dialects.qmf.am01.messages import MethodRequest as Am01MethodRequest
from gateway.dialects.qmf.codec import read_body
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions, EventDefinition
from gateway.dialects.qmf.messages import (
    Content,
    EventIndication,
    MethodRequest,
    MethodResponse,
    Received,
    SchemaResponse,
    UnknownClass,
    UnknownOpcode,
)
from gateway.model.schema import Argument, ClassKey, Direction

MAX_PENDING: Final = 10_000
"""Calls that are remembered for their answers; beyond it the oldest is forgotten."""

_Call: TypeAlias = "tuple[ClassKey, str]"
"""Class and name of a method."""


class _Context:
    """The schemas and calls of the bodies before."""

    def __init__(self) -> None:
        self.definitions = Definitions()
        self._calls: OrderedDict[tuple[int, str], _Call] = OrderedDict()
        self._latest: dict[tuple[str, str], ClassDefinition] = {}

    def learn(self, received: object) -> None:
        """Remember the schema in a message, if there is one."""
        if isinstance(received, SchemaResponse):
            definitions = [received.definition]
        elif isinstance(received, ClassDescription):
            definitions = [received.definition, *received.events]
        else:
            return
        for definition in definitions:
            if self._is_cut(definition):
                continue
            if self.definitions.add(definition) and isinstance(definition, ClassDefinition):
                self._latest[definition.key.package, definition.key.name] = definition

    def _is_cut(self, definition: ClassDefinition | EventDefinition) -> bool:
        """Return whether it is the form that qpidd gives an event of agent 0.6: same hash, no arguments.

        The agent's own message to the broker, which such a capture contains, too, has the arguments.
        """
        if not isinstance(definition, EventDefinition) or definition.schema.arguments:
            return False
        known = self.definitions.find_event(definition.key)
        return known is not None and bool(known.schema.arguments) and any(definition.key.hash)

    def class_of(self, call: _Call) -> ClassDefinition | None:
        """Return the class of a call, whose key may lack the hash or the package, if it has the method."""
        key, method = call
        known = self.definitions.find_class(key) or self._latest.get((key.package, key.name))
        known = known or self._latest.get(("", key.name))
        return known if known is not None and method in known.methods else None

    def called(self, sequence: int, reply_to: str, call: _Call) -> None:
        """Remember a call."""
        self._calls[sequence, reply_to] = call
        self._calls.move_to_end((sequence, reply_to))
        if len(self._calls) > MAX_PENDING:
            self._calls.popitem(last=False)

    def call_of(self, sequence: int, reply_key: str) -> _Call | None:
        """Return the call that is answered under ``reply_key``; not all captures have calls' reply addresses.

        The call stays known: a capture on both sides of a broker has each answer twice.
        """
        return self._calls.get((sequence, reply_key)) or self._calls.get((sequence, ""))

    def shown(self, received: object, body: Body) -> tuple[dict[str, Plain], Arguments | None]:
        """Return a message with its values by name, and the arguments of a call if they are known."""
        shown = message(received)
        match received:
            case UnknownClass() | UnknownOpcode():
                shown["opcode"] = chr(received.code)
            case Content():
                known = self.definitions.find_class(received.key)
                assert known is not None  # otherwise it could not have been decoded
                for group in ("properties", "statistics"):
                    values = getattr(received, group)
                    if values is not None:
                        shown[group] = _named(getattr(known.schema, group), values)
            case EventIndication():
                event = self.definitions.find_event(received.key)
                assert event is not None
                shown["arguments"] = _named(event.schema.arguments, received.arguments)
            case MethodRequest() | Am01MethodRequest():
                return shown, self._show_request(received, body, shown)
            case MethodResponse():
                call = self.call_of(received.sequence, body.routing_key)
                if call is not None:
                    shown["method"] = call[1]
                    return shown, self._show_arguments(call, received.arguments, shown, Direction.OUT)
        return shown, None

    def _show_request(
        self, received: MethodRequest | Am01MethodRequest, body: Body, shown: dict[str, Plain]
    ) -> Arguments | None:
        call = received.key, received.method
        self.called(received.sequence, body.reply_to or getattr(received, "reply_queue", ""), call)
        return self._show_arguments(call, received.arguments, shown, Direction.IN)

    def _show_arguments(
        self, call: _Call, octets: bytes, shown: dict[str, Plain], way: Direction
    ) -> Arguments | None:
        """Replace the octets of arguments by their values, unless the method is unknown.

        Extra octets are shown as ``rest``: peers ignore them.
        """
        definition, method = self.class_of(call), call[1]
        if definition is None:
            return None
        arguments: list[Argument] = [
            one for one in definition.methods[method].arguments if one.direction in {way, Direction.INOUT}
        ]
        if not octets and arguments and way is Direction.OUT:
            shown["arguments"] = None  # an agent may leave them out after a failure
            return None
        try:
            values, end = layouts_of(definition, way)[method].read(octets, 0)
        except ProtocolError:
            return None
        shown["arguments"] = _named(arguments, values)
        if octets[end:]:
            shown["rest"] = plain(octets[end:])
        return Arguments(definition, method, way, tuple(values), octets[end:])


class Am2Decoder:
    """Decodes AM2; see `Decoder`."""

    def __init__(self) -> None:
        self._context = _Context()

    def decode(self, body: Body) -> Decoded:
        """Return the messages of a body; see `Decoder.decode`."""
        shown: list[dict[str, Plain]] = []
        messages: list[tuple[Received, Arguments | None]] = []
        for received in read_body(body.octets, self._context.definitions):
            self._context.learn(received)
            one, arguments = self._context.shown(received, body)
            messages.append((received, arguments))
            shown.append(one)
        return Decoded(shown, is_written_again(messages, body.octets, self._context.definitions))


class Am01Decoder:
    """Decodes revisions of AM01; see `Decoder`.

    Args:
        revisions: the permitted revisions; each body is tried with all, because a capture may mix peers.
    """

    def __init__(self, revisions: frozenset[Revision] = ALL) -> None:
        self._context = _Context()
        self._revisions = revisions

    def decode(self, body: Body) -> Decoded:
        """Return the message of a body; see `Decoder.decode`."""
        received, revisions = am01_codec.read(
            body.routing_key, body.octets, self._context.definitions, self._revisions, extended=True
        )
        self._context.learn(received)
        shown, arguments = self._context.shown(received, body)
        shown["revisions"] = plain(sorted(revision.value for revision in revisions))
        if isinstance(received, UnknownClass | UnknownOpcode):
            return Decoded([shown], None)
        if arguments is not None:
            try:
                received = with_arguments(received, arguments)
            except LocalProtocolError:  # a text that is no UTF-8 is shown by a longer one
                return Decoded([shown], None)
        written: list[bytes] = []
        for revision in sorted(revisions, key=lambda one: one.value):
            try:
                written.append(am01_codec.write(received, revision, self._context.definitions, extended=True))
            except LocalProtocolError:
                continue
        return Decoded([shown], body.octets in written if written else None)


def am1_decoder() -> Am01Decoder:
    """Return a decoder of AM1 only."""
    return Am01Decoder(frozenset((Revision.MARCH_2008,)))


def _named(elements: Iterable[Any], values: Iterable[Any]) -> Plain:
    return {element.name: plain(value) for element, value in zip(elements, values, strict=True)}
