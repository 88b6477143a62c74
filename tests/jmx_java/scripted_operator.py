"""The operator behind a virtual machine where there is no core."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from gateway.jmx.backend import Named, RefusedAttempt, Reply, Status
from gateway.jmx.types import Written
from gateway.model.operations import Principal


async def at_once() -> None:
    """Do not wait."""


@dataclass
class ScriptedOperator:
    """An operator that answers as a test says, and records its requests."""

    reply: Reply = field(default_factory=lambda: Reply(Status.APPLIED))
    wait: Callable[[], Awaitable[object]] = at_once
    asked: list[tuple[object, ...]] = field(default_factory=list)
    attempts: list[RefusedAttempt] = field(default_factory=list)
    logins: list[Principal] = field(default_factory=list)

    async def set(
        self, target: Named, principal: Principal, values: Sequence[tuple[str, Written | None]]
    ) -> Reply:
        self.asked.append((target.number, principal, list(values)))
        await self.wait()
        return self.reply

    def refused(self, attempt: RefusedAttempt) -> None:
        self.attempts.append(attempt)

    def logged_in(self, principal: Principal) -> None:
        self.logins.append(principal)

    def values(self) -> list[tuple[str, Written | None]]:
        """Return the values of the last set."""
        *_, values = self.asked[-1]
        assert isinstance(values, list)
        return values

    async def invoke(
        self, target: Named, principal: Principal, operation: str, arguments: Sequence[Written | None]
    ) -> Reply:
        self.asked.append((target.number, principal, operation, list(arguments)))
        await self.wait()
        return self.reply
