"""Active alarms as text, by which a gateway that was restarted knows them again."""

from __future__ import annotations

import json
from collections.abc import Iterator

from gateway.feed.records import AlarmRecord
from gateway.feed.values import ObjectLink
from gateway.inventory.instances import InstanceIndex
from gateway.model.events import Severity


def keep(index: InstanceIndex, alarm: AlarmRecord) -> None:
    """An alarm stands; on the disk with the index's next commit."""
    subject = alarm.subject
    text = json.dumps(
        {
            "name": alarm.name,
            "condition": alarm.condition,
            "severity": alarm.severity.name,
            "subject": [subject.class_name, subject.row, subject.stable_name] if subject else None,
            "text": alarm.text,
            "event_id": alarm.event_id,
            "raised": alarm.raised,
        }
    )
    index.keep_alarm(alarm.source, alarm.number, text)


def kept(index: InstanceIndex, source: int) -> Iterator[AlarmRecord]:
    """The alarms of a source that stood when the index was last used, the oldest first.

    One that cannot be read is dropped: if it still stands, it is raised again.
    """
    for number, text in index.alarms(source):
        try:
            alarm = _read(source, number, text)
        except (ValueError, KeyError, TypeError):
            index.drop_alarm(number)
        else:
            yield alarm


def _read(source: int, number: int, text: str) -> AlarmRecord:
    told = json.loads(text)
    subject = told.pop("subject")
    severity = Severity[told.pop("severity")]
    link = ObjectLink(*subject) if subject else None
    return AlarmRecord(number=number, source=source, severity=severity, subject=link, **told)
