"""Lasting conditions as known to receivers become correct, whichever events were lost."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from gateway.model.observations import Severity
from gateway.model.times import SECOND
from gateway.snmp.fixed_mib import NOTIFICATIONS, NotificationObject, OwnNotification
from gateway.snmp.notifications.delivery import MAX_WAITING, PROBE_INTERVAL
from gateway.snmp.notifications.notification import MAX_CONDITIONS, ActiveAlarms, Notification
from gateway.snmp.notifications.saved import from_text, to_text
from gateway.snmp.notifications.selection import Selection
from gateway.snmp.notifications.sender import SendResult
from tests.snmp.notifications.story import INFORM, NMS, ROOT, Play, Received, cleared, event, raised, target

OTHER = ("192.0.2.2", 162)
RAISED = (*ROOT, *NOTIFICATIONS, OwnNotification.ALARM_RAISED)
CLEARED = (*ROOT, *NOTIFICATIONS, OwnNotification.ALARM_CLEARED)
TWO_CHECKS = 61 * SECOND


def lasts(*conditions: str, complete: bool = True) -> dict[str, ActiveAlarms]:
    """Return the lasting conditions of the only source, which began before the sender started."""
    return {"orders": ActiveAlarms(dict.fromkeys(conditions, "x.1.9"), complete)}


def lasts_since(events: Mapping[str, int]) -> dict[str, ActiveAlarms]:
    """Return the lasting conditions, with the ids of the events that raised them."""
    ids = {condition: event(number).event_id for condition, number in events.items()}
    return {"orders": ActiveAlarms(ids, complete=True)}


def alarm(condition: str, severity: Severity = Severity.CRITICAL, event_id: str = "x.1.9") -> Notification:
    """Return an alarm notification in the form of `Projection.alarm_notification`."""
    began = raised(0, condition, severity, name="gateway:alarmRaised")
    return replace(began, oid=RAISED, event_id=event_id)


def knowing(play: Play, *alarms: Notification) -> Play:
    play.alarms = {(each.source, each.condition): each for each in alarms}
    return play


# ---- ends ---------------------------------------------------------------------------------------------


def test_what_ended_while_the_core_was_gone_is_ended_for_each_receiver_that_got_it() -> None:
    play = Play([target(severity=Severity.CRITICAL), target("other", OTHER, patterns=("shop:*",))])
    play.notify(raised(1, "memoryAlarm node a"), raised(2, "diskAlarm node a"))
    play.received()
    play.pass_time(600 * SECOND)
    assert play.received() == []  # the core cannot be reached: nobody knows
    play.active = lasts("diskAlarm node a")
    play.pass_time(TWO_CHECKS)
    (end,) = play.received()
    assert end.oid == CLEARED
    assert end.content(NotificationObject.CONDITION) == b"memoryAlarm node a"
    assert end.content(NotificationObject.SOURCE) == b"orders"
    assert end.content(NotificationObject.ALARM) == b"memoryAlarm"
    play.pass_time(600 * SECOND)
    assert play.received() == []
    assert play.received(OTHER) == []


def test_what_is_not_known_to_last_for_a_moment_only_is_not_ended() -> None:
    play = Play([target()], active=lasts())
    play.notify(raised(1, "c"))
    play.pass_time(31 * SECOND)
    play.active = lasts("c")
    play.pass_time(600 * SECOND)
    assert [each.number for each in play.received()] == [1]


def test_a_source_that_is_not_trusted_ends_nothing_and_one_that_is_gone_everything() -> None:
    play = Play([target()], active=lasts(complete=False))
    play.notify(raised(1, "c"))
    play.pass_time(600 * SECOND)
    assert len(play.received()) == 1
    play.active = {}
    play.pass_time(TWO_CHECKS)
    assert [each.oid for each in play.received()] == [CLEARED]


# ---- beginnings ---------------------------------------------------------------------------------------


def test_an_alarm_that_no_event_reported_is_reported_with_the_id_of_the_event_that_raised_it() -> None:
    play = knowing(Play([target()], active=lasts("c")), alarm("c"))
    play.pass_time(31 * SECOND)
    assert play.received() == []
    play.pass_time(30 * SECOND)
    (reported,) = play.received()
    assert (reported.oid, reported.event_id) == (RAISED, "x.1.9")
    play.notify(cleared(5, "c"))
    play.active = lasts()
    play.pass_time(600 * SECOND)
    assert [each.number for each in play.received()] == [5]


def test_a_beginning_that_is_still_to_be_sent_late_is_sent_once() -> None:
    play = Play([target(backlog_rate=1)])
    play.notify(event(1))
    play.recorded |= {(1, number): event(number) for number in range(2, 200)}
    play.recorded[1, 200] = raised(200, "c")
    play.sender.events_made(1, 200)  # the core that made them was killed, and the log has them
    knowing(play, alarm("c", event_id=event(200).event_id)).active = lasts_since({"c": 200})
    play.pass_time(600 * SECOND)
    sent = [each.number for each in play.received() if each.oid == RAISED or each.is_event]
    assert sent == list(range(1, 201))


def test_a_beginning_that_the_rate_suppressed_is_reported_when_the_flood_is_over() -> None:
    names = [f"c{number}" for number in range(20)]
    play = knowing(Play([target(rate=4)]), *map(alarm, names))
    play.notify(*(raised(number, name) for number, name in enumerate(names, 1)))
    play.active = lasts(*names)
    play.pass_time(600 * SECOND)
    reported = [each for each in play.received() if each.is_event or each.oid == RAISED]
    conditions = [each.content(NotificationObject.CONDITION).decode() for each in reported]
    assert sorted(conditions) == sorted(names)


def test_what_a_receiver_did_not_choose_is_never_reported_as_lasting() -> None:
    play = knowing(
        Play([target(patterns=("gateway:*",)), target("severe", OTHER, severity=Severity.CRITICAL)]),
        alarm("seen"),
        alarm("minor", Severity.MINOR),
    )
    play.notify(raised(1, "seen"), raised(2, "minor", Severity.MINOR))
    play.active = lasts_since({"seen": 1, "minor": 2})
    play.pass_time(600 * SECOND)
    again = play.restarted()
    again.pass_time(600 * SECOND)
    assert play.received() + again.received() == []
    assert [each.number for each in play.received(OTHER)] == [1]
    assert again.received(OTHER) == []


def test_what_was_declined_is_forgotten_when_it_ends() -> None:
    play = Play([target(severity=Severity.CRITICAL)], active=lasts_since({"c": 1}))
    play.notify(raised(1, "c", Severity.MINOR), raised(2, "d", Severity.MINOR), cleared(3, "d"))
    play.pass_time(TWO_CHECKS)
    assert play.sender.saved().targets[0].declined == ((("orders", "c"), event(1).event_id),)
    play.active = lasts()
    play.pass_time(TWO_CHECKS)
    assert play.sender.saved().targets[0].declined == ()


def test_a_new_receiver_learns_what_lasts() -> None:
    play = knowing(Play([target()]), alarm("c"))
    play.notify(raised(1, "c"), event(2))
    play.received()
    again = play.restarted(targets=[target(), target("new", OTHER)], active=lasts("c"))
    again.pass_time(TWO_CHECKS)
    assert [each.oid for each in again.received(OTHER)] == [RAISED]
    assert again.received() == []


def test_many_are_reported_a_few_at_a_time() -> None:
    names = [f"c{number}" for number in range(1000)]
    play = knowing(Play([target(rate=100_000)], active=lasts(*names)), *map(alarm, names))
    play.pass_time(TWO_CHECKS)
    assert len(play.received()) == 200
    play.pass_time(600 * SECOND)
    assert len(play.received()) == 800


class World:
    """The conditions that really last, and those known to one receiver."""

    def __init__(self, severity: Severity, rate: int) -> None:
        self.play = Play([target(severity=severity, rate=rate, kind=INFORM)], active=lasts())
        self.active: dict[str, tuple[int, Severity]] = {}
        self.trusted: set[str] = set()
        self.number = 0

    def begin(self, condition: str, severity: Severity, *, lost: bool) -> None:
        if condition not in self.active:
            self.number += 1
            self.active[condition] = (self.number, severity)
            if not lost:
                self.play.notify(raised(self.number, condition, severity))

    def end(self, condition: str, *, lost: bool) -> None:
        if self.active.pop(condition, None):
            self.number += 1
            if not lost:
                self.play.notify(cleared(self.number, condition))

    def go_on(self, seconds: int) -> None:
        self.play.active = lasts_since({condition: number for condition, (number, _) in self.active.items()})
        alarms = (
            alarm(condition, severity, event(number).event_id)
            for condition, (number, severity) in self.active.items()
        )
        knowing(self.play, *alarms).pass_time(seconds * SECOND)
        for each in self.play.answer_all():
            condition = each.content(NotificationObject.CONDITION).decode()
            if each.content(NotificationObject.STATE) == b"\x01":
                self.trusted.add(condition)
            else:
                self.trusted.discard(condition)


_steps = st.lists(
    st.tuples(
        st.sampled_from(["raise", "clear", "lost raise", "lost clear", "wait", "restart"]),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from([Severity.INFO, Severity.MAJOR, Severity.CRITICAL]),
    ),
    max_size=40,
)


@given(_steps, st.sampled_from([Severity.INFO, Severity.MAJOR]), st.sampled_from([1, 100]))
def test_after_a_while_a_receiver_knows_what_is_true(
    steps: list[tuple[str, str, Severity]], minimum: Severity, rate: int
) -> None:
    world = World(minimum, rate)
    for step, condition, severity in steps:
        if step.endswith("raise"):
            world.begin(condition, severity, lost=step.startswith("lost"))
        elif step.endswith("clear"):
            world.end(condition, lost=step.startswith("lost"))
        elif step == "restart":
            world.play = world.play.restarted()
        world.go_on(7 if step == "wait" else 0)
    for _ in range(40):
        world.go_on(10)
    severe = {each for each, (_, severity) in world.active.items() if severity >= minimum}
    assert severe <= world.trusted <= set(world.active)


def test_nothing_is_sent_where_nothing_differs() -> None:
    play = Play([target()], active=lasts("c"))
    play.notify(raised(1, "c"))
    play.pass_time(600 * SECOND)
    assert len(play.sent[NMS]) == 1


# ---- what a full queue has no room for ------------------------------------------------------------------


def silent(**active: int) -> Play:
    """Return a receiver of informs that got two events and answers no more."""
    play = Play([target(kind=INFORM, rate=100_000)], active=lasts_since(active))
    play.notify(raised(1, "old", Severity.MINOR))
    play.answer_all()
    play.notify(event(2))
    play.pass_time(60 * SECOND)
    return play


def answers_again(play: Play) -> list[Received]:
    """Let the receiver answer for two comparisons; return what it gets."""
    play.sent.clear()
    received = []
    for _ in range(10):
        play.pass_time(PROBE_INTERVAL)
        received += play.answer_all()
    return received


def flood(play: Play, number: int) -> None:
    play.notify(*(event(100 + each, severity=Severity.MAJOR) for each in range(number)))


def test_an_end_that_a_full_queue_had_no_room_for_is_made_up_for_when_there_is_room() -> None:
    play = silent(old=1)
    play.notify(cleared(3, "old"))
    play.active = lasts()
    flood(play, MAX_WAITING)
    play.pass_time(600 * SECOND)
    assert play.sender.health["nms"].failed == 2, "no other is dropped for what makes up for it"
    received = answers_again(play)
    assert 3 not in {each.number for each in received if each.is_event}
    ends = [each.content(NotificationObject.CONDITION) for each in received if each.oid == CLEARED]
    assert ends == [b"old"]


def test_a_beginning_that_a_full_queue_had_no_room_for_is_made_up_for_while_it_lasts() -> None:
    play = knowing(silent(old=1, c=3), alarm("c", Severity.MINOR, event(3).event_id))
    play.notify(raised(3, "c", Severity.MINOR))
    flood(play, MAX_WAITING)
    (begun,) = [each for each in answers_again(play) if each.number == 3]
    assert begun.oid == RAISED
    play.active = lasts()
    play.notify(cleared(9000, "c"))
    assert 9000 in {each.number for each in play.answer_all()}


def test_what_waits_behind_it_makes_up_for_what_a_full_queue_had_no_room_for() -> None:
    play = silent(old=1)
    play.notify(raised(3, "c", Severity.MINOR), cleared(4, "c"))
    flood(play, MAX_WAITING - 2)
    received = answers_again(play)
    assert {3, 4} & {each.number for each in received if each.is_event} == {4}
    assert CLEARED not in {each.oid for each in received}


def test_conditions_in_doubt_are_bounded() -> None:
    selection = Selection(Severity.INFO, ["*"])
    for number in range(MAX_CONDITIONS + 10):
        selection.doubt(("orders", f"c{number}"), Severity.MINOR)
    assert len(selection.raised) == len(selection.uncertain) == MAX_CONDITIONS


# ---- a process that was killed before it had saved what it sent ------------------------------------------


def saved_and_killed(*, after: int = 0) -> Play:
    """Return a process that saved its state when it had sent the first event, and was then killed."""
    play = Play([target(rate=1)])
    play.notify(event(1))
    play.saved = play.sender.saved()
    play.received()
    play.pass_time(after)
    return play


def test_what_was_sent_and_not_saved_is_ended_although_the_rate_does_not_allow_it_to_be_said_again() -> None:
    first = saved_and_killed(after=2 * SECOND)
    first.notify(raised(2, "c", Severity.INFO))
    assert [each.number for each in first.received()] == [2]
    second = Play([target(rate=1)], saved=first.saved, active=lasts())
    second.notify(event(1), event(2), raised(3, "c", Severity.INFO), cleared(4, "c"))
    assert [each.number for each in second.received()] == [2, 4]


def test_what_was_perhaps_not_sent_is_reported_when_the_rate_allows() -> None:
    first = saved_and_killed()
    second = knowing(Play([target(rate=1)], saved=first.saved, active=lasts("c")), alarm("c", Severity.INFO))
    second.notify(event(2), raised(3, "c", Severity.INFO))
    assert [each.number for each in second.received()] == [2]
    second.pass_time(TWO_CHECKS)
    assert [each.oid for each in second.received() if each.oid == RAISED] == [RAISED]


def test_what_was_perhaps_not_sent_is_reported_after_another_restart_too() -> None:
    first = saved_and_killed()
    second = Play([target(rate=1)], saved=first.saved, active=lasts("c"))
    second.notify(event(2), raised(3, "c", Severity.INFO))
    assert [each.number for each in second.received()] == [2]
    saved = from_text(to_text(second.sender.saved()))
    third = knowing(Play([target(rate=1)], saved=saved, active=lasts("c")), alarm("c", Severity.INFO))
    third.pass_time(TWO_CHECKS)
    assert [each.oid for each in third.received() if each.oid == RAISED] == [RAISED]


def test_what_waits_in_the_process_when_it_saves_was_not_reported() -> None:
    def reported() -> list[str]:
        return [condition for (_, condition), _ in play.sender.saved().targets[0].conditions]

    play = Play([target()])
    play.notify(raised(1, "c"))
    assert reported() == ["c"]
    play.result = SendResult.BUSY
    play.sender.notify(cleared(2, "c"))
    play.sender.notify(raised(3, "d"))
    assert reported() == ["c"]
    play.result = SendResult.SENT
    play.settle()
    assert reported() == ["d"]


def test_an_alarm_that_no_event_reported_and_that_the_system_refused_is_sent_when_there_is_a_way() -> None:
    play = knowing(Play([target()], result=SendResult.FAILED, active=lasts("c")), alarm("c"))
    play.pass_time(TWO_CHECKS)
    assert play.sender.health["nms"].failed > 0
    play.result = SendResult.SENT
    play.pass_time(TWO_CHECKS)
    assert [each.content(NotificationObject.CONDITION) for each in play.received()] == [b"c"]


def test_an_end_that_the_system_refused_is_sent_late_to_a_receiver_of_severe_events_only() -> None:
    play = Play([target(severity=Severity.CRITICAL)], active=lasts())
    play.notify(raised(1, "c"))
    play.result = SendResult.FAILED
    play.notify(cleared(2, "c"))
    play.pass_time(600 * SECOND)
    assert play.sender.health["nms"].failed == 0, "it is owed, and nothing else makes up for it meanwhile"
    play.result = SendResult.SENT
    play.pass_time(TWO_CHECKS)
    assert [(each.number, each.oid == CLEARED) for each in play.received()] == [(1, False), (2, False)]
