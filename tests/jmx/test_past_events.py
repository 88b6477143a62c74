"""``eventsSince``: what clients ask for, what they may read, and where they go on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Container

import msgspec
import pytest

from gateway.feed.records import EventRecord, PastEvents, Place
from gateway.jmx.backend import Reply, Status
from gateway.jmx.commands import AttributeType
from gateway.jmx.past_events import MAX_EVENTS, PastEventReading, event_line
from gateway.jmx.types import Written
from gateway.model.operations import Principal
from tests.eventlog.feeds import event

GATEWAY = "6c0f9f1e-6a5c-4f5b-9a55-2d3c7d0f7a11"
pytestmark = pytest.mark.asyncio


class View:
    """A view that hides each third event, and the pages of a core that has 450.

    Attributes:
        unreadable: the numbers of those that the log has, and the core cannot read.
    """

    def __init__(self, unreadable: Container[int] = ()) -> None:
        self.unreadable = unreadable
        self.gateway, self.is_complete, self.is_connected = GATEWAY, True, True
        self.pages = 0

    def past_event(self, record: EventRecord, user: str) -> str | None:
        assert user == "monitor"
        return None if record.number % 3 == 0 else f"{record.boot}.{record.number}"

    async def fetch(self, after: Place, until: Place, limit: int, seconds: float) -> PastEvents | None:
        assert seconds > 0
        if not self.is_connected:
            return None
        self.pages += 1
        first = after[1] + 1 if after[0] == 1 else 1
        numbers = range(first, min(450, first + limit - 1) + 1) if after <= (1, 450) else range(0)
        known = (number for number in numbers if number not in self.unreadable)
        records = tuple(msgspec.structs.replace(event(), number=number, boot=1) for number in known)
        return PastEvents(0, records, (1, numbers[-1]) if len(numbers) == limit else min(until, (1, 450)))


async def ask(view: View, event_id: object, limit: object) -> Reply:
    reading = PastEventReading(view, view.fetch, 5.0)
    given = [Written(AttributeType.STRING, event_id), Written(AttributeType.LONG, limit)]
    return await reading.invoke(Principal("jmx", "monitor", "::1"), given)


async def test_events_behind_an_id_are_returned_as_the_user_may_read_them() -> None:
    reply = await ask(View(), f"{GATEWAY}.1.7", 4)
    assert reply == Reply(Status.APPLIED, items=(("1.8", "1.10", "1.11", "1.13"),))
    assert (await ask(View(), f"{GATEWAY}.1.450", 4)).items == ((),)
    assert (await ask(View(), f"{GATEWAY}.9.1", 4)).items == ((),)


async def test_all_of_them_are_found_over_pages() -> None:
    view = View()
    (lines,) = (await ask(view, "", MAX_EVENTS)).items
    assert lines == tuple(f"1.{number}" for number in range(1, 451) if number % 3)
    assert view.pages == 4


async def test_a_page_of_what_cannot_be_read_is_not_the_last() -> None:
    assert (await ask(View(unreadable=range(1, 401)), "", 2)).items == (("1.401", "1.403"),)


@pytest.mark.parametrize(
    "event_id", ["other.1.2", f"{GATEWAY}.1", f"{GATEWAY}.1.s5", f"{GATEWAY}.1.²", 7, "x"]
)
async def test_what_is_no_event_of_this_gateway_is_refused(event_id: object) -> None:
    assert (await ask(View(), event_id, 5)).status is Status.BAD_VALUE


@pytest.mark.parametrize("limit", [0, -1, MAX_EVENTS + 1, True, "5", None])
async def test_a_limit_is_an_integer_within_bounds(limit: object) -> None:
    assert (await ask(View(), "", limit)).status is Status.BAD_VALUE


async def test_without_a_core_or_between_two_policies_there_is_no_answer() -> None:
    view = View()
    view.is_connected = False
    assert (await ask(view, "", 5)).status is Status.NOT_NOW
    view.is_connected, view.is_complete = True, False
    assert (await ask(view, "", 5)).status is Status.NOT_NOW


async def test_an_event_is_one_line_of_json() -> None:
    data = (
        ("eventId", AttributeType.STRING, "gw.1.2"),
        ("heard", AttributeType.DATE, 1_700_000_000_000_000_000),
        ("late", AttributeType.BOOLEAN, True),
        ("map", AttributeType.MAP, (("a", "1"),)),
        ("list", AttributeType.LIST, ("x", "y")),
        ("bytes", AttributeType.BYTES, b"\x00\xff"),
        ("gone", AttributeType.STRING, None),
        ("type", AttributeType.STRING, "classic"),
        ("type_", AttributeType.STRING, "another argument"),
        ("text", AttributeType.STRING, None),
    )
    line = event_line("amqp.gateway.shop.full", "q1\nis full", 1_700_000_000_000_000_001, data)
    assert "\n" not in line
    assert json.loads(line) == {
        "type": "amqp.gateway.shop.full",
        "text": "q1\nis full",
        "time": "2023-11-14T22:13:20.000000001Z",
        "eventId": "gw.1.2",
        "heard": "2023-11-14T22:13:20.000000000Z",
        "map": {"a": "1"},
        "list": ["x", "y"],
        "bytes": "00ff",
        "type__": "classic",
        "type_": "another argument",
    }
    await asyncio.sleep(0)
