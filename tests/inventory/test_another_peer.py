"""Another broker or agent under the name of a source: former objects end, and no counter continues."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.eventlog.last_state import LastState
from gateway.eventlog.record import LogRecord, RecordKind
from gateway.eventlog.recorder import LogRecorder, RecorderSettings
from gateway.mapping.rules import Mapping
from gateway.model.observations import ObjectSeen, SourceState, SourceStateSeen
from gateway.model.schema import ClassKey, ClassSchema, Element
from gateway.model.times import HOUR
from gateway.model.values import ValueType
from gateway.service.state.restored_objects import restore_source
from tests.inventory.playbook import AGENT, MAPPING, NOW, QUEUE, VHOST, Playbook, queue, vhost

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

    def __init__(self, folder: Path, former: Logged | None = None) -> None:
        folder.mkdir()
        super().__init__(folder, mapping=IDENTIFIED, schemas=(VHOST, QUEUE, SITE), kind="qmf")
        last = LastState() if former is None else LastState(former.living(), {"shop": NOW}, {"shop": 1})
        self._recorder, self._applied = LogRecorder(RecorderSettings(1), last), 0
        self.log: list[LogRecord] = []
        restore_source(self.source, last, by_native_id=False)

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
        return [one.delta for one in found]


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
