"""The tables of identity: a case reaches each row, and has the records that its actions publish."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gateway.feed.records import DeleteRecord, ObjectRecord, Record, UpdateRecord
from gateway.inventory import identity, lifecycle
from gateway.inventory.identity import (
    BY_NAME,
    BY_NATIVE_ID,
    WITHOUT_REPORT,
    Action,
    Holder,
    Occasion,
    Owner,
    Report,
)
from gateway.model.observations import ClassLearned, ObjectSeen, ResyncBegan, ResyncEnded
from gateway.model.schema import ClassSchema, Element
from gateway.model.times import SECOND
from gateway.model.values import ValueType
from tests.inventory.playbook import NOW, QUEUE, Playbook, connection, queue, statistics, vhost

BORN = NOW - SECOND
SAME_NAME = replace(QUEUE, label="of another version")
OTHER_NAME = replace(QUEUE, properties=(*QUEUE.properties, Element("node", ValueType.STRING, index=True)))


@dataclass(frozen=True, slots=True)
class Case:
    """A row of a table: the steps before it applies, the report to which it applies, and the result."""

    row: Hashable
    published: list[str]
    report: Callable[[Playbook], list[Record]]
    before: Callable[[Playbook], object] = lambda _: None


def reported(*seen: ObjectSeen) -> Callable[[Playbook], list[Record]]:
    """Return a step that reports these observations in one body."""
    return lambda play: play.publish(*seen)


def resynchronised(*seen: ObjectSeen, restarted: bool = False) -> Callable[[Playbook], list[Record]]:
    """Return a step that begins a resync and reports these, without its end."""
    return lambda play: play.publish(ResyncBegan(restarted=restarted), *seen)


def lasting(seen: ObjectSeen) -> ObjectSeen:
    """Return the observation with a native id that remains over restarts of its agent."""
    return replace(seen, persistent_id=True)


def version(schema: ClassSchema) -> Callable[[Playbook], list[Record]]:
    """Return a step that reports another version of the class."""
    return lambda play: play.publish(ClassLearned(schema))


def after(*steps: Callable[[Playbook], object]) -> Callable[[Playbook], None]:
    """Return a step that executes these steps in order."""

    def run(play: Playbook) -> None:
        for step in steps:
            step(play)

    return run


def bare_end(native_id: str, created: int = 0) -> ObjectSeen:
    """Return the observation of the end of a queue, without any value."""
    return ObjectSeen(QUEUE.key, "1.0", native_id, NOW, created, NOW + 1)


def ended(name: str, native_id: str) -> ObjectSeen:
    """Return the observation of a queue that ended."""
    return queue(name, native_id, deleted=NOW + 1)


def in_other_version(seen: ObjectSeen, node: str = "n1") -> ObjectSeen:
    """Return the observation in the version of the class whose names have one part more."""
    return replace(seen, properties=(*(seen.properties or ()), node))


HAS_QUEUE = reported(queue("a", "q1", created=BORN))

CASES = (
    # By native id
    Case((Report.PROPERTIES, Owner.NONE), ["object /|a 1"], reported(queue("a", "q1"))),
    Case((Report.PROPERTIES, Owner.SAME), ["update 1"], reported(queue("a", "q1", depth=5)), HAS_QUEUE),
    Case((Report.PROPERTIES, Owner.OTHER), ["object /|b 2"], reported(queue("b", "q1")), HAS_QUEUE),
    Case(
        (Report.PROPERTIES, Owner.OTHER_VERSION),
        ["no end of /|a 1", "object /|a 1"],
        reported(queue("a", "q1")),
        after(HAS_QUEUE, version(SAME_NAME)),
    ),
    Case(
        (Report.PROPERTIES, Owner.OUTDATED),
        ["inferred end of /|a 1", "object /|a|n1 2"],
        reported(in_other_version(queue("a", "q1"))),
        after(HAS_QUEUE, version(OTHER_NAME)),
    ),
    Case(
        (Report.PROPERTIES, Owner.NAMEABLE),
        ["inferred end of /|a#q2 2", "object /|a 1"],
        reported(queue("a", "q2")),
        after(HAS_QUEUE, reported(queue("a", "q2")), reported(ended("a", "q1"))),
    ),
    Case((Report.STATISTICS, Owner.NONE), [], reported(statistics("q1", 1, 1))),
    Case((Report.STATISTICS, Owner.SAME), ["update 1"], reported(statistics("q1", 1, 1)), HAS_QUEUE),
    Case(
        (Report.STATISTICS, Owner.OTHER),
        [],
        reported(replace(statistics("q1", 1, 1), created=NOW)),
        HAS_QUEUE,
    ),
    Case(
        (Report.STATISTICS, Owner.OUTDATED),
        ["inferred end of /|a 1"],
        reported(statistics("q1", 1, 1)),
        after(HAS_QUEUE, version(OTHER_NAME)),
    ),
    Case((Report.END, Owner.NONE), ["object /|a 1", "end of /|a 1"], reported(ended("a", "q1"))),
    Case((Report.END, Owner.SAME), ["update 1", "end of /|a 1"], reported(ended("a", "q1")), HAS_QUEUE),
    Case(
        (Report.END, Owner.OTHER),
        ["object /|b 2", "end of /|b 2"],
        reported(ended("b", "q1")),
        HAS_QUEUE,
    ),
    Case(
        (Report.END, Owner.OUTDATED),
        ["inferred end of /|a 1", "object /|a|n1 2", "end of /|a|n1 2"],
        reported(in_other_version(ended("a", "q1"))),
        after(HAS_QUEUE, version(OTHER_NAME)),
    ),
    Case((Report.BARE_END, Owner.NONE), [], reported(bare_end("q1"))),
    Case((Report.BARE_END, Owner.SAME), ["end of /|a 1"], reported(bare_end("q1")), HAS_QUEUE),
    Case((Report.BARE_END, Owner.OTHER), [], reported(bare_end("q1", created=NOW)), HAS_QUEUE),
    Case(
        (Report.BARE_END, Owner.OUTDATED),
        ["inferred end of /|a 1"],
        reported(bare_end("q1")),
        after(HAS_QUEUE, version(SAME_NAME)),
    ),
    # By name
    Case(Holder.UNRESOLVED, [], reported(queue("a", "q1", "unknown"))),
    Case(Holder.NONE, ["object /|a 1"], reported(queue("a", "q1"))),
    Case(
        Holder.NONE_YET,
        [r"object \?unknown|a#q1 1"],
        lambda play: play.tick(11),
        reported(queue("a", "q1", "unknown")),
    ),
    Case(Holder.CONFIRMED, ["object /|a#q2 2"], reported(queue("a", "q2")), HAS_QUEUE),
    Case(
        Holder.RETURNED,
        ["object /|a 1"],
        reported(queue("a", "q2", created=BORN)),
        after(HAS_QUEUE, resynchronised(vhost("/", "v1"), restarted=True)),
    ),
    Case(
        Holder.RETURNED,
        ["object peer#c1 1"],
        reported(lasting(connection("peer", "c1"))),
        after(reported(lasting(connection("peer", "c1"))), resynchronised(restarted=True)),
    ),
    Case(
        Holder.FORMER,
        ["object /|a 1"],
        reported(lasting(queue("a", "q1", created=NOW))),
        after(
            reported(vhost("/", "v1"), lasting(queue("a", "q1", created=BORN))),
            resynchronised(vhost("/", "v1"), restarted=True),
        ),
    ),
    Case(
        Holder.FORMER,
        ["object /|a 1"],
        reported(queue("a", "q2", created=NOW)),
        after(HAS_QUEUE, resynchronised(vhost("/", "v1"))),
    ),
    Case(
        Holder.FORMER_VERSION,
        ["no end of /|a 1", "object /|a 1"],
        reported(queue("a", "q2", created=BORN)),
        after(HAS_QUEUE, version(SAME_NAME), resynchronised(vhost("/", "v1"))),
    ),
    Case(
        Holder.FORMER_ID,
        ["inferred end of peer#c1 1", "object peer#c1 2"],
        reported(connection("peer", "c1")),
        after(reported(connection("peer", "c1")), resynchronised(restarted=True)),
    ),
    # Without a report
    Case(
        Occasion.MISSING,
        ["inferred end of /|a 1"],
        lambda play: play.publish(ResyncEnded(complete=True)),
        after(HAS_QUEUE, resynchronised(vhost("/", "v1"))),
    ),
    Case(Occasion.RESTARTED, [], resynchronised(restarted=True)),
    Case(
        Occasion.SOURCE_REMOVED,
        ["inferred end of / 1", "update 1", "inferred end of /|a 1"],
        Playbook.remove_source,
        HAS_QUEUE,
    ),
    Case(
        Occasion.NAMEABLE,
        ["object / 1", r"inferred end of \?v5|a#q1 1", "object /|a 2"],
        reported(vhost("/", "v5")),
        after(
            reported(replace(vhost("/", "v1"), deleted=NOW + 1)),
            reported(queue("a", "q1", "v5")),
            lambda play: play.tick(11),
        ),
    ),
)


class Recording(dict[Hashable, tuple[Action, ...]]):
    """A table that records which of its rows were looked up."""

    def __init__(self, rows: Mapping[Hashable, tuple[Action, ...]]) -> None:
        super().__init__(rows)
        self.used: list[Hashable] = []

    def __getitem__(self, row: Hashable) -> tuple[Action, ...]:
        self.used.append(row)
        return super().__getitem__(row)


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> list[Recording]:
    """Provide the three tables, as used by the code."""
    recorded = []
    for name in ("BY_NATIVE_ID", "BY_NAME", "WITHOUT_REPORT"):
        table = Recording(getattr(identity, name))
        monkeypatch.setattr(lifecycle, name, table)
        recorded.append(table)
    return recorded


def published(records: list[Record]) -> Iterator[str]:
    """Yield the published changes of objects as short texts."""
    for record in records:
        match record:
            case ObjectRecord():
                yield f"object {record.stable_name} {record.row}"
            case UpdateRecord():
                yield f"update {record.row}"
            case DeleteRecord():
                kind = "no end" if not record.number else "inferred end" if record.inferred else "end"
                yield f"{kind} of {record.stable_name} {record.row}"


@pytest.mark.parametrize("case", [pytest.param(case, id=str(case.row)) for case in CASES])
def test_a_row_applies_and_its_actions_publish(tmp_path: Path, tables: list[Recording], case: Case) -> None:
    play = Playbook(tmp_path)
    play.synchronise(vhost("/", "v1"))
    case.before(play)
    for table in tables:
        table.used.clear()
    records = case.report(play)
    assert case.row in [row for table in tables for row in table.used]
    assert list(published(records)) == case.published


def test_each_row_has_a_case() -> None:
    assert {case.row for case in CASES} == {*BY_NATIVE_ID, *BY_NAME, *WITHOUT_REPORT}
    assert set(BY_NAME) == set(Holder)
    assert set(WITHOUT_REPORT) == set(Occasion)


def test_each_action_is_in_a_row_and_each_row_has_one() -> None:
    rows = [*BY_NATIVE_ID.values(), *BY_NAME.values(), *WITHOUT_REPORT.values()]
    assert all(rows)
    assert {action for row in rows for action in row} == set(Action)
