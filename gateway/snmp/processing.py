"""The processing of a request's PDU: RFC 3416 section 4.2, with RFC 3584 section 4.2 for version 1.

What comes out is the response's PDU. The message around it is that of the version
(`gateway.snmp.requests`, `gateway.snmp.v3.responder`), which says how many octets the PDU may have.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Coroutine
from itertools import accumulate, chain
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from gateway.model.operations import Principal
from gateway.snmp import ber, message
from gateway.snmp.allowed_networks import AllowedNetworks
from gateway.snmp.message import Request
from gateway.snmp.refused_sets import RefusedSets
from gateway.snmp.set_requests import SetRequests, SetResult
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.store import MibView
from gateway.snmp.subtree_view import Subtrees
from gateway.snmp.written_values import VERSION_1_STATUSES, Assignment, Rejected

LARGEST_DATAGRAM = 65_507
"""The maximum number of octets that a UDP datagram over IPv4 can carry."""

_NO_VALUE = (ber.NO_SUCH_OBJECT, ber.NO_SUCH_INSTANCE)


class Access(msgspec.Struct, frozen=True):
    """The rights of a client.

    Args:
        view: its MIB view.
        writer: the name of the writer; empty for a reader.
        networks: the networks from which it is answered; ``None`` for any.
        subtrees: the names that the view is confined to, and SETs; ``None`` for all.
    """

    view: MibView
    writer: str = ""
    networks: AllowedNetworks | None = None
    subtrees: Subtrees | None = None


Sender: TypeAlias = tuple[Any, ...]
"""The address of a sender, as the socket module gives it: ``(host, port, ...)``."""

Response: TypeAlias = "bytes | Coroutine[Any, Any, bytes | None] | None"
"""Octets, or ``None`` for silence; or a coroutine that returns either, where the core is asked first.

They are a PDU here, and a datagram where the message is around it.
"""

NO_SENDER: Final[Sender] = ("", 0)


class Limits(msgspec.Struct, frozen=True):
    """Bounds of one exchange.

    Args:
        message_size: octets of an answer; at least 484 (RFC 3417 section 3.2.1).
        varbinds: variable bindings of a request or answer. A GETBULK that asks for more gets so many, any
            other request with more is answered tooBig.
        bulk_size: octets of an answer to GETBULK, which may be cut anywhere, as far as ``message_size``
            permits them.
    """

    message_size: int = LARGEST_DATAGRAM
    varbinds: int = 2_000
    bulk_size: int = LARGEST_DATAGRAM

    def octets(self, pdu_type: int) -> int:
        """Return the maximum number of octets of an answer to a PDU of this type."""
        return min(self.message_size, self.bulk_size) if pdu_type == message.GET_BULK else self.message_size


DEFAULT_LIMITS: Final = Limits()


class Exchange(NamedTuple):
    """A request whose sender is known, and what its response may be.

    Attributes:
        version: the message's version; RFC 3584 has rules of its own for PDUs of version 1.
        pdu_type: the tag of a PDU of which `is_request` is true.
        request: the PDU.
        access: the rights of the sender.
        room: octets that the response's PDU may have, with its tag and length.
        sender: the address of the sender.
        content: of a SET, what identifies its retransmissions: the PDU's content, and the context.
        user: the user's name in version 3; empty for a community.
    """

    version: int
    pdu_type: int
    request: Request
    access: Access
    room: int
    sender: Sender
    content: bytes = b""
    user: str = ""


class Processor:
    """The processing of requests' PDUs.

    Args:
        counters: incremented as the groups snmp and snmpMPDStats require.
        failed: called with an internal error of the agent; the request is then answered genErr.
        limits: the bounds of one exchange.
        sets: carries out SETs; without it no variable can be set.
        refused_sets: reports SETs of clients that may not send any.
    """

    def __init__(
        self,
        counters: SnmpCounters,
        failed: Callable[[Exception], None],
        limits: Limits,
        sets: SetRequests | None,
        refused_sets: RefusedSets | None,
    ) -> None:
        self._sets = sets
        self._refused_sets = refused_sets
        self._counters = counters
        self._failed = failed
        self._limits = limits

    def process(self, exchange: Exchange) -> Response:
        """Return the PDU of the response, with its tag and length; ``None`` for silence, which is counted.

        An error of the agent itself is reported and answered, never raised.
        """
        try:
            if exchange.pdu_type == message.SET:
                return self._set(exchange)
            return self._read(exchange)
        except Exception as error:  # noqa: BLE001  a client must not be left without an answer by our own fault
            return self._failed_answer(error, exchange)

    def repeat_set(self, exchange: Exchange, refusal: Rejected | None) -> bytes | None:
        """Return the PDU that answers a SET again, whose outcome is known: ``None`` for noError."""
        return self._set_answer(exchange, SetResult(refusal, is_repeated=True))

    def _read(self, exchange: Exchange) -> bytes | None:
        counters, request, view = self._counters, exchange.request, exchange.access.view
        if exchange.pdu_type == message.GET_BULK:
            counters.get_bulks += 1
            return self._bulk(exchange)
        if exchange.pdu_type == message.GET:
            counters.get_requests += 1
        else:
            counters.get_nexts += 1
        if len(request.names) > self._limits.varbinds:
            return self._too_big(exchange)
        if exchange.version == message.VERSION_1:
            return self._read_v1(exchange)
        varbinds, retrieved = read_varbinds(
            view, exchange.pdu_type, request, exchange.room, self._limits.varbinds
        )
        return self._sized(exchange, message.NO_ERROR, 0, varbinds, retrieved=retrieved)

    def _read_v1(self, exchange: Exchange) -> bytes | None:
        """Answer a read in v1: no exceptions, no Counter64; the first name without a value is the error."""
        view, varbinds = exchange.access.view, []
        for index, name in enumerate(exchange.request.names, 1):
            if exchange.pdu_type == message.GET:
                value = view.read(name)
                # A manager of version 1 cannot read a Counter64: for it there is none (RFC 3584 section
                # 4.2.2.1).
                missing = value in _NO_VALUE or value[0] == ber.COUNTER64
                found = [] if missing else [ber.encode_varbind(name, value)]
            else:
                found, _ = view.walk(name, 1, counter64=False)
            if not found:
                return self._sized(exchange, message.NO_SUCH_NAME, index, _echo(exchange.request))
            varbinds += found
        return self._sized(exchange, message.NO_ERROR, 0, varbinds, retrieved=len(varbinds))

    def _bulk(self, exchange: Exchange) -> bytes | None:
        """Answer a GETBULK (RFC 3416 section 4.2.3) within the limits of size and number."""
        request = exchange.request
        # A GETBULK may be answered in part, any other request may not.
        names = request.names[: self._limits.varbinds]
        octets = exchange.room - message.PDU_OVERHEAD
        varbinds = bulk_varbinds(
            exchange.access.view, names, request.first, request.second, octets, self._limits.varbinds
        )
        pdu = message.encode_response_pdu(request.request_id, message.NO_ERROR, 0, varbinds)
        if len(pdu) <= exchange.room:
            return pdu
        fitting = fitting_varbinds(varbinds, octets)
        if not fitting:  # an empty answer would make a manager ask the same again and again
            return self._too_big(exchange)
        return message.encode_response_pdu(request.request_id, message.NO_ERROR, 0, fitting)

    def _set(self, exchange: Exchange) -> Response:
        """Answer a SET (RFC 3416 section 4.2.5). The answer repeats its varbinds, so its size is known."""
        self._counters.set_requests += 1
        request = exchange.request
        # Before anything is changed: tooBig says to the manager that nothing was.
        done = message.encode_response_pdu(request.request_id, message.NO_ERROR, 0, _echo(request))
        if len(request.names) > self._limits.varbinds or len(done) > exchange.room:
            self._counters.set_statuses[message.TOO_BIG] += 1
            return self._too_big(exchange)
        # A SET of nothing succeeds.
        result = self._set_result(exchange) if request.names else SetResult()
        if isinstance(result, SetResult):
            return self._set_answer(exchange, result)
        return None if result is None else self._set_later(exchange, result)

    def _set_result(self, exchange: Exchange) -> SetResult | Coroutine[Any, Any, SetResult] | None:
        """Return the result of a SET, as `SetRequests.begin`."""
        origin, request = origin_of(exchange.sender), exchange.request
        if not exchange.access.writer:
            # By RFC 3413 section 3.2 it would be authorizationError; agents say noAccess, net-snmp's too.
            self._counters.bad_community_uses += not exchange.user
            if self._refused_sets is not None:
                self._refused_sets.not_a_writer(origin, _assignments(request), exchange.user)
            return SetResult(Rejected(message.NO_ACCESS, 1))
        if self._sets is None:
            return SetResult(Rejected(message.NOT_WRITABLE, 1))
        principal = Principal("snmp", exchange.access.writer, origin)
        outside = _first_outside(exchange.access.subtrees, request)
        if outside:
            refusal = Rejected(message.NO_ACCESS, outside)
            if self._refused_sets is not None:
                self._refused_sets.tested(principal, _assignments(request), refusal)
            return SetResult(refusal)
        return self._sets.begin(principal, exchange.content, _assignments(request))

    async def _set_later(self, exchange: Exchange, result: Coroutine[Any, Any, SetResult]) -> bytes | None:
        try:
            return self._set_answer(exchange, await result)
        except Exception as error:  # noqa: BLE001  as above
            return self._failed_answer(error, exchange)

    def _set_answer(self, exchange: Exchange, result: SetResult) -> bytes | None:
        refusal = result.refusal
        status, index = (message.NO_ERROR, 0) if refusal is None else (refusal.status, refusal.index)
        # One SET counts once, however often its datagram was sent.
        if not result.is_repeated:
            self._counters.set_statuses[status] += 1
        if exchange.version == message.VERSION_1:
            status = VERSION_1_STATUSES.get(status, status)
        return self._sized(exchange, status, index, _echo(exchange.request))

    def _failed_answer(self, error: Exception, exchange: Exchange) -> bytes | None:
        self._counters.internal_errors += 1
        self._failed(error)
        if exchange.pdu_type == message.SET:
            self._counters.set_statuses[message.GEN_ERR] += 1
        # genErr is to name the binding (RFC 3416 section 4.2.1), and the error does not say which it was.
        return self._sized(exchange, message.GEN_ERR, _failing_index(exchange), _echo(exchange.request))

    def refuse(self, exchange: Exchange, status: int) -> bytes | None:
        """Return the PDU that refuses a request as a whole: error-index 0, and the request's varbinds."""
        self._counters.refused_reads += exchange.pdu_type != message.SET
        return self._sized(exchange, status, 0, _echo(exchange.request))

    def _sized(
        self, exchange: Exchange, status: int, index: int, varbinds: list[bytes], *, retrieved: int = 0
    ) -> bytes | None:
        """Return the response, or tooBig; ``retrieved`` variables are counted where it is not that."""
        pdu = message.encode_response_pdu(exchange.request.request_id, status, index, varbinds)
        if len(pdu) > exchange.room:
            return self._too_big(exchange)
        self._counters.request_variables += retrieved
        self._count_response(exchange, status)
        return pdu

    def _count_response(self, exchange: Exchange, status: int) -> None:
        if exchange.pdu_type == message.SET:
            self._counters.sets_ended += 1
        if status != message.NO_ERROR:
            self._counters.error_statuses[status] += 1

    def _too_big(self, exchange: Exchange) -> bytes | None:
        """Return the tooBig answer: without varbinds; in v1 with those of the request (RFC 1157)."""
        # An error repeats the request's varbinds, but tooBig of v2c has none (RFC 3416 section 4.2.1).
        request = exchange.request
        varbinds = _echo(request) if exchange.version == message.VERSION_1 else []
        pdu = message.encode_response_pdu(request.request_id, message.TOO_BIG, 0, varbinds)
        if len(pdu) <= exchange.room:
            self._count_response(exchange, message.TOO_BIG)
            return pdu
        # Even the alternate answer without varbinds is too large: snmpSilentDrops of RFC 3418.
        self._counters.silent_drops += 1
        self._counters.sets_ended += exchange.pdu_type == message.SET
        return None


_BESIDE_NAME: Final = 6  # octets of a variable binding with a value without content


def fitting_varbinds(varbinds: list[bytes], octets: int) -> list[bytes]:
    """Return as many of the first varbinds as take at most so many octets together."""
    return varbinds[: bisect_right(list(accumulate(map(len, varbinds))), octets)]


def is_request(version: int, pdu_type: int) -> bool:
    """Return whether this agent processes the PDU: no notification, no response, no GETBULK in v1."""
    if pdu_type == message.GET_BULK:
        return version != message.VERSION_1
    return pdu_type in (message.GET, message.GET_NEXT, message.SET)


def read_varbinds(
    view: MibView, pdu_type: int, request: Request, octets: int, limit: int
) -> tuple[list[bytes], int]:
    """Return the varbinds that answer a read since version 2c, and how many variables were retrieved.

    A GETBULK is answered as by `bulk_varbinds`. What it retrieves is not counted (RFC 1213 has no GETBULK).
    """
    names = request.names
    if pdu_type == message.GET:
        values = [*map(view.read, names)]
        return [*map(ber.encode_varbind, names, values)], retrieved_values(values)
    if pdu_type == message.GET_NEXT:
        return next_varbinds(view, names)
    return bulk_varbinds(view, names, request.first, request.second, octets, limit), 0


def retrieved_values(values: list[bytes]) -> int:
    """Return how many values are none of the exceptions of a GET."""
    return len(values) - values.count(ber.NO_SUCH_OBJECT) - values.count(ber.NO_SUCH_INSTANCE)


def next_varbinds(view: MibView, names: list[bytes]) -> tuple[list[bytes], int]:
    """Return the varbinds of a GETNEXT, with endOfMibView at the end, and how many have a value."""
    varbinds = []
    retrieved = 0
    for name in names:
        found, last = view.walk(name, 1)
        if found:
            varbinds.append(found[0])
            retrieved += 1
        else:
            varbinds.append(_end_of_view(last))
    return varbinds, retrieved


def bulk_varbinds(
    view: MibView, names: list[bytes], non_repeaters: int, repetitions: int, octets: int, limit: int
) -> list[bytes]:
    """Return the varbinds of a GETBULK, at most ``limit``, and not many more than fit into ``octets``."""
    if len(names) == 1 and non_repeaters <= 0:  # nearly all; the same as below, without its lists
        room = min(limit, octets // (len(names[0]) + _BESIDE_NAME) + 1)
        if 0 < repetitions <= room:
            return _repetitions(view, names, repetitions)
    varbinds: list[bytes] = []
    if non_repeaters > 0:
        varbinds, _ = next_varbinds(view, names[:non_repeaters])
        names = names[non_repeaters:]
    # What follows a name is rarely shorter than it: where it is, the answer has room left, which is
    # permitted, and nearly all answers cost no more than what is sent of them.
    shortest = min(map(len, names), default=0) + _BESIDE_NAME
    room = min(limit - len(varbinds), octets // shortest + 1)
    if names and repetitions > 0 and room > 0:
        # Rounded up: the last repetition may be cut within (RFC 3416 section 4.2.3).
        repeated = _repetitions(view, names, min(repetitions, -(-room // len(names))))
        varbinds += repeated if len(repeated) <= room else repeated[:room]
    return varbinds


def _first_outside(subtrees: Subtrees | None, request: Request) -> int:
    """Return the number of the first name outside of a view, from 1; 0 if there is none."""
    if subtrees is not None:
        for index, name in enumerate(request.names, 1):
            if name not in subtrees:
                return index
    return 0


def origin_of(sender: Sender) -> str:
    """Return address and port of a sender as one text."""
    host, port = sender[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _end_of_view(name: bytes) -> bytes:
    return ber.encode_varbind(name, ber.END_OF_MIB_VIEW)


def _repetitions(view: MibView, names: list[bytes], repetitions: int) -> list[bytes]:
    """Return the varbinds of the repeating names, repetition by repetition.

    A repetition in which every name is past the end is the last one, as RFC 3416 permits.
    """
    if len(names) == 1:
        varbinds, last = view.walk(names[0], repetitions)
        return varbinds if len(varbinds) == repetitions else [*varbinds, _end_of_view(last)]
    rows = view.walk_rows(names, repetitions)
    if rows is not None:
        return rows
    walks = [view.walk(name, repetitions) for name in names]
    longest = max([len(varbinds) for varbinds, _ in walks])
    if longest < repetitions:
        repetitions = longest + 1
    columns = [
        varbinds
        if len(varbinds) == repetitions
        else varbinds + [_end_of_view(last)] * (repetitions - len(varbinds))
        for varbinds, last in walks
    ]
    return list(chain.from_iterable(zip(*columns, strict=True)))


def _assignments(request: Request) -> list[Assignment]:
    pairs = zip(request.names, request.values, strict=True)
    return [Assignment(index, ber.decode_name(name), value) for index, (name, value) in enumerate(pairs, 1)]


def _failing_index(exchange: Exchange) -> int:
    """Return the number of the first name that cannot be read, from 1; 0 if each can be read alone."""
    view = exchange.access.view
    for index, name in enumerate(exchange.request.names, 1):
        try:
            view.read(name) if exchange.pdu_type == message.GET else view.walk(name, 1)
        except Exception:  # noqa: BLE001  reported already, only its place is wanted
            return index
    return 0


def _echo(request: Request) -> list[bytes]:
    return [
        ber.encode_varbind(name, value) for name, value in zip(request.names, request.values, strict=True)
    ]
