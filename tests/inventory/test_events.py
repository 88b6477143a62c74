"""Events of agents: numbered, with subject, arguments and a readable text."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.feed.records import EventClassRecord
from gateway.feed.values import ObjectLink
from gateway.inventory.own_events import OWN_EVENTS
from gateway.model.observations import EventLearned, EventSeen, EventState, ResyncBegan, Severity
from gateway.model.schema import ClassKey, EventSchema
from gateway.model.times import SECOND
from gateway.model.values import Reference
from tests.inventory.plant import about, event, events, link, machine, plant, visitor
from tests.inventory.playbook import AGENT, NOW, Playbook, of


@pytest.fixture
def playbook(tmp_path: Path) -> Playbook:
    playbook = plant(tmp_path)
    playbook.synchronise(machine())
    return playbook


def test_an_event_is_reported_with_id_number_subject_text_and_both_times(playbook: Playbook) -> None:
    playbook.now += 5 * SECOND
    arguments = (Reference("m1"), 200 * SECOND, NOW, "Ann")
    (reported,) = events(playbook.publish(event("heatRose", *arguments)))
    assert (reported.number, reported.event_id) == (2, "gw.1.2"), "the first was that the source is up"
    assert (reported.time, reported.received) == (NOW + 1, playbook.now)
    assert reported.subject == link()
    assert reported.text == "press reports heat for 3 min 20 s since 2023-11-14T22:13:20Z, seen by Ann"
    assert reported.values == {0: link(), 1: 200 * SECOND, 2: NOW, 3: "Ann"}


def test_numbers_ascend_over_all_sources(playbook: Playbook) -> None:
    other = playbook.inventory.add_source("other", "qmf")
    playbook.inventory.observed(other, (EventLearned(whistle := EventSchema(ClassKey("x", "whistle"))),), 1)
    seen = EventSeen(whistle.key, AGENT, 1, Severity.INFO, ())
    numbers = []
    for source in (playbook.source, other, playbook.source):
        reported = event("whistle", "", 1) if source is playbook.source else seen
        playbook.inventory.observed(source, (reported,), playbook.now)
        numbers += [record.number for record in events(list(playbook.batches[-1].records))]
    assert numbers == [2, 3, 4]


def test_optional_arguments_are_absent_where_the_wire_can_only_say_nothing(playbook: Playbook) -> None:
    (reported,) = events(playbook.publish(event("heatRose", Reference("m1"), 0, 0, "")))
    assert reported.values == {0: link()}
    assert reported.text == "press reports heat for ? since ?, seen by ?"


def test_zero_and_empty_are_values_of_arguments_that_are_not_optional(playbook: Playbook) -> None:
    (reported,) = events(playbook.publish(event("whistle", "", 0)))
    assert reported.values == {1: 0}


def test_an_event_leads_to_an_object_that_has_just_ended(playbook: Playbook) -> None:
    playbook.publish(visitor("Bob", "v1", created=NOW, deleted=NOW + 9))
    (reported,) = events(playbook.publish(event("visitorLeft", Reference("v1"), 1, 0)))
    assert reported.subject is not None
    assert reported.subject.class_name == "plant:visitor"
    assert reported.text == f"Bob#{NOW} left through back after ? rounds"


def test_of_a_living_and_an_ended_object_with_one_native_id_the_living_is_meant(playbook: Playbook) -> None:
    playbook.publish(visitor("Bob", "v1", created=1, deleted=2), visitor("Eve", "v1", created=3))
    (reported,) = events(playbook.publish(event("visitorLeft", Reference("v1"), 1, 0)))
    assert reported.subject is not None
    assert reported.subject.stable_name == "Eve#3"


def test_after_a_restart_of_the_agent_former_native_ids_lead_nowhere(playbook: Playbook) -> None:
    playbook.publish(visitor("Bob", "v1", created=1, deleted=2))
    playbook.publish(ResyncBegan(restarted=True))
    (reported,) = events(playbook.publish(event("visitorLeft", Reference("v1"), 1, 0)))
    assert (reported.subject, reported.values) == (None, {1: 1})


@pytest.mark.parametrize("kept", [True, False])
def test_ended_objects_are_remembered_up_to_a_bound(playbook: Playbook, *, kept: bool) -> None:
    playbook.publish(visitor("Bob", "v1", created=1, deleted=2))
    others = 9_999 if kept else 10_000
    playbook.publish(*(visitor("Eve", f"e{n}", created=n, deleted=n + 1) for n in range(1, others + 1)))
    (reported,) = events(playbook.publish(event("visitorLeft", Reference("v1"), 1, 0)))
    assert (reported.subject is not None) is kept


def test_a_reference_to_nothing_known_is_absent(playbook: Playbook) -> None:
    (reported,) = events(playbook.publish(about("heatRose", "nobody")))
    assert (reported.subject, reported.values, reported.state) == (None, {}, EventState.ONE_SHOT)


def test_the_rule_says_how_severe_an_event_is_and_else_the_wire(playbook: Playbook) -> None:
    strong, weak = event("strikeBegan", severity=Severity.INFO), event("whistle", "a", 1)
    assert [reported.severity for reported in events(playbook.publish(strong, weak))] == [
        Severity.MAJOR,
        Severity.WARNING,
    ]


def test_what_an_agent_takes_back_is_not_urgent_whatever_the_rule_says(playbook: Playbook) -> None:
    (reported,) = events(playbook.publish(event("visitorLeft", None, 0, 3, severity=Severity.CLEARED)))
    assert (reported.severity, reported.state) == (Severity.INFO, EventState.ONE_SHOT)
    (ruled,) = events(playbook.publish(event("strikeBegan", severity=Severity.CLEARED)))
    assert ruled.severity is Severity.INFO


def test_an_event_without_a_template_is_reported_by_its_name_and_arguments(playbook: Playbook) -> None:
    long = "very " * 100
    reported = events(
        playbook.publish(event("whistle", "high", 3), event("whistle", "", 1), event("whistle", long, 1))
    )
    assert [record.text for record in reported[:2]] == [
        "plant:whistle tone=high, times=3",
        "plant:whistle times=1",
    ]
    assert reported[2].text.endswith("very…, times=1")


def test_an_event_that_no_mapping_knows_is_reported_all_the_same(playbook: Playbook) -> None:
    unknown = EventSchema(ClassKey("other", "bang", b"1" * 16))
    playbook.publish(EventLearned(unknown))
    (reported,) = events(playbook.publish(EventSeen(unknown.key, AGENT, 0, Severity.MINOR, ())))
    assert (reported.text, reported.severity, reported.subject) == ("other:bang", Severity.MINOR, None)


def test_the_mapping_is_laid_over_learnt_events(playbook: Playbook) -> None:
    records = of(EventClassRecord, playbook.snapshot())
    (rose,) = [record.schema for record in records if record.schema.key.name == "heatRose"]
    assert [argument.optional for argument in rose.arguments] == [False, True, True, True]


def test_the_gateways_own_events_are_known_from_the_start(tmp_path: Path) -> None:
    records = plant(tmp_path).snapshot()
    assert [record.schema for record in of(EventClassRecord, records)] == list(OWN_EVENTS)


def test_no_source_speaks_in_the_gateways_name(playbook: Playbook) -> None:
    forged = EventSchema(ClassKey("gateway", "sourceUp", b"f" * 16))
    seen = EventSeen(forged.key, AGENT, 0, Severity.INFO, ())
    genuine = EventSeen(OWN_EVENTS[0].key, AGENT, 0, Severity.INFO, ())
    assert not events(playbook.publish(EventLearned(forged), seen, genuine))
    assert playbook.source_record().counters["refused"] == 2


def test_links_of_a_reported_event_do_not_change_with_what_they_lead_to(playbook: Playbook) -> None:
    (reported,) = events(playbook.publish(about("doorOpened")))
    playbook.publish(machine(deleted=NOW + 5))
    again = [record for record in events(playbook.snapshot()) if record.number == reported.number]
    assert again == [reported]
    assert reported.subject == ObjectLink("plant:machine", 1, "press")
