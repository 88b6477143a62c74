"""In which order the objects of classes are asked for: an object behind those that it is named after."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from gateway.dialects.qmf.definitions import ClassDefinition
from gateway.model.values import ValueType

ClassName: TypeAlias = tuple[str, str]
"""Package and name."""

_REFERENCE: Final = "Ref"


def targets_first(listed: Iterable[ClassName], definitions: Iterable[ClassDefinition]) -> Iterator[ClassName]:
    """Return the classes, each behind those that its properties refer to, else in the order listed.

    Whatever is told before what it refers to has to wait for that, and a broker lists queues before the
    virtual hosts that a hundred thousand of them are in. qpidd tells of a reference nothing but the name of
    the property: ``vhostRef`` leads to a ``vhost``.
    """
    targets: dict[ClassName, list[ClassName]] = {}
    for definition in definitions:
        name = (definition.key.package, definition.key.name)
        targets.setdefault(name, []).extend(_referred_to(definition))
    wanted = dict.fromkeys(listed)
    for name in tuple(wanted):
        yield from _with_targets(name, targets, wanted)


def _with_targets(
    name: ClassName, targets: Mapping[ClassName, list[ClassName]], wanted: dict[ClassName, None]
) -> Iterator[ClassName]:
    """Take a class out of ``wanted``, behind what it refers to; of those in a circle the first comes last."""
    if name not in wanted:
        return
    under_way = [(name, iter(targets.get(name, ())))]
    del wanted[name]
    while under_way:
        target = next(under_way[-1][1], None)
        if target is None:
            yield under_way.pop()[0]
        elif target in wanted:
            del wanted[target]
            under_way.append((target, iter(targets.get(target, ()))))


def _referred_to(definition: ClassDefinition) -> Iterator[ClassName]:
    for element in definition.schema.properties:
        if element.type is not ValueType.REFERENCE:
            continue
        name = element.references or element.name.removesuffix(_REFERENCE)
        package, _, name = name.rpartition(":")
        yield package or definition.key.package, name
