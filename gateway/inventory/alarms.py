"""Active alarms of one source: which conditions stand, of which objects, since when; also over a restart."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec

from gateway.feed.records import AlarmRecord, EventRecord
from gateway.feed.values import ObjectLink
from gateway.inventory.id_allocator import IdAllocator
from gateway.inventory.instances import InstanceIndex
from gateway.inventory.kept_alarms import keep, kept

MAX_ALARMS = 10_000
"""Active alarms of objects of one source; more are refused."""

MAX_CONDITION_OCTETS = 255
"""Of UTF-8: what ``SnmpAdminString`` holds (RFC 3411)."""

_DIGEST_OCTETS = 8


@dataclass(frozen=True, slots=True)
class AlarmKey:
    """What there is at most one alarm of in a source: a name and an object, or a name alone."""

    name: str
    subject: ObjectLink | None = None

    @property
    def condition(self) -> str:
        r"""The text that a raising and a clearing event have in common: ``memoryAlarm shop:node "a@b"``.

        A text that would be longer than 255 octets is cut, and ends in ``~`` and the BLAKE2b-64 of the
        whole in hexadecimal digits. Receivers keep it: its form must never change.
        """
        if self.subject is None:
            return self.name
        whole = f'{self.name} {self.subject.class_name} "{self.subject.stable_name}"'
        octets = whole.encode(errors="replace")
        if len(octets) <= MAX_CONDITION_OCTETS:
            return whole
        digest = hashlib.blake2b(octets, digest_size=_DIGEST_OCTETS).hexdigest()
        return octets[: MAX_CONDITION_OCTETS - len(digest) - 1].decode(errors="ignore") + "~" + digest


class AlarmTable:
    """The alarms that stand, first of all those that stood when the gateway ended.

    Args:
        source: its number.
        numbers: where alarms get theirs.
        index: where they are kept.
        limit: alarms of objects that may stand. Those without an object are as many as the mappings' rules
            name, and are not counted.

    Attributes:
        inherited: subjects of alarms that stood when the gateway ended, by class and stable name, until their
            reader has seen whether they still live.
    """

    def __init__(
        self, source: int, numbers: IdAllocator, index: InstanceIndex, limit: int = MAX_ALARMS
    ) -> None:
        self._source = source
        self._numbers = numbers
        self._index = index
        self._limit = limit
        self._alarms: dict[AlarmKey, AlarmRecord] = {}
        self._of_subject: dict[ObjectLink, dict[str, AlarmKey]] = {}
        self._with_subject = 0
        self.inherited: dict[tuple[str, str], ObjectLink] = {}
        for record in kept(index, source):
            numbers.alarm_stands(record.number)
            self._put(AlarmKey(record.name, record.subject), record)
        for link in self._of_subject:
            self.inherited[link.class_name, link.stable_name] = link

    def __len__(self) -> int:
        return len(self._alarms)

    def __contains__(self, key: AlarmKey) -> bool:
        return key in self._alarms

    def __iter__(self) -> Iterator[AlarmKey]:
        return iter(list(self._alarms))

    def __getitem__(self, key: AlarmKey) -> AlarmRecord:
        return self._alarms[key]

    def records(self) -> Iterator[AlarmRecord]:
        """The record of each, in the order in which they were raised."""
        return iter(list(self._alarms.values()))

    def of(self, subject: ObjectLink) -> tuple[AlarmKey, ...]:
        """The alarms of one object."""
        return tuple(self._of_subject.get(subject, {}).values())

    def has_room_for(self, key: AlarmKey) -> bool:
        """Whether one more may stand, or it stands already."""
        return key in self._alarms or key.subject is None or self._with_subject < self._limit

    def add(self, key: AlarmKey, event: EventRecord) -> AlarmRecord:
        """An alarm that does not stand yet begins with ``event``, whose subject is the key's."""
        record = AlarmRecord(
            number=self._numbers.alarm(),
            source=self._source,
            name=key.name,
            condition=key.condition,
            severity=event.severity,
            subject=key.subject,
            text=event.text,
            event_id=event.event_id,
            raised=event.heard,
        )
        self._put(key, record)
        keep(self._index, record)
        return record

    def remove(self, key: AlarmKey, now: int) -> AlarmRecord:
        """An alarm that stands ends; its last record."""
        record = self._alarms.pop(key)
        self._numbers.alarm_over(record.number)
        self._index.drop_alarm(record.number)
        if key.subject is not None:
            self._with_subject -= 1
            of_subject = self._of_subject[key.subject]
            del of_subject[key.name]
            if not of_subject:
                del self._of_subject[key.subject]
        return msgspec.structs.replace(record, cleared=now)

    def _put(self, key: AlarmKey, record: AlarmRecord) -> None:
        self._alarms[key] = record
        if key.subject is not None:
            self._of_subject.setdefault(key.subject, {})[key.name] = key
            self._with_subject += 1
