"""Which of the nodes of one cluster to use. Without I/O.

Every node of a cluster gives the same answers, so one of them is enough. The node that works is kept: each
change of node costs a connection, and events are missed meanwhile. The node that failed is tried again only
when all others have failed since, so that a dead one costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

Node = TypeVar("Node")


class NodeChoice(Generic[Node]):
    """Nodes in the order in which to try them: the one that failed last comes last.

    Args:
        nodes: in the order in which to try them at first; at least one.
    """

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._order = list(nodes)

    @property
    def preferred(self) -> Node:
        """The node to try first: the one in use, until it fails."""
        return self._order[0]

    def in_order(self) -> tuple[Node, ...]:
        """Every node once, the preferred one first."""
        return tuple(self._order)

    def failed(self, node: Node) -> bool:
        """Note that ``node`` failed; return whether another one is preferred from now on."""
        before = self.preferred
        self._order.remove(node)
        self._order.append(node)
        return self.preferred != before
