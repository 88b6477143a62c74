"""Rights of users on a broker: those that the gateway needs, and the tag that lets a user forge a sender."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self

from gateway.dialects.session import Note
from gateway.mapping.paths import Json
from gateway.sources.rabbitmq.management_api import (
    Answer,
    Broken,
    Document,
    NotManagement,
    Refused,
    Unavailable,
)

OWN_QUEUES: Final = r"^amqp-gateway\."
"""Pattern of the queues that gateway and agent declare: exclusive, and deleted with their connection."""

EVENT_EXCHANGE: Final = "amq.rabbitmq.event"
DIRECT_EXCHANGE: Final = "amq.direct"
MANAGEMENT_EXCHANGE: Final = "qpid.management"
MANAGEMENT_VHOST: Final = "amqp-gateway"
EVENT_VHOST: Final = "/"

ANYTHING: Final = ".*"
NOTHING: Final = "^$"
"""A pattern that matches no name; the empty pattern would mean the same, but reads like a mistake."""


def exactly(name: str) -> str:
    """Return the pattern that matches this name and no other."""
    return f"^{re.escape(name)}$"


@dataclass(frozen=True, slots=True)
class Grant:
    """The permissions of one user in one virtual host: alternatives of regular expressions for each kind.

    A grant without any pattern still matters: the management API shows a virtual host's queues, exchanges and
    connections to a ``monitoring`` user that has any permission there, even for nothing.
    """

    vhost: str
    configure: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()

    def shown(self) -> str:
        """Return the grant for people."""
        kinds = (("configure", self.configure), ("write", self.write), ("read", self.read))
        rights = ", ".join(f"{kind} {'|'.join(patterns)}" for kind, patterns in kinds)
        return f"in virtual host {self.vhost!r}: {rights}"

    def joined(self, other: Self) -> Self:
        """Return the union of two grants in the same virtual host."""
        return type(self)(
            self.vhost,
            _union(self.configure, other.configure),
            _union(self.write, other.write),
            _union(self.read, other.read),
        )

    def permissions(self) -> dict[str, str]:
        """Return the three regular expressions, as the management API takes them."""
        return {
            "configure": "|".join(self.configure) or NOTHING,
            "write": "|".join(self.write) or NOTHING,
            "read": "|".join(self.read) or NOTHING,
        }


@dataclass(frozen=True, slots=True)
class UserRights:
    """The tags of one user and its grants, one for each virtual host."""

    tags: tuple[str, ...]
    grants: tuple[Grant, ...]

    @classmethod
    def of(cls, tags: Iterable[str], grants: Iterable[Grant]) -> Self:
        """Return rights with the grants of a virtual host joined, in the order of their first occurrence."""
        by_vhost: dict[str, Grant] = {}
        for grant in grants:
            known = by_vhost.get(grant.vhost)
            by_vhost[grant.vhost] = grant if known is None else known.joined(grant)
        return cls(tuple(tags), tuple(by_vhost.values()))


def watching(vhost: str) -> Grant:
    """Return the grant to read a virtual host's queues, exchanges and connections from the management API."""
    return Grant(vhost)


def consuming_events(vhost: str = EVENT_VHOST) -> Grant:
    """Return the grant to consume the broker's events from a queue of the user's own."""
    return Grant(vhost, (OWN_QUEUES,), (OWN_QUEUES,), (OWN_QUEUES, exactly(EVENT_EXCHANGE)))


def being_console(vhost: str = MANAGEMENT_VHOST, exchange: str = MANAGEMENT_EXCHANGE) -> Grant:
    """Return the grant to send requests to agents, and to receive what they publish and reply."""
    return Grant(
        vhost,
        (OWN_QUEUES,),
        (OWN_QUEUES, exactly(exchange)),
        (OWN_QUEUES, exactly(exchange), exactly(DIRECT_EXCHANGE)),
    )


def being_agent(vhost: str = MANAGEMENT_VHOST, exchange: str = MANAGEMENT_EXCHANGE) -> Grant:
    """Return the grant to declare the management exchange, receive requests, publish, and reply."""
    return Grant(
        vhost,
        (OWN_QUEUES, exactly(exchange)),
        (OWN_QUEUES, exactly(exchange), exactly(DIRECT_EXCHANGE)),
        (OWN_QUEUES, exactly(exchange)),
    )


def gateway_rights(
    watched: Iterable[str] = (EVENT_VHOST,),
    management_vhost: str = MANAGEMENT_VHOST,
    event_vhost: str = EVENT_VHOST,
    exchange: str = MANAGEMENT_EXCHANGE,
) -> UserRights:
    """Return the rights of a gateway that reads RabbitMQ itself, and is a console of agents on it.

    Args:
        watched: the virtual hosts whose objects it may see.
        management_vhost: the virtual host of the management exchange; empty for a gateway that only reads.
        event_vhost: the virtual host of the event exchange.
        exchange: the management exchange.
    """
    grants = [*map(watching, watched), consuming_events(event_vhost)]
    if management_vhost:
        grants.append(being_console(management_vhost, exchange))
    return UserRights.of(("monitoring",), grants)


def agent_rights(
    watched: Iterable[str] = (EVENT_VHOST,),
    management_vhost: str = MANAGEMENT_VHOST,
    event_vhost: str = EVENT_VHOST,
    exchange: str = MANAGEMENT_EXCHANGE,
) -> UserRights:
    """Return the rights of the RabbitMQ agent in a separate process; arguments as for `gateway_rights`."""
    grants = [*map(watching, watched), consuming_events(event_vhost), being_agent(management_vhost, exchange)]
    return UserRights.of(("monitoring",), grants)


def asking_by_cml(vhost: str, system: str, reply: str, notify: str) -> UserRights:
    """Return the rights of a console of CML: send requests, receive replies and notifications.

    Args:
        vhost: the virtual host of the exchanges.
        system: the exchange for requests.
        reply: the exchange for replies.
        notify: the exchange for notifications; empty for none.
    """
    readable = (OWN_QUEUES, exactly(reply), *((exactly(notify),) if notify else ()))
    return UserRights((), (Grant(vhost, (OWN_QUEUES,), (OWN_QUEUES, exactly(system)), readable),))


def serving_cml(vhost: str, system: str, reply: str, notify: str) -> UserRights:
    """Return the rights of a server of CML, whose queue is named like the gateway's; arguments as before."""
    said = (OWN_QUEUES, exactly(reply), *((exactly(notify),) if notify else ()))
    return UserRights((), (Grant(vhost, (OWN_QUEUES,), said, (OWN_QUEUES, exactly(system))),))


def changing(vhost: str) -> Grant:
    """Return the grant to delete the contents of a virtual host, and to purge its queues."""
    return Grant(vhost, (ANYTHING,), (ANYTHING,), (ANYTHING,))


def writer_rights(watched: Iterable[str] = (EVENT_VHOST,)) -> UserRights:
    """Return the rights of a user who changes the broker for a gateway or agent, and does nothing else.

    Args:
        watched: the virtual hosts whose objects may be changed.
    """
    return UserRights.of(("administrator",), map(changing, watched))


def _union(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


TAG = "impersonator"
TAGS_EVENT = "user.tags.set"
"""The broker's event that a user's tags were set."""
PERMISSION_EVENTS: Final = ("permission.created", "permission.deleted")
"""The broker's events that a user's permission in a virtual host was set, or deleted."""


def host_of_permission(key: str, headers: Mapping[str, Json], user: str) -> str | None:
    """Return the virtual host in which an event reports another permission of a user; ``None`` for none."""
    host = headers.get("vhost")
    is_meant = key in PERMISSION_EVENTS and headers.get("user") == user
    return host if is_meant and isinstance(host, str) else None


def impersonators(users: Json) -> tuple[str, ...] | None:
    """Return the users tagged ``impersonator``, by name; ``None`` if ``users`` is no listing of users.

    Args:
        users: the management API's answer, with at least ``name`` and ``tags``.
    """
    if not isinstance(users, list):
        return None
    found: set[str] = set()
    for user in users:
        if not isinstance(user, Mapping):
            return None
        name, tags = user.get("name"), tags_of(user)
        if not isinstance(name, str) or tags is None:
            return None
        if TAG in tags:
            found.add(name)
    return tuple(sorted(found))


def tags_of(user: Mapping[str, Json]) -> tuple[str, ...] | None:
    """Return the tags of one user of the management API; ``None`` if it lacks them."""
    tags = user.get("tags")
    # One text with commas before RabbitMQ 3.9, a list since.
    listed = tags.split(",") if isinstance(tags, str) else tags
    if not isinstance(listed, list):
        return None
    return tuple(tag.strip() for tag in listed if isinstance(tag, str) and tag.strip())


class ImpersonatorCheck:
    """Knows which users carry the tag, and which of them were reported.

    RabbitMQ checks the ``user_id`` of every message, except of those that a user tagged ``impersonator``
    sends. Only an administrator may read who carries the tag. A connection keeps the tags that its user had
    when it was opened, so the user's connections must be closed, too, after the tag was removed.

    Args:
        allowed: the users whose requests are served. If one of them carries the tag, that adds nothing.
        reader: the user who reads the management API.

    Attributes:
        distrust: why no request is served now, in one line; empty if requests are served. A failed reading
            leaves it unchanged.
    """

    def __init__(self, allowed: frozenset[str], reader: str) -> None:
        self.distrust = ""
        self._allowed = allowed
        self._reader = reader
        self._unchecked = ""

    def learn(self, answer: Answer) -> list[Note]:
        """Take the answer to the request for users; return a note on changes."""
        tagged = impersonators(answer.body) if isinstance(answer, Document) else None
        if tagged is None:
            return self._not_checked(_reason(answer))
        self._unchecked = ""
        text = _distrust([name for name in tagged if name not in self._allowed])
        if text == self.distrust:
            return []
        self.distrust = text
        if text:
            return [Note("impersonator", text)]
        return [
            Note("impersonator-gone", f"no other user carries the tag '{TAG}': requests are served again")
        ]

    def _not_checked(self, reason: str) -> list[Note]:
        if reason == self._unchecked:
            return []
        self._unchecked = reason
        text = (
            f"not checked whether a user tagged '{TAG}' could forge the senders that are accepted: user"
            f" {self._reader!r} cannot read the users ({reason}); keep that tag off the users of this broker"
        )
        return [Note("impersonators-not-checked", text)]


def _distrust(others: list[str]) -> str:
    if not others:
        return ""
    more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
    return (
        f"user {others[0]!r}{more} carries the tag '{TAG}' and can forge any sender, so no request is"
        " accepted: take the tag away and close that user's connections, which keep it"
    )


def _reason(answer: Answer) -> str:
    match answer:
        case Refused(reason=reason) | Broken(reason) | Unavailable(reason) | NotManagement(reason):
            return reason
    return "the answer is no listing of users"
