"""The way of operations to a console session, and of what came of them back."""

from __future__ import annotations

from collections.abc import Callable

from gateway.clock import Clock
from gateway.dialects.qmf.console import ConsoleSession
from gateway.links.conversation import Conversation
from gateway.model.operations import Answer, MethodCall, ObjectFetch, Outcome


class ConsolePort:
    """Carries calls and fetches to the console session of one source (`gateway.operations.ports`).

    Args:
        session: of the source.
        conversation: of the session.
        clock: the gateway's.
        answered: told of what is not even given to the session; the conversation has it for the rest.
        unreachable: why what the source manages cannot be reached now, as far as the session cannot know
            that; empty where it can be.
    """

    def __init__(
        self,
        session: ConsoleSession,
        conversation: Conversation,
        clock: Clock,
        answered: Callable[[Answer], None],
        unreachable: Callable[[], str] = lambda: "",
    ) -> None:
        self._session = session
        self._conversation = conversation
        self._clock = clock
        self._answered = answered
        self._unreachable = unreachable

    def call(self, call: MethodCall) -> None:
        """Call a method."""
        if self._is_reachable(call.token):
            self._conversation.perform(self._session.call(call, self._clock.now()))

    def fetch(self, fetch: ObjectFetch) -> None:
        """Read an object anew."""
        if self._is_reachable(fetch.token):
            self._conversation.perform(self._session.fetch(fetch, self._clock.now()))

    def _is_reachable(self, token: int) -> bool:
        reason = self._unreachable()
        if reason:
            self._answered(Answer(token, Outcome.SOURCE_DOWN, f"not sent: {reason}"))
        return not reason
