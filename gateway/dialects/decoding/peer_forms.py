"""How peers of AM2 write what may be written in several ways, beside how we do.

Maps say the width of each integer, and Booleans are true in many ways; a message keeps neither. So whether a
peer's octets are those that belong to its message is tried in the form of each peer that is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final, cast

from gateway.dialects.qmf.element_forms import AM2, ElementForms, WriteOne
from gateway.dialects.qmf.element_types import TypeCode
from gateway.dialects.qmf.typed_values import (
    Int64,
    QmfValue,
    write_array,
    write_list,
    write_map,
)


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
