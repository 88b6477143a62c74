"""The CML console when its broker falls silent or restarts, or objects do not answer."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from gateway.dialects.cml.messages import (
    Field,
    InspectReply,
    InspectRequest,
    Invalid,
    Reply,
    Request,
    SchemaRequest,
)
from gateway.dialects.cml.session_state import State
from gateway.dialects.session import NotSent
from gateway.model.observations import (
    AgentLost,
    Gap,
    ObjectSeen,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.times import SECOND
from tests.dialects.cml.console_story import (
    SYNCHRONISED,
    reported,
    seen,
    states,
    synchronised,
    the_broker,
)
from tests.dialects.cml.playbook import Shop, shop

# Silence.


def test_a_silent_broker_is_stale_and_its_first_word_begins_a_walk() -> None:
    play = synchronised()
    received = play.now
    play.time_passes(15, answering=False)
    assert play.left() == [
        InspectRequest(0),
        AgentLost("broker", "the broker has not answered for 10 s"),
        SourceStateSeen(SourceState.DEGRADED, "the broker has not answered for 10 s; next attempt in 5 s"),
    ]
    late = play.sent[-1]
    play.waiting.clear()
    play.time_passes(4, answering=False)
    play.left()
    play.arrives(play.written(play.broker.reply(InspectRequest(0))), late.message_id)
    play.leaves("unmatched-reply")
    play.waiting.clear()
    play.time_passes(14)
    steps = play.left()
    (gap,) = [one for one in steps if isinstance(one, Gap)]
    assert (gap.start, gap.reason) == (received, "the broker did not answer")
    assert states(steps)[-1] == SYNCHRONISED


def test_a_broker_that_takes_no_requests_for_a_while_counts_as_not_listened_to() -> None:
    play = synchronised()
    received = play.now
    play.time_passes(5, answering=False)
    play.take(play.session.handle(NotSent([play.waiting.popleft()], "no route"), play.now))
    play.time_passes(8)
    steps = play.left()
    (gap,) = [one for one in steps if isinstance(one, Gap)]
    assert (gap.start, gap.end) == (received, received + 10 * SECOND)
    assert [one.state for one in states(steps)] == [
        SourceState.DOWN,
        SourceState.SYNCHRONISING,
        SourceState.SYNCHRONISED,
    ]


def test_an_object_that_does_not_answer_makes_all_stale_until_it_does() -> None:
    """The model has one freshness for all objects of a broker."""
    play = synchronised()
    play.spoils = {InspectRequest(7, "queue"): None}
    play.time_passes(75)
    steps = play.left()
    reason = "object 7 'orders': no answer for 10 s"
    assert AgentLost("broker", reason) in steps
    assert SourceStateSeen(SourceState.DEGRADED, f"{reason}; next attempt in 5 s") in steps
    assert "9" in reported(steps[steps.index(AgentLost("broker", reason)) :])
    play.spoils.clear()
    play.time_passes(60)
    play.stands(State.SYNCHRONISED)
    assert states(play.left())[-1] == SYNCHRONISED


def test_one_suspected_loss_counts_like_two() -> None:
    play = synchronised()
    play.spoils = {InspectRequest(7, "queue"): Invalid(), InspectRequest(9, "connection"): Invalid()}
    play.time_passes(36)
    steps = play.left()
    assert len([one for one in steps if isinstance(one, AgentLost)]) == 1
    play.stands(State.DEGRADED)


def test_a_stale_object_that_ends_leaves_nothing_stale() -> None:
    play = synchronised()
    play.spoils = {InspectRequest(7, "queue"): Invalid()}
    play.time_passes(36)
    play.stands(State.DEGRADED)
    play.broker.remove(7)
    play.time_passes(30)
    play.stands(State.SYNCHRONISED)


def test_a_request_that_is_not_answered_is_forgotten_with_its_object() -> None:
    play = synchronised()
    play.spoils = {InspectRequest(7, "queue"): None}
    play.time_passes(19)
    play.broker.remove(7)
    play.time_passes(40)
    assert states(play.left()) == []
    play.stands(State.SYNCHRONISED)


# Restarts.


def test_a_restart_while_connected_renames_all() -> None:
    play = synchronised()
    play.broker.put(0, "broker", name="shop", started="2026-11-21T00:01+00:00")
    play.time_passes(8)
    run = "2026-11-21T00:01+00:00"
    steps = play.left()
    assert ResyncBegan(restarted=True) in steps
    assert the_broker(run, run) in steps
    assert seen(7, "queue", "orders", 3, False, run=run) in steps
    assert steps[-1] == SYNCHRONISED


def test_a_restart_while_not_connected_is_seen_by_the_start_time() -> None:
    play = synchronised()
    play.disconnects()
    play.broker.put(0, "broker", name="shop", started="2026-11-21T00:01+00:00")
    play.connects()
    play.time_passes(3)
    assert ResyncBegan(restarted=True) in play.left()


class Odd(Shop):
    """A broker whose next reply about an object may lack fields, or have others.

    Attributes:
        odd: the fields of that reply that differ, by number; empty for one that it lacks.
    """

    def __init__(self) -> None:
        super().__init__(objects=shop().objects)
        self.odd: dict[int, dict[str, str]] = {}

    def reply(self, request: Request) -> Reply:
        reply = super().reply(request)
        if not isinstance(request, InspectRequest) or not isinstance(reply, InspectReply):
            return reply
        odd = self.odd.pop(cast("int", request.object_id), {})
        fields = [Field(one.name, odd.get(one.name, one.text)) for one in reply.fields]
        return replace(reply, fields=tuple(one for one in fields if one.text or one.name not in odd))


@pytest.mark.parametrize(
    ("number", "odd", "reconnects"),
    [
        (0, {"started": ""}, False),
        (0, {"started": ""}, True),
        (0, {"started": "2026-11-21T00:01+00:00"}, False),
        (0, {"connection": ""}, True),
        (7, {"name": ""}, True),
    ],
)
def test_one_odd_reply_is_no_restart(number: int, odd: dict[str, str], *, reconnects: bool) -> None:
    broker = Odd()
    broker.put(200, "connection", 0, name="console")
    play = synchronised(broker=broker)
    if reconnects:
        play.disconnects()
        broker.remove(200)
        broker.put(201, "connection", 0, name="console")
    broker.odd[number] = odd
    if reconnects:
        play.connects()
    play.time_passes(60)
    assert not broker.odd
    steps = play.left()
    assert ResyncBegan(restarted=True) not in steps
    assert number or not any(isinstance(one, ObjectSeen) and one.deleted for one in steps)
    play.stands(State.SYNCHRONISED)


def test_a_start_time_that_the_first_reply_lacks_is_that_of_this_run() -> None:
    broker = Odd()
    broker.odd[0] = {"started": ""}
    play = synchronised(broker=broker)
    play.time_passes(60)
    assert ResyncBegan(restarted=True) not in play.left()
    play.broker.put(0, "broker", name="shop", started="2026-11-21T00:01+00:00")
    play.time_passes(60)
    assert ResyncBegan(restarted=True) in play.left()


def test_a_new_connection_of_ours_that_is_listed_late_is_no_restart() -> None:
    broker = shop()
    broker.put(200, "connection", 0, name="console")
    play = synchronised(broker=broker)
    play.disconnects()
    broker.remove(200)
    play.connects()
    play.answers()
    play.answers()
    broker.put(201, "connection", 0, name="console")
    play.time_passes(60)
    assert ResyncBegan(restarted=True) not in play.left()


def test_a_restart_within_the_minute_is_seen_by_the_number_of_our_own_connection() -> None:
    broker = shop()
    broker.put(200, "connection", 0, name="console")
    play = synchronised(broker=broker)
    play.disconnects()
    broker.remove(200)
    broker.put(14, "connection", 0, name="console")
    play.connects()
    play.time_passes(3)
    steps = play.left()
    assert ResyncBegan(restarted=True) in steps
    assert "2026-11-20T06:52+00:00~2/7" in [one.native_id for one in steps if isinstance(one, ObjectSeen)]


def test_a_restart_within_the_minute_is_seen_by_what_has_an_others_number() -> None:
    play = synchronised()
    play.disconnects()
    play.broker.put(7, "queue", name="invoices", pending="0", exclusive="0")
    play.connects()
    play.time_passes(8)
    steps = play.left()
    begun = [one for one in steps if isinstance(one, ResyncBegan | ResyncEnded)]
    assert begun == [
        ResyncBegan(),
        ResyncEnded(complete=False),
        ResyncBegan(restarted=True),
        ResyncEnded(complete=True),
    ]
    assert SchemaRequest() in steps
