"""What ends with what: a consumer with its queue or its channel, a channel with its connection."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.model.values import Values
from gateway.sources.rabbitmq.object_names import ObjectName
from gateway.sources.rabbitmq.reading import ClassReader, target_of


class Dependence:
    """Knows of each object what it hangs on, and what hangs on it.

    Args:
        readers: the reader of each class, whose rule says which references these are (``ends_with``).
    """

    def __init__(self, readers: Mapping[str, ClassReader]) -> None:
        self._readers = readers
        self._references = {
            name: tuple(
                (reader.schema.positions[element], reader.rule.properties[element].references)
                for element in reader.rule.ends_with
            )
            for name, reader in readers.items()
        }
        self._hanging: dict[ObjectName, dict[ObjectName, None]] = {}

    def grounds(self, name: ObjectName, properties: Values) -> tuple[ObjectName, ...]:
        """What an object with these properties hangs on."""
        found = (
            target_of(self._readers, name, class_name, properties[position])
            for position, class_name in self._references[name.class_name]
        )
        return tuple(ground for ground in found if ground is not None)

    def note(self, name: ObjectName, properties: Values) -> None:
        """There is such an object now."""
        for ground in self.grounds(name, properties):
            self._hanging.setdefault(ground, {})[name] = None

    def forget(self, name: ObjectName, properties: Values) -> None:
        """There is no such object any more."""
        for ground in self.grounds(name, properties):
            hanging = self._hanging.get(ground)
            if hanging is not None:
                hanging.pop(name, None)
                if not hanging:
                    del self._hanging[ground]

    def on(self, name: ObjectName) -> tuple[ObjectName, ...]:
        """What hangs on an object, in the order in which it came."""
        return tuple(self._hanging.get(name, ()))
