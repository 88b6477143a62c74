"""SETs of version 3: each message is carried out once, wherever it comes from again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from gateway.model.operations import Outcome
from gateway.snmp import message
from gateway.snmp.processing import Access
from gateway.snmp.requests import Responder
from gateway.snmp.v3.accepted_sets import KEEP, AcceptedSets, Verdict
from gateway.snmp.v3.ciphers import Salts
from gateway.snmp.v3.engine import Engine
from gateway.snmp.v3.responder import Version3
from gateway.snmp.v3.users import SecurityLevel, User
from gateway.snmp.written_values import Rejected
from tests.snmp.set.shop import LIMIT, SENDER, Shop, at, integer, outcome
from tests.snmp.v3.secured_agent import (
    AUTH,
    BOOTS,
    ENGINE_ID,
    GUEST,
    NO_AUTH,
    OPERATOR,
    PRIV,
    SECOND,
    USERS,
    WATCHER,
    Reply,
    Sent,
    pdu,
    read_reply,
)

ELSEWHERE = ("192.0.2.99", 4711)
SET = Sent(OPERATOR, PRIV, pdu(message.SET, [at(LIMIT)], value=integer(7)))


@dataclass
class SecuredShop:
    """A shop whose users may set everything, except for the watcher, who only reads."""

    shop: Shop = field(default_factory=Shop)

    def __post_init__(self) -> None:
        def access(user: str, level: SecurityLevel, context: bytes) -> Access:
            del level, context
            return Access(self.shop.gateway.store, "" if user == "watcher" else user)

        self.engine = Engine(ENGINE_ID, BOOTS, lambda: self.shop.now)
        self.responder = Responder(
            {},
            self.shop.counters,
            self.shop.failures.append,
            sets=self.shop.sets,
            refused_sets=self.shop.sets._refused,  # noqa: SLF001  the shop's own
            version_3=Version3(self.engine, USERS, access, Salts(5), AcceptedSets(lambda: self.shop.now)),
        )

    async def answer(self, datagram: bytes, sender: tuple[str, int] = SENDER) -> Reply | None:
        response = self.responder.answer(datagram, sender)
        if response is not None and not isinstance(response, bytes):
            response = await response
        assert self.shop.failures == []
        return None if response is None else read_reply(response)


@pytest.mark.parametrize(("user", "level"), [(OPERATOR, PRIV), (GUEST, NO_AUTH)])
async def test_a_set_is_carried_out_by_the_user(user: User, level: SecurityLevel) -> None:
    shop = SecuredShop()
    answer = await shop.answer(replace(SET, user=user, level=level).encoded())
    assert answer is not None
    assert (answer.status, answer.varbinds) == (0, [(at(LIMIT), integer(7))])
    [request] = shop.shop.requests
    assert str(request.principal) == f"snmp:{answer.name.decode()}"
    assert request.principal.origin == "192.0.2.1:40000"


async def test_a_message_that_comes_again_is_not_carried_out_again() -> None:
    shop, datagram = SecuredShop(), SET.encoded()
    first = await shop.answer(datagram)
    for later, sender in ((0, SENDER), (59, ELSEWHERE), (90, SENDER)):
        shop.shop.now += later * SECOND
        again = await shop.answer(datagram + b"junk", sender)
        assert again is not None
        assert first is not None
        assert (again.status, again.request_id, again.varbinds) == (0, first.request_id, first.varbinds)
    shop.shop.now += 2 * SECOND
    late = await shop.answer(datagram, ELSEWHERE)
    assert late is not None
    assert late.counter == ("not_in_time_windows", 1)
    assert (len(shop.shop.done), shop.shop.counters.set_retransmissions) == (1, 3)
    assert shop.shop.counters.set_statuses == {0: 1}


async def test_a_message_from_the_future_is_remembered_until_its_time_is_over() -> None:
    shop, datagram = SecuredShop(), replace(SET, time=150).encoded()
    await shop.answer(datagram)
    shop.shop.now += 300 * SECOND
    again = await shop.answer(datagram, ELSEWHERE)
    assert again is not None
    assert (again.status, len(shop.shop.done)) == (0, 1)
    shop.shop.now += SECOND
    late = await shop.answer(datagram, ELSEWHERE)
    assert late is not None
    assert late.counter == ("not_in_time_windows", 1)


async def test_a_set_that_failed_is_not_carried_out_when_it_comes_again() -> None:
    shop, datagram = SecuredShop(), SET.encoded()
    shop.shop.script = outcome(Outcome.REMOTE_FAILURE, "limit")
    first = await shop.answer(datagram)
    assert first is not None
    assert first.status != 0
    shop.shop.script = outcome(Outcome.APPLIED)
    shop.shop.now += 100 * SECOND
    again = await shop.answer(datagram, ELSEWHERE)
    assert again is not None
    assert (again.status, again.index, len(shop.shop.requests)) == (first.status, first.index, 1)


async def test_a_message_that_comes_again_while_it_is_carried_out_is_answered_once() -> None:
    shop, datagram = SecuredShop(), SET.encoded()
    shop.shop.released.clear()
    first = asyncio.create_task(shop.answer(datagram))
    await asyncio.sleep(0)
    assert await shop.answer(datagram, ELSEWHERE) is None
    shop.shop.released.set()
    answer = await first
    assert answer is not None
    assert (answer.status, len(shop.shop.done)) == (0, 1)


async def test_a_manager_that_encodes_its_set_again_gets_the_same_answer() -> None:
    """As net-snmp does: request id and content are the same, message id, time and code are not."""
    shop = SecuredShop()
    await shop.answer(SET.encoded())
    shop.shop.now += 5 * SECOND
    again = await shop.answer(replace(SET, message_id=2, time=5).encoded())
    assert again is not None
    assert (again.status, again.message_id, len(shop.shop.done)) == (0, 2, 1)


async def test_another_context_or_manager_is_another_set() -> None:
    shop = SecuredShop()
    await shop.answer(SET.encoded())
    await shop.answer(replace(SET, message_id=2, context=b"shop").encoded())
    await shop.answer(replace(SET, message_id=3).encoded(), ELSEWHERE)
    assert len(shop.shop.done) == 3


async def test_a_user_who_only_reads() -> None:
    shop = SecuredShop()
    answer = await shop.answer(replace(SET, user=WATCHER, level=AUTH).encoded())
    assert answer is not None
    assert (answer.status, answer.index) == (message.NO_ACCESS, 1)
    assert (shop.shop.requests, shop.shop.counters.bad_community_uses) == ([], 0)
    [report] = shop.shop.reports
    assert str(report.principal) == "snmp:watcher"
    assert report.refusal is not None
    assert report.refusal.text == f"SET of {'.'.join(map(str, at(LIMIT)))} by a user that only reads"


def test_what_is_remembered_is_bounded_and_the_oldest_is_not_dropped() -> None:
    now = [0]
    accepted = AcceptedSets(lambda: now[0], limit=2)
    assert accepted.begin(b"1") is Verdict.NEW
    assert accepted.begin(b"1") is Verdict.RUNNING
    accepted.end(b"1", 13, 1)
    now[0] = 1
    assert accepted.begin(b"2") is Verdict.NEW
    assert accepted.begin(b"3") is Verdict.NO_ROOM
    assert accepted.begin(b"1") == Rejected(13, 1)
    now[0] = KEEP
    assert (accepted.begin(b"3"), len(accepted)) == (Verdict.NEW, 2)
    assert accepted.begin(b"1") is Verdict.NO_ROOM
    accepted.end(b"1", 0, 0)
    assert len(accepted) == 2


async def test_a_set_for_which_there_is_no_room_is_refused() -> None:
    shop = SecuredShop()
    shop.responder._v3._accepted = AcceptedSets(lambda: 0, limit=0)  # type: ignore[union-attr]  # noqa: SLF001
    answer = await shop.answer(SET.encoded())
    assert answer is not None
    assert (answer.status, answer.index) == (message.RESOURCE_UNAVAILABLE, 0)
    assert (shop.shop.requests, shop.shop.counters.sets_without_room) == ([], 1)
