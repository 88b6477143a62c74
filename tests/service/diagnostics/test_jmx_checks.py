"""What ``check`` and ``health`` find out about JMX with TLS."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.links.tls import ServerTls
from gateway.service.diagnostics.checks import check_files, check_jmx
from gateway.service.diagnostics.health import ask, ask_jmx_health
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.state.running_configuration import addresses_of, jmx_address
from tests.components.certificates import Authority, Certificate
from tests.components.ports import free_tcp_port
from tests.jmx_java.tls.conftest import secured


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def certificate(authority: Authority) -> Certificate:
    return authority.confirm("gateway")


def configured(folder: Path, port: int, files: ServerTls) -> LoadedConfiguration:
    client_ca = "" if files.client_ca is None else f", client_ca: {files.client_ca}"
    path = folder / "gateway.yaml"
    path.write_text(
        f"version: 1\njmx:\n  enabled: true\n  listen: '127.0.0.1:{port}'\n"
        f"  tls: {{certificate: {files.certificate}, key: {files.key}{client_ca}}}\n"
    )
    return load_configuration(path)


@pytest.mark.parametrize("required", [False, True])
async def test_an_agent_with_tls_is_recognised(
    tmp_path: Path, authority: Authority, certificate: Certificate, *, required: bool
) -> None:
    client_ca = authority.own.certificate if required else None
    files = ServerTls(certificate.certificate, certificate.key, client_ca)
    reported: list[str] = []
    async with secured(files) as machine:
        loaded = configured(tmp_path, machine.port, files)
        await check_jmx(loaded, reported.append)
        await ask_jmx_health(jmx_address(loaded.settings.jmx), reported.append)
    where = f"127.0.0.1:{machine.port}"
    assert reported == [
        f"jmx: {where} has a JMX agent: this gateway's, if it runs",
        f"JMX {where} takes connections",
    ]


async def test_something_without_tls_is_no_agent(tmp_path: Path, certificate: Certificate) -> None:
    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x4e")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        files = ServerTls(certificate.certificate, certificate.key)
        with pytest.raises(CommandError, match="is taken by something that is no JMX agent"):
            await check_jmx(configured(tmp_path, port, files), lambda _: None)


async def test_without_snmp_the_core_is_asked_for_at_the_feed(tmp_path: Path) -> None:
    """Else a gateway whose core cannot be started would be healthy."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x4e")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port, path = server.sockets[0].getsockname()[1], tmp_path / "gateway.yaml"
        path.write_text(
            f"version: 1\njmx: {{enabled: true, listen: '127.0.0.1:{port}'}}\nsnmp: {{enabled: false}}\n"
            "feed: {socket: feed.sock}\n"
        )
        loaded = load_configuration(path)
        with pytest.raises(CommandError, match="the core is not running") as raised:
            await ask(addresses_of(loaded), lambda: loaded, lambda _: None)
        assert raised.value.code is ExitCode.UNREACHABLE

        async def closed(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()  # as the supervisor does, which has the socket, while there is no core

        async with await asyncio.start_unix_server(closed, loaded.feed_socket):
            with pytest.raises(CommandError, match="the core is not running"):
                await ask(addresses_of(loaded), lambda: loaded, lambda _: None)
        async with await asyncio.start_unix_server(answer, loaded.feed_socket):
            await ask(addresses_of(loaded), lambda: loaded, lambda _: None)


@pytest.mark.parametrize("backlog", [8, 0])
async def test_without_snmp_a_core_that_stands_still_is_not_healthy(tmp_path: Path, backlog: int) -> None:
    path = tmp_path / "gateway.yaml"
    path.write_text("version: 1\nsnmp: {enabled: false}\nfeed: {socket: feed.sock}\n")
    loaded = load_configuration(path)
    # The system accepts for a process that was stopped, until its backlog is full.
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as silent,
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other,
    ):
        silent.bind(str(loaded.feed_socket))
        silent.listen(backlog)
        other.connect(str(loaded.feed_socket))
        async with asyncio.timeout(5):
            with pytest.raises(CommandError, match="the core has said nothing for"):
                await ask(addresses_of(loaded), lambda: loaded, lambda _: None)


async def test_an_agent_that_stands_still_is_said_to_soon(tmp_path: Path, certificate: Certificate) -> None:
    files = ServerTls(certificate.certificate, certificate.key)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # which the system accepts for it
        path = configured(tmp_path, silent.getsockname()[1], files).path
        path.write_text(path.read_text() + "snmp: {enabled: false}\n")
        loaded = load_configuration(path)
        async with asyncio.timeout(5):
            with pytest.raises(CommandError, match=r"there is no greeting of a JMX agent within 2\.5 s"):
                await ask(addresses_of(loaded), lambda: loaded, lambda _: None)


def test_files_that_cannot_be_used(tmp_path: Path, authority: Authority, certificate: Certificate) -> None:
    files = ServerTls(certificate.certificate, authority.own.key)
    with pytest.raises(CommandError, match="this is not the key of the certificate in") as raised:
        check_files(configured(tmp_path, free_tcp_port(), files))
    assert raised.value.code is ExitCode.CONFIGURATION
    files = ServerTls(certificate.certificate, certificate.key)
    check_files(configured(tmp_path, free_tcp_port(), files))
