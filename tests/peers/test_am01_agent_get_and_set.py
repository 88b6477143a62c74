"""Get and set of an agent before AM2 whose configuration allows them."""

from __future__ import annotations

import pytest

from gateway.dialects.qmf.agent_objects import ManagedObject
from gateway.dialects.qmf.am01.codec import write
from gateway.dialects.qmf.am01.messages import MethodRequest, Revision
from gateway.dialects.qmf.messages import MethodResponse
from gateway.dialects.session import Delivery, ModifyAsked, Note, Send
from gateway.model.schema import Access, ClassKey, ClassSchema, Element
from gateway.model.values import Reference, ValueType
from tests.dialects.qmf.am01.examples import PROPERTY_OCTETS, STATISTIC_OCTETS
from tests.dialects.qmf.playbook import CONSOLE_USER, QUEUE, START
from tests.peers.am01_agent import Am01AgentConfig, Am01AgentSession
from tests.peers.am01_agent_scene import ONE, REVISIONS, started


@REVISIONS
def test_get_and_set_are_served_where_that_is_wanted(revision: Revision) -> None:
    scene = started(revision, {"get_and_set": True})
    ((_, got),) = scene.messages(scene.calls("get", b""))
    assert isinstance(got, MethodResponse)
    assert (got.status, got.arguments) == (0, PROPERTY_OCTETS.replace(b"\x09", b"\0") + STATISTIC_OCTETS)
    (asked,) = scene.calls("set", b"\x04size\0\xc8", sequence=6)
    assert isinstance(asked, ModifyAsked)
    assert (asked.number, asked.values, asked.user_id) == (1, {"size": 200}, CONSOLE_USER)
    ((_, answer),) = scene.messages(scene.session.method_done(asked.handle, 0, "OK"))
    assert answer == MethodResponse(6, 0, "OK")
    (note,) = scene.calls("set", b"\x04size\0\xc8", sequence=6)
    assert isinstance(note, Note)
    ((_, drained),) = scene.messages(scene.calls("get", b"", number=9))
    assert isinstance(drained, MethodResponse)
    assert drained.status == 1


@REVISIONS
@pytest.mark.parametrize("key", [ClassKey("shop", "ship"), ClassKey("other", "tank")])
@pytest.mark.parametrize(("method", "arguments"), [("get", b""), ("set", b"\x04size\0\xc8")])
def test_who_may_ask_about_another_class_does_not_get_at_this_one(
    revision: Revision, key: ClassKey, method: str, arguments: bytes
) -> None:
    """Brokers grant rights by routing keys, which name the class: it must be that of the object."""
    scene = started(revision, {"get_and_set": True})
    ((_, answer),) = scene.messages(scene.calls(method, arguments, key=key))
    assert isinstance(answer, MethodResponse)
    assert (answer.text, answer.arguments) == ("InvalidParameter: the object is of another class", b"")


def test_a_get_has_no_arguments() -> None:
    scene = started(Revision.FEBRUARY_2008, {"get_and_set": True})
    ((_, answer),) = scene.messages(scene.calls("get", b"\0"))
    assert answer == MethodResponse(5, 4, "InvalidParameter: a get has no arguments, found 1 octets")


@pytest.mark.parametrize(
    "changes",
    [
        b"\x04name\x02t2",  # read-create
        b"\x04size\0\0",  # less than the minimum
        b"\x04mass\0\0",  # no such property
        b"\x04size\0",
    ],
)
def test_a_set_of_what_cannot_be_set_is_refused(changes: bytes) -> None:
    scene = started(Revision.FEBRUARY_2008, {"get_and_set": True})
    ((_, answer),) = scene.messages(scene.calls("set", changes))
    assert isinstance(answer, MethodResponse)
    assert (answer.status, answer.text.startswith("InvalidParameter: ")) == (4, True)


def test_a_reference_to_nothing_is_not_set() -> None:
    schema = ClassSchema(
        ClassKey("shop", "tank"), (Element("owner", ValueType.REFERENCE, access=Access.READ_WRITE),)
    )
    config = Am01AgentConfig(
        Revision.FEBRUARY_2008, allowed_users=frozenset({CONSOLE_USER}), get_and_set=True
    )
    session = Am01AgentSession(config, [schema])
    session.put(ManagedObject(schema.key, 1, START, (Reference("0-0-0-0-4"),), (), START))
    session.start(START)
    request = MethodRequest(5, ONE, schema.key, "set", b"\x05owner" + bytes(8))
    body = write(request, Revision.FEBRUARY_2008)
    (send,) = session.handle(
        Delivery("qpid.management", "agent.method.shop.tank.set", body, QUEUE, CONSOLE_USER), START
    )
    assert isinstance(send, Send)
    assert b"InvalidParameter" in send.body
