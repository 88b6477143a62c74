"""The users of SNMP version 3: their keys, their rights in each context, and the engine that they know."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.config.snmp import SnmpSettings
from gateway.service.state.snmp_security import (
    StoredKeys,
    enterprise_of,
    read_users,
    start_engine,
    stored_user,
)
from gateway.snmp.ber import parse_oid
from gateway.snmp.processing import Access
from gateway.snmp.store import MibView, SourceView, Store
from gateway.snmp.v3.ciphers import Salts
from gateway.snmp.v3.engine import Engine
from gateway.snmp.v3.responder import NoAccess, Version3
from gateway.snmp.v3.users import SecurityLevel, User
from gateway.state_folder import StateFolder

log = structlog.get_logger(__name__)

LEVELS: Mapping[str, SecurityLevel] = {
    "noAuthNoPriv": SecurityLevel.NO_AUTH_NO_PRIV,
    "authNoPriv": SecurityLevel.AUTH_NO_PRIV,
    "authPriv": SecurityLevel.AUTH_PRIV,
}
"""The security levels by their names in the configuration."""

_SALT_BITS = 64


def version_3(
    loaded: LoadedConfiguration, state: StateFolder, clock: Clock, access: UserAccess
) -> Version3 | None:
    """Count a start of the engine, and return it with its users; ``None`` where version 3 is not configured.

    A user without usable keys is left out, with a line in the log that says what to do: the others, and
    managers of other versions, should not have to wait for it.

    Raises:
        StateError: engine or keys cannot be read or written.
    """
    settings = loaded.settings.snmp
    if "v3" not in settings.versions or not settings.users:
        return None
    stored = start_engine(state, enterprise_of(parse_oid(settings.root)), clock.now())
    users = []
    for name, outcome in users_of(settings, read_users(state), stored.engine_id).items():
        if isinstance(outcome, User):
            users.append(outcome)
        else:
            log.warning("snmp-user-cannot-log-in", user=name, reason=outcome)
    engine = Engine(bytes.fromhex(stored.engine_id), stored.boots, time.monotonic_ns)
    return Version3(engine, users, access, Salts(secrets.randbits(_SALT_BITS)), time.monotonic_ns)


def users_of(
    settings: SnmpSettings, keys: Mapping[str, Sequence[StoredKeys]], engine_id: str
) -> dict[str, User | str]:
    """Return each configured user; in place of one who cannot log in, the reason and what to do.

    Args:
        settings: the configured users.
        keys: the kept keys of users.
        engine_id: this gateway's, in hexadecimal digits.
    """
    found: dict[str, User | str] = {}
    for name, user in settings.users.items():
        own = next((each for each in keys.get(name, ()) if each.engine_id == engine_id), None)
        level = LEVELS[user.level]
        if own is None and level is SecurityLevel.NO_AUTH_NO_PRIV:
            found[name] = User(name, minimum=level)
        elif own is None:
            found[name] = f"has no keys for this gateway: run `amqp-gateway snmp user add {name}`"
        else:
            found[name] = _with_keys(name, own, level, permit_weak=settings.weak_algorithms)
    return found


def _with_keys(name: str, keys: StoredKeys, level: SecurityLevel, *, permit_weak: bool) -> User | str:
    again = f"run `amqp-gateway snmp user add {name}` again"
    try:
        user = stored_user(name, keys, SecurityLevel.NO_AUTH_NO_PRIV)
    except ValueError as error:
        return f"{error}: {again}"
    weak = [each.name for each in (user.authentication, user.privacy) if each is not None and each.is_weak]
    if weak and not permit_weak:
        return f"{weak[0]} is weak: {again}, or set snmp.weak_algorithms"
    if user.highest_level < level:
        return f"the keys are without privacy: {again}, or set the user's level to authNoPriv"
    return stored_user(name, keys, level)


class UserAccess:
    """The rights of users: the default context has everything, that of a source what is of the source.

    Args:
        store: what readers see.
        users: the view of each user in the default context, and whether the user may send SET.
        sources: the names of the configured sources.
        number: returns the number of a source; ``None`` while it is not known.
    """

    def __init__(
        self,
        store: Store,
        users: Mapping[str, Access],
        sources: Iterable[str],
        number: Callable[[str], int | None],
    ) -> None:
        self._store = store
        self._users = users
        self._sources = frozenset(source.encode() for source in sources)
        self._number = number
        self._views: dict[int, MibView] = {}

    def __call__(self, user: str, level: SecurityLevel, context: bytes) -> Access | NoAccess:
        """Return the rights of a user in a context (`gateway.snmp.v3.responder.AccessOf`)."""
        del level  # what is below the user's lowest was refused before
        if not context:
            return self._users[user]
        if context not in self._sources:
            return NoAccess.UNKNOWN_CONTEXT
        number = self._number(context.decode())
        if number is None:
            return NoAccess.UNAVAILABLE_CONTEXT
        view = self._views.get(number)
        if view is None:
            view = self._views[number] = SourceView(self._store, number)
        return Access(view)
