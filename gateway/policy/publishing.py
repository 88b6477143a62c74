"""Adds the tables of the policy to what the core publishes: to snapshots, and to batches with new classes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import msgspec

from gateway.feed.access import GATEWAY_NAME, AccessTables, Received
from gateway.feed.records import Batch, ClassRecord, EventClassRecord, EventRecord, Record
from gateway.policy.marks import Marks
from gateway.policy.rules import RoleSet
from gateway.policy.tables import PolicyTables


class PolicyPublisher:
    """The tables of the present policy, as front ends receive them.

    Args:
        roles: the roles, checked.
        marks: what mappings call private.
        receivers: the names of the receivers of notifications.
        known: returns the records of all classes and events.
    """

    def __init__(
        self,
        roles: RoleSet,
        marks: Marks,
        receivers: Collection[str] = (),
        known: Callable[[], Iterable[ClassRecord | EventClassRecord]] = tuple,
    ) -> None:
        self._marks = marks
        self._receivers = tuple(receivers)
        self._known = known
        self._recalled: dict[str, ClassRecord] = {}
        self.change(roles)

    def change(self, roles: RoleSet, receivers: Collection[str] | None = None) -> None:
        """Use other roles, checked, and receivers from now on; every front end needs a new snapshot."""
        if receivers is not None:
            self._receivers = tuple(receivers)
        self._tables = PolicyTables(roles, self._marks)
        self._access = AccessTables()
        self._access.take(self._tables.record)
        self._taken: set[int] = set()
        self._take_known()
        for record in self._recalled.values():
            self._access.take(self._tables.class_access(record))

    def recall(self, classes: Iterable[ClassRecord]) -> list[Record]:
        """Take classes of which only the event log knows; they get numbers below 0.

        Past events refer to their objects, and the roles decide by the class who receives them: without its
        table an event is for no receiver. Returns the tables of those that are new.
        """
        new: list[Record] = []
        known = {str(record.schema.key) for record in self._known() if isinstance(record, ClassRecord)}
        for record in classes:
            name = str(record.schema.key)
            if name not in known and name not in self._recalled:
                numbered = msgspec.structs.replace(record, number=-1 - len(self._recalled))
                self._recalled[name] = numbered
                new.append(table := self._tables.class_access(numbered))
                self._access.take(table)
        return new

    def withheld(self, event: EventRecord, source: str) -> list[str]:
        """Return the receivers of notifications to whom their roles do not let an event be sent.

        Args:
            event: the event.
            source: the name of its source; empty for the gateway itself.
        """
        if event.class_number not in self._taken:
            self._take_known()
        access = self._access
        refused: dict[int | None, bool] = {None: True}
        found = []
        for receiver in self._receivers:
            clearance = access.clearance(f"notify:{receiver}")
            if clearance not in refused:
                assert clearance is not None
                refused[clearance] = Received.NOTHING is access.receives_event(
                    *(clearance, event.class_number, source or GATEWAY_NAME, event.subject, event.condition),
                    event.quoted,
                )
            if refused[clearance]:
                found.append(receiver)
        return found

    def snapshot(self, records: Iterable[Record]) -> list[Record]:
        """Return the records of a snapshot, behind the policy, and with the table of each class behind it."""
        published = list(records)
        names = {str(record.schema.key) for record in published if type(record) is ClassRecord}
        recalled = (record for name, record in self._recalled.items() if name not in names)
        tables = [self._tables.class_access(record) for record in recalled]
        return [self._tables.record, *tables, *self._extended(published)]

    def batch(self, batch: Batch) -> Batch:
        """Return a batch with the table of each new class behind it."""
        if not _has_classes(batch.records):
            return batch
        self._take_known()
        return msgspec.structs.replace(batch, records=tuple(self._extended(batch.records)))

    def _take_known(self) -> None:
        for record in self._known():
            if record.number in self._taken:
                continue
            self._taken.add(record.number)
            if isinstance(record, ClassRecord):
                self._access.take(self._tables.class_access(record))
            else:
                self._access.take(self._tables.event_access(record))

    def _extended(self, records: Iterable[Record]) -> Iterator[Record]:
        tables = self._tables
        for record in records:
            yield record
            if isinstance(record, ClassRecord):
                yield tables.class_access(record)
            elif isinstance(record, EventClassRecord):
                yield tables.event_access(record)


def _has_classes(records: Sequence[Record]) -> bool:
    # The type is compared, not tested: there are thousands of records a second.
    return any(type(record) is ClassRecord or type(record) is EventClassRecord for record in records)
