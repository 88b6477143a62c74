"""Whether messages are written to the octets that they were read from, by us or as a known peer writes.

Maps say the width of each integer, and Booleans are true in many ways; a message keeps neither. So whether a
peer's octets are those that belong to its message is tried in the form of each peer that is known (`PEERS`).
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

_Told = TypeVar("_Told")


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of a call or of its answer, whose class is known.

    Attributes:
        definition: the class.
        method: its name.
        way: ``IN`` of a call, ``OUT`` of an answer.
        values: in the order of the schema.
        rest: octets behind them, which belong to none.
    """

    definition: ClassDefinition
    method: str
    way: Direction
    values: QmfValues
    rest: bytes

    def written(self, forms: ElementForms) -> bytes:
        """As they travel; `LocalProtocolError` if they cannot."""
        definition = self.definition if forms is AM2 else replace(self.definition, forms=forms)
        return layouts_of(definition, self.way)[self.method].write(self.values) + self.rest


def layouts_of(definition: ClassDefinition, way: Direction) -> dict[str, Layout]:
    """How arguments of each method travel, of a call (``IN``) or an answer (``OUT``)."""
    return definition.inputs if way is Direction.IN else definition.outputs


def with_arguments(told: _Told, arguments: Arguments, forms: ElementForms = AM2) -> _Told:
    """The call or answer ``told`` with its arguments written again; raises as `Arguments.written`."""
    assert isinstance(told, MethodRequest | Am01MethodRequest | MethodResponse)
    return replace(told, arguments=arguments.written(forms))


def is_written_again(
    messages: Iterable[tuple[Received, Arguments | None]], octets: bytes, definitions: Definitions
) -> bool | None:
    """Whether ``octets`` are what the messages are written to; ``None`` if one cannot be written."""
    position = 0
    same = True
    for told, arguments in messages:
        if isinstance(told, UnknownClass | UnknownOpcode):
            return None
        length = None
        for written in _written(told, arguments, definitions):
            length = len(written)
            if octets.startswith(written, position):
                position += length
                break
        else:
            if length is None:
                return None
            same = False
    return same and position == len(octets)


def _written(told: Message, arguments: Arguments | None, definitions: Definitions) -> Iterator[bytes]:
    """All that ``told`` is written to by those who can write it."""
    for write in _writers(told, arguments, definitions):
        try:
            yield write()
        except LocalProtocolError:
            continue


def _writers(
    told: Message, arguments: Arguments | None, definitions: Definitions
) -> Iterator[Callable[[], bytes]]:
    if isinstance(told, SchemaResponse):
        for records in _SCHEMAS:
            yield partial(codec.write, told, definitions, records)
    elif isinstance(told, PropertyContent | StatisticContent | ObjectContent | EventIndication):
        for forms in PEERS:
            yield partial(_write_values, told, definitions, forms)
    elif arguments is not None:
        for forms in PEERS:
            yield partial(_write_call, told, arguments, forms)
    else:
        yield partial(codec.write, told)


def _write_values(
    told: PropertyContent | StatisticContent | ObjectContent | EventIndication,
    definitions: Definitions,
    forms: ElementForms,
) -> bytes:
    if forms is AM2:
        return codec.write(told, definitions)
    definition = (
        definitions.find_event(told.key)
        if isinstance(told, EventIndication)
        else definitions.find_class(told.key)
    )
    assert definition is not None  # or it could not have been read
    in_forms = Definitions()
    in_forms.add(replace(definition, forms=forms))
    return codec.write(told, in_forms)


def _write_call(told: Message, arguments: Arguments, forms: ElementForms) -> bytes:
    return codec.write(with_arguments(told, arguments, forms))


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
"""As clients of Qpid in Python have it, whose maps qpidd passes on: all integers of maps have 64 bits."""

JAVA: Final = replace(
    AM2,
    fixed={code: form for code, form in AM2.fixed.items() if code is not TypeCode.BOOL},
    readers={**AM2.readers, TypeCode.BOOL: _read_bool},
    writers={**AM2.writers, TypeCode.BOOL: (lambda value: b"\xff" if value else b"\0", False)},
)
"""As the Java broker has it: true is 255."""

JAVA_WITHOUT_MAPS: Final = replace(
    JAVA, writers={**JAVA.writers, TypeCode.MAP: (cast("WriteOne", _map_or_nothing), {})}
)
"""As the Java broker has what it knows no arguments of: an empty map is written without its count."""

PEERS: Final[tuple[ElementForms, ...]] = (AM2, WIDE, JAVA, JAVA_WITHOUT_MAPS)
"""The forms to try, the most frequent first."""
