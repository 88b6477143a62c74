"""The requests of a case in messages of version 3, authenticated and encrypted for one agent."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from gateway.snmp import ber, message
from gateway.snmp.message import Request
from gateway.snmp.v3.algorithms import AES128, SHA256
from gateway.snmp.v3.ciphers import Salts
from gateway.snmp.v3.remote import Answered, Discovered, RemoteEngine, Synchronised
from gateway.snmp.v3.users import SecurityLevel, credentials
from tests.bench.snmp.agents import PASSPHRASES, USER, Agent
from tests.bench.snmp.requests import Questions
from tests.snmp.net_snmp import exchange

_LARGEST: Final = 65_507
_ALL_IDS: Final = range(1 << 31)


class SecuredAgent:
    """An agent whose engine, and its time, are known to the user of the benchmark.

    Args:
        agent: the agent; it knows the user, with SHA-256 and AES-128.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        user = credentials(USER, SHA256, PASSPHRASES[0], AES128, PASSPHRASES[1])
        self._remote = RemoteEngine(user, SecurityLevel.AUTH_PRIV, Salts(1), _LARGEST)
        self._synchronise()

    def questions(self, questions: Questions) -> Questions:
        """Return the questions as messages to this agent, good for two minutes from now."""
        return replace(questions, requests=[*self._secured(questions)])

    def answer(self, question: bytes) -> Request:
        """Return the answer to one of `questions`."""
        received = self._received(question)
        assert isinstance(received, Answered), received
        return received.response

    def _secured(self, questions: Questions) -> Iterator[bytes]:
        for datagram in questions.requests:
            envelope = message.read_message(datagram)
            pdu = ber.encode_tlv(envelope.pdu_type, datagram[envelope.start : envelope.stop])
            request = message.read_request(datagram, envelope.start, envelope.stop)
            yield self._remote.request(request.request_id, pdu, time.monotonic_ns())

    def _synchronise(self) -> None:
        pdu = message.encode_pdu(message.GET, 1, 0, 0, [])
        kinds: list[type] = []
        while not kinds or kinds[-1] is not Answered:
            kinds.append(type(self._received(self._remote.request(1, pdu, time.monotonic_ns()))))
            assert kinds in ([Discovered], [Discovered, Synchronised], [Discovered, Synchronised, Answered])

    def _received(self, question: bytes) -> object:
        now = time.monotonic_ns()
        return self._remote.receive(exchange(self._agent.port, question), _ALL_IDS, now)
