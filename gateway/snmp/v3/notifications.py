"""Notifications of version 3: traps from this gateway's engine, informs to the engine of the receiver.

For a trap the sender is the authoritative engine, for an inform the receiver is (RFC 3414 section 1.5.1). In
the place of the first inform to a receiver the question for its engine is sent; when the engine has answered
it, that inform is sent at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Container

from gateway.snmp import message
from gateway.snmp.ber import BerError
from gateway.snmp.notifications.encoding import MAX_DATAGRAM_OCTETS, notification_pdu
from gateway.snmp.notifications.secured import NoKeysError, Reply, ReplyKind
from gateway.snmp.v3.remote import (
    Answered,
    NotAcceptedError,
    RemoteEngine,
    Reported,
    UserAt,
    encode_notification,
)
from gateway.snmp.v3.security import SecurityModel
from gateway.snmp.v3.users import SecurityLevel


class SecuredTraps:
    """The traps that one user sends.

    Args:
        model: this gateway's engine, with the user.
        user: the name of the user.
        level: the security level.

    Raises:
        ValueError: the model has no such user.
    """

    def __init__(self, model: SecurityModel, user: str, level: SecurityLevel) -> None:
        found = model.users.get(user.encode())
        if found is None:
            raise ValueError(f"no user {user!r}")
        self.user = user
        self.level = level
        self._model = model
        self._keyed = found

    @property
    def asks_for_engine(self) -> bool:
        """False: the engine is this agent's own."""
        return False

    def datagram(self, request_id: int, varbinds: bytes, now: int) -> bytes:
        """Return a trap; ``varbinds`` is the TLV of the list."""
        del now  # the engine has its own clock
        pdu = notification_pdu(message.TRAP_V2, request_id, varbinds)
        return encode_notification(self._model, self._keyed, self.level, request_id, MAX_DATAGRAM_OCTETS, pdu)

    def receive(self, datagram: bytes, awaited: Container[int], now: int) -> Reply | None:
        """Return ``None``: a trap is not answered."""
        del datagram, awaited, now
        return None


class SecuredInforms:
    """The informs that one user sends to one receiver.

    Args:
        remote: the engine of the receiver; the keys of the user for it raise `NoKeysError` if there are none.
        user: the name of the user.
        level: the security level of ``remote``.
        no_keys: called with the engine id, in hexadecimal digits, where the user has no keys for it.
    """

    def __init__(
        self, remote: RemoteEngine, user: str, level: SecurityLevel, no_keys: Callable[[str], None]
    ) -> None:
        self.user = user
        self.level = level
        self._remote = remote
        self._no_keys = no_keys

    def use(self, user: UserAt, level: SecurityLevel) -> None:
        """Send with other keys of the same user from now on."""
        self.level = level
        with contextlib.suppress(NoKeysError):  # reported when the engine is found out again
            self._remote.use(user, level)

    @property
    def asks_for_engine(self) -> bool:
        """Whether `datagram` returns the question for the engine, because that is unknown."""
        return not self._remote.engine_id

    def datagram(self, request_id: int, varbinds: bytes, now: int) -> bytes:
        """Return an inform, or the question for the engine while that is unknown; ``now`` is monotonic."""
        return self._remote.request(request_id, notification_pdu(message.INFORM, request_id, varbinds), now)

    def receive(self, datagram: bytes, awaited: Container[int], now: int) -> Reply | None:
        """Return what a datagram of the receiver says; ``None`` if nothing that can be trusted.

        Args:
            datagram: the message.
            awaited: the request ids of informs without an answer.
            now: monotonic nanoseconds.
        """
        try:
            received = self._remote.receive(datagram, awaited, now)
        except NoKeysError as error:
            self._no_keys(str(error))
            return None
        except (BerError, NotAcceptedError):
            return None
        if isinstance(received, Answered):
            response = received.response
            kind = ReplyKind.REFUSED if response.first else ReplyKind.ACCEPTED
            return Reply(response.request_id, kind, response.first)
        # A report that is not about engine or time says that the receiver does not know the user, or has
        # other keys: that may be mended there, so the inform is sent again at its time.
        return None if isinstance(received, Reported) else Reply(received.message_id, ReplyKind.RESEND)
