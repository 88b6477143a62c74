"""Asks the running gateway over SNMP how it is, as a container's health check does."""

from __future__ import annotations

from collections.abc import Callable

from pysnmp.hlapi.v3arch.asyncio import (
    CommunityData,
    ContextData,
    ObjectIdentity,
    ObjectType,
    SnmpEngine,
    UdpTransportTarget,
    get_cmd,
)

from gateway.config.files import LoadedConfiguration
from gateway.config.types import SecretError
from gateway.service.exit_codes import CommandError, ExitCode
from gateway.service.snmp_process import read_community, root_of
from gateway.snmp.fixed_mib import HEALTH, Health
from gateway.state_folder import StateError, StateFolder

TIMEOUT_SECONDS = 2.0
_TRUE = 1
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  where to ask, of what listens on all addresses


async def ask_health(loaded: LoadedConfiguration, tell: Callable[[str], None]) -> None:
    """Tell one line on core, sources and rows.

    Raises:
        CommandError: nothing answers, the core is not there, or a source is not synchronised.
    """
    try:
        community = read_community(loaded, StateFolder(loaded.state_folder))
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    except SecretError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    scalars = (
        Health.FEED_CONNECTED,
        Health.SOURCES,
        Health.SOURCES_SYNCHRONISED,
        Health.ROWS,
        Health.ROWS_STALE,
    )
    connected, sources, synchronised, rows, stale = await _read(loaded, community, scalars)
    tell(f"{synchronised} of {sources} sources synchronised, {rows} rows, {stale} of them stale")
    if connected != _TRUE:
        raise CommandError(ExitCode.UNREACHABLE, "the core is not running: see its log")
    if synchronised < sources:
        raise CommandError(
            ExitCode.UNREACHABLE, "not every source is synchronised: walk agSourceTable for the reasons"
        )


async def _read(loaded: LoadedConfiguration, community: str, scalars: tuple[Health, ...]) -> list[int]:
    host, port = loaded.settings.snmp.listen[0]
    base = (*root_of(loaded.settings.snmp.root), *HEALTH)
    engine = SnmpEngine()
    try:
        target = await UdpTransportTarget.create(
            (_ANY.get(host, host), port), timeout=TIMEOUT_SECONDS, retries=1
        )
        error, status, _, varbinds = await get_cmd(
            engine,
            CommunityData(community),
            target,
            ContextData(),
            *(ObjectType(ObjectIdentity((*base, scalar, 0))) for scalar in scalars),
            lookupMib=False,
        )
    finally:
        engine.close_dispatcher()
    if error or status:
        raise CommandError(
            ExitCode.UNREACHABLE, f"SNMP {host}:{port}: {error or status}: is `amqp-gateway run` running?"
        )
    return [int(value) for _, value in varbinds]
