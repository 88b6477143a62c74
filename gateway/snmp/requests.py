"""The answering of requests, from a datagram's octets to those of its answer; of version 1 and 2c itself.

The module is sans-IO and has the whole path of a GET. Any octets give an answer or silence, never an
exception. What the PDUs ask for is done by `gateway.snmp.processing`.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import Any, Final, Protocol

from gateway.feed.guesses import Guesses
from gateway.snmp import ber, message
from gateway.snmp.ber import BerError
from gateway.snmp.message import Message
from gateway.snmp.processing import (
    DEFAULT_LIMITS,
    LARGEST_DATAGRAM,
    NO_SENDER,
    Access,
    Exchange,
    Limits,
    Processor,
    Response,
    Sender,
    bulk_varbinds,
    fitting_varbinds,
    is_request,
    next_varbinds,
    origin_of,
    retrieved_values,
)
from gateway.snmp.refused_sets import RefusedSets
from gateway.snmp.repeated_reads import RepeatedReads
from gateway.snmp.set_requests import SetRequests
from gateway.snmp.standard_groups import SnmpCounters
from gateway.snmp.store import MibView
from gateway.snmp.v3.messages import is_version_3

__all__ = ["LARGEST_DATAGRAM", "Access", "Limits", "Responder", "Response", "Sender"]


WRONG_COMMUNITY: Final = "a request with a community that is not known, or may not be used from this address"
"""The recorded reason of a refused request that only reads."""


class Answering(Protocol):
    """What answers the datagrams of a version."""

    def answer(self, datagram: bytes, sender: Sender) -> Response:
        """Return the answer to a datagram."""


class NextVersion(Protocol):
    """Version 3 (`gateway.snmp.v3.responder.Version3`), which is not imported where it is not used."""

    def responder(
        self,
        processor: Processor,
        counters: SnmpCounters,
        limits: Limits,
        not_authenticated: Callable[[str], None] | None,
        guesses: Guesses | None,
    ) -> Answering:
        """Return what answers its datagrams."""


class Responder:
    """The command responder of one listener: it answers the requests of clients.

    Args:
        communities: the rights of each community.
        counters: incremented as the groups snmp and snmpMPDStats require.
        failed: called with an internal error of the agent; the request is then answered genErr.
        limits: the bounds of one exchange.
        sets: carries out SETs; without it no variable can be set.
        refused_sets: reports SETs of clients that may not send any.
        wrong_community: called for each message whose community is not known, with the sender's address; in
            version 3 for one of an unknown user, or with a wrong digest.
        guesses: counts and reports requests that prove no identity, but for SETs with a community.
        versions: the versions with communities that are answered.
        version_3: engine, users and rights of version 3; without it that version is not supported.
    """

    def __init__(  # noqa: PLR0913  the parts of an agent, joined once
        self,
        communities: Mapping[bytes, Access],
        counters: SnmpCounters,
        failed: Callable[[Exception], None],
        limits: Limits = DEFAULT_LIMITS,
        *,
        sets: SetRequests | None = None,
        refused_sets: RefusedSets | None = None,
        wrong_community: Callable[[str], None] | None = None,
        guesses: Guesses | None = None,
        versions: Collection[int] = (message.VERSION_1, message.VERSION_2C),
        version_3: NextVersion | None = None,
    ) -> None:
        self._versions = frozenset(versions)
        self._processor = Processor(counters, failed, limits, sets, refused_sets)
        self._v3 = (
            None
            if version_3 is None
            else version_3.responder(self._processor, counters, limits, wrong_community, guesses)
        )
        self._refused_sets = refused_sets
        self._wrong_community = wrong_community
        self._guesses = guesses
        self._communities = tuple(communities.items())
        # Version 2c only: in version 1 a name without a value is an error of the whole request, which
        # `_answer_usual` does not produce.
        self._preambles = {
            message.preamble(message.VERSION_2C, name): access
            for name, access in communities.items()
            if message.VERSION_2C in self._versions
        }
        self._repeated_reads = RepeatedReads(counters, self._answer_usual)
        self._counters = counters
        self._limits = limits
        self._bulk_octets = limits.octets(message.GET_BULK)

    def answer(self, datagram: bytes, sender: Sender = NO_SENDER) -> Response:
        """Return the answer to ``datagram``; ``None`` where none is sent, which is counted."""
        self._counters.in_packets += 1
        repeated = self._repeated_reads.answer(datagram, sender)
        if repeated is not None:
            return repeated
        if self._v3 is not None and is_version_3(datagram):
            return self._v3.answer(datagram, sender)
        usual = message.read_usual(datagram)
        if usual is not None:
            # That a look-up takes longer for a match reveals nothing: what it compares are keyed hashes.
            access = self._preambles.get(usual[0])
            if (
                access is not None
                and (access.networks is None or sender[0] in access.networks)
                and (answer := self._answer_usual(access.view, *usual)) is not None
            ):
                self._repeated_reads.learn(datagram, usual, access)
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
        limits = self._limits
        if len(names) > limits.varbinds:
            return None
        try:
            retrieved = 0
            if pdu_type == message.GET:
                values = [*map(view.read, names)]
                varbinds = [*map(ber.encode_varbind, names, values)]
                retrieved = retrieved_values(values)
            elif pdu_type == message.GET_NEXT:
                varbinds, retrieved = next_varbinds(view, names)
            else:
                octets = self._bulk_octets - message.RESPONSE_OVERHEAD - len(preamble)
                varbinds = bulk_varbinds(view, names, first, second, octets, limits.varbinds)
        except Exception:  # noqa: BLE001  the other way meets it too, and reports it
            return None
        answer = message.encode_success(preamble, request_id, varbinds)
        if pdu_type == message.GET_BULK and len(answer) > self._bulk_octets:
            fitting = fitting_varbinds(varbinds, octets)
            answer = message.encode_success(preamble, request_id, fitting) if fitting else b""
        # Nothing has been counted yet: the general path answers tooBig, and counts the request.
        if not answer or len(answer) > limits.message_size:
            return None
        self._counters.count_read(pdu_type, retrieved)
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
        envelope, exchange = received
        pdu = self._processor.process(exchange)
        if isinstance(pdu, Coroutine):
            return _enclosed_later(envelope, pdu)
        return None if pdu is None else message.enclose(envelope, pdu)

    def _receive(self, datagram: bytes, sender: Sender) -> tuple[Message, Exchange] | None:
        # The socket reads one octet more than the limit of UDP, so what the system has cut is refused here.
        if len(datagram) > LARGEST_DATAGRAM:
            raise BerError(f"at most {LARGEST_DATAGRAM} octets", f"{len(datagram)}")
        envelope = message.read_message(datagram)
        if envelope.version not in self._versions:
            raise message.UnknownVersionError(envelope.version)
        access = self._access_of(envelope.community)
        if access is not None and access.networks is not None and sender[0] not in access.networks:
            access.networks.refused(sender[0])
            access = None
        if access is None:
            self._counters.bad_community_names += 1
            if self._wrong_community is not None:
                self._wrong_community(sender[0])
            if envelope.pdu_type == message.SET and self._refused_sets is not None:
                self._refused_sets.not_known(origin_of(sender))
            elif self._guesses is not None:
                self._guesses.guessed(sender[0], WRONG_COMMUNITY)
            return None
        if not is_request(envelope.version, envelope.pdu_type):
            self._counters.unknown_pdu_handlers += 1
            return None
        request = message.read_request(datagram, envelope.start, envelope.stop)
        content = datagram[envelope.start : envelope.stop] if envelope.pdu_type == message.SET else b""
        room = message.response_room(envelope, self._limits.octets(envelope.pdu_type))
        return envelope, Exchange(envelope.version, envelope.pdu_type, request, access, room, sender, content)

    def _access_of(self, community: bytes) -> Access | None:
        found = None
        for (
            name,
            access,
        ) in self._communities:  # all of them, so that time reveals nothing of which one matched
            if hmac.compare_digest(name, community):
                found = access
        return found


async def _enclosed_later(envelope: Message, pdu: Coroutine[Any, Any, bytes | None]) -> bytes | None:
    octets = await pdu
    return None if octets is None else message.enclose(envelope, octets)
