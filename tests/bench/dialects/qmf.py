"""Content of the class queue, as recorded from qpidd 0.34 and an agent of February 2008.

The yardstick is written by hand for this one class, with the place of each field. It unpacks and packs the
same fields with ``struct``, takes maps as octets, and checks nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from time import process_time
from typing import Any, Final, TypeAlias

from gateway.dialects.errors import ProtocolError
from gateway.dialects.qmf.am01.codec import read
from gateway.dialects.qmf.am01.messages import Revision
from gateway.dialects.qmf.codec import read_body, write
from gateway.dialects.qmf.definitions import Definitions
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import Content, ObjectContent, PropertyContent, StatisticContent
from tests.bench.rows import OURS, Case, Reading
from tests.bench.run import Run
from tests.dialects.qmf import recordings
from tests.dialects.qmf.am01 import recordings as recordings_2008

_PEER: Final = "qpidd-0.34"
_AM2_DECODE: Final = Case("am2-decode", "records/s", Reading.RATE)
_AM2_ENCODE: Final = Case("am2-encode", "records/s", Reading.RATE)
_AM01_DECODE: Final = Case("am01-decode", "records/s", Reading.RATE)
_YARDSTICK: Final = "yardstick"
_FEBRUARY: Final = frozenset((Revision.FEBRUARY_2008,))

_Fields: TypeAlias = "tuple[Any, ...]"
_Queue: TypeAlias = PropertyContent | StatisticContent | ObjectContent


class QmfPart:
    """The most frequent messages that a console receives and an agent sends."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._times = run.count(20, 1)
        self._known = recordings.definitions(_PEER)
        self._bodies, self._messages = queues(self._known)
        self._records = [list(_am2_pass(body)) for body in self._bodies]
        self._known_2008 = recordings_2008.definitions()
        self._bodies_2008 = [
            (one.key, one.body)
            for one in recordings_2008.recorded("am01-2008")
            if one.revision is Revision.FEBRUARY_2008 and one.key in {"mgmt.config.queue", "mgmt.inst.queue"}
        ]
        self._compare()
        values = sum(len(_values(message)) for messages in self._messages for message in messages)
        self._records_in_all = sum(map(len, self._messages))
        self._values_a_record = values / self._records_in_all

    def measure(self) -> None:
        """Measure each row beside its pass of ``struct``."""
        decoded = self._rate(self._records_in_all, self._decode)
        self._run.record(_AM2_DECODE, OURS, decoded)
        self._run.record(_AM2_DECODE, _YARDSTICK, self._rate(self._records_in_all, self._pass_am2))
        self._run.record(_AM2_ENCODE, OURS, self._rate(self._records_in_all, self._encode))
        self._run.record(_AM2_ENCODE, _YARDSTICK, self._rate(self._records_in_all, self._pack_am2))
        count = len(self._bodies_2008)
        self._run.record(_AM01_DECODE, OURS, self._rate(count, self._decode_2008))
        self._run.record(_AM01_DECODE, _YARDSTICK, self._rate(count, self._pass_2008))
        if self._run.done == 0:
            self._run.figure("values in a record of `am2-decode`, mean", f"{self._values_a_record:.1f}")

    def _compare(self) -> None:
        for body, messages, records in zip(self._bodies, self._messages, self._records, strict=True):
            assert [_fields(message) for message in messages] == [_without_map(each) for each in records]
            assert b"".join(map(_pack, records)) == body
        for key, body in self._bodies_2008:
            message = read(key, body, self._known_2008, _FEBRUARY).message
            assert isinstance(message, Content)
            assert _fields(message)[1:] == _am01_pass(body)

    def _decode(self) -> None:
        for body in self._bodies:
            for _ in read_body(body, self._known):
                pass

    def _pass_am2(self) -> None:
        for body in self._bodies:
            for _ in _am2_pass(body):
                pass

    def _encode(self) -> None:
        for messages in self._messages:
            b"".join([write(message, self._known) for message in messages])

    def _pack_am2(self) -> None:
        for records in self._records:
            b"".join([_pack(record) for record in records])

    def _decode_2008(self) -> None:
        for key, body in self._bodies_2008:
            read(key, body, self._known_2008, _FEBRUARY)

    def _pass_2008(self) -> None:
        for _, body in self._bodies_2008:
            _am01_pass(body)

    def _rate(self, count: int, do: Callable[[], None]) -> float:
        """Return the number of records per second of processor time."""
        start = process_time()
        for _ in range(self._times):
            do()
        return self._times * count / (process_time() - start)


def queues(known: Definitions) -> tuple[list[bytes], list[list[_Queue]]]:
    """Return the bodies that hold only content of queues, and their messages."""
    bodies, messages = [], []
    for one in recordings.recorded(_PEER):
        try:
            found = list(read_body(one.body, known))
        except ProtocolError:
            continue
        contents = [each for each in found if isinstance(each, _Queue) and each.key.name == "queue"]
        if contents and len(contents) == len(found):
            bodies.append(one.body)
            messages.append(contents)
    assert len(bodies) > 50
    return bodies, messages


def _values(message: Content) -> Sequence[object]:
    return (*(message.properties or ()), *(message.statistics or ()))


def _fields(message: Content) -> _Fields:
    """Return the fields of a message as the yardstick has them, without maps."""
    flat: list[object] = [message.opcode, message.sampled, message.created, message.deleted]
    for value in (message.object_id, *_values(message)):
        if isinstance(value, ObjectId):
            flat += [value.prefix, value.number] if value.prefix else [value.number]
        elif not isinstance(value, dict) and value is not None:
            flat.append(value)
    return tuple(flat)


# The class key: two names of 22 and 5 octets behind their lengths, and 16 octets of hash.
_HEAD: Final = struct.Struct(">3scI45s5Q")
_NUMBERS: Final = struct.Struct(">29Q9I4Q?I")
_REFERENCE: Final = struct.Struct(">QQ")
_THREE: Final = struct.Struct(">3?")
_SIZE: Final = struct.Struct(">I")


def _am2_pass(body: bytes) -> Iterator[_Fields]:
    """Yield the fields of the records of a body, in one pass."""
    position, end = 0, len(body)
    while position < end:
        head = _HEAD.unpack_from(body, position)
        position += _HEAD.size
        opcode = head[1]
        properties: _Fields = ()
        statistics: _Fields = ()
        if opcode != b"i":
            mask = body[position]
            virtual_host = _REFERENCE.unpack_from(body, position + 1)
            start = position + 18
            position = start + body[position + 17]
            name = body[start:position].decode()
            flags = _THREE.unpack_from(body, position)
            position += 3
            (size,) = _SIZE.unpack_from(body, position)
            arguments = body[position : position + 4 + size]
            position += 4 + size
            exchange: _Fields = ()
            if mask:
                exchange = _REFERENCE.unpack_from(body, position)
                position += 16
            properties = (mask, virtual_host, name, flags, arguments, exchange)
        if opcode != b"c":
            numbers = _NUMBERS.unpack_from(body, position)
            start = position + _NUMBERS.size + 1
            position = start + body[start - 1]
            peer = body[start:position].decode()
            start = position + 2
            source = body[position] != 0
            position = start + body[position + 1]
            statistics = (numbers, peer, source, body[start:position].decode())
        yield head, properties, statistics


def _pack(record: _Fields) -> bytes:
    """Return the octets of the fields that `_am2_pass` found."""
    head, properties, statistics = record
    octets = _HEAD.pack(*head)
    if properties:
        mask, virtual_host, name, flags, arguments, exchange = properties
        text = name.encode()
        octets += bytes((mask,)) + _REFERENCE.pack(*virtual_host) + bytes((len(text),)) + text
        octets += _THREE.pack(*flags) + arguments
        if exchange:
            octets += _REFERENCE.pack(*exchange)
    if statistics:
        numbers, peer, source, creator = statistics
        first, last = peer.encode(), creator.encode()
        octets += _NUMBERS.pack(*numbers) + bytes((len(first),)) + first
        octets += bytes((source, len(last))) + last
    return octets


def _without_map(record: _Fields) -> _Fields:
    head, properties, statistics = record
    flat = [head[1], *head[4:]]
    if properties:
        _, virtual_host, name, flags, _, exchange = properties
        flat += [*virtual_host, name, *flags, *exchange]
    if statistics:
        numbers, peer, source, creator = statistics
        flat += [*numbers, peer, source, creator]
    return tuple(flat)


# The class key: two names of 4 and 5 octets behind their lengths, and 16 octets of hash.
_HEAD_2008: Final = struct.Struct(">4scc27s4Q")
_CONFIGURATION: Final = struct.Struct(">QB")
_INSTRUMENTATION: Final = struct.Struct(">6Q3I6Q3I3Q3I3Q12I4Q")


def _am01_pass(body: bytes) -> _Fields:
    """Return the fields of a body, in one pass."""
    head = _HEAD_2008.unpack_from(body)
    position = _HEAD_2008.size
    if head[2] == b"I":
        return (*head[4:], *_INSTRUMENTATION.unpack_from(body, position))
    virtual_host, length = _CONFIGURATION.unpack_from(body, position)
    start = position + _CONFIGURATION.size
    end = start + length
    return (*head[4:], virtual_host, body[start:end].decode(), *_THREE.unpack_from(body, end))
