"""Raw connections to the port of RMI, as a stranger may open them (Java RMI specification, chapter 10)."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Iterator

HOST = "127.0.0.1"
_HANDSHAKE = b"JRMI" + struct.pack(">HB", 2, 0x4B)
_LOOKUP = struct.pack(">iq", 2, 4905912898345647071)
_LOOKUP_CALL = b"\x50\xac\xed\x00\x05\x77\x22" + bytes(22) + _LOOKUP


def connection(port: int) -> socket.socket:
    """Connect, and send nothing."""
    return socket.create_connection((HOST, port), timeout=30)


def greeted(port: int) -> tuple[socket.socket, str]:
    """Connect and exchange greetings; the connection, and the client's address as the server tells it."""
    stream = connection(port)
    stream.sendall(_HANDSHAKE)
    kind, length = struct.unpack(">BH", _exactly(stream, 3))
    assert kind == 0x4E
    received = _exactly(stream, length).decode()
    _exactly(stream, 4)
    stream.sendall(struct.pack(">H", len(HOST)) + HOST.encode() + struct.pack(">i", 0))
    return stream, received


def lookup(name_octets: int, sent_octets: int) -> bytes:
    """A call of the registry's lookup with a name of that length, of which only so many octets are there."""
    return _LOOKUP_CALL + b"\x7c" + struct.pack(">q", name_octets) + b"x" * sent_octets


def lookup_of_an_object() -> bytes:
    """A call of the registry's lookup with the beginning of an object where a text should be."""
    name = b"java.util.HashMap"
    return _LOOKUP_CALL + b"\x73\x72" + struct.pack(">H", len(name)) + name


def is_closed(stream: socket.socket) -> bool:
    """Whether the server has closed the connection; what it sent before is read."""
    stream.setblocking(False)
    try:
        while stream.recv(65_536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


@contextlib.contextmanager
def all_closed(streams: list[socket.socket]) -> Iterator[list[socket.socket]]:
    """Close the connections behind the block."""
    try:
        yield streams
    finally:
        for stream in streams:
            stream.close()


def _exactly(stream: socket.socket, count: int) -> bytes:
    octets = b""
    while len(octets) < count:
        more = stream.recv(count - len(octets))
        if not more:
            raise ConnectionResetError("the server has closed the connection")
        octets += more
    return octets
