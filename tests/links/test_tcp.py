"""A listener on real sockets: its traffic, and its limits for unknown peers."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import shutil
import socket
import ssl
import struct
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from cryptography.x509 import Name, NameAttribute
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from gateway.clock import SystemClock
from gateway.dialects.session import Close, Effect, Note, Peer, WakeAt, Write
from gateway.links import tcp
from gateway.links.amqp_connection import LinkError, Trouble
from gateway.links.handshakes import Handshakes
from gateway.links.session_driver import StreamDriver
from gateway.links.tcp import StreamLimits, TcpListener
from gateway.links.tls import LOOK_SECONDS, ServerTls
from tests.components.certificates import Authority
from tests.components.scripted_session import ScriptedSession
from tests.components.waiting import eventually

LIMITS = StreamLimits(linger_seconds=1.0)
_SO_ATTACH_FILTER = 26  # of Linux; Python has no name for it


class EchoSession(ScriptedSession):
    """A session that sends octets back; ``bye`` closes, ``fault`` raises an error, ``flood`` sends 10 MB."""

    def __init__(self) -> None:
        self.peers: dict[int, Peer] = {}
        self.received: dict[int, bytes] = {}
        self.over: list[tuple[int, str]] = []
        self.woken = 0
        self.empty: dict[int, list[int]] = {}
        self._partial: Counter[int] = Counter()

    def opened(self, connection: int, peer: Peer, now: int) -> list[Effect]:
        assert now > 0
        self.peers[connection] = peer
        self.received[connection] = b""
        return [Write(connection, b"hello\n")]

    def received_bytes(self, connection: int, octets: bytes, now: int) -> list[Effect]:
        assert now > 0
        self.received[connection] += octets
        lines = octets.splitlines()
        if b"fault" in lines:
            raise RuntimeError("a fault of ours")
        if b"flood" in lines:
            return [Write(connection, bytes(100_000)) for _ in range(100)]
        if b"wake" in lines:
            return [WakeAt(now)]
        said: list[Effect] = [Write(connection, octets)]
        return [*said, Write(connection, b"goodbye\n"), Close(connection)] if b"bye" in lines else said

    def received_until(self, until: int, connection: int, now: int) -> list[Effect]:
        assert 0 < until <= now
        self.empty.setdefault(connection, []).append(len(self.received[connection]))
        return []

    def ended(self, connection: int, reason: str, now: int) -> list[Effect]:
        assert now > 0
        self.over.append((connection, reason))
        return []

    def stopping(self, now: int) -> list[Effect]:
        assert now > 0
        return [Write(connection, b"the end\n") for connection in self.peers]

    def tick(self, now: int) -> list[Effect]:
        assert now > 0
        self.woken += 1
        return [Note("woken"), *(Write(connection, b"woken\n") for connection in self.peers)]


@dataclass(frozen=True, slots=True)
class Listening:
    """A running listener, and its session."""

    session: EchoSession
    listener: TcpListener
    conversation: StreamDriver
    running: asyncio.Task[None] = field(repr=False)

    @asynccontextmanager
    async def client(
        self, context: ssl.SSLContext | None = None
    ) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Provide the connection of a client."""
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self.listener.port, ssl=context, server_hostname="127.0.0.1" if context else None
        )
        try:
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def ended(self, count: int = 1) -> list[tuple[int, str]]:
        """Wait until the end of so many connections was reported; return the ends."""

        async def reported() -> bool:
            return len(self.session.over) >= count

        await eventually(reported, f"{count} connections over")
        return self.session.over

    async def noted(self, event: str) -> None:
        """Wait for a note of this kind."""

        async def reported() -> bool:
            return self.conversation.notes[event] > 0

        await eventually(reported, event)


@asynccontextmanager
async def listening(
    limits: StreamLimits = LIMITS,
    tls: ServerTls | None = None,
    look_seconds: float = LOOK_SECONDS,
    handshakes: Handshakes | None = None,
) -> AsyncIterator[Listening]:
    """Provide a running listener for the time of the context."""
    session = EchoSession()
    conversation = StreamDriver("ami", session, lambda _: None, SystemClock(), Counter())
    listener = TcpListener(
        conversation, limits=limits, tls=tls, look_seconds=look_seconds, handshakes=handshakes
    )
    running = asyncio.create_task(listener.run())
    waiting = asyncio.create_task(listener.listening.wait())
    await asyncio.wait({running, waiting}, return_when=asyncio.FIRST_COMPLETED)
    try:
        yield Listening(session, listener, conversation, running)
    finally:
        running.cancel()
        await asyncio.wait({running})


async def test_what_arrives_and_what_is_said() -> None:
    async with listening() as here, here.client() as (reader, writer):
        assert await reader.readline() == b"hello\n"
        writer.write(b"one\ntwo\n")
        assert await reader.readline() + await reader.readline() == b"one\ntwo\n"

        assert here.session.peers == {1: Peer("127.0.0.1")}
        assert here.session.received == {1: b"one\ntwo\n"}


async def test_connections_are_distinguished() -> None:
    async with listening() as here, here.client() as first, here.client() as second:
        for reader, writer in (first, second):
            await reader.readline()
            writer.write(b"mine\n")
            assert await reader.readline() == b"mine\n"
        second[1].close()
        assert await here.ended() == [(2, "the peer ended it")]
        first[1].write(b"still\n")
        assert await first[0].readline() == b"still\n"


async def test_who_says_all_and_closes_is_answered() -> None:
    """The client behaves as ``printf ... | nc``."""
    async with listening() as here, here.client() as (reader, writer):
        writer.write(b"last words\n")
        writer.write_eof()
        assert await reader.read() == b"hello\nlast words\n"
        await here.ended()
    assert here.session.over == [(1, "the peer ended it")]


async def test_a_close_says_first_what_is_to_be_said() -> None:
    """A peer that goes on sending gets it, too; it would lose it if its octets were refused."""
    async with listening() as here, here.client() as (reader, writer):
        writer.write(b"bye\n" + b"more\n" * 100_000)
        assert (await reader.read()).endswith(b"goodbye\n")
        assert await here.ended() == [(1, "the gateway closed it")]


async def test_the_end_of_the_listener_is_said_too() -> None:
    async with listening() as here, here.client() as (reader, _writer):
        await reader.readline()
        here.running.cancel()
        assert await reader.read() == b"the end\n"
    assert here.session.over == [(1, "the gateway ends")]


async def test_a_session_is_woken() -> None:
    async with listening() as here, here.client() as (reader, writer):
        await reader.readline()
        writer.write(b"wake\n")
        assert await reader.readline() == b"woken\n"
        assert here.conversation.notes == {"woken": 1}


async def test_more_connections_than_allowed_are_closed_at_once() -> None:
    async with listening(replace(LIMITS, connections=2)) as here:
        async with here.client() as first, here.client() as second, here.client() as third:
            assert await third[0].read() == b""
            assert await first[0].readline() == await second[0].readline() == b"hello\n"
            first[1].close()
            await here.ended()
        assert here.conversation.notes == {"connection-refused": 1}
        async with here.client() as (reader, _writer):
            assert await reader.readline() == b"hello\n", "there is room again"


async def test_who_says_nothing_is_closed() -> None:
    async with listening(replace(LIMITS, first_seconds=0.1)) as here, here.client() as (reader, _writer):
        assert await reader.read() == b"hello\n"
        assert await here.ended() == [(1, "nothing arrived for 0.1 s")]
        assert here.conversation.notes == {"silent-peer": 1}


async def test_who_falls_silent_is_closed_where_that_is_configured() -> None:
    async with listening(replace(LIMITS, idle_seconds=0.1)) as here, here.client() as (reader, writer):
        writer.write(b"a\n")
        assert await reader.read() == b"hello\na\n"
        assert await here.ended() == [(1, "nothing arrived for 0.1 s")]


async def test_any_silence_is_allowed_else() -> None:
    async with listening(replace(LIMITS, first_seconds=0.1)) as here, here.client() as (reader, writer):
        writer.write(b"a\n")
        await reader.readline()
        async with here.client() as (other, _):
            assert await other.read() == b"hello\n", "this one said nothing at all"
        writer.write(b"b\n")
        assert await reader.readline() + await reader.readline() == b"a\nb\n"


async def test_who_does_not_read_is_cut_off_when_much_waits() -> None:
    async with listening() as here, here.client() as (_reader, writer):
        writer.write(b"flood\n")
        ((_, reason),) = await here.ended()
        assert reason.endswith("octets wait, and are not read")
        assert here.conversation.notes == {"slow-reader": 1}


async def test_who_does_not_read_is_cut_off_when_little_waits_for_long() -> None:
    limits = replace(LIMITS, stall_seconds=0.1, unread=1 << 30, unread_by_all=1 << 30)
    async with listening(limits) as here, here.client() as (_reader, writer):
        writer.write(b"flood\n")
        assert await here.ended() == [(1, "nothing was read for 0.1 s")]


async def test_what_waits_for_all_is_bounded_too() -> None:
    limits = replace(LIMITS, unread=1 << 30, unread_by_all=1 << 20)
    async with listening(limits) as here, here.client() as (_reader, writer):
        writer.write(b"flood\n")
        await here.ended()
        assert here.conversation.notes == {"slow-reader": 1}


async def test_who_does_not_read_for_a_while_is_not_read_from() -> None:
    """The client receives everything when it reads again."""
    limits = replace(LIMITS, unread=1 << 30, unread_by_all=1 << 30)
    async with listening(limits) as here, here.client() as (reader, writer):
        await reader.readline()
        writer.write(b"flood\n")
        flood = await reader.readexactly(1)
        writer.write(b"after\n")
        assert flood + await reader.readexactly(100 * 100_000 - 1) == bytes(100 * 100_000)
        assert await reader.readline() == b"after\n"
        assert not here.session.over


async def test_a_peer_that_resets_is_over() -> None:
    async with listening() as here:
        with socket.create_connection(("127.0.0.1", here.listener.port)) as peer:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        ((_, reason),) = await here.ended()
    assert reason.startswith("it broke: ") or reason == "the peer ended it"


@pytest.mark.parametrize("sent_to", [False, True])
async def test_a_peer_that_vanishes_without_a_word_is_over_also_where_it_was_just_sent_something(
    monkeypatch: pytest.MonkeyPatch,
    sent_to: bool,  # noqa: FBT001  a parameter of the test
) -> None:
    sooner = {
        socket.TCP_KEEPIDLE: 1,
        socket.TCP_KEEPINTVL: 1,
        socket.TCP_KEEPCNT: 2,
        socket.TCP_USER_TIMEOUT: 3_000,
    }
    monkeypatch.setattr(tcp, "KEEPALIVE", {option: sooner[option] for option in tcp.KEEPALIVE})
    async with listening() as here, here.client() as (reader, writer):
        assert await reader.readline() == b"hello\n"
        vanished = writer.get_extra_info("socket")
        if sent_to:
            writer.write(b"wake\n")
        receive_nothing(vanished)
        ((_, reason),) = await here.ended()
    assert reason == "it broke: [Errno 110] Connection timed out"


def receive_nothing(vanished: socket.socket) -> None:
    """Have the system drop every packet for a socket, by a filter that keeps no octet of any (BPF)."""
    keep_nothing = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))
    program = struct.pack("HL", 1, ctypes.addressof(keep_nothing))
    vanished.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)


async def test_a_fault_of_the_session_ends_the_listener() -> None:
    """The source begins again then; the end of one connection would hide the fault."""
    async with listening() as here, here.client() as (reader, writer):
        writer.write(b"fault\n")
        assert await reader.read() == b"hello\n"
        with pytest.raises(RuntimeError, match="a fault of ours"):
            await here.running


async def test_an_address_in_use_is_named() -> None:
    async with listening() as here:
        conversation = StreamDriver("ami", EchoSession(), lambda _: None, SystemClock(), Counter())
        with pytest.raises(LinkError, match=r"cannot listen on 127\.0\.0\.1 port \d+: .* another") as caught:
            await TcpListener(conversation, ("127.0.0.1", here.listener.port)).run()
    assert caught.value.trouble is Trouble.MISCONFIGURED


@pytest.mark.parametrize("address", [("localhost", 0), ("127.0.0.1", 70_000), ("192.0.2.1", 0)])
async def test_an_address_that_is_none_of_ours(address: tuple[str, int]) -> None:
    conversation = StreamDriver("ami", EchoSession(), lambda _: None, SystemClock(), Counter())
    with pytest.raises(LinkError, match=r"cannot listen on .* port"):
        await TcpListener(conversation, address).run()


@given(pieces=st.lists(st.binary(min_size=1, max_size=2000).map(lambda piece: piece.replace(b"bye", b"b"))))
def test_any_octets_reach_the_session_as_they_are(pieces: list[bytes]) -> None:
    async def talk() -> None:
        async with listening() as here, here.client() as (reader, writer):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
            await reader.read()
            await here.ended()
            assert here.session.received == {1: b"".join(pieces)}

    asyncio.run(talk())


# TLS.


async def test_with_certificates_both_sides_know_each_other(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    certificate = certificate_of(authority, clients=True)
    async with listening(tls=certificate) as here:
        context = trusting(authority)
        me = authority.confirm("trading-app")
        context.load_cert_chain(me.certificate, me.key)
        async with here.client(context) as (reader, writer):
            writer.write(b"bye\n")
            assert await reader.read() == b"hello\nbye\ngoodbye\n"
        assert here.session.peers == {1: Peer("127.0.0.1", "trading-app")}


async def test_a_certificate_of_two_names_proves_none(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    names = [NameAttribute(NameOID.COMMON_NAME, name) for name in ("pump", "valve")]
    both = authority.confirm_subject(Name(names), "both")
    async with listening(tls=certificate_of(authority, clients=True)) as here:
        context = trusting(authority)
        context.load_cert_chain(both.certificate, both.key)
        async with here.client(context) as (reader, writer):
            writer.write(b"bye\n")
            await reader.read()
        assert here.session.peers == {1: Peer("127.0.0.1", "")}


async def test_who_has_no_certificate_says_nothing_to_the_session(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path / "ours")
    stranger = Authority.make(tmp_path / "theirs").confirm("trading-app")
    async with listening(tls=certificate_of(authority, clients=True)) as here:
        context = trusting(authority)
        context.load_cert_chain(stranger.certificate, stranger.key)
        for one in (trusting(authority), context):
            with contextlib.suppress(OSError):
                async with here.client(one) as (reader, writer):
                    writer.write(b"let me in\n")
                    assert await reader.read() == b""
        await here.noted("handshake-failed")
        assert not here.session.peers


async def test_a_renewed_certificate_is_presented_to_new_connections(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    certificate = certificate_of(authority)
    async with (
        listening(tls=certificate, look_seconds=0.01) as here,
        here.client(trusting(authority)) as (reader, writer),
    ):
        await reader.readline()
        # The authority of before signed nothing of this: only a renewed listener is accepted.
        other = Authority.make(tmp_path / "other")
        renewed = other.confirm("server")
        shutil.copyfile(renewed.certificate, certificate.certificate)
        shutil.copyfile(renewed.key, certificate.key)

        async def is_presented() -> bool:
            try:
                async with here.client(trusting(other)) as (again, _):
                    return await again.readline() == b"hello\n"
            except ssl.SSLCertVerificationError:
                return False

        await eventually(is_presented, "the renewed certificate is presented")
        writer.write(b"still here\n")
        assert await reader.readline() == b"still here\n"


async def test_a_handshake_that_never_ends_is_a_connection_too(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    limits = replace(LIMITS, connections=1, first_seconds=0.3)
    async with listening(limits, certificate_of(authority)) as here, here.client() as (silent, _writer):
        with contextlib.suppress(OSError):
            async with here.client(trusting(authority)) as (reader, _):
                assert await reader.read() == b""
        await here.noted("connection-refused")
        assert await silent.read() == b""
        await here.noted("handshake-failed")
        async with here.client(trusting(authority)) as (reader, _):
            assert await reader.readline() == b"hello\n"


async def test_a_listener_ends_in_the_middle_of_a_handshake(tmp_path: Path) -> None:
    certificate = certificate_of(Authority.make(tmp_path))
    async with listening(tls=certificate) as here, here.client() as (reader, writer):
        writer.write(b"\x16\x03\x01")  # so begins a handshake

        async def accepted() -> bool:
            return here.listener.connections == 1

        await eventually(accepted, "the listener knows of it")
        here.running.cancel()
        await asyncio.wait({here.running})
        with contextlib.suppress(ConnectionError):
            assert await reader.read() == b""
        assert not here.session.peers


async def test_who_does_not_read_holds_up_no_end() -> None:
    limits = replace(LIMITS, linger_seconds=0.1, unread=1 << 30, unread_by_all=1 << 30)
    async with listening(limits) as here, here.client() as (reader, writer):
        writer.write(b"flood\n")
        await reader.readexactly(6)
        here.running.cancel()
        await asyncio.wait({here.running})
        assert here.session.over == [(1, "the gateway ends")]


async def test_certificates_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    conversation = StreamDriver("ami", EchoSession(), lambda _: None, SystemClock(), Counter())
    certificate = ServerTls(tmp_path / "missing.pem", tmp_path / "missing-key.pem")
    with pytest.raises(LinkError, match=r"cannot be used \(.*missing\.pem, .*missing-key\.pem\)"):
        await TcpListener(conversation, tls=certificate).run()


def certificate_of(authority: Authority, *, clients: bool = False) -> ServerTls:
    """Return the certificate of a listener."""
    own = authority.confirm("listener")
    return ServerTls(own.certificate, own.key, authority.own.certificate if clients else None)


def trusting(authority: Authority) -> ssl.SSLContext:
    """Return the TLS context of a client that trusts the authority."""
    return ssl.create_default_context(cafile=authority.own.certificate)


async def test_a_connection_is_empty_when_all_that_has_arrived_was_passed_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gateway.links.tcp._PROOF_SECONDS", 0.05)
    async with listening() as here, here.client() as (_, writer):
        session = here.session

        async def is_proved_at(octets: int) -> bool:
            return session.empty.get(1, [-1])[-1] == octets

        await eventually(lambda: is_proved_at(0), "a quiet connection is proved empty")
        writer.write(b"x" * 3_000_000)
        await eventually(lambda: is_proved_at(3_000_000), "all octets are passed on")
        proofs = len(session.empty[1])

        async def is_proved_again() -> bool:
            return len(session.empty[1]) > proofs + 2

        await eventually(is_proved_again, "a silent connection is proved empty again and again")
