"""The files of TLS of connections that the gateway opens."""

from __future__ import annotations

import asyncio
import os
import ssl
from pathlib import Path

import pytest

from gateway.links.tls import NO_AUTHORITIES, SYSTEM_AUTHORITIES, ClientTls, ServerTls, TlsFileError
from tests.components.certificates import Authority, Certificate


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority.make(tmp_path)


@pytest.fixture
def own(authority: Authority) -> Certificate:
    return authority.confirm("gateway")


async def test_the_certificate_is_presented_and_the_peer_verified(
    authority: Authority, own: Certificate
) -> None:
    server = authority.confirm("server")
    accepting = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=authority.own.certificate)
    accepting.load_cert_chain(server.certificate, server.key)
    accepting.verify_mode = ssl.CERT_REQUIRED
    presented: asyncio.Queue[object] = asyncio.Queue()

    async def connected(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        presented.put_nowait(writer.get_extra_info("peercert")["subject"])
        writer.close()

    listening = await asyncio.start_server(connected, "127.0.0.1", ssl=accepting)
    port = listening.sockets[0].getsockname()[1]
    async with listening:
        tls = ClientTls(authority.own.certificate, own.certificate, own.key)
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls.context())
        assert await presented.get() == ((("commonName", "gateway"),),)
        writer.close()
        with pytest.raises(ssl.SSLCertVerificationError):
            await asyncio.open_connection("127.0.0.1", port, ssl=SYSTEM_AUTHORITIES.context())


def test_nothing_switches_verification_off() -> None:
    context = SYSTEM_AUTHORITIES.context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)


def test_a_file_that_cannot_be_used_is_named(authority: Authority, own: Certificate, tmp_path: Path) -> None:
    missing, other = tmp_path / "none.pem", authority.confirm("other")
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("no certificate", encoding="ascii")
    encrypted = tmp_path / "encrypted.pem"
    encrypted.write_text(
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMIHN\n-----END ENCRYPTED PRIVATE KEY-----\n", encoding="ascii"
    )
    for tls, beginning in (
        (ClientTls(missing), f"'ca_file' {missing} cannot be used: No such file or directory"),
        (ClientTls(nonsense), f"'ca_file' {nonsense} cannot be used: "),
        (ClientTls(None, missing, own.key), f"'client_certificate' {missing} with 'client_key' {own.key} "),
        (ClientTls(None, own.certificate, other.key), "'client_certificate' "),
        (ClientTls(None, own.certificate, encrypted), "'client_certificate' "),
    ):
        with pytest.raises(TlsFileError) as raised:
            tls.context()
        assert str(raised.value).startswith(beginning)


def test_a_file_for_keys_that_cannot_be_written_is_named_with_its_variable(
    own: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", f"{tmp_path}/none/keys")
    listener = ServerTls(own.certificate, own.key)
    for make in (SYSTEM_AUTHORITIES.context, ClientTls(own.certificate).context, listener.context):
        with pytest.raises(TlsFileError) as raised:
            make()
        assert str(raised.value) == (
            f"{tmp_path}/none/keys cannot be written, in which TLS is to log keys: No such file or directory"
            ": correct or unset the environment variable SSLKEYLOGFILE"
        )
    missing = ClientTls(tmp_path / "none.pem")
    with pytest.raises(TlsFileError, match="'ca_file'"):
        missing.context()


def test_a_pipe_for_keys_is_refused_instead_of_waiting_for_its_reader(
    own: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipe = tmp_path / "keys"
    os.mkfifo(pipe)
    monkeypatch.setenv("SSLKEYLOGFILE", str(pipe))
    for make in (SYSTEM_AUTHORITIES.context, ServerTls(own.certificate, own.key).context):
        with pytest.raises(TlsFileError, match=f"{pipe} cannot be written, .*: is no regular file: correct"):
            make()


def test_a_file_for_keys_is_made_for_its_owner_alone_and_one_that_is_there_is_left_as_it_is(
    own: Certificate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listener, there = ServerTls(own.certificate, own.key), tmp_path / "there"
    there.write_text("CLIENT_RANDOM 0 0\n")
    there.chmod(0o640)
    for number, make in enumerate((SYSTEM_AUTHORITIES.context, listener.context)):
        keys = tmp_path / f"keys{number}"
        monkeypatch.setenv("SSLKEYLOGFILE", str(keys))
        make()
        assert keys.stat().st_mode & 0o777 == 0o600
        monkeypatch.setenv("SSLKEYLOGFILE", str(there))
        make()
    assert there.stat().st_mode & 0o777 == 0o640
    assert there.read_text().startswith("CLIENT_RANDOM 0 0\n")


async def test_a_client_of_urls_without_tls_reads_nothing_of_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", f"{tmp_path}/none/keys")
    system = ClientTls()  # of its own: the common one keeps what it made without the variable
    assert system.context_for("http://broker:15672") is NO_AUTHORITIES
    context = system.renewed_context(["http://broker:15672"])
    with pytest.raises(ssl.SSLError, match="SSLKEYLOGFILE"):  # which clients report as any failure of TLS
        context.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO())
    with pytest.raises(TlsFileError):
        system.renewed_context(["http://broker:15672", "https://other:15671"])
    with pytest.raises(TlsFileError, match=r"none\.pem"):
        ClientTls(tmp_path / "none.pem").renewed_context(["http://broker:15672"])
