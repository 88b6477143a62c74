"""Override files: reading them, and what is wrong with them for the classes and events that are known.

A pattern that matches nothing is an error where everything that there can be is known: in a package that the
gateway's own source defines, and in a saved or live schema. Elsewhere an agent may report more than its
mapping has, and it is a remark.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TypeVar

from pydantic import ValidationError

from gateway.mapping.files import load_mappings
from gateway.mapping.override_rules import (
    AlarmOverride,
    ClassOverride,
    ElementOverride,
    EventOverride,
    OverrideFile,
    is_exact,
)
from gateway.mapping.overrides import Overrides, needed_elements
from gateway.mapping.rules import AlarmRule, ClassRule, EventRule, Mapping, names_in
from gateway.model.schema import Access, ClassKey, ClassSchema, EventSchema
from gateway.model.values import ValueType
from gateway.yaml_documents import DocumentFile, complaint_at, in_words, read_document

Place = tuple[str | int, ...]
"""The keys that lead to a value of a document."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that does not fit.

    Attributes:
        place: the keys that lead to it.
        message: what is wrong, and what to do.
        is_error: whether the file cannot be used; otherwise it is a remark.
    """

    place: Place
    message: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class KnownClass:
    """What is known of a class.

    Attributes:
        name: ``package:class``.
        elements: the names of its elements, with type if it is known, and the unit that is published.
        methods: the names of its methods.
        alarms: the alarms that the mapping has.
        needed: elements that cannot be excluded.
        named_by: classes (``package:name``) of which the names of its objects are made.
        is_whole: it can have no further elements and methods.
        settable: elements that can be set.
    """

    name: str
    elements: MappingOf[str, tuple[ValueType | None, str]]
    methods: Collection[str] = ()
    alarms: MappingOf[str, AlarmRule] = field(default_factory=dict)
    needed: frozenset[str] = frozenset()
    named_by: frozenset[str] = frozenset()
    is_whole: bool = True
    settable: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KnownEvent:
    """What is known of an event (``package:event``): its arguments, the needed one, and its text."""

    name: str
    arguments: Collection[str]
    subject: str = ""
    text: str = ""
    is_whole: bool = True


_Known = TypeVar("_Known", KnownClass, KnownEvent)


@dataclass(frozen=True, slots=True)
class KnownSchemas:
    """The classes and events with which overrides are compared.

    Attributes:
        whole: packages that have no further classes and events.
    """

    classes: Sequence[KnownClass]
    events: Sequence[KnownEvent]
    whole: frozenset[str] = frozenset()


def load_overrides(paths: Iterable[DocumentFile], mappings: MappingOf[str, Mapping]) -> Overrides:
    """Read override files, and compare them with the mappings.

    Args:
        paths: the files, in order.
        mappings: the mappings by package.

    Raises:
        DocumentError: a file cannot be read, is no override file, or does not fit the mappings.
    """
    files = [(path, read_document(path, OverrideFile)) for path in paths]
    if files:
        known = known_of_mappings(mappings)
        for path, problems in problems_of(files, known):
            if wrong := [(one.place, one.message) for one in problems if one.is_error]:
                raise complaint_at(path, wrong)
    return Overrides(file for _, file in files)


@dataclass(frozen=True, slots=True)
class LoadedMappings:
    """The mappings by package, with the secrets of the overrides in each, and the overrides."""

    mappings: MappingOf[str, Mapping]
    overrides: Overrides


def load_with_overrides(
    own_files: Iterable[DocumentFile], override_files: Iterable[DocumentFile]
) -> LoadedMappings:
    """Read all mappings, shipped and own ones, and the overrides of them.

    Raises:
        DocumentError: an override file is wrong, or a mapping.
        FileNotFoundError: the shipped mappings are missing, so the installation is damaged.
        MappingError: as of `load_mappings`.
    """
    mappings = load_mappings(own_files)
    overrides = load_overrides(override_files, mappings)
    if overrides.secrets:
        mappings = {
            package: mapping.model_copy(update={"secrets": (*mapping.secrets, *overrides.secrets)})
            for package, mapping in mappings.items()
        }
    return LoadedMappings(mappings, overrides)


def remarks(paths: Iterable[DocumentFile], known: KnownSchemas, *, may_lack: bool = False) -> list[str]:
    """Return what overrides name that is not known, each as ``file:line: place: what``.

    Args:
        paths: the files, in order.
        known: what is known.
        may_lack: whether it may lack what the overrides exclude, because they were applied to it.

    Raises:
        DocumentError: a file cannot be read, or something in it does not fit what is known.
    """
    files = [(path, read_document(path, OverrideFile)) for path in paths]
    lines: list[str] = []
    for path, problems in problems_of(files, known, may_lack=may_lack):
        if wrong := [(one.place, one.message) for one in problems if one.is_error]:
            raise complaint_at(path, wrong)
        if unknown := [(one.place, one.message) for one in problems]:
            lines += str(complaint_at(path, unknown)).splitlines()
    return lines


def known_of_mappings(mappings: MappingOf[str, Mapping]) -> KnownSchemas:
    """Return what mappings know; a package that the gateway's own source reads is whole."""
    classes: list[KnownClass] = []
    events: list[KnownEvent] = []
    whole: set[str] = set()
    for package, mapping in mappings.items():
        is_whole = _defines(mapping)
        if is_whole:
            whole.add(package)
        classes += [_ruled_class(package, name, rule, is_whole) for name, rule in mapping.classes.items()]
        events += [
            KnownEvent(f"{package}:{name}", tuple(rule.arguments), rule.subject or "", rule.text, is_whole)
            for name, rule in mapping.events.items()
        ]
    return KnownSchemas(classes, events, frozenset(whole))


def known_of_schemas(
    classes: Iterable[ClassSchema], events: Iterable[EventSchema], mappings: MappingOf[str, Mapping]
) -> KnownSchemas:
    """Return what a broker or gateway reported, which is everything of the packages in it."""
    classes, events = tuple(classes), tuple(events)
    keys = [*(schema.key for schema in classes), *(schema.key for schema in events)]
    return KnownSchemas(
        [_learnt_class(schema, _class_rule(mappings, schema.key)) for schema in classes],
        [_learnt_event(schema, _event_rule(mappings, schema.key)) for schema in events],
        frozenset(key.package for key in keys),
    )


def _defines(mapping: Mapping) -> bool:
    # Only the gateway's own source lists collections: agents report classes by themselves, and perhaps more.
    return any(rule.listing for rule in mapping.classes.values())


def _ruled_class(package: str, name: str, rule: ClassRule, is_whole: bool) -> KnownClass:  # noqa: FBT001
    elements = {**rule.properties, **rule.statistics}
    index = {one for one, element in rule.properties.items() if element.index}
    needed = index | {"name"} | {one for one in (rule.name, rule.parent) if one is not None}
    needed |= {*rule.fallback_parents, *(one.property for one in rule.lifetime.transient_when)}
    return KnownClass(
        f"{package}:{name}",
        {one: (element.type, element.unit) for one, element in elements.items() if not element.secret},
        tuple(rule.methods),
        rule.alarms,
        frozenset(needed),
        frozenset(_full(package, rule.properties[one].references) for one in index),
        is_whole,
        frozenset(one for one, element in elements.items() if element.access is Access.READ_WRITE),
    )


def _learnt_class(schema: ClassSchema, rule: ClassRule | None) -> KnownClass:
    stated = {} if rule is None else {**rule.properties, **rule.statistics}
    return KnownClass(
        str(schema.key),
        {e.name: (e.type, stated[e.name].unit if e.name in stated else "") for e in schema.elements},
        tuple(method.name for method in schema.methods),
        {} if rule is None else rule.alarms,
        needed_elements(schema, rule),
        frozenset(_full(schema.key.package, e.references) for e in schema.properties if e.index),
        settable=frozenset(e.name for e in schema.elements if e.access is Access.READ_WRITE),
    )


def _learnt_event(schema: EventSchema, rule: EventRule | None) -> KnownEvent:
    names = tuple(argument.name for argument in schema.arguments)
    if rule is None:
        return KnownEvent(str(schema.key), names)
    return KnownEvent(str(schema.key), names, rule.subject or "", rule.text)


def _full(package: str, references: str) -> str:
    return references if ":" in references or not references else f"{package}:{references}"


def _class_rule(mappings: MappingOf[str, Mapping], key: ClassKey) -> ClassRule | None:
    return mappings[key.package].classes.get(key.name) if key.package in mappings else None


def _event_rule(mappings: MappingOf[str, Mapping], key: ClassKey) -> EventRule | None:
    return mappings[key.package].events.get(key.name) if key.package in mappings else None


def problems_of(
    files: Sequence[tuple[DocumentFile, OverrideFile]], known: KnownSchemas, *, may_lack: bool = False
) -> Iterator[tuple[DocumentFile, list[Problem]]]:
    """Yield what does not fit in each file, judged together with the files before it; as `remarks`."""
    for number, (path, file) in enumerate(files, start=1):
        overrides = Overrides(one for _, one in files[:number])
        yield path, list(_Check(file, known, overrides, may_lack=may_lack).problems())


class _Check:
    """The comparison of one file with what is known."""

    def __init__(
        self, file: OverrideFile, known: KnownSchemas, overrides: Overrides, *, may_lack: bool
    ) -> None:
        self._may_lack = may_lack
        self._file = file
        self._known = known
        self._overrides = overrides

    def problems(self) -> Iterator[Problem]:
        yield from self._of_secrets()
        for pattern, override in self._file.classes.items():
            place: Place = ("classes", pattern)
            matched = [one for one in self._known.classes if fnmatchcase(one.name, pattern)]
            if not matched:
                yield self._unmatched(place, pattern, self._known.classes, "class", override.exclude)
            yield from self._of_class(place, override, matched)
        for pattern, event in self._file.events.items():
            place = ("events", pattern)
            found = [one for one in self._known.events if fnmatchcase(one.name, pattern)]
            if not found:
                yield self._unmatched(place, pattern, self._known.events, "event", event.exclude)
            yield from self._of_event(place, event, found)

    def _of_secrets(self) -> Iterator[Problem]:
        for position, pattern in enumerate(self._file.secrets):
            alone = Overrides([OverrideFile(version=1, secrets=(pattern,))])
            for known in self._known.classes:
                hidden = sorted(one for one in known.needed & known.elements.keys() if alone.hides(one))
                if hidden:
                    text = (
                        f"matches {hidden[0]!r} of {known.name}, of which names are made: narrow the pattern"
                    )
                    yield Problem(("secrets", position), text, is_error=known.is_whole)

    def _of_class(
        self, place: Place, override: ClassOverride, matched: Sequence[KnownClass]
    ) -> Iterator[Problem]:
        if override.exclude:
            yield from self._of_excluded_class(place, matched)
        for name, element in override.elements.items():
            yield from self._of_elements((*place, "elements", name), name, element, matched)
        for name, method in override.methods.items():
            at: Place = (*place, "methods", name)
            if matched and not any(fnmatchcase(m, name) for one in matched for m in one.methods):
                yield self._missing(
                    at, name, matched, lambda one: one.methods, "method", excludes=method.exclude
                )
        for name, alarm in override.alarms.items():
            yield from self._of_alarm((*place, "alarms", name), name, alarm, matched)

    def _of_excluded_class(self, place: Place, matched: Sequence[KnownClass]) -> Iterator[Problem]:
        for known in matched:
            users = [
                one.name
                for one in self._known.classes
                if known.name in one.named_by and not self._overrides.excludes_class(one.name)
            ]
            if users and self._overrides.excludes_class(known.name):
                text = f"the names of objects of {users[0]} begin with those of {known.name}: exclude it, too"
                yield Problem((*place, "exclude"), text, is_error=True)

    def _of_elements(
        self, place: Place, name: str, element: ElementOverride, matched: Sequence[KnownClass]
    ) -> Iterator[Problem]:
        having = [one for one in matched if any(fnmatchcase(e, name) for e in one.elements)]
        if matched and not having:
            yield self._missing(
                place, name, matched, lambda one: one.elements, "element", excludes=element.exclude
            )
        if element.exclude and is_exact(name):
            for known in having:
                if name in known.needed:
                    why = "names or lifetimes of its objects are made of it"
                    text = f"{name!r} of {known.name} cannot be excluded: {why}"
                    yield Problem((*place, "exclude"), text, is_error=True)
        yield from self._of_number(place, name, element, having)

    def _of_number(
        self, place: Place, pattern: str, element: ElementOverride, having: Sequence[KnownClass]
    ) -> Iterator[Problem]:
        unit = element.unit
        found = [
            (one, name, *one.elements[name])
            for one in having
            for name in one.elements
            if fnmatchcase(name, pattern)
        ]
        if element.kind and found and all(t is not None and not t.is_number for _, _, t, _ in found):
            text = f"{found[0][1]!r} is no number, so that it has no kind"
            yield Problem((*place, "kind"), text, is_error=True)
        published = [(one.name, name, had) for one, name, _, had in found if had not in ("", unit)]
        if unit is not None and published and len(published) == len(found):
            class_name, name, had = published[0]
            text = (
                f"{name!r} of {class_name} is published in {had}, and values are not converted: leave it out"
            )
            yield Problem((*place, "unit"), text, is_error=True)

    def _of_alarm(
        self, place: Place, name: str, alarm: AlarmOverride, matched: Sequence[KnownClass]
    ) -> Iterator[Problem]:
        having = [one for one in matched if name in one.alarms]
        if alarm.remove:
            if matched and not having:
                yield self._missing(place, name, matched, lambda one: one.alarms, "alarm", certain=True)
            return
        reasons: list[str] = []
        for known in having or matched or (KnownClass("", {}, is_whole=False),):
            try:
                rule = alarm.changed(known.alarms.get(name))
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                where = ".".join(str(step) for step in first["loc"])
                hint = "" if known.alarms.get(name) or not known.alarms else nearest(name, known.alarms)
                reasons.append(f"{where}: {in_words(first)}{hint}" if where else in_words(first))
                continue
            shown = [e for e in known.elements if not self._is_dropped(known, e)]
            missing = [e for e in (rule.element, *names_in(rule.text)) if e not in {*shown, "name"}]
            if rule.element not in shown:
                missing.insert(0, rule.element)
            if missing and known.is_whole:
                reasons.append(
                    f"{missing[0]!r} is no element of {known.name} that is shown{nearest(missing[0], shown)}"
                )
                continue
            return
        if reasons:
            yield Problem(place, reasons[0], is_error=True)

    def _is_dropped(self, known: KnownClass, element: str) -> bool:
        if element in known.needed:
            return False
        if self._overrides.hides(element):
            return True
        said = [
            one.exclude
            for pattern, override in self._file.classes.items()
            if fnmatchcase(known.name, pattern)
            for name, one in override.elements.items()
            if fnmatchcase(element, name) and one.exclude is not None
        ]
        return bool(said) and said[-1]

    def _of_event(
        self, place: Place, override: EventOverride, found: Sequence[KnownEvent]
    ) -> Iterator[Problem]:
        for name, argument in override.arguments.items():
            at: Place = (*place, "arguments", name)
            having = [one for one in found if any(fnmatchcase(a, name) for a in one.arguments)]
            if found and not having:
                yield self._missing(
                    at, name, found, lambda one: one.arguments, "argument", excludes=argument.exclude
                )
            for known in having if argument.exclude else ():
                if name == known.subject:
                    text = f"{name!r} of {known.name} cannot be excluded: it names the object concerned"
                    yield Problem((*at, "exclude"), text, is_error=True)
                text_now = known.text if override.text is None else override.text
                shown = [one for one in names_in(text_now) if fnmatchcase(one, name) and one != known.subject]
                if shown:
                    text = f"the text of {known.name} has {{{shown[0]}}}: give it a 'text' without"
                    yield Problem((*at, "exclude"), text, is_error=True)
        for known in found if override.text is not None else ():
            unknown = [one for one in names_in(override.text or "") if one not in known.arguments]
            if unknown and known.is_whole:
                text = f"{unknown[0]!r} is no argument of {known.name}{nearest(unknown[0], known.arguments)}"
                yield Problem((*place, "text"), text, is_error=True)
                break

    def _unmatched(
        self,
        place: Place,
        pattern: str,
        known: Sequence[KnownClass] | Sequence[KnownEvent],
        what: str,
        excludes: bool | None,  # noqa: FBT001  what the override says
    ) -> Problem:
        hint = nearest(pattern, [one.name for one in known])
        is_error = self._is_whole(pattern) and not (excludes and self._may_lack)
        return Problem(place, f"matches no {what} that is known{hint}", is_error=is_error)

    def _is_whole(self, pattern: str) -> bool:
        """Return whether everything that a pattern of ``package:name`` could match is known."""
        package = pattern.partition(":")[0]
        return is_exact(package) and package in self._known.whole

    def _missing(
        self,
        place: Place,
        name: str,
        matched: Sequence[_Known],
        names: Callable[[_Known], Iterable[str]],
        what: str,
        *,
        certain: bool = False,
        excludes: bool | None = None,
    ) -> Problem:
        there = [one for known in matched for one in names(known)]
        of = matched[0].name if len(matched) == 1 else f"these {len(matched)}"
        is_error = certain or self._is_whole(str(place[1]))
        if excludes and self._may_lack:
            is_error = False
        return Problem(place, f"matches no {what} of {of}{nearest(name, there)}", is_error=is_error)


def nearest(name: str, names: Iterable[str]) -> str:
    """Return ``: did you mean ...?`` with the name that is most like ``name``, or an empty text."""
    close = difflib.get_close_matches(name, dict.fromkeys(names), n=1, cutoff=0.6)
    return f": did you mean {close[0]!r}?" if close else ""
