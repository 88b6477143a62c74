"""Whether the broker's counters go on, by the runs of its nodes.

Each node counts what passes through it, and forgets that when its process, or RabbitMQ in it, ends. Counters
of virtual hosts, exchanges and queues are sums over the nodes that run. If no node has run on, they begin
again from zero. If some have, an unknown part is missing; so it is with a node that comes back with what it
had, as after a partition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from gateway.model.observations import Counting
from gateway.model.times import SECOND
from gateway.model.values import Values
from gateway.sources.rabbitmq.cluster import Nodes
from gateway.sources.rabbitmq.known_objects import KnownObjects
from gateway.sources.rabbitmq.object_lives import SUMMED, Change, KnownObject, Put
from gateway.sources.rabbitmq.reading import ClassReader, Reading

_OF_A_NODE: Final = ("node", "protocol")
"""Classes whose counters are those of one node, and whose objects outlive its process."""
_RECORDED_WITHIN: Final = 300 * SECOND
"""Nanoseconds within which the event log records statistics, also under pressure."""
_COUNTING: Final = {True: Counting.GO_ON, False: Counting.BEGAN, None: Counting.UNKNOWN}


class NodeCounters:
    """Knows how counters go on, while the gateway runs and from before its start.

    Args:
        readers: the reader of each class.
        known: the objects.
        nodes: which nodes run, and since when.
    """

    def __init__(self, readers: Mapping[str, ClassReader], known: KnownObjects, nodes: Nodes) -> None:
        self._readers = readers
        self._known = known
        self._nodes = nodes
        self._former: frozenset[str] | None = None  # the nodes before the gateway's start
        self._recorded_until = 0
        self._counts: dict[str, Values] = {}  # the last statistics of each node
        self._runs: Counter[str] = Counter()
        self._shown: dict[str, int] = {}  # the runs of nodes that run
        self._left: dict[str, int] = {}  # the last ones of those that do not
        self._changed = Counting.GO_ON

    def remember(self, counts: Mapping[str, Values], recorded_until: int) -> None:
        """Take the nodes that the broker had before the gateway's start.

        Args:
            counts: the last statistics of each.
            recorded_until: until when the event log has values (ns); 0 if unknown.
        """
        self._former = frozenset(counts)
        self._counts = dict(counts)
        self._recorded_until = recorded_until

    def forget(self) -> None:
        """Forget all nodes, because another broker is read."""
        self._former, self._changed = None, Counting.GO_ON
        self._counts.clear()
        self._shown.clear()
        self._left.clear()

    def counting(self, known: KnownObject, *, new: bool) -> Counting:
        """Return how the counters of an object go on; ``new``: from those of before the gateway's start."""
        if known.name.class_name in SUMMED:
            return self._since_before() if new and self._was_there(known) else Counting.GO_ON
        node = self._counted_by(known)
        if node is None or not new or self._former is None:
            return Counting.GO_ON
        return _COUNTING[self._goes_on(node)]

    def stopped(self, now: int) -> list[Change]:
        """Take note that the only node stops, whose process may run on."""
        self._counts.clear()
        return self._began(now, now)

    def node_read(self, node: str, reading: Reading | None, now: int, *, restarted: bool) -> list[Change]:
        """Take the counters of a node: they begin again in another process, or when one of them fell.

        ``rabbitmqctl stop_app`` and ``start_app`` leave process and uptime as they are.
        """
        statistics = () if reading is None else reading.statistics
        former = self._counts.get(node, ())
        if any(value is not None for value in statistics):
            self._counts[node] = statistics
        began_before = not self._shown and self._goes_on(node) is False
        has_fallen = not (restarted or began_before) and self._any_fell(former, statistics)
        if not (restarted or has_fallen):
            return []
        counted = [
            one for name in _OF_A_NODE for one in self._of_class(name) if self._counted_by(one) == node
        ]
        if has_fallen:
            return [*_doubted(counted), *self._in_doubt()]
        self._runs[node] += 1
        self._left.pop(node, None)
        self._shown[node] = self._runs[node]
        # All this is recorded before what shows that the node was started again.
        alone = self._nodes.listed == {node}
        sums = self._began(now, self._nodes.started_after(node)) if alone else self._in_doubt()
        return [*(change for one in counted for change in self._known.counters_began(one.name, now)), *sums]

    def nodes_listed(self, now: int) -> list[Change]:
        """Apply the end of a listing of nodes to counters that are sums over them."""
        shown = {name: self._runs[name] for name in self._nodes.dated}
        if not shown:  # they start
            return []
        former, self._shown = self._shown, shown
        gone = {name: run for name, run in former.items() if shown.get(name) != run}
        is_back = any(self._left.get(name) == run for name, run in shown.items())
        self._left = {name: run for name, run in (self._left | gone).items() if name not in shown}
        if gone and len(gone) == len(former) and not is_back:
            return self._began(now, 0)
        return self._in_doubt() if gone or is_back else []

    def _in_doubt(self) -> list[Change]:
        """Note that sums over nodes lack a part, or have one again."""
        self._changed = Counting.UNKNOWN
        return _doubted(one for name in sorted(SUMMED) for one in self._of_class(name))

    def _began(self, now: int, since: int) -> list[Change]:
        """Remove all statistics, because no node has run on: the broker counts from zero.

        A counter that has passed its former value by the next reading would seem to have gone on.

        Args:
            now: the time.
            since: since when at the latest it has counted so (ns, never too late); 0 if unknown.
        """
        self._changed = Counting.BEGAN
        self._known.ends.counted_since = max(self._known.ends.counted_since, since)
        changes: list[Change] = []
        for class_name in (one for one in self._readers if one != "node"):
            outlives = class_name in SUMMED or class_name in _OF_A_NODE
            remove = self._known.counters_began if outlives else self._known.without_statistics
            for name in [known.name for known in self._known.of_class(class_name)]:
                changes += remove(name, now)
        return changes

    def _any_fell(self, former: Values, statistics: Values) -> bool:
        schema = self._readers["node"].schema
        pairs = dict(enumerate(zip(former, statistics, strict=False), len(schema.properties)))
        counters = (pairs[place] for place in schema.counters if place in pairs)
        return any(isinstance(was, int) and isinstance(now, int) and now < was for was, now in counters)

    def _was_there(self, known: KnownObject) -> bool:
        """Return whether an object may be recorded before the gateway's start."""
        until = self._recorded_until
        return self._former is not None and (not until or known.created <= until)

    def _since_before(self) -> Counting:
        """Return how sums over nodes go on since before the gateway's start."""
        if self._changed is not Counting.GO_ON:
            return self._changed
        going_on = {self._goes_on(node) for node in self._former or ()}
        return _COUNTING[going_on.pop() if len(going_on) == 1 else None]

    def _goes_on(self, node: str) -> bool | None:
        """Return whether a node has counted on since before the gateway's start; ``None`` if unknown.

        Of several nodes the log may have a start that is later than the counters.
        """
        former = self._nodes.former.get(node)
        if former is None or not self._nodes.listed:
            return None
        if node not in self._nodes.listed:
            return False
        if node not in self._nodes.dated:
            # The only one answers: it is in the first seconds of another run.
            return False if self._nodes.running == self._nodes.listed == {node} else None
        if not self._nodes.is_start(node, former):
            return False
        is_late = former.time > self._recorded_until - _RECORDED_WITHIN
        return None if is_late and len(self._nodes.listed) > 1 else True

    def _counted_by(self, known: KnownObject) -> str | None:
        """Return the node whose counters an object shows, if the object outlives the node's process."""
        if known.name.class_name == "node":
            return known.name.leaf
        if known.name.class_name not in _OF_A_NODE:
            return None
        schema = self._readers[known.name.class_name].schema
        node = known.properties[schema.positions["node"]]
        return node if isinstance(node, str) else None

    def _of_class(self, class_name: str) -> Iterable[KnownObject]:
        return list(self._known.of_class(class_name)) if class_name in self._readers else ()


def _doubted(counted: Iterable[KnownObject]) -> list[Change]:
    return [Put(one, previous=one, counting=Counting.UNKNOWN) for one in counted]
