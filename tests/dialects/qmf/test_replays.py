"""Recorded peers at their own pace as input of a console; the expected results were written by hand."""

from __future__ import annotations

from collections import Counter
from functools import cache

from gateway.dialects.qmf.session_state import State
from gateway.model.observations import (
    AgentLost,
    ClassLearned,
    EventLearned,
    EventSeen,
    HeartbeatSeen,
    ObjectSeen,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import ClassSchema
from gateway.model.times import SECOND
from gateway.model.values import Reference, Value, ValueType
from tests.dialects.qmf.playbook import Step
from tests.dialects.qmf.replaying import Replay

JAVA, QPIDD, AGENT_06 = "java-0.8", "qpidd-0.34", "console-and-agent-0.6"


@cache
def replayed(peer: str) -> Replay:
    """Return a console that has received all of a recording; tests must not change it."""
    replay = Replay(peer)
    replay.plays()
    return replay


def course(replay: Replay) -> list[Step]:
    """Return the changes of state of a session: lost agents, resyncs, source states, and notes."""
    turns = AgentLost | ResyncBegan | ResyncEnded | SourceStateSeen | str
    return [one for one in replay.reported if isinstance(one, turns)]


def learnt(replay: Replay) -> dict[str, ClassSchema]:
    return {one.schema.key.name: one.schema for one in replay.reported if isinstance(one, ClassLearned)}


def named(schema: ClassSchema, seen: ObjectSeen) -> dict[str, Value | None]:
    """Return the values of an observation, by name."""
    properties = dict(zip((one.name for one in schema.properties), seen.properties or (), strict=False))
    statistics = zip((one.name for one in schema.statistics), seen.statistics or (), strict=False)
    return properties | dict(statistics)


def reported_of(replay: Replay, class_name: str, native_id: str) -> list[ObjectSeen]:
    return [
        one
        for one in replay.reported
        if isinstance(one, ObjectSeen) and (one.key.name, one.native_id) == (class_name, native_id)
    ]


SYNCHRONISES = [
    SourceStateSeen(SourceState.CONNECTING, "greeting agents on exchange qpid.management"),
    SourceStateSeen(SourceState.SYNCHRONISING),
    ResyncBegan(),
    ResyncEnded(complete=True),
    SourceStateSeen(SourceState.SYNCHRONISED),
]


# The Java broker: no heartbeats, no events, no hashes.


def test_a_java_broker_is_read_once_and_trusted_while_it_publishes() -> None:
    replay = replayed(JAVA)
    assert course(replay) == SYNCHRONISES
    assert Counter(type(one).__name__ for one in replay.peer.asked) == {
        "BrokerRequest": 1,
        "PackageQuery": 1,
        "ClassQuery": 1,
        "SchemaRequest": 26,
        "GetQuery": 13,
    }
    assert not [one for one in replay.reported if isinstance(one, EventSeen | HeartbeatSeen)]


def test_classes_of_a_java_broker_have_hashes_of_their_own() -> None:
    reported = [one for one in replayed(JAVA).reported if isinstance(one, ClassLearned | EventLearned)]
    assert len({one.schema.key.hash for one in reported}) == 26
    assert bytes(16) not in {one.schema.key.hash for one in reported}


def test_a_queue_of_a_java_broker_with_its_reference_and_its_end() -> None:
    replay = replayed(JAVA)
    schema = learnt(replay)["queue"]
    reported = reported_of(replay, "queue", "0-0-0-0-61")
    values = named(schema, reported[0])
    assert (values["name"], values["vhostRef"]) == ("j91q", Reference("0-0-0-0-36"))
    assert (values["durable"], values["exclusive"], values["msgDepth"]) == (False, False, 0)
    assert {one.agent for one in reported} == {"1.0"}
    assert [one.deleted for one in reported if one.deleted] == [1_795_159_204_931_000_000]
    assert reported[-1].deleted, "nothing is told of it behind its end"


def test_a_java_broker_that_falls_silent_is_asked_before_it_is_lost() -> None:
    replay = Replay(JAVA)
    replay.plays()
    asked = len(replay.peer.asked)
    replay.time_passes(20)
    assert [one for one in replay.left() if isinstance(one, str)] == ["resync"]
    replay.time_passes(10)
    assert AgentLost("1.0", "agent 1.0 has been silent for 30 s") in replay.left()
    assert len(replay.peer.asked) == asked, "nobody answers"


# qpidd and a C++ agent of 0.6: the agent creates children, ends, and comes back.


def test_an_agent_of_0_6_comes_goes_and_comes_back() -> None:
    assert course(replayed(AGENT_06)) == [
        *SYNCHRONISES,
        AgentLost("1.10", "agent 1.10 left the broker", remote=True, leaving=True),
        ResyncBegan("1.10"),
        ResyncEnded(complete=True, agent="1.10"),
    ]


def test_classes_of_an_agent_of_0_6_are_lower_case_and_its_events_are_not() -> None:
    reported = [one for one in replayed(AGENT_06).reported if isinstance(one, ClassLearned | EventLearned)]
    theirs = {one.schema.key.name for one in reported if one.schema.key.package.endswith(".example")}
    assert theirs == {"parent", "child", "ChildCreated", "ChildDestroyed"}


def test_objects_of_an_agent_of_0_6_are_its_own() -> None:
    replay = replayed(AGENT_06)
    reported = reported_of(replay, "parent", "0-0-1-10-76880203221321045")
    assert {one.agent for one in reported} == {"1.10"}
    values = named(learnt(replay)["parent"], reported[0])
    assert values == {"name": "Example Core Object #1", "state": "IN_LOOP", "count": 4}
    method = learnt(replay)["parent"].methods[0]
    assert (method.name, [(one.name, one.direction.value) for one in method.arguments]) == (
        "create_child",
        [("name", "in"), ("childRef", "out")],
    )


def test_events_of_an_agent_of_0_6_come_without_arguments_as_qpidd_keeps_a_cut_schema() -> None:
    created = [
        one for one in replayed(AGENT_06).reported if isinstance(one, EventSeen) and one.agent == "1.10"
    ]
    assert [(one.key.name, one.arguments) for one in created] == [("ChildCreated", ())] * 9


def test_heartbeats_are_each_agent_s_own() -> None:
    beats = Counter(one.agent for one in replayed(AGENT_06).reported if isinstance(one, HeartbeatSeen))
    assert beats == {"1.0": 20, "1.10": 5}


# qpidd 0.34, its queues, and agents of the recording's own.


def test_qpidd_s_agents_come_and_go_and_everything_else_stays() -> None:
    assert (
        course(replayed(QPIDD))
        == [
            *SYNCHRONISES,
            "resync",  # a new package is announced, and its agent with it
            *SYNCHRONISES[1:3],
            "no-schema",  # it never answered the broker for one of its classes
            *SYNCHRONISES[3:],
            ResyncBegan("1.11"),
            ResyncBegan("1.4711"),
            ResyncEnded(complete=True, agent="1.11"),
            ResyncEnded(complete=True, agent="1.4711"),
            ResyncBegan("1.12"),
            AgentLost("1.11", "agent 1.11 left the broker", remote=True, leaving=True),
            AgentLost("1.4711", "agent 1.4711 left the broker", remote=True, leaving=True),
            ResyncEnded(complete=False, agent="1.12"),
            AgentLost("1.12", "agent 1.12 left the broker", remote=True, leaving=True),
            AgentLost("1.10", "agent 1.10 left the broker", remote=True, leaving=True),
        ]
    )
    assert replayed(QPIDD).session.state is State.SYNCHRONISED


def test_compound_statistics_of_a_queue_are_elements_of_their_own() -> None:
    schema = learnt(replayed(QPIDD))["queue"]
    names = [one.name for one in schema.statistics]
    assert names[names.index("consumerCount") :][:3] == [
        "consumerCount",
        "consumerCountHigh",
        "consumerCountLow",
    ]
    latency = names.index("messageLatencySamples")
    assert names[latency : latency + 4] == [
        "messageLatencySamples",
        "messageLatencyMin",
        "messageLatencyMax",
        "messageLatencyAverage",
    ]
    assert schema.elements[schema.positions["messageLatencyMax"]].type is ValueType.DURATION


def test_a_queue_of_qpidd_with_its_references_and_maps() -> None:
    replay = replayed(QPIDD)
    reported = [one for one in reported_of(replay, "queue", "0-1-1-0-63") if one.properties is not None]
    values = named(learnt(replay)["queue"], reported[-1])
    assert values["name"] == "q3"
    assert (values["vhostRef"], values["altExchange"]) == (Reference("0-0-1-0-3"), Reference("0-0-1-0-7"))
    assert values["arguments"] == {"qpid.max_count": 4, "qpid.policy_type": "reject"}
    (plain,) = [one for one in reported_of(replay, "queue", "0-1-1-0-55") if one.properties is not None][:1]
    assert named(learnt(replay)["queue"], plain)["altExchange"] is None, "an optional property that is absent"


def test_every_event_of_qpidd_is_reported_once() -> None:
    events = Counter(one.key.name for one in replayed(QPIDD).reported if isinstance(one, EventSeen))
    assert events["queueDeclare"] > 600
    assert events["queueThresholdCrossedUpward"] == 2
    (boom,) = [
        one for one in replayed(QPIDD).reported if isinstance(one, EventSeen) and one.key.name == "boom"
    ]
    assert (boom.agent, boom.arguments) == ("1.10", ("because", 9))


def test_objects_that_qpidd_deleted_are_reported_as_deleted() -> None:
    gone = {
        one.native_id
        for one in replayed(QPIDD).reported
        if isinstance(one, ObjectSeen) and one.key.name == "queue" and one.deleted
    }
    assert len(gone) > 600
    last: dict[str, ObjectSeen] = {}
    for one in replayed(QPIDD).reported:
        if isinstance(one, ObjectSeen) and one.native_id in gone:
            last[one.native_id] = one
    assert all(one.deleted for one in last.values())


def test_no_recording_takes_the_clock_out_of_its_interval() -> None:
    """The intervals of agents are learnt: qpidd's two seconds, the agent's five."""
    replay = Replay(QPIDD)
    replay.plays(30)
    replay.time_passes(6)
    assert AgentLost("1.0", "agent 1.0 has been silent for 6 s") in replay.left()
    assert replay.now > SECOND
