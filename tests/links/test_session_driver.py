"""A driver carries out the effects of its session, in order, and nothing else."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import pytest
import structlog

from gateway.clock import SystemClock
from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.session import Answered, Close, Delivery, Effect, Note, Observed, Rebind, Send, WakeAt
from gateway.links.amqp_connection import LinkError
from gateway.links.session_driver import MAX_OUTGOING, MessageDriver
from gateway.model.observations import Observation, SourceState, SourceStateSeen
from gateway.model.operations import Answer, Outcome
from gateway.model.times import SECOND
from tests.components.scripted_session import ScriptedSession
from tests.components.waiting import eventually

UP = SourceStateSeen(SourceState.SYNCHRONISED)
DOWN = SourceStateSeen(SourceState.DOWN)


@dataclass
class HeldClock:
    """A clock that shows the time that was set."""

    time: int = 0

    def now(self) -> int:
        return self.time


@dataclass
class ConstantSession(ScriptedSession):
    """A session that answers every delivery and every timer with the same effects."""

    on_receive: list[Effect] = field(default_factory=list)
    on_tick: list[Effect] = field(default_factory=list)
    received: list[tuple[Delivery, int]] = field(default_factory=list)
    woken: list[int] = field(default_factory=list)

    def receive(self, delivery: Delivery, now: int) -> list[Effect]:
        self.received.append((delivery, now))
        return self.on_receive

    def tick(self, now: int) -> list[Effect]:
        self.woken.append(now)
        return self.on_tick

    async def was_woken(self) -> bool:
        return bool(self.woken)


@dataclass
class Talk:
    """A driver, and the objects around it."""

    session: ConstantSession = field(default_factory=ConstantSession)
    clock: HeldClock = field(default_factory=HeldClock)
    seen: list[tuple[Observation, ...]] = field(default_factory=list)
    counters: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.driver = MessageDriver("orders", self.session, self.seen.append, self.clock, self.counters)


def send(number: int) -> Send:
    return Send("exchange", "key", str(number).encode())


def test_a_delivery_is_counted_and_its_effects_carried_out() -> None:
    talk = Talk(ConstantSession(on_receive=[Observed((UP, DOWN))]), HeldClock(7))
    delivery = Delivery("exchange", "key", b"12345")

    talk.driver.deliver(delivery)

    assert talk.session.received == [(delivery, 7)]
    assert talk.seen == [(UP, DOWN)]
    assert talk.counters == {"messages": 1, "octets": 5}


async def test_sends_leave_in_order() -> None:
    talk = Talk()
    talk.driver.perform([send(1), Observed((UP,)), send(2)])
    talk.driver.perform([send(3)])

    assert [await talk.driver.next_send() for _ in range(3)] == [send(1), send(2), send(3)]


async def test_who_waits_for_a_send_gets_it_when_it_comes() -> None:
    talk = Talk()
    waiting = asyncio.create_task(talk.driver.next_send())
    await asyncio.sleep(0)
    assert not waiting.done()

    talk.driver.perform([send(1)])

    assert await waiting == send(1)


async def test_sends_of_a_link_that_went_down_are_forgotten() -> None:
    talk = Talk()
    talk.driver.perform([send(1)])
    talk.driver.forget_sends()
    talk.driver.perform([send(2)])

    assert await talk.driver.next_send() == send(2)


def test_a_session_receives_what_of_it_was_not_sent_if_it_is_sent_once_only() -> None:
    answer = Answer(1, Outcome.SOURCE_DOWN, "not sent")
    reported: list[object] = []

    class ForgivingSession(ScriptedSession):
        """A session that answers unsent messages."""

        def not_sent(self, sends: Sequence[Send], reason: str, now: int) -> list[Effect]:
            reported.append((list(sends), reason, now))
            return [Answered(answer)]

    answers: list[Answer] = []
    talk = MessageDriver(
        "orders", ForgivingSession(), lambda _: None, HeldClock(7), Counter(), answers.append
    )
    once = replace(send(2), not_after=9)
    talk.unsent([send(1), once, send(3)], "test")
    talk.unsent([send(1)], "test")

    assert reported == [([once], "test", 7)]
    assert answers == [answer]


def test_it_is_clogged_when_more_waits_than_a_moving_link_leaves() -> None:
    talk = Talk()
    talk.driver.perform(send(number) for number in range(MAX_OUTGOING))
    assert not talk.driver.is_backed_up
    talk.driver.perform([send(0)])
    assert talk.driver.is_backed_up


# -- waking


async def test_a_session_is_woken_when_it_asked_to_be() -> None:
    session = ConstantSession(on_tick=[Observed((DOWN,))])
    talk = Talk(session, HeldClock(5 * SECOND))

    talk.driver.perform([WakeAt(5 * SECOND + 1_000_000)])
    await eventually(session.was_woken, "the session was woken")

    assert session.woken == [5 * SECOND]
    assert talk.seen == [(DOWN,)]


async def test_a_time_that_has_passed_wakes_at_once_but_not_in_passing() -> None:
    session = ConstantSession()
    talk = Talk(session, HeldClock(5 * SECOND))

    talk.driver.perform([WakeAt(SECOND)])

    assert session.woken == []
    await eventually(session.was_woken, "the session was woken")


async def test_a_later_wish_replaces_the_one_before() -> None:
    session = ConstantSession()
    talk = Talk(session)

    talk.driver.perform([WakeAt(3600 * SECOND), WakeAt(0), WakeAt(0)])
    await eventually(session.was_woken, "the session was woken")
    await asyncio.sleep(0)

    assert len(session.woken) == 1


async def test_a_driver_that_stopped_wakes_no_session() -> None:
    session, witness = ConstantSession(), ConstantSession()
    talk, other = Talk(session), Talk(witness)
    talk.driver.perform([WakeAt(0)])
    other.driver.perform([WakeAt(0)])

    talk.driver.stop()
    await eventually(witness.was_woken, "the other session was woken")

    assert session.woken == []


# -- notes


def test_notes_of_a_kind_are_logged_once_a_minute_and_all_counted() -> None:
    talk = Talk()
    with structlog.testing.capture_logs() as logged:
        for second in (0, 1, 59, 60, 61, 125):
            talk.clock.time = second * SECOND
            talk.driver.perform([Note("odd-frame", f"at {second}")])
        talk.driver.perform([Note("other")])

    assert [(line["event"], line.get("detail"), line["count"]) for line in logged] == [
        ("odd-frame", "at 0", 1),
        ("odd-frame", "at 60", 4),
        ("odd-frame", "at 125", 6),
        ("other", "", 1),
    ]
    assert {line["name"] for line in logged} == {"orders"}
    assert talk.driver.notes == {"odd-frame": 6, "other": 1}


@pytest.mark.parametrize(
    ("event", "counter"), [("protocol-error", "protocol_errors"), ("refused-sender", "refused")]
)
def test_what_operators_count_is_in_the_counters(event: str, counter: str) -> None:
    talk = Talk()
    talk.driver.perform([Note(event), Note(event), Note("other")])
    assert talk.counters == {counter: 2}


def test_a_minute_is_a_minute_of_the_machines_clock() -> None:
    counters: Counter[str] = Counter()
    real = MessageDriver("orders", ConstantSession(), lambda _: None, SystemClock(), counters)
    with structlog.testing.capture_logs() as logged:
        real.perform([Note("odd-frame")] * 100)
    assert len(logged) == 1


# -- faults of ours


class FaultySession(ConstantSession):
    """A session that fails at its timer."""

    def tick(self, now: int) -> list[Effect]:
        raise LookupError(f"at {now}")


async def test_a_session_that_needs_its_queue_bound_again_gets_a_new_link() -> None:
    talk = Talk()
    talk.driver.perform([Rebind("agents tell everything to whoever binds")])
    with pytest.raises(LinkError, match="bound again: agents tell everything to whoever binds"):
        await talk.driver.next_send()


async def test_a_fault_while_waking_reaches_who_carries_the_messages() -> None:
    talk = Talk(FaultySession())
    talk.driver.perform([WakeAt(0)])

    with pytest.raises(LookupError, match="at 0"):
        await talk.driver.next_send()

    talk.driver.perform([send(1)])
    assert await talk.driver.next_send() == send(1)


async def test_a_rebinding_that_comes_while_the_link_goes_down_does_not_end_the_next_one() -> None:
    driver = MessageDriver("orders", ConstantSession(), lambda _: None, SystemClock(), Counter())
    driver.perform([Rebind("another queue")])
    driver.forget_sends()
    sent = Send("", "key", b"")
    driver.perform([sent])
    assert await asyncio.wait_for(driver.next_send(), 60) == sent


async def test_an_error_of_the_session_outlives_the_link() -> None:
    driver = MessageDriver("orders", ConstantSession(), lambda _: None, SystemClock(), Counter())
    driver.fail(ValueError("a fault of ours"))
    driver.forget_sends()
    with pytest.raises(ValueError, match="a fault of ours"):
        await asyncio.wait_for(driver.until_failed(), 60)
    with pytest.raises(ValueError, match="a fault of ours"):
        await asyncio.wait_for(driver.next_send(), 60)


def test_an_effect_of_another_transport_is_a_mistake() -> None:
    driver = MessageDriver("orders", ConstantSession(), lambda _: None, SystemClock(), Counter())
    with pytest.raises(LocalProtocolError, match="cannot carry out Close"):
        driver.perform([Close(1)])
