"""The relay session: AMI's console, to which applications connect and tell what they manage."""

from __future__ import annotations

from gateway.dialects.ami.relay_config import LoginRules, RelayConfig, RelayLimits
from gateway.dialects.stream_effects import Peer, StreamEffect
from gateway.model.operations import MethodCall, ObjectFetch
from gateway.model.schema import ClassSchema

__all__ = ["LoginRules", "RelayConfig", "RelayLimits", "RelaySession"]


class RelaySession:
    """A relay of AMI for all applications that connect to one listener, without I/O.

    Every method returns what is to be done; of one call all observations are in one `Observed`, behind which
    stand answers and what is written. Nothing that arrives makes a method raise. ``now`` is the gateway's
    clock in nanoseconds. Agents of the source are the applications, by the name they log in with.
    """

    def __init__(self, config: RelayConfig) -> None:
        self._config = config

    @property
    def schemas(self) -> tuple[ClassSchema, ...]:
        """The latest version of each class: worth keeping for `RelayConfig.schemas`."""
        return ()

    # What the listener tells.

    def started(self, now: int) -> list[StreamEffect]:
        """It listens: the source is synchronised, though nobody may have connected yet."""
        raise NotImplementedError

    def opened(self, connection: int, peer: Peer, now: int) -> list[StreamEffect]:
        """Somebody connected."""
        raise NotImplementedError

    def received(self, connection: int, octets: bytes, now: int) -> list[StreamEffect]:
        """Octets arrived, in order, in pieces of any length."""
        raise NotImplementedError

    def ended(self, connection: int, reason: str, now: int) -> list[StreamEffect]:
        """A connection is over, whoever ended it; ``reason`` says why, for people."""
        raise NotImplementedError

    def stopping(self, now: int) -> list[StreamEffect]:
        """The listener ends: nothing is vouched for any more."""
        raise NotImplementedError

    def tick(self, now: int) -> list[StreamEffect]:
        """The time it asked for has come: objects expire, calls are given up, classes are told anew."""
        raise NotImplementedError

    # What users want done.

    def call(self, call: MethodCall, now: int) -> list[StreamEffect]:
        """Call a command of an application, once; `Answered` says what came of it.

        ``SOURCE_DOWN`` and the outcomes of a check: nothing was sent. ``UNKNOWN``: no answer in time, or the
        connection ended, or an answer that does not say it; another may follow when it comes late.
        """
        raise NotImplementedError

    def fetch(self, fetch: ObjectFetch, now: int) -> list[StreamEffect]:
        """Read an object anew: AMI has no such request, so that is what is answered."""
        raise NotImplementedError
