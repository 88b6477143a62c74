"""The question of the health check in SNMP version 3. The module loads the cryptographic library."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence

from gateway.clock import SystemClock
from gateway.config.files import LoadedConfiguration
from gateway.service.processes.command_errors import command_errors
from gateway.service.processes.snmp_users import running_security
from gateway.snmp import ber, message
from gateway.snmp.message import Request
from gateway.snmp.v3.remote import Answered, NotAcceptedError, RemoteEngine, Reported
from gateway.state_folder import StateFolder

_REQUEST_IDS = 2**31


def question_by_user(loaded: LoadedConfiguration, names: Sequence[bytes]) -> QuestionByUser | None:
    """Return a GET by the first user who can log in; ``None`` without version 3 or such a user.

    Raises:
        CommandError: the state folder cannot be read.
    """
    with command_errors():
        security = running_security(loaded, StateFolder(loaded.state_folder), SystemClock())
    if "v3" not in loaded.settings.snmp.versions or not security.users:
        return None
    return QuestionByUser(security.remote(next(iter(security.users))), names)


class QuestionByUser:
    """A GET in version 3 of encoded names."""

    def __init__(self, remote: RemoteEngine, names: Sequence[bytes]) -> None:
        self._remote = remote
        self._request_id = secrets.randbelow(_REQUEST_IDS)
        varbinds = [ber.encode_varbind(name, ber.NULL) for name in names]
        self._pdu = message.encode_pdu(message.GET, self._request_id, 0, 0, varbinds)

    def request(self) -> bytes:
        """Return the datagram to send: before the engine and its time are known, the question for them."""
        return self._remote.request(self._request_id, self._pdu, time.monotonic_ns())

    def receive(self, datagram: bytes) -> Request | None:
        """Return the response; ``None`` where engine or time are known now, so that the request can be sent.

        Raises:
            BerError: the datagram is no answer to this GET.
        """
        try:
            received = self._remote.receive(datagram, {self._request_id}, time.monotonic_ns())
        except NotAcceptedError as error:
            raise ber.BerError("an answer", str(error)) from error
        if isinstance(received, Answered):
            return received.response
        if isinstance(received, Reported):
            raise ber.BerError("an answer", received.counter)
        return None
