"""Protection of the bodies of one conversation: what is sent is sealed, what arrives is opened or refused.

It lies between a session and its link, so that no dialect knows of it (`gateway.links.protection`). Exchange,
routing key, address for replies, correlation id and user stay readable, because the broker routes and
authorises by them; they are signed, and a message that has others is refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Final, Protocol

from gateway.dialects.session import REFUSED_BODY, Delivery, Note, Send
from gateway.model.times import MILLISECOND
from gateway.protection.envelope import (
    CONTENT_TYPE,
    BodyRefusedError,
    Claims,
    Refusal,
    digest_of,
    open_envelope,
    seal,
)
from gateway.protection.keys import Key
from gateway.protection.replay_window import Acceptance, ReplayWindow

NOT_SEALED: Final = "not-sealed"
"""The event of a note about a message that is not sent, because it cannot be protected."""


class Keys(Protocol):
    """The keys of one side of a conversation; times are nanoseconds since 1970."""

    def signing_key(self, now: int) -> Key | None:
        """Return the own key to sign with; ``None`` if there is none."""
        ...

    def recipient_key(self, now: int) -> Key | None:
        """Return the key to encrypt for; ``None`` if there is none."""
        ...

    def read_key(self, kid: str, now: int) -> Key | None:
        """Return the held private key with this id, if it is accepted."""
        ...

    def sender_key(self, kid: str, now: int) -> Key | None:
        """Return the key of a trusted sender with this id, if it is accepted."""
        ...

    def is_of_this_side(self, kid: str, now: int) -> bool:
        """Return whether this id is that of an own key that signs, or of one that this side encrypts for."""
        ...


class Accepted(Protocol):
    """Remembers accepted bodies (`gateway.protection.replay_file.ReplayFile`)."""

    @property
    def has_forgotten(self) -> bool:
        """Whether it is not known what was accepted before the start, so that this is refused."""
        ...

    def accept(self, body: Acceptance, now: int) -> None:
        """Accept a body at ``now`` (milliseconds since 1970), and remember it.

        Raises:
            BodyRefusedError: it is not accepted.
        """
        ...

    def accept_before_commit(self, body: Acceptance, now: int, *, waited: bool) -> None:
        """Accept a body of a durable queue, which `commit` brings to the disk.

        Raises:
            BodyRefusedError: it is not accepted.
        """
        ...

    def has_waited(self, body: Acceptance, now: int) -> bool:
        """Return whether a body would be accepted only as one that waited in a durable queue."""
        ...

    def remember(self, body: Acceptance) -> None:
        """Remember a body that was accepted before a kill."""
        ...

    def commit(self, now: int) -> Callable[[], None]:
        """Return what brings all acceptances so far to the disk, for another thread; it raises `OSError`."""
        ...


class AcceptedInMemory:
    """Remembers accepted bodies until the process ends, for commands that keep nothing.

    Args:
        late: milliseconds after its signing in which a body is accepted.
        now: milliseconds since 1970; nothing that was signed before is accepted.
        waits: as of `ReplayWindow`.
    """

    def __init__(self, late: int, now: int, waits: int = 0) -> None:
        self._window = ReplayWindow(late, now, waits)

    @property
    def has_forgotten(self) -> bool:
        """Never: what waits in a durable queue is not read."""
        return False

    def accept(self, body: Acceptance, now: int) -> None:
        """Accept a body, as `Accepted.accept` does."""
        self._window.check(body, now)
        self._window.add(body)

    def accept_before_commit(self, body: Acceptance, now: int, *, waited: bool) -> None:
        """Accept a body, as `Accepted.accept_before_commit` does."""
        self._window.check(body, now, waited=waited)
        self._window.add(body)

    def has_waited(self, body: Acceptance, now: int) -> bool:
        """Do as `Accepted.has_waited`."""
        return self._window.has_waited(body, now)

    def remember(self, body: Acceptance) -> None:
        """Do as `Accepted.remember`."""
        self._window.add(body)

    def commit(self, _now: int) -> Callable[[], None]:
        """Return what does nothing: nothing is kept."""
        return lambda: None


@dataclass(frozen=True, slots=True)
class VerifiedDelivery:
    """A message that a trusted sender signed, which is not accepted yet.

    Attributes:
        delivery: as the sender signed it.
        acceptance: sender, start, number and time.
        by: the protection that verified it.
    """

    delivery: Delivery
    acceptance: Acceptance
    by: BodyProtection

    def accept(self, now: int, *, waited: bool) -> Delivery | Note:
        """Accept it, or return a note if it is refused.

        Args:
            now: nanoseconds since 1970.
            waited: whether what waited in a durable queue is being read.
        """
        return self.by.accept(self, now, waited=waited)

    def has_waited(self, now: int) -> bool:
        """Return whether it would be accepted only as one that waited in a durable queue."""
        return self.by.has_waited(self, now)

    def remember(self, *, is_replay: bool) -> Note | None:
        """Remember it, because the event log has what followed from it; return a note if it was replayed.

        Args:
            is_replay: whether it came again, and not because it was not acknowledged.
        """
        return self.by.remember(self, is_replay=is_replay)

    @property
    def identity(self) -> str:
        """What no other message has, and no broker can change: 16 hexadecimal digits."""
        one = self.acceptance
        return blake2b(f"{one.sender} {one.boot} {one.number}".encode(), digest_size=8).hexdigest()


class BodyProtection:
    """Seals and opens the bodies of one conversation.

    Args:
        keys: the keys of this side.
        accepted: remembers accepted bodies.
        boot: a random number of this start, below 2^63.

    Attributes:
        sealed: the number of sealed bodies.
        opened: the number of accepted bodies.
        ignored: the number of bodies of this side itself, which came back by a topic that both sides receive.
        refusals: the number of refused bodies, by reason.
    """

    def __init__(self, keys: Keys, accepted: Accepted, boot: int) -> None:
        self._keys = keys
        self._accepted = accepted
        self._boot = boot
        self._is_known = not accepted.has_forgotten
        self.sealed = 0
        self.opened = 0
        self.ignored = 0
        self.refusals: Counter[Refusal] = Counter()

    def seal(self, send: Send, user: str, now: int) -> Send | Note:
        """Return the message to publish instead; a note if it cannot be protected, and must not be sent.

        Args:
            send: a message of the session.
            user: the user of the connection that it is published on.
            now: nanoseconds since 1970.
        """
        signer, reader = self._keys.signing_key(now), self._keys.recipient_key(now)
        if signer is None or reader is None:
            what = "an own key that signs" if signer is None else "a key of the receiver"
            return Note(NOT_SEALED, f"{what} is missing, expired or revoked: see `amqp-gateway keys list`")
        claims = Claims(
            version=1,
            exchange=send.exchange,
            routing_key=send.routing_key,
            reply_to=send.reply_to,
            correlation_id=send.correlation_id,
            user_id=user,
            content_type=send.content_type,
            message_id=send.message_id,
            issued=now // MILLISECOND,
            expiration=send.lifetime(now),
            boot=self._boot,
            number=self.sealed + 1,
            reader=reader.kid,
            digest=digest_of(send.body),
        )
        try:
            body = seal(claims, send.body, signer, reader)
        except ValueError as error:
            return Note(NOT_SEALED, str(error))
        self.sealed += 1
        return replace(send, body=body, content_type=CONTENT_TYPE)

    def open(self, delivery: Delivery, now: int) -> Delivery | Note | None:
        """Return the message that the sender signed; a note if it is refused. ``now`` is nanoseconds.

        Returns ``None`` for a message of this side itself: agents receive what they publish on some topics.
        """
        verified = self.verify(delivery, now)
        if not isinstance(verified, VerifiedDelivery):
            return verified
        try:
            self._accepted.accept(verified.acceptance, now // MILLISECOND)
        except BodyRefusedError as error:
            return self._refused(delivery, error)
        self.opened += 1
        return verified.delivery

    # Of a durable queue: verified, looked up in the event log, and accepted or remembered then.

    def verify(self, delivery: Delivery, now: int) -> VerifiedDelivery | Note | None:
        """Return a message that a trusted sender signed, and otherwise what `open` does."""
        try:
            return self._verified(delivery, now)
        except BodyRefusedError as error:
            if error.kid and self._keys.is_of_this_side(error.kid, now):
                self.ignored += 1
                return None
            return self._refused(delivery, error)

    def accept(self, verified: VerifiedDelivery, now: int, *, waited: bool) -> Delivery | Note:
        """Accept a message, as `VerifiedDelivery.accept` does."""
        try:
            self._accepted.accept_before_commit(verified.acceptance, now // MILLISECOND, waited=waited)
        except BodyRefusedError as error:
            return self._refused(verified.delivery, error)
        self.opened += 1
        return verified.delivery

    def has_waited(self, verified: VerifiedDelivery, now: int) -> bool:
        """Return whether a message would be accepted only as one that waited in a durable queue."""
        return self._accepted.has_waited(verified.acceptance, now // MILLISECOND)

    def remember(self, verified: VerifiedDelivery, *, is_replay: bool) -> Note | None:
        """Remember a message, as `VerifiedDelivery.remember` does."""
        self._accepted.remember(verified.acceptance)
        if not is_replay:
            return None
        one = verified.acceptance
        text = f"number {one.number} of {one.sender} was accepted before"
        return self._refused(verified.delivery, BodyRefusedError(Refusal.REPLAYED, text))

    def backlog_follows(self) -> bool:
        """Note that what waited in a durable queue is read next; return whether it can be accepted.

        It cannot where it is not known any more what was accepted before the start; that is said once.
        """
        is_known, self._is_known = self._is_known, True
        return is_known

    def commit(self, now: int) -> Callable[[], None]:
        """Return what brings all acceptances so far to the disk, for another thread; it raises `OSError`."""
        return self._accepted.commit(now // MILLISECOND)

    def _refused(self, delivery: Delivery, error: BodyRefusedError) -> Note:
        self.refusals[error.refusal] += 1
        return Note(f"{REFUSED_BODY}{error.refusal}", f"to {delivery.routing_key[:80]!r}: {error}")

    def _verified(self, delivery: Delivery, now: int) -> VerifiedDelivery:
        if delivery.content_type != CONTENT_TYPE:
            text = "is not protected, and this source or agent accepts only protected ones"
            raise BodyRefusedError(Refusal.PLAIN, text)
        opened = open_envelope(
            delivery.body,
            lambda kid: self._keys.read_key(kid, now),
            lambda kid: self._keys.sender_key(kid, now),
        )
        claims = opened.claims
        for name in ("exchange", "routing_key", "reply_to", "correlation_id", "user_id"):
            if getattr(claims, name) != getattr(delivery, name):
                text = f"has another {name.replace('_', ' ')} than {opened.sender} signed"
                raise BodyRefusedError(Refusal.REROUTED, text)
        signed = replace(
            delivery,
            body=opened.body,
            content_type=claims.content_type,
            message_id=claims.message_id,
            timestamp=claims.issued * MILLISECOND,
            expiration=claims.expiration,
        )
        acceptance = Acceptance(opened.sender, claims.boot, claims.number, claims.issued)
        return VerifiedDelivery(signed, acceptance, self)
