"""Asks whether the JMX agent takes connections: the greeting of RMI, without a login."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from gateway.config.files import LoadedConfiguration
from gateway.service.processes.exit_codes import CommandError, ExitCode

TIMEOUT_SECONDS = 2.0

_GREETING = b"JRMI\x00\x02\x4b"
_ACKNOWLEDGED = b"\x4e"
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  where to ask, of what listens on all addresses


async def ask_jmx_health(loaded: LoadedConfiguration, tell: Callable[[str], None]) -> None:
    """Tell one line on the JMX agent.

    Raises:
        CommandError: nothing answers, or something else does.
    """
    host, port = loaded.settings.jmx.listen
    where = f"JMX {host}:{port}"
    try:
        answers = await greets(host, port)
    except OSError as error:
        raise CommandError(
            ExitCode.UNREACHABLE, f"{where}: {error.strerror or error}: is `amqp-gateway run` running?"
        ) from error
    if not answers:
        raise CommandError(
            ExitCode.UNREACHABLE, f"{where}: what listens there is no JMX agent: see the log of the gateway"
        )
    tell(f"{where} takes connections")


async def greets(host: str, port: int) -> bool:
    """Whether what listens there is an RMI server (Java RMI specification, section 10.2: the protocol).

    Raises:
        OSError: nothing listens there.
    """
    async with asyncio.timeout(TIMEOUT_SECONDS):
        reader, writer = await asyncio.open_connection(_ANY.get(host, host), port)
    try:
        async with asyncio.timeout(TIMEOUT_SECONDS):
            writer.write(_GREETING)
            await writer.drain()
            return await reader.read(1) == _ACKNOWLEDGED
    except (ConnectionError, TimeoutError):
        return False
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
