"""Field tables: ``u32 length, (str8 name, u8 code, value)...``, without the count that maps of AM2 have.

Agents use two codes, 0xA4 (text behind a length of 32 bits) and 0x21 (32-bit integer); all others of
AMQP 0-10 are read too. Sources: what agents of February and March 2008 send; Apache Qpid management design
notes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf import fields
from gateway.dialects.qmf.fields import Cursor
from gateway.dialects.qmf.typed_values import QmfValue, read_coded, write_coded

_TEXT: Final = b"\xa4"
_LONGEST: Final = 0xFFFFFFFF


def read_table(cursor: Cursor) -> dict[str, QmfValue]:
    """Read a table; of equal names the last one counts.

    Raises:
        ProtocolError: it is longer than what is there, or a value does not end where the table does.
    """
    start = cursor.position
    length = cursor.u32("the length of a table")
    if length > cursor.remaining:
        raise ProtocolError(f"a table of {length} octets", f"{cursor.remaining}", start)
    inner = Cursor(cursor.body, cursor.position, cursor.position + length)
    entries: dict[str, QmfValue] = {}
    while inner.remaining:
        name = inner.str8("a field name")
        entries[name] = read_coded(inner, inner.u8("a type code"))
    cursor.position = inner.end
    return entries


def write_table(entries: Mapping[str, QmfValue]) -> bytes:
    """Encode a table in the order given.

    Raises:
        LocalProtocolError: a name or value cannot travel.
    """
    content = b"".join(fields.str8(name) + _coded(value) for name, value in entries.items())
    return fields.u32(len(content)) + content


def _coded(value: QmfValue) -> bytes:
    if isinstance(value, str):
        octets = fields.encode_text(value, _LONGEST)
        return _TEXT + fields.u32(len(octets)) + octets
    return write_coded(value)
