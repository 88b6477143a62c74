"""What waits for a receiver when its roles change: it is decided again before it is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import pytest

from gateway.model.observations import EventState, Severity
from gateway.model.times import SECOND
from gateway.snmp.fixed_mib import NotificationObject
from gateway.snmp.notifications.encoding import EncodedNotification
from gateway.snmp.notifications.notification import ActiveAlarms, Notification
from gateway.snmp.notifications.saved import to_text
from tests.snmp.notifications.story import INFORM, Play, Received, event, target

INFORMED = target(kind=INFORM)
CHECKS = 120 * SECOND


@dataclass
class Roles:
    """What the receiver may get now, by event id; of others everything."""

    forms: dict[str, Notification | None] = field(default_factory=dict)

    def event(self, number: int, **changes: Any) -> Notification:  # noqa: ANN401  fields of all types
        """Return an event that is decided again by this."""
        made = event(number, **changes)
        return msgspec.structs.replace(made, again=lambda _: self.forms.get(made.event_id, made))


@pytest.fixture
def roles() -> Roles:
    return Roles()


def play(record: Callable[[Notification, EncodedNotification], None] = lambda _made, _encoded: None) -> Play:
    """Return a play whose start the receiver has acknowledged."""
    play = Play([INFORMED], policies={"nms": "first"}, record=record)
    play.sender.start()
    play.settle()
    play.answer_all()
    return play


def change(play: Play, policy: str) -> None:
    play.policies = {"nms": policy}
    play.sender.policy_changing()
    play.settle()
    assert not play.received()
    play.sender.policy_changed()
    play.settle()


def ids(received: Sequence[Received]) -> list[str]:
    return [each.event_id for each in received if each.is_event]


def test_an_inform_that_is_denied_now_is_not_sent_again_and_is_counted(roles: Roles) -> None:
    story = play()
    denied, permitted = roles.event(1), roles.event(2)
    story.notify(denied, permitted)
    assert len(story.received()) == 2
    roles.forms[denied.event_id] = None
    change(story, "second")
    story.pass_time(5 * SECOND)
    again = story.received()
    assert set(ids(again)) == {permitted.event_id}
    assert story.sender.health["nms"].failed == 1


def test_what_has_not_been_sent_yet_is_decided_again_too(roles: Roles) -> None:
    story = play()
    events = [roles.event(number) for number in range(1, 41)]
    story.notify(*events)
    roles.forms |= {each.event_id: None for each in events[::2]}
    story.received()
    change(story, "second")
    story.pass_time(SECOND)
    assert set(ids(story.answer_all())) == {each.event_id for each in events[1::2]}
    assert story.sender.health["nms"].waiting == 0


def test_an_inform_is_sent_again_without_what_is_denied_now(roles: Roles) -> None:
    story = play()
    happened = roles.event(1, text="the whole text")
    story.notify(happened)
    [first] = story.received()
    roles.forms[happened.event_id] = msgspec.structs.replace(happened, text="a label")
    change(story, "second")
    story.pass_time(2 * SECOND)
    again, *_ = story.received()
    assert (again.request_id, text_of(first), text_of(again)) == (
        first.request_id,
        "the whole text",
        "a label",
    )
    # The next policy decides on the same happened.
    roles.forms[happened.event_id] = None
    change(story, "third")
    story.pass_time(60 * SECOND)
    assert happened.event_id not in ids(story.received())


def test_while_a_policy_is_received_nothing_that_waits_is_sent(roles: Roles) -> None:
    story = play()
    story.notify(roles.event(1))
    story.received()
    story.policies = {"nms": "second"}
    story.sender.policy_changing()
    story.pass_time(60 * SECOND)
    assert not story.received()
    story.sender.policy_changed()
    story.pass_time(SECOND)
    assert story.received()


def test_the_same_rules_hold_up_nothing(roles: Roles) -> None:
    story = play()
    story.notify(roles.event(1))
    story.received()
    story.sender.policy_changing()
    story.pass_time(2 * SECOND)
    assert len(story.received()) == 1


def test_who_may_have_everything_now_gets_what_waits(roles: Roles) -> None:
    story = play()
    happened = roles.event(1)
    story.notify(happened)
    roles.forms[happened.event_id] = None
    story.policies = {"nms": "everything"}
    story.sender.policy_changing()
    story.sender.policy_changed()
    story.pass_time(2 * SECOND)
    assert happened.event_id in ids(story.answer_all())


@pytest.mark.parametrize(
    ("policy", "permits", "count"),
    [("first", True, 1), ("everything", True, 1), ("second", True, 1), ("second", False, 0)],
)
def test_informs_of_the_last_process_are_sent_by_the_same_rules_or_made_again(
    roles: Roles, policy: str, *, permits: bool, count: int
) -> None:
    story = play()
    happened = roles.event(1)
    story.notify(happened)
    if not permits:
        roles.forms[happened.event_id] = None
    again = story.restarted(policies={})
    again.pass_time(60 * SECOND)
    assert not ids(again.received())
    again.policies = {"nms": policy}
    again.sender.policy_changing()
    again.sender.policy_changed()
    again.pass_time(30 * SECOND)
    assert len(set(ids(again.answer_all()))) == count
    assert again.sender.health["nms"].failed == 1 - count


def test_rules_are_known_over_a_restart_before_the_policy_is(roles: Roles) -> None:
    story = play()
    story.notify(roles.event(1))
    twice = story.restarted(policies={}).restarted()
    assert '"policy":"first"' in to_text(twice.sender.saved())


def test_an_alarm_whose_inform_was_dropped_is_raised_if_it_is_permitted(roles: Roles) -> None:
    story = play()
    happened = roles.event(1, state=EventState.RAISED, condition="hot x", severity=Severity.MAJOR)
    story.notify(happened)
    again = story.restarted(policies={})
    again.active = {happened.source: ActiveAlarms({"hot x": happened.event_id}, complete=True)}
    again.alarms[happened.source, "hot x"] = replace_number(happened)
    again.policies = {"nms": "second"}
    again.sender.policy_changing()
    again.sender.policy_changed()
    again.answer_all()
    again.pass_time(CHECKS)
    assert happened.event_id in ids(again.answer_all())


def test_an_alarm_that_is_denied_now_is_not_tried_again_and_again(roles: Roles) -> None:
    recorded: list[Notification] = []
    story = play(record=lambda notification, _: recorded.append(notification))
    happened = roles.event(1, state=EventState.RAISED, condition="hot x", severity=Severity.MAJOR)
    story.notify(happened)
    story.active = {happened.source: ActiveAlarms({"hot x": happened.event_id}, complete=True)}
    hidden = msgspec.structs.replace(replace_number(happened), forms={"nms": None})
    story.alarms[happened.source, "hot x"] = hidden
    roles.forms[happened.event_id] = None
    story.received()
    change(story, "second")
    recorded.clear()
    story.pass_time(5 * CHECKS)
    assert happened.event_id not in ids(story.answer_all())
    assert len([one for one in recorded if one.condition == "hot x"]) == 1


def test_an_end_that_no_event_reported_is_only_for_those_who_see_the_alarm(roles: Roles) -> None:
    other = replace(INFORMED, name="other", address=("192.0.2.7", 162))
    for hidden in (set[str](), {"nms"}):
        story = Play([INFORMED, other], hidden_ends=hidden)
        story.notify(roles.event(1, state=EventState.RAISED, condition="hot x", severity=Severity.MAJOR))
        story.answer_all()
        story.answer_all(other.address)
        story.active = {roles.event(1).source: ActiveAlarms({}, complete=True)}
        story.pass_time(CHECKS)
        ends = {each.event_id for each in story.answer_all() if condition_of(each) == "hot x"}
        assert len(ends) == 1 - len(hidden)
        assert [each for each in story.answer_all(other.address) if condition_of(each) == "hot x"]


def text_of(received: Received) -> str:
    return received.content(NotificationObject.TEXT).decode()


def condition_of(received: Received) -> str:
    return received.content(NotificationObject.CONDITION).decode()


def replace_number(happened: Notification) -> Notification:
    """Return the notification as if an alarm that lasts made it."""
    return msgspec.structs.replace(happened, number=0, again=None)
