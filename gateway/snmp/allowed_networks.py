"""Networks from which a community may be used (RFC 3584 section 5.3 calls that a check of source addresses).

UDP lets a sender forge its address, so this keeps out who cannot, and answers do not reach who can.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

Network: TypeAlias = "ipaddress.IPv4Network | ipaddress.IPv6Network"

MAX_REMEMBERED: Final = 4_096
"""The number of addresses whose verdict is remembered; all are forgotten when there are more."""


def _ignored(_: str) -> None:
    """Report nothing."""


class AllowedNetworks:
    """A set of networks; of each address, as the socket module writes it, the verdict is remembered.

    Args:
        networks: the networks, of both versions of IP.
        refused: called with the address of each request that is refused; it limits its own rate.

    Attributes:
        refused: see above.
    """

    def __init__(self, networks: Iterable[Network], refused: Callable[[str], None] = _ignored) -> None:
        self.refused = refused
        self._networks = tuple(networks)
        self._verdicts: dict[str, bool] = {}

    def __contains__(self, address: str) -> bool:
        """Return whether one of the networks has the address; none has what is no address."""
        verdict = self._verdicts.get(address)
        if verdict is None:
            verdict = self._judge(address)
            if len(self._verdicts) >= MAX_REMEMBERED:
                self._verdicts.clear()
            self._verdicts[address] = verdict
        return verdict

    def _judge(self, address: str) -> bool:
        try:
            parsed = ipaddress.ip_address(address.partition("%")[0])  # fe80::1%eth0
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)
