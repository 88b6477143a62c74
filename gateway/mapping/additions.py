"""What an operator's own mapping adds to a shipped one of the same package.

Numbers and names of a shipped module are published: what decides them stays as it is shipped. What people
read, what is watched, and what the shipped mapping leaves out are the operator's.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from typing import Any, Final, TypeVar

from gateway.mapping.files import MappingError
from gateway.mapping.rules import ClassRule, EventRule, Mapping
from gateway.yaml_documents import StrictModel

_TEXTS: Final = frozenset({"label", "description"})
_OF_CLASS: Final = _TEXTS | {"alarms", "methods", "properties", "statistics"}
_OF_EVENT: Final = _TEXTS | {"severity", "text", "raises", "clears", "arguments"}

_Part = TypeVar("_Part", bound=StrictModel)


def with_additions(shipped: Mapping, own: Mapping) -> Mapping:
    """``shipped`` with what ``own`` says beside it.

    Classes and events that are in ``shipped`` get the labels, descriptions, alarms, methods, severities and
    texts of ``own``; of elements and arguments only labels and descriptions. All other ones are added.

    Raises:
        MappingError: ``own`` contradicts what is published; the text says where.
    """
    added_classes = {
        name: _class(shipped.classes.get(name), rule, name) for name, rule in own.classes.items()
    }
    added_events = {name: _event(shipped.events.get(name), rule, name) for name, rule in own.events.items()}
    return shipped.model_copy(
        update={
            "classes": {**shipped.classes, **added_classes},
            "events": {**shipped.events, **added_events},
            "secrets": (*shipped.secrets, *own.secrets),
        }
    )


def _class(shipped: ClassRule | None, own: ClassRule, name: str) -> ClassRule:
    if shipped is None:
        return own
    _check_same(shipped, own, _OF_CLASS, f"classes.{name}")
    parts = {
        group: _parts(getattr(shipped, group), getattr(own, group), f"classes.{name}.{group}")
        for group in ("properties", "statistics")
    }
    alarms, methods = {**shipped.alarms, **own.alarms}, {**shipped.methods, **own.methods}
    return shipped.model_copy(update={**_said(own, _TEXTS), **parts, "alarms": alarms, "methods": methods})


def _event(shipped: EventRule | None, own: EventRule, name: str) -> EventRule:
    if shipped is None:
        return own
    _check_same(shipped, own, _OF_EVENT, f"events.{name}")
    arguments = _parts(shipped.arguments, own.arguments, f"events.{name}.arguments")
    return shipped.model_copy(update={**_said(own, _OF_EVENT), "arguments": arguments})


def _parts(shipped: MappingOf[str, _Part], own: MappingOf[str, _Part], place: str) -> dict[str, _Part]:
    """Elements or arguments, with the labels and descriptions of ``own``."""
    for name, part in own.items():
        if name not in shipped:
            raise MappingError(f"{place}.{name}: there is no such thing in the shipped mapping")
        _check_same(shipped[name], part, _TEXTS, f"{place}.{name}")
    return {
        name: part.model_copy(update=_said(own[name], _TEXTS)) if name in own else part
        for name, part in shipped.items()
    }


def _check_same(shipped: StrictModel, own: StrictModel, may_differ: frozenset[str], place: str) -> None:
    for name, value in _told(own):
        published = getattr(shipped, name)
        if name not in may_differ and value != published:
            shown = published.value if isinstance(published, enum.Enum) else published
            raise MappingError(f"{place}.{name}: the shipped mapping, which is published, has {shown!r} here")


def _said(own: StrictModel, names: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in _told(own) if name in names}


def _told(rule: StrictModel) -> Iterator[tuple[str, Any]]:
    return ((name, getattr(rule, name)) for name in type(rule).model_fields if name in rule.model_fields_set)
