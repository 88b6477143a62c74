"""Any octets are read as messages or raise the one protocol error, in time linear in their length."""

from __future__ import annotations

from contextlib import suppress
from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.codec import MAX_BODY, read_body, write
from gateway.dialects.qmf.definitions import Definitions
from gateway.dialects.qmf.messages import UnknownClass, UnknownOpcode
from tests.dialects.qmf.console_story import listed, synchronised
from tests.dialects.qmf.examples import shop
from tests.dialects.qmf.playbook import ConsolePlay
from tests.dialects.qmf.recordings import PEERS, definitions, readable, recorded
from tests.dialects.qmf.test_messages import EXAMPLES

_OPCODES = st.sampled_from(list("BbzPpQqSscigehGMmAax?"))
_BODIES = [octets for octets, _ in EXAMPLES]


def _read(body: bytes, known: Definitions) -> int:
    """Read all of ``body``; return the number of messages."""
    count = 0
    # Octets that are no UTF-8 grow when they are shown, and may be too long to be written again.
    with suppress(ProtocolError, LocalProtocolError):
        for message in read_body(body, known):
            count += 1
            if not isinstance(message, UnknownClass | UnknownOpcode):
                write(message, known)
    return count


@given(st.binary(max_size=200))
def test_any_octets(octets: bytes) -> None:
    _read(octets, shop())


@given(_OPCODES, st.binary(max_size=200))
def test_any_octets_behind_a_good_header(opcode: str, octets: bytes) -> None:
    _read(b"AM2" + opcode.encode() + b"\0\0\0\1" + octets, shop())


@given(st.sampled_from(_BODIES), st.data())
def test_good_bodies_cut_off(body: bytes, data: st.DataObject) -> None:
    _read(body[: data.draw(st.integers(0, len(body)))], shop())


@given(st.sampled_from(_BODIES), st.data())
def test_good_bodies_with_other_octets_in_them(body: bytes, data: st.DataObject) -> None:
    changed = bytearray(body)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    _read(bytes(changed), shop())


@given(st.sampled_from(PEERS), st.data())
def test_recorded_bodies_with_other_octets_in_them(peer: str, data: st.DataObject) -> None:
    message = data.draw(st.sampled_from([one for one in recorded(peer) if one.body]))
    changed = bytearray(message.body[:4096])
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    for one in readable(bytes(changed), definitions(peer)):
        assert one.sequence >= 0


@given(st.lists(st.tuples(_OPCODES, st.integers(0, 8), st.binary(max_size=80)), max_size=4))
def test_whatever_a_console_receives_nothing_is_raised(parts: list[tuple[str, int, bytes]]) -> None:
    play = synchronised()
    for opcode, sequence, octets in parts:
        play.arrives_octets(b"AM2" + opcode.encode() + sequence.to_bytes(4, "big") + octets)
        play.arrives_octets(octets)
        play.time_passes(1)


@given(st.lists(st.tuples(st.sampled_from(_BODIES), st.integers(0, 60), st.integers(0, 255)), max_size=8))
def test_whatever_becomes_of_good_messages_a_console_raises_nothing(
    parts: list[tuple[bytes, int, int]],
) -> None:
    play = ConsolePlay()
    listed(play)
    for body, place, octet in parts:
        changed = bytearray(body)
        changed[place % len(body)] = octet
        play.arrives_octets(bytes(changed))
        play.time_passes(7)
    play.time_passes(400)


def test_the_longest_bodies_take_no_longer_than_their_octets() -> None:
    record = b"\x04shop\x04tank" + b"T" * 16
    worst = [
        b"AM2B\0\0\0\0" * (MAX_BODY // 8),
        b"AM2h" + bytes(4) + b"\xff" * 8 + b"AM2?\0\0\0\0" * (MAX_BODY // 8 - 2),
        b"AM2G\0\0\0\0"
        + (MAX_BODY - 12).to_bytes(4, "big")
        + (499_999).to_bytes(4, "big")
        + b"\0\xf0" * 524_280,
        b"AM2c\0\0\0\0" + record + bytes(40) + b"\xff" * (MAX_BODY - 80),
    ]
    began = process_time()
    for body in worst:
        _read(body[:MAX_BODY], shop())
    assert process_time() - began < 60
