"""What the virtual machine asks Python: requests and answers, and the one decision behind them so far.

A request is the msgpack array ``[operation, argument, ...]``, an answer ``[status, value]``. No exception
crosses: a JMX client could not read it, and it would tell strangers about our insides.
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import msgpack
import structlog

from gateway.jmx.log_limit import LogLimit

log = structlog.get_logger(__name__)

Authenticate: TypeAlias = Callable[[str, str], Awaitable[bool]]
"""Tells whether somebody who shows this user and password may come in."""

MAX_REQUEST_OCTETS = 65_536


class Status(enum.IntEnum):
    """How a request ended; Java's ``Status`` has the same numbers."""

    APPLIED = 0
    """Done; the value is the result."""
    APPLIED_DIFFERENTLY = 1
    """Done, but another value was found when it was read back; the value is that one."""
    GONE = 2
    """The object is gone."""
    UNKNOWN_ELEMENT = 3
    """No such attribute or operation, or one that is read-only."""
    REFUSED = 4
    """The user may not."""
    BAD_VALUE = 5
    """A value of the wrong type, or an impossible one."""
    NOT_NOW = 6
    """Possible, but not now."""
    FAILED = 7
    """The broker refused or failed; the value says how."""
    UNAVAILABLE = 8
    """The source cannot be reached: nothing was sent."""
    OUTCOME_UNKNOWN = 9
    """No answer in time: it may have been carried out."""


def encode_answer(status: Status, value: object = None) -> bytes:
    """The octets of an answer."""
    packed: bytes = msgpack.packb([int(status), value])
    return packed


class Backend:
    """Answers the requests of the virtual machine.

    Args:
        authenticate: decides who may come in.
    """

    def __init__(self, authenticate: Authenticate) -> None:
        self._authenticate = authenticate
        self._refusals = LogLimit(lines=20, seconds=60)

    async def answer(self, octets: bytes) -> bytes:
        """The answer to a request; to one that makes no sense, `Status.FAILED`."""
        match _decoded(octets):
            case ["authenticate", str(user), str(password), str(client)]:
                if await self._authenticate(user, password):
                    log.info("jmx-login", user=user, client=client)
                    return encode_answer(Status.APPLIED)
                left_out = self._refusals.admit()
                if left_out is not None:
                    log.warning("jmx-login-refused", user=user, client=client, left_out=left_out)
                return encode_answer(Status.REFUSED)
            case _:
                return encode_answer(Status.FAILED, "no such request")


def _decoded(octets: bytes) -> object:
    if len(octets) > MAX_REQUEST_OCTETS:
        return None
    try:
        return msgpack.unpackb(octets)
    except ValueError:
        return None
