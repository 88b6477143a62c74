"""Keys of protected bodies: pairs of Ed25519 that sign and of X25519 that are encrypted for, as a JWK Set.

A key ring is all keys of one name (RFC 7517 section 5, RFC 8037). Each key has the times from which and until
which it is used, so that a new key can be handed out before it is used, and bodies under the old one are
accepted for a while. The members ``nbf``, ``exp`` and ``revoked`` are those of OpenID Federation 1.0
(section 8.7), in seconds since 1970.
"""

from __future__ import annotations

import binascii
import enum
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import msgspec
from joserfc.errors import JoseError
from joserfc.jwk import KeyParameters, OKPKey

from gateway.model.times import SECOND

KID_CHARACTERS: Final = 16
"""The length of a key id: the first 96 bits of the key's thumbprint (RFC 7638), in base64url."""
MAX_KEYS: Final = 64
"""Keys of one ring."""
MAX_RING_OCTETS: Final = 1 << 16
"""The largest file of a ring, in bytes."""


class Use(enum.StrEnum):
    """The use of a key, as the JWK member ``use`` has it."""

    SIGN = "sig"
    READ = "enc"


_CURVES: Final = {Use.SIGN: "Ed25519", Use.READ: "X25519"}
_MATERIAL: Final = ("kty", "crv", "x", "d")
_ALGORITHMS: Final = {Use.SIGN: "Ed25519", Use.READ: "ECDH-ES"}


class KeyRingError(Exception):
    """Keys cannot be used; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Key:
    """One key; the private part is there where its owner's file was read.

    Attributes:
        kid: the key id.
        use: whether it signs, or is encrypted for.
        not_before: nanoseconds since 1970 from which its owner signs with it, or is encrypted for by it.
        not_after: nanoseconds from which it is not accepted any more; 0: always.
        revoked_at: nanoseconds at which it was revoked; 0: it was not.
        jwk: the key material.
    """

    kid: str
    use: Use
    not_before: int
    not_after: int
    revoked_at: int
    jwk: OKPKey = field(repr=False, compare=False)

    @property
    def is_private(self) -> bool:
        """Whether the private part is known."""
        return self.jwk.is_private

    def is_accepted(self, now: int) -> bool:
        """Return whether bodies under this key are accepted at ``now``.

        A key is accepted before its time: the clock of its owner may be ahead.
        """
        return not self.revoked_at and not (self.not_after and now >= self.not_after)

    def is_used(self, now: int) -> bool:
        """Return whether new bodies may be made with this key at ``now``."""
        return self.is_accepted(now) and now >= self.not_before


@dataclass(frozen=True, slots=True)
class KeyRing:
    """All keys of one name, the newest last."""

    keys: tuple[Key, ...] = ()

    @property
    def is_private(self) -> bool:
        """Whether the private part of any key is in it."""
        return any(key.is_private for key in self.keys)

    def current(self, use: Use, now: int) -> Key | None:
        """Return the key to make new bodies with: the one whose time began last, the newest of several."""
        used = [key for key in reversed(self.keys) if key.use is use and key.is_used(now)]
        return max(used, key=lambda key: key.not_before, default=None)

    def find(self, use: Use, kid: str) -> Key | None:
        """Return the key with this id, whether or not it is accepted."""
        return next((key for key in self.keys if key.kid == kid and key.use is use), None)

    def public(self) -> KeyRing:
        """Return the ring without private parts."""
        return KeyRing(tuple(replace(key, jwk=_public(key.jwk, key.use)) for key in self.keys))


def generated(uses: Iterable[Use], starts: int = 0) -> KeyRing:
    """Return a new ring with one key pair for each use, which are used from ``starts`` (nanoseconds) on.

    The first keys of a name need no such time: the clock of a peer may be behind.
    """
    return KeyRing(tuple(_new_key(use, starts) for use in uses))


def rotated(ring: KeyRing, now: int, starts: int, overlap: int) -> KeyRing:
    """Return the ring with a new key for each use, and without keys that have expired.

    Args:
        ring: the private ring.
        now: nanoseconds since 1970.
        starts: nanoseconds since 1970 from which the new keys are used.
        overlap: nanoseconds after ``starts`` in which the former keys are still accepted.

    Raises:
        KeyRingError: the ring has no key to replace, or too many.
    """
    uses = sorted({key.use for key in ring.keys if key.is_private})
    if not uses:
        raise KeyRingError("has no private key: only the owner of keys can rotate them")
    end = _whole_seconds(starts + overlap)
    kept = [
        replace(key, not_after=min(key.not_after or end, end))
        for key in ring.keys
        if key.revoked_at or key.is_accepted(now)
    ]
    return _checked(KeyRing((*kept, *(_new_key(use, starts) for use in uses))))


def revoked(ring: KeyRing, kid: str, now: int) -> KeyRing:
    """Return the ring with one key revoked; it is not accepted any more, whatever its times are.

    Raises:
        KeyRingError: the ring has no such key.
    """
    if not any(key.kid == kid for key in ring.keys):
        known = ", ".join(key.kid for key in ring.keys) or "none"
        raise KeyRingError(f"has no key {kid!r}; its keys are: {known}")
    keys = (
        replace(key, revoked_at=key.revoked_at or _whole_seconds(now)) if key.kid == kid else key
        for key in ring.keys
    )
    return KeyRing(tuple(keys))


def imported(known: KeyRing, ring: KeyRing, now: int) -> KeyRing:
    """Return the public ring of a peer with the keys of another file of it.

    No key is removed but those that have expired, and one that was revoked here stays so, also where the
    file, which may be older, says nothing of it. A key that is known has the times of the file.

    Args:
        known: the public ring so far; an empty one where there is none.
        ring: the ring in the file.
        now: nanoseconds since 1970.

    Raises:
        KeyRingError: the file has private keys, no keys, or too many.
    """
    if ring.is_private:
        raise KeyRingError(
            "has private keys, which are their owner's only: get what `amqp-gateway keys export NAME` prints,"
            " and have its owner make new keys with `amqp-gateway keys rotate` if this file was sent"
        )
    if not ring.keys:
        raise KeyRingError("has no keys")
    revoked_at = {key.kid: key.revoked_at for key in known.keys if key.revoked_at}
    taken = {key.kid for key in ring.keys}
    kept = [key for key in known.keys if key.kid not in taken and (key.revoked_at or key.is_accepted(now))]
    new = [replace(key, revoked_at=revoked_at.get(key.kid, key.revoked_at)) for key in ring.keys]
    return _checked(KeyRing((*kept, *new)))


class _Revocation(msgspec.Struct):
    revoked_at: int


class _Jwk(msgspec.Struct, omit_defaults=True):
    """A key as its file has it; other members are ignored (RFC 7517 section 4)."""

    kty: Literal["OKP"]
    crv: Literal["Ed25519", "X25519"]
    use: Use
    kid: str
    x: str
    alg: str = ""
    nbf: int = 0
    exp: int = 0
    revoked: _Revocation | None = None
    d: str | None = None


class _JwkSet(msgspec.Struct):
    keys: list[_Jwk]


def read_ring(text: bytes) -> KeyRing:
    """Return the ring in a JWK Set.

    Raises:
        KeyRingError: it is no such set, or a key in it is wrong.
    """
    if len(text) > MAX_RING_OCTETS:
        raise KeyRingError(f"has {len(text)} bytes, a set of keys at most {MAX_RING_OCTETS}")
    try:
        found = msgspec.json.decode(text, type=_JwkSet)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise KeyRingError(f"is no set of keys as `amqp-gateway keys gen` makes it: {error}") from error
    return _checked(KeyRing(tuple(_read_key(jwk) for jwk in found.keys)))


def write_ring(ring: KeyRing) -> str:
    """Return the ring as a JWK Set, with the private parts that it has."""
    return json.dumps({"keys": list(map(_members, ring.keys))}, indent=1) + "\n"


def _read_key(jwk: _Jwk) -> Key:
    if jwk.crv != _CURVES[jwk.use]:
        raise KeyRingError(
            f"key {jwk.kid[:40]!r} is of {jwk.crv}, which is not for the use {jwk.use.value!r}"
        )
    members: dict[str, str | list[str]] = {"kty": jwk.kty, "crv": jwk.crv, "x": jwk.x}
    try:
        kid = _kid(OKPKey.import_key(members))
        material = OKPKey.import_key(members if jwk.d is None else members | {"d": jwk.d}, _used_for(jwk.use))
        is_pair = _kid(OKPKey.import_key(material.public_key)) == kid
    except (JoseError, ValueError, TypeError, binascii.Error) as error:
        raise KeyRingError(f"key {jwk.kid[:40]!r} is no key of {jwk.crv}") from error
    if not is_pair:
        raise KeyRingError(f"key {jwk.kid[:40]!r}: its private part belongs to another key")
    if jwk.kid != kid:
        raise KeyRingError(
            f"key {jwk.kid[:40]!r} should have the id {kid!r}, the beginning of its thumbprint"
        )
    revoked_at = 0 if jwk.revoked is None else max(1, jwk.revoked.revoked_at * SECOND)
    return Key(kid, jwk.use, jwk.nbf * SECOND, jwk.exp * SECOND, revoked_at, material)


def _members(key: Key) -> dict[str, Any]:
    material: dict[str, Any] = {**key.jwk.as_dict(private=key.is_private)}
    written: dict[str, Any] = {
        **{name: material[name] for name in _MATERIAL if name in material},
        "use": key.use.value,
        "alg": _ALGORITHMS[key.use],
        "kid": key.kid,
    }
    if key.not_before:
        written["nbf"] = key.not_before // SECOND
    if key.not_after:
        written["exp"] = key.not_after // SECOND
    if key.revoked_at:
        written["revoked"] = {"revoked_at": key.revoked_at // SECOND}
    return written


def _checked(ring: KeyRing) -> KeyRing:
    if len(ring.keys) > MAX_KEYS:
        raise KeyRingError(f"has {len(ring.keys)} keys, and may have {MAX_KEYS}")
    kids = [key.kid for key in ring.keys]
    if len(set(kids)) < len(kids):
        raise KeyRingError("has the same key twice")
    return ring


def _new_key(use: Use, starts: int) -> Key:
    while True:
        material = OKPKey.generate_key("Ed25519" if use is Use.SIGN else "X25519", _used_for(use))
        kid = _kid(material)
        if not kid.startswith("-"):  # a command would take it for an option
            return Key(kid, use, _whole_seconds(starts), 0, 0, material)


def _public(jwk: OKPKey, use: Use) -> OKPKey:
    return OKPKey.import_key(jwk.public_key, _used_for(use))


def _used_for(use: Use) -> KeyParameters:
    return {"use": "sig" if use is Use.SIGN else "enc"}


def _kid(jwk: OKPKey) -> str:
    return jwk.thumbprint()[:KID_CHARACTERS]


def _whole_seconds(time: int) -> int:
    return time // SECOND * SECOND


def kids_of(rings: Iterable[KeyRing], use: Use) -> Iterator[tuple[str, Key]]:
    """Yield the keys of some rings for one use, with their ids."""
    for ring in rings:
        for key in ring.keys:
            if key.use is use:
                yield key.kid, key
