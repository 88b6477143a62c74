"""How the agent names objects: by class and index, which is all that RabbitMQ's own names consist of."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b


@dataclass(frozen=True, slots=True)
class ObjectName:
    """``parts`` are the texts of the index elements in schema order: virtual host and name, or the name."""

    class_name: str
    parts: tuple[str, ...]

    @property
    def leaf(self) -> str:
        """The last part, which is the object's own name."""
        return self.parts[-1]

    def __str__(self) -> str:
        """For notes and errors: ``queue orders/incoming``."""
        return f"{self.class_name} {'/'.join(self.parts)}"


def connection_of_channel(name: str) -> str:
    """The name of the connection of a channel, which RabbitMQ calls ``CONNECTION (NUMBER)``."""
    return name.rpartition(" (")[0]


def object_number(name: ObjectName, created: int) -> int:
    """The object number of its QMF object id: BLAKE2b-64 of class, stable name and creation time.

    So the agent needs no state: after its restart it gives the same object the same number, as long as it
    knows as much of the creation time (nanoseconds since 1970-01-01 UTC, 0 = unknown).
    """
    digest = blake2b(digest_size=8)
    for part in (name.class_name, *name.parts, str(created)):
        octets = part.encode("utf-8", "surrogatepass")
        digest.update(len(octets).to_bytes(4, "big"))
        digest.update(octets)
    return int.from_bytes(digest.digest(), "big")
