"""The events of a captured source are read from the capture as the same events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.dialects.session import (
    BacklogFollows,
    Effect,
    LinkDown,
    LinkUp,
    LossSuspected,
    Observed,
    TimerExpired,
    WakeAt,
)
from gateway.links.capture_file import CaptureFile
from gateway.links.capture_reading import CaptureError, Record, read_capture
from gateway.model.observations import Observation
from gateway.model.times import MILLISECOND, MINUTE
from gateway.sources.rabbitmq.capture import (
    AS_SOURCE,
    CapturedSource,
    event_fields,
    read_event,
    replay_source,
)
from gateway.sources.rabbitmq.object_lives import KnownObject
from gateway.sources.rabbitmq.object_names import recorded_name
from gateway.sources.rabbitmq.source import RabbitMqSource
from gateway.sources.rabbitmq.source_config import RabbitMqSourceConfig
from gateway.sources.rabbitmq.source_events import (
    AnswerReceived,
    BrokerEventReceived,
    BrokerReached,
    ConnectionBlocked,
    EventsDropped,
    PauseDemanded,
    RequestSent,
    SourceEvent,
    Work,
    WorkContinues,
)
from tests.links.captures import Seen
from tests.sources.rabbitmq.imitation import MAPPING, NODE, ImitatedBroker
from tests.sources.rabbitmq.test_event_gaps import former

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
        PauseDemanded(5 * MILLISECOND),
        BrokerReached(),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_event_is_read_from_a_capture_as_it_was(event: SourceEvent) -> None:
    written = json.loads(json.dumps(event_fields(event, catching_up=False)))
    assert read_event(Record(7, written)) == event


def test_what_happens_to_no_source_is_refused_with_its_line() -> None:
    with pytest.raises(CaptureError, match="line 7: 'thunder'"):
        read_event(Record(7, {"event": "thunder"}))


FORMER = (
    former("node", (NODE,), 1, name=NODE, osProcess=100, startTime=T0, clusterName="shop"),
    former("vhost", ("/",), 2, T0, name="/"),
    former("vhost", ("left",), 2**64 - 1, name="left"),
    former("queue", ("left", "orders"), 4, T0, vhost="left", name="orders", durable=True),
    former("queue", ("/", recorded_name("orders\\xff")), 5, vhost="/", name="orders\\xff", durable=True),
)


@pytest.mark.parametrize("kept", [False, True], ids=["listings", "durable subscription"])
def test_a_replay_knows_what_the_source_knew_from_before_a_restart(tmp_path: Path, *, kept: bool) -> None:
    """A virtual host that is gone has the source ask other questions than one that it never knew."""
    path = tmp_path / "shop.jsonl"
    seen, gone = _observed_after_restart(path, FORMER, kept=kept)
    again = Seen()
    with path.open("rb") as written:
        capture = read_capture(written)
        config = RabbitMqSourceConfig(user="gateway")
        outcome = replay_source(capture, RabbitMqSource(config, MAPPING), again)
    assert outcome.differences == []
    assert (again.observations, gone) == (seen, True)


def test_many_objects_of_a_former_run_are_in_several_records(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    many = [former("queue", ("/", f"{number:0200}"), number) for number in range(1, 1_000)]
    _observed_after_restart(path, [*FORMER[:2], *many], kept=False)
    records = [json.loads(line) for line in path.read_text().splitlines()]
    parts = [record for record in records if record.get("event") == "remembered"]
    assert len(parts) > 1
    assert [part.get("more", False) for part in parts] == [True] * (len(parts) - 1) + [False]
    assert sum(len(part["objects"]) for part in parts) == 1_001


def test_an_interruption_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "shop.jsonl"
    config = RabbitMqSourceConfig(user="gateway")
    file = CaptureFile(path, "shop", "rabbitmq", AS_SOURCE, T0)
    source = CapturedSource(config, MAPPING, None, file)
    source.interrupted(T0 - MINUTE, T0)
    file.close()
    again = RabbitMqSource(config, MAPPING)
    with path.open("rb") as written:
        replay_source(read_capture(written), again, Seen())
    assert again.received_until(T0) == source.received_until(T0) != T0


def _observed_after_restart(
    path: Path, objects: Sequence[KnownObject], *, kept: bool
) -> tuple[list[Observation], bool]:
    """Read an imitated broker; return what was observed, and whether the virtual host ``left`` has ended."""
    file = CaptureFile(path, "shop", "rabbitmq", AS_SOURCE, T0)
    source = CapturedSource(RabbitMqSourceConfig(user="gateway"), MAPPING, None, file)
    broker, now, wake = ImitatedBroker(), T0, 0
    observed: list[Observation] = []

    def does(effects: list[Effect]) -> None:
        nonlocal wake
        for effect in effects:
            if isinstance(effect, Observed):
                observed.extend(effect.observations)
            elif isinstance(effect, WakeAt):
                wake = effect.time

    source.remember(objects, now, events_kept=kept, complete_until=T0 - 10 * MILLISECOND)
    does(source.handle(BacklogFollows("", 0), now) if kept else [])
    does(source.handle(LinkUp(""), now))
    while len(broker.requests) < 100:
        now = max(now, min(source.request_at, wake or source.request_at))
        if wake and wake <= now:
            wake = 0
            does(source.handle(TimerExpired(), now))
            continue
        request = source.next_request(now)
        assert request is not None
        does(source.handle(RequestSent(), now))
        answer, began = broker.answer(request), now
        now += 2 * MILLISECOND
        does(source.handle(AnswerReceived(request, answer, began), now))
        while source.busy:
            does(source.handle(WorkContinues(Work.LISTING), now))
    file.close()
    return observed, all(known.name.leaf != "left" for known in source.known("vhost"))
