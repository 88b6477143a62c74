"""Whether somebody on the broker could forge the senders that the agent obeys. Without I/O.

RabbitMQ checks the ``user_id`` of every message, but not of those that a user tagged ``impersonator`` sends.
Only an administrator may read who carries the tag. A connection keeps the tags that its user had when it was
opened, so that taking the tag away is half of what is to be done.
"""

from __future__ import annotations

from collections.abc import Mapping

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

    Args:
        obeyed: the users whose requests are served. One of them may carry the tag: it is obeyed anyway.
        reader: who reads the management API.

    Attributes:
        distrust: why nobody is to be obeyed now, in one line; empty where nothing speaks against it. A
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
