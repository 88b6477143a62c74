"""The properties of the kinds of sources that matter outside of their own packages, in one table.

A new kind has a line here. Everything else about it is in its dialect or source, in its settings
(`gateway.config.sources`), and in its start (`gateway.service.sources`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from gateway.model.times import SECOND


class SourceKind(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of a kind of source.

    Attributes:
        read_whole: its first complete reading shows everything that lives: what it lacks has ended.
        restores_objects: its session is given the objects that lived when the event log ended.
        native_ids_last: a native id of the event log means the same object after a restart of the gateway.
        with_agents: several agents may report by it, each of which may have an object of one name, and may
            give the native ids of one of its runs to other objects in the next.
        over_one_link: all of its reports arrive one way, so that the last one shows until when all arrived.
        sets_natively: its dialect has a request of its own to set properties, beside methods.
        one_of_a_name: a durable and a transient object never have a name at the same time.
        misses_in_standstills: it cannot show what was missed while the gateway stood still, so that each
            standstill is a gap. Other kinds have queues, whose ends and drops show that.
        events_lack_absence: its events cannot say that an argument is absent: zero, or an empty text, says so
            of an optional one.
        unproven: the longest time (ns) since the last proof that all was received, before that is said. What
            is missed when the gateway ends may begin so much earlier.
        run_ends_at: the text behind the run of its broker, with which its native ids begin; empty where they
            do not: each run counts from zero.
    """

    read_whole: bool = False
    restores_objects: bool = False
    native_ids_last: bool = False
    with_agents: bool = False
    over_one_link: bool = False
    sets_natively: bool = False
    one_of_a_name: bool = False
    misses_in_standstills: bool = False
    events_lack_absence: bool = False
    unproven: int = 0
    run_ends_at: str = ""

    def run_of(self, native_id: str) -> str:
        """Return the run in which the counters of an object count; empty where that is not known.

        Two runs may have one name (``~2`` distinguishes them as long as the gateway runs).
        """
        run, end, _ = native_id.partition(self.run_ends_at) if self.run_ends_at else ("", "", "")
        return run.partition("~")[0] if end else ""


SOURCE_KINDS: Final[Mapping[str, SourceKind]] = {
    "am01": SourceKind(read_whole=True, with_agents=True, over_one_link=True, events_lack_absence=True),
    "ami": SourceKind(restores_objects=True, misses_in_standstills=True),
    "cml": SourceKind(read_whole=True, sets_natively=True, misses_in_standstills=True, run_ends_at="/"),
    "qmf": SourceKind(read_whole=True, with_agents=True, over_one_link=True, events_lack_absence=True),
    "rabbitmq": SourceKind(
        read_whole=True,
        restores_objects=True,
        native_ids_last=True,
        one_of_a_name=True,
        unproven=20 * SECOND,
    ),
}
"""The kinds of sources by the ``kind`` of a source in the configuration."""


def source_kind(name: str | None) -> SourceKind:
    """Return the properties of a kind; an unknown one, as of another version, has none."""
    return SOURCE_KINDS.get(name or "", _UNKNOWN)


_UNKNOWN: Final = SourceKind()
