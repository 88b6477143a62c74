"""On any input, sessions before AM2 raise nothing, leave one note for each message, and stay small."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.qmf.am01.messages import ClassDescription, Revision
from gateway.dialects.qmf.am01.schemas import described_class
from gateway.dialects.qmf.fields import ObjectId
from gateway.dialects.qmf.messages import ClassIndication, ClassKind, PackageIndication
from gateway.dialects.session import Delivery, Note, TimerExpired
from gateway.model.observations import ObjectSeen
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from tests.dialects.qmf.am01.between import tank_object
from tests.dialects.qmf.am01.examples import leak, tank
from tests.dialects.qmf.am01.playbook import Play
from tests.dialects.qmf.am01.recordings import FILES, recorded
from tests.dialects.qmf.playbook import CONSOLE_USER, QUEUE, START
from tests.peers.am01_agent import Am01AgentConfig, Am01AgentSession

_RECORDED = [one for file in FILES for one in recorded(file)]
_KEYS = st.one_of(
    st.sampled_from(
        sorted({one.key for one in _RECORDED} | {QUEUE, "agent", "mgmt.", "mgmt.schema.package"})
    ),
    st.text(max_size=40),
)


@st.composite
def _bodies(draw: st.DrawFn) -> bytes:
    """Draw recorded bodies, whole, cut or changed, and arbitrary octets."""
    if draw(st.booleans()):
        return draw(st.binary(max_size=80))
    body = bytearray(draw(st.sampled_from(_RECORDED)).body)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, max(0, len(body) - 1)))
        body[place : place + 1] = draw(st.binary(max_size=3))
    return bytes(body[: draw(st.integers(0, len(body)))]) if draw(st.booleans()) else bytes(body)


_MESSAGES = st.lists(st.tuples(_KEYS, _bodies(), st.floats(0, 20)), max_size=12)


@given(revision=st.sampled_from(list(Revision)), known=st.booleans(), messages=_MESSAGES)
def test_a_console_survives_whatever_it_receives(
    revision: Revision, messages: list[tuple[str, bytes, float]], *, known: bool
) -> None:
    play = Play(revision, {"events": True, "get_and_set": True}, known=known)
    play.connects()
    for key, body, seconds in messages:
        play.left()
        play.arrives_octets(body, key)
        assert play.notes().count("protocol-error") <= 1
        play.time_passes(seconds)
        assert len(play.sent) < 400
    play.disconnects()
    play.connects()


@given(st.sampled_from(list(Revision)), _MESSAGES)
def test_an_agent_survives_whatever_it_is_asked(
    revision: Revision, messages: list[tuple[str, bytes, float]]
) -> None:
    config = Am01AgentConfig(
        revision, allowed_users=frozenset({CONSOLE_USER}), get_and_set=True, package="shop"
    )
    session = Am01AgentSession(config, [tank()], [leak()])
    session.put(tank_object(1))
    session.start(START)
    now = START
    for key, body, seconds in messages:
        effects = session.handle(Delivery("qpid.management", key, body, QUEUE, CONSOLE_USER), now)
        assert sum(isinstance(one, Note) for one in effects) <= 1
        now += int(seconds * SECOND)
        session.handle(TimerExpired(), now)
    assert list(session.objects) == [1]


def test_a_sender_that_is_not_trusted_is_noted_and_counted() -> None:
    play = Play(Revision.FEBRUARY_2008)
    play.synchronised()
    play.arrives_octets(b"anything", user="guest")
    play.leaves("refused-sender")


def test_packages_and_classes_without_end_are_bounded() -> None:
    play = Play(Revision.FEBRUARY_2008, {"request_limit": 50, "class_limit": 20})
    play.connects()
    play.arrives_octets(b"AM01I\0\x00\x09Broker ID")
    play.arrives(*(PackageIndication(0, f"p{number}") for number in range(500)))
    assert len(play.sent) < 50, "in flight"
    play.arrives(
        *(ClassIndication(0, ClassKind.OBJECT, ClassKey("p1", f"c{n}", b"h" * 16)) for n in range(500))
    )
    assert len(list(play.session.definitions)) == 0
    for number in range(100):
        schema = ClassSchema(ClassKey("p1", f"c{number}"), (Element("x", ValueType.BOOL),))
        definition, _ = described_class(schema)
        play.arrives(ClassDescription(0, definition))
    assert len(list(play.session.definitions)) <= 20


def test_a_broadcast_without_end_is_bounded() -> None:
    play = Play(Revision.JANUARY_2008, {"class_limit": 20})
    play.connects()
    for number in range(200):
        schema = ClassSchema(ClassKey("", f"c{number}"), (Element("x", ValueType.BOOL),))
        definition, _ = described_class(schema)
        key = ClassKey("", f"c{number}")
        play.publishes(
            ClassDescription(
                0,
                type(definition)(
                    ClassSchema(key, schema.properties), definition.property_codes, (), (), definition.forms
                ),
            )
        )
    assert len(list(play.session.definitions)) == 20


def test_objects_are_reported_and_not_kept() -> None:
    play = Play(Revision.JANUARY_2008)
    play.synchronised()
    for number in range(2_000):
        play.publishes(play.config(object_id=ObjectId(0, number + 1)))
    assert len([one for one in play.left() if isinstance(one, ObjectSeen)]) == 2_000
