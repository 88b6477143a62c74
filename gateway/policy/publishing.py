"""Adds the tables of the policy to what the core publishes: to snapshots, and to batches with new classes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from gateway.feed.records import Batch, ClassRecord, EventClassRecord, Record
from gateway.policy.marks import Marks
from gateway.policy.rules import RoleSet
from gateway.policy.tables import PolicyTables


class PolicyPublisher:
    """The tables of the present policy, as front ends receive them.

    Args:
        roles: the roles, checked.
        marks: what mappings call private.
    """

    def __init__(self, roles: RoleSet, marks: Marks) -> None:
        self._marks = marks
        self._tables = PolicyTables(roles, marks)

    def change(self, roles: RoleSet) -> None:
        """Use other roles, checked, from now on; every front end needs a new snapshot."""
        self._tables = PolicyTables(roles, self._marks)

    def snapshot(self, records: Iterable[Record]) -> list[Record]:
        """Return the records of a snapshot, behind the policy, and with the table of each class behind it."""
        return [self._tables.record, *self._extended(records)]

    def batch(self, batch: Batch) -> Batch:
        """Return a batch with the table of each new class behind it."""
        if not _has_classes(batch.records):
            return batch
        return msgspec.structs.replace(batch, records=tuple(self._extended(batch.records)))

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
