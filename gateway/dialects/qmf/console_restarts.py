"""Whether an agent was restarted since the console heard it last, and what shows it.

Some brokers keep their UUID over restarts (qpidd with a data folder), some count boots in the ids of their
objects, some do neither: a Java broker begins its ids again, so that they mean other objects. All of them
make the object of the broker itself again. Of a remote agent the ids alone show it.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from gateway.dialects.qmf.messages import Content
from gateway.dialects.qmf.object_id import ObjectId

_BROKER_CLASS: Final = ("org.apache.qpid.broker", "broker")
_REMOTES: Final = 1024
"""Remote agents whose boots are known, those that were heard of first are forgotten first."""


class Restarts:
    """The incarnations of the broker's agent: by the UUID in b, by the ids of objects, by a broker's birth.

    A boot sequence alone says nothing: qpidd keeps one object, of number 0, under the first one for ever.

    Attributes:
        broker: the UUID that was told last.
    """

    def __init__(self) -> None:
        self.broker: UUID | None = None
        self._restarted = False  # by its UUID, and the next resync says so
        self._told = False  # the first object told of it said so
        self._sequences: set[int] = set()
        self._in_doubt = False
        self._born = 0
        self._of_remotes: dict[str, set[int]] = {}

    @property
    def is_told(self) -> bool:
        """Whether a restart was told, and no resync has begun since."""
        return self._told

    @property
    def is_expected(self) -> bool:
        """Whether it is no news that something may be lost by a restart."""
        return self._told or self._in_doubt

    def doubt(self) -> None:
        """The agent announced itself, or was out of hearing: it may have been restarted."""
        self._in_doubt = bool(self._sequences)

    def answered(self, broker: UUID) -> bool:
        """The greeting was answered; whether by another incarnation than what the last resync was of."""
        self._restarted |= self.broker not in (None, broker)
        self.broker = broker
        return self._restarted

    def shown_by(self, message: Content) -> bool | None:
        """Return whether a restart was expected, if an object of the broker's agent is the first to show one.

        ``None`` where it shows none, as nearly all do.
        """
        key, sequence = message.key, message.object_id.prefix >> 48 & 0xFFF
        is_broker = key.name == _BROKER_CLASS[1] and key.package == _BROKER_CLASS[0]
        if sequence in self._sequences and not is_broker:
            return None
        is_expected = self.is_expected
        born_anew = self._shows_birth(message)
        counted = self._shows_boot(message.object_id)
        if not (born_anew or counted):
            return None
        self._told = True
        return is_expected

    def remote_shown_by(self, agent: str, object_id: ObjectId) -> bool:
        """Whether an object of a remote agent is the first of a boot sequence that is not its first one."""
        sequence, known = object_id.sequence, self._of_remotes.setdefault(agent, set())
        if len(self._of_remotes) > _REMOTES:
            self.forget_remote(next(iter(self._of_remotes)))
        if not sequence or sequence in known:
            return False
        known.add(sequence)
        return len(known) > 1

    def forget_remote(self, agent: str) -> None:
        """A remote agent is read again, whatever its ids say."""
        self._of_remotes.pop(agent, None)

    def tell(self) -> None:
        """An object has shown a restart in another way, and it is told."""
        self._told = True

    def resync_begins(self) -> bool:
        """Whether the resync that begins is the first to say that there was a restart."""
        restarted = self._restarted and not self._told
        if restarted:
            self._forget()
        self._restarted = self._told = False
        return restarted

    def _forget(self) -> None:
        """None of its former ids means anything any more."""
        self._sequences.clear()
        self._in_doubt = False
        self._born = 0

    def _shows_birth(self, message: Content) -> bool:
        if (message.key.package, message.key.name) != _BROKER_CLASS or message.deleted or not message.created:
            return False
        restarted = self._born not in (0, message.created)
        if restarted:
            self._forget()
        self._born = message.created
        return restarted

    def _shows_boot(self, object_id: ObjectId) -> bool:
        sequence = object_id.sequence
        if not sequence or not object_id.number or sequence in self._sequences:
            return False
        restarted = self._in_doubt
        if restarted:
            self._forget()
        self._sequences.add(sequence)  # of 12 bits: there are no more than 4,095
        return restarted
