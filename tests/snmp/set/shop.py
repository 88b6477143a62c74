"""A shop with settable elements, an agent over it, and a core whose answers a test chooses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

import msgspec

from gateway.feed.operations import OperationAnswer, OperationRequest, SetElements
from gateway.feed.records import ObjectRecord
from gateway.feed.values import FeedValue
from gateway.model.operations import Outcome
from gateway.model.schema import Access as ElementAccess
from gateway.model.schema import ClassSchema, Element
from gateway.model.values import ValueType
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.message import SET, VERSION_2C
from gateway.snmp.refused_sets import RefusedSets
from gateway.snmp.requests import Access, Responder, Response
from gateway.snmp.set_requests import SetRequests, SetSettings
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.subtree_view import Subtrees
from gateway.snmp.written_values import AdvisoryLock, WritableTable
from tests.components.shop import agent, hall, hall_link, source
from tests.snmp.datagrams import Answer, envelope, read_answer
from tests.snmp.mib.shop import SITE_ENTRY, TILL, Gateway, classes, till

WRITER = b"a writer's"
READER = b"a reader's"
TIMEOUT = 5 * 10**9
SENDER = ("192.0.2.1", 40_000)
SERIAL = 2**31 - 1
"""The first value of the advisory lock."""
STATE, NOTE, NOTE_LENGTH, LIMIT, OPTIONS = 103, 104, 105, 106, 107
NOTE_AT, LIMIT_AT, OPTIONS_AT = 3, 4, 5
"""The positions of the elements in `SETTABLE_TILL`."""

SETTABLE_TILL: ClassSchema = replace(
    TILL,
    key=replace(TILL.key, package="market"),  # the provisional lock gives each element its column
    properties=(
        *TILL.properties[:3],
        replace(TILL.properties[3], access=ElementAccess.READ_WRITE),
        Element("limit", ValueType.S32, access=ElementAccess.READ_WRITE, optional=True),
        Element("options", ValueType.MAP, access=ElementAccess.READ_WRITE, optional=True),
    ),
)

Script = Callable[[OperationRequest], OperationAnswer]


def at(column: int, row: int = 1) -> Oid:
    """Return the variable of a till."""
    return (*SITE_ENTRY, column, 1, row)


def integer(value: int) -> bytes:
    return ber.encode_integer(value)


def text(value: str) -> bytes:
    return ber.encode_octets(value.encode())


def applied(_: OperationRequest) -> OperationAnswer:
    return OperationAnswer(0, "gw.1.o1", Outcome.APPLIED)


def settable_till(row: int, more: Mapping[int, FeedValue] | None = None) -> ObjectRecord:
    values: dict[int, FeedValue] = {
        0: hall_link(),
        1: f"till{row}",
        2: "open",
        NOTE_AT: "by the door",
        LIMIT_AT: -1,
    }
    return till(row, {**values, OPTIONS_AT: {"key": 1}, **(more or {})})


def outcome(of: Outcome, element: str = "", *, checking: bool = False, **found: FeedValue) -> Script:
    """Return a core that gives this outcome to checks, or to changes; requests of both phases have either."""

    def answer(request: OperationRequest) -> OperationAnswer:
        if request.check_only is not checking and not request.reports_failed_check:
            return applied(request)
        return OperationAnswer(0, "" if checking else "gw.1.o1", of, "", element, values=found)

    return answer


def set_request(
    bindings: Iterable[tuple[Oid, bytes]],
    *,
    version: int = VERSION_2C,
    community: bytes = WRITER,
    request_id: int = 1,
) -> bytes:
    varbinds = b"".join(ber.encode_varbind(ber.encode_name(name), value) for name, value in bindings)
    numbers = b"".join(ber.encode_integer(number) for number in (request_id, 0, 0))
    pdu = ber.encode_tlv(SET, numbers + ber.encode_tlv(ber.SEQUENCE, varbinds))
    return envelope(pdu, version=version, community=community)


class Shop:
    """An agent over two tills, whose note, limit and options (JSON) can be set.

    Args:
        best_effort: as configured.
        tables: variables that live in the agent.
        subtrees: the view of the writer.

    Attributes:
        requests: the requests to the core.
        answers: the answers of the core, one for each request.
        reports: the reports to the core of SETs that were refused here.
        script: the function that gives the core's answers.
        released: clear it to make the core slow.
    """

    def __init__(
        self,
        *,
        best_effort: bool = False,
        tables: tuple[WritableTable, ...] = (),
        subtrees: Subtrees | None = None,
    ) -> None:
        self.gateway = Gateway()
        self.gateway.hello()
        hall_class, till_class = classes()
        settable = msgspec.structs.replace(till_class, schema=SETTABLE_TILL)
        self.gateway.snapshot(
            source(), hall_class, settable, agent(fresh=True), hall(), settable_till(1), settable_till(2)
        )
        self.script: Script = applied
        self.released = asyncio.Event()
        self.released.set()
        self.requests: list[OperationRequest] = []
        self.answers: list[OperationAnswer] = []
        self.counters = SnmpCounters()
        self.failures: list[Exception] = []
        self.now = 0
        self.lock = AdvisoryLock(SERIAL)
        self.reports: list[OperationRequest] = []
        refused_sets = RefusedSets(self.gateway.projection, self.reports.append)
        self.sets = SetRequests(
            self.gateway.projection,
            tables,
            self.ask,
            self.counters,
            SetSettings(TIMEOUT, best_effort),
            lambda: self.now,
            self.lock,
            refused_sets,
        )
        store = self.gateway.store
        self.lock.serve(store)
        self.responder = Responder(
            {READER: Access(store), WRITER: Access(store, "operator", subtrees=subtrees)},
            self.counters,
            self.failures.append,
            sets=self.sets,
            refused_sets=refused_sets,
        )

    async def ask(self, request: OperationRequest) -> OperationAnswer:
        await self.released.wait()
        self.requests.append(request)
        self.answers.append(self.script(request))
        return self.answers[-1]

    async def answer(self, datagram: bytes, sender: tuple[str, int] = SENDER) -> Answer:
        """Return the answer to a SET, whether at once or later."""
        response: Response = self.responder.answer(datagram, sender)
        if response is not None and not isinstance(response, bytes):
            response = await response
        assert self.failures == []
        return read_answer(response)

    async def set(
        self, *bindings: tuple[Oid, bytes], version: int = VERSION_2C, request_id: int = 1
    ) -> tuple[int, int]:
        """Send a SET; return its error-status and error-index; its answer repeats the variable bindings."""
        answer = await self.answer(set_request(bindings, version=version, request_id=request_id))
        assert answer.varbinds == list(bindings)
        return answer.status, answer.index

    @property
    def done(self) -> list[Mapping[str, FeedValue | None]]:
        """The values that the core has tried to set, without checks and without failed checks."""
        return [
            request.action.values
            for request, answer in zip(self.requests, self.answers, strict=True)
            if isinstance(request.action, SetElements)
            and not request.check_only
            and not answer.has_failed_check
        ]
