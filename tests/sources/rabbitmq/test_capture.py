"""The events of a captured source are read from the capture as the same events."""

from __future__ import annotations

import json

import pytest

from gateway.dialects.session import BacklogFollows, LinkDown, LinkUp, LossSuspected, TimerExpired
from gateway.links.capture_reading import CaptureError, Record
from gateway.sources.rabbitmq.capture import event_fields, read_event
from gateway.sources.rabbitmq.source_events import (
    BrokerEventReceived,
    ConnectionBlocked,
    EventsDropped,
    RequestSent,
    SourceEvent,
    Work,
    WorkContinues,
)

T0 = 1_700_000_000_000_000_000


@pytest.mark.parametrize(
    "event",
    [
        BrokerEventReceived("queue.created", {"name": "orders"}, T0),
        LinkUp(""),
        LinkDown("refused"),
        BacklogFollows("expired", 0),
        LossSuspected("doubt", T0),
        EventsDropped(T0, T0 + 5, "the queue was full"),
        WorkContinues(Work.LISTING),
        TimerExpired(),
        RequestSent(),
        ConnectionBlocked(),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_is_read_from_a_capture_as_it_was(event: SourceEvent) -> None:
    written = json.loads(json.dumps(event_fields(event, catching_up=False)))
    assert read_event(Record(7, written)) == event


def test_what_happens_to_no_source_is_refused_with_its_line() -> None:
    with pytest.raises(CaptureError, match="line 7: 'thunder'"):
        read_event(Record(7, {"event": "thunder"}))
