"""Which broker is read: it is noticed when another one is read in its place.

A cluster may be renamed, and have other nodes in time. Another broker is one with another name, and with none
of the nodes that were known.

One answer proves nothing: a load balancer may send each request to another of two brokers. So another broker
takes the place only when several overviews in turn, each with a listing of nodes that has the node of this
overview, have shown it. Answers of two brokers in turn are those of none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.mapping.paths import Json
from gateway.model.times import SECOND
from gateway.sources.rabbitmq.management_api import (
    Answer,
    Document,
    ListingRequest,
    ManagementRequest,
    OverviewRequest,
    page_of,
)

_ON_NODES: Final = frozenset({"queue", "connection", "channel"})
"""Classes whose documents name a node of the cluster."""
_MOST_FOREIGN: Final = 1_000
"""Nodes that are remembered although the cluster does not list them."""
_PROOF: Final = 3
"""Overviews, each with a listing of nodes, that show another broker before it takes the place."""
CONFLICT_PROOF: Final = 16
"""So many that show the same broker end a time in which answers were of two brokers in turn."""
_MOST_PROOF: Final = 8 * CONFLICT_PROOF
"""As `CONFLICT_PROOF`, which is doubled when answers are of two brokers again soon."""
_RECENT: Final = 900 * SECOND
"""Nanoseconds after which a broker that was replaced may take the place again as any other."""
_MOST_LEFT: Final = 8


@dataclass(frozen=True, slots=True)
class Cluster:
    """What distinguishes one broker from another.

    Attributes:
        name: the cluster's name; empty if unknown.
        nodes: the names of its nodes, also of those that do not run; empty if unknown.
    """

    name: str = ""
    nodes: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.name!r} with {', '.join(sorted(self.nodes))}"


class Identity:
    """Knows which broker is read.

    Attributes:
        cluster: the broker as it was read last, perhaps before the gateway's start.
        replacement: which broker is read in the place of which, if that was just found out; empty otherwise.
        conflict: that answers are of two brokers in turn, for people; empty if they are not.
    """

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.replacement = ""
        self.conflict = ""
        self._former_names: set[str] = set()
        self._name = self._node = ""
        self._named_at = self._paired_at = 0
        self._suspected_at = 0
        self._shown = Cluster()  # by the last overviews and listings of nodes, while it is not settled
        self._pairs = 0  # how many of them in turn
        self._conflict_proof = CONFLICT_PROOF
        self._contradicted_at = 0
        self._left: deque[tuple[Cluster, int]] = deque(maxlen=_MOST_LEFT)
        self._foreign: dict[str, int] = {}  # nodes that objects named first, and when

    @property
    def names(self) -> frozenset[str]:
        """The names that the cluster has had; empty if none is known."""
        return frozenset({*self._former_names, self.cluster.name} - {""})

    def may_be_named(self, node: str, cluster: str) -> bool:
        """Return whether a node that gives its cluster this name may be one of the broker that is known.

        Nodes of one cluster may give it different names. So it is another broker's only if the node has the
        name of that which the overview is from, or of the only one, and gives a name that the cluster never
        had.
        """
        names = self.names
        is_read = node == self._node or self.cluster.nodes == {node}
        return not cluster or not names or cluster in names or not is_read

    def named(self, overview: Json, now: int) -> bool:
        """Take an overview; return whether it may be that of another broker, so that nodes are to be read."""
        found = overview if isinstance(overview, Mapping) else {}
        self._name, self._node = (_text(found, key) for key in ("cluster_name", "node"))
        self._named_at = now
        if not self._name or not self.cluster.nodes:
            return False
        differs = self.cluster.name not in {"", self._name}
        if differs and self._node and self._node not in self.cluster.nodes:
            self._suspected_at = self._suspected_at or now
        return differs or self._pairs > 0

    def applies(
        self, class_name: str, items: Sequence[Json], began: int, listed_since: Callable[[str, int], bool]
    ) -> bool:
        """Return whether a page may be applied: it is of the broker that is known, or that takes its place.

        Otherwise overview and nodes are to be read, and the page again.

        Args:
            class_name: the class that is listed.
            items: the documents of the page.
            began: when the page was requested (ns).
            listed_since: returns whether a class was listed by a listing that began then, or later.
        """
        if class_name == "node":
            return self._nodes_listed(_texts(items, "name"), began)
        nodes = _texts(items, "node") if class_name in _ON_NODES else frozenset()
        if not nodes or not self.cluster.nodes or not self.cluster.nodes.isdisjoint(nodes):
            return True
        if len(self._foreign) > _MOST_FOREIGN:
            self._foreign.clear()
        # A cluster may still list the objects of a node that it has forgotten.
        return listed_since("node", min(self._foreign.setdefault(node, began) for node in nodes))

    def settles(self, request: ManagementRequest, answer: Answer, began: int, ended: int) -> bool:
        """Take an answer during a conflict; return whether it has ended: all are of one broker again."""
        if isinstance(request, OverviewRequest) and isinstance(answer, Document):
            self.named(answer.body, ended)
        if not isinstance(request, ListingRequest) or request.class_name != "node":
            return False
        items, _ = page_of(answer) or ([], True)
        return bool(items) and self._nodes_listed(_texts(items, "name"), began)

    def _nodes_listed(self, nodes: frozenset[str], began: int) -> bool:
        """Take a listing of nodes; return whether it is known of which broker."""
        former, shown = self.cluster, Cluster(self._name or self.cluster.name, nodes)
        if not nodes:
            return True
        is_foreign = bool(former.nodes) and former.nodes.isdisjoint(nodes)
        if not (is_foreign or self._suspected_at or self.conflict):
            self._former_names.add(former.name)
            self.cluster = shown
            return True
        self._suspected_at = self._suspected_at or began
        if not self._is_settled(shown, began, is_foreign=is_foreign):
            return False
        self._suspected_at = self._pairs = 0
        self._shown, self.conflict = Cluster(), ""
        self._former_names.add(former.name)
        self.cluster = shown
        if is_foreign:
            self._left.append((former, began))
        if is_foreign and former.name not in {"", shown.name}:
            self._foreign.clear()
            self._former_names.clear()
            self.replacement = f"another broker is read, cluster {shown}, in the place of {former}"
        return True

    def _is_settled(self, shown: Cluster, now: int, *, is_foreign: bool) -> bool:
        """Take a listing of nodes with the overview before it; return whether it is settled what is read."""
        before, self._shown = self._shown, shown
        if before.nodes and before.nodes.isdisjoint(shown.nodes):
            return self._contradict(before.nodes, shown.nodes, now)
        if self._named_at < self._suspected_at or self._named_at == self._paired_at:
            return False  # the name may be that of the former broker
        self._paired_at = self._named_at
        if self._node and self._node not in shown.nodes:
            return self._contradict({self._node}, shown.nodes, now)
        recent = (left for left, since in self._left if is_foreign and now - since < _RECENT)
        if not self.conflict and any(not left.nodes.isdisjoint(shown.nodes) for left in recent):
            return self._contradict(self.cluster.nodes, shown.nodes, now)
        self._pairs += 1
        if self.conflict:
            return self._pairs >= self._conflict_proof
        return not is_foreign or self._pairs >= _PROOF

    def _contradict(self, one: Collection[str], other: Collection[str], now: int) -> bool:
        """Take answers of brokers with these nodes; return `False`: nothing is settled."""
        self._pairs = 0
        if not self.conflict:
            is_again = self._contradicted_at and now - self._contradicted_at < _RECENT
            proof = min(2 * self._conflict_proof, _MOST_PROOF) if is_again else CONFLICT_PROOF
            self._conflict_proof = proof
            one_and_other = " and ".join(f"with {', '.join(sorted(nodes))}" for nodes in (one, other))
            self.conflict = (
                f"answers are of two brokers in turn, {one_and_other}: does the URL lead to a load balancer"
                " before different brokers?"
            )
        self._contradicted_at = now
        return False


def _text(document: Mapping[str, Json], key: str) -> str:
    value = document.get(key)
    return value if isinstance(value, str) else ""


def _texts(items: Sequence[Json], key: str) -> frozenset[str]:
    """Return the texts that documents have under a key."""
    texts = (item.get(key) for item in items if isinstance(item, Mapping))
    return frozenset(text for text in texts if isinstance(text, str) and text)
