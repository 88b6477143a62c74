"""Which resyncs began, what each covers, and which objects were not told in it."""

from __future__ import annotations

from gateway.inventory.objects import Entry
from gateway.model.observations import ResyncBegan, ResyncEnded


class Resyncs:
    """Those of one source.

    Attributes:
        generation: of objects that are told now: the number of the last resync that began, from 1.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._began: dict[tuple[str, str], int] = {}

    def begin(self, began: ResyncBegan) -> None:
        """One begins."""
        self.generation += 1
        self._began[began.agent, began.class_name] = self.generation

    def misses(self, entry: Entry, ended: ResyncEnded) -> bool:
        """Whether an object that a resync covers was not told between its beginning and its end."""
        began = self._began.get((ended.agent, ended.class_name), 0)
        return entry.generation < began and covers(ended, entry) and entry.record.agent not in ended.without

    def wait_for(self, entry: Entry) -> bool:
        """Whether any resync that covers an object began since it was told."""
        agent, class_name = entry.record.agent, str(entry.key)
        scopes = (("", ""), (agent, ""), ("", class_name), (agent, class_name))
        return any(entry.generation < self._began.get(scope, 0) for scope in scopes)


def covers(resync: ResyncBegan | ResyncEnded, entry: Entry) -> bool:
    """Whether an object is in the scope of a resync."""
    return resync.agent in {"", entry.record.agent} and resync.class_name in {"", str(entry.key)}
