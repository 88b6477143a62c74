"""What SNMP version 3 keeps in the state folder: the engine's id and boots, and the keys of users.

``snmp-engine.json`` has the id, by which managers and receivers know this engine, and the number of its
starts (RFC 3414 section 2.2). ``secrets/snmp-users.json`` has the keys of users, localised to the engines
with which they are used (RFC 3414 section 2.6); a passphrase is never written.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeVar

import structlog
from pydantic import Field, ValidationError

from gateway.durable_files import create_durably, has_content, write_durably
from gateway.file_owners import as_owner, reason_of
from gateway.snmp.ber import Oid
from gateway.snmp.v3.algorithms import AUTHENTICATION_PROTOCOLS, PRIVACY_PROTOCOLS
from gateway.snmp.v3.engine import MAX_COUNT, RANDOM_OCTETS, new_engine_id, next_boots
from gateway.snmp.v3.users import SecurityLevel, User
from gateway.starts import ENGINE, RESTORE
from gateway.state_folder import StateError, StateFolder
from gateway.yaml_documents import StrictModel

log = structlog.get_logger(__name__)

USERS = "snmp-users.json"
"""The name of the secret with the keys of users."""

EngineId = Annotated[str, Field(pattern="^([0-9a-f]{2}){5,32}$")]
"""An engine id of 5 to 32 bytes in hexadecimal digits (RFC 3411 section 5, SnmpEngineID)."""

_Key = Annotated[str, Field(pattern="^([0-9a-f]{2}){0,64}$", repr=False)]
_MAX_USERS = 1000
_MAX_ENGINES = 100
_ENTERPRISES: Oid = (1, 3, 6, 1, 4, 1)
_NET_SNMP = 8072


class StoredEngine(StrictModel):
    """The identity of this gateway's SNMP engine.

    Attributes:
        version: the version of the file.
        engine_id: snmpEngineID.
        boots: snmpEngineBoots at its last start; 0 before the first.
        started: the time of its last start, nanoseconds since 1970; 0 before the first.
    """

    version: Literal[1] = 1
    engine_id: EngineId
    boots: Annotated[int, Field(ge=0, le=MAX_COUNT)] = 0
    started: Annotated[int, Field(ge=0)] = 0


class StoredKeys(StrictModel):
    """The keys of one user with one engine.

    Attributes:
        engine_id: the engine to which they are localised: this gateway's, or that of a receiver of informs.
        authentication: the name of the authentication protocol; empty for none.
        authentication_key: its localised key, hexadecimal.
        privacy: the name of the privacy protocol; empty for none.
        privacy_key: its localised key, extended to the length of the cipher's, hexadecimal.
    """

    engine_id: EngineId
    authentication: str = ""
    authentication_key: _Key = ""
    privacy: str = ""
    privacy_key: _Key = ""


class _StoredUsers(StrictModel):
    version: Literal[1] = 1
    users: Annotated[
        dict[str, Annotated[tuple[StoredKeys, ...], Field(max_length=_MAX_ENGINES)]],
        Field(max_length=_MAX_USERS),
    ] = Field(default_factory=dict)


def enterprise_of(root: Oid) -> int:
    """Return the private enterprise number below which ``root`` is; net-snmp's for a root below none.

    The default root is below net-snmp's, too, in the arc for experiments.
    """
    is_enterprise = root[: len(_ENTERPRISES)] == _ENTERPRISES and len(root) > len(_ENTERPRISES)
    return root[len(_ENTERPRISES)] if is_enterprise else _NET_SNMP


def read_engine(state: StateFolder, enterprise: int) -> StoredEngine:
    """Return the engine of this state folder, made with a new id if there is none yet.

    Args:
        state: the state folder.
        enterprise: the private enterprise number with which a new id begins.

    Raises:
        StateError: the file cannot be read or made.
    """
    path = state.path / ENGINE
    try:
        if not has_content(path):
            engine_id = new_engine_id(enterprise, secrets.token_bytes(RANDOM_OCTETS))
            with as_owner(state.path):
                create_durably(path, _text(StoredEngine(engine_id=engine_id.hex())))
        return _read(path, StoredEngine)
    except OSError as error:
        raise StateError(f"{path}: cannot be used: {reason_of(error, state.path)}") from error


def start_engine(state: StateFolder, enterprise: int, now: int, reserved: int | None = None) -> StoredEngine:
    """Count a start of the engine; the new number of boots is on the disk before this returns.

    Only the holder of the state folder's lock may call it: two engines of one id would answer each other's
    requests out of time.

    Args:
        state: the state folder.
        enterprise: as of `read_engine`.
        now: nanoseconds since 1970.
        reserved: the boots that the supervisor has reserved for this start (`gateway.starts`), which need not
            be on the disk; ``None`` without a supervisor.

    Raises:
        StateError: the file cannot be read or, without reserved boots, not written.
    """
    stored = read_engine(state, enterprise)
    started = stored.model_copy(update={"boots": reserved or next_boots(stored.boots, now), "started": now})
    try:
        note_engine(state, started)
    except StateError as error:
        if reserved is None:
            raise
        log.warning("start-not-noted", start=reserved, reason=str(error))
    return started


def note_engine(state: StateFolder, started: StoredEngine) -> bool:
    """Note a start of the engine, which is on the disk when this returns.

    Returns:
        Whether it was not noted before.

    Raises:
        StateError: the file cannot be read or written.
    """
    path = state.path / ENGINE
    try:
        is_owed = _read(path, StoredEngine) != started
        if is_owed:
            write_durably(path, _text(started))
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {reason_of(error, state.path)}") from error
    return is_owed


def read_users(state: StateFolder) -> Mapping[str, Sequence[StoredKeys]]:
    """Return the keys of each user; none if no user was ever added.

    Raises:
        StateError: the file cannot be read.
    """
    path = state.secret_path(USERS)
    try:
        return _read(path, _StoredUsers).users
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {reason_of(error, state.path)}") from error


def write_user(state: StateFolder, name: str, keys: Sequence[StoredKeys]) -> None:
    """Replace the keys of one user; without keys the user is removed.

    Raises:
        StateError: the file cannot be read or written.
    """
    users = {each: tuple(kept) for each, kept in read_users(state).items() if each != name}
    if keys:
        users[name] = tuple(keys)
    path = state.secret_path(USERS)
    try:
        with as_owner(state.path):
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_durably(path, _text(_StoredUsers(users=users)))
    except OSError as error:
        raise StateError(f"{path}: cannot be written: {reason_of(error, state.path)}") from error
    except ValidationError as error:
        raise StateError(f"{path}: has room for {_MAX_USERS} users: remove one first") from error


def stored_keys(user: User, engine_id: bytes) -> StoredKeys:
    """Return what is kept of a user at an engine."""
    return StoredKeys(
        engine_id=engine_id.hex(),
        authentication="" if user.authentication is None else user.authentication.name,
        authentication_key=user.authentication_key.hex(),
        privacy="" if user.privacy is None else user.privacy.name,
        privacy_key=user.privacy_key.hex(),
    )


def stored_user(name: str, keys: StoredKeys, minimum: SecurityLevel | None) -> User:
    """Return a user with keys that were kept.

    Raises:
        ValueError: a protocol is not known, or a key has not its length.
    """
    for protocol, known in (
        (keys.authentication, AUTHENTICATION_PROTOCOLS),
        (keys.privacy, PRIVACY_PROTOCOLS),
    ):
        if protocol and protocol not in known:
            raise ValueError(f"user {name!r}: the protocol {protocol!r} is not known to this gateway")
    return User(
        name,
        AUTHENTICATION_PROTOCOLS.get(keys.authentication),
        bytes.fromhex(keys.authentication_key),
        PRIVACY_PROTOCOLS.get(keys.privacy),
        bytes.fromhex(keys.privacy_key),
        minimum,
    )


_File = TypeVar("_File", StoredEngine, _StoredUsers)


def _read(path: Path, model: type[_File]) -> _File:
    try:
        return model.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise StateError(f"{path}: is damaged, or of a newer gateway: {RESTORE}") from error


def _text(stored: StrictModel) -> str:
    return f"{stored.model_dump_json(indent=1)}\n"
