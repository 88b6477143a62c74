"""Calls that an agent before AM2 carries out, and calls that it refuses."""

from __future__ import annotations

import pytest

from gateway.dialects.qmf.am01.messages import Revision
from gateway.dialects.qmf.messages import MethodResponse
from gateway.dialects.session import Called, Note
from gateway.model.schema import ClassKey
from tests.dialects.qmf.playbook import QUEUE
from tests.peers.am01_agent_scene import REVISIONS, started


@REVISIONS
def test_a_call_is_for_the_program(revision: Revision) -> None:
    scene = started(revision)
    (called,) = scene.calls()
    assert isinstance(called, Called)
    assert (called.number, called.method, called.arguments) == (1, "drain", (7, "ab"))
    ((key, answer),) = scene.messages(scene.session.method_done(called.handle, 0, "OK", (6, 2.5)))
    assert key == QUEUE
    assert isinstance(answer, MethodResponse)
    assert (answer.sequence, answer.status, len(answer.arguments)) == (5, 0, 12)
    assert scene.session.method_done(called.handle, 0, "OK", (6, 2.5)) == []
    (note,) = scene.calls()
    assert isinstance(note, Note)
    assert note.event == "repeated-call"


@REVISIONS
@pytest.mark.parametrize(
    ("what", "status", "text"),
    [
        ({"number": 9}, 1, "UnknownObject"),
        ({"method": "fill"}, 2, "UnknownMethod"),
        ({"method": "get", "arguments": b""}, 2, "UnknownMethod"),
        ({"arguments": b"\0"}, 4, "InvalidParameter"),
        ({"key": ClassKey("shop", "ship")}, 4, "InvalidParameter"),
    ],
)
def test_what_is_not_understood_whole_is_not_carried_out(
    revision: Revision, what: dict[str, object], status: int, text: str
) -> None:
    scene = started(revision)
    ((_, answer),) = scene.messages(scene.calls(**what))  # type: ignore[arg-type]  # its arguments
    assert isinstance(answer, MethodResponse)
    expected = 3 if revision is Revision.NOVEMBER_2007 and status > 3 else status
    assert (answer.status, answer.text.startswith(text), answer.arguments) == (expected, True, b"")


def test_another_package_is_another_class() -> None:
    scene = started(Revision.JANUARY_2008)
    ((_, answer),) = scene.messages(scene.calls(key=ClassKey("other", "tank")))
    assert isinstance(answer, MethodResponse)
    assert answer.status == 4


def test_a_long_text_is_cut_to_what_its_length_can_report() -> None:
    scene = started(Revision.JANUARY_2008)
    (called,) = scene.calls()
    assert isinstance(called, Called)
    ((_, answer),) = scene.messages(scene.session.method_done(called.handle, 0x10001, "x" * 900))
    assert isinstance(answer, MethodResponse)
    assert (answer.status, answer.text) == (0x10001, "x" * 200)


@REVISIONS
def test_consoles_that_use_the_same_number_are_each_answered(revision: Revision) -> None:
    scene = started(revision)
    called = [one for queue in ("first", "second") for one in scene.calls(queue=queue)]
    answered = []
    for one in reversed(called):  # in any order
        assert isinstance(one, Called)
        answered += scene.messages(scene.session.method_done(one.handle, 0, "OK", (6, 2.5)))
    assert [(key, message.sequence) for key, message in answered] == [("second", 5), ("first", 5)]


def test_too_many_calls_at_once_are_refused() -> None:
    scene = started(Revision.FEBRUARY_2008, {"get_and_set": True})
    for sequence in range(256):
        scene.calls(sequence=sequence)
    for effects in (scene.calls(sequence=300), scene.calls("set", b"\x04size\0\xc8", sequence=301)):
        ((_, answer),) = scene.messages(effects)
        assert isinstance(answer, MethodResponse)
        assert answer.text.startswith("not carried out: 256 calls are under way")
