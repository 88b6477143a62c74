"""Console and agent before AM2 with each other, in each revision."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.qmf.agent_objects import ManagedObject
from gateway.dialects.qmf.am01.messages import ASKED, Revision
from gateway.dialects.qmf.session_state import State
from gateway.dialects.session import Called, LossSuspected, Send
from gateway.model.observations import (
    ClassLearned,
    EventLearned,
    EventSeen,
    Gap,
    ObjectSeen,
    ResyncBegan,
    ResyncEnded,
    Severity,
)
from gateway.model.operations import Answer, MethodCall, Outcome
from gateway.model.schema import Access, ClassKey, ClassSchema, Element
from gateway.model.times import SECOND
from gateway.model.values import Value, ValueType
from tests.dialects.qmf.am01.between import Between, shown, tank_object
from tests.dialects.qmf.am01.examples import leak
from tests.dialects.qmf.playbook import AGENT_USER, QUEUE, START

REVISIONS = pytest.mark.parametrize("revision", list(Revision), ids=lambda one: one.value)
RECEIVED = pytest.mark.parametrize(
    "revision", [one for one in Revision if one not in ASKED], ids=lambda one: one.value
)


def begun(revision: Revision, *objects: ManagedObject, known: bool = False) -> Between:
    between = Between(revision, known=known)
    for one in objects:
        between.agent.put(one)
    between.starts()
    return between


@REVISIONS
@pytest.mark.parametrize("known", [True, False])
def test_all_that_is_managed_is_seen_and_the_revision_found_out(revision: Revision, *, known: bool) -> None:
    tanks = [tank_object(number, f"t{number}", fills=number) for number in range(1, 120)]
    between = begun(revision, *tanks, known=known)
    assert between.console.state is State.SYNCHRONISED
    assert between.console.revisions == {revision}
    assert between.picture == shown(*tanks)
    assert between.reported(ResyncBegan, ResyncEnded, Gap) == [ResyncBegan(), ResyncEnded(complete=True)]


@REVISIONS
def test_a_class_has_package_and_hash_whatever_the_agent_reports(revision: Revision) -> None:
    between = begun(revision, tank_object())
    (learnt,) = between.reported(ClassLearned)
    assert isinstance(learnt, ClassLearned)
    assert (learnt.schema.key.package, learnt.schema.key.name) == ("shop", "tank")
    assert len(learnt.schema.key.hash) == 16
    assert learnt.schema.key.hash != bytes(16)


@REVISIONS
def test_changes_creations_and_ends_are_reported(revision: Revision) -> None:
    between = begun(revision, tank_object(1), tank_object(2, "t2"))
    between.reported()
    between.agent.put(tank_object(1, fills=8))
    between.agent.put(tank_object(3, "t3"))
    between.agent.delete(2, between.now)
    between.time_passes(11)
    assert between.picture == shown(tank_object(1, fills=8), tank_object(3, "t3"))
    assert not between.reported(ResyncBegan, ResyncEnded, Gap)


@REVISIONS
def test_an_object_that_came_and_went_at_once_is_reported_once_with_its_last_statistics(
    revision: Revision,
) -> None:
    between = begun(revision, tank_object(1))
    between.reported()
    between.agent.put(tank_object(2, "t2", fills=33))
    between.agent.delete(2, between.now)
    between.time_passes(12)
    (seen,) = [one for one in between.reported(ObjectSeen) if isinstance(one, ObjectSeen)]
    assert seen.properties == ("t2", None, 100)
    assert seen.statistics == (33, 50.0, "hi")
    assert seen.deleted


@REVISIONS
def test_what_ended_while_the_link_was_down_is_gone_behind_the_next_resync(revision: Revision) -> None:
    between = begun(revision, tank_object(1), tank_object(2, "t2"))
    between.disconnects()
    between.agent.delete(2, between.now)
    between.time_passes(15)
    between.connects()
    between.time_passes(60)
    assert between.console.state is State.SYNCHRONISED
    assert between.picture == shown(tank_object(1))


@REVISIONS
def test_a_silent_agent_is_asked_and_what_answers_lives(revision: Revision) -> None:
    between = begun(revision, tank_object(1))
    between.reported()
    between.time_passes(120)
    kinds = [type(one).__name__ for one in between.reported()]
    assert set(kinds) == {"HeartbeatSeen"}
    assert len(kinds) >= 8


@REVISIONS
def test_an_agent_that_answers_nothing_is_lost_and_looked_for(revision: Revision) -> None:
    between = begun(revision, tank_object(1))
    between.reported()
    between.agent.suspend()
    between.time_passes(31)
    assert "AgentLost" in [type(one).__name__ for one in between.reported()]
    assert between.console.state is not State.SYNCHRONISED
    between.agent_does(between.agent.start(between.now))
    between.time_passes(90)
    assert between.console.state.value == "synchronised"
    assert between.picture == shown(tank_object(1))


@REVISIONS
def test_an_agent_that_restarted_numbers_its_objects_from_then_on(revision: Revision) -> None:
    between = begun(revision, tank_object(START, "t1"), tank_object(START + 1, "t2"))
    between.reported()
    between.start_agent()
    later = between.now
    between.agent.put(tank_object(later, "t1"))
    between.agent_does(between.agent.start(between.now))
    between.time_passes(60)
    assert between.reported(ResyncBegan).count(ResyncBegan(restarted=True)) == 1
    assert between.picture == shown(tank_object(later, "t1"))
    assert between.console.state is State.SYNCHRONISED


@RECEIVED
def test_an_agent_that_does_not_learn_of_bindings_is_not_trusted_to_have_reported_everything(
    revision: Revision,
) -> None:
    between = Between(revision, receives_binds=False)
    between.agent.put(tank_object(1))
    between.agent.put(tank_object(2, "t2"))
    between.agent_does(between.agent.start(between.now))
    between.connects()
    between.time_passes(40)
    assert between.console.state is State.SYNCHRONISED
    between.disconnects()
    between.connects()
    between.agent.put(tank_object(1, fills=8))
    between.time_passes(30)
    assert between.console.state is not State.SYNCHRONISED
    assert between.picture == shown(tank_object(1, fills=8), tank_object(2, "t2"))


@RECEIVED
def test_an_agent_that_reports_everything_at_times_needs_not_learn_of_bindings(revision: Revision) -> None:
    between = Between(
        revision,
        receives_binds=False,
        console={"republish_interval": 60 * SECOND},
        agent={"republish_interval": 60 * SECOND},
    )
    between.agent.put(tank_object(1))
    between.agent.put(tank_object(2, "t2"))
    between.agent_does(between.agent.start(between.now))
    between.connects()
    between.time_passes(100)
    between.disconnects()
    between.agent.delete(2, between.now)
    between.time_passes(15)
    between.connects()
    between.time_passes(180)
    assert between.console.state is State.SYNCHRONISED
    assert between.picture == shown(tank_object(1))
    between.console_does(between.console.handle(LossSuspected("a test"), between.now))
    between.time_passes(140)
    assert between.console.state is State.SYNCHRONISED


@REVISIONS
def test_a_method_is_called_once_and_its_outputs_come_back(revision: Revision) -> None:
    between = begun(revision, tank_object(1))
    call = MethodCall(5, between.key(), "1.0", "0-0-0-0-1", "drain", (7, "spring"), between.now + 10 * SECOND)
    between.console_does(between.console.handle(call, between.now))
    (asked,) = between.asked
    assert isinstance(asked, Called)
    assert (asked.number, asked.method, asked.arguments) == (1, "drain", (7, "spring"))
    between.agent_does(between.agent.method_done(asked.handle, 0, "OK", (6, 2.5)))
    assert between.answers == [Answer(5, Outcome.APPLIED, "OK", 0, (6, 2.5))]


def test_events_of_the_written_form_are_reported_where_both_are_configured_for_them() -> None:
    between = Between(Revision.DESIGN_NOTES, console={"events": True}, agent={"events": True})
    between.agent.put(tank_object(1))
    between.starts()
    assert [one.schema.key.name for one in between.observed if isinstance(one, EventLearned)] == ["tank.leak"]
    key = ClassKey("shop", "tank.leak")
    between.agent_does(between.agent.raise_event(key, between.now, Severity.MAJOR, (12,)))
    (event,) = between.reported(EventSeen)
    assert isinstance(event, EventSeen)
    assert (event.severity, event.arguments, event.time) == (Severity.MAJOR, (12,), between.now)


@REVISIONS
def test_a_forged_message_changes_nothing(revision: Revision) -> None:
    between = begun(revision, tank_object(1))
    before = dict(between.picture)
    between.take([Send("qpid.management", "mgmt.config.tank", b"AM01CC\x04tank")], "guest")  # a third party
    between.deliver()
    assert between.picture == before
    assert between.notes[-1].event == "refused-sender"


_VALUES: dict[ValueType, st.SearchStrategy[Value]] = {
    ValueType.BOOL: st.booleans(),
    ValueType.U8: st.integers(0, 255),
    ValueType.U16: st.integers(0, 65_535),
    ValueType.U32: st.integers(0, 2**32 - 1),
    ValueType.U64: st.integers(0, 2**64 - 1),
    ValueType.STRING: st.text(st.characters(codec="utf-8", exclude_characters=":/@"), max_size=20),
    ValueType.F64: st.floats(allow_nan=False),
}


@st.composite
def _classes(draw: st.DrawFn) -> tuple[ClassSchema, ManagedObject]:
    def elements(prefix: str) -> tuple[Element, ...]:
        types = draw(st.lists(st.sampled_from(list(_VALUES)), max_size=5))
        return tuple(
            Element(
                f"{prefix}{place}",
                one,
                draw(st.sampled_from(list(Access))) if prefix == "p" else Access.READ_ONLY,
            )
            for place, one in enumerate(types)
        )

    schema = ClassSchema(
        ClassKey("any", draw(st.sampled_from(["a", "any", "b"]))), elements("p"), elements("s")
    )
    values = [
        tuple(draw(_VALUES[one.type]) for one in group) for group in (schema.properties, schema.statistics)
    ]
    return schema, ManagedObject(schema.key, 9, START, values[0], values[1], START)


@REVISIONS
@given(_classes())
def test_whatever_a_class_is_its_objects_arrive_as_they_are(
    revision: Revision, given_class: tuple[ClassSchema, ManagedObject]
) -> None:
    schema, managed = given_class
    between = Between(revision, classes=(schema,), events=())
    between.agent.put(managed)
    between.starts()
    assert between.console.state is State.SYNCHRONISED
    properties, statistics = between.picture["0-0-0-0-9"]
    assert properties == managed.properties
    assert (statistics or ()) == managed.statistics


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 5), st.integers(0, 3)),
        st.tuples(st.just("delete"), st.integers(1, 5), st.just(0)),
        st.tuples(
            st.sampled_from(["time", "reconnect", "suspend", "restart", "resync"]), st.just(0), st.just(0)
        ),
    ),
    max_size=15,
)


@REVISIONS
@given(_STEPS)
def test_whatever_happens_the_console_s_picture_becomes_what_the_agent_manages(
    revision: Revision, steps: list[tuple[str, int, int]]
) -> None:
    between = Between(revision)
    # Agents of 2008 have objects at all times: the broker's own.
    managed = {9: tank_object(9, "broker")}
    between.agent.put(managed[9])
    between.starts()
    for what, number, fills in steps:
        if what == "put":
            between.now += 1
            created = managed[number].created if number in managed else between.now
            tank = tank_object(number, f"t{number}", fills=fills)
            managed[number] = replace(tank, created=created, sampled=between.now)
            between.agent.put(managed[number])
        elif what == "delete":
            managed.pop(number, None)
            between.agent.delete(number, between.now)
        elif what == "time":
            between.time_passes(4)
        elif what == "reconnect":
            between.disconnects()
            between.connects()
        elif what == "suspend":
            between.agent.suspend()
            between.time_passes(2)
            between.agent_does(between.agent.start(between.now))
        elif what == "restart":
            between.disconnects()  # the broker that the agent is part of is gone
            between.start_agent()
            for one in managed.values():
                between.agent.put(one)
            between.agent_does(between.agent.start(between.now))
            between.connects()
        else:
            between.console_does(between.console.handle(LossSuspected("test"), between.now))
    between.time_passes(90)  # a resync may take 60 s, and the agent may begin another one meanwhile
    assert between.console.state is State.SYNCHRONISED
    assert between.picture == shown(*managed.values())


def test_the_events_of_a_class_are_reported_with_its_name() -> None:
    assert leak().key.name == "tank.leak"


def test_bindings_are_those_that_agents_publish_under() -> None:
    between = Between(Revision.FEBRUARY_2008)
    assert [(one.exchange, one.routing_key) for one in between.console.bindings(QUEUE)] == [
        ("amq.direct", QUEUE),
        ("qpid.management", "mgmt.#"),
    ]
    assert AGENT_USER
