"""The standard groups that every SNMP agent has: system and snmp (RFC 3418), snmpMPDStats (RFC 3412)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

import msgspec

from gateway.snmp import ber, message
from gateway.snmp.ber import Oid
from gateway.snmp.cells import text
from gateway.snmp.store import ScalarValue, Store

_SYSTEM: Final[Oid] = (1, 3, 6, 1, 2, 1, 1)
_OR_ENTRY: Final[Oid] = (*_SYSTEM, 9, 1)
_OR_ID, _OR_DESCRIPTION, _OR_UP_TIME = 2, 3, 4
_TICK: Final = 10_000_000
_WRAP: Final = 1 << 32

APPLICATION_SERVICES: Final = 72
"""sysServices of a host that offers applications: layers 4 and 7, 2^3 + 2^6."""


class SystemDescription(msgspec.Struct, frozen=True):
    """The description of this agent; each text is cut to 255 octets of UTF-8.

    Args:
        description: sysDescr, the product with its version and where it runs.
        object_id: sysObjectID, the kind of agent.
        contact: sysContact, the contact person.
        name: sysName, by convention the fully qualified domain name.
        location: sysLocation, the physical location.
        services: sysServices.
    """

    description: str
    object_id: Oid
    contact: str = ""
    name: str = ""
    location: str = ""
    services: int = APPLICATION_SERVICES


class SystemGroup:
    """The scalars of the group system and the table sysORTable, in a store.

    Args:
        store: the store that serves them.
        description: the fixed part.
        clock: monotonic nanoseconds; sysUpTime counts from now on.
    """

    def __init__(self, store: Store, description: SystemDescription, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._started = clock()
        self._modules: dict[Oid, int] = {}
        self._last_index = 0
        self._last_change = 0
        values: dict[int, ScalarValue] = {
            1: text(description.description),
            2: ber.encode_oid(description.object_id),
            3: lambda: ber.encode_time_ticks(self.up_time()),
            4: text(description.contact),
            5: text(description.name),
            6: text(description.location),
            7: ber.encode_integer(description.services),
            8: lambda: ber.encode_time_ticks(self._last_change),
        }
        for number, value in values.items():
            store.scalar((*_SYSTEM, number, 0), value)
        self._table = store.table(_OR_ENTRY, (_OR_ID, _OR_DESCRIPTION, _OR_UP_TIME))

    def up_time(self) -> int:
        """Return sysUpTime: hundredths of a second since the start, modulo 2^32 (497 days)."""
        return (self._clock() - self._started) // _TICK % _WRAP

    def add_module(self, capability: Oid, description: str) -> None:
        """Add a MIB module to sysORTable; one that is listed keeps its row and sysORUpTime."""
        if capability in self._modules:
            return
        now = self.up_time()
        self._last_index += 1  # the index of a removed row never comes back
        self._modules[capability] = self._last_index
        self._last_change = now
        self._table.put(
            (self._last_index,),
            {
                _OR_ID: ber.encode_oid(capability),
                _OR_DESCRIPTION: text(description),
                _OR_UP_TIME: ber.encode_time_ticks(now),
            },
        )

    def remove_module(self, capability: Oid) -> None:
        """Remove a MIB module from sysORTable. Raises ``KeyError`` if it is not listed."""
        self._table.remove((self._modules.pop(capability),))
        self._last_change = self.up_time()


_SNMP: Final[Oid] = (1, 3, 6, 1, 2, 1, 11)
_MPD_STATS: Final[Oid] = (1, 3, 6, 1, 6, 3, 11, 2, 1)
_USM_STATS: Final[Oid] = (1, 3, 6, 1, 6, 3, 15, 1, 1)
_TARGET_OBJECTS: Final[Oid] = (1, 3, 6, 1, 6, 3, 12, 1)
_AUTHEN_TRAPS_ENABLED, _AUTHEN_TRAPS_DISABLED = 1, 2

_INSTANCES: Final[dict[str, Oid]] = {
    "in_packets": (*_SNMP, 1, 0),
    "bad_versions": (*_SNMP, 3, 0),
    "bad_community_names": (*_SNMP, 4, 0),
    "bad_community_uses": (*_SNMP, 5, 0),
    "parse_errors": (*_SNMP, 6, 0),
    "set_variables": (*_SNMP, 14, 0),
    "set_requests": (*_SNMP, 17, 0),
    "silent_drops": (*_SNMP, 31, 0),
    "proxy_drops": (*_SNMP, 32, 0),
    "unknown_security_models": (*_MPD_STATS, 1, 0),
    "invalid_messages": (*_MPD_STATS, 2, 0),
    "unknown_pdu_handlers": (*_MPD_STATS, 3, 0),
}

REPORTED: Final[dict[str, Oid]] = {
    "unsupported_security_levels": (*_USM_STATS, 1, 0),
    "not_in_time_windows": (*_USM_STATS, 2, 0),
    "unknown_user_names": (*_USM_STATS, 3, 0),
    "unknown_engine_ids": (*_USM_STATS, 4, 0),
    "wrong_digests": (*_USM_STATS, 5, 0),
    "decryption_errors": (*_USM_STATS, 6, 0),
    "unknown_pdu_handlers": (*_MPD_STATS, 3, 0),
    "unavailable_contexts": (*_TARGET_OBJECTS, 4, 0),
    "unknown_contexts": (*_TARGET_OBJECTS, 5, 0),
}
"""The instances of the counters that reports of version 3 carry (RFC 3412, RFC 3413, RFC 3414)."""


@dataclass(slots=True)
class SnmpCounters:
    """Counts since the agent's start; each is the object of its name in the groups above.

    Some have no standard object: ``internal_errors``, requests that met an error of the agent's own;
    ``unsent``, answers that the operating system did not take; ``overload_drops``, requests dropped because
    their sender had more than its share waiting; ``set_statuses``, the number of SETs answered with each
    error-status (as of version 2c), without repeated ones, which are ``set_retransmissions``; and
    ``sets_without_room``, which were refused because too many wait or are remembered. Of some
    `gateway.snmp.obsolete_counters` makes objects: ``get_requests`` and the like; ``request_variables``, the
    variables that GETs and GETNEXTs retrieved; ``error_statuses``, the number of responses with each
    error-status, as it was sent; ``sets_ended``, the number of SETs that were answered, or whose answer is
    one of ``silent_drops``; ``refused_reads``, those of version 3 whose user lacks the right, which are
    answered and not processed; ``reports``, the messages of version 3 that report what is not processed.
    """

    in_packets: int = 0
    bad_versions: int = 0
    bad_community_names: int = 0
    bad_community_uses: int = 0
    parse_errors: int = 0
    silent_drops: int = 0
    proxy_drops: int = 0
    unknown_security_models: int = 0
    invalid_messages: int = 0
    unknown_pdu_handlers: int = 0
    unsupported_security_levels: int = 0
    not_in_time_windows: int = 0
    unknown_user_names: int = 0
    unknown_engine_ids: int = 0
    wrong_digests: int = 0
    decryption_errors: int = 0
    unavailable_contexts: int = 0
    unknown_contexts: int = 0
    internal_errors: int = 0
    unsent: int = 0
    overload_drops: int = 0
    get_requests: int = 0
    get_nexts: int = 0
    get_bulks: int = 0
    set_requests: int = 0
    set_variables: int = 0
    set_retransmissions: int = 0
    sets_without_room: int = 0
    set_statuses: Counter[int] = field(default_factory=Counter)
    request_variables: int = 0
    sets_ended: int = 0
    refused_reads: int = 0
    reports: int = 0
    error_statuses: Counter[int] = field(default_factory=Counter)

    def count_read(self, pdu_type: int, retrieved: int) -> None:
        """Count a read (GET, GETNEXT or GETBULK) that was answered without an error.

        Args:
            pdu_type: the tag of its PDU.
            retrieved: the number of variables with a value; 0 for a GETBULK (RFC 1213 has none).
        """
        if pdu_type == message.GET:
            self.get_requests += 1
        elif pdu_type == message.GET_NEXT:
            self.get_nexts += 1
        else:
            self.get_bulks += 1
        self.request_variables += retrieved

    def serve(self, store: Store, *, authentication_traps: bool = False) -> None:
        """Add the groups snmp and snmpMPDStats to the store.

        Of the objects that RFC 3418 made obsolete, snmpInTotalSetVars and snmpInSetRequests are served here,
        and the others by `gateway.snmp.obsolete_counters`, which also needs the counts of notifications.

        Args:
            store: the store that serves them.
            authentication_traps: snmpEnableAuthenTraps, whether authenticationFailure is sent.
        """
        for name, instance in _INSTANCES.items():
            store.scalar(instance, self._reader(name))
        enabled = _AUTHEN_TRAPS_ENABLED if authentication_traps else _AUTHEN_TRAPS_DISABLED
        store.scalar((*_SNMP, 30, 0), ber.encode_integer(enabled))

    def report(self, name: str) -> tuple[Oid, bytes]:
        """Count one of `REPORTED`, and return its instance and its value, a TLV."""
        setattr(self, name, getattr(self, name) + 1)
        return REPORTED[name], self._reader(name)()

    def serve_version_3(self, store: Store) -> None:
        """Add to the store the groups usmStats (RFC 3414), and the unknown contexts of RFC 3413."""
        for name, instance in REPORTED.items():
            if name not in _INSTANCES:
                store.scalar(instance, self._reader(name))

    def _reader(self, name: str) -> Callable[[], bytes]:
        return lambda: ber.encode_counter32(getattr(self, name) % _WRAP)


class NotificationCounts(msgspec.Struct):
    """Counts of notifications as messages, since the agent's start, over all receivers.

    Attributes:
        datagrams: messages that the operating system took, with retransmissions.
        traps: those of them that are traps.
        engine_questions: those that ask for the engine of a receiver, which are GETs (RFC 3414 section 4).
        received: datagrams that came back.
        statuses: answers to informs, by error-status; one that RFC 3416 does not have counts as -1.
    """

    datagrams: int = 0
    traps: int = 0
    engine_questions: int = 0
    received: int = 0
    statuses: Counter[int] = msgspec.field(default_factory=Counter)
