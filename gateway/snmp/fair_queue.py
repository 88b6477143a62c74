"""Requests that wait, answered in turns of their senders' addresses, so that no manager starves the others.

This is deficit round robin (M. Shreedhar, G. Varghese: Efficient Fair Queueing Using Deficit Round Robin,
1995) whose cost is the time that answers take: it is known only afterwards, so an address that used more than
its share owes the rest. Without a socket and a clock.
"""

from __future__ import annotations

from collections import deque
from typing import Final, Generic, TypeVar

QUANTUM: Final = 0.000_5
"""The seconds of answering that each address has in a round: some 40 GETs, or a large GETBULK."""

MAX_WAITING_OF_ONE: Final = 256 << 10
"""The octets that may wait of one address, with `OVERHEAD`: some 800 usual requests."""

MAX_WAITING: Final = 4 << 20
"""The octets that may wait of all addresses together, with `OVERHEAD`."""

MAX_ADDRESSES: Final = 1_024
"""The number of addresses that have turns of their own; further ones, perhaps forged, share one."""

OVERHEAD: Final = 256
"""The octets that a waiting request counts beside its own."""

_MAX_DEBT: Final = 20 * QUANTUM
_ALL_OTHERS: Final = ""  # no address

Request = TypeVar("Request")


class _Share(Generic[Request]):
    """The waiting requests of one address, each with its octets; ``credit`` is in seconds."""

    __slots__ = ("address", "credit", "octets", "waiting")

    def __init__(self, address: str) -> None:
        self.address = address
        self.waiting: deque[tuple[Request, int]] = deque()
        self.octets = 0
        self.credit = QUANTUM


class FairQueue(Generic[Request]):
    """Requests in turns of their senders' addresses; those of one address stay in their order."""

    def __init__(self) -> None:
        self._shares: dict[str, _Share[Request]] = {}
        self._turns: deque[_Share[Request]] = deque()
        self._last: _Share[Request] = _Share(_ALL_OTHERS)
        self._octets = 0
        self._longest = 0  # no address has more octets; perhaps all have less

    def __len__(self) -> int:
        """Return the number of waiting requests."""
        return sum(len(share.waiting) for share in self._turns)

    def add(self, address: str, request: Request, octets: int) -> int:
        """Add a request, and drop others or this one where there is no room.

        Where one address has too much, its oldest requests are dropped: their sender has waited longest, and
        probably sent them again. Where all together have too much, the address with the most loses.

        Args:
            address: the sender's address, without its port.
            request: what `take` returns.
            octets: the size of the request.

        Returns:
            The number of requests dropped.
        """
        octets += OVERHEAD
        share = self._shares.get(address)
        if share is None and len(self._shares) >= MAX_ADDRESSES:
            address = _ALL_OTHERS
            share = self._shares.get(address)
        share = share or _Share(address)
        dropped = 0
        while share.octets + octets > MAX_WAITING_OF_ONE:
            dropped += self._drop_oldest(share)
        while self._octets + octets > MAX_WAITING:
            # The address with the most is searched only where this one has much less, so that a flood, also
            # of many forged addresses, costs no search for each of its datagrams.
            if 2 * (share.octets + octets) < self._longest:
                dropped += self._halve_longest()
            elif share.waiting:
                dropped += self._drop_oldest(share)
            else:
                return dropped + 1
        if not share.waiting:
            self._shares[address] = share
            self._turns.append(share)
        share.waiting.append((request, octets))
        share.octets += octets
        self._octets += octets
        self._longest = max(self._longest, share.octets)
        return dropped

    def take(self) -> Request | None:
        """Remove and return the request whose turn it is; ``None`` where none waits."""
        turns = self._turns
        while turns:
            share = turns[0]
            if share.credit > 0:
                request, octets = share.waiting.popleft()
                share.octets -= octets
                self._octets -= octets
                if not share.waiting:
                    turns.popleft()
                    del self._shares[share.address]
                self._last = share
                return request
            # One that is alone takes time from no other.
            share.credit = QUANTUM if len(turns) == 1 else share.credit + QUANTUM
            turns.rotate(-1)
        self._longest = 0
        return None

    def charge(self, seconds: float) -> None:
        """Charge the address of the request that was taken last with the time that the answer took."""
        self._last.credit = max(self._last.credit - seconds, -_MAX_DEBT)

    def _halve_longest(self) -> int:
        """Drop the older half of the requests of the address with the most octets; return their number."""
        share = max(self._turns, key=lambda share: share.octets)
        self._longest = share.octets
        dropped, half = 0, share.octets // 2
        while share.octets > half:
            dropped += self._drop_oldest(share)
        return dropped

    def _drop_oldest(self, share: _Share[Request]) -> int:
        _, octets = share.waiting.popleft()
        share.octets -= octets
        self._octets -= octets
        if not share.waiting:
            self._turns.remove(share)
            del self._shares[share.address]
        return 1
