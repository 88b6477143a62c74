"""Variables in the agent take part in a SET: alone at once, beside objects by best effort."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.feed.operations import OperationAnswer, OperationRequest
from gateway.model.operations import Outcome, Principal
from gateway.snmp import message
from gateway.snmp.ber import Oid
from gateway.snmp.written_values import Assignment, Rejected
from tests.snmp.set.shop import LIMIT, SENDER, Shop, applied, at, integer, outcome, set_request, text

PREFIX: Oid = (1, 3, 6, 1, 4, 1, 99999, 1, 1, 8)
HERE: Oid = (*PREFIX, 1, 0)
NO_ERROR = (message.NO_ERROR, 0)


class Board:
    """A local table that accepts integers while it is open."""

    prefix = PREFIX

    def __init__(self) -> None:
        self.is_open = True
        self.written: list[tuple[str, list[Assignment]]] = []

    def test(self, principal: Principal, assignments: Sequence[Assignment]) -> Rejected | None:
        assert principal.name == "operator"
        for assignment in assignments:
            if assignment.value[0] != integer(1)[0]:
                return Rejected(message.WRONG_TYPE, assignment.index)
        return None if self.is_open else Rejected(message.INCONSISTENT_VALUE, assignments[0].index)

    def commit(self, principal: Principal, assignments: Sequence[Assignment], identity: str) -> None:
        assert identity
        assert self.is_open
        self.written.append((principal.origin, list(assignments)))


def made() -> tuple[Shop, Board]:
    board = Board()
    return Shop(tables=(board,)), board


def test_by_themselves_they_are_answered_at_once_and_the_core_is_not_asked() -> None:
    shop, board = made()
    assert isinstance(shop.responder.answer(set_request([(HERE, integer(1))]), SENDER), bytes)
    assert board.written == [("192.0.2.1:40000", [Assignment(1, HERE, integer(1))])]
    assert (shop.requests, shop.counters.set_variables) == ([], 1)


async def test_a_retransmission_writes_nothing() -> None:
    shop, board = made()
    for _ in range(2):
        assert await shop.set((HERE, integer(1))) == NO_ERROR
    assert len(board.written) == 1


async def test_what_is_wrong_with_one_leaves_all_as_they_were() -> None:
    shop, board = made()
    assert await shop.set((HERE, integer(1)), (HERE, text("x"))) == (message.WRONG_TYPE, 2)
    assert board.written == []
    assert await shop.set((HERE, integer(1)), (HERE, integer(2))) == NO_ERROR


async def test_beside_an_object_they_are_refused() -> None:
    shop, board = made()
    assert await shop.set((HERE, integer(1)), (at(LIMIT), integer(2))) == (message.INCONSISTENT_VALUE, 2)
    assert await shop.set((at(LIMIT), integer(2)), (HERE, integer(1))) == (message.INCONSISTENT_VALUE, 2)
    assert (board.written, shop.requests) == ([], [])


async def test_by_best_effort_they_are_written_when_the_objects_were_checked() -> None:
    board = Board()
    shop = Shop(best_effort=True, tables=(board,))
    both = (HERE, integer(1)), (at(LIMIT), integer(2))
    shop.script = outcome(Outcome.REFUSED, "limit", checking=True)
    assert await shop.set(*both) == (message.NO_ACCESS, 2)
    assert board.written == []
    shop.script = applied
    assert await shop.set(*both, request_id=2) == NO_ERROR
    assert (len(board.written), shop.done) == (1, [{"limit": 2}])


async def test_by_best_effort_they_are_tested_again_when_the_check_took_time() -> None:
    board = Board()
    shop = Shop(best_effort=True, tables=(board,))

    def closes_meanwhile(request: OperationRequest) -> OperationAnswer:
        board.is_open = False
        return applied(request)

    shop.script = closes_meanwhile
    reported = await shop.set((HERE, integer(1)), (at(LIMIT), integer(2)))
    assert reported == (message.INCONSISTENT_VALUE, 1)
    assert (board.written, shop.done) == ([], [])
