"""Managed objects of the scene, as each way north names them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SOURCE: Final = "rabbitmq"
"""Looks every second and hears the broker's events."""

DISTANT: Final = "distant"
"""The same broker, looked at once an hour through a relay in which a test can step in; hears no events."""

VHOST: Final = "shop"
QUEUE: Final = "orders"


@dataclass(frozen=True, slots=True)
class Target:
    """An object of the package ``rabbitmq``.

    Attributes:
        class_name: without the package.
        names: of what it is in, then its own; without characters that any way would quote.
        source: name of the source that tells of it.
    """

    class_name: str
    names: tuple[str, ...]
    source: str = SOURCE

    @property
    def path(self) -> str:
        """At the command line."""
        return f"{self.source}/{self.class_name}/{'|'.join(self.names)}"

    @property
    def object_name(self) -> str:
        """Of the MBean."""
        parent = "".join(f",parent={name}" for name in self.names[:-1])
        kind = f"source={self.source},package=rabbitmq,type={self.class_name}"
        return f"amqp.gateway:{kind}{parent},name={self.names[-1]}"

    def column(self, element: str) -> str:
        """The MIB's descriptor of an element."""
        return f"rmq{_capitalised(self.class_name)}{_capitalised(element)}"


SHOP: Final = Target("vhost", (VHOST,))
ORDERS: Final = Target("queue", (VHOST, QUEUE))
DISTANT_SHOP: Final = Target("vhost", (VHOST,), DISTANT)
DISTANT_ORDERS: Final = Target("queue", (VHOST, QUEUE), DISTANT)


def doomed(class_name: str) -> tuple[Target, Target, Target]:
    """Three objects of the distant source, for a test to delete: one for each way north."""
    first, second, third = (Target(class_name, (VHOST, f"doomed-{number}"), DISTANT) for number in range(3))
    return first, second, third


def _capitalised(name: str) -> str:
    return name[:1].upper() + name[1:]
