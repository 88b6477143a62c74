"""Until when a console has heard all that was said to it, and what of the time after that is lost."""

from __future__ import annotations

from gateway.dialects.qmf.addresses import BROKER_AGENT
from gateway.dialects.qmf.console_agents import Agents
from gateway.model.observations import Gap

_INTERRUPTED = f"agent {BROKER_AGENT} restarted or lost its connection"


class Hearing:
    """What may be lost while the console, an agent, or the link between them was away. Times are nanoseconds.

    Args:
        agents: when each was heard.
        heard_until: when the last message was sent that an earlier life of the console has heard; 0 for none.

    Attributes:
        spoken_at: when the message was sent that arrived last.
    """

    def __init__(self, agents: Agents, heard_until: int) -> None:
        self.spoken_at = heard_until
        self._agents = agents
        self._missed_reason = ""  # why something may have been lost before the next that arrives
        self._connected_at = 0
        self._interrupted_since: int | None = None
        self._interruption_told_at = 0
        self._until_before = heard_until  # `until`, when the message arrived that is being heard
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
        """The same, a while ago: what was said since is heard already."""
        since = self.until
        return [Gap(since, self.spoken_at, _INTERRUPTED)] if since < self.spoken_at else []

    def started_anew(self) -> list[Gap]:
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
