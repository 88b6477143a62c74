"""The clients of SNMP while it runs: users, communities and receivers, as they are now.

The files that have them are looked at before each turn of datagrams: what `amqp-gateway snmp user` or a
reload has written holds for the next datagram.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import structlog

from gateway.config.files import LoadedConfiguration
from gateway.config.running import read_running_files
from gateway.config.secret_places import SecretError
from gateway.config.snmp import SnmpSettings
from gateway.service.state.snmp_communities import Communities, read_communities
from gateway.service.state.snmp_security import USERS, StoredKeys, read_users
from gateway.state_folder import RUNNING_FILES, StateError, StateFolder
from gateway.yaml_documents import DocumentError

log = structlog.get_logger(__name__)

_Stamp: TypeAlias = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Clients:
    """The clients at an instant.

    Attributes:
        settings: the settings of SNMP, which name them.
        communities: their communities.
        keys: the kept keys of users.
        boot: the number of starts of the core by then.
    """

    settings: SnmpSettings
    communities: Communities
    keys: Mapping[str, Sequence[StoredKeys]]
    boot: int = field(compare=False)


class ClientFiles:
    """The files with the clients of the running gateway.

    Args:
        loaded: the configuration with which the process was started.
        state: the state folder.

    Attributes:
        clients: the clients as they were read last. All that can fail about them was done then, so that other
            clients are applied whole or not at all.
        gateway: the uuid of the gateway.

    Raises:
        SecretError: a community cannot be used.
        StateError: keys, a community, or another file of the state folder cannot be read.
    """

    def __init__(self, loaded: LoadedConfiguration, state: StateFolder) -> None:
        self._loaded, self._state = loaded, state
        self._running = state.path / RUNNING_FILES
        self._paths = (str(self._running), str(state.secret_path(USERS)))
        self._stamps: tuple[_Stamp, ...] = ()
        self._has_failed = False
        self.gateway = state.identity
        self.clients = self._read(loaded.settings.snmp)

    @property
    def loaded(self) -> LoadedConfiguration:
        """The configuration with the present clients."""
        settings = self._loaded.settings.model_copy(update={"snmp": self.clients.settings})
        return replace(self._loaded, settings=settings)

    def follow(self, *, again: bool = False) -> bool:
        """Read the files if they have changed, and return whether there are other clients now.

        Where that is not possible, the clients stay as they were, which is logged.

        Args:
            again: read them also where that was not possible before.
        """
        # Two system calls, 3 µs: no signal could arrive before a datagram for certain.
        stamps = tuple(map(_stamp, self._paths))
        if stamps == self._stamps and not (again and self._has_failed):
            return False
        self._stamps = stamps
        former = self.clients
        try:
            self.clients = self._read(self._settings())
        except (SecretError, StateError, DocumentError) as error:
            if not self._has_failed:
                log.warning(
                    "snmp-clients-not-taken",
                    reason=str(error),
                    detail="users, communities and receivers are as before",
                )
            self._has_failed = True
            return False
        self._has_failed = False
        return self.clients != former

    def _settings(self) -> SnmpSettings:
        """Return the settings as the last reload has changed them."""
        started = self._loaded.settings.snmp
        # Without a gateway beside it, as when the process is started by hand, there are no copies.
        running = read_running_files(self._running) if self._loaded.copies is not None else None
        return started if running is None or running.snmp is None else started.with_clients_of(running.snmp)

    def _read(self, settings: SnmpSettings) -> Clients:
        wanted = self._loaded.settings.model_copy(update={"snmp": settings})
        communities = read_communities(replace(self._loaded, settings=wanted), self._state)
        return Clients(settings, communities, read_users(self._state), self._state.boots)


def _stamp(path: str) -> _Stamp:
    """Return what differs when a file was replaced; ``None`` where there is none."""
    try:
        found = os.stat(path)  # noqa: PTH116  a path object takes as long again
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
