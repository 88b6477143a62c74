"""Two sides of a protected conversation, with keys in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.model.times import MILLISECOND
from gateway.protection.bodies import AcceptedInMemory, BodyProtection
from gateway.protection.envelope import Claims, digest_of
from gateway.protection.keys import Key, KeyRing, Use, generated

NOW = 1_790_000_000 * 10**9
"""The time of these tests, in nanoseconds."""
LATE = 300_000
"""Milliseconds in which a body is accepted."""


def keys_of(*uses: Use) -> KeyRing:
    """Return a new ring."""
    return generated(uses or (Use.SIGN, Use.READ), NOW)


def current(ring: KeyRing, use: Use) -> Key:
    """Return the key of a ring that is in use."""
    key = ring.current(use, NOW)
    assert key is not None
    return key


@dataclass
class Side:
    """The keys of one side (`gateway.protection.bodies.Keys`)."""

    own: KeyRing
    peers: list[KeyRing] = field(default_factory=list)

    def signing_key(self, now: int) -> Key | None:
        return self.own.current(Use.SIGN, now)

    def recipient_key(self, now: int) -> Key | None:
        return self.peers[0].current(Use.READ, now)

    def read_key(self, kid: str, now: int) -> Key | None:
        return self._accepted([self.own], Use.READ, kid, now)

    def sender_key(self, kid: str, now: int) -> Key | None:
        return self._accepted(self.peers, Use.SIGN, kid, now)

    def is_of_this_side(self, kid: str, now: int) -> bool:
        reader = self.recipient_key(now)
        return self.own.find(Use.SIGN, kid) is not None or (reader is not None and reader.kid == kid)

    def _accepted(self, rings: Iterable[KeyRing], use: Use, kid: str, now: int) -> Key | None:
        found = [key for ring in rings if (key := ring.find(use, kid)) is not None and key.is_accepted(now)]
        return found[0] if found else None


def two_sides() -> tuple[Side, Side]:
    """Return an agent's side and a console's."""
    agent, console = keys_of(), keys_of()
    return Side(agent, [console.public()]), Side(console, [agent.public()])


def protection(side: Side, now: int = NOW - 10**9, boot: int = 7) -> BodyProtection:
    """Return the protection of one side, which was started at ``now``."""
    return BodyProtection(side, AcceptedInMemory(LATE, now // MILLISECOND), boot)


def claims(body: bytes, reader: Key, number: int = 1, issued: int = NOW // MILLISECOND) -> Claims:
    """Return claims of a message on exchange ``e`` with key ``k``."""
    return Claims(1, "e", "k", "", "", "user", "", "", issued, 0, 7, number, reader.kid, digest_of(body))
