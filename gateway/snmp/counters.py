"""What the agent counts of the messages it gets: the groups snmp (RFC 3418) and snmpMPDStats (RFC 3412)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.store import Store

_SNMP: Final[Oid] = (1, 3, 6, 1, 2, 1, 11)
_MPD_STATS: Final[Oid] = (1, 3, 6, 1, 6, 3, 11, 2, 1)
_WRAP: Final = 1 << 32
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


@dataclass(slots=True)
class SnmpCounters:
    """Counts since the agent's start; each is the object of its name in the groups above.

    ``internal_errors`` and ``unsent`` have no standard object: requests that met an error of the agent's own,
    and answers that the operating system did not take. Nor have ``get_requests`` and the like, whose objects
    RFC 3418 made obsolete, nor these of SETs: ``set_statuses``, how often each error-status (as of version
    2c) was answered, without SETs that came again, which are ``set_retransmissions``; and
    ``sets_without_room``, which were refused because too many wait or are remembered.
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
    internal_errors: int = 0
    unsent: int = 0
    get_requests: int = 0
    get_nexts: int = 0
    get_bulks: int = 0
    set_requests: int = 0
    set_variables: int = 0
    set_retransmissions: int = 0
    sets_without_room: int = 0
    set_statuses: Counter[int] = field(default_factory=Counter)

    def serve(self, store: Store, *, authentication_traps: bool = False) -> None:
        """Put both groups into the store.

        Of the objects that RFC 3418 made obsolete only snmpInTotalSetVars and snmpInSetRequests: nothing else
        tells a manager whether anybody changes anything.

        Args:
            store: where they are served.
            authentication_traps: snmpEnableAuthenTraps, whether authenticationFailure is sent.
        """
        for name, instance in _INSTANCES.items():
            store.scalar(instance, self._reader(name))
        enabled = _AUTHEN_TRAPS_ENABLED if authentication_traps else _AUTHEN_TRAPS_DISABLED
        store.scalar((*_SNMP, 30, 0), ber.encode_integer(enabled))

    def _reader(self, name: str) -> Callable[[], bytes]:
        return lambda: ber.encode_counter32(getattr(self, name) % _WRAP)
