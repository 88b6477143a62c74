"""Certificates, a virtual machine that uses them, and Java clients, each in a virtual machine of its own."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeAlias

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, load_pem_private_key
from cryptography.hazmat.primitives.serialization.pkcs12 import (
    PKCS12Certificate,
    serialize_java_truststore,
    serialize_key_and_certificates,
)

from gateway.jmx.pem_files import read_tls
from gateway.jmx.virtual_machine import JavaMachine
from gateway.links.tls import ServerTls
from tests.components.certificates import Authority, Certificate
from tests.components.java_classes import QUICKLY, compile_java
from tests.jmx_java.conftest import PASSWORD, USER, authenticate, settings

Secured: TypeAlias = Callable[[ServerTls], AbstractAsyncContextManager[JavaMachine]]
_STORE_PASSWORD = "secret"
_CLIENTS = ("TlsClient.java", "CertificateClient.java")


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Whose certificates the gateway and good clients have."""
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="session")
def certificate(authority: Authority) -> Certificate:
    """The gateway's certificate."""
    return authority.confirm("gateway")


@pytest.fixture(scope="session")
def compiled_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the compiled ``TlsClient`` and ``CertificateClient``."""
    folder = tmp_path_factory.mktemp("tls-client")
    compile_clients(folder)
    return folder


def compile_clients(folder: Path) -> None:
    """Compile ``TlsClient`` and ``CertificateClient``."""
    compile_java(folder, (Path(__file__).parent / name for name in _CLIENTS))


@asynccontextmanager
async def secured(files: ServerTls) -> AsyncIterator[JavaMachine]:
    """Run a virtual machine that lets clients in by TLS."""
    async with JavaMachine(settings(tls=read_tls(files)), authenticate) as machine:
        await machine.open()
        yield machine


class TlsClient:
    """A Java client with a certificate, or none, that trusts an authority."""

    def __init__(self, compiled: Path, folder: Path) -> None:
        self._compiled = compiled
        self._folder = folder

    async def __call__(self, port: int, *, trusts: Authority, own: Certificate | None = None) -> str:
        """Log in and read; return what was read, or the exceptions."""
        command = java_command(self._compiled, self._folder, trusts, own)
        process = await asyncio.create_subprocess_exec(
            *command, "TlsClient", str(port), USER, PASSWORD, stdout=subprocess.PIPE
        )
        output, _ = await process.communicate()
        return output.decode().strip()


def java_command(compiled: Path, folder: Path, trusts: Authority, own: Certificate | None) -> list[str]:
    """Return what runs a class of ``compiled`` with a certificate, or none; its stores are in ``folder``."""
    trust = folder / "trust.p12"
    ca = x509.load_pem_x509_certificate(trusts.own.certificate.read_bytes())
    encryption = BestAvailableEncryption(_STORE_PASSWORD.encode())
    trust.write_bytes(serialize_java_truststore([PKCS12Certificate(ca, b"ca")], encryption))
    options = _store("trustStore", trust)
    if own is not None:
        key = folder / f"{own.key.stem}.p12"
        private = load_pem_private_key(own.key.read_bytes(), None)
        certificate = x509.load_pem_x509_certificate(own.certificate.read_bytes())
        key.write_bytes(serialize_key_and_certificates(b"own", private, certificate, None, encryption))  # type: ignore[arg-type]
        options += _store("keyStore", key)
    return ["java", *QUICKLY, *options, "-classpath", str(compiled)]


def _store(kind: str, path: Path) -> list[str]:
    name = f"-Djavax.net.ssl.{kind}"
    return [f"{name}={path}", f"{name}Password={_STORE_PASSWORD}", f"{name}Type=PKCS12"]


@pytest.fixture
def tls_client(compiled_client: Path, tmp_path: Path) -> TlsClient:
    return TlsClient(compiled_client, tmp_path)


class CertificateClients:
    """Java clients with certificates, each in a virtual machine of its own."""

    def __init__(self, compiled: Path, folder: Path, trusts: Authority) -> None:
        self._compiled, self._folder, self._trusts = compiled, folder, trusts

    def command(self, own: Certificate | None, *arguments: object) -> list[str]:
        """Return the command of a client."""
        java = java_command(self._compiled, self._folder, self._trusts, own)
        return [*java, "CertificateClient", *map(str, arguments)]

    async def __call__(self, own: Certificate | None, *arguments: object) -> list[str]:
        """Run a client to its end; return the lines that it prints."""
        process = await asyncio.create_subprocess_exec(*self.command(own, *arguments), stdout=subprocess.PIPE)
        output, _ = await process.communicate()
        return output.decode().splitlines()

    @asynccontextmanager
    async def kept(
        self, own: Certificate, port: int, file: Path
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a client that keeps its session; what finds the session is in the file."""
        process = await asyncio.create_subprocess_exec(
            *self.command(own, "keep", port, file), stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            assert await process.stdout.readline() == b"kept\n"
            yield process
        finally:
            process.stdin.close()
            await process.communicate()


@pytest.fixture
def clients(compiled_client: Path, tmp_path: Path, authority: Authority) -> CertificateClients:
    return CertificateClients(compiled_client, tmp_path, authority)
