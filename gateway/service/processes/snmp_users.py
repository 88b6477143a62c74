"""The users of SNMP version 3: their keys, and the engines that know them."""

from __future__ import annotations

import asyncio
import importlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import structlog

from gateway.clock import Clock
from gateway.config.files import LoadedConfiguration
from gateway.config.snmp import SnmpSettings
from gateway.service.state.snmp_security import (
    StoredEngine,
    StoredKeys,
    enterprise_of,
    note_engine,
    read_engine,
    read_users,
    start_engine,
    stored_user,
)
from gateway.snmp.ber import parse_oid
from gateway.snmp.notifications.secured import NoKeysError, Secured
from gateway.snmp.requests import NextVersion
from gateway.snmp.v3.engine import Engine
from gateway.snmp.v3.rights import AccessOf
from gateway.snmp.v3.users import SecurityLevel, User
from gateway.state_folder import StateError, StateFolder

if TYPE_CHECKING:
    from gateway.service.processes.snmp_messages import SecuredMessages
    from gateway.snmp.v3.notifications import SecuredInforms
    from gateway.snmp.v3.remote import RemoteEngine

log = structlog.get_logger(__name__)

NOTE_SECONDS = 5.0
"""Seconds after which it is tried again to note a start that the disk did not take."""

LEVELS: Mapping[str, SecurityLevel] = {
    "noAuthNoPriv": SecurityLevel.NO_AUTH_NO_PRIV,
    "authNoPriv": SecurityLevel.AUTH_NO_PRIV,
    "authPriv": SecurityLevel.AUTH_PRIV,
}
"""The security levels by their names in the configuration."""


class SnmpSecurity:
    """The engine of this gateway, and the users of the configuration.

    Args:
        engine: the engine.
        stored: what is kept of it, with this start.
        settings: the settings of SNMP, with the users.
        keys: the kept keys of each user, for this engine and others.

    Attributes:
        engine: the engine.
        users: the users who can log in, by their names.
        refused: why the others cannot, and what to do, by their names.
        missing: the engines for which keys are missing.
    """

    def __init__(
        self,
        engine: Engine,
        stored: StoredEngine,
        settings: SnmpSettings,
        keys: Mapping[str, Sequence[StoredKeys]],
    ) -> None:
        self.engine = engine
        self._stored = stored
        self.missing = MissingKeys()
        self._late: SecuredMessages | None = None
        self._informs: dict[tuple[str, str], SecuredInforms] = {}
        self.refused: dict[str, str] = {}
        self.change(settings, keys)

    def change(self, settings: SnmpSettings, keys: Mapping[str, Sequence[StoredKeys]]) -> None:
        """Use other users and keys from now on; the engine, and what was proved of others, stay."""
        former = self.refused
        self.users, self.refused = users_of(settings, keys, self.engine.engine_id.hex())
        self._keys = keys
        self._permit_weak = settings.weak_algorithms
        for (_, user), informs in self._informs.items():
            informs.use(self._kept(user), self._level(user))
        for name, reason in self.refused.items() - former.items():
            log.warning("snmp-user-cannot-log-in", user=name, reason=reason)

    async def note_start(self, state: StateFolder) -> None:
        """Note this start as soon as the disk takes it, where it could not when the engine started."""
        while True:
            try:
                was_owed = note_engine(state, self._stored)
            except StateError:
                await asyncio.sleep(NOTE_SECONDS)
            else:
                break
        if was_owed:
            log.info("start-noted", start=self._stored.boots)

    def version_3(self, access: AccessOf) -> NextVersion:
        """Return what a responder of version 3 needs."""
        return self._messages().version_3(tuple(self.users.values()), access)

    def remote(self, user: str) -> RemoteEngine:
        """Return an engine, not known yet, to which a user sends requests with the keys that are kept.

        The level is the highest of the user's here. A user who has no keys for that engine raises
        `NoKeysError` when it is known.
        """
        return self._messages().remote(self._kept(user), self._level(user))

    def sender(self, receiver: str, user: str, *, informs: bool) -> Secured:
        """Return what encloses the notifications of a receiver.

        Args:
            receiver: the name of the receiver, for the log.
            user: the user who sends them.
            informs: whether they are informs.

        Raises:
            NoKeysError: the user cannot log in, so no trap can be sent.
        """
        if informs:
            found = self._informs.get((receiver, user))
            if found is None:
                no_keys = partial(self.missing.report, receiver, user)
                found = self._messages().informs(self._kept(user), user, self._level(user), no_keys)
                self._informs[receiver, user] = found
            return found
        if user not in self.users:
            raise NoKeysError(f"snmp.users.{user}: {self.refused[user]}")
        return self._messages().traps(self.users[user])

    def _kept(self, user: str) -> KeptKeys:
        return KeptKeys(user, self._keys.get(user, ()), permit_weak=self._permit_weak)

    def _level(self, user: str) -> SecurityLevel:
        found = self.users.get(user)
        return SecurityLevel.AUTH_PRIV if found is None else found.highest_level

    def _messages(self) -> SecuredMessages:
        # The cryptographic library takes 6 MB, so it is imported where version 3 is used only.
        if self._late is None:
            late = importlib.import_module("gateway.service.processes.snmp_messages")
            self._late = late.SecuredMessages(self.engine)
        return self._late


def start_security(
    loaded: LoadedConfiguration, state: StateFolder, clock: Clock, start: int | None
) -> SnmpSecurity:
    """Count a start of the engine, and return it with its users.

    A user without usable keys is left out, with a line in the log that says what to do: the others, and
    managers of other versions, should not have to wait for it.

    Raises:
        StateError: engine or keys cannot be read or written.
    """
    settings = loaded.settings.snmp
    stored = start_engine(state, enterprise_of(parse_oid(settings.root)), clock.now(), start)
    return _security(settings, state, stored, time.monotonic_ns())


def running_security(loaded: LoadedConfiguration, state: StateFolder, clock: Clock) -> SnmpSecurity:
    """Return engine and users as the running gateway has them, for a command beside it.

    Raises:
        StateError: engine or keys cannot be read.
    """
    settings = loaded.settings.snmp
    stored = read_engine(state, enterprise_of(parse_oid(settings.root)))
    age = max(0, clock.now() - stored.started) if stored.started else 0
    return _security(settings, state, _begun(stored), time.monotonic_ns() - age)


def _begun(stored: StoredEngine) -> StoredEngine:
    """Return an engine that has started at least once: before, a command is its first start."""
    return stored if stored.boots else stored.model_copy(update={"boots": 1})


def _security(settings: SnmpSettings, state: StateFolder, stored: StoredEngine, started: int) -> SnmpSecurity:
    engine = Engine(bytes.fromhex(stored.engine_id), stored.boots, time.monotonic_ns, started)
    return SnmpSecurity(engine, stored, settings, read_users(state))


def users_of(
    settings: SnmpSettings, keys: Mapping[str, Sequence[StoredKeys]], engine_id: str
) -> tuple[dict[str, User], dict[str, str]]:
    """Return the configured users who can log in; and why the others cannot, and what to do.

    Args:
        settings: the configured users.
        keys: the kept keys of users.
        engine_id: this gateway's, in hexadecimal digits.
    """
    users: dict[str, User] = {}
    refused: dict[str, str] = {}
    for name, user in settings.users.items():
        own = next((each for each in keys.get(name, ()) if each.engine_id == engine_id), None)
        level = LEVELS[user.level]
        try:
            if own is not None:
                users[name] = _with_keys(name, own, level, permit_weak=settings.weak_algorithms)
            elif level is SecurityLevel.NO_AUTH_NO_PRIV:
                users[name] = User(name, minimum=level)
            else:
                refused[name] = f"has no keys for this gateway: run `amqp-gateway snmp user add {name}`"
        except ValueError as error:
            refused[name] = str(error)
    return users, refused


def _with_keys(name: str, keys: StoredKeys, level: SecurityLevel, *, permit_weak: bool) -> User:
    """Return a user with kept keys. Raises ``ValueError`` with what to do where they cannot be used."""
    again = f"run `amqp-gateway snmp user add {name}` again"
    try:
        user = stored_user(name, keys, SecurityLevel.NO_AUTH_NO_PRIV)
    except ValueError as error:
        raise ValueError(f"{error}: {again}") from error
    weak = [each.name for each in (user.authentication, user.privacy) if each is not None and each.is_weak]
    if weak and not permit_weak:
        raise ValueError(f"{weak[0]} is weak: {again}, or set snmp.weak_algorithms")
    if user.highest_level < level:
        raise ValueError(f"the keys are without privacy: {again}, or set the user's level to authNoPriv")
    return replace(user, minimum=level)


class KeptKeys:
    """A user with the keys that are kept for engines elsewhere (`gateway.snmp.v3.remote.UserAt`)."""

    def __init__(self, name: str, keys: Sequence[StoredKeys], *, permit_weak: bool) -> None:
        self._name = name
        self._keys = {each.engine_id: each for each in keys}
        self._permit_weak = permit_weak

    def at(self, engine_id: bytes, minimum: SecurityLevel | None = None) -> User:
        """Return the user with keys for an engine. Raises `NoKeysError` where none can be used."""
        level = SecurityLevel.NO_AUTH_NO_PRIV if minimum is None else minimum
        keys = self._keys.get(engine_id.hex())
        try:
            if keys is not None:
                return _with_keys(self._name, keys, level, permit_weak=self._permit_weak)
            if level is SecurityLevel.NO_AUTH_NO_PRIV:
                return User(self._name, minimum=level)
        except ValueError:
            pass
        raise NoKeysError(engine_id.hex())


class MissingKeys:
    """The engines of receivers for which a user has no keys, each logged once.

    An engine that was named is not authentic: a forged answer may name any, so there is a limit.

    Attributes:
        commands: the commands that make the keys.
    """

    LIMIT = 10

    def __init__(self) -> None:
        self.commands: list[str] = []

    def report(self, receiver: str, user: str, engine_id: str) -> None:
        """Take a user without keys for the engine of a receiver."""
        command = f"amqp-gateway snmp user add {user} --engine-id 0x{engine_id}"
        if command not in self.commands and len(self.commands) < self.LIMIT:
            self.commands.append(command)
            log.warning("snmp-receiver-needs-keys", receiver=receiver, user=user, detail=f"run `{command}`")
