"""Bodies of AM2, and of AM01 and AM1: with the schemas and calls that were heard before them."""

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
"""Calls that answers are looked for among; beyond it the oldest is forgotten."""

_Call: TypeAlias = "tuple[ClassKey, str]"
"""Class and name of the method."""


class _Heard:
    """What bodies before this one told: schemas, and calls."""

    def __init__(self) -> None:
        self.definitions = Definitions()
        self._calls: OrderedDict[tuple[int, str], _Call] = OrderedDict()
        self._latest: dict[tuple[str, str], ClassDefinition] = {}

    def learn(self, told: object) -> None:
        """Take the schema that a message tells, if it does."""
        if isinstance(told, SchemaResponse):
            definitions = [told.definition]
        elif isinstance(told, ClassDescription):
            definitions = [told.definition, *told.events]
        else:
            return
        for definition in definitions:
            if self._is_cut(definition):
                continue
            if self.definitions.add(definition) and isinstance(definition, ClassDefinition):
                self._latest[definition.key.package, definition.key.name] = definition

    def _is_cut(self, definition: ClassDefinition | EventDefinition) -> bool:
        """Whether it is what qpidd makes of an event of agent 0.6: the same hash, and no arguments.

        What the agent told the broker, which a capture there has too, says what the event holds.
        """
        if not isinstance(definition, EventDefinition) or definition.schema.arguments:
            return False
        known = self.definitions.find_event(definition.key)
        return known is not None and bool(known.schema.arguments) and any(definition.key.hash)

    def class_of(self, call: _Call) -> ClassDefinition | None:
        """The class of a call, whose key may lack the hash, or the package; it has the method."""
        key, method = call
        known = self.definitions.find_class(key) or self._latest.get((key.package, key.name))
        known = known or self._latest.get(("", key.name))
        return known if known is not None and method in known.methods else None

    def called(self, sequence: int, reply_to: str, call: _Call) -> None:
        """A call was heard."""
        self._calls[sequence, reply_to] = call
        self._calls.move_to_end((sequence, reply_to))
        if len(self._calls) > MAX_PENDING:
            self._calls.popitem(last=False)

    def call_of(self, sequence: int, reply_key: str) -> _Call | None:
        """The call that an answer under ``reply_key`` is to; not all captures tell where it was wanted.

        It may be asked for again: who captures on both sides of a broker has each answer twice.
        """
        return self._calls.get((sequence, reply_key)) or self._calls.get((sequence, ""))

    def shown(self, told: object, body: Body) -> tuple[dict[str, Plain], Arguments | None]:
        """A message with its values by name, and the arguments of a call of which these are known."""
        shown = message(told)
        match told:
            case UnknownClass() | UnknownOpcode():
                shown["opcode"] = chr(told.code)
            case Content():
                known = self.definitions.find_class(told.key)
                assert known is not None  # or it could not have been read
                for group in ("properties", "statistics"):
                    values = getattr(told, group)
                    if values is not None:
                        shown[group] = _named(getattr(known.schema, group), values)
            case EventIndication():
                event = self.definitions.find_event(told.key)
                assert event is not None
                shown["arguments"] = _named(event.schema.arguments, told.arguments)
            case MethodRequest() | Am01MethodRequest():
                return shown, self._show_request(told, body, shown)
            case MethodResponse():
                call = self.call_of(told.sequence, body.routing_key)
                if call is not None:
                    shown["method"] = call[1]
                    return shown, self._show_arguments(call, told.arguments, shown, Direction.OUT)
        return shown, None

    def _show_request(
        self, told: MethodRequest | Am01MethodRequest, body: Body, shown: dict[str, Plain]
    ) -> Arguments | None:
        call = told.key, told.method
        self.called(told.sequence, body.reply_to or getattr(told, "reply_queue", ""), call)
        return self._show_arguments(call, told.arguments, shown, Direction.IN)

    def _show_arguments(
        self, call: _Call, octets: bytes, shown: dict[str, Plain], way: Direction
    ) -> Arguments | None:
        """Arguments by name in place of their octets; these stay where nobody knows what they mean.

        What stands behind them is shown as ``rest``: peers pass over it.
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
    """See `Decoder`."""

    def __init__(self) -> None:
        self._heard = _Heard()

    def decode(self, body: Body) -> Decoded:
        """See `Decoder.decode`."""
        shown: list[dict[str, Plain]] = []
        messages: list[tuple[Received, Arguments | None]] = []
        for told in read_body(body.octets, self._heard.definitions):
            self._heard.learn(told)
            one, arguments = self._heard.shown(told, body)
            messages.append((told, arguments))
            shown.append(one)
        return Decoded(shown, is_written_again(messages, body.octets, self._heard.definitions))


class Am01Decoder:
    """See `Decoder`; reads the revisions given.

    Args:
        revisions: that the peers may speak; a peer's is not kept, because a capture may hold several.
    """

    def __init__(self, revisions: frozenset[Revision] = ALL) -> None:
        self._heard = _Heard()
        self._revisions = revisions

    def decode(self, body: Body) -> Decoded:
        """See `Decoder.decode`."""
        told, revisions = am01_codec.read(
            body.routing_key, body.octets, self._heard.definitions, self._revisions, extended=True
        )
        self._heard.learn(told)
        shown, arguments = self._heard.shown(told, body)
        shown["revisions"] = plain(sorted(revision.value for revision in revisions))
        if isinstance(told, UnknownClass | UnknownOpcode):
            return Decoded([shown], None)
        if arguments is not None:
            told = with_arguments(told, arguments)
        written: list[bytes] = []
        for revision in sorted(revisions, key=lambda one: one.value):
            try:
                written.append(am01_codec.write(told, revision, self._heard.definitions, extended=True))
            except LocalProtocolError:
                continue
        return Decoded([shown], body.octets in written if written else None)


def am1_decoder() -> Am01Decoder:
    """Of AM1 alone."""
    return Am01Decoder(frozenset((Revision.MARCH_2008,)))


def _named(elements: Iterable[Any], values: Iterable[Any]) -> Plain:
    return {element.name: plain(value) for element, value in zip(elements, values, strict=True)}
