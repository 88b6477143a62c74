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
"""Queues that gateway and agent declare for themselves, exclusive and deleted with their connection."""

EVENT_EXCHANGE: Final = "amq.rabbitmq.event"
DIRECT_EXCHANGE: Final = "amq.direct"
MANAGEMENT_EXCHANGE: Final = "qpid.management"
MANAGEMENT_VHOST: Final = "amqp-gateway"
EVENT_VHOST: Final = "/"

ANYTHING: Final = ".*"
NOTHING: Final = "^$"
"""A pattern for no named resource; the empty pattern would mean the same, but reads like a mistake."""


def exactly(name: str) -> str:
    """The pattern that matches this name and no other."""
    return f"^{re.escape(name)}$"


@dataclass(frozen=True, slots=True)
class Grant:
    """What one user may do in one virtual host: alternatives of regular expressions for each kind.

    A grant without any pattern still matters: the management API shows a virtual host's queues, exchanges
    and connections to a ``monitoring`` user that has any permission there, be it for nothing.
    """

    vhost: str
    configure: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()

    def joined(self, other: Self) -> Self:
        """What either of two grants in the same virtual host allows."""
        return type(self)(
            self.vhost,
            _union(self.configure, other.configure),
            _union(self.write, other.write),
            _union(self.read, other.read),
        )

    def permissions(self) -> dict[str, str]:
        """The three regular expressions, as the management API takes them."""
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
        """Rights with the grants in the same virtual host joined, in the order in which they come first."""
        by_vhost: dict[str, Grant] = {}
        for grant in grants:
            known = by_vhost.get(grant.vhost)
            by_vhost[grant.vhost] = grant if known is None else known.joined(grant)
        return cls(tuple(tags), tuple(by_vhost.values()))


def watching(vhost: str) -> Grant:
    """To read a virtual host's queues, exchanges and connections from the management API."""
    return Grant(vhost)


def hearing_events(vhost: str = EVENT_VHOST) -> Grant:
    """To consume the broker's events through a queue of one's own."""
    return Grant(vhost, (OWN_QUEUES,), (OWN_QUEUES,), (OWN_QUEUES, exactly(EVENT_EXCHANGE)))


def being_console(vhost: str = MANAGEMENT_VHOST, exchange: str = MANAGEMENT_EXCHANGE) -> Grant:
    """To ask agents through the management exchange, and hear what they publish and reply."""
    return Grant(
        vhost,
        (OWN_QUEUES,),
        (OWN_QUEUES, exactly(exchange)),
        (OWN_QUEUES, exactly(exchange), exactly(DIRECT_EXCHANGE)),
    )


def being_agent(vhost: str = MANAGEMENT_VHOST, exchange: str = MANAGEMENT_EXCHANGE) -> Grant:
    """To declare the management exchange, hear requests on it, publish on it, and reply to consoles."""
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
    """Rights of a gateway that reads RabbitMQ itself, and is a console of agents on it.

    Args:
        watched: the virtual hosts whose objects it may see.
        management_vhost: where the management exchange is; empty for a gateway that only reads.
        event_vhost: where the event exchange is.
        exchange: the management exchange.
    """
    grants = [*map(watching, watched), hearing_events(event_vhost)]
    if management_vhost:
        grants.append(being_console(management_vhost, exchange))
    return UserRights.of(("monitoring",), grants)


def agent_rights(
    watched: Iterable[str] = (EVENT_VHOST,),
    management_vhost: str = MANAGEMENT_VHOST,
    event_vhost: str = EVENT_VHOST,
    exchange: str = MANAGEMENT_EXCHANGE,
) -> UserRights:
    """Rights of the RabbitMQ agent in a process of its own; arguments as for `gateway_rights`."""
    grants = [*map(watching, watched), hearing_events(event_vhost), being_agent(management_vhost, exchange)]
    return UserRights.of(("monitoring",), grants)


def asking_by_cml(vhost: str, system: str, reply: str, notify: str) -> UserRights:
    """Rights of a console of CML: to ask through ``system``, and hear replies and notifications.

    Args:
        vhost: where the exchanges are.
        system: that requests are published to.
        reply: that replies are.
        notify: that notifications are; empty for none.
    """
    heard = (OWN_QUEUES, exactly(reply), *((exactly(notify),) if notify else ()))
    return UserRights((), (Grant(vhost, (OWN_QUEUES,), (OWN_QUEUES, exactly(system)), heard),))


def serving_cml(vhost: str, system: str, reply: str, notify: str) -> UserRights:
    """Rights of a server of CML whose queue is called as the gateway's; arguments as of `asking_by_cml`."""
    said = (OWN_QUEUES, exactly(reply), *((exactly(notify),) if notify else ()))
    return UserRights((), (Grant(vhost, (OWN_QUEUES,), said, (OWN_QUEUES, exactly(system))),))


def changing(vhost: str) -> Grant:
    """To delete what a virtual host has, and to empty its queues: as the management API does for a user."""
    return Grant(vhost, (ANYTHING,), (ANYTHING,), (ANYTHING,))


def writer_rights(watched: Iterable[str] = (EVENT_VHOST,)) -> UserRights:
    """Rights of who changes the broker for a gateway or agent, and does nothing else.

    Args:
        watched: the virtual hosts whose objects may be changed.
    """
    return UserRights.of(("administrator",), map(changing, watched))


def _union(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


TAG = "impersonator"
TAGS_EVENT = "user.tags.set"
"""The broker's event that a user's tags were set."""


def impersonators(users: Json) -> tuple[str, ...] | None:
    """The users tagged ``impersonator``, by name; ``None`` where ``users`` is no listing of users.

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
    """The tags of one user as the management API tells it; ``None`` where it does not."""
    tags = user.get("tags")
    # One text with commas before RabbitMQ 3.9, a list since.
    listed = tags.split(",") if isinstance(tags, str) else tags
    if not isinstance(listed, list):
        return None
    return tuple(tag.strip() for tag in listed if isinstance(tag, str) and tag.strip())


class ImpersonatorCheck:
    """Remembers who carries the tag, and what was said of it.

    RabbitMQ checks the ``user_id`` of every message, but not of those that a user tagged ``impersonator``
    sends. Only an administrator may read who carries the tag. A connection keeps the tags that its user had
    when it was opened, so that taking the tag away is half of what is to be done.

    Args:
        obeyed: the users whose requests are served. One of them may carry the tag: its own are served anyway.
        reader: who reads the management API.

    Attributes:
        distrust: why no request is served now, in one line; empty where nothing speaks against it. A
            reading that fails leaves it as it was.
    """

    def __init__(self, obeyed: frozenset[str], reader: str) -> None:
        self.distrust = ""
        self._obeyed = obeyed
        self._reader = reader
        self._unchecked = ""

    def learn(self, answer: Answer) -> list[Note]:
        """Take what came of asking for the users; what is news is a note."""
        tagged = impersonators(answer.body) if isinstance(answer, Document) else None
        if tagged is None:
            return self._not_checked(_reason(answer))
        self._unchecked = ""
        text = _distrust([name for name in tagged if name not in self._obeyed])
        if text == self.distrust:
            return []
        self.distrust = text
        if text:
            return [Note("impersonator", text)]
        return [Note("impersonator-gone", f"nobody else carries the tag '{TAG}': requests are served again")]

    def _not_checked(self, reason: str) -> list[Note]:
        if reason == self._unchecked:
            return []
        self._unchecked = reason
        text = (
            f"not checked whether a user tagged '{TAG}' could forge the senders that are obeyed: user"
            f" {self._reader!r} cannot read the users ({reason}); keep that tag off the users of this broker"
        )
        return [Note("impersonators-not-checked", text)]


def _distrust(others: list[str]) -> str:
    if not others:
        return ""
    more = f" (and {len(others) - 1} more)" if len(others) > 1 else ""
    return (
        f"user {others[0]!r}{more} carries the tag '{TAG}' and can forge any sender, so nobody is obeyed:"
        " take the tag away and close that user's connections, which keep it"
    )


def _reason(answer: Answer) -> str:
    match answer:
        case Refused(reason=reason) | Broken(reason) | Unavailable(reason) | NotManagement(reason):
            return reason
    return "the answer is no listing of users"
