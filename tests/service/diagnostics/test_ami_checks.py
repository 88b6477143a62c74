"""The findings of `source test` and `doctor` about a source of kind ami: whether applications can connect."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest

from gateway.config.sources import AmiSource
from gateway.service.diagnostics.doctor.brokers import trusted_applications
from gateway.service.diagnostics.source_checks import check_listener, check_unheard
from gateway.service.processes.exit_codes import CommandError, ExitCode
from tests.components.certificates import Authority
from tests.components.ports import free_tcp_port


def source(port: int, host: str = "127.0.0.1", **settings: object) -> AmiSource:
    return AmiSource.model_validate({"kind": "ami", "listen": f"{host}:{port}", **settings})


@contextmanager
def answering(answer: bytes) -> Iterator[int]:
    """Provide the port of a server that sends this answer on every connection."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer_all() -> None:
            try:
                while True:
                    accepted, _ = listening.accept()
                    with accepted:
                        accepted.recv(100)
                        accepted.sendall(answer)
            except OSError:
                pass  # it was closed

        thread = Thread(target=answer_all)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(socket.SHUT_RDWR)
            thread.join()


def test_who_captures_needs_the_address_for_itself() -> None:
    check_unheard(source(free_tcp_port()))
    with (
        answering(b"M") as port,
        pytest.raises(CommandError, match="by 'captures'") as reported,
    ):
        check_unheard(source(port))
    assert reported.value.code is ExitCode.ADDRESS_IN_USE


async def test_an_address_that_is_free(tmp_path: Path) -> None:
    reported: list[str] = []
    port = free_tcp_port()
    await check_listener(source(port), tmp_path, reported.append)
    assert reported == [
        f"127.0.0.1 port {port} is free: applications can connect there while the gateway runs"
    ]


async def test_one_that_this_gateway_or_a_relay_has(tmp_path: Path) -> None:
    reported: list[str] = []
    with answering(b'M|Q=0|S=0|M="help"\n') as port:
        await check_listener(source(port), tmp_path, reported.append)
    where = f"127.0.0.1 port {port}"
    assert reported == [
        f"{where} has a listener: this gateway's, if it runs; else a relay's, and one must give way"
    ]


async def test_one_that_something_else_has(tmp_path: Path) -> None:
    with answering(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port, pytest.raises(CommandError) as caught:
        await check_listener(source(port), tmp_path, lambda _: None)
    assert caught.value.code is ExitCode.ADDRESS_IN_USE
    assert str(caught.value) == (
        f"127.0.0.1 port {port} is taken by something that does not speak AMI: end it, or choose another"
        " address under 'listen'"
    )


async def test_one_that_this_machine_has_not(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no such address: choose one that it has") as caught:
        await check_listener(source(3289, "192.0.2.1", allow_anyone=True), tmp_path, lambda _: None)
    assert caught.value.code is ExitCode.ADDRESS_IN_USE


async def test_certificates_are_read(tmp_path: Path) -> None:
    files = Authority.make(tmp_path).confirm("gateway")
    tls = {"certificate": files.certificate.name, "key": files.key.name, "client_ca": "missing.pem"}
    with pytest.raises(CommandError, match=r"certificates for TLS cannot be used .*missing\.pem"):
        await check_listener(source(free_tcp_port(), tls=tls), tmp_path, lambda _: None)
    reported: list[str] = []
    await check_listener(
        source(free_tcp_port(), tls=tls | {"client_ca": "ca.pem"}), tmp_path, reported.append
    )
    assert len(reported) == 1


@pytest.mark.parametrize(
    ("settings", "level", "text"),
    [
        ({}, "note", "every user of this machine can speak as any application: AMI has no passwords"),
        (
            {"host": "0.0.0.0", "allow_anyone": True},  # noqa: S104  it is what is spoken of
            "warning",
            "anyone who reaches 0.0.0.0 can report anything, and receives the commands",
        ),
        (
            {"tls": {"certificate": "a", "key": "b", "client_ca": "c"}, "own_name": True},
            "good",
            "only clients with a certificate of 'client_ca' are accepted",
        ),
    ],
)
def test_who_can_speak(settings: dict[str, object], level: str, text: str) -> None:
    (found,) = trusted_applications("plant", source(3289, **settings))  # type: ignore[arg-type]
    assert (found.level.value, found.text, found.subject) == (level, text, "plant")


def test_a_certificate_may_speak_for_others() -> None:
    tls = {"certificate": "a", "key": "b", "client_ca": "c"}
    _, found = trusted_applications("plant", source(3289, tls=tls))
    assert (found.level.value, found.text) == ("note", "any of them can speak as any application")
    (only,) = trusted_applications("plant", source(3289, tls=tls), restricted=True)
    assert only.level.value == "good"
