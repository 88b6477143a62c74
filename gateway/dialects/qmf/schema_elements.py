"""One record of a schema: an element, argument or method as the entries of a map, both ways.

All versions of QMF have the same entries; they differ in how a map travels and in the types. Sources: QMF
AM2 protocol ("Schema Response"); Apache Qpid management design notes ("Schema Messages"). Where peers differ
from these they are followed: ``dir`` is text, and integers and strings come under many type codes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.element_forms import ElementForms
from gateway.dialects.qmf.element_types import TypeCode
from gateway.dialects.qmf.fields import Cursor
from gateway.dialects.qmf.typed_values import QmfValue
from gateway.model.schema import Access, Argument, Direction, Element, Method

Record: TypeAlias = "Mapping[str, QmfValue]"
ReadRecord: TypeAlias = "Callable[[Cursor], Record]"
"""Reads one record as it travels."""

_ACCESS_CODES: Final = {Access.READ_CREATE: 1, Access.READ_WRITE: 2, Access.READ_ONLY: 3}
_ACCESSES: Final = {code: access for access, code in _ACCESS_CODES.items()}
_DIRECTION_TEXTS: Final = {Direction.IN: "I", Direction.OUT: "O", Direction.INOUT: "IO"}
# The specification says 1, 2, 3; every peer sends the text.
_DIRECTIONS: Final[dict[QmfValue, Direction]] = {
    "I": Direction.IN,
    "O": Direction.OUT,
    "IO": Direction.INOUT,
    1: Direction.IN,
    2: Direction.OUT,
    3: Direction.INOUT,
}


def read_element(
    cursor: Cursor, read: ReadRecord, forms: ElementForms, *, statistic: bool
) -> tuple[Element, TypeCode]:
    """Read a property or statistic.

    Raises:
        ProtocolError: the record is malformed, has no name, or a type that the version does not have.
    """
    start = cursor.position
    record = read(cursor)
    code = _type(record, start, forms)
    element = Element(
        name=_name(record, start),
        type=code.value_type,
        access=Access.READ_ONLY if statistic else _ACCESSES.get(_integer(record, "access"), Access.READ_ONLY),
        index=bool(_integer(record, "index")),
        optional=not statistic and bool(_integer(record, "optional")),
        unit=_text(record, "unit"),
        minimum=_number(record, "min"),
        maximum=_number(record, "max"),
        max_length=_length(record, forms.text_limits.get(code)),
        references=_text(record, "references") or _text(record, "refClass"),  # the latter from Java
        description=_text(record, "desc"),
    )
    return element, code


def read_argument(cursor: Cursor, read: ReadRecord, forms: ElementForms) -> tuple[Argument, TypeCode]:
    """Read an argument of a method or event; raises as `read_element`."""
    start = cursor.position
    record = read(cursor)
    code = _type(record, start, forms)
    default = record.get("default")
    direction = record.get("dir")
    argument = Argument(
        name=_name(record, start),
        type=code.value_type,
        direction=_DIRECTIONS.get(direction, Direction.IN)
        if isinstance(direction, str | int)
        else Direction.IN,
        unit=_text(record, "unit"),
        minimum=_number(record, "min"),
        maximum=_number(record, "max"),
        max_length=_length(record, forms.text_limits.get(code)),
        default=default if isinstance(default, bool | int | float | str) else None,
        description=_text(record, "desc"),
    )
    return argument, code


def read_method(cursor: Cursor, read: ReadRecord, forms: ElementForms) -> tuple[Method, tuple[TypeCode, ...]]:
    """Read a method and its arguments; raises as `read_element`."""
    start = cursor.position
    record = read(cursor)
    count = _integer(record, "argCount")
    if count < 0:
        raise ProtocolError("a count of arguments", f"{count}", start)
    arguments = [read_argument(cursor, read, forms) for _ in range(count)]
    method = Method(
        _name(record, start), tuple(argument for argument, _ in arguments), description=_text(record, "desc")
    )
    return method, tuple(code for _, code in arguments)


def _type(record: Record, start: int, forms: ElementForms) -> TypeCode:
    told = record.get("type")
    try:
        code = TypeCode(told)  # type: ignore[arg-type]  # whatever it is, the enumeration judges it
    except (ValueError, TypeError) as error:
        raise ProtocolError("a type code", repr(told)[:80], start) from error
    if code not in forms:
        raise ProtocolError("a type code of the version that is spoken", f"{code:d}", start)
    return code


def _name(record: Record, start: int) -> str:
    name = _text(record, "name")
    if not name:
        raise ProtocolError("a record with a name", repr(record)[:80], start)
    return name


def _text(record: Record, key: str) -> str:
    value = record.get(key)
    return value if isinstance(value, str) else ""


def _integer(record: Record, key: str) -> int:
    value = record.get(key)
    return value if isinstance(value, int) else 0


def _number(record: Record, key: str) -> int | float | None:
    value = record.get(key)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _length(record: Record, limit: int | None) -> int | None:
    told = record.get("maxlen")
    if isinstance(told, int) and told >= 0:
        return told
    # The model has one string type only, and what is written must fit the wire's.
    return limit


def access_code(element: Element) -> int:
    """Return how an element's access travels."""
    return _ACCESS_CODES[element.access]


def direction_text(argument: Argument) -> str:
    """Return how an argument's direction travels."""
    return _DIRECTION_TEXTS[argument.direction]


def described(item: Element | Argument, code: TypeCode, forms: ElementForms) -> dict[str, QmfValue]:
    """Return the entries that elements and arguments share; what is not known is ``None`` or empty."""
    return {
        "desc": item.description,
        "max": item.maximum,
        "maxlen": None if item.max_length == forms.text_limits.get(code) else item.max_length,
        "min": item.minimum,
        "name": item.name,
        "type": int(code),
        "unit": item.unit,
    }


def default_of(argument: Argument) -> dict[str, QmfValue]:
    """Return the entry that tells an argument's default, ``None`` where it has none."""
    return {"default": argument.default}
