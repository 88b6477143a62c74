"""What every program around an agent's session does for its link."""

from __future__ import annotations

from typing import Protocol

from gateway.dialects.effects import Effect


class Served(Protocol):
    """An agent's session, of whatever generation."""

    def start(self, now: int) -> list[Effect]: ...

    def suspend(self) -> None: ...

    def tick(self, now: int) -> list[Effect]: ...


class AgentOnLink:
    """Starts the session with the link and suspends it with it.

    Args:
        session: of the agent.
    """

    def __init__(self, session: Served) -> None:
        self._served = session

    def connected(self, reply_to: str, now: int) -> list[Effect]:
        assert reply_to
        return self._served.start(now)

    def disconnected(self, detail: str, now: int) -> list[Effect]:
        assert detail
        assert now
        self._served.suspend()
        return []

    def resync(self, reason: str, now: int, since: int) -> list[Effect]:
        assert reason
        assert since < now
        return []

    def tick(self, now: int) -> list[Effect]:
        return self._served.tick(now)
