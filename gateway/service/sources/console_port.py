"""The way of operations to a console session, and of what came of them back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar, runtime_checkable

from gateway.clock import Clock
from gateway.model.operations import Answer, MethodCall, ObjectFetch, ObjectModify, Outcome

EffectT = TypeVar("EffectT")
EffectT_co = TypeVar("EffectT_co", covariant=True)
EffectT_contra = TypeVar("EffectT_contra", contravariant=True)


class OperableSession(Protocol[EffectT_co]):
    """A console session of any dialect, as far as operations go; ``now`` is in nanoseconds."""

    def call(self, call: MethodCall, now: int) -> Iterable[EffectT_co]:
        """Call a method."""
        ...

    def fetch(self, fetch: ObjectFetch, now: int) -> Iterable[EffectT_co]:
        """Read an object again."""
        ...


@runtime_checkable
class ModifyingSession(Protocol[EffectT_co]):
    """One whose dialect has a request of its own to set properties."""

    def modify(self, modify: ObjectModify, now: int) -> Iterable[EffectT_co]:
        """Set them."""
        ...


@runtime_checkable
class ForeseeingSession(Protocol):
    """One that can say before why it would not send something."""

    def objection(self, request: MethodCall | ObjectModify, now: int) -> Answer | None:
        """What it would answer at once; ``None`` where nothing speaks against it. Nothing is sent."""
        ...


class Performer(Protocol[EffectT_contra]):
    """What carries the effects of a session out: its conversation."""

    def perform(self, effects: Iterable[EffectT_contra]) -> None:
        """Carry them out, in order."""
        ...


class ConsolePort(Generic[EffectT]):
    """Carries what is asked of one source to its console session (`gateway.operations.effects`).

    Args:
        session: of the source; perhaps a `ModifyingSession`, too.
        conversation: of the session.
        clock: the gateway's.
        answered: told of what is not even given to the session; the conversation has it for the rest.
        unreachable: why what the source manages cannot be reached now, as far as the session cannot know
            that; empty where it can be.
    """

    def __init__(
        self,
        session: OperableSession[EffectT],
        conversation: Performer[EffectT],
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

    def modify(self, modify: ObjectModify) -> None:
        """Set properties; ``READ_ONLY`` where the session has no request to do so."""
        if not isinstance(self._session, ModifyingSession):
            self._answered(_without_request(modify))
        elif self._is_reachable(modify.token):
            self._conversation.perform(self._session.modify(modify, self._clock.now()))

    def fetch(self, fetch: ObjectFetch) -> None:
        """Read an object again."""
        if self._is_reachable(fetch.token):
            self._conversation.perform(self._session.fetch(fetch, self._clock.now()))

    def objection(self, request: MethodCall | ObjectModify) -> Answer | None:
        """What `call` or `modify` would answer at once; ``None`` where nothing speaks against it."""
        if isinstance(request, ObjectModify) and not isinstance(self._session, ModifyingSession):
            return _without_request(request)
        unreached = self._unreached(request.token)
        if unreached is not None or not isinstance(self._session, ForeseeingSession):
            return unreached
        return self._session.objection(request, self._clock.now())

    def _is_reachable(self, token: int) -> bool:
        unreached = self._unreached(token)
        if unreached is not None:
            self._answered(unreached)
        return unreached is None

    def _unreached(self, token: int) -> Answer | None:
        reason = self._unreachable()
        return Answer(token, Outcome.SOURCE_DOWN, f"not sent: {reason}") if reason else None


def _without_request(modify: ObjectModify) -> Answer:
    text = "not sent: the source has no request of its own to set properties"
    return Answer(modify.token, Outcome.READ_ONLY, text)
