"""SETs that are refused without an operation of the core's are told to it: who tried what, and why not."""

from __future__ import annotations

import pytest

from gateway.feed.operations import NorthRefusal, SetElements
from gateway.feed.refusal_reports import refused_request
from gateway.model.operations import Outcome, Principal
from gateway.snmp import message
from gateway.snmp.ber import Oid
from gateway.snmp.row_columns import RowColumn
from tests.snmp_set.shop import (
    LIMIT,
    NOTE,
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


def dotted(name: Oid) -> str:
    return ".".join(map(str, name))


@pytest.mark.parametrize(
    ("name", "value", "element", "where", "outcome", "status"),
    [
        (at(STATE), integer(2), "state", TILL, Outcome.READ_ONLY, "notWritable"),
        (at(LIMIT), text("7"), "limit", TILL, Outcome.WRONG_TYPE, "wrongType"),
        (at(NOTE), text("x" * 256), "note", TILL, Outcome.WRONG_LENGTH, "wrongLength"),
        (at(RowColumn.NAME), text("x"), "", TILL, Outcome.READ_ONLY, "notWritable"),
        (at(LIMIT, 9), integer(1), "", NOWHERE, Outcome.OBJECT_GONE, "inconsistentName"),
        ((1, 3, 6, 1, 2, 1, 1, 4, 0), text("me"), "", NOWHERE, Outcome.READ_ONLY, "notWritable"),
    ],
)
async def test_what_fails_its_test_here(
    name: Oid, value: bytes, element: str, where: tuple[int, str, int], outcome: Outcome, status: str
) -> None:
    shop = Shop()
    await shop.set((name, value))
    refusal = NorthRefusal(outcome, f"SET of {dotted(name)}: {status}", element)
    action = SetElements({element: None} if element else {})
    assert shop.reports == [refused_request(OPERATOR, action, refusal, where)]
    assert shop.requests == []


async def test_what_the_core_finds_wrong_with_a_set_is_recorded_although_it_was_asked_for_a_check() -> None:
    shop = Shop()
    shop.script = outcome(Outcome.WRONG_VALUE, "limit", checking=True)
    assert await shop.set((at(LIMIT), integer(-7))) == (message.WRONG_VALUE, 1)
    (report,) = shop.reports
    assert report.refusal is not None
    assert (report.refusal.outcome, report.refusal.element) == (Outcome.WRONG_VALUE, "limit")


async def test_what_the_core_records_itself_is_not_told_again() -> None:
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
    assert shop.reports == [
        refused_request(
            Principal("snmp", "(reader)", ORIGIN), SetElements({}), NorthRefusal(Outcome.REFUSED, text_)
        )
    ]


async def test_whom_nobody_knows() -> None:
    shop = Shop()
    request = set_request([(at(LIMIT), integer(7))], community=b"a writer'z")
    assert shop.responder.answer(request, ("192.0.2.1", 40_000)) is None
    (report,) = shop.reports
    assert (str(report.principal), report.principal.origin) == ("snmp:(unknown)", ORIGIN)
    assert "writer'z" not in repr(report), "it may be the right one with a letter wrong"
