"""Whether the gateway can listen for applications, looked at before it is relied on."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gateway.config.ami_source import AmiSource, ListenerTls
from gateway.links.amqp_connection import LinkError
from gateway.links.tcp import ServerCertificate
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.trouble_codes import OF_TROUBLE

_ANSWER_SECONDS: Final = 2.0
_ASK: Final = b"H\n"
"""The instruction for help, which is allowed to anybody and changes nothing."""
_ANSWER: Final = b"M"
_ANY: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  where to ask, of what listens on all addresses


def server_certificate(tls: ListenerTls | None, folder: Path) -> ServerCertificate | None:
    """The files of a listener's TLS; ``None`` for plain TCP."""
    if tls is None:
        return None
    client_ca = folder / tls.client_ca if tls.client_ca is not None else None
    return ServerCertificate(folder / tls.certificate, folder / tls.key, client_ca)


def check_listener_files(settings: AmiSource, folder: Path) -> None:
    """Read what TLS needs.

    Raises:
        LinkError: a file cannot be used.
    """
    certificate = server_certificate(settings.tls, folder)
    if certificate is not None:
        certificate.context()


async def check_listener(settings: AmiSource, folder: Path, tell: Callable[[str], None]) -> None:
    """See whether the gateway can have the address, telling one line.

    Raises:
        CommandError: it cannot have the address, or a file of TLS cannot be used.
    """
    try:
        check_listener_files(settings, folder)
    except LinkError as error:
        raise CommandError(OF_TROUBLE[error.trouble], str(error)) from error
    host, port = settings.listen
    where = f"{host} port {port}"
    try:
        _try_to_listen(host, port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            number = error.errno or 0
            advice = _ADVICE.get(number, "choose another address under 'listen'")
            text = f"cannot listen on {where}: {os.strerror(number)}: {advice}"
            raise CommandError(ExitCode.ADDRESS_IN_USE, text) from error
        if settings.tls is None and not await _speaks_ami(host, port):
            raise CommandError(
                ExitCode.ADDRESS_IN_USE,
                f"{where} is taken by something that does not speak AMI: end it, or choose another address"
                " under 'listen'",
            ) from error
        tell(f"{where} has a listener: this gateway's, if it runs; else a relay's, and one must give way")
        return
    tell(f"{where} is free: applications are heard there while the gateway runs")


def check_unheard(settings: AmiSource) -> None:
    """See that nobody listens there, not even the running gateway.

    Raises:
        CommandError: somebody does.
    """
    host, port = settings.listen
    try:
        _try_to_listen(host, port)
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        text = (
            f"{host} port {port} cannot be had: {reason}: where the running gateway has it, capture the"
            " source there, by 'captures' in its configuration"
        )
        raise CommandError(ExitCode.ADDRESS_IN_USE, text) from error


_ADVICE: Final = {
    errno.EACCES: "choose a port from 1024 on, or run it as a service (amqp-gateway systemd)",
    errno.EADDRNOTAVAIL: "this machine has no such address: choose one that it has under 'listen'",
}


def _try_to_listen(host: str, port: int) -> None:
    is_version_6 = ipaddress.ip_address(host.partition("%")[0]).version == 6  # noqa: PLR2004  that is its name
    family = socket.AF_INET6 if is_version_6 else socket.AF_INET
    with socket.create_server((host, port), family=family, backlog=1):
        pass


async def _speaks_ami(host: str, port: int) -> bool:
    """Whether what listens there answers as a relay does."""
    writer = None
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(_ANY.get(host, host), port)
            writer.write(_ASK)
            return await reader.read(1) == _ANSWER
    except (OSError, TimeoutError):
        return False
    finally:
        if writer is not None:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
