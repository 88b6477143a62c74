"""What a writer can read: what everybody can, and the own commands."""

from __future__ import annotations

from heapq import merge

from gateway.snmp import ber
from gateway.snmp.store import MibView


class JoinedView:
    """Two views as one; nothing is in both.

    Args:
        common: what everybody can read.
        own: little beside it, and often nothing.
    """

    def __init__(self, common: MibView, own: MibView) -> None:
        self._common = common
        self._own = own

    def read(self, name: bytes) -> bytes:
        """As `MibView.read`."""
        value = self._own.read(name)
        if value == ber.NO_SUCH_OBJECT:
            return self._common.read(name)
        return value

    def walk(self, name: bytes, limit: int, *, counter64: bool = True) -> tuple[list[bytes], bytes]:
        """As `MibView.walk`."""
        common, last_common = self._common.walk(name, limit, counter64=counter64)
        own, last_own = self._own.walk(name, limit, counter64=counter64)
        if not own:
            return common, last_common
        if not common:
            return own, last_own
        if len(common) == limit and _key(common[-1]) < _key(own[0]):
            return common, last_common
        joined = list(merge(common, own, key=_key))[:limit]
        return joined, _name(joined[-1])


def _name(varbind: bytes) -> bytes:
    """The name in an encoded varbind."""
    _, start, stop = ber.read_header(varbind, 0, len(varbind))
    return ber.read_name(varbind, start, stop)[0]


def _key(varbind: bytes) -> bytes:
    return ber.sort_key(ber.decode_name(_name(varbind)))
