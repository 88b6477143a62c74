"""The processing of requests: RFC 3416 section 4.2 for v2c, with RFC 3584 section 4.2 for v1.

The module is sans-IO and has the whole path of a GET, from a request's octets to its answer's. Any octets
give an answer or silence, never an exception.
"""

from __future__ import annotations

import hmac
from bisect import bisect_right
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any, Final, TypeAlias

from gateway.model.operations import Principal
from gateway.snmp import ber, message
from gateway.snmp.ber import BerError
from gateway.snmp.message import Message, Request
from gateway.snmp.refused_sets import RefusedSets
from gateway.snmp.set_requests import SetRequests, SetResult
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.store import MibView
from gateway.snmp.written_values import VERSION_1_STATUSES, Assignment, Rejected

LARGEST_DATAGRAM = 65_507
"""The maximum number of octets that a UDP datagram over IPv4 can carry."""

_NO_VALUE = (ber.NO_SUCH_OBJECT, ber.NO_SUCH_INSTANCE)


@dataclass(frozen=True, slots=True)
class Access:
    """The rights of a community: its MIB view, and the name of the writer; empty for a reader."""

    view: MibView
    writer: str = ""


Sender: TypeAlias = tuple[Any, ...]
"""The address of a sender, as the socket module gives it: ``(host, port, ...)``."""

Response: TypeAlias = "bytes | Coroutine[Any, Any, bytes | None] | None"
"""A datagram, or ``None`` for silence; or a coroutine that returns either, where the core is asked first."""

_NO_SENDER: Final[Sender] = ("", 0)


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one exchange.

    Args:
        message_size: octets of a request or answer; at least 484 (RFC 3417 section 3.2.1).
        varbinds: variable bindings of a request or answer. A GETBULK that asks for more gets so many, any
            other request with more is answered tooBig.
    """

    message_size: int = LARGEST_DATAGRAM
    varbinds: int = 2_000


class Responder:
    """The command responder of one listener: it answers the requests of clients.

    Args:
        communities: the rights of each community.
        counters: incremented as the groups snmp and snmpMPDStats require.
        failed: called with an internal error of the agent; the request is then answered genErr.
        limits: the bounds of one exchange.
        sets: carries out SETs; without it no variable can be set.
        refused_sets: reports SETs of clients that may not send any.
        wrong_community: called for each message whose community is not known, with the sender's address.
    """

    def __init__(
        self,
        communities: Mapping[bytes, Access],
        counters: SnmpCounters,
        failed: Callable[[Exception], None],
        limits: Limits = Limits(),
        sets: SetRequests | None = None,
        refused_sets: RefusedSets | None = None,
        wrong_community: Callable[[str], None] | None = None,
    ) -> None:
        self._sets = sets
        self._refused_sets = refused_sets
        self._wrong_community = wrong_community
        self._communities = tuple(communities.items())
        # Version 2c only: in version 1 a name without a value is an error of the whole request, which
        # `_answer_usual` does not produce.
        self._preambles = {
            message.preamble(message.VERSION_2C, name): access for name, access in communities.items()
        }
        self._counters = counters
        self._failed = failed
        self._limits = limits

    def answer(self, datagram: bytes, sender: Sender = _NO_SENDER) -> Response:
        """Return the answer to ``datagram``; ``None`` where none is sent, which is counted."""
        self._counters.in_packets += 1
        usual = message.read_usual(datagram)
        if usual is not None:
            # That a look-up takes longer for a match reveals nothing: what it compares are keyed hashes.
            access = self._preambles.get(usual[0])
            if access is not None and (answer := self._answer_usual(access.view, *usual)) is not None:
                return answer
        return self._answer_any(datagram, sender)

    def _answer_usual(
        self,
        view: MibView,
        preamble: bytes,
        pdu_type: int,
        request_id: bytes,
        first: int,
        second: int,
        names: list[bytes],
    ) -> bytes | None:
        """Return the answer to a read in v2c; ``None`` if it has an error or exceeds the limits."""
        counters, limits = self._counters, self._limits
        if len(names) > limits.varbinds:
            return None
        try:
            retrieved = 0
            if pdu_type == message.GET:
                values = [*map(view.read, names)]
                varbinds = [*map(ber.encode_varbind, names, values)]
                retrieved = _retrieved(values)
            elif pdu_type == message.GET_NEXT:
                varbinds = [_next(view, name) for name in names]
                retrieved = _found(names, varbinds)
            else:
                octets = limits.message_size - message.RESPONSE_OVERHEAD - len(preamble)
                varbinds = self._bulk_varbinds(view, names, first, second, octets)
        except Exception:  # noqa: BLE001  the other way meets it too, and reports it
            return None
        answer = message.encode_success(preamble, request_id, varbinds)
        # Nothing has been counted yet: the general path cuts the answer, and counts the request.
        if len(answer) > limits.message_size:
            return None
        if pdu_type == message.GET:
            counters.get_requests += 1
        elif pdu_type == message.GET_NEXT:
            counters.get_nexts += 1
        else:
            counters.get_bulks += 1
        counters.request_variables += retrieved
        return answer

    def _answer_any(self, datagram: bytes, sender: Sender) -> Response:
        counters = self._counters
        try:
            received = self._receive(datagram, sender)
        except BerError:
            counters.parse_errors += 1
            return None
        except message.UnknownVersionError:
            counters.bad_versions += 1
            return None
        if received is None:
            return None
        envelope, request, access = received
        try:
            if envelope.pdu_type == message.SET:
                return self._set(envelope, request, access, sender, datagram[envelope.start : envelope.stop])
            return self._respond(envelope, request, access)
        except Exception as error:  # noqa: BLE001  a client must not be left without an answer by our own fault
            return self._failed_answer(error, envelope, request, access)

    def _receive(self, datagram: bytes, sender: Sender) -> tuple[Message, Request, Access] | None:
        # The socket reads one octet more than the limit of UDP, so what the system has cut is refused here.
        if len(datagram) > self._limits.message_size:
            raise BerError(f"at most {self._limits.message_size} octets", f"{len(datagram)}")
        envelope = message.read_message(datagram)
        access = self._access_of(envelope.community)
        if access is None:
            self._counters.bad_community_names += 1
            if self._wrong_community is not None:
                self._wrong_community(sender[0])
            if envelope.pdu_type == message.SET and self._refused_sets is not None:
                self._refused_sets.not_known(_origin(sender))
            return None
        if not _is_request(envelope):
            self._counters.unknown_pdu_handlers += 1
            return None
        return envelope, message.read_request(datagram, envelope.start, envelope.stop), access

    def _respond(self, envelope: Message, request: Request, access: Access) -> bytes | None:
        counters = self._counters
        if envelope.pdu_type == message.GET_BULK:
            counters.get_bulks += 1
            return self._bulk(envelope, request, access.view)
        if envelope.pdu_type == message.GET:
            counters.get_requests += 1
        else:
            counters.get_nexts += 1
        if len(request.names) > self._limits.varbinds:
            return self._too_big(envelope, request)
        if envelope.version == message.VERSION_1:
            return self._read_v1(envelope, request, access.view)
        if envelope.pdu_type == message.GET:
            values = [*map(access.view.read, request.names)]
            varbinds = [*map(ber.encode_varbind, request.names, values)]
            retrieved = _retrieved(values)
        else:
            varbinds = [_next(access.view, name) for name in request.names]
            retrieved = _found(request.names, varbinds)
        return self._sized(envelope, request, message.NO_ERROR, 0, varbinds, retrieved=retrieved)

    def _read_v1(self, envelope: Message, request: Request, view: MibView) -> bytes | None:
        """Answer a read in v1: no exceptions, no Counter64; the first name without a value is the error."""
        varbinds = []
        for index, name in enumerate(request.names, 1):
            if envelope.pdu_type == message.GET:
                value = view.read(name)
                # A manager of version 1 cannot read a Counter64: for it there is none (RFC 3584 section
                # 4.2.2.1).
                missing = value in _NO_VALUE or value[0] == ber.COUNTER64
                found = [] if missing else [ber.encode_varbind(name, value)]
            else:
                found, _ = view.walk(name, 1, counter64=False)
            if not found:
                return self._sized(envelope, request, message.NO_SUCH_NAME, index, _echo(request))
            varbinds += found
        return self._sized(envelope, request, message.NO_ERROR, 0, varbinds, retrieved=len(varbinds))

    def _bulk(self, envelope: Message, request: Request, view: MibView) -> bytes | None:
        """Answer a GETBULK (RFC 3416 section 4.2.3) within the limits of size and number."""
        # A GETBULK may be answered in part, any other request may not.
        names = request.names[: self._limits.varbinds]
        octets = self._limits.message_size - message.response_overhead(envelope)
        varbinds = self._bulk_varbinds(view, names, request.first, request.second, octets)
        datagram = message.encode_response(envelope, request.request_id, message.NO_ERROR, 0, varbinds)
        if len(datagram) <= self._limits.message_size:
            return datagram
        sizes = list(accumulate(map(len, varbinds)))
        fitting = varbinds[: bisect_right(sizes, octets)]
        if not fitting:  # an empty answer would make a manager ask the same again and again
            return self._too_big(envelope, request)
        return message.encode_response(envelope, request.request_id, message.NO_ERROR, 0, fitting)

    def _bulk_varbinds(
        self, view: MibView, names: list[bytes], non_repeaters: int, repetitions: int, octets: int
    ) -> list[bytes]:
        """Return the varbinds of a GETBULK, within the limit of number, and not many more than fit."""
        varbinds: list[bytes] = []
        if non_repeaters > 0:
            varbinds += [_next(view, name) for name in names[:non_repeaters]]
            names = names[non_repeaters:]
        room = min(self._limits.varbinds - len(varbinds), octets // _SMALLEST_VARBIND)
        if names and repetitions > 0 and room > 0:
            # Rounded up: the last repetition may be cut within (RFC 3416 section 4.2.3).
            repeated = _repetitions(view, names, min(repetitions, -(-room // len(names))))
            varbinds += repeated if len(repeated) <= room else repeated[:room]
        return varbinds

    def _set(
        self, envelope: Message, request: Request, access: Access, sender: Sender, content: bytes
    ) -> Response:
        """Answer a SET (RFC 3416 section 4.2.5). The answer repeats its varbinds, so its size is known."""
        self._counters.set_requests += 1
        # Before anything is changed: tooBig says to the manager that nothing was.
        done = message.encode_response(envelope, request.request_id, message.NO_ERROR, 0, _echo(request))
        if len(request.names) > self._limits.varbinds or len(done) > self._limits.message_size:
            self._counters.set_statuses[message.TOO_BIG] += 1
            return self._too_big(envelope, request)
        # A SET of nothing succeeds.
        result = self._set_result(request, access, sender, content) if request.names else SetResult()
        if isinstance(result, SetResult):
            return self._set_answer(envelope, request, result)
        return None if result is None else self._set_later(envelope, request, access, result)

    def _set_result(
        self, request: Request, access: Access, sender: Sender, content: bytes
    ) -> SetResult | Coroutine[Any, Any, SetResult] | None:
        """Return the result of a SET, as `SetRequests.begin`."""
        if not access.writer:
            # By RFC 3413 section 3.2 it would be authorizationError; agents say noAccess, net-snmp's too.
            self._counters.bad_community_uses += 1
            if self._refused_sets is not None:
                self._refused_sets.not_a_writer(_origin(sender), _assignments(request))
            return SetResult(Rejected(message.NO_ACCESS, 1))
        if self._sets is None:
            return SetResult(Rejected(message.NOT_WRITABLE, 1))
        principal = Principal("snmp", access.writer, _origin(sender))
        return self._sets.begin(principal, content, _assignments(request))

    async def _set_later(
        self, envelope: Message, request: Request, access: Access, result: Coroutine[Any, Any, SetResult]
    ) -> bytes | None:
        try:
            return self._set_answer(envelope, request, await result)
        except Exception as error:  # noqa: BLE001  as above
            return self._failed_answer(error, envelope, request, access)

    def _set_answer(self, envelope: Message, request: Request, result: SetResult) -> bytes | None:
        refusal = result.refusal
        status, index = (message.NO_ERROR, 0) if refusal is None else (refusal.status, refusal.index)
        # One SET counts once, however often its datagram was sent.
        if not result.is_repeated:
            self._counters.set_statuses[status] += 1
        if envelope.version == message.VERSION_1:
            status = VERSION_1_STATUSES.get(status, status)
        return self._sized(envelope, request, status, index, _echo(request))

    def _failed_answer(
        self, error: Exception, envelope: Message, request: Request, access: Access
    ) -> bytes | None:
        self._counters.internal_errors += 1
        self._failed(error)
        if envelope.pdu_type == message.SET:
            self._counters.set_statuses[message.GEN_ERR] += 1
        # genErr is to name the binding (RFC 3416 section 4.2.1), and the error does not say which it was.
        index = _failing_index(envelope, request, access.view)
        return self._sized(envelope, request, message.GEN_ERR, index, _echo(request))

    def _sized(
        self,
        envelope: Message,
        request: Request,
        status: int,
        index: int,
        varbinds: list[bytes],
        *,
        retrieved: int = 0,
    ) -> bytes | None:
        """Return the response, or tooBig; ``retrieved`` variables are counted where it is not that."""
        datagram = message.encode_response(envelope, request.request_id, status, index, varbinds)
        if len(datagram) <= self._limits.message_size:
            self._counters.request_variables += retrieved
            self._count_response(envelope, status)
            return datagram
        return self._too_big(envelope, request)

    def _count_response(self, envelope: Message, status: int) -> None:
        if envelope.pdu_type == message.SET:
            self._counters.sets_ended += 1
        if status != message.NO_ERROR:
            self._counters.error_statuses[status] += 1

    def _too_big(self, envelope: Message, request: Request) -> bytes | None:
        """Return the tooBig answer: without varbinds in v2c, with those of the request in v1 (RFC 1157)."""
        # An error repeats the request's varbinds, but tooBig of v2c has none (RFC 3416 section 4.2.1).
        varbinds = _echo(request) if envelope.version == message.VERSION_1 else []
        datagram = message.encode_response(envelope, request.request_id, message.TOO_BIG, 0, varbinds)
        if len(datagram) <= self._limits.message_size:
            self._count_response(envelope, message.TOO_BIG)
            return datagram
        # Even the alternate answer without varbinds is too large: snmpSilentDrops of RFC 3418.
        self._counters.silent_drops += 1
        self._counters.sets_ended += envelope.pdu_type == message.SET
        return None

    def _access_of(self, community: bytes) -> Access | None:
        found = None
        for (
            name,
            access,
        ) in self._communities:  # all of them, so that time reveals nothing of which one matched
            if hmac.compare_digest(name, community):
                found = access
        return found


_SMALLEST_VARBIND = 7  # sequence, name of one octet, value without content


def _is_request(envelope: Message) -> bool:
    """Return whether this agent processes the PDU: no notification, no response, no GETBULK in v1."""
    if envelope.pdu_type == message.GET_BULK:
        return envelope.version == message.VERSION_2C
    return envelope.pdu_type in (message.GET, message.GET_NEXT, message.SET)


def _next(view: MibView, name: bytes) -> bytes:
    varbinds, last = view.walk(name, 1)
    return varbinds[0] if varbinds else _end_of_view(last)


def _retrieved(values: list[bytes]) -> int:
    """Return how many values are none of the exceptions of a GET."""
    return len(values) - values.count(ber.NO_SUCH_OBJECT) - values.count(ber.NO_SUCH_INSTANCE)


def _found(names: list[bytes], varbinds: list[bytes]) -> int:
    """Return how many varbinds of a GETNEXT have a value.

    A value may end as endOfMibView does, but then its name is not the one that was asked for.
    """
    return sum(
        not varbind.endswith(ber.END_OF_MIB_VIEW) or varbind != _end_of_view(name)
        for name, varbind in zip(names, varbinds, strict=True)
    )


def _end_of_view(name: bytes) -> bytes:
    return ber.encode_varbind(name, ber.END_OF_MIB_VIEW)


def _repetitions(view: MibView, names: list[bytes], repetitions: int) -> list[bytes]:
    """Return the varbinds of the repeating names, repetition by repetition.

    A repetition in which every name is past the end is the last one, as RFC 3416 permits.
    """
    if len(names) == 1:
        varbinds, last = view.walk(names[0], repetitions)
        return varbinds if len(varbinds) == repetitions else [*varbinds, _end_of_view(last)]
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


def _origin(sender: Sender) -> str:
    host, port = sender[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _assignments(request: Request) -> list[Assignment]:
    pairs = zip(request.names, request.values, strict=True)
    return [Assignment(index, ber.decode_name(name), value) for index, (name, value) in enumerate(pairs, 1)]


def _failing_index(envelope: Message, request: Request, view: MibView) -> int:
    """Return the number of the first name that cannot be read, from 1; 0 if each can be read alone."""
    for index, name in enumerate(request.names, 1):
        try:
            view.read(name) if envelope.pdu_type == message.GET else view.walk(name, 1)
        except Exception:  # noqa: BLE001  reported already, only its place is wanted
            return index
    return 0


def _echo(request: Request) -> list[bytes]:
    return [
        ber.encode_varbind(name, value) for name, value in zip(request.names, request.values, strict=True)
    ]
