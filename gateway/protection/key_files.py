"""The folder of key rings: ``NAME.private.jwks`` of own keys, mode 0600, and ``NAME.public.jwks`` of any.

The public file is handed out. A peer is trusted when its public file is in the folder, and its name in the
configuration. Files are read again when they have changed, so that rotation and revocation need no restart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import structlog

from gateway.durable_files import PRIVATE, PUBLIC, write_durably
from gateway.file_owners import as_owner, distrust, opened, owner_for_root
from gateway.model.times import SECOND
from gateway.protection.keys import (
    MAX_RING_OCTETS,
    Key,
    KeyRing,
    KeyRingError,
    Use,
    kids_of,
    read_ring,
    write_ring,
)

log = structlog.get_logger(__name__)

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_PUBLIC_ONLY: Final = 0o077
_LOOK: Final = SECOND
"""Nanoseconds between two looks at the files."""


class KeyFolder:
    """A folder of key rings."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def private_path(self, name: str) -> Path:
        """Return the path of a private ring."""
        return self.path / f"{name}.private.jwks"

    def public_path(self, name: str) -> Path:
        """Return the path of a public ring."""
        return self.path / f"{name}.public.jwks"

    def names(self) -> list[str]:
        """Return the names of all rings in the folder.

        Raises:
            KeyRingError: the folder cannot be read.
        """
        try:
            files = [file.name for file in self.path.iterdir()] if self.path.exists() else []
        except OSError as error:
            raise KeyRingError(f"{self.path}: cannot be read: {error.strerror}") from error
        suffixes = (".private.jwks", ".public.jwks")
        found = {file.removesuffix(suffix) for file in files for suffix in suffixes if file.endswith(suffix)}
        return sorted(name for name in found if NAME.fullmatch(name))

    def private(self, name: str) -> KeyRing:
        """Return a private ring.

        Raises:
            KeyRingError: it is missing, wrong, or others may read it.
        """
        path = self.private_path(name)
        ring = _read(path, f"make it with `amqp-gateway keys gen {name}`, or copy it from its owner")
        mode = path.stat().st_mode
        if mode & _PUBLIC_ONLY:
            raise KeyRingError(f"{path}: others than its owner may read private keys: chmod 600 {path}")
        return ring

    def public(self, name: str) -> KeyRing:
        """Return the public part of a ring, from its private file if that is here.

        Raises:
            KeyRingError: it is missing or wrong.
        """
        if self.private_path(name).exists():
            return self.private(name).public()
        advice = f"get it from its owner, who prints it with `amqp-gateway keys export {name}`"
        return _read(self.public_path(name), advice).public()

    def write(self, name: str, ring: KeyRing) -> None:
        """Write a ring: its private file, if it has private keys, and its public one.

        Raises:
            KeyRingError: a file cannot be written.
        """
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            with as_owner(self.path):
                if ring.is_private:
                    write_durably(self.private_path(name), write_ring(ring), PRIVATE)
                write_durably(self.public_path(name), write_ring(ring.public()), PUBLIC)
        except OSError as error:
            raise KeyRingError(f"{self.path}: cannot be written: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class KeyNames:
    """Whose keys one side of a conversation uses.

    Attributes:
        sign_as: the name whose private key signs.
        encrypt_for: the name whose key is encrypted for.
        read_as: names whose private keys open what was encrypted.
        trusted: names whose signatures are accepted.
    """

    sign_as: str
    encrypt_for: str
    read_as: tuple[str, ...]
    trusted: tuple[str, ...]


@dataclass(slots=True)
class _Loaded:
    signer: KeyRing = field(default_factory=KeyRing)
    reader: KeyRing = field(default_factory=KeyRing)
    read_keys: Mapping[str, Key] = field(default_factory=dict)
    sender_keys: Mapping[str, Key] = field(default_factory=dict)


class WatchedKeys:
    """The keys of one side, read again when a file has changed (`gateway.protection.bodies.Keys`).

    A file that cannot be read any more counts as empty: what it may have revoked is not accepted.

    Args:
        folder: the folder of key rings.
        names: whose keys are used for what.

    Attributes:
        trouble: the reason why a file counts as empty; empty where none does.

    Raises:
        KeyRingError: a file is missing or wrong.
    """

    def __init__(self, folder: KeyFolder, names: KeyNames) -> None:
        self._folder = folder
        self._names = names
        self._seen = self._look()
        self._looked_at = 0
        self._keys = self._load(strictly=True)
        self.trouble = ""

    def signing_key(self, now: int) -> Key | None:
        """Return the own key to sign with at ``now`` (nanoseconds); ``None`` if there is none."""
        self._refresh(now)
        return self._keys.signer.current(Use.SIGN, now)

    def recipient_key(self, now: int) -> Key | None:
        """Return the key to encrypt for; ``None`` if there is none."""
        self._refresh(now)
        return self._keys.reader.current(Use.READ, now)

    def read_key(self, kid: str, now: int) -> Key | None:
        """Return the private key that opens what was encrypted for it, if it is accepted."""
        self._refresh(now)
        return _accepted(self._keys.read_keys.get(kid), now)

    def sender_key(self, kid: str, now: int) -> Key | None:
        """Return the public key of a trusted sender, if it is accepted."""
        self._refresh(now)
        return _accepted(self._keys.sender_keys.get(kid), now)

    def is_of_this_side(self, kid: str, now: int) -> bool:
        """Return whether this id is that of an own key that signs, or of one that this side encrypts for."""
        self._refresh(now)
        loaded = self._keys
        return loaded.signer.find(Use.SIGN, kid) is not None or loaded.reader.find(Use.READ, kid) is not None

    def _refresh(self, now: int) -> None:
        if abs(now - self._looked_at) < _LOOK:
            return
        self._looked_at = now
        seen = self._look()
        if seen == self._seen:
            return
        self._seen = seen
        self._keys = self._load(strictly=False)
        if self.trouble:
            log.warning("keys-unreadable", detail=self.trouble)
        else:
            log.info("keys-read-again", folder=str(self._folder.path))

    def _look(self) -> list[tuple[int, ...]]:
        """Return what changes when a file does."""
        names = self._names
        looks: list[tuple[int, ...]] = []
        for name in sorted({names.sign_as, names.encrypt_for, *names.read_as, *names.trusted}):
            for path in (self._folder.private_path(name), self._folder.public_path(name)):
                try:
                    found = path.stat()
                    looks.append((found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode))
                except OSError:
                    looks.append(())
        return looks

    def _load(self, *, strictly: bool) -> _Loaded:
        self.trouble = ""
        names, folder = self._names, self._folder

        def ring(name: str, *, private: bool) -> KeyRing:
            try:
                return folder.private(name) if private else folder.public(name)
            except (KeyRingError, OSError) as error:
                if strictly:
                    raise KeyRingError(str(error)) from error
                self.trouble = str(error)
                return KeyRing()

        readers = [ring(name, private=True) for name in names.read_as]
        senders = [ring(name, private=False) for name in names.trusted]
        return _Loaded(
            ring(names.sign_as, private=True),
            ring(names.encrypt_for, private=False),
            {kid: key for kid, key in kids_of(readers, Use.READ) if key.is_private},
            dict(kids_of(senders, Use.SIGN)),
        )


def _accepted(key: Key | None, now: int) -> Key | None:
    return key if key is not None and key.is_accepted(now) else None


def _read(path: Path, advice: str) -> KeyRing:
    for place in (path.parent, path):
        if reason := distrust(place, *owner_for_root(place)):
            raise KeyRingError(f"{place}: {reason}")
    try:
        with opened(path) as file:
            return read_ring(file.read(MAX_RING_OCTETS + 1))
    except FileNotFoundError as error:
        raise KeyRingError(f"{path}: there is no such file: {advice}") from error
    except OSError as error:
        raise KeyRingError(f"{path}: cannot be read: {error.strerror}") from error
    except KeyRingError as error:
        raise KeyRingError(f"{path}: {error}") from error
