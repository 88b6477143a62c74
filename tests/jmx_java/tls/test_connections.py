"""Clients of a virtual machine with TLS: Java's own, openssl, and silent ones."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import time
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from gateway.jmx.backend import UNKNOWN
from gateway.jmx.pem_files import read_tls
from gateway.jmx.virtual_machine import JavaMachine
from gateway.links.tls import ServerTls
from tests.components.certificates import Authority, Certificate
from tests.components.waiting import DEADLINE, until
from tests.jmx_java.attacks import jrmp
from tests.jmx_java.conftest import PASSWORD, USER, AsyncClient, JavaStrings, authenticate, settings
from tests.jmx_java.scripted_operator import ScriptedOperator
from tests.jmx_java.tls.conftest import TlsClient, secured

READ = "read false"


@pytest.fixture
def files(certificate: Certificate) -> ServerTls:
    return ServerTls(certificate.certificate, certificate.key)


@pytest.fixture
def strict(certificate: Certificate, authority: Authority) -> ServerTls:
    return ServerTls(certificate.certificate, certificate.key, authority.own.certificate)


async def test_a_client_that_trusts_the_authority_reads(
    files: ServerTls, authority: Authority, tls_client: TlsClient
) -> None:
    async with secured(files) as machine:
        assert await tls_client(machine.port, trusts=authority) == READ


async def test_a_client_that_trusts_another_authority_fails(
    files: ServerTls, tls_client: TlsClient, tmp_path: Path
) -> None:
    another = Authority.make(tmp_path / "another", "Another authority")
    async with secured(files) as machine:
        assert "SSLHandshakeException" in await tls_client(machine.port, trusts=another)


async def test_a_client_certificate_is_required_where_its_authority_is_configured(
    strict: ServerTls, authority: Authority, tls_client: TlsClient, tmp_path: Path
) -> None:
    another = Authority.make(tmp_path / "another", "Another authority")
    async with secured(strict) as machine:
        own = authority.confirm("reader")
        assert await tls_client(machine.port, trusts=authority, own=own) == READ
        with capture_logs() as logs:
            assert READ not in await tls_client(machine.port, trusts=authority)
            stolen = another.confirm("reader")
            assert READ not in await tls_client(machine.port, trusts=authority, own=stolen)
            late = authority.confirm("late", days=-1)
            assert READ not in await tls_client(machine.port, trusts=authority, own=late)
            await until(lambda: len(logs) >= 3, "all are logged", DEADLINE)
        assert {(entry["event"], entry["client"]) for entry in logs} == {("jmx-login-refused", "127.0.0.1")}
        assert all(entry["reason"].startswith("TLS failed: ") for entry in logs)


async def test_who_does_not_get_through_tls_is_a_refused_login(
    files: ServerTls, tls_client: TlsClient, tmp_path: Path
) -> None:
    operator = ScriptedOperator()
    async with JavaMachine(settings(tls=read_tls(files)), authenticate, is_user=USER.__eq__) as machine:
        await machine.open(operator)
        stream = jrmp.connection(machine.port)
        with jrmp.all_closed([stream]):
            stream.sendall(b"GET / HTTP/1.1\r\n\r\n")
            await until(lambda: jrmp.is_closed(stream), "the connection is closed", DEADLINE)
        await until(lambda: operator.attempts, "it is recorded", DEADLINE)
        (attempt,) = operator.attempts
        assert (str(attempt.principal), attempt.principal.origin) == (f"jmx:{UNKNOWN}", "127.0.0.1")
        assert attempt.text.startswith("login: TLS failed: ")
        with jrmp.all_closed([]) as streams:
            streams.append(await asyncio.to_thread(jrmp.connection, machine.port))
        another = Authority.make(tmp_path / "another", "Another authority")
        assert READ not in await tls_client(machine.port, trusts=another)
        assert len(operator.attempts) == 1, "who goes away, or distrusts the gateway, wants nothing"


async def test_a_client_in_plain_text_gets_an_error_soon(
    files: ServerTls, stranger: AsyncClient, java_strings: JavaStrings
) -> None:
    async with secured(files) as machine:
        began = time.monotonic()
        async with asyncio.timeout(DEADLINE):
            failure = await stranger("tryConnectWith", machine.port, java_strings([USER, PASSWORD]))
        assert "java.rmi.ConnectIOException" in failure or "java.net.SocketException" in failure
        assert time.monotonic() - began < DEADLINE


async def test_a_handshake_that_does_not_end_is_closed_soon(files: ServerTls) -> None:
    async with secured(files) as machine:
        with jrmp.all_closed([]) as streams:
            for sent in (b"", b"\x16\x03\x01\x02\x00", b"\x16\x03\x01\x40\x00" + bytes(1000)):
                streams.append(jrmp.connection(machine.port))
                streams[-1].sendall(sent)
            await until(lambda: all(map(jrmp.is_closed, streams)), "all are closed", 30)


async def test_a_handshake_that_trickles_in_is_closed_soon(files: ServerTls) -> None:
    async with secured(files) as machine:
        stream = jrmp.connection(machine.port)
        with jrmp.all_closed([stream]):
            stream.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")

            def is_closed_though_it_sends() -> bool:
                try:
                    stream.send(b"x")
                except OSError:
                    return True
                return jrmp.is_closed(stream)

            await until(is_closed_though_it_sends, "the connection is closed", 30)


async def test_silent_handshakes_lock_out_no_other(
    files: ServerTls, authority: Authority, tls_client: TlsClient
) -> None:
    async with secured(files) as machine:
        with jrmp.all_closed([]) as streams:
            for _ in range(200):
                streams.append(await asyncio.to_thread(jrmp.connection, machine.port))
                if len(streams) % 2:
                    streams[-1].sendall(b"\x16\x03\x01\x02\x00")
            assert await tls_client(machine.port, trusts=authority) == READ
            await until(lambda: all(map(jrmp.is_closed, streams)), "all are closed", 30)


async def test_what_a_stranger_may_send_is_counted_within_tls(files: ServerTls, authority: Authority) -> None:
    async with secured(files) as machine:
        context = ssl.create_default_context(cafile=authority.own.certificate)
        stream = await asyncio.to_thread(greeted, machine.port, context)
        with jrmp.all_closed([stream]):
            assert await asyncio.to_thread(is_ended_by, stream, jrmp.lookup(1 << 20, (1 << 20) - 1))


async def test_openssl_shows_the_certificate(files: ServerTls, authority: Authority) -> None:
    async with secured(files) as machine:
        where = f"127.0.0.1:{machine.port}"
        process = await asyncio.create_subprocess_exec(
            *("openssl", "s_client", "-connect", where, "-CAfile", str(authority.own.certificate)),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        output, _ = await process.communicate()
    assert "subject=CN = gateway" in output.decode().replace("CN=", "CN = ")
    assert "Verify return code: 0 (ok)" in output.decode()


async def test_no_key_is_on_the_command_line_or_in_a_file(files: ServerTls) -> None:
    async with secured(files) as machine:
        process = Path(f"/proc/{machine.pid}")
        shown = process.joinpath("cmdline").read_bytes() + process.joinpath("environ").read_bytes()
        opened = {str(path.readlink()) for path in process.joinpath("fd").iterdir()}
    assert b"PRIVATE KEY" not in shown
    assert b"gateway-key" not in shown
    assert not {path for path in opened if path.endswith((".pem", ".p12"))}


def greeted(port: int, context: ssl.SSLContext) -> socket.socket:
    stream = context.wrap_socket(jrmp.connection(port), server_hostname="127.0.0.1")
    stream.sendall(b"JRMI\x00\x02\x4b")
    assert stream.recv(1) == b"\x4e"
    stream.sendall(b"\x00\x09127.0.0.1\x00\x00\x00\x00")
    return stream


def is_ended_by(stream: socket.socket, octets: bytes) -> bool:
    """Whether the server closes the connection because of these octets, or soon after."""
    try:
        stream.sendall(octets)
        while stream.recv(4096):  # the rest of the greeting
            pass
    except TimeoutError:
        return False
    except OSError:
        pass
    return True
