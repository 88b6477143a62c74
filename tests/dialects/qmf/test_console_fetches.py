"""Objects that a console reads again."""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects.qmf.codec import write
from gateway.dialects.qmf.definitions import ClassDefinition, Definitions
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import (
    CommandComplete,
    GetQuery,
)
from gateway.model.observations import ObjectSeen
from gateway.model.operations import Answer, Outcome
from gateway.model.times import SECOND
from tests.dialects.qmf.console_story import WITHOUT_HEARTBEATS, got, synchronised
from tests.dialects.qmf.examples import TANK, shop
from tests.dialects.qmf.operations_story import (
    AGENT_KEY,
    FIRST,
    fetches,
)
from tests.dialects.qmf.playbook import START


def test_an_object_is_asked_for_by_its_id_and_observed_before_it_is_answered() -> None:
    play = synchronised()
    fetches(play)
    play.leaves((AGENT_KEY, GetQuery(FIRST, {"_objectid": "0-5-1-0-4386"})))
    assert play.sent[-1].not_after == play.now + 10 * SECOND
    body = write(got(FIRST, "t2"), shop()) + write(CommandComplete(FIRST))
    play.arrives_octets(body)
    seen, answer = play.left()
    assert isinstance(seen, ObjectSeen)
    assert seen.properties == ("t2", 100, None, None)
    assert answer == Answer(1, Outcome.APPLIED, "", 0)


def test_an_object_that_is_not_reported_is_gone() -> None:
    play = synchronised()
    fetches(play)
    play.left()
    play.arrives(CommandComplete(FIRST))
    play.leaves(Answer(1, Outcome.OBJECT_GONE, "the agent has no such object", 0))


def test_another_object_is_not_the_one_that_was_asked_for() -> None:
    play = synchronised()
    fetches(play)
    play.arrives(got(FIRST, "t2", ObjectId.of(sequence=5, number=9)))
    play.left()
    play.arrives(CommandComplete(FIRST))
    play.leaves(Answer(1, Outcome.OBJECT_GONE, "the agent has no such object", 0))


def test_an_object_that_is_reported_as_deleted_is_gone() -> None:
    play = synchronised()
    fetches(play)
    play.arrives(replace(got(FIRST), deleted=START))
    play.left()
    play.arrives(CommandComplete(FIRST))
    play.leaves(Answer(1, Outcome.OBJECT_GONE, "the agent has no such object", 0))


def test_a_fetch_that_an_agent_refuses_failed() -> None:
    play = synchronised()
    fetches(play)
    play.left()
    play.arrives(CommandComplete(FIRST, 1, "not read: the broker does not answer"))
    play.leaves(Answer(1, Outcome.REMOTE_FAILURE, "not read: the broker does not answer", 1))


def test_an_object_that_cannot_be_read_is_not_called_gone() -> None:
    play = synchronised()
    fetches(play)
    play.left()
    play.arrives_octets(write(got(FIRST), shop())[:-3])
    play.arrives(CommandComplete(FIRST))
    note, answer = play.left()
    assert note == "protocol-error"
    assert isinstance(answer, Answer)
    assert answer.outcome is Outcome.REMOTE_FAILURE
    assert answer.text.startswith("the answer cannot be read: at offset")


def test_an_object_whose_schema_has_changed_is_not_called_gone() -> None:
    play = synchronised()
    fetches(play)
    grown = replace(TANK, key=replace(TANK.key, hash=b"G" * 16))
    known = Definitions()
    known.add(ClassDefinition.of(grown))
    play.arrives_octets(write(replace(got(FIRST), key=grown.key), known))
    play.left()
    play.arrives(CommandComplete(FIRST))
    (answer,) = play.left()
    assert isinstance(answer, Answer)
    assert answer.outcome is Outcome.REMOTE_FAILURE
    assert answer.text == "the schema of shop:tank, as it is by now, is not known"


def test_a_fetch_without_an_answer_is_open() -> None:
    play = synchronised(WITHOUT_HEARTBEATS)
    fetches(play, seconds=3)
    play.left()
    play.time_passes(4)
    play.leaves(Answer(1, Outcome.UNKNOWN, "no answer came in time"))
