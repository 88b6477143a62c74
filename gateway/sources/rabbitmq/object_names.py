"""How the agent names objects: by class and index, which is all that RabbitMQ's own names consist of."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

_NATIVE_ID: Final = re.compile("[0-9a-f]{16}")


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


def object_number(name: ObjectName, created: int, grounds: Iterable[int] = ()) -> int:
    """The number that identifies an object: BLAKE2b-64 of class, stable name and creation facts.

    No state is needed: after a restart the same object gets the same number, as long as as much is known of
        its creation.

    Args:
        name: of the object.
        created: nanoseconds since 1970-01-01 UTC; 0 where the broker does not say.
        grounds: numbers of the objects that it ends with, for one whose creation time the broker does not
            say: a channel of a connection that was opened again is another channel.
    """
    digest = blake2b(digest_size=8)
    for part in (name.class_name, *name.parts, str(created), *map(str, grounds)):
        octets = part.encode("utf-8", "surrogatepass")
        digest.update(len(octets).to_bytes(4, "big"))
        digest.update(octets)
    return int.from_bytes(digest.digest(), "big")


def native_id(number: int) -> str:
    """The native id of the object of a number: 16 hexadecimal digits."""
    return f"{number:016x}"


def number_of(native: str) -> int | None:
    """The number in a native id; ``None`` where the text is none."""
    return int(native, 16) if _NATIVE_ID.fullmatch(native) else None
