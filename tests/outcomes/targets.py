"""Managed objects of the scene, with their names in each front end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SOURCE: Final = "rabbitmq"
"""The source that is read every 2 s and receives the broker's events."""

DISTANT: Final = "distant"
"""The source that reads the same broker once an hour through a relay; it receives no events.

A test can intervene in the relay.
"""

VHOST: Final = "shop"
QUEUE: Final = "orders"


@dataclass(frozen=True, slots=True)
class Target:
    """An object of the package ``rabbitmq``.

    Attributes:
        class_name: its class without the package.
        names: the names of its parents, then its own; without characters that any front end would quote.
        source: the name of its source.
    """

    class_name: str
    names: tuple[str, ...]
    source: str = SOURCE

    @property
    def path(self) -> str:
        """The path at the command line."""
        return f"{self.source}/{self.class_name}/{'|'.join(self.names)}"

    @property
    def object_name(self) -> str:
        """The ObjectName of the MBean."""
        parent = "".join(f",parent={name}" for name in self.names[:-1])
        kind = f"source={self.source},package=rabbitmq,type={self.class_name}"
        return f"amqp.gateway:{kind}{parent},name={self.names[-1]}"

    def column(self, element: str) -> str:
        """Return the MIB's descriptor of an element."""
        return f"rmq{_capitalised(self.class_name)}{_capitalised(element)}"


SHOP: Final = Target("vhost", (VHOST,))
ORDERS: Final = Target("queue", (VHOST, QUEUE))
DISTANT_SHOP: Final = Target("vhost", (VHOST,), DISTANT)
DISTANT_ORDERS: Final = Target("queue", (VHOST, QUEUE), DISTANT)


def doomed(class_name: str) -> tuple[Target, Target, Target]:
    """Return three objects of the distant source for a test to delete, one for each front end."""
    first, second, third = (Target(class_name, (VHOST, f"doomed-{number}"), DISTANT) for number in range(3))
    return first, second, third


LOST: Final = "lost-"
"""The prefix of the names of objects that the operator may delete."""


def lost(class_name: str) -> tuple[Target, ...]:
    """Return objects of the distant source for a test to delete."""
    return tuple(Target(class_name, (VHOST, f"{LOST}{number}"), DISTANT) for number in range(6))


QUORUM: Final = lost("queue")[4]
"""The one of them that is a quorum queue."""


def _capitalised(name: str) -> str:
    return name[:1].upper() + name[1:]
