"""Another broker or agent under the name of a source: former objects end, and no counter continues."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.eventlog.last_state import LastState
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.recorder import LogRecorder, RecorderSettings
from gateway.feed.records import GapRecord
from gateway.mapping.rules import Mapping
from gateway.model.observations import (
    EVENT_DELAY_BOUNDS,
    AgentGone,
    AgentLost,
    ClassLearned,
    ObjectSeen,
    Observation,
    ResyncBegan,
    ResyncEnded,
    SourceState,
    SourceStateSeen,
)
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.times import HOUR
from gateway.model.values import ValueType
from gateway.service.state.restored_objects import restore_source
from tests.inventory.playbook import AGENT, MAPPING, NOW, QUEUE, VHOST, Playbook, of, queue, vhost

SITE = ClassSchema(
    ClassKey("shop", "site", b"s" * 16),
    (Element("id", ValueType.STRING, index=True), Element("place", ValueType.STRING, optional=True)),
)
IDENTIFIED = Mapping.model_validate(
    {
        **MAPPING.model_dump(exclude_unset=True),
        "classes": {
            **MAPPING.model_dump(exclude_unset=True)["classes"],
            "site": {"identity": {"id": "id", "place": "place"}, "properties": {"id": {}, "place": {}}},
        },
    }
)


def site(identity: str, place: str | None) -> ObjectSeen:
    """Return a report of the object that identifies the peer; its native id is that of any other."""
    return ObjectSeen(SITE.key, AGENT, "s1", NOW, NOW, 0, (identity, place))


class Logged(Playbook):
    """A playbook with the records that the event log would have, those of an earlier core first."""

    def __init__(self, folder: Path, former: Logged | None = None, *, whole: bool = False) -> None:
        folder.mkdir()
        super().__init__(folder, mapping=IDENTIFIED, schemas=(VHOST, QUEUE, SITE), kind="qmf", whole=whole)
        last = LastState() if former is None else LastState(former.living(), {"shop": NOW}, {"shop": 1})
        self._recorder, self._applied = LogRecorder(RecorderSettings(1), last), 0
        self.log: list[LogRecord] = []
        restore_source(self.source, last, by_native_id=whole)

    def recorded(self) -> list[LogRecord]:
        """Return the records so far."""
        for batch in self.batches[self._applied :]:
            self.log += [
                one.record() if not isinstance(one, LogRecord) else one
                for one in (*self._recorder.apply(batch, self.now), *self._recorder.tick(self.now))
            ]
        self._applied = len(self.batches)
        return self.log

    def living(self) -> dict[str, LogRecord]:
        """Return the last record of each object."""
        return {one.object_id: one for one in self.recorded() if one.object_id and one.values}

    def read(self, identity: str, place: str | None, published: int) -> None:
        """Read a peer with one queue, which has as many messages; what identifies the peer comes last."""
        self.publish(SourceStateSeen(SourceState.CONNECTING))
        orders = queue("orders", "q1", created=NOW - HOUR, published=published)
        self.synchronise(vhost("/", "v1"), orders, site(identity, place))

    def lives(self) -> list[tuple[RecordKind, bool | None]]:
        """Return each begin and end of the queue's life, and whether it was inferred."""
        found = [one for one in self.recorded() if one.class_name == "queue" and one.object_id]
        assert len({one.object_id for one in found}) == 1, "the row stays"
        kinds = {RecordKind.CREATE, RecordKind.DELETE}
        return [(one.kind, one.inferred) for one in found if one.kind in kinds]

    def gained(self) -> list[int]:
        """Return the recorded increases of the queue's counter."""
        found = [
            one.deltas["published"] for one in self.recorded() if one.deltas and one.class_name == "queue"
        ]
        return [one.delta for one in found if one.delta is not None]


ANOTHER = [(RecordKind.DELETE, True), (RecordKind.CREATE, None)]


@pytest.mark.parametrize("meanwhile", ["running", "down"])
@pytest.mark.parametrize(
    ("identity", "place", "lives", "gained"),
    [
        ("b", "two.example", ANOTHER, []),
        ("b", None, ANOTHER, []),
        ("a", "two.example", [], [27]),
        ("b", "one.example", [], [27]),
        ("", "two.example", [], [27]),
    ],
    ids=["another", "another somewhere", "moved", "a new id", "without an id"],
)
def test_another_peer_is_noticed(
    meanwhile: str,
    identity: str,
    place: str | None,
    lives: list[object],
    gained: list[int],
    tmp_path: Path,
) -> None:
    first = Logged(tmp_path / "first")
    first.read("a", "one.example", 3)
    begun = len(first.lives())
    play = first if meanwhile == "running" else Logged(tmp_path / "second", first)
    play.read(identity, place, 30)
    assert play.lives()[begun if play is first else 0 :] == lives
    assert play.gained() == gained
    gaps = [one.text for one in play.recorded() if one.kind is RecordKind.GAP]
    assert any("in the place of a at one.example" in (text or "") for text in gaps) is bool(lives)
    assert ("in the place of" in play.source_record().detail) is bool(lives)
    assert play.objects()["/|orders"].values[QUEUE.positions["published"]] == 30


def test_the_same_peer_lets_reports_pass_as_soon_as_it_is_shown(tmp_path: Path) -> None:
    play = Logged(tmp_path / "one")
    play.read("a", "one.example", 3)
    play.publish(SourceStateSeen(SourceState.DOWN), SourceStateSeen(SourceState.SYNCHRONISING))
    play.publish(queue("orders", "q1", created=NOW - HOUR, published=5))
    assert play.objects()["/|orders"].values[QUEUE.positions["published"]] == 3
    play.publish(site("a", "one.example"))
    assert play.objects()["/|orders"].values[QUEUE.positions["published"]] == 5


def test_reports_of_a_peer_that_shows_nothing_of_itself_wait_for_a_minute(tmp_path: Path) -> None:
    play = Logged(tmp_path / "one")
    play.read("a", "one.example", 3)
    play.publish(SourceStateSeen(SourceState.DOWN), SourceStateSeen(SourceState.SYNCHRONISING))
    play.publish(queue("orders", "q1", created=NOW - HOUR, published=5))
    play.tick(59)
    assert play.objects()["/|orders"].values[QUEUE.positions["published"]] == 3
    play.tick(2)
    assert play.objects()["/|orders"].values[QUEUE.positions["published"]] == 5


@pytest.mark.parametrize(
    ("identity", "place", "lives", "gained"),
    [("a", "one.example", [], [27]), ("b", "two.example", ANOTHER, [])],
    ids=["the same", "another"],
)
def test_a_link_that_is_lost_before_everything_was_read_decides_nothing(
    identity: str, place: str, lives: list[object], gained: list[int], tmp_path: Path
) -> None:
    """A cluster that was renamed may show a new node before those that are known."""
    play = Logged(tmp_path / "one")
    play.read("a", "one.example", 3)
    begun = len(play.lives())
    play.publish(SourceStateSeen(SourceState.CONNECTING), ResyncBegan())
    play.publish(site("b", "two.example"), queue("orders", "q1", created=NOW - HOUR, published=9))
    lost = play.publish(ResyncEnded(complete=False), SourceStateSeen(SourceState.DOWN))
    assert play.lives()[begun:] == []
    assert of(GapRecord, lost) == [], "no event was received meanwhile"
    play.read(identity, place, 30)
    assert play.lives()[begun:] == lives
    assert play.gained() == gained


def test_what_a_peer_that_stays_unknown_reported_once_is_a_gap(tmp_path: Path) -> None:
    play = Logged(tmp_path / "one")
    play.read("a", "one.example", 3)
    begun = len(play.lives())
    play.publish(SourceStateSeen(SourceState.CONNECTING))
    play.publish(queue("orders", "q1", created=NOW - HOUR, deleted=NOW))
    play.tick(3)
    play.publish(site("b", "two.example"))
    (gap,) = of(GapRecord, play.publish(SourceStateSeen(SourceState.DOWN)))
    assert (gap.start, gap.end) == (NOW - EVENT_DELAY_BOUNDS[1], play.now)
    assert "before it was known whether b at two.example is another broker" in gap.reason
    assert play.lives()[begun:] == []


def test_a_restart_that_a_peer_reported_before_the_link_was_lost_is_one(tmp_path: Path) -> None:
    play = Logged(tmp_path / "one")
    play.synchronise(vhost("/", "v1"), queue("orders", "q1", published=3), site("a", "one.example"))
    play.publish(SourceStateSeen(SourceState.CONNECTING), ResyncBegan(restarted=True))
    play.publish(site("b", "two.example"), SourceStateSeen(SourceState.DOWN))
    play.synchronise(vhost("/", "v1"), queue("orders", "q1", published=30), site("a", "one.example"))
    assert play.gained() == [30], "its counters began again from zero"


OTHER = "2.0"
"""The name of a further agent."""


@pytest.mark.parametrize("lost", [False, True])
def test_a_further_agent_of_another_broker_is_read_beside_the_known_one(
    *, lost: bool, tmp_path: Path
) -> None:
    play = Logged(tmp_path / "one")
    play.read("a", "one.example", 3)
    begun = len(play.lives())
    if lost:
        play.publish(SourceStateSeen(SourceState.CONNECTING), SourceStateSeen(SourceState.SYNCHRONISING))
    further = replace(site("b", "two.example"), agent=OTHER, native_id="s2")
    play.publish(ResyncBegan(OTHER), further, ResyncEnded(complete=True, agent=OTHER))
    play.synchronise(
        vhost("/", "v1"),
        queue("orders", "q1", created=NOW - HOUR, published=30),
        site("a", "one.example"),
        further,
    )
    assert (play.lives()[begun:], play.gained()) == ([], [27])
    assert {"a", "b"} <= play.objects().keys()


def test_an_agent_that_was_not_read_is_not_replaced(tmp_path: Path) -> None:
    play = Logged(tmp_path / "one")
    play.read("a", "one.example", 3)
    begun = len(play.lives())
    play.publish(SourceStateSeen(SourceState.CONNECTING), ResyncBegan())
    play.publish(replace(site("b", "two.example"), agent=OTHER, native_id="s2"))
    play.publish(ResyncEnded(complete=True, without=frozenset({AGENT})))
    assert play.lives()[begun:] == []


def test_another_peer_by_another_agent_is_noticed_when_the_known_one_has_left(tmp_path: Path) -> None:
    play = Logged(tmp_path / "one")
    play.read("a", "one.example", 3)
    begun = len(play.lives())
    play.publish(AgentLost(AGENT, leaving=True), ResyncBegan(OTHER))
    host, orders = vhost("/", "v2"), queue("orders", "q2", "v2", published=30)
    for seen in (replace(site("b", "two.example"), native_id="s2"), host, orders):
        play.publish(replace(seen, agent=OTHER))
    play.publish(ResyncEnded(complete=True, agent=OTHER))
    assert (play.lives()[begun:], play.gained()) == (ANOTHER, [])


ORDERS = queue("orders", "q1", created=NOW - HOUR, published=30)

# What waited in a durable queue: agents are asked before it is read.


def read_before(folder: Path) -> Logged:
    """Return a source with a durable subscription, which was read by the core before."""
    first = Logged(folder / "first")
    first.read("a", "one.example", 3)
    return Logged(folder / "second", first, whole=True)


@pytest.mark.parametrize(
    ("shown", "answered", "is_another"),
    [
        ([("b", "two.example")], {AGENT}, True),
        ([("b", None)], {AGENT}, True),
        ([("b", "two.example"), ("b", "one.example")], {AGENT}, False),
        ([("b", "two.example")], {OTHER}, False),
        ([("", "two.example")], {AGENT}, False),
        ([], {AGENT}, False),
    ],
    ids=["another", "another somewhere", "renamed", "answered in part", "without an id", "nothing"],
)
def test_answers_show_another_peer_before_what_waited_is_read(
    shown: list[tuple[str, str | None]], answered: set[str], tmp_path: Path, *, is_another: bool
) -> None:
    play = read_before(tmp_path)
    assert play.source.identifying == {"shop:site": {AGENT}}
    answers: list[Observation] = [ClassLearned(SITE), *(site(*one) for one in shown)]
    replaced = play.source.peer_replaced(answers, answered, ())
    assert (replaced is not None) is is_another
    if replaced is not None:
        play.publish(replaced)
        assert "b" in replaced.text
        assert "in the place of a at one.example" in replaced.text
        assert play.source.is_peer_shown(answers), "it is known from now on"
    # What waited is applied at once, whoever has shown himself.
    play.publish(SourceStateSeen(SourceState.SYNCHRONISING), *map(ClassLearned, (VHOST, QUEUE)))
    play.publish(vhost("/", "v1"), queue("orders", "q1", created=NOW - HOUR, published=30))
    assert play.objects()["/|orders"].values[QUEUE.positions["published"]] == 30
    assert play.lives() == (ANOTHER if is_another else [])
    assert play.gained() == ([] if is_another else [27])


def test_the_known_peer_needs_no_further_answer(tmp_path: Path) -> None:
    play = read_before(tmp_path)
    answers: list[Observation] = [ClassLearned(SITE), site("a", "two.example")]
    assert play.source.is_peer_shown(answers)
    assert not play.source.is_peer_shown([ClassLearned(SITE), site("b", "two.example")])
    assert play.source.peer_replaced(answers, {AGENT}, ()) is None
    play.publish(AgentGone(AGENT))
    assert not play.source.identifying, "nothing of it is left"
    assert not Logged(tmp_path / "new", whole=True).source.identifying, "at first none is known"


RESTARTED = ResyncBegan(AGENT, restarted=True)


@pytest.mark.parametrize(
    ("shown", "silent", "reports", "is_in_doubt"),
    [
        ([], {AGENT}, [ORDERS], True),
        ([], {AGENT}, [ResyncBegan(), replace(ORDERS, agent=OTHER)], False),
        ([], {OTHER}, [replace(ORDERS, agent=OTHER)], False),
        ([], set(), [ORDERS], False),
        ([site("a", "one.example")], {AGENT}, [ORDERS], False),
        ([], set(), [ResyncBegan(restarted=True), ORDERS], False),
        ([], set(), [ResyncBegan(), ResyncBegan(restarted=True), ORDERS], True),
        ([], set(), [RESTARTED, ORDERS], True),
        ([], set(), [ORDERS, RESTARTED], False),
    ],
    ids=[
        "did not answer",
        "another one",
        "shows nothing of itself",
        "answered",
        "is the known one",
        "had restarted before",
        "restarted later",
        "restarted alone",
        "shows nothing yet",
    ],
)
def test_an_agent_that_may_be_another_peers_is_in_doubt(
    shown: list[ObjectSeen],
    silent: set[str],
    reports: list[Observation],
    tmp_path: Path,
    *,
    is_in_doubt: bool,
) -> None:
    source = read_before(tmp_path).source
    answers: list[Observation] = [ClassLearned(SITE), *shown]
    assert source.peer_replaced(answers, {AGENT} - silent, silent) is None
    assert source.doubted(reports) == ({AGENT} if is_in_doubt else set())
    assert source.has_peer_answered([], {AGENT}) is is_in_doubt, "who was in doubt has answered"


def test_an_agent_that_does_not_answer_when_it_is_in_doubt_is_read_all_the_same(tmp_path: Path) -> None:
    source = read_before(tmp_path).source

    def is_in_doubt(silent: set[str], *reports: Observation) -> bool:
        source.peer_replaced([], {AGENT} - silent, silent)
        return bool(source.doubted([*reports, ORDERS]))

    assert is_in_doubt({AGENT})
    assert not is_in_doubt({AGENT})
    assert not is_in_doubt({AGENT})
    assert is_in_doubt({AGENT}, RESTARTED), "as a restart is another one's"
    assert not is_in_doubt({AGENT})
    assert not is_in_doubt(set())
    assert is_in_doubt({AGENT}), "as it can answer"


def test_an_agent_that_is_gone_is_in_doubt_no_longer(tmp_path: Path) -> None:
    play = read_before(tmp_path)
    play.source.peer_replaced([], set(), {AGENT})
    play.publish(AgentGone(AGENT))
    assert not play.source.doubted([ORDERS])
