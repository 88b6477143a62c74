"""Asks the running gateway over SNMP how it is, as a container's health check does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pysnmp.hlapi.v3arch.asyncio import (
    CommunityData,
    ContextData,
    ObjectIdentity,
    ObjectType,
    SnmpEngine,
    UdpTransportTarget,
    get_cmd,
)
from pysnmp.proto.rfc1905 import NoSuchInstance, NoSuchObject

from gateway.config.files import LoadedConfiguration
from gateway.config.types import SecretError
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.snmp import read_community, root_of
from gateway.snmp.ber import Oid
from gateway.snmp.fixed_mib import HEALTH, LOG, Health, LogScalar, LogStateNumber
from gateway.state_folder import StateError, StateFolder

TIMEOUT_SECONDS = 2.0
_LOG_SCALARS = (LogScalar.STATE, LogScalar.DETAIL, LogScalar.WAITING, LogScalar.LOST)
_TRUE = 1
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  where to ask, of what listens on all addresses


async def ask_health(loaded: LoadedConfiguration, tell: Callable[[str], None]) -> None:
    """Tell one line on core, sources and rows, and one on the event log.

    The log's trouble is told and is no failure: to restart a gateway because of it would not help.

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
    names = [(*HEALTH, scalar) for scalar in scalars] + [(*LOG, scalar) for scalar in _LOG_SCALARS]
    values = await _read(loaded, community, names)
    connected, sources, synchronised, rows, stale = map(int, values[: len(scalars)])
    tell(f"{synchronised} of {sources} sources synchronised, {rows} rows, {stale} of them stale")
    tell(_log_line(*values[len(scalars) :]))
    if connected != _TRUE:
        raise CommandError(ExitCode.UNREACHABLE, "the core is not running: see its log")
    if synchronised < sources:
        raise CommandError(
            ExitCode.UNREACHABLE, "not every source is synchronised: walk agSourceTable for the reasons"
        )


def _log_line(state: Any, detail: Any, waiting: Any, lost: Any) -> str:  # noqa: ANN401  pysnmp's values
    word = LogStateNumber(int(state)).name.lower().replace("_", "-")
    if isinstance(detail, NoSuchInstance | NoSuchObject):
        return f"event log: {word}"
    line = f"event log: {word}, {int(waiting)} records waiting, {int(lost)} lost"
    return f"{line}: {detail}" if str(detail) else line


async def _read(loaded: LoadedConfiguration, community: str, names: Sequence[Oid]) -> list[Any]:
    """The scalars of these names below the root."""
    host, port = loaded.settings.snmp.listen[0]
    root = root_of(loaded.settings.snmp.root)
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
            *(ObjectType(ObjectIdentity((*root, *name, 0))) for name in names),
            lookupMib=False,
        )
    finally:
        engine.close_dispatcher()
    if error or status:
        raise CommandError(
            ExitCode.UNREACHABLE, f"SNMP {host}:{port}: {error or status}: is `amqp-gateway run` running?"
        )
    return [value for _, value in varbinds]
