"""Which of the ends that were asked for without an answer came about, as far as events prove it.

A cluster without a majority may delete an object hours after it was asked to. That an object is gone does not
prove that it was deleted on our request: others delete objects, too. An event that names our user as the one
who did it proves it, provided that nothing else that we asked for can have had the same effect: the same
deletion asked for twice, or the deletion of a queue or exchange, which deletes its bindings.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.sources.rabbitmq.object_names import ObjectName

MAX_FOLLOWED: Final = 256
"""Objects whose end is waited for at a time; of others the outcome stays unknown."""


@dataclass(slots=True)
class FollowedEnd:
    """The end of one object, asked for without an answer.

    Attributes:
        name: of the object.
        is_doubtful: something else that we asked for can have ended the object.
        is_ours: an event told that our user ended it.
    """

    name: ObjectName
    is_doubtful: bool = False
    is_ours: bool = False


class FollowedEnds:
    """All that are waited for.

    Args:
        user: who changes the broker for us.
    """

    def __init__(self, user: str) -> None:
        self._user = user
        self._followed: list[FollowedEnd] = []

    def asked(self, name: ObjectName) -> None:
        """The broker is asked to end an object."""
        for one in self._followed:
            one.is_doubtful |= _may_end_both(one.name, name)

    def follow(self, name: ObjectName) -> FollowedEnd | None:
        """The broker was asked, and did not answer; ``None`` where too many are followed."""
        if len(self._followed) >= MAX_FOLLOWED:
            return None
        doubtful = any(_may_end_both(one.name, name) for one in self._followed)
        followed = FollowedEnd(name, doubtful)
        self._followed.append(followed)
        return followed

    def ended(self, name: ObjectName, user: object) -> None:
        """An event told that ``user`` ended an object."""
        for one in self._followed:
            if one.name == name and not one.is_doubtful and user == self._user:
                one.is_ours = True

    def forget(self, followed: FollowedEnd) -> None:
        """It is not waited for any more."""
        self._followed.remove(followed)


def _may_end_both(one: ObjectName, other: ObjectName) -> bool:
    return one == other or one.class_name != other.class_name
