"""The known state, and its changes."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from gateway.feed.operations import OperationKind, OperationRecord, OperationState
from gateway.feed.records import AlarmRecord, DeleteRecord, EventLogRecord, EventLogState, GapRecord
from gateway.model.observations import Severity, SourceState
from gateway.model.operations import Outcome, Principal
from gateway.model.schema import Element
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from gateway.terminal.view import (
    AlarmChanged,
    Changed,
    CoreChanged,
    Created,
    Deleted,
    EventLogChanged,
    EventOccurred,
    GapFound,
    ObjectKey,
    OperationChanged,
    SourceChanged,
    TerminalView,
)
from tests.components.shop import START, agent, agent_gone, source, update
from tests.terminal.reported import HALL, KNOWN, RANG, TILL, known_shop, publish, rang, snapshot, till

FIRST = ObjectKey(1, "shop:till", 1)


def ended(row: int, number: int = 1, *, inferred: bool = False) -> DeleteRecord:
    return DeleteRecord(1, TILL.number, row, f"hall1|till{row}", START, inferred, number, f"till{row}")


def test_the_first_snapshot_is_how_things_stand_and_nothing_that_happens() -> None:
    view = TerminalView(lambda: START)
    assert snapshot(view, *KNOWN, till(1), rang(1), ended(5)) == []
    assert view.is_whole
    assert view.objects[FIRST].path == "shop1/shop:till/hall1|till1"
    assert view.objects[FIRST].value("sales") == 7
    assert list(view.ends) == [1]


def test_objects_come_change_and_go() -> None:
    view = known_shop()
    (created,) = publish(view, till(1))
    assert isinstance(created, Created)

    (changed,) = publish(view, update(1, {3: 8, 4: START}, absent=(1,)))
    assert isinstance(changed, Changed)
    reported = [(change.element.name, change.former, change.value) for change in changed.changes]
    assert reported == [("limit", 10, None), ("sales", 7, 8), ("opened", None, START)]
    assert view.objects[FIRST].value("limit") is None
    assert view.objects[FIRST].record.statistics_sampled == START + 9 * SECOND

    assert publish(view, ended(1)) == [Deleted("shop1", "shop:till", "hall1|till1", ended(1))]
    assert FIRST not in view.objects


def test_an_object_whose_class_has_a_new_version_neither_ends_nor_comes() -> None:
    view = known_shop(till(1))
    schema = replace(TILL.schema, statistics=(*TILL.schema.statistics, Element("tips", ValueType.U64)))
    newer = msgspec.structs.replace(TILL, number=TILL.number + 100, schema=schema)
    again = msgspec.structs.replace(till(1), class_number=newer.number, values={**till(1).values, 5: 2})

    (changed,) = publish(view, newer, ended(1, number=0, inferred=True), again)

    assert isinstance(changed, Changed)
    assert [(change.element.name, change.value) for change in changed.changes] == [("tips", 2)]
    assert not view.ends


def test_an_update_that_changes_no_value_is_nothing_that_happens() -> None:
    view = known_shop(till(1))
    assert publish(view, update(1, {3: 7})) == []
    assert view.objects[FIRST].record.statistics_sampled == START + 9 * SECOND


def test_what_is_reported_twice_happens_once() -> None:
    view = known_shop(till(1), rang(1))
    assert publish(view, rang(1), till(1)) == []
    (event,) = publish(view, rang(2))
    assert isinstance(event, EventOccurred)
    assert event.in_class == RANG


def test_another_core_reports_what_changed_meanwhile() -> None:
    view = known_shop(till(1), till(2), rang(1))
    assert view.disconnected("it ended") == [CoreChanged("it ended")]
    assert view.disconnected("still") == []

    reported = [
        *KNOWN,
        ended(2),
        msgspec.structs.replace(till(1), values={**till(1).values, 3: 9}),
        till(3),
        rang(1),
        rang(2),
    ]
    kinds = [type(change) for change in snapshot(view, *reported, epoch=2)]

    assert kinds == [Deleted, Changed, Created, EventOccurred, CoreChanged]
    assert view.is_whole


def test_what_a_new_core_does_not_report_is_kept_until_its_source_is_trusted() -> None:
    view = known_shop(till(1))
    view.disconnected("it ended")
    connecting = source(SourceState.SYNCHRONISING)

    happened = snapshot(view, connecting, *KNOWN[1:], epoch=2)
    assert happened == [SourceChanged(connecting), CoreChanged()]
    assert FIRST in view.objects

    assert publish(view, source(), epoch=2) == [
        SourceChanged(source()),
        Deleted("shop1", "shop:till", "hall1|till1"),
    ]


def test_a_source_that_is_not_configured_any_more_goes_with_its_objects() -> None:
    view = known_shop(till(1))
    happened = snapshot(view, epoch=2)
    assert {type(change) for change in happened} == {Deleted}
    assert (view.sources, view.objects) == ({}, {})


def test_alarms_last_from_one_record_to_another() -> None:
    view = known_shop()
    raised = AlarmRecord(4, 1, "full", "full shop:till", Severity.MAJOR, None, "full", "7b0c.1.1", START)
    cleared = msgspec.structs.replace(raised, cleared=START + SECOND)
    assert publish(view, raised) == [AlarmChanged("shop1", raised)]
    assert publish(view, raised) == []
    assert publish(view, cleared) == [AlarmChanged("shop1", cleared)]
    assert view.alarms == {}


def test_what_the_gateway_reports_itself() -> None:
    view = known_shop()
    gap, full = GapRecord(1, 1, 2, "away"), EventLogRecord(EventLogState.DISK_FULL, "no room")
    assert publish(view, gap, full, msgspec.structs.replace(full, waiting=5)) == [
        GapFound("shop1", gap),
        EventLogChanged(full),
    ]
    assert view.event_log == msgspec.structs.replace(full, waiting=5)


def test_operations_are_reported_as_they_go_on() -> None:
    view = known_shop(till(1))
    who = Principal("cli", "alice")
    begun = OperationRecord(
        1, "7b0c.1.o1", OperationKind.SET, OperationState.BEGUN, who, *FIRST, "hall1|till1", "till1"
    )
    done = msgspec.structs.replace(begun, state=OperationState.ENDED, outcome=Outcome.APPLIED)
    assert publish(view, begun, done, done) == [
        OperationChanged("shop1", begun),
        OperationChanged("shop1", done),
    ]
    assert view.operations == {"7b0c.1.o1": done}
    given_up = msgspec.structs.replace(done, number=2, outcome=Outcome.UNKNOWN, text="its core ended")
    happened = snapshot(view, source(), given_up, epoch=2)
    assert not [one for one in happened if isinstance(one, OperationChanged)], "its end has been reported"


def test_values_are_stale_while_agent_or_source_are_silent() -> None:
    view = known_shop(till(1))
    known = view.objects[FIRST]
    assert view.stale_since(known) == 0
    publish(view, agent(fresh=False, since=START + SECOND))
    assert view.stale_since(known) == START + SECOND
    publish(view, source(SourceState.DOWN))
    assert view.stale_since(known) == START


def test_an_object_that_is_gone_is_as_stale_as_its_agent() -> None:
    view = known_shop(till(1))
    known = view.objects[FIRST]
    publish(view, ended(1))
    assert view.stale_since(known) == 0
    publish(view, agent(fresh=False, since=START + SECOND))
    assert view.stale_since(known) == START + SECOND


def test_an_agent_that_is_gone_is_no_reason_for_doubts() -> None:
    view = known_shop(till(1))
    publish(view, agent(fresh=False, since=START + SECOND))
    assert view.stale_since(view.objects[FIRST]) == START + SECOND
    publish(view, ended(1), msgspec.structs.replace(ended(1), class_number=HALL.number, number=2))
    assert publish(view, agent_gone()) == []
    publish(view, agent(fresh=True), till(1))
    assert view.stale_since(view.objects[FIRST]) == 0


def test_what_could_not_be_known_changes_nothing() -> None:
    view = known_shop()
    strange = msgspec.structs.replace(till(1), class_number=99)
    assert publish(view, update(1, {3: 1}), strange, msgspec.structs.replace(till(1), source=9)) == []
    assert publish(view, msgspec.structs.replace(rang(1), class_number=99)) == []
    assert FIRST not in view.objects
