"""Checks whether messages encode to the octets that they were read from, by our encoder or a peer's.

Maps encode the width of each integer, and Booleans have several true values; a message keeps neither. So
the form of each known peer (`PEERS`) is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeVar, cast

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf import codec
from gateway.dialects.qmf.am01.messages import MethodRequest as Am01MethodRequest
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions
from gateway.dialects.qmf.elements import AM2, ElementForms, TypeCode, WriteOne
from gateway.dialects.qmf.layout import Layout
from gateway.dialects.qmf.messages import (
    EventIndication,
    Message,
    MethodRequest,
    MethodResponse,
    ObjectContent,
    PropertyContent,
    Received,
    SchemaResponse,
    StatisticContent,
    UnknownClass,
    UnknownOpcode,
)
from gateway.dialects.qmf.schema_records import JAVAS, OURS, QPIDD, RecordForm
from gateway.dialects.qmf.typed_values import (
    Int64,
    QmfValue,
    QmfValues,
    write_array,
    write_list,
    write_map,
)
from gateway.model.schema import Direction

_SCHEMAS: Final[tuple[RecordForm, ...]] = (OURS, QPIDD, JAVAS, RecordForm(OURS.text, QPIDD.narrow))

_MessageT = TypeVar("_MessageT")


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call or of its answer, with their class.

    Attributes:
        definition: the class.
        method: the name of the method.
        way: ``IN`` of a call, ``OUT`` of an answer.
        values: the values in the order of the schema.
        rest: extra octets after them.
    """

    definition: ClassDefinition
    method: str
    way: Direction
    values: QmfValues
    rest: bytes

    def written(self, forms: ElementForms) -> bytes:
        """Return the encoded arguments; raise `LocalProtocolError` if they cannot be encoded."""
        definition = self.definition if forms is AM2 else replace(self.definition, forms=forms)
        return layouts_of(definition, self.way)[self.method].write(self.values) + self.rest


def layouts_of(definition: ClassDefinition, way: Direction) -> dict[str, Layout]:
    """Return the layout of each method's arguments, of a call (``IN``) or an answer (``OUT``)."""
    return definition.inputs if way is Direction.IN else definition.outputs


def with_arguments(received: _MessageT, arguments: Arguments, forms: ElementForms = AM2) -> _MessageT:
    """Return the call or answer with its arguments encoded again; raise as `Arguments.written`."""
    assert isinstance(received, MethodRequest | Am01MethodRequest | MethodResponse)
    return replace(received, arguments=arguments.written(forms))


def is_written_again(
    messages: Iterable[tuple[Received, Arguments | None]], octets: bytes, definitions: Definitions
) -> bool | None:
    """Return whether the messages encode to ``octets``; ``None`` if one cannot be encoded."""
    position = 0
    same = True
    for received, arguments in messages:
        if isinstance(received, UnknownClass | UnknownOpcode):
            return None
        length = None
        for written in _written(received, arguments, definitions):
            length = len(written)
            if octets.startswith(written, position):
                position += length
                break
        else:
            if length is None:
                return None
            same = False
    return same and position == len(octets)


def _written(received: Message, arguments: Arguments | None, definitions: Definitions) -> Iterator[bytes]:
    """Yield the encodings of a message by each peer that can encode it."""
    for write in _writers(received, arguments, definitions):
        try:
            yield write()
        except LocalProtocolError:
            continue


def _writers(
    received: Message, arguments: Arguments | None, definitions: Definitions
) -> Iterator[Callable[[], bytes]]:
    if isinstance(received, SchemaResponse):
        for records in _SCHEMAS:
            yield partial(codec.write, received, definitions, records)
    elif isinstance(received, PropertyContent | StatisticContent | ObjectContent | EventIndication):
        for forms in PEERS:
            yield partial(_write_values, received, definitions, forms)
    elif arguments is not None:
        for forms in PEERS:
            yield partial(_write_call, received, arguments, forms)
    else:
        yield partial(codec.write, received)


def _write_values(
    received: PropertyContent | StatisticContent | ObjectContent | EventIndication,
    definitions: Definitions,
    forms: ElementForms,
) -> bytes:
    if forms is AM2:
        return codec.write(received, definitions)
    definition = (
        definitions.find_event(received.key)
        if isinstance(received, EventIndication)
        else definitions.find_class(received.key)
    )
    assert definition is not None  # otherwise it could not have been decoded
    in_forms = Definitions()
    in_forms.add(replace(definition, forms=forms))
    return codec.write(received, in_forms)


def _write_call(received: Message, arguments: Arguments, forms: ElementForms) -> bytes:
    return codec.write(with_arguments(received, arguments, forms))


def _widened(value: QmfValue) -> QmfValue:
    if isinstance(value, Mapping):
        return {name: _widened(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return tuple(_widened(one) for one in value)
    if isinstance(value, int) and not isinstance(value, bool) and Int64.fits(value):
        return Int64(value)
    return value


def _wide(write: Callable[..., bytes]) -> WriteOne:
    return lambda value: write(_widened(value))


def _map_or_nothing(entries: Mapping[str, QmfValue]) -> bytes:
    return write_map(entries) if entries else bytes(4)


def _read_bool(body: bytes, position: int, values: list[QmfValue]) -> int:
    values.append(body[position] != 0)
    return position + 1


WIDE: Final = replace(
    AM2,
    writers={
        **AM2.writers,
        TypeCode.MAP: (_wide(write_map), {}),
        TypeCode.LIST: (_wide(write_list), ()),
        TypeCode.ARRAY: (_wide(write_array), ()),
    },
)
"""The form of Qpid's Python clients, whose maps qpidd forwards: all integers in maps have 64 bits."""

JAVA: Final = replace(
    AM2,
    fixed={code: form for code, form in AM2.fixed.items() if code is not TypeCode.BOOL},
    readers={**AM2.readers, TypeCode.BOOL: _read_bool},
    writers={**AM2.writers, TypeCode.BOOL: (lambda value: b"\xff" if value else b"\0", False)},
)
"""The form of the Java broker: true is 255."""

JAVA_WITHOUT_MAPS: Final = replace(
    JAVA, writers={**JAVA.writers, TypeCode.MAP: (cast("WriteOne", _map_or_nothing), {})}
)
"""The form of the Java broker for unknown arguments: an empty map is written without its count."""

PEERS: Final[tuple[ElementForms, ...]] = (AM2, WIDE, JAVA, JAVA_WITHOUT_MAPS)
"""The forms to try, the most frequent first."""
