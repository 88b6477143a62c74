"""Files of TLS that are replaced while they are in use: new connections use them, unless they are broken."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from pydantic import SecretStr

from gateway.links.tls import (
    MAX_PRESENTED,
    ClientTls,
    PresentedCertificates,
    ServerTls,
    TlsFileError,
    TlsRenewal,
    presented_name,
)
from gateway.sources.rabbitmq.http_reader import ManagementEndpoint, management_client
from tests.components.certificates import Authority, Certificate


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path / "ca")


@pytest.fixture
def own(authority: Authority) -> Certificate:
    return authority.confirm("gateway")


@contextlib.asynccontextmanager
async def server(authority: Authority, clients: Authority) -> AsyncIterator[tuple[int, list[str]]]:
    """Provide the port of an HTTPS server, and the names of the certificates that clients presented."""
    certificate = authority.confirm("server", days=20)
    accepting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=clients.own.certificate)
    accepting.load_cert_chain(certificate.certificate, certificate.key)
    accepting.verify_mode = ssl.CERT_REQUIRED
    names: list[str] = []

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        names.append(writer.get_extra_info("peercert")["subject"][0][0][1])
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", ssl=accepting)
    async with listening:
        yield listening.sockets[0].getsockname()[1], names


def put(made: Certificate, place: Certificate) -> None:
    """Replace the files of a certificate by those of another one."""
    shutil.copyfile(made.certificate, place.certificate)
    shutil.copyfile(made.key, place.key)


def lines(logged: list[Any]) -> list[str]:
    return [line["event"] for line in logged]


async def test_a_client_of_the_management_api_presents_a_renewed_certificate(
    authority: Authority, own: Certificate
) -> None:
    tls = ClientTls(authority.own.certificate, own.certificate, own.key)
    async with server(authority, authority) as (port, names):
        endpoint = ManagementEndpoint(f"https://127.0.0.1:{port}", "gateway", SecretStr("sesame"), tls)
        async with management_client(endpoint) as client:
            await client.get("overview")
            put(authority.confirm("renewed"), own)
            await client.get("overview")
    assert names == ["gateway", "renewed"]


async def test_a_replaced_authority_is_the_one_that_is_trusted(
    authority: Authority, own: Certificate, tmp_path: Path
) -> None:
    trusted = tmp_path / "trusted.pem"
    shutil.copyfile(authority.own.certificate, trusted)
    tls = ClientTls(trusted, own.certificate, own.key)
    async with server(authority, authority) as (port, _):
        endpoint = ManagementEndpoint(f"https://127.0.0.1:{port}", "gateway", SecretStr("sesame"), tls)
        async with management_client(endpoint) as client:
            await client.get("overview")
            shutil.copyfile(Authority.make(tmp_path / "other").own.certificate, trusted)
            with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
                await client.get("overview")


def test_files_that_cannot_be_used_leave_the_former_ones_in_use_and_are_logged_once(
    authority: Authority, own: Certificate
) -> None:
    renewal = ClientTls(authority.own.certificate, own.certificate, own.key).renewal
    first = renewal.latest()
    assert renewal.latest() is first
    with structlog.testing.capture_logs() as logged:
        own.key.write_text("no key", encoding="ascii")
        assert renewal.latest() is first
        assert renewal.latest() is first
    assert lines(logged) == ["tls-not-renewed"]
    assert "'client_key'" in logged[0]["reason"]
    assert logged[0]["reason"].endswith("; new connections use the former files")
    with structlog.testing.capture_logs() as logged:
        own.key.unlink()
        assert renewal.latest() is first
        put(authority.confirm("renewed"), own)
        assert renewal.latest() is not first
    assert lines(logged) == ["tls-not-renewed", "tls-renewed"]


def test_a_listener_waits_for_the_second_of_two_files(authority: Authority, own: Certificate) -> None:
    renewal = TlsRenewal(ServerTls(own.certificate, own.key), patient=True)
    first, renewed = renewal.latest(), authority.confirm("renewed")
    with structlog.testing.capture_logs() as logged:
        shutil.copyfile(renewed.certificate, own.certificate)
        assert renewal.latest() is first
        shutil.copyfile(renewed.key, own.key)
        assert renewal.latest() is not first
    assert lines(logged) == ["tls-renewed"]


def test_files_that_never_could_be_used_are_an_error(tmp_path: Path) -> None:
    renewal = ClientTls(tmp_path / "none.pem").renewal
    for _ in range(2):
        with pytest.raises(TlsFileError):
            renewal.latest()


def test_the_end_of_a_certificate_that_was_presented_is_noted(authority: Authority, own: Certificate) -> None:
    presented = PresentedCertificates()
    note = presented.noting("sources.orders.management")
    tls = ClientTls(authority.own.certificate, own.certificate, own.key, note)

    async def read() -> None:
        async with server(authority, authority) as (port, _):
            endpoint = ManagementEndpoint(f"https://127.0.0.1:{port}", "gateway", SecretStr("sesame"), tls)
            async with management_client(endpoint) as client:
                await client.get("overview")
            reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls.renewal.latest())
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await reader.read()
            writer.close()

    asyncio.run(read())
    made = authority.folder / "server.pem"
    decoded = ssl._ssl._test_decode_cert(str(made))["notAfter"]  # type: ignore[attr-defined]  # noqa: SLF001  the same in another way
    assert presented.ends() == {
        presented_name("127.0.0.1", "sources.orders.management"): ssl.cert_time_to_seconds(decoded)
    }


def test_servers_that_are_noted_are_limited() -> None:
    presented = PresentedCertificates()
    for number in range(MAX_PRESENTED + 1):
        presented.noting("sources.orders.management")(f"host-{number}", number)
    assert len(presented.ends()) == MAX_PRESENTED
