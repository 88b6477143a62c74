"""The messages of SNMP version 3 that one process sends: answers, notifications, and requests to engines.

The module loads the cryptographic library. `gateway.service.processes.snmp_users` imports it where version 3
is used.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence

from gateway.snmp.processing import LARGEST_DATAGRAM
from gateway.snmp.v3.accepted_sets import AcceptedSets
from gateway.snmp.v3.ciphers import Salts
from gateway.snmp.v3.engine import Engine
from gateway.snmp.v3.notifications import SecuredInforms, SecuredTraps
from gateway.snmp.v3.remote import RemoteEngine, UserAt
from gateway.snmp.v3.responder import Version3
from gateway.snmp.v3.rights import AccessOf
from gateway.snmp.v3.security import SecurityModel
from gateway.snmp.v3.users import SecurityLevel, User

_SALT_BITS = 64


class SecuredMessages:
    """The messages of this gateway's engine; all that a process encrypts shares its salts.

    Args:
        engine: the engine.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._salts = Salts(secrets.randbits(_SALT_BITS))
        self._accepted = AcceptedSets(time.monotonic_ns)

    def version_3(self, users: Sequence[User], access: AccessOf) -> Version3:
        """Return what a responder of version 3 needs."""
        return Version3(self._engine, users, access, self._salts, self._accepted)

    def remote(self, user: UserAt, level: SecurityLevel) -> RemoteEngine:
        """Return an engine elsewhere, not known yet, to which a user sends requests."""
        return RemoteEngine(user, level, self._salts, LARGEST_DATAGRAM)

    def informs(
        self, user: UserAt, name: str, level: SecurityLevel, no_keys: Callable[[str], None]
    ) -> SecuredInforms:
        """Return the informs of a user; ``no_keys`` is called with an engine for which the user has none."""
        return SecuredInforms(self.remote(user, level), name, level, no_keys)

    def traps(self, user: User) -> SecuredTraps:
        """Return the traps of a user of this engine, at the highest level of the user."""
        model = SecurityModel(self._engine, [user], self._salts)
        return SecuredTraps(model, user.name, user.highest_level)
