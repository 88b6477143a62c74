"""Freshness of MBeans by groups: one for the objects of each agent, one for each source itself.

The virtual machine keeps one word for each group, so that a change is one command however many objects there
are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gateway.feed.freshness import Freshness
from gateway.feed.freshness import Group as FeedGroup
from gateway.jmx.commands import Command, SetGroup


@dataclass(slots=True, eq=False)
class Group(FeedGroup):
    """MBeans that are stale and fresh together.

    Attributes:
        number: what the virtual machine knows the group by.
    """

    number: int = 0


class Groups:
    """Numbers groups, and has the virtual machine know their freshness.

    Args:
        tell: takes the commands.

    Attributes:
        own: of what is about the gateway itself; always fresh.
    """

    def __init__(self, tell: Callable[[Command], None]) -> None:
        self._tell = tell
        self._numbers = itertools.count(1)
        self._of_sources: dict[int, Group] = {}
        self.own = self.new(0, "")
        self._set(self.own, Freshness.FRESH)

    def new(self, source: int, agent: str) -> Group:
        """Make a group for the objects of an agent."""
        return Group(source, agent, number=next(self._numbers))

    def changed(self, group: Group) -> None:
        """The freshness of a group has changed."""
        self._tell(SetGroup(group.number, group.freshness))

    def of_source(self, source: int) -> Group:
        """The group of what is about the source itself."""
        group = self._of_sources.get(source)
        if group is None:
            group = self._of_sources[source] = self.new(source, "")
        return group

    def judge_source(self, source: int, *, is_stale: bool) -> None:
        """What is about the source itself is stale, or fresh."""
        self._set(self.of_source(source), Freshness.STALE if is_stale else Freshness.FRESH)

    def remove_source(self, source: int) -> None:
        """The source is configured no longer."""
        self._of_sources.pop(source, None)

    def _set(self, group: Group, freshness: Freshness) -> None:
        if group.freshness is not freshness:
            group.freshness = freshness
            self.changed(group)


def counts(groups: Iterable[Group]) -> dict[str, int]:
    """How many objects there are, and how many of them are stale or withheld, by attribute."""
    objects = dict.fromkeys(Freshness, 0)
    for group in groups:
        objects[group.freshness] += group.objects
    return {
        "Objects": sum(objects.values()),
        "StaleObjects": objects[Freshness.STALE] + objects[Freshness.WITHHELD],
        "WithheldObjects": objects[Freshness.WITHHELD],
    }
