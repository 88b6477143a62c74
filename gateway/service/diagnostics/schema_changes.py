"""The differences between two saved schemas, and what each means for MIB, JMX, event log and policy."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import TypeVar

from gateway.feed.records import ClassRecord
from gateway.jmx.classes import ShownClass, event_type, shown_class
from gateway.jmx.names import DOMAIN
from gateway.mapping.schema_documents import SavedClass, SavedSchemas
from gateway.model.schema import Argument, ClassKey, ClassSchema, Element, EventSchema, Kind, Method
from gateway.policy.marks import Marks
from gateway.policy.rules import RoleSet
from gateway.service.diagnostics.schema_policy import PolicyEffects
from gateway.snmp.oid_registry import ClassEntry, ElementEntry, OidRegistry
from gateway.snmp.registry_growth import RegistryFullError, extend, extend_events
from gateway.snmp.tables.rows import column_of

ADDED, REMOVED, CHANGED = "added", "removed", "changed"
MIB, JMX, LOG, POLICY = "mib", "jmx", "log", "policy"
"""The areas in which a change means something."""

_Part = TypeVar("_Part", Element, Method)
_TEXTS = frozenset({"label", "description"})


@dataclass(frozen=True, slots=True)
class Change:
    """One difference.

    Attributes:
        of: ``class``, ``element``, ``method`` or ``event``.
        name: ``package:class`` or ``package:event``.
        part: the name of the element or method; empty for the class or event itself.
        how: ``added``, ``removed`` or ``changed``.
        details: what is different, such as ``kind: gauge becomes counter``.
        means: what it means, by area.
    """

    of: str
    name: str
    part: str
    how: str
    details: tuple[str, ...] = ()
    means: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """Return the change as a document, without what is empty."""
        document: dict[str, object] = {"of": self.of, "name": self.name, "part": self.part, "how": self.how}
        document["details"] = list(self.details)
        document["means"] = {area: list(texts) for area, texts in self.means.items() if texts}
        return {key: value for key, value in document.items() if value not in ("", [], {})}

    def lines(self) -> Iterator[str]:
        """Yield the change as lines for people."""
        what = f"{self.of} {self.name}" + (f".{self.part}" if self.part else "")
        details = f": {'; '.join(self.details)}" if self.details else ""
        yield f"{what}: {self.how}{details}"
        for area, texts in self.means.items():
            yield from (f"  {area}: {text}" for text in texts)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a change is judged by.

    Attributes:
        shipped: the shipped OID registries.
        site: the site's own OID registry.
        roles: the roles of the configuration.
        principals: the principals that the configuration knows.
        marks: what is private or dangerous.
        today: the date of new revisions.
    """

    shipped: Sequence[OidRegistry]
    site: OidRegistry
    roles: RoleSet = field(default_factory=RoleSet)
    principals: Sequence[str] = ()
    marks: Marks = field(default_factory=lambda: Marks({}))
    today: dt.date = dt.date(2020, 1, 1)


def compared(old: SavedSchemas, new: SavedSchemas, around: Surroundings) -> list[Change]:
    """Return the differences, in the order of the names of classes, then of events.

    Of a class or event with several versions an element counts as there if any version has it; if some have
    it otherwise, the last one counts.
    """
    return list(_Comparison(old, new, around).changes())


class _Comparison:
    def __init__(self, old: SavedSchemas, new: SavedSchemas, around: Surroundings) -> None:
        self._old, self._new = _by_name(old), _by_name(new)
        self._old_events = {str(one.key): one for one in old.events}
        self._new_events = {str(one.key): one for one in new.events}
        self._around = around
        self._policy = PolicyEffects(
            around.roles,
            around.principals,
            around.marks,
            [saved.schema for saved in self._new.values()],
            new.events,
        )
        self._before = _grown(around.site, self._old.values(), self._old_events.values(), around)
        self._after = _grown(self._before, self._new.values(), self._new_events.values(), around)

    def changes(self) -> Iterator[Change]:
        for name in sorted(self._old.keys() | self._new.keys()):
            old, new = self._old.get(name), self._new.get(name)
            if old is None or new is None:
                yield self._whole_class(name, old, new)
            else:
                yield from self._within_class(name, old, new)
        for name in sorted(self._old_events.keys() | self._new_events.keys()):
            change = self._event(name, self._old_events.get(name), self._new_events.get(name))
            if change is not None:
                yield change

    # Classes.

    def _whole_class(self, name: str, old: SavedClass | None, new: SavedClass | None) -> Change:
        there = new or old
        assert there is not None
        schema = there.schema
        registry, entry = self._place(self._after, schema)
        beans = f"{DOMAIN}:source=*,package={schema.key.package},type={schema.key.name},*"
        if entry is None:
            mib = "SNMP does not show it: the registry has no room for it"
        elif new is None:
            mib = f"{entry.descriptor}Table of {registry.module} has no rows any more; its numbers stay"
        elif registry in self._around.shipped or self._before.find(schema.key) is not None:
            mib = f"{entry.descriptor}Table of {registry.module} has rows"
        else:
            mib = f"new table {entry.descriptor}Table, and a new revision of {registry.module}: load it again"
        end = new is None
        means = {
            MIB: (mib,),
            JMX: (f"no MBeans {beans} any more" if end else f"MBeans {beans}",),
            LOG: ("its objects end" if end else f"records of {name}, with their values by element",),
            POLICY: self._policy.of_class(schema, is_new=not end),
        }
        return Change("class", name, "", REMOVED if end else ADDED, (), means)

    def _within_class(self, name: str, old: SavedClass, new: SavedClass) -> Iterator[Change]:
        named = [
            f"{what}: {_or_none(before)} becomes {_or_none(after)}"
            for what, before, after in (
                ("index", ", ".join(_index(old.schema)), ", ".join(_index(new.schema))),
                ("named by", old.named_by, new.named_by),
                ("parent", old.parent, new.parent),
            )
            if before != after
        ]
        if named:
            text = "names of objects are made otherwise: every object may be another one"
            means = {
                MIB: (f"{text}, with another row",),
                JMX: (f"{text}, with another ObjectName",),
                LOG: (f"{text}: the former ones end",),
                POLICY: ("patterns of 'objects' meet other names",) if self._policy.name_objects else (),
            }
            yield Change("class", name, "", CHANGED, tuple(named), means)
        texts = [(each.schema.label, each.schema.description) for each in (old, new)]
        if texts[0] != texts[1]:
            means = {MIB: ("the same numbers",), JMX: ("another description of the MBeans",)}
            yield Change("class", name, "", CHANGED, ("label or description",), means)
        yield from self._elements(name, old, new)
        yield from self._methods(name, old.schema, new.schema)

    def _elements(self, name: str, old: SavedClass, new: SavedClass) -> Iterator[Change]:
        attributes = (_attributes(old), _attributes(new))
        before, after = ({e.name: e for e in each.schema.elements} for each in (old, new))
        for part in dict.fromkeys((*before, *after)):
            was, now = before.get(part), after.get(part)
            details = () if was is None or now is None else _details(was, now)
            if was is not None and now is not None:
                if (part in _statistics(old.schema)) != (part in _statistics(new.schema)):
                    details += ("a property becomes a statistic or the reverse",)
                if not details:
                    continue
            key = new.schema.key
            means = {
                MIB: (self._mib(old.schema, new.schema, was, now),),
                JMX: (_jmx(attributes[0].get(part), attributes[1].get(part)),),
                LOG: (_log(was, now),),
                POLICY: self._policy.of_element(key, was, now),
            }
            yield Change("element", name, part, _how(was, now), details, means)

    def _mib(self, old: ClassSchema, new: ClassSchema, was: Element | None, now: Element | None) -> str:
        _, entry = self._place(self._before, old)
        registry, grown = self._place(self._after, new)
        former = _column(entry, was)
        column = _column(grown, now)
        if now is None:
            return f"{_named(former)} of {registry.module} has no values any more; its number stays"
        if column is None:
            gone = "" if former is None else f"; {_named(former)} has no values any more"
            return f"SNMP does not show it: {registry.module} has no column for it in this form{gone}"
        if former == column:
            return f"the same column, {_named(column)}"
        is_new = entry is None or column.column not in entry.columns
        if not is_new:
            return f"{_named(column)} of {registry.module} has values"
        gone = "" if former is None else f"; {_named(former)} has no values any more, and keeps its number"
        return f"new {_named(column)}, and a new revision of {registry.module}: load it again{gone}"

    def _methods(self, name: str, old: ClassSchema, new: ClassSchema) -> Iterator[Change]:
        before, after = ({m.name: m for m in each.methods} for each in (old, new))
        for part in dict.fromkeys((*before, *after)):
            was, now = before.get(part), after.get(part)
            details = () if was is None or now is None else _method_details(was, now)
            if was is not None and now is not None and not details:
                continue
            if now is None:
                jmx = f"no operation {part} any more"
            else:
                given = ", ".join(argument.name for argument in now.arguments)
                jmx = f"operation {part}({given})" + ("" if was is None else ": clients pass it otherwise")
            means = {
                MIB: ("commands of agCommandTable call it by its name and arguments",),
                JMX: (jmx,),
                POLICY: self._policy.of_method(new.key, part, was, now),
            }
            yield Change("method", name, part, _how(was, now), details, means)

    def _place(self, site: OidRegistry, schema: ClassSchema) -> tuple[OidRegistry, ClassEntry | None]:
        for registry in self._around.shipped:
            entry = registry.find(schema.key)
            if entry is not None and entry.elements:
                return registry, entry
        return site, site.find(schema.key)

    # Events.

    def _event(self, name: str, old: EventSchema | None, new: EventSchema | None) -> Change | None:
        there = new or old
        assert there is not None
        details = () if old is None or new is None else _argument_details(old.arguments, new.arguments)
        if old is not None and new is not None and not details:
            return None
        registry = next((r for r in self._around.shipped if r.find_event(there.key) is not None), self._after)
        entry = registry.find_event(there.key)
        kind = event_type(there)
        if entry is None:
            mib = "SNMP does not send it: the registry has no room for it"
        elif new is None:
            mib = f"{entry.descriptor} of {registry.module} is not sent any more; its number stays"
        elif registry is self._after and self._before.find_event(there.key) != entry:
            mib = f"{entry.descriptor}, and a new revision of {registry.module}: load it again"
        elif registry is self._after or old is None:
            mib = f"{entry.descriptor} of {registry.module} is sent"
        else:
            mib = f"{entry.descriptor} of {registry.module} is sent with the arguments that the module has"
        means = {
            MIB: (mib,),
            JMX: (f"no notifications {kind} any more" if new is None else f"notifications {kind}",),
            LOG: ("no records any more" if new is None else "values by the names of the arguments",),
            POLICY: self._policy.of_event(there.key, old, new),
        }
        return Change("event", name, "", _how(old, new), details, means)


def _by_name(schemas: SavedSchemas) -> dict[str, SavedClass]:
    """Return the classes by name; of several versions one that has the elements and methods of all."""
    found: dict[str, SavedClass] = {}
    for saved in schemas.classes:
        name = str(saved.schema.key)
        former = found.get(name)
        found[name] = saved if former is None else _merged(former, saved)
    return found


def _merged(one: SavedClass, other: SavedClass) -> SavedClass:
    def both(first: Iterable[_Part], second: Iterable[_Part]) -> tuple[_Part, ...]:
        found: dict[str, _Part] = {each.name: each for each in chain(first, second)}
        return tuple(found.values())

    schema = ClassSchema(
        other.schema.key,
        both(one.schema.properties, other.schema.properties),
        both(one.schema.statistics, other.schema.statistics),
        both(one.schema.methods, other.schema.methods),
        other.schema.label,
        other.schema.description,
    )
    return SavedClass(schema, other.named_by, other.parent)


def _grown(
    site: OidRegistry, classes: Iterable[SavedClass], events: Iterable[EventSchema], around: Surroundings
) -> OidRegistry:
    """Return the site's registry as it grows by what no shipped one has."""
    for saved in classes:
        if not any(_has(registry, saved.schema.key) for registry in around.shipped):
            try:
                site = extend(site, [saved.schema], around.today, retire=False)
            except (RegistryFullError, ValueError):
                continue
    for schema in events:
        if not any(registry.find_event(schema.key) for registry in around.shipped):
            try:
                site = extend_events(site, [schema], around.today, retire=False)
            except (RegistryFullError, ValueError):
                continue
    return site


def _has(registry: OidRegistry, key: ClassKey) -> bool:
    entry = registry.find(key)
    return entry is not None and bool(entry.elements)


def _column(entry: ClassEntry | None, element: Element | None) -> ElementEntry | None:
    return None if entry is None or element is None else column_of(entry, element)


def _named(column: ElementEntry | None) -> str:
    return "no column" if column is None else f"column {column.descriptor} ({column.column})"


def _attributes(saved: SavedClass) -> dict[str, tuple[str, str]]:
    """Return name and type of the attribute of each element, by the element's name."""
    record = ClassRecord(1, saved.schema, saved.named_by, saved.parent)
    shown: ShownClass = shown_class(record, lambda _class, _element: "")
    elements = saved.schema.elements
    return {
        elements[number].name: (
            shown.attributes[place.position].name,
            shown.attributes[place.position].type.name,
        )
        for number, place in shown.places.items()
    }


def _jmx(was: tuple[str, str] | None, now: tuple[str, str] | None) -> str:
    if now is None:
        return "no attribute" if was is None else f"no attribute {was[0]} any more"
    if was is None or was == now:
        return f"attribute {now[0]} ({now[1]})"
    if was[0] != now[0]:
        return f"attribute {was[0]} is called {now[0]} ({now[1]})"
    return f"attribute {now[0]}: {was[1]} becomes {now[1]}: clients that expect the former type fail"


def _log(was: Element | None, now: Element | None) -> str:
    if now is None:
        return "values have no such key any more"
    if was is None:
        return f"values have the key {now.name}" + (", and deltas, too" if now.kind is Kind.COUNTER else "")
    texts = []
    if was.type is not now.type:
        texts.append(f"values of {now.name} are {now.type.value} from now on, and {was.type.value} before")
    if (was.kind is Kind.COUNTER) != (now.kind is Kind.COUNTER):
        texts.append("deltas are recorded" if now.kind is Kind.COUNTER else "no deltas any more")
    return "; ".join(texts) or "the schema record is another one, values are the same"


def _details(was: Element | Argument, now: Element | Argument) -> tuple[str, ...]:
    """Return what differs beside labels and descriptions, and these in one word."""
    found = []
    for each in fields(now):
        before, after = getattr(was, each.name), getattr(now, each.name)
        if before == after or each.name in _TEXTS:
            continue
        found.append(f"{each.name}: {_shown(before)} becomes {_shown(after)}")
    if any(getattr(was, name) != getattr(now, name) for name in sorted(_TEXTS)):
        found.append("label or description")
    return tuple(found)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return "[" + ", ".join(str(getattr(one, "label", one)) for one in value) + "]"
    return _or_none(str(getattr(value, "value", value)) if value is not None else "")


def _or_none(text: str) -> str:
    return text or "none"


def _method_details(was: Method, now: Method) -> tuple[str, ...]:
    details = _argument_details(was.arguments, now.arguments)
    if (was.label, was.description) != (now.label, now.description):
        details += ("label or description",)
    return details


def _argument_details(was: Sequence[Argument], now: Sequence[Argument]) -> tuple[str, ...]:
    before, after = ({argument.name: argument for argument in each} for each in (was, now))
    found = [f"argument {name} is gone" for name in before if name not in after]
    found += [f"new argument {name}" for name in after if name not in before]
    for name, argument in after.items():
        if name in before:
            found += [f"argument {name}: {text}" for text in _details(before[name], argument)]
    if not found and list(before) != list(after):
        found.append("the order of the arguments")
    return tuple(found)


def _index(schema: ClassSchema) -> list[str]:
    return [element.name for element in schema.properties if element.index]


def _statistics(schema: ClassSchema) -> set[str]:
    return {element.name for element in schema.statistics}


def _how(was: object, now: object) -> str:
    return ADDED if was is None else REMOVED if now is None else CHANGED
