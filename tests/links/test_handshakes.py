"""Handshakes with a listener that fail: why, who is reported, and that others are not held up."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.feed.guesses import Guess, Guesses
from gateway.links import handshakes
from gateway.links.handshakes import Failure, Handshakes
from gateway.links.tls import ServerTls
from tests.components.certificates import Authority, Certificate
from tests.components.waiting import until
from tests.links.test_tcp import LIMITS, Listening, certificate_of, listening, trusting

HERE = "127.0.0.1"


class Gate:
    """The handshakes of a listener, and what they reported."""

    def __init__(self) -> None:
        self.reports: list[Guess] = []
        self.guesses = Guesses(self.reports.append, time.monotonic_ns)
        self.handshakes = Handshakes("TLS on the listener of apps", self.guesses)

    async def has_failed(self, failure: Failure, times: int = 1) -> None:
        """Wait for so many failures of one kind; there must be no other."""
        await until(
            lambda: self.handshakes.failures[failure] >= times, f"{failure}: {self.handshakes.failures}"
        )
        assert self.handshakes.failures == {failure: times}


@asynccontextmanager
async def guarded(tls: ServerTls) -> AsyncIterator[tuple[Gate, Listening]]:
    """Provide a listener that reports to a gate."""
    gate = Gate()
    async with listening(LIMITS, tls, handshakes=gate.handshakes) as here:
        yield gate, here


async def try_with(here: Listening, context: ssl.SSLContext | None, octets: bytes = b"let me in\n") -> None:
    """Connect, and send something; the listener ends the connection."""
    with contextlib.suppress(OSError):
        async with here.client(context) as (reader, writer):
            writer.write(octets)
            assert await reader.read() in {b"", b"\x15\x03\x01\x00\x02\x02\x46"}


def try_blocking(port: int, context: ssl.SSLContext) -> None:
    with socket.create_connection((HERE, port), 60) as plain, contextlib.suppress(ssl.SSLError):
        context.wrap_socket(plain, server_hostname=HERE)


def presenting(authority: Authority, own: Certificate) -> ssl.SSLContext:
    context = trusting(authority)
    context.load_cert_chain(own.certificate, own.key)
    return context


async def test_a_client_without_a_certificate_is_reported(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    async with guarded(certificate_of(authority, clients=True)) as (gate, here):
        await try_with(here, trusting(authority))
        await gate.has_failed(Failure.NO_CERTIFICATE)
        reason = "TLS on the listener of apps: the client presented no certificate"
        assert gate.reports == [Guess(HERE, reason)]
        assert not here.session.peers


async def test_a_certificate_of_another_authority_is_reported(tmp_path: Path) -> None:
    authority, other = Authority.make(tmp_path / "ours"), Authority.make(tmp_path / "theirs", "Another")
    async with guarded(certificate_of(authority, clients=True)) as (gate, here):
        await try_with(here, presenting(authority, other.confirm("trading-app")))
        await gate.has_failed(Failure.NOT_TRUSTED)
        (report,) = gate.reports
        assert "the client's certificate is not accepted: unable to get local issuer" in report.reason
        assert "trading-app" not in report.reason, "a name that no one has verified"


async def test_an_expired_certificate_is_reported(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    async with guarded(certificate_of(authority, clients=True)) as (gate, here):
        await try_with(here, presenting(authority, authority.confirm("late", days=-1)))
        await gate.has_failed(Failure.EXPIRED)
        (report,) = gate.reports
        assert report.reason.endswith("the client's certificate is not accepted: certificate has expired")


@pytest.mark.parametrize(
    "octets",
    [b"L|I=app\n", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x00" * 100, b"\xff" * 20_000],
    ids=("ami", "http", "zeros", "long"),
)
async def test_plain_text_is_reported(tmp_path: Path, octets: bytes) -> None:
    authority = Authority.make(tmp_path)
    async with guarded(certificate_of(authority)) as (gate, here):
        await try_with(here, None, octets)
        await gate.has_failed(Failure.NO_TLS)
        (report,) = gate.reports
        assert "the client does not speak TLS: " in report.reason


async def test_a_client_that_distrusts_the_gateway_is_counted_and_no_login(tmp_path: Path) -> None:
    authority, other = Authority.make(tmp_path / "ours"), Authority.make(tmp_path / "theirs", "Another")
    async with guarded(certificate_of(authority)) as (gate, here):
        # asyncio's client would go away without a word.
        await asyncio.to_thread(try_blocking, here.listener.port, trusting(other))
        await gate.has_failed(Failure.REJECTED)
        assert gate.reports == []


async def test_a_client_that_goes_away_is_counted_and_no_login(tmp_path: Path) -> None:
    async with guarded(certificate_of(Authority.make(tmp_path))) as (gate, here):
        with socket.create_connection((HERE, here.listener.port)):
            pass
        await gate.has_failed(Failure.LEFT)
        assert gate.reports == []


async def test_a_storm_makes_two_reports_and_holds_up_its_own_address_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority.make(tmp_path)
    monkeypatch.setattr(handshakes, "WAIT_SECONDS", 0.001)
    async with guarded(certificate_of(authority, clients=True)) as (gate, here):
        await asyncio.gather(*(try_with(here, trusting(authority)) for _ in range(30)))
        await gate.has_failed(Failure.NO_CERTIFICATE, 30)
        gate.guesses.close()
        assert [each.attempts for each in gate.reports] == [1, 29]

        monkeypatch.setattr(handshakes, "WAIT_SECONDS", 3600.0)
        gate.guesses.guessed(HERE, "wrong")
        await gate.handshakes.turn_of("192.0.2.1")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await gate.handshakes.turn_of(HERE)


async def test_who_may_log_in_does_so_after_a_wait_also_while_its_address_fails(tmp_path: Path) -> None:
    authority = Authority.make(tmp_path)
    async with guarded(certificate_of(authority, clients=True)) as (gate, here):
        await try_with(here, trusting(authority))
        await gate.has_failed(Failure.NO_CERTIFICATE)
        known = presenting(authority, authority.confirm("trading-app"))
        async with here.client(known) as (reader, writer):
            writer.write(b"bye\n")
            assert await reader.read() == b"hello\nbye\ngoodbye\n"
