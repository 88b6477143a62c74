"""SETs of a writer whose view does not have everything."""

from __future__ import annotations

import pytest

from gateway.feed.client import refused_request
from gateway.feed.operations import FrontEndRefusal, SetElements
from gateway.model.operations import Outcome, Principal
from gateway.snmp import message
from gateway.snmp.ber import dotted
from gateway.snmp.message import VERSION_1, VERSION_2C
from gateway.snmp.subtree_view import Subtrees
from tests.snmp.set.shop import LIMIT, NOTE, Shop, at, integer, text

ORIGIN = "192.0.2.1:40000"
NOTES = Subtrees([at(NOTE)[:-2]])


async def test_what_the_view_has_is_set() -> None:
    shop = Shop(subtrees=NOTES)
    assert await shop.set((at(NOTE), text("closed"))) == (message.NO_ERROR, 0)
    assert shop.done == [{"note": "closed"}]


@pytest.mark.parametrize(
    ("version", "status"), [(VERSION_1, message.NO_SUCH_NAME), (VERSION_2C, message.NO_ACCESS)]
)
async def test_what_is_outside_is_no_access_and_nothing_is_set(version: int, status: int) -> None:
    shop = Shop(subtrees=NOTES)
    assert await shop.set((at(NOTE), text("x")), (at(LIMIT), integer(7)), version=version) == (status, 2)
    assert (shop.requests, shop.done) == ([], [])


async def test_the_attempt_is_reported_as_refused() -> None:
    shop = Shop(subtrees=NOTES)
    await shop.set((at(LIMIT), integer(7)))
    refusal = FrontEndRefusal(Outcome.REFUSED, f"SET of {dotted(at(LIMIT))}: noAccess", "limit")
    asked = SetElements({"limit": 7})
    operator = Principal("snmp", "operator", ORIGIN)
    assert shop.reports == [refused_request(operator, asked, refusal, (1, "market:till", 1))]
