"""The console session with the answers of real peers, put back together from the recordings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.console_config import HeartbeatRules, Heartbeats
from gateway.dialects.qmf.messages import (
    BrokerRequest,
    BrokerResponse,
    ClassIndication,
    ClassQuery,
    CommandComplete,
    GetQuery,
    Message,
    ObjectContent,
    PackageIndication,
    PackageQuery,
    PropertyContent,
    SchemaRequest,
    SchemaResponse,
    StatisticContent,
)
from gateway.dialects.qmf.session_state import State
from gateway.model.observations import ClassLearned, EventLearned, ObjectSeen, ResyncEnded
from gateway.model.schema import ClassKey
from tests.dialects.qmf.playbook import BROKER, ConsolePlay
from tests.dialects.qmf.recordings import PEERS, definitions, readable, recorded

BROKER_PACKAGE = "org.apache.qpid.broker"


class RecordedPeer:
    """A peer that answers requests with all records of that answer in a recording."""

    def __init__(self, peer: str) -> None:
        known = definitions(peer)
        found = [one for message in recorded(peer) for one in readable(message.body, known)]
        self.indications = {(one.kind, one.key): one for one in found if isinstance(one, ClassIndication)}
        self.schemas = {one.definition.key: one for one in found if isinstance(one, SchemaResponse)}
        self.objects = {one.object_id: one for one in found if isinstance(one, ObjectContent)}
        self.pushes = [one for one in found if isinstance(one, PropertyContent | StatisticContent)]

    def answers(self, request: Message) -> list[Message]:
        answers = [replace(one, sequence=request.sequence) for one in self._content(request)]
        if isinstance(request, SchemaRequest) and answers:
            return answers
        return [*answers, CommandComplete(request.sequence)]

    def _content(self, request: Message) -> Iterator[Message]:
        if isinstance(request, BrokerRequest):
            yield BrokerResponse(0, BROKER)
        elif isinstance(request, PackageQuery):
            packages = dict.fromkeys(key.package for _, key in self.indications)
            yield from (PackageIndication(0, package) for package in packages)
        elif isinstance(request, ClassQuery):
            yield from (one for one in self.indications.values() if one.key.package == request.package)
        elif isinstance(request, SchemaRequest) and request.key in self.schemas:
            yield self.schemas[request.key]
        elif isinstance(request, GetQuery):
            name = request.selector["_class"]
            yield from (one for one in self.objects.values() if one.key.name == name)


def synchronised(peer: str) -> tuple[ConsolePlay, RecordedPeer, list[object]]:
    play = ConsolePlay(
        ConsoleConfig(trust_anyone=True, heartbeats=HeartbeatRules(Heartbeats.NONE)),
        known=definitions(peer),
    )
    answering = RecordedPeer(peer)
    reported: list[object] = []
    play.connects()
    waiting = play.left()
    while waiting:
        step = waiting.pop(0)
        if isinstance(step, tuple):
            for answer in answering.answers(step[1]):  # type: ignore[arg-type]  # a console sends what can be sent
                play.arrives(answer, user="")
                waiting.extend(play.left())
        else:
            reported.append(step)
    return play, answering, reported


@pytest.mark.parametrize("peer", PEERS)
def test_a_resync_with_a_real_peer_is_complete(peer: str) -> None:
    play, answering, reported = synchronised(peer)
    assert play.session.state is State.SYNCHRONISED
    assert ResyncEnded(complete=True) in reported
    learnt = [one for one in reported if isinstance(one, ClassLearned | EventLearned)]
    assert {one.schema.key.name for one in learnt} == {
        key.name for _, key in answering.indications if key in answering.schemas
    }
    seen = {one.native_id for one in reported if isinstance(one, ObjectSeen)}
    assert seen == {str(object_id) for object_id in answering.objects}


@pytest.mark.parametrize("peer", PEERS)
def test_everything_that_a_real_peer_pushed_is_reported(peer: str) -> None:
    play, answering, _ = synchronised(peer)
    pushed = [one for one in answering.pushes if one.key in answering.schemas]
    assert len(pushed) > 100
    for one in pushed:
        play.arrives(one, key=f"console.obj.1.0.{one.key.package}.{one.key.name}", user="")
    reported = [one for one in play.left() if isinstance(one, ObjectSeen)]
    # An agent of a test published one end twice.
    once = [one for number, one in enumerate(pushed) if not one.deleted or one not in pushed[:number]]
    assert len(pushed) - len(once) <= 1
    assert [one.native_id for one in reported] == [str(one.object_id) for one in once]
    assert [one.deleted for one in reported] == [one.deleted for one in once]


def test_a_qpid_broker_s_domain_keeps_its_password() -> None:
    _, _, reported = synchronised("qpidd-0.34")
    (domain,) = [
        one.schema for one in reported if isinstance(one, ClassLearned) and one.schema.key.name == "domain"
    ]
    assert isinstance(domain.key, ClassKey)
    names = [one.name for one in domain.properties]
    assert "username" in names
    assert "password" not in names
