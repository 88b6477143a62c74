"""SETs that are refused without an operation of the core are reported to it, with user and reason."""

from __future__ import annotations

import pytest

from gateway.feed.client import refused_request
from gateway.feed.operations import FrontEndRefusal, SetElements
from gateway.model.operations import Outcome, Principal
from gateway.model.secrets import MASK
from gateway.snmp import ber, message
from gateway.snmp.ber import Oid, dotted
from gateway.snmp.refused_sets import MAX_RECORDED, asked_values, snmp_value
from gateway.snmp.row_columns import RowColumn
from gateway.snmp.written_values import Assignment
from tests.snmp.set.shop import (
    LIMIT,
    NOTE,
    OPTIONS,
    READER,
    STATE,
    Shop,
    at,
    integer,
    outcome,
    set_request,
    text,
)

ORIGIN = "192.0.2.1:40000"
OPERATOR = Principal("snmp", "operator", ORIGIN)
TILL = (1, "market:till", 1)
NOWHERE = (0, "", 0)


SYSTEM_LOCATION = (1, 3, 6, 1, 2, 1, 1, 6, 0)


@pytest.mark.parametrize(
    ("name", "value", "element", "asked", "where", "outcome", "status"),
    [
        (at(STATE), integer(2), "state", {"state": "open"}, TILL, Outcome.READ_ONLY, "notWritable"),
        (at(LIMIT), text("7"), "limit", {"limit": "7"}, TILL, Outcome.WRONG_TYPE, "wrongType"),
        (at(NOTE), text("x" * 256), "note", {"note": "x" * 256}, TILL, Outcome.WRONG_LENGTH, "wrongLength"),
        (
            at(LIMIT, 9),
            integer(-5),
            "limit",
            {"limit": -5},
            (1, "market:till", 9),
            Outcome.OBJECT_GONE,
            "inconsistentName",
        ),
    ],
)
async def test_what_fails_its_test_here(
    name: Oid,
    value: bytes,
    element: str,
    asked: dict[str, object],
    where: tuple[int, str, int],
    outcome: Outcome,
    status: str,
) -> None:
    shop = Shop()
    await shop.set((name, value))
    refusal = FrontEndRefusal(outcome, f"SET of {dotted(name)}: {status}", element)
    assert shop.reports == [refused_request(OPERATOR, SetElements(asked), refusal, where)]  # type: ignore[arg-type]
    assert shop.requests == []


@pytest.mark.parametrize(
    ("name", "where"), [(at(RowColumn.NAME), TILL), (SYSTEM_LOCATION, NOWHERE), (at(999), TILL)]
)
async def test_what_is_no_element_is_reported_by_its_name_alone(
    name: Oid, where: tuple[int, str, int]
) -> None:
    shop = Shop()
    await shop.set((name, text("perhaps a password")))
    refusal = FrontEndRefusal(Outcome.READ_ONLY, f"SET of {dotted(name)}: notWritable")
    assert shop.reports == [refused_request(OPERATOR, SetElements({dotted(name): MASK}), refusal, where)]


async def test_all_bindings_are_reported_and_which_was_refused() -> None:
    shop = Shop()
    status = await shop.set(
        (at(NOTE), text("at the back")),
        (at(LIMIT), text("much")),
        (at(NOTE, 2), text("here")),
        (at(OPTIONS), text('{"key": 2}')),
        (SYSTEM_LOCATION, text("perhaps a password")),
        (at(NOTE), text("again")),
    )
    assert status == (message.WRONG_TYPE, 2)
    (report,) = shop.reports
    assert report.action == SetElements(
        {
            "note": "at the back",
            "limit": "much",
            "market:till hall1/till2 note": "here",
            "options": {"key": 2},
            dotted(SYSTEM_LOCATION): MASK,
            "note (6)": "again",
        }
    )
    assert report.refusal == FrontEndRefusal(
        Outcome.WRONG_TYPE, f"SET of {dotted(at(LIMIT))} (2 of 6): wrongType", "limit"
    )


async def test_of_very_many_bindings_the_first_and_the_refused_one_are_reported() -> None:
    shop = Shop()
    names = [(*SYSTEM_LOCATION, n) for n in range(MAX_RECORDED + 50)]
    assignments = [Assignment(n, name, integer(n)) for n, name in enumerate(names, 1)]
    reported = asked_values(shop.gateway.projection.variable, assignments, MAX_RECORDED + 20)
    assert list(reported) == [dotted(name) for name in (*names[: MAX_RECORDED - 1], names[MAX_RECORDED + 20])]


@pytest.mark.parametrize(
    ("tlv", "value"),
    [
        (integer(-7), -7),
        (ber.encode_counter64(2**64 - 1), 2**64 - 1),
        (ber.encode_time_ticks(9), 9),
        (text("Käse"), "Käse"),
        (ber.encode_octets(b"\x00\xff"), b"\x00\xff"),
        (ber.encode_octets(b"a\x07"), b"a\x07"),
        (ber.encode_oid((1, 3, 6)), "1.3.6"),
        (ber.encode_ip_address(bytes((192, 0, 2, 1))), bytes((192, 0, 2, 1))),
        (ber.NULL, b""),
    ],
)
def test_values_of_snmp(tlv: bytes, value: object) -> None:
    assert snmp_value(tlv) == value


async def test_what_the_core_finds_wrong_with_a_set_is_recorded_although_it_was_asked_for_a_check() -> None:
    shop = Shop()
    shop.script = outcome(Outcome.WRONG_VALUE, "limit", checking=True)
    assert await shop.set((at(LIMIT), integer(-7))) == (message.WRONG_VALUE, 1)
    (report,) = shop.reports
    assert report.refusal is not None
    assert (report.refusal.outcome, report.refusal.element) == (Outcome.WRONG_VALUE, "limit")
    assert report.refusal.text.endswith(f"SET of {dotted(at(LIMIT))}: wrongValue")
    assert report.action == SetElements({"limit": -7})


async def test_what_the_core_records_itself_is_not_reported_again() -> None:
    shop = Shop()
    shop.script = outcome(Outcome.REFUSED, "limit", checking=True)
    assert await shop.set((at(LIMIT), integer(7))) == (message.NO_ACCESS, 1)
    shop.script = outcome(Outcome.REMOTE_FAILURE, "limit")
    assert await shop.set((at(LIMIT), integer(7)), request_id=2) == (message.COMMIT_FAILED, 1)
    assert shop.reports == []


async def test_a_retransmission_is_the_same_attempt() -> None:
    shop = Shop()
    shop.script = outcome(Outcome.WRONG_VALUE, "limit", checking=True)
    for _ in range(3):
        await shop.set((at(LIMIT), integer(-7)))
    assert len(shop.reports) == 1


async def test_who_only_reads() -> None:
    shop = Shop()
    await shop.answer(set_request([(at(LIMIT), integer(7))], community=READER))
    text_ = f"SET of {dotted(at(LIMIT))} with the community that only reads"
    reader, refusal = Principal("snmp", "(reader)", ORIGIN), FrontEndRefusal(Outcome.REFUSED, text_, "limit")
    assert shop.reports == [refused_request(reader, SetElements({"limit": 7}), refusal, TILL)]


async def test_an_unknown_user() -> None:
    shop = Shop()
    request = set_request([(at(LIMIT), integer(7))], community=b"a writer'z")
    assert shop.responder.answer(request, ("192.0.2.1", 40_000)) is None
    (report,) = shop.reports
    assert (str(report.principal), report.principal.origin) == ("snmp:(unknown)", ORIGIN)
    assert report.action == SetElements({})
    assert "writer'z" not in repr(report), "it may be the right one with a letter wrong"
