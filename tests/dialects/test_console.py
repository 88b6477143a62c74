"""Behaviour that console sessions of every dialect have in common."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.console import REMEMBERED, NotSentError, Pending, Timers, UnsentError
from gateway.dialects.qmf.am01.messages import Revision
from gateway.dialects.session import NEVER
from gateway.model.operations import Answer, MethodCall, Outcome
from gateway.model.schema import ClassKey
from gateway.model.times import SECOND
from tests.dialects.ami.commands_story import ALONE, ready
from tests.dialects.cml import console_story as cml
from tests.dialects.qmf import console_story as qmf
from tests.dialects.qmf.am01 import playbook as am01
from tests.dialects.qmf.am01.examples import OBJECT_ID
from tests.dialects.qmf.operations_story import drain

REQUEST = re.compile("MethodRequest|E@")
"""What shows a call among the steps of a play."""

STEPS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 9) | st.none()))


@given(STEPS, st.integers(0, 10))
def test_timers_are_what_was_set_last(steps: list[tuple[str, int | None]], now: int) -> None:
    timers: Timers[str] = Timers()
    expected: dict[str, int] = {}
    for name, time in steps:
        if time is None:
            timers.cancel(name)
            expected.pop(name, None)
        else:
            timers.set(name, time)
            expected[name] = time
        assert timers.first == min(expected.values(), default=NEVER)
    due = timers.take(now)
    assert sorted(due) == sorted(name for name, time in expected.items() if time <= now)
    assert [expected[name] for name in due] == sorted(expected[name] for name in due)
    assert timers.first == min((time for time in expected.values() if time > now), default=NEVER)


def test_timers_of_one_time_are_due_in_the_order_in_which_they_were_set() -> None:
    timers: Timers[str] = Timers()
    for name in "bca":
        timers.set(name, 5)
    assert timers.take(4) == []
    assert timers.take(5) == ["b", "c", "a"]


def test_what_is_not_answered_in_time_is_known_a_while_longer() -> None:
    pending: Pending[int, str] = Pending()
    pending.begin(1, "one", 10)
    pending.begin(2, "two", 20)
    assert (len(pending), pending.next_deadline) == (2, 10)
    assert pending.overdue(9) == []
    assert pending.overdue(10) == ["one"]
    assert (len(pending), pending.find(1), pending.next_deadline) == (1, "one", 20)
    assert pending.end(1) == "one", "its answer came late"
    assert pending.end(1) is None
    assert pending.abandon() == ["two"]
    assert pending.next_deadline == NEVER
    for name in range(3, 3 + REMEMBERED):
        pending.begin(name, str(name), 30)
    pending.overdue(30)
    assert pending.find(2) is None, "the latest are known"


def test_what_is_forgotten_is_not_known_any_more() -> None:
    pending: Pending[int, str] = Pending()
    for name, what in enumerate(("left", "lost", "late and lost")):
        pending.begin(name, what, 10 if what.startswith("late") else 20)
    pending.overdue(10)
    assert pending.forget(lambda what: "lost" in what) == ["lost"]
    assert [pending.find(name) for name in range(3)] == ["left", None, None]
    assert pending.overdue(20) == ["left"]


def test_an_operation_that_is_not_sent_is_answered_with_the_reason() -> None:
    error = NotSentError(Outcome.NOT_NOW, "no time was left for it")
    assert error.answer(7) == Answer(7, Outcome.NOT_NOW, "not sent: no time was left for it")


def of_qmf() -> tuple[Any, MethodCall]:
    play = qmf.synchronised()
    return play, drain(play)


def of_am01() -> tuple[Any, MethodCall]:
    play = am01.synchronised(Revision.MARCH_2008)
    deadline = play.now + 60 * SECOND
    return play, MethodCall(1, play.class_key, "1.0", str(OBJECT_ID), "drain", (7, "ab"), deadline)


def of_cml() -> tuple[Any, MethodCall]:
    play = cml.synchronised()
    return play, cml.call(play, 7, "queue", "purge")


def of_ami() -> tuple[Any, MethodCall]:
    play, key = ready(ALONE), ClassKey("ami-relay", "application")
    return play, MethodCall(1, key, "pump-7", "pump-7", "stop", (), play.now + 60 * SECOND)


def fault(*_: object, **__: object) -> None:
    raise RuntimeError("ours")


@pytest.mark.parametrize(
    ("of_kind", "faulty"),
    [
        (of_qmf, "qmf.console_calls.write"),
        (of_am01, "qmf.am01.console_calls.write"),
        (of_cml, "cml.console_calls.write_message"),
        (of_ami, "ami.relay.write_instruction"),
        (of_ami, "ami.relay_instructions.LineByLine._log"),
    ],
)
def test_what_an_internal_error_ends_before_it_is_sent_is_not_sent_later(
    of_kind: Callable[[], tuple[Any, MethodCall]], faulty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    play, call = of_kind()
    play.left()
    with monkeypatch.context() as patched:
        patched.setattr(f"gateway.dialects.{faulty}", fault)
        with pytest.raises(UnsentError) as raised:
            play.session.handle(call, play.now)
    assert isinstance(raised.value.__cause__, RuntimeError)
    play.time_passes(1)
    assert not REQUEST.search(repr(play.left()))
    play.take(play.session.handle(replace(call, token=2), play.now))
    assert REQUEST.search(repr(play.left())), "the next one is sent"
