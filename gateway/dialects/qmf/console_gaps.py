"""Gaps in what a console received, and restarts of agents."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from gateway.dialects.qmf.addresses import BROKER_AGENT
from gateway.dialects.qmf.console_agents import Agents
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import Content
from gateway.model.observations import Gap

_UNANSWERED = f"agent {BROKER_AGENT} did not answer when the connection was there again"
_INTERRUPTED = f"agent {BROKER_AGENT} restarted or lost its connection"


class GapTracker:
    """The losses while the console, an agent, or the link between them was away. Times are nanoseconds.

    Args:
        agents: the agents, with the times of their last messages.
        complete_until: when the last message that an earlier console received was sent; 0 for none.

    Attributes:
        spoken_at: when the message that arrived last was sent.
    """

    def __init__(self, agents: Agents, complete_until: int) -> None:
        self.spoken_at = complete_until
        self._agents = agents
        self._missed_reason = ""  # why something may have been lost before the next message
        self._connected_at = 0
        self._has_received = complete_until > 0
        self._awaits_first = True  # nothing has arrived since the connection began
        self._interrupted_since: int | None = None
        self._interruption_reported_at = 0
        self._until_before = complete_until  # `until` when the current message arrived
        self._unread: tuple[int, int] | None = (
            None  # when the first and the last unreadable message were sent
        )

    @property
    def until(self) -> int:
        """The time up to which no message of the broker's agent can be lost."""
        spoke = self._agents.last_spoke(BROKER_AGENT)
        return self._connected_at if spoke is None else spoke

    def resumed(self, missed: str, now: int) -> None:
        """Note that waiting messages will arrive; ``missed`` is the reason why earlier ones may be lost."""
        self._connected_at = self.spoken_at or now
        if self.spoken_at:
            self._missed_reason = self._missed_reason or missed

    def connected(self, now: int, *, caught_up: bool) -> list[Gap]:
        """Note that all messages from now on will arrive; ``caught_up``: waiting ones have arrived, too."""
        if self.spoken_at and not caught_up:
            self._missed_reason = "not connected"
            if self._interrupted_since is not None:
                # An interruption before the link went down was not reported yet: it is part of this gap.
                self.spoken_at = min(self.spoken_at, self._interrupted_since)
        gaps = [*self._unread_gaps(), *self.missed(now)]
        self._connected_at = self.spoken_at = now
        self._interrupted_since = None
        self._interruption_reported_at = 0
        self._awaits_first = True
        return gaps

    def link_lost(self, received_until: int) -> None:
        """Note the end of a connection; until ``received_until`` (0: unknown) all was received on it.

        What arrived later may have waited while the gateway stood still, and may have no time of its own.
        """
        if received_until:
            self.spoken_at = min(self.spoken_at, received_until)

    def arrived(self, sent: int, now: int) -> list[Gap]:
        """Note a message that was sent at ``sent`` (0 for unknown); all before it have arrived or are lost.

        After a stall of the connection, old messages arrive all at once: the time of receipt then has no
        relation to the time of a loss.
        """
        spoke = self._agents.last_spoke(BROKER_AGENT)
        self._until_before = self._connected_at if spoke is None else spoke
        spoken_at = min(sent or now, now)
        gaps = self.missed(spoken_at) if self._missed_reason else []
        self.spoken_at = spoken_at
        self._has_received, self._awaits_first = True, False
        return gaps

    def missed(self, until: int) -> list[Gap]:
        """Return the gap between the last received message and ``until``, if one is suspected."""
        reason, self._missed_reason = self._missed_reason, ""
        if not reason:
            return []
        gap = Gap(min(self.spoken_at, until), until, reason)
        self.spoken_at = until
        return [gap]

    def unanswered(self) -> None:
        """Note that a greeting was not answered, and nothing else has arrived since the connection began.

        The agent's own link may be half-open, so that what it sends is lost. Before an agent was known there
        is nothing to miss.
        """
        if self._has_received and self._awaits_first:
            self._missed_reason = self._missed_reason or _UNANSWERED

    def unread(self) -> None:
        """Note that the last message cannot be read, so that an event in it is lost."""
        first, _ = self._unread or (self.spoken_at, 0)
        self._unread = (min(first, self.spoken_at), self.spoken_at)

    def _unread_gaps(self) -> list[Gap]:
        unread, self._unread = self._unread, None
        return [] if unread is None else [Gap(*unread, "a message could not be read")]

    def interrupted(self) -> None:
        """Note that the broker's agent restarted or lost its link, which may have lost messages."""
        if self._interrupted_since is None:
            self._interrupted_since = max(self.until, self._interruption_reported_at)
            self._agents.interrupted(BROKER_AGENT)

    def interrupted_meanwhile(self) -> list[Gap]:
        """Return the gap of an earlier interruption, after which messages of the agent have arrived."""
        since = self.until
        return [Gap(since, self.spoken_at, _INTERRUPTED)] if since < self.spoken_at else []

    def restarted(self) -> list[Gap]:
        """Return the gap before the current message, the first to show that the broker's agent restarted."""
        self._agents.interrupted(BROKER_AGENT)
        since = min(self._until_before, self.spoken_at)
        return [Gap(since, self.spoken_at, f"agent {BROKER_AGENT} restarted")]

    def interruption(self, now: int) -> list[Gap]:
        """Return the gaps to report before the agent is greeted: one for any number of interruptions."""
        gaps = self._unread_gaps()
        since, self._interrupted_since = self._interrupted_since, None
        if since is None:
            return gaps
        self._interruption_reported_at = now
        return [*gaps, gap_until_now(since, now, _INTERRUPTED)]

    def answered(self) -> bool:
        """Note the answer to the greeting; return whether an interruption was reported since the last one."""
        reported = self._interruption_reported_at > 0
        self._interruption_reported_at = 0
        return reported


def gap_until_now(since: int, now: int, reason: str) -> Gap:
    """Return a gap from ``since`` to now. The clock may have been set back meanwhile."""
    return Gap(min(since, now), now, reason)


_BROKER_CLASS: Final = ("org.apache.qpid.broker", "broker")
_REMOTES: Final = 1024
"""Remote agents whose boots are known; beyond it the oldest is forgotten."""


class Restarts:
    """The incarnations of the broker's agent, by the UUID in b, by object ids, by the broker's creation time.

    A boot sequence alone is not sufficient: qpidd keeps one object, of number 0, under the first one.

    Attributes:
        broker: the last UUID.
    """

    def __init__(self) -> None:
        self.broker: UUID | None = None
        self._restarted = False  # shown by the UUID, and reported by the next resync
        self._reported = False  # shown and reported by an object
        self._sequences: set[int] = set()
        self._is_suspected = False
        self._born = 0
        self._of_remotes: dict[str, set[int]] = {}

    @property
    def is_reported(self) -> bool:
        """Whether a restart was reported, and no resync has begun since."""
        return self._reported

    @property
    def is_expected(self) -> bool:
        """Whether losses by a restart are reported or suspected already."""
        return self._reported or self._is_suspected

    def suspect(self) -> None:
        """Note that the agent may have restarted: it announced itself, or could not be received."""
        self._is_suspected = bool(self._sequences)

    def answered(self, broker: UUID) -> bool:
        """Note the answer to a greeting; return whether it is of another incarnation than the last resync."""
        self._restarted |= self.broker not in (None, broker)
        self.broker = broker
        return self._restarted

    def shown_by(self, message: Content) -> bool | None:
        """Return whether a restart was expected, if this object is the first that shows one.

        Returns ``None`` where it shows none, as nearly all do.
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
        """Return whether an object of a remote agent is the first of a further boot sequence."""
        sequence, known = object_id.sequence, self._of_remotes.setdefault(agent, set())
        if len(self._of_remotes) > _REMOTES:
            self.forget_remote(next(iter(self._of_remotes)))
        if not sequence or sequence in known:
            return False
        known.add(sequence)
        return len(known) > 1

    def forget_remote(self, agent: str) -> None:
        """Forget the boots of a remote agent that is read again anyway."""
        self._of_remotes.pop(agent, None)

    def reported(self) -> None:
        """Note that a restart was shown in another way, and is reported."""
        self._reported = True

    def resync_begins(self) -> bool:
        """Return whether the resync that begins is the first to report a restart."""
        restarted = self._restarted and not self._reported
        if restarted:
            self._forget()
        self._restarted = self._reported = False
        return restarted

    def _forget(self) -> None:
        """Forget object ids from before the restart, which mean nothing any more."""
        self._sequences.clear()
        self._is_suspected = False
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
        restarted = self._is_suspected
        if restarted:
            self._forget()
        self._sequences.add(sequence)  # of 12 bits, so there are at most 4,095
        return restarted
