"""The question who is read, to an agent of this gateway: its answers are the objects of the asked classes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.dialects.qmf.agent import AgentConfig, AgentSession, ManagedObject
from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.console import ConsoleConfig
from gateway.dialects.qmf.messages import CommandComplete
from gateway.dialects.qmf.peer_question import MOST_SENT, MOST_SHOWN, PeerQuestion
from gateway.dialects.session import Delivery, Send
from gateway.model.observations import ClassLearned, ObjectSeen
from tests.dialects.qmf.agent_story import POND
from tests.dialects.qmf.examples import TANK
from tests.dialects.qmf.playbook import AGENT_USER, BROKER, CONSOLE_USER, START

QUEUE = "answers"
TANKS = {"shop:tank": {"1.0"}}
CONFIG = ConsoleConfig(trusted_users=frozenset({AGENT_USER}))


def agent(*names: str) -> AgentSession:
    """Return an agent with so many tanks, and a pond, which nobody asks for."""
    session = AgentSession(AgentConfig(BROKER, 5, frozenset({CONSOLE_USER})), [TANK, POND])
    session.put(ManagedObject(POND.key, 1, START, ("p1",), (), START))
    for number, name in enumerate(names, 2):
        session.put(ManagedObject(TANK.key, number, START, (name, 100, None, None), (50.0, 9), START))
    session.start(START)
    return session


def served(session: AgentSession, send: Send) -> list[Delivery]:
    """Return the answers to a request."""
    request = Delivery(
        send.exchange, send.routing_key, send.body, send.reply_to, CONSOLE_USER, timestamp=START
    )
    answers = [one for one in session.handle(request, START) if isinstance(one, Send)]
    return [Delivery(one.exchange, one.routing_key, one.body, "", AGENT_USER) for one in answers]


def converse(question: PeerQuestion, session: AgentSession) -> int:
    """Let the agent answer everything that follows from the first requests; return how many were sent."""
    waiting, count = question.requests(QUEUE), 0
    while waiting:
        send, *waiting = waiting
        count += 1
        for answer in served(session, send):
            waiting += question.take(answer)
    return count


@pytest.mark.parametrize(("knows", "sent"), [(True, 1), (False, 3)])
def test_the_objects_of_a_class_are_shown_also_where_its_schema_is_new(*, knows: bool, sent: int) -> None:
    session = agent("t1", "t2")
    question = PeerQuestion(CONFIG, session.definitions if knows else (), TANKS, 1_000)
    assert [(one.exchange, one.routing_key) for one in question.bindings(QUEUE)] == [("amq.direct", QUEUE)]
    assert not question.answered
    assert converse(question, session) == sent
    assert question.is_answered
    assert question.answered == {"1.0"}
    learned, *objects = question.shown
    assert isinstance(learned, ClassLearned)
    shown = [one.properties[0] for one in objects if isinstance(one, ObjectSeen) and one.properties]
    assert sorted(map(str, shown)) == ["t1", "t2"]


def test_a_class_without_objects_is_answered() -> None:
    question = PeerQuestion(CONFIG, (), {"shop:river": {"1.0"}, **TANKS}, 0)
    converse(question, agent())
    assert question.is_answered
    assert not [one for one in question.shown if isinstance(one, ObjectSeen)]


def test_only_trusted_answers_to_its_own_requests_count() -> None:
    session = agent("t1")
    question = PeerQuestion(CONFIG, session.definitions, TANKS, 1_000)
    (send,) = question.requests(QUEUE)
    (shown, end) = answers = served(session, send)
    for one in answers:
        forged, published = replace(one, user_id="somebody"), replace(one, exchange="qpid.management")
        assert question.take(forged) == question.take(published) == []
    of_another = Delivery("amq.direct", QUEUE, write(CommandComplete(7)), "", AGENT_USER)
    assert question.take(of_another) == []
    assert len(question.shown) == 1, "the class"
    # Of an answer of which a part was not read, the end does not count: it is asked for again.
    for one in (replace(shown, body=shown.body[:-5]), end):
        assert question.take(one) == []
    assert not question.is_answered
    assert converse(question, session) == 1
    assert question.answered == {"1.0"}


def test_an_agent_that_refuses_has_not_shown_everything() -> None:
    question = PeerQuestion(CONFIG, (), TANKS, 0)
    question.requests(QUEUE)
    question.take(Delivery("amq.direct", QUEUE, write(CommandComplete(1, 7, "no")), "", AGENT_USER))
    assert (question.is_answered, question.answered) == (True, frozenset())


def test_no_answers_lead_to_requests_without_end() -> None:
    session, question = agent("t1"), PeerQuestion(CONFIG, (), TANKS, 0)
    (send,) = question.requests(QUEUE)
    answer, _ = served(session, send)
    requests = [one for _ in range(2 * MOST_SENT) for one in question.take(answer)]
    assert len(requests) == MOST_SENT - 1


def test_an_agent_with_more_objects_than_are_kept_has_not_shown_all() -> None:
    session = agent(*(f"t{number}" for number in range(MOST_SHOWN + 1)))
    question = PeerQuestion(CONFIG, session.definitions, TANKS, 0)
    converse(question, session)
    assert len(question.shown) == MOST_SHOWN
    assert not question.answered
