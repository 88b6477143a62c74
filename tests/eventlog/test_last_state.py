"""The state at the end of a log: a gateway that starts again knows it, and reports it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.eventlog import last_state as last_state_module
from gateway.eventlog.last_state import LastState, last_state
from gateway.eventlog.record import AnyRecord, Delta, LogRecord, RecordKind
from gateway.eventlog.recorder import LogRecorder, RecorderSettings
from gateway.eventlog.segment import LogIdentity, identity_path
from gateway.feed.records import (
    AgentGoneRecord,
    AgentRecord,
    Batch,
    ClassRecord,
    Lifetime,
    ObjectRecord,
    Record,
    SourceRecord,
)
from gateway.feed.values import FeedValue
from gateway.model.observations import Counting, SourceState
from gateway.model.times import MINUTE, SECOND
from tests.eventlog.feeds import (
    AGENT,
    DELIVERED,
    FULL,
    NAME,
    PUBLISHED,
    QUEUE,
    SHOP,
    T0,
    deletion,
    event,
    queue,
    update,
)
from tests.eventlog.records import LOG_ID, block, with_all_fields, write_segment
from tests.eventlog.replay import Replayed

AWAY = SourceRecord(1, "shop", "qmf", SourceState.DOWN, "gone", T0 + 30 * SECOND, T0, {})
CATCHING_UP = SourceRecord(1, "shop", "qmf", SourceState.SYNCHRONISING, "", T0, T0, {})
DEPTH = 4


def batch(*records: Record) -> Batch:
    return Batch(1, 1, records)


def recorded(*records: Record, now: int = T0, former: LastState | None = None) -> list[LogRecord]:
    """Return the records of a mirror to which these were applied at one time."""
    mirror = LogRecorder(RecorderSettings(), former)
    made = mirror.apply(batch(*records), now)
    while (wake_at := mirror.wake_at) is not None and wake_at <= now:
        made += mirror.tick(now)
    return with_all_fields(made)


def logged(folder: Path, *segments: Sequence[AnyRecord]) -> Path:
    """A log of these segments, the last of them open."""
    seq = 1
    for number, records in enumerate(segments, start=1):
        write_segment(folder, seq, block(records, seq), is_open=number == len(segments))
        seq += len(records)
    return folder


def objects_of(state: LastState) -> dict[str, dict[str, object] | None]:
    return {identifier: record.values for identifier, record in state.objects.items()}


def test_what_was_reported_before_some_starts_that_ended_at_once_is_known(tmp_path: Path) -> None:
    head = recorded(SHOP, QUEUE, AGENT, queue(1), queue(2))
    cut_off = recorded(SHOP, QUEUE)
    folder = logged(tmp_path, head, cut_off, cut_off, cut_off)
    for standing, known in ((1, 2), (1 + len(head), 0)):
        identity = LogIdentity(version=1, log_id=LOG_ID, standing_seq=standing)
        identity_path(folder).write_text(identity.text(), encoding="utf-8")
        state = last_state(folder, ["shop"])
        assert (len(state.objects), state.is_complete) == (known, True)
    (folder / "segments" / f"{1 + len(head):020}.jsonl").unlink()
    assert not last_state(folder, ["shop"]).is_complete


def test_objects_that_live_are_known_with_their_last_values(tmp_path: Path) -> None:
    first = recorded(SHOP, QUEUE, AGENT, queue(1), queue(2), queue(3))
    mirror = LogRecorder(RecorderSettings(statistics_interval=SECOND // 100))
    mirror.apply(batch(SHOP, QUEUE, AGENT, queue(1), queue(2), queue(3)), T0)
    then = mirror.apply(batch(update({DEPTH: 7}, row=1), deletion(2)), T0 + MINUTE)

    state = last_state(logged(tmp_path, first, then), ["shop"])

    assert sorted(state.objects) == ["shop/shop:queue/1", "shop/shop:queue/3"]
    assert (state.objects["shop/shop:queue/1"].values or {})["depth"] == 7
    assert state.complete_until == {"shop": T0 + MINUTE - SECOND}
    assert state.is_complete


def test_only_sources_that_are_asked_for_are_looked_at(tmp_path: Path) -> None:
    folder = logged(tmp_path, recorded(SHOP, QUEUE, AGENT, queue(1)))
    state = last_state(folder, ["another"])
    assert (state.objects, state.complete_until) == ({}, {})


@pytest.mark.parametrize(
    ("kind", "complete_until"),
    [
        pytest.param("rabbitmq", AWAY.since, id="requests and events take ways of their own"),
        pytest.param("qmf", AWAY.last_received - SECOND, id="the link may have been dead before it was down"),
    ],
)
def test_a_source_that_was_down_was_listened_to_until_then(
    tmp_path: Path, kind: str, complete_until: int
) -> None:
    mirror = LogRecorder(RecorderSettings())
    away = msgspec.structs.replace(AWAY, kind=kind)
    records = mirror.apply(batch(msgspec.structs.replace(SHOP, kind=kind)), T0)
    records += mirror.apply(batch(away), T0 + 40 * SECOND)
    records += mirror.apply(batch(msgspec.structs.replace(away, detail="still gone")), T0 + 50 * SECOND)
    assert last_state(logged(tmp_path, records), ["shop"]).complete_until == {"shop": complete_until}


@pytest.mark.parametrize(
    ("kind", "unproven"), [("rabbitmq", {"shop": 20 * SECOND}), ("qmf", {})], ids=["proofs", "one link"]
)
def test_the_log_of_a_source_whose_events_are_proven_may_end_later_than_the_last_proof(
    tmp_path: Path, kind: str, unproven: dict[str, int]
) -> None:
    """A gateway that is killed soon after its bindings were removed leaves a log that does not say so."""
    mirror = LogRecorder(RecorderSettings())
    shop = msgspec.structs.replace(SHOP, kind=kind)
    records = mirror.apply(batch(shop, QUEUE, queue(1)), T0)
    state = last_state(logged(tmp_path, records), ["shop"])
    assert state.unproven == state.by_source()["shop"].unproven == unproven
    late = msgspec.structs.replace(shop, complete_until=T0 - MINUTE)
    records += mirror.apply(batch(late), T0 + SECOND)
    known = last_state(logged(tmp_path / "overdue", records), ["shop"])
    assert (known.unproven, known.complete_until["shop"]) == ({}, T0 - MINUTE), "the proof is in the log"


@pytest.mark.parametrize(
    ("took", "before"), [(0, SECOND), (22 * SECOND, 44 * SECOND), (60 * MINUTE, MINUTE), (-MINUTE, SECOND)]
)
def test_what_was_under_way_when_the_log_ended_was_not_received(
    took: int, before: int, tmp_path: Path
) -> None:
    mirror = LogRecorder(RecorderSettings())
    records = mirror.apply(batch(SHOP, FULL, event(time=T0 - took)), T0)
    assert last_state(logged(tmp_path, records), ["shop"]).complete_until == {"shop": T0 - before}


@pytest.mark.parametrize(
    ("further", "before"), [([1], 8 * SECOND), ([29], 8 * SECOND), ([31], 8 * SECOND), ([31, 62], SECOND)]
)
def test_an_event_that_took_long_counts_for_half_a_minute(
    further: list[int], before: int, tmp_path: Path
) -> None:
    """``further``: when events came that took no time, in seconds."""
    mirror = LogRecorder(RecorderSettings())
    records = mirror.apply(batch(SHOP, FULL, event(time=T0 - 4 * SECOND)), T0)
    for now in (T0 + seconds * SECOND for seconds in further):
        records += mirror.apply(batch(event(time=now)), now)
    assert last_state(logged(tmp_path, records), ["shop"]).complete_until == {"shop": now - before}


def test_what_was_created_shortly_before_the_end_is_young_by_the_clock_of_the_gateway(tmp_path: Path) -> None:
    mirror = LogRecorder(RecorderSettings())
    records = mirror.apply(batch(SHOP, QUEUE, queue(1)), T0)
    records += mirror.apply(batch(queue(2), queue(3)), T0 + 30 * SECOND)
    records += mirror.apply(batch(deletion(3)), T0 + 70 * SECOND)
    assert last_state(logged(tmp_path, records), ["shop"]).young == {
        "shop/shop:queue/2": T0 + 30 * SECOND,
    }


def test_what_a_broker_itself_reports_is_not_under_way_for_longer_than_ten_seconds(tmp_path: Path) -> None:
    mirror = LogRecorder(RecorderSettings())
    broker = msgspec.structs.replace(SHOP, kind="rabbitmq")
    records = mirror.apply(batch(broker, FULL, event(time=T0 - 22 * SECOND)), T0)
    assert last_state(logged(tmp_path, records), ["shop"]).complete_until == {"shop": T0 - 10 * SECOND}


def test_how_late_events_arrive_is_known_over_a_new_segment_and_a_new_core(tmp_path: Path) -> None:
    mirror = LogRecorder(RecorderSettings())
    mirror.apply(batch(SHOP, FULL, event(time=T0 - 4 * SECOND)), T0)
    first = last_state(logged(tmp_path / "first", list(mirror.head(lambda: T0))), ["shop"])
    assert first.complete_until == {"shop": T0 - 8 * SECOND}
    again = LogRecorder(RecorderSettings(), first)
    again.apply(batch(SHOP), T0 + MINUTE)
    second = last_state(logged(tmp_path / "second", list(again.head(lambda: T0 + MINUTE))), ["shop"])
    assert second.complete_until == {"shop": T0 - 8 * SECOND}


def test_what_was_under_way_in_an_agent_when_it_was_received_last_was_not_received(tmp_path: Path) -> None:
    mirror = LogRecorder(RecorderSettings())
    records = mirror.apply(batch(SHOP, FULL, event(time=T0 - SECOND)), T0)
    records += mirror.apply(batch(AWAY), T0 + 40 * SECOND)
    assert last_state(logged(tmp_path, records), ["shop"]).complete_until == {"shop": T0 - 2 * SECOND}


def test_an_event_of_the_gateway_does_not_say_how_long_those_of_an_agent_take(tmp_path: Path) -> None:
    """The event that the source is down is reported last, and at once."""
    mirror = LogRecorder(RecorderSettings())
    records = mirror.apply(batch(SHOP, FULL, event(time=T0 - SECOND)), T0)
    records += mirror.apply(batch(event(event_id="1.2", agent="", time=T0 + SECOND)), T0 + SECOND)
    records += mirror.apply(batch(AWAY), T0 + 40 * SECOND)
    assert last_state(logged(tmp_path, records), ["shop"]).complete_until == {"shop": T0 - 2 * SECOND}


@pytest.mark.parametrize(("silent", "before"), [(0, SECOND), (3 * SECOND, 3 * SECOND), (MINUTE, 10 * SECOND)])
def test_a_process_that_stood_still_may_have_left_unread_what_happened_meanwhile(
    silent: int, before: int, tmp_path: Path
) -> None:
    """The head of a segment may be the first part that it recorded after that, and the last."""
    mirror = LogRecorder(RecorderSettings())
    source = msgspec.structs.replace(SHOP, kind="rabbitmq")
    records = mirror.apply(batch(source, FULL, event(time=T0)), T0)
    head = with_all_fields(mirror.head(lambda: T0 + silent))
    state = last_state(logged(tmp_path, records, head), ["shop"])
    assert state.complete_until == {"shop": T0 + silent - before}


def test_events_that_ceased_before_the_source_was_down_ended_what_was_received(tmp_path: Path) -> None:
    """If a broker is killed, a request fails first; the end of its events is noticed after that."""
    mirror = LogRecorder(RecorderSettings())
    away = msgspec.structs.replace(AWAY, kind="rabbitmq")
    without_events = msgspec.structs.replace(away, complete_until=away.since - SECOND)
    records = mirror.apply(batch(msgspec.structs.replace(SHOP, kind="rabbitmq")), T0)
    records += mirror.apply(batch(away), T0 + 30 * SECOND)
    records += mirror.apply(batch(without_events), T0 + 31 * SECOND)
    state = last_state(logged(tmp_path, records), ["shop"])
    assert state.complete_until == {"shop": away.since - SECOND}


def test_a_log_that_is_not_there_says_nothing(tmp_path: Path) -> None:
    state = last_state(tmp_path, ["shop"])
    assert (state.objects, state.complete_until, state.deliveries) == ({}, {}, {})


def test_deliveries_are_known_the_last_ones_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(last_state_module, "MAX_DELIVERIES", 2)
    reported = [
        LogRecord(
            kind=RecordKind.EVENT, ingest_ts="2026-11-20T15:00:00.000000Z", source="shop", delivery=name
        )
        for name in ("a", "b", "a", "c")
    ]
    assert list(last_state(logged(tmp_path, reported), ["shop"]).deliveries) == ["a", "c"]


def test_a_short_segment_alone_may_lack_objects(tmp_path: Path) -> None:
    """The log may have ended in the middle of its head."""
    records = recorded(SHOP, QUEUE, AGENT, queue(1))
    write_segment(tmp_path / "later", 8, block(records, 8), is_open=True)
    assert not last_state(tmp_path / "later", ["shop"]).is_complete
    assert last_state(logged(tmp_path / "first", records), ["shop"]).is_complete


def test_what_is_damaged_is_passed_over_and_reported(tmp_path: Path) -> None:
    folder = logged(tmp_path, recorded(SHOP, QUEUE, AGENT, queue(1)), recorded(SHOP, QUEUE, queue(2)))
    segment = min((folder / "segments").iterdir())
    segment.write_bytes(segment.read_bytes().replace(b'"depth":0', b'"depth":1', 1))
    state = last_state(folder, ["shop"])
    assert list(state.objects) == ["shop/shop:queue/2"]
    assert not state.is_complete


@given(st.binary(max_size=300))
@settings(max_examples=30)
def test_any_octets_give_a_state(tmp_path_factory: pytest.TempPathFactory, octets: bytes) -> None:
    folder = tmp_path_factory.mktemp("log")
    write_segment(folder, 1, octets, is_open=True)
    assert last_state(folder, ["shop"]).objects == {}


# -- what the next gateway tells


def kinds(records: list[LogRecord]) -> list[tuple[str, str | None]]:
    """Return the kinds of the records about objects, with the names of the objects."""
    return [(record.kind.value, record.object_name) for record in records if record.object_id is not None]


def former(*records: ObjectRecord, complete: bool = True, source: SourceRecord = SHOP) -> LastState:
    """A log that ended with these objects."""
    reported = recorded(source, QUEUE, AGENT, *records)
    objects = {record.object_id: record for record in reported if record.object_id is not None}
    return LastState(objects, {"shop": T0}, {"shop": T0}, is_complete=complete)


def test_what_lived_then_and_lives_now_is_no_news() -> None:
    assert kinds(recorded(CATCHING_UP, QUEUE, queue(1), former=former(queue(1)))) == [("snapshot", "/|q1")]


@pytest.mark.parametrize(
    ("changes", "inferred"),
    [
        ({}, None),  # its time of creation says so
        ({"native_id": "another"}, None),
        ({"created": 0}, None),  # its native id does
        ({"created": 0, "native_id": "another"}, True),  # its name alone does
        ({"presumed": True}, True),  # so it is for the source, which has the time from the log
    ],
)
def test_that_an_object_is_the_one_from_before_is_marked_where_only_its_name_says_so(
    changes: dict[str, object], *, inferred: bool | None
) -> None:
    now = msgspec.structs.replace(queue(1), **changes)
    mirror = LogRecorder(RecorderSettings(), former(queue(1)))
    (whole,) = with_all_fields(mirror.apply(batch(CATCHING_UP, QUEUE, now), T0))[-1:]
    assert (whole.kind, whole.inferred) == (RecordKind.SNAPSHOT, inferred)
    (repeated,) = (one for one in with_all_fields(mirror.head(lambda: T0)) if one.object_id)
    assert repeated.inferred is None, "the first record after the restart says so"


def test_what_the_log_does_not_know_came_since() -> None:
    assert kinds(recorded(CATCHING_UP, QUEUE, queue(2), former=former(queue(1)))) == [("create", "/|q2")]


def test_what_is_not_reported_any_more_is_gone_once_everything_was_read() -> None:
    state = former(queue(1), queue(2))
    assert kinds(recorded(CATCHING_UP, QUEUE, queue(1), former=state)) == [("snapshot", "/|q1")]
    state = former(queue(1), queue(2))
    ended = recorded(CATCHING_UP, QUEUE, queue(1), SHOP, former=state)[-1]
    assert (ended.kind, ended.object_name, ended.inferred, ended.delete_ts) == (
        RecordKind.DELETE,
        "/|q2",
        True,
        None,
    )
    assert ended.create_ts is not None
    assert ended.values is None


@pytest.mark.parametrize(("fresh", "ended"), [(True, ["/|q2"]), (False, [])])
def test_a_source_of_which_a_part_cannot_be_read_has_read_what_is_fresh(
    *, fresh: bool, ended: list[str]
) -> None:
    degraded = msgspec.structs.replace(SHOP, state=SourceState.DEGRADED)
    agent = msgspec.structs.replace(AGENT, fresh=fresh)
    reported = recorded(CATCHING_UP, QUEUE, queue(1), agent, degraded, former=former(queue(1), queue(2)))
    assert [record.object_name for record in reported if record.kind is RecordKind.DELETE] == ended


def test_objects_of_an_agent_that_was_not_read_yet_have_not_ended() -> None:
    """A remote agent may need longer for its start than all others, as after a start of their machine."""
    stale = AgentRecord(1, "1.0", fresh=False, since=T0, confirmed=T0)
    mirror = LogRecorder(RecorderSettings(), former(queue(1), queue(2)))

    def ends(*records: Record) -> list[str | None]:
        reported = with_all_fields([*mirror.apply(batch(*records), T0), *mirror.tick(T0)])
        return [record.object_name for record in reported if record.kind is RecordKind.DELETE]

    assert ends(CATCHING_UP, stale, QUEUE, SHOP) == []
    assert [record.object_name for record in with_all_fields(mirror.head(lambda: T0)) if record.row] == [
        "/|q1",
        "/|q2",
    ]
    assert ends(queue(1), AGENT) == ["/|q2"]


def test_objects_of_an_agent_that_does_not_return_have_ended() -> None:
    stale = AgentRecord(1, "1.0", fresh=False, since=T0, confirmed=T0)
    mirror = LogRecorder(RecorderSettings(), former(queue(1)))
    reported = mirror.apply(batch(CATCHING_UP, stale, QUEUE, SHOP), T0)
    reported += mirror.apply(batch(AgentGoneRecord(1, "1.0", T0)), T0)
    reported += mirror.tick(T0)
    assert [one.kind for one in with_all_fields(reported) if one.row][-1:] == [RecordKind.DELETE]


def test_an_end_that_is_reported_is_reported_once_with_both_times() -> None:
    records = recorded(
        CATCHING_UP, QUEUE, queue(1), deletion(1, deleted=T0 + SECOND), SHOP, former=former(queue(1))
    )
    assert kinds(records) == [("snapshot", "/|q1"), ("delete", "/|q1")]
    (end,) = (record for record in records if record.kind is RecordKind.DELETE)
    assert end.create_ts == "2026-11-20T14:59:59.000000Z"
    assert end.delete_ts == "2026-11-20T15:00:01.000000Z"


def test_another_that_has_its_name_ends_it() -> None:
    later = msgspec.structs.replace(queue(1), created=T0 + SECOND)
    records = recorded(CATCHING_UP, QUEUE, later, former=former(queue(1)))
    assert kinds(records) == [("delete", "/|q1"), ("create", "/|q1")]
    assert records[-2].inferred is True


def test_one_that_lasts_ends_the_passing_one_that_had_its_name_and_the_other_way_round() -> None:
    source = msgspec.structs.replace(CATCHING_UP, kind="rabbitmq")
    lasting = msgspec.structs.replace(queue(1), created=0)
    passing = msgspec.structs.replace(queue(1), row=2, stable_name="/|q1#17", lifetime=Lifetime.TRANSIENT)
    for then, now in ((passing, lasting), (lasting, passing)):
        records = recorded(source, QUEUE, now, former=former(then, source=source))
        assert [(record.kind.value, record.row) for record in records if record.object_id] == [
            ("delete", then.row),
            ("create", now.row),
        ]


def test_a_transient_object_under_another_row_is_the_same_but_its_identity_ends() -> None:
    passing = msgspec.structs.replace(queue(1), lifetime=Lifetime.TRANSIENT)
    again = msgspec.structs.replace(passing, row=9)
    records = recorded(CATCHING_UP, QUEUE, again, former=former(passing))
    assert [(record.kind.value, record.row) for record in records if record.row] == [
        ("delete", 1),
        ("snapshot", 9),
    ]


def test_counters_go_on_over_a_restart() -> None:
    lived = queue(1, {NAME: "q1", PUBLISHED: 100, DELIVERED: 90})
    now = T0 + MINUTE
    lives = queue(1, {NAME: "q1", PUBLISHED: 130, DELIVERED: 7}, now)
    reported = recorded(CATCHING_UP, QUEUE, lives, former=former(lived), now=now)
    gained, whole = (record for record in reported if record.object_id is not None)
    assert (gained.kind, whole.kind) == (RecordKind.UPDATE, RecordKind.SNAPSHOT)
    assert gained.deltas == {"published": Delta(30, MINUTE)}
    assert whole.values == {"name": "q1", "published": 130, "delivered": 90}, "what fell may return"


def test_the_first_value_of_a_counter_of_which_nothing_is_known_has_a_discontinuity() -> None:
    lived, lives = (queue(1, {NAME: "q1", PUBLISHED: count}) for count in (100, 130))
    again = msgspec.structs.replace(lives, counting=Counting.UNKNOWN)
    reported = recorded(CATCHING_UP, QUEUE, again, former=former(lived))
    first, whole = (record for record in reported if record.object_id is not None)
    unknown = {"published": Delta(reset=True)}
    assert (first.kind, first.values, first.deltas) == (RecordKind.UPDATE, {"published": 130}, unknown)
    assert first.reset_ts == whole.reset_ts is not None


@pytest.mark.parametrize(
    ("now", "counting"),
    [
        ("20261120T150000/7", Delta(130, reset=True)),
        ("20261120T140000/8", Delta(reset=True)),
        ("20261120T140000~2/7", Delta(reset=True)),
        ("7", Delta(reset=True)),
    ],
    ids=["another run", "another number", "another run of one name", "not known"],
)
def test_counters_of_another_run_of_an_openamq_server_began_again(now: str, counting: Delta) -> None:
    source = msgspec.structs.replace(CATCHING_UP, kind="cml")
    undated = msgspec.structs.replace(queue(1, {NAME: "q1", PUBLISHED: 100}), created=0)
    state = former(msgspec.structs.replace(undated, native_id="20261120T140000/7"), source=source)
    lives = msgspec.structs.replace(undated, native_id=now, values={NAME: "q1", PUBLISHED: 130})
    reported = recorded(source, QUEUE, lives, former=state)
    first, _ = (record for record in reported if record.object_id is not None)
    assert first.deltas == {"published": counting}


def test_a_counter_that_is_read_later_than_its_object_goes_on_as_well() -> None:
    mirror = LogRecorder(
        RecorderSettings(statistics_interval=1), former(queue(1, {NAME: "q1", PUBLISHED: 100}))
    )
    mirror.apply(
        batch(CATCHING_UP, QUEUE, msgspec.structs.replace(queue(1, {NAME: "q1"}), statistics_sampled=0)),
        T0 + MINUTE,
    )
    reported = mirror.apply(batch(update({PUBLISHED: 130}, now=T0 + MINUTE)), T0 + MINUTE)
    assert with_all_fields(reported)[-1].deltas == {"published": Delta(30, MINUTE)}


@pytest.mark.parametrize("there", [{PUBLISHED: 130}, {}], ids=["read", "read later"])
@pytest.mark.parametrize(
    ("counting", "deltas"),
    [
        (Counting.GO_ON, Delta(30, MINUTE)),
        (Counting.UNKNOWN, Delta(reset=True)),
        (Counting.BEGAN, Delta(130, reset=True)),
    ],
    ids=str,
)
@pytest.mark.parametrize("absent", [False, True], ids=["recorded", "absent"])
def test_what_a_counter_gained_that_did_not_go_on_over_a_restart(
    there: dict[int, FeedValue],
    counting: Counting,
    deltas: Delta,
    tmp_path: Path,
    *,
    absent: bool,
) -> None:
    mirror = LogRecorder(RecorderSettings(statistics_interval=1))
    lost = (update({}, PUBLISHED),) if absent else ()
    logged(tmp_path, mirror.apply(batch(SHOP, QUEUE, queue(1, {NAME: "q1", PUBLISHED: 100}), *lost), T0))
    later = T0 + MINUTE
    mirror = LogRecorder(RecorderSettings(statistics_interval=1), last_state(tmp_path, ["shop"]))
    again = msgspec.structs.replace(queue(1, {NAME: "q1", **there}, later), counting=counting)
    records = mirror.apply(batch(CATCHING_UP, QUEUE, again), later)
    records += mirror.apply(batch(update({PUBLISHED: 130}, now=later)), later)
    gained = [record.deltas for record in with_all_fields(records) if record.deltas]
    if absent:  # it goes on from what it had
        deltas = msgspec.structs.replace(deltas, interval_ns=None)
    assert [one for one in gained if one != {"published": Delta(0)}] == [{"published": deltas}]
    records = mirror.apply(batch(update({PUBLISHED: 131}, now=later + 1)), later + 1)
    assert with_all_fields(records)[-1].deltas == {"published": Delta(1, 1)}


def test_a_counter_that_fell_before_the_gateway_ended_and_returns_after_it(tmp_path: Path) -> None:
    """What it gains is known only above what it had: a part of a sum may have been missing."""
    mirror = LogRecorder(RecorderSettings(statistics_interval=1))
    records = mirror.apply(batch(SHOP, QUEUE, queue(1, {NAME: "q1", PUBLISHED: 1000})), T0)
    records += mirror.apply(batch(update({PUBLISHED: 700}, now=T0 + SECOND)), T0 + SECOND)
    records += mirror.tick(T0 + 2 * MINUTE)
    assert with_all_fields(records)[-1].former == {"published": [1000]}
    segments = [records]
    for number, expected in enumerate(([(10, False)], [(None, True)]), start=1):
        now = T0 + (number + 2) * MINUTE
        state = last_state(logged(tmp_path / str(number), *segments), ["shop"])
        mirror = LogRecorder(RecorderSettings(statistics_interval=1), state)
        lives = queue(1, {NAME: "q1", PUBLISHED: 710 if number == 1 else 1005}, now)
        segments.append(mirror.apply(batch(CATCHING_UP, QUEUE, lives), now))
        found = [one.deltas["published"] for one in with_all_fields(segments[-1]) if one.deltas]
        assert [(one.delta, one.reset) for one in found] == expected


def test_a_counter_that_waited_when_the_gateway_ended_waits_again(tmp_path: Path) -> None:
    mirror = LogRecorder(RecorderSettings(statistics_interval=1))
    records = mirror.apply(batch(SHOP, QUEUE, queue(1, {NAME: "q1", PUBLISHED: 1000})), T0)
    records += mirror.apply(batch(update({PUBLISHED: 700}, now=T0 + SECOND)), T0 + SECOND)
    mirror = LogRecorder(
        RecorderSettings(statistics_interval=1), last_state(logged(tmp_path, records), ["shop"])
    )
    now = T0 + MINUTE
    records = mirror.apply(batch(CATCHING_UP, QUEUE, queue(1, {NAME: "q1", PUBLISHED: 700}, now)), now)
    records += mirror.apply(batch(update({PUBLISHED: 1003}, now=now + SECOND)), now + SECOND)
    deltas = [one.deltas["published"].delta for one in with_all_fields(records) if one.deltas]
    assert deltas == [3]


def test_a_counter_that_was_absent_at_the_end_of_a_log_of_form_2_has_no_former_value() -> None:
    """Its records do not have the last value of a counter that is absent."""
    state = former(queue(1, {NAME: "q1", PUBLISHED: 100}))
    (name, whole), *_ = state.objects.items()
    state.objects[name] = msgspec.structs.replace(whole, values={"name": "q1"}, absent=["published"])
    reported = recorded(CATCHING_UP, QUEUE, queue(1, {NAME: "q1", PUBLISHED: 130}, T0 + MINUTE), former=state)
    first, _ = (record for record in reported if record.object_id is not None)
    assert (first.values, first.deltas) == ({"published": 130}, {"published": Delta(reset=True)})


@pytest.mark.parametrize("starts", [1, 2])
def test_a_counter_that_began_again_and_was_not_read_before_the_gateway_ended(
    starts: int, tmp_path: Path
) -> None:
    """RabbitMQ counts seconds after its start before it shows that, and the gateway may be killed then."""
    mirror = LogRecorder(RecorderSettings(statistics_interval=1))
    began = msgspec.structs.replace(update({}, PUBLISHED, reset=T0 + SECOND), counting=Counting.BEGAN)
    before = mirror.apply(batch(SHOP, QUEUE, queue(1, {NAME: "q1", PUBLISHED: 100})), T0)
    before += mirror.apply(batch(began), T0 + SECOND)
    segments = [before]
    for number in range(1, starts + 1):
        now = T0 + number * MINUTE
        mirror = LogRecorder(
            RecorderSettings(statistics_interval=1),
            last_state(logged(tmp_path / str(number), *segments), ["shop"]),
        )
        segments.append(mirror.apply(batch(CATCHING_UP, QUEUE, queue(1, {NAME: "q1"}, now)), now))
    records = mirror.apply(batch(update({PUBLISHED: 130}, now=now)), now)
    assert with_all_fields(records)[-1].deltas == {"published": Delta(130, reset=True)}


def test_a_counter_that_was_not_read_yet_has_not_begun_again() -> None:
    """RabbitMQ lists queues by name long before their values, and the gateway may be killed in between."""
    state = former(queue(1, {NAME: "q1", PUBLISHED: 100}))
    unread = queue(1, {NAME: "q1"}, T0 + MINUTE)
    (whole,) = (r for r in recorded(CATCHING_UP, QUEUE, unread, former=state) if r.object_id is not None)
    assert (whole.values, whole.absent, whole.former) == ({"name": "q1"}, None, {"published": 100})
    state.objects = {str(whole.object_id): whole}
    mirror = LogRecorder(RecorderSettings(statistics_interval=1), state)
    later = T0 + 2 * MINUTE
    reported = mirror.apply(batch(CATCHING_UP, QUEUE, unread), later)
    reported += mirror.apply(batch(update({PUBLISHED: 130}, now=later)), later)
    reported += mirror.apply(batch(update({PUBLISHED: 131}, now=later + MINUTE)), later + MINUTE)
    assert [record.deltas for record in with_all_fields(reported) if record.deltas] == [
        {"published": Delta(30)},  # nobody knows when it was 100
        {"published": Delta(1, MINUTE)},
    ]


def test_a_counter_of_a_new_object_that_was_not_read_before_a_restart_counts_from_zero() -> None:
    state = former(queue(2))
    new = msgspec.structs.replace(queue(1, {NAME: "q1"}), created=T0 + SECOND)
    whole = recorded(SHOP, QUEUE, new)[-1]
    assert (whole.kind, whole.values, whole.deltas) == (RecordKind.CREATE, {"name": "q1"}, None)
    assert whole.former == {"published": 0, "delivered": 0}
    state.objects = {str(whole.object_id): msgspec.structs.replace(whole, kind=RecordKind.SNAPSHOT)}
    later = T0 + MINUTE
    read = msgspec.structs.replace(queue(1, {NAME: "q1", PUBLISHED: 130}, later), created=T0 + SECOND)
    gained, again = recorded(CATCHING_UP, QUEUE, read, former=state, now=later)[-2:]
    assert (gained.kind, gained.deltas) == (RecordKind.UPDATE, {"published": Delta(130)})
    assert (again.kind, again.values) == (RecordKind.SNAPSHOT, {"name": "q1", "published": 130})
    assert again.former == {"delivered": 0}


def test_what_an_object_had_counted_when_it_was_created_is_not_counted_again(tmp_path: Path) -> None:
    new = msgspec.structs.replace(queue(1, {PUBLISHED: 7}), created=T0 + SECOND)
    logged(tmp_path, LogRecorder(RecorderSettings()).apply(batch(SHOP, QUEUE, new), T0))
    mirror = LogRecorder(RecorderSettings(), last_state(tmp_path, ["shop"]))
    mirror.apply(batch(CATCHING_UP, QUEUE), T0 + MINUTE)
    (waits,) = (r for r in with_all_fields(mirror.head(lambda: T0 + MINUTE)) if r.object_id is not None)
    assert (waits.kind, waits.values, waits.deltas) == (RecordKind.SNAPSHOT, {"published": 7}, None)
    read = with_all_fields(mirror.apply(batch(new, SHOP), T0 + MINUTE))
    assert [record.deltas for record in read if record.deltas] == []


def test_a_log_that_does_not_say_since_when_its_source_was_read_whole_counts_from_its_end() -> None:
    """Earlier versions recorded only the fact that it was."""
    now = T0 + MINUTE
    state = LastState({}, {"shop": T0}, {"shop": 0})
    before, since = (
        msgspec.structs.replace(queue(row, {PUBLISHED: 100}, now), created=created)
        for row, created in ((1, T0 - SECOND), (2, T0 + SECOND))
    )
    reported = recorded(CATCHING_UP, QUEUE, before, since, former=state, now=now)[-2:]
    assert [record.deltas for record in reported] == [None, {"published": Delta(100)}]


@pytest.mark.parametrize(
    ("created", "deltas"),
    [(T0 + 2 * SECOND, {"published": Delta(100)}), (T0 - MINUTE, None)],
    ids=["while nobody read", "before the log ended"],
)
def test_an_object_that_the_log_does_not_know_counts_from_zero_if_it_was_created_since(
    created: int, deltas: dict[str, Delta] | None
) -> None:
    now = T0 + MINUTE
    unknown = msgspec.structs.replace(queue(2, {PUBLISHED: 100}, now), created=created)
    whole = recorded(CATCHING_UP, QUEUE, unknown, former=former(queue(1)), now=now)[-1]
    assert (whole.kind, whole.deltas) == (RecordKind.CREATE, deltas)


def test_a_counter_that_is_read_later_than_others_has_no_interval() -> None:
    mirror = LogRecorder(
        RecorderSettings(statistics_interval=1), former(queue(1, {NAME: "q1", PUBLISHED: 100}))
    )
    later = T0 + MINUTE
    reported = mirror.apply(batch(CATCHING_UP, QUEUE, queue(1, {NAME: "q1", DEPTH: 1}, later)), later)
    reported += mirror.apply(batch(update({DEPTH: 2}, now=later + SECOND)), later + SECOND)
    reported += mirror.apply(batch(update({PUBLISHED: 130}, now=later + 2 * SECOND)), later + 2 * SECOND)
    assert with_all_fields(reported)[-1].deltas == {"published": Delta(30)}


def test_a_source_that_is_read_again_was_not_listened_to_since_the_log_ended() -> None:
    state = former(queue(1))
    mirror = LogRecorder(RecorderSettings(), state)
    reported = mirror.apply(batch(CATCHING_UP, QUEUE, queue(1)), T0 + MINUTE)
    reported += mirror.apply(batch(SHOP), T0 + 2 * MINUTE)
    reported += mirror.apply(batch(AWAY), T0 + 3 * MINUTE)
    reported += mirror.apply(batch(SHOP), T0 + 4 * MINUTE)
    (gap,) = (record for record in with_all_fields(reported) if record.kind is RecordKind.GAP)
    assert (gap.source, gap.from_ts) == ("shop", "2026-11-20T15:00:00.000000Z")
    assert gap.to_ts == "2026-11-20T15:02:00.000000Z"


def test_a_gap_reaches_back_to_the_last_proof_that_all_was_received(tmp_path: Path) -> None:
    """The event plugin may have been off and on before the log ended: the last look at bindings counts."""
    shop = msgspec.structs.replace(SHOP, kind="rabbitmq")
    records = LogRecorder(RecorderSettings()).apply(batch(shop, QUEUE, queue(1)), T0)
    mirror = LogRecorder(RecorderSettings(), last_state(logged(tmp_path, records), ["shop"]))
    waits = msgspec.structs.replace(CATCHING_UP, kind="rabbitmq")
    reported = mirror.apply(batch(waits, QUEUE, queue(1)), T0 + MINUTE)
    reported += mirror.apply(batch(shop), T0 + 2 * MINUTE)
    (gap,) = (record for record in with_all_fields(reported) if record.kind is RecordKind.GAP)
    assert (gap.from_ts, gap.to_ts) == ("2026-11-20T14:59:39.000000Z", "2026-11-20T15:02:00.000000Z")


def test_a_gap_begins_with_the_last_word_of_agents_whose_link_had_gone_silent(tmp_path: Path) -> None:
    mirror = LogRecorder(RecorderSettings())
    logged(tmp_path, mirror.apply(batch(SHOP, QUEUE), T0 + MINUTE))
    assert last_state(tmp_path, ["shop"]).complete_until == {"shop": T0 - SECOND}


def test_a_source_with_a_durable_subscription_reports_its_gaps_itself() -> None:
    mirror = LogRecorder(RecorderSettings(), former(queue(1)), own_gaps=["shop"])
    reported = mirror.apply(batch(CATCHING_UP, QUEUE, queue(1), SHOP), T0 + MINUTE)
    assert not [record for record in with_all_fields(reported) if record.kind is RecordKind.GAP]


def test_starts_that_do_not_reach_a_source_do_not_change_until_when_it_was_listened_to(
    tmp_path: Path,
) -> None:
    state = LastState({}, {"shop": T0}, {"shop": T0})
    for number in range(3):
        now = T0 + (number + 1) * MINUTE
        reported = recorded(msgspec.structs.replace(AWAY, since=now), now=now, former=state)
        state = last_state(logged(tmp_path / str(number), reported, reported), ["shop"])
    assert (state.complete_until, state.read_whole) == ({"shop": T0 - SECOND}, {"shop": T0})


def test_what_is_reported_of_a_source_that_was_never_read_whole_is_not_called_new() -> None:
    state = LastState({}, {"shop": T0})
    assert kinds(recorded(CATCHING_UP, QUEUE, queue(1), former=state)) == [("snapshot", "/|q1")]


def test_where_the_log_may_lack_objects_nothing_is_called_new() -> None:
    state = former(queue(1), complete=False)
    assert kinds(recorded(CATCHING_UP, QUEUE, queue(2), former=state)) == [("snapshot", "/|q2")]


def test_a_head_contains_what_lived_until_it_is_read_again() -> None:
    mirror = LogRecorder(RecorderSettings(), former(queue(1), queue(2)))
    mirror.apply(batch(CATCHING_UP, QUEUE, queue(1)), T0)
    whole = Replayed().read(with_all_fields(mirror.head(lambda: T0 + SECOND)))
    assert sorted(whole.values) == ["shop/shop:queue/1", "shop/shop:queue/2"]

    head = mirror.head(lambda: T0 + SECOND)
    reported = [next(head)]
    mirror.apply(batch(queue(2)), T0 + SECOND)  # while the head is written
    reported += head
    assert [record.row for record in with_all_fields(reported) if record.kind is RecordKind.SNAPSHOT] == [
        1,
        2,
    ]


def test_it_goes_on_over_two_restarts(tmp_path: Path) -> None:
    """The second gateway ends before the source has reported anything; the third has the first's state."""
    first = recorded(SHOP, QUEUE, AGENT, queue(1))
    state = last_state(logged(tmp_path, first, first), ["shop"])
    second = list(LogRecorder(RecorderSettings(), state).head(lambda: T0 + MINUTE))
    third = last_state(logged(tmp_path / "next", second, second), ["shop"])
    assert objects_of(third) == objects_of(state)


def test_classes_of_the_same_name_in_other_packages_are_others() -> None:
    elsewhere = ClassRecord(
        2, replace(QUEUE.schema, key=replace(QUEUE.schema.key, package="mall")), "name", ""
    )
    other = msgspec.structs.replace(queue(1), class_number=2)
    assert kinds(recorded(CATCHING_UP, elsewhere, other, former=former(queue(1)))) == [("create", "/|q1")]
