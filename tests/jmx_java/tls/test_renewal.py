"""Files of TLS that are replaced while the virtual machine runs."""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
from collections.abc import MutableMapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from gateway.jmx.tls import TlsError, TlsMaterial
from gateway.jmx.tls_renewal import TlsRenewal
from gateway.jmx.virtual_machine import JavaMachine
from gateway.links.tls import ServerTls
from tests.components.certificates import Authority, Certificate
from tests.jmx_java.attacks import jrmp
from tests.jmx_java.conftest import authenticate, settings
from tests.jmx_java.tls.conftest import TlsClient

READ = "read false"
NOT_RENEWED = "jmx-tls-not-renewed"


@dataclass
class Machine:
    """What takes renewed certificates, as the virtual machine does."""

    used: list[TlsMaterial] = field(default_factory=list)
    refusal: str = ""

    async def use(self, material: TlsMaterial) -> None:
        if self.refusal:
            raise TlsError(self.refusal)
        self.used.append(material)


@dataclass(frozen=True)
class Replaced:
    """The files in use, which others replace."""

    files: ServerTls

    def certificate(self, by: Certificate) -> None:
        shutil.copy(by.certificate, self.files.certificate)

    def key(self, by: Certificate) -> None:
        shutil.copy(by.key, self.files.key)

    def client_ca(self, by: Authority) -> None:
        assert self.files.client_ca is not None
        shutil.copy(by.own.certificate, self.files.client_ca)


@pytest.fixture
def renewed(authority: Authority) -> Certificate:
    """Another certificate of the gateway, with another key."""
    return authority.confirm("renewed")


@pytest.fixture
def replaced(tmp_path: Path, certificate: Certificate) -> Replaced:
    """The files in use: at first those of `certificate`."""
    files = Replaced(ServerTls(tmp_path / "gateway.pem", tmp_path / "gateway-key.pem"))
    files.certificate(certificate)
    files.key(certificate)
    return files


async def look(renewal: TlsRenewal, machine: Machine) -> list[MutableMapping[str, Any]]:
    """Compare the files; return what is logged."""
    with capture_logs() as logs:
        await renewal.look(machine.use)
    return logs


async def test_files_that_are_written_again_without_a_change_are_not_used_again(
    replaced: Replaced, certificate: Certificate
) -> None:
    renewal, machine = TlsRenewal(replaced.files), Machine()
    replaced.certificate(certificate)
    assert await look(renewal, machine) == []
    assert machine.used == []


async def test_certificate_and_key_may_be_replaced_one_after_the_other(
    replaced: Replaced, renewed: Certificate
) -> None:
    renewal, machine = TlsRenewal(replaced.files), Machine()
    before = renewal.material
    replaced.certificate(renewed)
    assert await look(renewal, machine) == []
    assert renewal.material == before
    replaced.key(renewed)
    (line,) = await look(renewal, machine)
    assert (line["event"], line["certificate"]) == ("jmx-tls-renewed", str(replaced.files.certificate))
    assert machine.used == [renewal.material]
    assert renewal.material.chain != before.chain


async def test_what_does_not_fit_is_logged_once_and_the_former_is_used(
    replaced: Replaced, renewed: Certificate, certificate: Certificate
) -> None:
    renewal, machine = TlsRenewal(replaced.files), Machine()
    before = renewal.material
    replaced.certificate(renewed)
    assert await look(renewal, machine) == []
    (line,) = await look(renewal, machine)
    assert (line["event"], line["log_level"]) == (NOT_RENEWED, "warning")
    assert f"{replaced.files.key}: this is not the key of the certificate in" in line["reason"]
    assert line["reason"].endswith("; new connections use the former files")
    for _ in range(3):
        assert await look(renewal, machine) == []
    assert (renewal.material, machine.used) == (before, [])
    replaced.certificate(certificate)
    assert await look(renewal, machine) == []
    replaced.certificate(renewed)
    assert [len(await look(renewal, machine)) for _ in range(3)] == [0, 1, 0]


async def test_files_that_cannot_be_read_are_logged_once(replaced: Replaced, renewed: Certificate) -> None:
    renewal, machine = TlsRenewal(replaced.files), Machine()
    replaced.files.certificate.unlink()
    logged = [await look(renewal, machine) for _ in range(4)]
    assert [len(lines) for lines in logged] == [0, 1, 0, 0]
    assert "cannot be read: No such file or directory" in logged[1][0]["reason"]
    replaced.certificate(renewed)
    replaced.key(renewed)
    await look(renewal, machine)
    assert machine.used == [renewal.material]


async def test_an_empty_client_ca_does_not_admit_clients_without_a_certificate(
    replaced: Replaced, tmp_path: Path, authority: Authority
) -> None:
    strict = Replaced(ServerTls(replaced.files.certificate, replaced.files.key, tmp_path / "clients.pem"))
    strict.client_ca(authority)
    renewal, machine = TlsRenewal(strict.files), Machine()
    (tmp_path / "clients.pem").write_text("")
    logged = [await look(renewal, machine) for _ in range(2)]
    assert "there is no certificate in PEM in it, which jmx.tls.client_ca must name" in logged[1][0]["reason"]
    assert renewal.material.authorities
    assert machine.used == []


async def test_what_java_cannot_use_is_logged_once(replaced: Replaced, renewed: Certificate) -> None:
    renewal, machine = TlsRenewal(replaced.files), Machine(refusal="Java cannot use it")
    before = renewal.material
    replaced.certificate(renewed)
    replaced.key(renewed)
    logged = [await look(renewal, machine) for _ in range(4)]
    assert [len(lines) for lines in logged] == [0, 1, 0, 0]
    assert logged[1][0]["reason"] == "Java cannot use it; new connections use the former files"
    assert renewal.material == before


async def test_java_names_what_it_cannot_use(certificate: Certificate) -> None:
    material = TlsRenewal(ServerTls(certificate.certificate, certificate.key)).material
    async with JavaMachine(settings(tls=material), authenticate) as machine:
        broken = TlsMaterial(material.algorithm, b"no key", material.chain)
        with pytest.raises(TlsError, match=r"Java cannot use the files of jmx\.tls: .*; a newer Java may"):
            await machine.renew_tls(broken)
        await machine.open()
        stream = await asyncio.to_thread(connected, machine.port)
        stream.close()


async def test_new_connections_use_the_renewed_certificate_and_open_ones_stay(
    replaced: Replaced, renewed: Certificate, authority: Authority, tls_client: TlsClient
) -> None:
    async with followed(replaced.files) as (renewal, machine):
        former = await asyncio.to_thread(greeted, machine.port)
        with jrmp.all_closed([former]):
            before = former.getpeercert(binary_form=True)
            replaced.certificate(renewed)
            replaced.key(renewed)
            # Strangers may be silent for 10 s.
            assert await asyncio.to_thread(is_answered, former)
            await renewal.look(machine.renew_tls)
            assert await asyncio.to_thread(is_answered, former)
            latter = await asyncio.to_thread(connected, machine.port)
            with jrmp.all_closed([latter]):
                assert latter.getpeercert(binary_form=True) == der(renewed) != before
        assert await tls_client(machine.port, trusts=authority) == READ


async def test_a_renewed_client_ca_counts_for_new_connections(
    replaced: Replaced, authority: Authority, tls_client: TlsClient, tmp_path: Path
) -> None:
    another = Authority.make(tmp_path / "another", "Another authority")
    old, new = authority.confirm("reader"), another.confirm("reader")
    strict = Replaced(ServerTls(replaced.files.certificate, replaced.files.key, tmp_path / "clients.pem"))
    strict.client_ca(authority)
    async with followed(strict.files) as (renewal, machine):
        context = trusting(old)
        stream = await asyncio.to_thread(greeted, machine.port, context)
        session = stream.session
        stream.close()
        stream = await asyncio.to_thread(greeted, machine.port, context, session)
        assert stream.session_reused
        stream.close()
        strict.client_ca(another)
        await renewal.look(machine.renew_tls)
        # A session of before, which would spare the client its certificate, cannot be resumed.
        with pytest.raises(ssl.SSLError, match="alert"):
            await asyncio.to_thread(greeted, machine.port, context, session)
        assert READ not in await tls_client(machine.port, trusts=authority, own=old)
        assert await tls_client(machine.port, trusts=authority, own=new) == READ


@asynccontextmanager
async def followed(files: ServerTls) -> Any:  # noqa: ANN401  a context
    """Run a virtual machine that lets clients in by TLS, and what renews its files when it is asked to."""
    renewal = TlsRenewal(files)
    async with JavaMachine(settings(tls=renewal.material), authenticate) as machine:
        await machine.open()
        yield renewal, machine


def trusting(own: Certificate | None = None) -> ssl.SSLContext:
    """A client that accepts every certificate of a server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if own is not None:
        context.load_cert_chain(own.certificate, own.key)
    return context


def connected(
    port: int, context: ssl.SSLContext | None = None, session: ssl.SSLSession | None = None
) -> ssl.SSLSocket:
    return (context or trusting()).wrap_socket(jrmp.connection(port), session=session)


def greeted(
    port: int, context: ssl.SSLContext | None = None, session: ssl.SSLSession | None = None
) -> ssl.SSLSocket:
    """Connect, and exchange greetings; the handshake has ended then also for the server."""
    stream = connected(port, context, session)
    try:
        stream.sendall(b"JRMI\x00\x02\x4b")
        read_exactly(stream, len(b"\x4e\x00\x09127.0.0.1\x00\x00\x00\x00"))
        stream.sendall(b"\x00\x09127.0.0.1\x00\x00\x00\x00")
    except BaseException:
        stream.close()
        raise
    return stream


def read_exactly(stream: socket.socket, count: int) -> None:
    while count:
        octets = stream.recv(count)
        assert octets
        count -= len(octets)


def is_answered(stream: socket.socket) -> bool:
    """Whether the server answers a ping (Java RMI specification, section 10.2.2)."""
    stream.sendall(b"\x52")
    return stream.recv(1) == b"\x53"


def der(certificate: Certificate) -> bytes:
    return ssl.PEM_cert_to_DER_cert(certificate.certificate.read_text())
