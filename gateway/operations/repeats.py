"""Requests that come again: a north that was restarted does not know that it has asked for them before."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from gateway.feed.operations import OperationAnswer, OperationRequest

KEEP: Final = 60 * 10**9
"""Nanoseconds for which a request is known again, from its first coming on, or while it is carried out.

No longer than a north knows its own: the same reference may mean another request after that.
"""

MAX_REMEMBERED: Final = 4096
"""Operations that have ended; beyond it the one that ended first is forgotten."""

_Key = tuple[str, str]


class Repeats:
    """Operations by principal and what their north calls them; without such a name none is known."""

    def __init__(self) -> None:
        self._running: dict[_Key, tuple[int, int]] = {}
        self._ended: OrderedDict[_Key, tuple[OperationAnswer, int]] = OrderedDict()

    def begin(self, request: OperationRequest, number: int, now: int) -> None:
        """The operation of this number carries ``request`` out."""
        if request.reference:
            self._running[_key(request)] = number, now

    def end(self, request: OperationRequest, answer: OperationAnswer) -> None:
        """It has ended so."""
        begun = self._running.pop(_key(request), None)
        if begun is not None:
            self._ended[_key(request)] = answer, begun[1]
            if len(self._ended) > MAX_REMEMBERED:
                self._ended.popitem(last=False)

    def running(self, request: OperationRequest) -> int | None:
        """The number of the operation that carries the same request out now."""
        number, _ = self._running.get(_key(request), (None, 0))
        return number

    def ended(self, request: OperationRequest, now: int) -> OperationAnswer | None:
        """What was answered to the same request."""
        answer, began = self._ended.get(_key(request), (None, 0))
        if answer is not None and now - began >= KEEP:
            del self._ended[_key(request)]
            return None
        return answer


def _key(request: OperationRequest) -> _Key:
    return str(request.principal), request.reference
