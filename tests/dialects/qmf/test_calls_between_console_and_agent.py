"""Under loss, delay and repetition between a console and an agent, no call is carried out twice, or late."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.qmf.agent import AgentConfig, AgentSession
from gateway.dialects.qmf.console import ConsoleConfig, ConsoleSession
from gateway.dialects.qmf.session_state import State
from gateway.dialects.qmf.statuses import Status
from gateway.dialects.session import (
    Answered,
    Called,
    Delivery,
    Effect,
    LinkDown,
    LinkUp,
    LossSuspected,
    NotSent,
    Send,
    TimerExpired,
)
from gateway.model.operations import MethodCall, Outcome
from gateway.model.times import SECOND
from tests.dialects.qmf.examples import TANK
from tests.dialects.qmf.playbook import AGENT_USER, BROKER, CONSOLE_USER, QUEUE, START, tank

NUMBER = 0x1122


@dataclass
class _Way:
    """A broker in between, which may hold messages up, lose them, and deliver them twice."""

    chance: random.Random
    now: int = START + SECOND // 3
    to_agent: list[Delivery] = field(default_factory=list)
    to_console: list[Delivery] = field(default_factory=list)
    unsent: list[Send] = field(default_factory=list)
    holds: bool = False
    carried_out: dict[int, int] = field(default_factory=dict)
    waiting: list[Called] = field(default_factory=list)
    outcomes: dict[int, list[Outcome]] = field(default_factory=dict)
    deadlines: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.agent = AgentSession(AgentConfig(BROKER, 4, frozenset({CONSOLE_USER})), (TANK,))
        self.agent.put(tank(NUMBER))
        self.console = ConsoleSession(ConsoleConfig(frozenset({AGENT_USER})))
        self.agent_does(self.agent.start(self.now))
        self.console_does(self.console.handle(LinkUp(QUEUE), self.now))
        self.passes(on=True)
        assert self.console.state is State.SYNCHRONISED

    # What both do.

    def console_does(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Answered):
                self.outcomes.setdefault(effect.answer.token, []).append(effect.answer.outcome)
            elif isinstance(effect, Send):
                self.unsent.append(effect)

    def agent_does(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Called):
                (token, _) = effect.arguments
                assert isinstance(token, int)
                assert self.now <= self.deadlines[token], "begun after its time"
                self.carried_out[token] = self.carried_out.get(token, 0) + 1
                self.waiting.append(effect)
            elif isinstance(effect, Send):
                self.to_console.append(self._delivery(effect, AGENT_USER))

    def _delivery(self, send: Send, user: str) -> Delivery:
        sent = self.now // SECOND * SECOND
        place = (send.exchange, send.routing_key, send.body, send.reply_to, user)
        return Delivery(*place, timestamp=sent, expiration=send.lifetime(sent))

    # What happens.

    def call(self) -> None:
        token = len(self.deadlines) + 1
        self.deadlines[token] = self.now + 5 * SECOND
        key = self.agent.class_key("shop", "tank")
        native_id = str(self.agent.object_id(NUMBER))
        arguments = (token, "x")
        call = MethodCall(token, key, "1.0", native_id, "drain", arguments, self.deadlines[token])
        self.console_does(self.console.handle(call, self.now))

    def passes(self, *, on: bool) -> None:
        """Pass messages until none is left; if ``on`` is false, by one step only."""
        while self.unsent or self.to_agent or self.to_console:
            self._leave()
            if not self.holds or on:
                for delivery in self._taken(self.to_agent):
                    self.agent_does(self.agent.handle(delivery, self.now))
            for delivery in self._taken(self.to_console):
                self.console_does(self.console.handle(delivery, self.now))
            if not on:
                return

    def _leave(self) -> None:
        sends, self.unsent = self.unsent, []
        late = [send for send in sends if send.is_too_late(self.now)]
        self.console_does(self.console.handle(NotSent(late, "test"), self.now))
        self.to_agent += [self._delivery(send, CONSOLE_USER) for send in sends if send not in late]

    def _taken(self, messages: list[Delivery]) -> list[Delivery]:
        taken = messages[:]
        messages.clear()
        return taken

    def answer(self) -> None:
        if self.waiting:
            call = self.waiting.pop(self.chance.randrange(len(self.waiting)))
            self.agent_does(self.agent.method_done(call.handle, Status.OK, "OK", (1.0, "x")))

    def again(self) -> None:
        """Deliver a message in transit a second time."""
        for messages in (self.to_agent, self.to_console):
            if messages:
                messages.insert(self.chance.randint(0, len(messages)), self.chance.choice(messages))

    def lose(self) -> None:
        for messages in (self.to_agent, self.to_console):
            if messages:
                messages.pop(self.chance.randrange(len(messages)))

    def link_goes_down(self) -> None:
        sends, self.unsent = self.unsent, []
        certain = sends[self.chance.randint(0, len(sends)) :]
        self.to_agent += [self._delivery(send, CONSOLE_USER) for send in sends[: len(sends) - len(certain)]]
        self.console_does(self.console.handle(NotSent(certain, "test"), self.now))
        self.console_does(self.console.handle(LinkDown("test"), self.now))
        self.to_console.clear()
        self.console_does(self.console.handle(LinkUp(QUEUE), self.now))

    def time_passes(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)
        self.agent_does(self.agent.handle(TimerExpired(), self.now))
        self.console_does(self.console.handle(TimerExpired(), self.now))

    def hold(self) -> None:
        """Toggle whether messages to the agent are held up."""
        self.holds = not self.holds

    def resync(self) -> None:
        self.console_does(self.console.handle(LossSuspected("test"), self.now))

    def some_pass(self) -> None:
        self.passes(on=False)

    def some_time_passes(self) -> None:
        self.time_passes(self.chance.uniform(0, 3))


_STEPS = (
    *(_Way.call, _Way.call, _Way.some_pass, _Way.some_pass, _Way.some_pass, _Way.answer),
    *(_Way.again, _Way.lose, _Way.link_goes_down, _Way.some_time_passes, _Way.hold, _Way.resync),
)


@given(st.lists(st.sampled_from(_STEPS), max_size=60), st.randoms(use_true_random=False))
def test_nothing_is_done_twice_or_late_and_nothing_is_reported_that_is_not_so(
    steps: list[Callable[[_Way], None]], chance: random.Random
) -> None:
    way = _Way(chance)
    for step in steps:
        step(way)
    way.time_passes(6)
    way.passes(on=True)
    while way.waiting:
        way.answer()
    way.passes(on=True)

    assert all(count == 1 for count in way.carried_out.values())
    assert set(way.outcomes) == set(way.deadlines)
    for token, outcomes in way.outcomes.items():
        assert outcomes[:-1] in ([], [Outcome.UNKNOWN])
        if outcomes[-1] is Outcome.APPLIED:
            assert token in way.carried_out
        elif outcomes[-1] is not Outcome.UNKNOWN:
            assert token not in way.carried_out
