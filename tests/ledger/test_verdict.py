"""The verdict finds the difference in a log or a ledger that is right except for one thing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.ledger import traps as notified
from tests.ledger.absences import Absence, earliest, is_of_life, is_overtaken
from tests.ledger.lives import Kill, Span, truth
from tests.ledger.receiving import Received
from tests.ledger.verdict import Gap, Record, contradictions, joined
from tests.snmp.notifications.snmptrapd import Snmptrapd

CONNECTION = "127.0.0.1:40000 -> 127.0.0.1:5672"
CHANNEL = f"{CONNECTION} (1)"
TAG = "led-connection-1-1-counted-0"
CONSUMER = f"counted-0|{CHANNEL}|{TAG}"
EVERYTHING_RECEIVED = Received([], [])
KEY = "counted-0"

Line = dict[str, Any]
Records = list[Record]


def ledger() -> list[Line]:
    """Return the lines of a connection whose channel and consumer are opened again under number and tag."""
    connection = {"connection": "led-connection-1"}
    within = {**connection, "channel": CHANNEL, "queue": "counted-0"}
    return [
        _line("queue-create", 1, "counted-0", kind="durable"),
        _line("connection-open", 10, "led-connection-1"),
        _line("channel-open", 11, CHANNEL, **connection),
        _line("consumer-create", 12, CONSUMER, **within),
        _line("consumer-delete", 20, CONSUMER),
        _line("consumer-create", 21, CONSUMER, **within),
        _line("binding-create", 25, "led-key-1", kind="durable"),
        _line("channel-close", 30, CHANNEL),
        _line("channel-open", 31, CHANNEL, **connection),
        _line("consumer-create", 32, CONSUMER, **within),
        _line("binding-delete", 35, "led-key-1", kind="durable"),
        _line("connection-close", 40, "led-connection-1"),
        _line("queue-create", 45, "led-queue-1", kind="durable"),
    ]


def log() -> Records:
    """Return the records of the log for that ledger."""
    return [
        *_life(1, "queue", 1, "/|counted-0", 1),
        *_life(2, "connection", 1, f"{CONNECTION}#a", 10, 40, {"providedName": "led-connection-1"}),
        *_life(4, "channel", 1, f"{CHANNEL}#a", 11, 30, {"user": "administrator"}),
        *_life(6, "consumer", 1, f"/|{CONSUMER}#a", 12, 20),
        *_life(8, "consumer", 2, f"/|{CONSUMER}#b", 21, 30),
        *_life(10, "binding", 1, "/|amq.topic|queue|counted-0|led-key-1", 25, 35),
        *_life(12, "channel", 2, f"{CHANNEL}#b", 31, 40, {"user": "administrator"}),
        *_life(14, "consumer", 3, f"/|{CONSUMER}#c", 32, 40),
        *_life(16, "queue", 2, "/|led-queue-1", 45),
    ]


def test_what_is_right_is_found_right() -> None:
    assert _found(log(), ledger()) == []


def test_channels_of_other_users_are_not_judged() -> None:
    others = _life(20, "channel", 9, f"{CHANNEL}#z", 50, None, {"user": "agent"})

    assert _found([*log(), *others], ledger()) == []


LOGS: Mapping[str, tuple[Callable[[Records], Iterable[Record]], str]] = {
    "a channel's life is missing": (lambda log: _without(log, 12, 13), "1 lives (seq [4]) of 2"),
    "a consumer's life is missing": (lambda log: _without(log, 8, 9), "2 lives (seq [6, 14]) of 3"),
    "a binding's life is missing": (lambda log: _without(log, 10, 11), "0 lives (seq []) of 1"),
    "a channel's end is missing": (lambda log: _without(log, 13), "no end, which was"),
    "a consumer's end is missing": (lambda log: _without(log, 15), "no end, which was"),
    "a channel began earlier": (lambda log: _with(log, 4, created=10.5), "created at"),
    "a channel began later": (lambda log: _with(log, 4, created=11.6), "created at"),
    "a consumer began later": (lambda log: _with(log, 6, created=13.1), "created at"),
    "a channel has no time of its opening": (
        lambda log: _with(_with(log, 5, created=None), 4, created=None),
        "no time of its creation",
    ),
    "a consumer has no time of its beginning": (
        lambda log: _with(_with(log, 7, created=None), 6, created=None),
        "no time of its creation",
    ),
    "a channel ended earlier": (lambda log: _with(log, 5, deleted=29.0), "ended at"),
    "a channel ended later": (lambda log: _with(log, 13, deleted=47.0), "ended at"),
    "a consumer outlives its channel": (lambda log: _with(log, 9, deleted=37.0), "ended at"),
    "a channel's end is inferred": (lambda log: _with(log, 5, inferred=True), "its end is inferred"),
    "a consumer's end is inferred": (lambda log: _with(log, 9, inferred=True), "its end is inferred"),
    "a channel has the identity of the one before": (
        lambda log: _with(_with(log, 13, row=1), 12, row=1),
        "is the identity of a former life",
    ),
    "a consumer has the identity of the one before": (
        lambda log: _with(_with(log, 9, row=1), 8, row=1),
        "is the identity of a former life",
    ),
    "a channel's end has another identity": (lambda log: _with(log, 5, row=7), "was g/rabbitmq:channel/1"),
    "a consumer is called otherwise at its end": (
        lambda log: _with(log, 7, name=f"/|{CONSUMER}#x"),
        "was the identity of",
    ),
    "a consumer is on another queue": (
        lambda log: _with(log, 6, name=f"/|other|{CHANNEL}|{TAG}#a"),
        "never was",
    ),
    "a channel has another number": (lambda log: _with(log, 4, name=f"{CONNECTION} (2)#a"), "never was"),
    "a binding has another key": (
        lambda log: _with(log, 10, name="/|amq.topic|queue|counted-0|led-key-2"),
        "never was",
    ),
    "a channel is told that nobody opened": (
        lambda log: [*log, *_life(20, "channel", 9, f"{CONNECTION} (3)#a", 33, 34)],
        "never was",
    ),
    "a channel is told once more": (
        lambda log: [*log, *_life(20, "channel", 9, f"{CHANNEL}#x", 42, 43)],
        "3 lives",
    ),
    "the next channel begins before the one before ended": (
        lambda log: sorted(_with(log, 5, seq=13, row=1), key=lambda record: record.seq),
        "had not ended",
    ),
}


@pytest.mark.parametrize("what", LOGS)
def test_a_log_that_was_tampered_with_is_found(what: str) -> None:
    tamper, expected = LOGS[what]

    found = _found(list(tamper(log())), ledger())

    assert any(expected in line for line in found), found


LEDGERS: Mapping[str, tuple[int, Line | None, str]] = {
    "a channel was never closed": (7, None, "had not ended|ended at|of 1"),
    "a channel was never opened again": (8, None, "lives (seq"),
    "a consumer never began": (3, None, "lives (seq"),
    "a consumer never began again": (9, None, "lives (seq"),
    "a consumer never ended": (4, None, "ended at"),
    "a connection stays, and its channel with it": (11, None, "and lives"),
    "a binding stays": (10, None, "and lives"),
    "a channel was opened later": (2, {"from": 11.7, "to": 11.8}, "created at"),
    "a channel was closed later": (7, {"from": 30.7, "to": 30.8}, "ended at"),
    "a consumer began earlier": (3, {"from": 11.2, "to": 11.3}, "created at"),
    "a consumer ended earlier": (4, {"from": 13.0, "to": 13.1}, "ended at"),
}


@pytest.mark.parametrize("what", LEDGERS)
def test_a_ledger_that_was_tampered_with_is_found(what: str) -> None:
    number, change, expected = LEDGERS[what]
    lines = ledger()
    if change is None:
        del lines[number]
    else:
        lines[number] |= change

    found = _found(log(), lines)

    assert any(one in line for line in found for one in expected.split("|")), found


def _inferred(*seqs: int) -> Records:
    """Return a log in which these ends are inferred, 9 s later."""
    records = log()
    for seq in seqs:
        deleted = next(record.deleted for record in records if record.seq == seq)
        records = _with(records, seq, inferred=True, deleted=None if deleted is None else deleted + 9)
    return records


def test_the_end_of_a_channel_that_was_open_before_a_gap_may_be_inferred() -> None:
    gap: Span = 15.0, 18.0

    assert _found(_inferred(5), ledger(), Received([gap], [gap])) == []
    assert _found(_inferred(5), ledger(), Received([], [gap])) == []


def test_the_end_of_a_channel_that_was_opened_after_a_gap_is_known() -> None:
    gap: Span = 3.0, 8.0

    assert _found(log(), ledger(), Received([gap], [gap])) == []
    assert "its end is inferred" in "\n".join(_found(_inferred(5), ledger(), Received([gap], [gap])))


def test_the_end_of_a_channel_with_its_connection_is_always_known() -> None:
    gap: Span = 33.0, 34.0

    assert "its end is inferred" in "\n".join(_found(_inferred(13), ledger(), Received([gap], [gap])))


def test_a_consumer_of_a_channel_that_was_open_before_a_gap_may_have_no_time() -> None:
    gap: Span = 14.0, 16.0
    timeless = _with(_with(log(), 9, created=None), 8, created=None)

    assert _found(timeless, ledger(), Received([gap], [gap])) == []
    before = _with(_with(log(), 7, created=None), 6, created=None)
    later: Span = 26.0, 27.0
    assert "no time" in "\n".join(_found(before, ledger(), Received([later], [later])))


def test_a_consumer_of_such_a_channel_may_be_missed_if_it_was_short() -> None:
    gap: Span = 14.0, 16.0
    received = Received([gap], [gap])

    assert _found(list(_without(log(), 8, 9)), ledger(), received) == []
    assert "are none of" in "\n".join(_found(list(_without(log(), 14, 15)), ledger(), received))
    lines = ledger()
    for line in lines[7:]:
        line |= {"from": line["from"] + 5, "to": line["to"] + 5}  # it lives 14 s
    assert "are none of" in "\n".join(_found(list(_without(log(), 8, 9)), lines, received))


def test_a_queue_that_lived_through_two_gaps_that_adjoin_may_be_missed() -> None:
    lines = [*ledger()[:-1], _line("queue-create", 52, "led-queue-1", kind="durable")]
    lines.append(_line("queue-delete", 76, "led-queue-1", kind="durable"))
    missed = joined([(72.8, 105.0), (31.9, 72.8), (120.0, 130.0)])

    assert missed == [(31.9, 105.0), (120.0, 130.0)]
    assert _found(log()[:-1], lines, Received(missed, [])) == []
    assert "0 lives" in "\n".join(_found(log()[:-1], lines, Received([(31.9, 72.8)], [])))


def test_lives_of_an_agent_may_overlap_and_must_be_of_the_ledger() -> None:
    gap: Span = 14.0, 16.0
    received = Received([gap], [gap])
    of_agent = [msgspec.structs.replace(record, dialect="qmf") for record in _without(log(), 8, 9)]

    assert _found(of_agent, ledger(), received) == []
    assert "are none of" in "\n".join(_found(_with(of_agent, 15, deleted=70.0), ledger(), received))
    assert "are none of" in "\n".join(_found(list(_without(of_agent, 14, 15)), ledger(), received))


def test_what_a_killed_broker_takes_along_ends_with_it() -> None:
    lines = [line for line in ledger() if line["act"] != "connection-close"]
    lines.append(_line("connection-close", 60, "led-connection-1", outcome="unknown"))
    kill = Kill("broker", 50.0, 50.1, 55.0)
    gap: Span = 49.0, 58.0
    killed = _inferred(3, 13, 15)

    received = Received([gap], [gap])
    right = contradictions(killed, truth(lines, [kill]), received)
    assert right == []
    assert "its end is inferred" in "\n".join(
        contradictions(killed, truth(lines, [kill]), EVERYTHING_RECEIVED)
    )


@pytest.mark.parametrize(("kind", "killed"), [("durable", 46.0), ("transient", 45.05)])
def test_what_a_killed_broker_had_not_written_yet_is_gone_unreported(kind: str, killed: float) -> None:
    lines = [*ledger()[:-1], _line("queue-create", 45, "led-queue-1", kind=kind)]
    lines.append(_line("queue-delete", 60, "led-queue-1", kind=kind))
    gone = [*log(), *_life(16, "queue", 2, "/|led-queue-1", 45, 55)[1:]]
    gone[-1] = msgspec.structs.replace(gone[-1], inferred=True)
    early, late = (Kill("broker", began, began + 0.1, began + 5) for began in (killed, 70.0))

    received = Received([(45.5, 54.0)], [])
    assert contradictions(gone, truth(lines, [early]), received) == []
    wrong = contradictions(gone, truth(lines, [late]), received)
    assert "its end is inferred (seq 17)" in "\n".join(wrong)


@pytest.mark.parametrize(
    ("began", "ended", "within"),
    [(9.0, 30.0, True), (25.0, 30.0, True), (12.0, 30.0, False), (9.0, 11.5, False)],
)
def test_a_queue_that_was_overtaken_is_in_its_gap_and_those_that_adjoin_it(
    began: float, ended: float, *, within: bool
) -> None:
    """It lived from 10 s to 20 s; another gap is from 5 s to 25 s."""
    of_before = Gap(1, "the gateway was not running", 5.0, 25.0)
    gap = Gap(2, "an object was read before the events of an earlier one of its name", began, ended)
    life = ((20.0, 20.1), (10.0, 10.1))

    assert is_overtaken(gap, [of_before, gap], [life]) is within
    assert not is_overtaken(gap._replace(text="not connected"), [of_before, gap], [life])


def test_a_gap_may_begin_before_the_events_that_were_late_when_the_broker_was_killed() -> None:
    """While events wait at the broker nothing proves that all were received; they were in time until 40 s."""
    in_time = [(float(at), 0.2) for at in range(30, 41)]
    late = [(float(at), (at - 40) / 4) for at in range(44, 60)]

    assert earliest([*in_time, (59.5, 0.2)], 60.0, 10.0) == 60.0 - 10.5 - 1.0
    assert earliest([*in_time, *late], 60.0, 10.0) == 44.0 - 10.5 - 2 * 4.75
    assert earliest([*in_time, *late, (59.5, 0.2)], 60.0, 10.0) == 60.0 - 10.5 - 2 * 4.75


@pytest.mark.parametrize(("away", "provable"), [(41.0, 40.0), (38.0, 40.0), (20.0, 50.0), (55.0, 50.0)])
def test_a_gap_may_begin_before_the_gateway_was_killed_whose_events_waited(
    away: float, provable: float
) -> None:
    """Its processes may have gone on for a moment; the next gateway was behind when the broker was killed."""
    in_time = [(float(at), 0.2) for at in range(30, 41)]
    late = [(float(at), 12.0) for at in range(50, 60)]

    assert earliest([*in_time, *late], 60.0, 10.0, [away]) == provable - 10.5 - 10.0
    assert earliest([*in_time, (59.5, 0.2)], 60.0, 10.0, [away]) == 60.0 - 10.5 - 1.0


@pytest.mark.parametrize(
    ("began", "ended", "waited", "of_life"),
    [
        (60.0, 81.0, (), True),
        (40.0, 81.0, (), False),
        (40.0, 81.0, ((35.0, 45.0, 90.0),), True),
        (34.0, 81.0, ((35.0, 45.0, 90.0),), False),
        (40.0, 81.0, ((35.0, 45.0, 75.0),), False),
        (40.0, 90.0, ((35.0, 45.0, 99.0),), False),
    ],
)
def test_the_gap_of_a_life_begins_when_all_was_received(
    began: float, ended: float, waited: tuple[tuple[float, float, float], ...], *, of_life: bool
) -> None:
    """It lived from 70 s to 80 s; events of it may have waited since the gateway was killed."""
    gap = Gap(1, "an object came and went before that was read to which it belongs", began, ended)
    life = ((80.0, 80.1), (70.0, 70.1))

    assert is_of_life(gap, [life], [Absence(*one) for one in waited]) is of_life


def _found(
    records: Iterable[Record], lines: list[Line], received: Received = EVERYTHING_RECEIVED
) -> list[str]:
    return contradictions(records, truth(lines, []), received)


def _line(act: str, began: float, name: str, outcome: str = "done", **facts: str) -> Line:
    """Return the line of an act that took 0.1 s."""
    return {"act": act, "from": began, "to": began + 0.1, "outcome": outcome, "name": name, **facts}


def _life(
    seq: int,
    class_name: str,
    row: int,
    name: str,
    created: float,
    deleted: float | None = None,
    values: Mapping[str, str] | None = None,
) -> Records:
    """Return the records of a life, each 0.05 s after the act began."""
    lifetime = "durable" if class_name in {"queue", "binding"} else "transient"
    begin = Record(
        seq,
        "g",
        "rabbitmq",
        "create",
        class_name,
        f"g/rabbitmq:{class_name}/{row}",
        name,
        created + 0.05,
        None,
        inferred=False,
        lifetime=lifetime,
        values=json.dumps(values or {}),
        deltas=None,
        sampled=created + 0.05,
    )
    if deleted is None:
        return [begin]
    end = msgspec.structs.replace(begin, seq=seq + 1, kind="delete", deleted=deleted + 0.05, values=None)
    return [begin, end]


def _without(records: Iterable[Record], *seqs: int) -> Iterable[Record]:
    return [record for record in records if record.seq not in seqs]


def _with(records: Iterable[Record], at: int, row: int | None = None, **changes: Any) -> Records:  # noqa: ANN401
    """Return the records, with changes to the one with this seq."""
    if row is not None:
        of = next(record for record in records if record.seq == at)
        changes["object_id"] = f"g/rabbitmq:{of.class_name}/{row}"
    return [msgspec.structs.replace(record, **changes) if record.seq == at else record for record in records]


KILLED = Kill("snmp", 100.0, 100.1, 100.1)
COUNTED = notified.Received((notified.Receipt("g.1.7", 90.0, "", late=False),), (notified.Counted(50.0, 4),))


@pytest.mark.parametrize(
    ("received", "log_facts", "surplus"),
    [
        (COUNTED, notified.LogFacts({}), 0),
        # An inform whose answer did not arrive.
        (replace(COUNTED, counted=(notified.Counted(50.0, 4, 3),)), notified.LogFacts({}), 3),
        # An alarm whose beginning was suppressed, and one that was sent at once.
        (COUNTED, notified.LogFacts({"g.1.7": 50.0}), 1),
        (COUNTED, notified.LogFacts({"g.1.7": 89.0}), 0),
        # The last events of a core that was killed.
        (COUNTED, notified.LogFacts({}, unlogged=2), 2),
        # The last report of an agent that was killed, and one that was saved long before.
        (replace(COUNTED, counted=(notified.Counted(99.0, 4),)), notified.LogFacts({}), 4),
    ],
)
def test_what_is_counted_and_arrived_has_a_reason(
    received: notified.Received, log_facts: notified.LogFacts, surplus: int
) -> None:
    assert notified.arrived_though_counted(received, log_facts, [KILLED]) == surplus


def test_what_the_daemon_wrote_is_counted_once(tmp_path: Path) -> None:
    """An inform that is sent again has its event id; the agent's own events are in no log."""
    not_sent = "5 notifications were not sent to this receiver, and 2 may have been lost"
    texts = [
        *[("7", f"{not_sent}: a:b 6, snmp:coldStart 1")] * 2,
        ("3", "3 events from a.1.1 to a.1.3 cannot be sent: the event log does not have them: *:* 3"),
    ]
    lines = [
        f"2026-11-30 02:00:0{number} host [UDP: x]:\n"
        f"AMQP-GATEWAY-MIB::agEventId.0 = STRING: g.1.s{count}\t"
        f"AMQP-GATEWAY-MIB::agEventSuppressedCount.0 = Gauge32: {count} notifications\t"
        f"AMQP-GATEWAY-MIB::agEventText.0 = STRING: {text}\n"
        for number, (count, text) in enumerate(texts)
    ]
    (tmp_path / "trapd.log").write_text("".join(lines), encoding="utf-8")
    received = notified.received_by(Snmptrapd(0, tmp_path / "trapd.log"))
    assert [(one.number, one.uncertain) for one in received.counted] == [(6, 2), (0, 0)]
    assert received.missed == (notified.Missed(3, "a.1.1", "a.1.3"),)
