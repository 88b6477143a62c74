"""What a console missed: gaps in what it received, and restarts of agents."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from gateway.dialects.qmf.addresses import BROKER_AGENT
from gateway.dialects.qmf.console_agents import Agents
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import Content
from gateway.model.observations import Gap

_INTERRUPTED = f"agent {BROKER_AGENT} restarted or lost its connection"


class GapTracker:
    """What may be lost while the console, an agent, or the link between them was away. Times are nanoseconds.

    Args:
        agents: when each was heard.
        complete_until: when the last message was sent that an earlier life of the console has heard; 0 for
            none.

    Attributes:
        spoken_at: when the message was sent that arrived last.
    """

    def __init__(self, agents: Agents, complete_until: int) -> None:
        self.spoken_at = complete_until
        self._agents = agents
        self._missed_reason = ""  # why something may have been lost before the next that arrives
        self._connected_at = 0
        self._interrupted_since: int | None = None
        self._interruption_told_at = 0
        self._until_before = complete_until  # `until`, when the message arrived that is being heard
        self._unread: tuple[int, int] | None = None  # when the first and the last such message were sent

    @property
    def until(self) -> int:
        """Until when nothing that the broker's agent said can be lost."""
        spoke = self._agents.last_spoke(BROKER_AGENT)
        return self._connected_at if spoke is None else spoke

    def resumed(self, missed: str, now: int) -> None:
        """What was said meanwhile will arrive; ``missed`` says why what was before it may be lost."""
        self._connected_at = self.spoken_at or now
        if self.spoken_at:
            self._missed_reason = self._missed_reason or missed

    def connected(self, now: int, *, caught_up: bool) -> list[Gap]:
        """All that is said from now on will arrive; ``caught_up``: what was said meanwhile has."""
        if self.spoken_at and not caught_up:
            self._missed_reason = "not connected"
        gaps = [*self._unread_gaps(), *self.missed(now)]
        self._connected_at = self.spoken_at = now
        self._interrupted_since = None
        self._interruption_told_at = 0
        return gaps

    def arrived(self, sent: int, now: int) -> list[Gap]:
        """A message arrived that was sent at ``sent`` (0 for unknown), and with it all that came before it.

        After a connection stood still, what was sent long ago arrives all at once: then receipt says nothing
        about what was lost behind it.
        """
        spoke = self._agents.last_spoke(BROKER_AGENT)
        self._until_before = self._connected_at if spoke is None else spoke
        spoken_at = min(sent or now, now)
        gaps = self.missed(spoken_at) if self._missed_reason else []
        self.spoken_at = spoken_at
        return gaps

    def missed(self, until: int) -> list[Gap]:
        """What was lost was said between what was heard last and ``until``."""
        reason, self._missed_reason = self._missed_reason, ""
        if not reason:
            return []
        gap = Gap(min(self.spoken_at, until), until, reason)
        self.spoken_at = until
        return [gap]

    def unread(self) -> None:
        """What arrived last cannot be read, and an event in it is lost."""
        first, _ = self._unread or (self.spoken_at, 0)
        self._unread = (min(first, self.spoken_at), self.spoken_at)

    def _unread_gaps(self) -> list[Gap]:
        unread, self._unread = self._unread, None
        return [] if unread is None else [Gap(*unread, "a message could not be read")]

    def interrupted(self) -> None:
        """The broker's agent restarted or lost its link, and what it said last may be lost with it."""
        if self._interrupted_since is None:
            self._interrupted_since = max(self.until, self._interruption_told_at)
            self._agents.interrupted(BROKER_AGENT)

    def interrupted_meanwhile(self) -> list[Gap]:
        """Return the gap where that was a while ago, and what the agent sent since has been received."""
        since = self.until
        return [Gap(since, self.spoken_at, _INTERRUPTED)] if since < self.spoken_at else []

    def restarted(self) -> list[Gap]:
        """The message that is being heard is the first to show that the broker's agent restarted."""
        self._agents.interrupted(BROKER_AGENT)
        since = min(self._until_before, self.spoken_at)
        return [Gap(since, self.spoken_at, f"agent {BROKER_AGENT} restarted")]

    def interruption(self, now: int) -> list[Gap]:
        """What was lost, told before the agent is greeted: however many interruptions there were, once."""
        gaps = self._unread_gaps()
        since, self._interrupted_since = self._interrupted_since, None
        if since is None:
            return gaps
        self._interruption_told_at = now
        return [*gaps, gap_until_now(since, now, _INTERRUPTED)]

    def answered(self) -> bool:
        """The greeting is answered; whether an interruption was told since the last answer."""
        told = self._interruption_told_at > 0
        self._interruption_told_at = 0
        return told


def gap_until_now(since: int, now: int, reason: str) -> Gap:
    """Something was lost between ``since`` and now. The clock may have been set back meanwhile."""
    return Gap(min(since, now), now, reason)


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
        self._reported = False  # the first object told of it said so
        self._sequences: set[int] = set()
        self._in_doubt = False
        self._born = 0
        self._of_remotes: dict[str, set[int]] = {}

    @property
    def is_reported(self) -> bool:
        """Whether a restart was told, and no resync has begun since."""
        return self._reported

    @property
    def is_expected(self) -> bool:
        """Whether it is no news that something may be lost by a restart."""
        return self._reported or self._in_doubt

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
        shows_birth = self._shows_birth(message)
        counted = self._shows_boot(message.object_id)
        if not (shows_birth or counted):
            return None
        self._reported = True
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

    def reported(self) -> None:
        """An object has shown a restart in another way, and it is reported."""
        self._reported = True

    def resync_begins(self) -> bool:
        """Whether the resync that begins is the first to say that there was a restart."""
        restarted = self._restarted and not self._reported
        if restarted:
            self._forget()
        self._restarted = self._reported = False
        return restarted

    def _forget(self) -> None:
        """Object ids from before the restart mean nothing any more."""
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
