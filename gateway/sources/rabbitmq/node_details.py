"""What nodes are asked for seldom: the use of their memory, the expiry of their certificates. Without I/O.

A node measures its memory for each answer, and reads its files of certificates for the other. So each is
asked seldom, and none before everything else has been read.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gateway.mapping.paths import Json, integer_at
from gateway.model.times import MINUTE, SECOND
from gateway.sources.rabbitmq.management_api import (
    Answer,
    CertificatesRequest,
    DetailRequest,
    Document,
    NodeMemoryRequest,
    Refused,
)

INTERVAL: Final = MINUTE
"""Nanoseconds between two questions to a node for its memory."""
_KEPT: Final = 3 * INTERVAL
"""Nanoseconds for which an answer about memory is shown."""
MAX_NODES: Final = 20
"""Maximum number of nodes that are asked for their memory, by name; of others there is no breakdown."""

CERTIFICATES_INTERVAL: Final = 60 * MINUTE
"""Nanoseconds between two questions for certificates, to the node that answers."""
_EXPIRY_KEPT: Final = 24 * CERTIFICATES_INTERVAL
"""Nanoseconds for which an expiry is shown: a node that cannot read its files answers with an error."""
EXPIRING: Final = 30 * 24 * 60 * MINUTE
"""Nanoseconds before its expiry from which a certificate is one that expires soon."""

_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "connections": ("connection_readers", "connection_writers", "connection_channels", "connection_other"),
    "queues": (
        *("queue_procs", "queue_slave_procs", "quorum_queue_procs", "quorum_queue_dlx_procs"),
        *("stream_queue_procs", "stream_queue_replica_reader_procs", "stream_queue_coordinator_procs"),
    ),
    "plugins": ("plugins",),
    "processes": ("other_proc",),
    "metrics": ("metrics", "mgmt_db"),
    "definitions": ("mnesia", "metadata_store", "metadata_store_ets"),
    "tables": ("quorum_ets", "other_ets"),
    "binaries": ("binary",),
    "message_index": ("msg_index",),
    "code": ("code",),
    "atoms": ("atom",),
    "system": ("other_system",),
    "unused": ("allocated_unused",),
    "reserved": ("reserved_unallocated",),
}
"""The parts of a node's memory that are shown, each with RabbitMQ's names of what belongs to it."""


def memory_parts(answer: Json) -> dict[str, Json]:
    """Return the size in bytes of each part in an answer of ``nodes/NAME/memory``; without those it lacks."""
    memory = answer.get("memory") if isinstance(answer, Mapping) else None
    if not isinstance(memory, Mapping):
        return {}
    parts: dict[str, Json] = {}
    for part, names in _PARTS.items():
        octets = [size for name in names if (size := integer_at(memory, name)) is not None]
        if octets:
            parts[part] = sum(octets)
    return parts


def expiries(answer: Json) -> dict[str, int]:
    """Return by node when the first of its certificates expires (ns), from RabbitMQ's check of certificates.

    The check names the listeners of the node that answers, each with the expiry of every certificate in its
    files, also of authorities: ``2026-12-19 3:03:03``, in UTC. A node without listeners for TLS is not in it.
    """
    expired = answer.get("expired") if isinstance(answer, Mapping) else None
    first: dict[str, int] = {}
    for listener in expired if isinstance(expired, list) else ():
        if not isinstance(listener, Mapping) or not isinstance(node := listener.get("node"), str):
            continue
        for key in ("certfile_expires_on", "cacertfile_expires_on"):
            times = listener.get(key)
            for text in times if isinstance(times, list) else ():
                if (time := _time_of(text)) is not None:
                    first[node] = min(time, first.get(node, time))
    return first


def _time_of(text: Json) -> int | None:
    try:
        time = dt.datetime.strptime(str(text), "%Y-%m-%d %H:%M:%S").replace(tzinfo=dt.UTC)
    except ValueError:
        return None
    return int(time.timestamp()) * SECOND


class NodeDetails:
    """The last answers of each node, and which nodes are asked next."""

    def __init__(self) -> None:
        self._parts: dict[str, tuple[int, dict[str, Json]]] = {}
        self._expiries: dict[str, tuple[int, int]] = {}
        self._memory_due = 0
        self._certificates_due = 0

    def to_ask(self, running: Iterable[str], now: int, *, has_tls: bool) -> Iterator[DetailRequest]:
        """Yield the requests that are due; ``has_tls``: some listener has a certificate."""
        if now >= self._memory_due:
            self._memory_due = now + INTERVAL
            yield from map(NodeMemoryRequest, sorted(running)[:MAX_NODES])
        if has_tls and now >= self._certificates_due:
            self._certificates_due = now + CERTIFICATES_INTERVAL
            yield CertificatesRequest()

    def take(self, request: DetailRequest, answer: Answer, now: int, *, refused_pause: int) -> None:
        """Take an answer at ``now`` (ns); one that says nothing leaves the former one for a while.

        ``refused_pause``: nanoseconds until nodes are asked for their memory again, if that is refused.
        """
        match request, answer:
            case NodeMemoryRequest(node), Document(body) if parts := memory_parts(body):
                self._parts[node] = now, parts
            case NodeMemoryRequest(), Refused():
                self._memory_due = now + refused_pause
            case CertificatesRequest(), Document(body):
                self._expiries |= {node: (now, expiry) for node, expiry in expiries(body).items()}

    def of(self, node: str, now: int) -> dict[str, Json]:
        """Return what is known of a node now: the fields that the mapping reads."""
        read_at, parts = self._parts.get(node, (0, {}))
        known: dict[str, Json] = {"memory": parts if now - read_at <= _KEPT else {}}
        asked, expiry = self._expiries.get(node, (0, 0))
        if expiry and now - asked <= _EXPIRY_KEPT:
            known |= {"certificates_expire": expiry, "certificates_expiring": expiry - now <= EXPIRING}
        return known

    def forget(self, node: str) -> None:
        """Drop what a node answered: it was started again, perhaps with other certificates."""
        self._parts.pop(node, None)
        self._expiries.pop(node, None)
        self._certificates_due = 0

    def retain(self, names: set[str]) -> None:
        """Forget all other nodes."""
        self._parts = {name: one for name, one in self._parts.items() if name in names}
        self._expiries = {name: one for name, one in self._expiries.items() if name in names}
