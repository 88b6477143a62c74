"""Names of objects in front ends and their meanings: OIDs and descriptors of SNMP, ObjectNames of JMX."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.config.files import LoadedConfiguration
from gateway.feed.records import Interest
from gateway.jmx.names import DOMAIN, begins_with_parent, name_of
from gateway.model.schema import ClassKey
from gateway.model.texts import harmless, unescaped
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.shipped_files import shipped_folder
from gateway.snmp.ber import Oid, dotted, parse_oid
from gateway.snmp.oid_registry import ARGUMENTS_ARC, ClassEntry, EventEntry, OidRegistry
from gateway.snmp.registry_files import SiteRegistry, load_shipped_registries
from gateway.snmp.row_columns import ROW_COLUMNS, RowColumn
from gateway.state_folder import StateError, StateFolder
from gateway.terminal.documents import time_text
from gateway.terminal.selection import NotOneObjectError, find_object
from gateway.terminal.view import KnownObject, ObjectKey, TerminalView
from gateway.yaml_documents import DocumentError

_OID: Final = re.compile(r"\.?(?:[0-9]{1,10}\.)+[0-9]{1,10}", re.ASCII)
_DESCRIPTOR: Final = re.compile(
    r"(?:(?P<module>[A-Za-z][A-Za-z0-9-]*)::)?(?P<name>[A-Za-z][A-Za-z0-9-]*)(?P<index>(?:\.[0-9]{1,10})*)",
    re.ASCII,
)
_PROPERTY: Final = re.compile(r'([^,=:"*?]+)=("(?:[^"\\]|\\.)*"|[^,=:"*?]*)(?:,|$)')
_MAX_OBJECT_NAME: Final = 100_000


@dataclass(frozen=True, slots=True)
class SnmpMeaning:
    """The meaning of an object identifier below the gateway's root.

    Attributes:
        oid: the object identifier, without the leading dot.
        descriptor: ``MODULE::descriptor.index``, as net-snmp's commands write and take it.
        key: the class or event; ``None`` where it is a module, or something that has none.
        element: the name of an element, of a column of the gateway's, or of an argument of events.
        description: the description of a column of the gateway's, or of a name in the gateway's own module.
        row: the object, where it names an instance.
        is_event: whether ``key`` is an event.
    """

    oid: str
    descriptor: str
    key: ClassKey | None = None
    element: str = ""
    description: str = ""
    row: ObjectKey | None = None
    is_event: bool = False


class PublishedNames:
    """Finds the names of objects, and the meanings of names.

    Args:
        root: the root of all object identifiers; ``None`` where SNMP is off.
        registries: the shipped ones and the site's.
        buckets: the buckets of JMX; ``None`` where it is off.
        fixed: names of the gateway's own module.
    """

    def __init__(
        self,
        root: Oid | None,
        registries: Iterable[OidRegistry],
        buckets: Mapping[str, int] | None,
        fixed: FixedNames | None = None,
    ) -> None:
        self._root = root
        self._fixed = fixed or FixedNames()
        self._registries = tuple(registries) if root is not None else ()
        self._buckets = buckets

    @classmethod
    def of(cls, loaded: LoadedConfiguration) -> PublishedNames:
        """Return the published names of a configuration, as the running gateway has them.

        Raises:
            CommandError: a registry or the state folder cannot be read.
        """
        snmp, jmx = loaded.settings.snmp, loaded.settings.jmx
        try:
            state = StateFolder(loaded.state_folder)
            today = dt.datetime.now(tz=dt.UTC).date()
            registries = (
                *load_shipped_registries(),
                SiteRegistry(state.path, loaded.settings.site).load(today),
            )
            fixed = FixedNames.of(shipped_folder("mibs"))
        except StateError as error:
            raise CommandError(ExitCode.STATE, str(error)) from error
        except (DocumentError, OSError) as error:
            raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
        root = parse_oid(snmp.root) if snmp.enabled else None
        return cls(root, registries, jmx.buckets if jmx.enabled else None, fixed)

    # ---- of objects -------------------------------------------------------------------------------------

    def row(self, known: KnownObject) -> SnmpMeaning | None:
        """Return the row of an object, which pointers to it hold; ``None`` where SNMP does not show it."""
        return self.element(known.in_class.schema.key, "", known.key)

    def element(self, key: ClassKey, element: str, row: ObjectKey | None = None) -> SnmpMeaning | None:
        """Return the column of an element, or one cell of it; an empty name stands for the object's name."""
        found = self._class_entry(key)
        if found is None or self._root is None:
            return None
        registry, class_entry = found
        column: int = RowColumn.NAME
        if element:
            columns = [e.column for e in class_entry.elements if e.name == element and e.current]
            if not columns:
                return None
            column = columns[0]
        index = () if row is None else (row.source, row.row)
        return self.meaning((*registry.entry_oid(self._root, class_entry), column, *index))

    def table(self, key: ClassKey) -> SnmpMeaning | None:
        """Return the table of a class."""
        found = self._class_entry(key)
        if found is None or self._root is None:
            return None
        registry, class_entry = found
        return self.meaning(registry.entry_oid(self._root, class_entry)[:-1])

    def notification(self, key: ClassKey) -> SnmpMeaning | None:
        """Return the notification of an event."""
        for registry in self._registries:
            event_entry = registry.find_event(key)
            if event_entry is not None and self._root is not None:
                return self.meaning(registry.notification_oid(self._root, event_entry))
        return None

    def object_name(self, known: KnownObject) -> str:
        """Return the ObjectName of an object; empty where JMX is off."""
        if self._buckets is None:
            return ""
        return name_of(
            known.record,
            known.source,
            known.in_class.schema.key,
            has_parent=begins_with_parent(known.in_class),
            buckets=self._buckets.get(known.class_name, 0),
        )

    # ---- what names mean --------------------------------------------------------------------------------

    def oid_of(self, text: str) -> Oid | None:
        """Return the object identifier of a text, dotted or ``MODULE::descriptor.1.2``, or ``None``."""
        if _OID.fullmatch(text):
            return parse_oid(text)
        match = _DESCRIPTOR.fullmatch(text)
        if match is None or self._root is None:
            return None
        index = tuple(int(arc) for arc in match["index"].split(".")[1:])
        fixed = self._fixed.by_descriptor.get(match["name"])
        if fixed is not None and match["module"] in {None, MODULE_NAME}:
            return (*self._root, *fixed, *index)
        for registry in self._registries:
            if match["module"] in {None, registry.module}:
                oid = dict(_descriptors(registry, self._root)).get(match["name"])
                if oid is not None:
                    return (*oid, *index)
        return None

    def meaning(self, oid: Oid) -> SnmpMeaning | None:
        """Return the meaning of an object identifier; ``None`` where it has none below the gateway's root."""
        if self._root is None or oid[: len(self._root)] != self._root:
            return None
        relative = oid[len(self._root) :]
        for registry in self._registries:
            arc = registry.module_arc
            if relative[: len(arc)] == arc:
                return _meaning(registry, oid, relative[len(arc) :])
        return self._fixed_meaning(oid, relative)

    def _fixed_meaning(self, oid: Oid, relative: Oid) -> SnmpMeaning | None:
        found = self._fixed.find(relative)
        if found is None:
            return None
        name, index = found
        descriptor = f"{MODULE_NAME}::{'.'.join((name.descriptor, *map(str, index)))}"
        return SnmpMeaning(dotted(oid), descriptor, description=name.description)

    @staticmethod
    def is_object_name(text: str) -> bool:
        """Return whether a text is an ObjectName of ours."""
        return text.startswith(f"{DOMAIN}:")

    def by_object_name(self, text: str, objects: Iterable[KnownObject]) -> KnownObject | None:
        """Return the object of this ObjectName; the order of its keys does not matter."""
        wanted = _properties(text)
        if wanted is None:
            return None
        return next((known for known in objects if _properties(self.object_name(known)) == wanted), None)

    def _class_entry(self, key: ClassKey) -> tuple[OidRegistry, ClassEntry] | None:
        for registry in self._registries:
            class_entry = registry.find(key)
            if class_entry is not None and class_entry.elements:
                return registry, class_entry
        return None


def _meaning(registry: OidRegistry, oid: Oid, relative: Oid) -> SnmpMeaning:
    """Return the meaning below a module: ``0.E`` an event, ``1.C`` a class, ``1.1000.A`` an argument."""
    text = dotted(oid)
    match relative:
        case (0, arc, *_):
            for event_entry in registry.events:
                if event_entry.arc == arc:
                    return SnmpMeaning(
                        text,
                        _named(registry, event_entry.descriptor),
                        _key(registry, event_entry),
                        is_event=True,
                    )
        case (1, area, arc, *rest) if area == ARGUMENTS_ARC:
            for argument in registry.arguments:
                if arc in argument.arcs:
                    descriptor = argument.descriptors[argument.arcs.index(arc)]
                    return SnmpMeaning(text, _named(registry, descriptor, rest), element=argument.name)
        case (1, arc, *rest):
            for class_entry in registry.classes:
                if class_entry.arc == arc:
                    return _class_meaning(registry, class_entry, text, tuple(rest))
    return SnmpMeaning(text, registry.module)


def _class_meaning(registry: OidRegistry, class_entry: ClassEntry, text: str, rest: Oid) -> SnmpMeaning:
    """Return the meaning below a table: ``1.COLUMN.SOURCE.ROW``."""
    key = _key(registry, class_entry)
    match rest:
        case (1, column, *index):
            name, descriptor, description = _column(class_entry, column)
            row = ObjectKey(index[0], str(key), index[1]) if len(index) == 2 else None  # noqa: PLR2004
            return SnmpMeaning(text, _named(registry, descriptor, index), key, name, description, row)
        case _:
            suffix = "Entry" if rest else "Table"
            return SnmpMeaning(text, _named(registry, class_entry.descriptor + suffix), key)


def _column(class_entry: ClassEntry, column: int) -> tuple[str, str, str]:
    """Return name, descriptor and description of a column; the description of the gateway's own only."""
    if column in set(RowColumn):
        text = ROW_COLUMNS[RowColumn(column)]
        name = text.suffix[0].lower() + text.suffix[1:]
        return name, class_entry.descriptor + text.suffix, text.description.format(label=class_entry.name)
    for element in class_entry.elements:
        if column in element.columns:
            return element.name, element.descriptors[element.columns.index(column)], ""
    return "", f"{class_entry.descriptor}Entry.{column}", ""


def _descriptors(registry: OidRegistry, root: Oid) -> Iterator[tuple[str, Oid]]:
    """Yield every descriptor that names something, with its object identifier without an index."""
    for class_entry in registry.classes:
        entry = registry.entry_oid(root, class_entry)
        yield class_entry.descriptor + "Table", entry[:-1]
        yield class_entry.descriptor + "Entry", entry
        for number, text in ROW_COLUMNS.items():
            yield class_entry.descriptor + text.suffix, (*entry, number)
        for element in class_entry.elements:
            for column, descriptor in zip(element.columns, element.descriptors, strict=True):
                yield descriptor, (*entry, column)
    for event_entry in registry.events:
        yield event_entry.descriptor, registry.notification_oid(root, event_entry)
    for argument in registry.arguments:
        for arc, descriptor in zip(argument.arcs, argument.descriptors, strict=True):
            yield descriptor, registry.argument_oid(root, arc)[:-1]


def _named(registry: OidRegistry, descriptor: str, index: Iterable[int] = ()) -> str:
    return f"{registry.module}::{'.'.join((descriptor, *map(str, index)))}"


def _key(registry: OidRegistry, entry: ClassEntry | EventEntry) -> ClassKey:
    package, _, name = entry.name.rpartition(":")
    return ClassKey(package or registry.package, name)


def _properties(object_name: str) -> dict[str, str] | None:
    """Return the keys and values of an ObjectName, quoted or not; ``None`` where it is none."""
    domain, _, rest = object_name[:_MAX_OBJECT_NAME].partition(":")
    pairs = dict(_PROPERTY.findall(rest))
    whole = ",".join(f"{key}={value}" for key, value in pairs.items())
    return pairs if domain == DOMAIN and pairs and whole == rest else None


def interest_in(names: PublishedNames, text: str) -> Interest | None:
    """Return the objects that `object_of` needs to find the one that ``text`` means; ``None`` for all."""
    if names.is_object_name(text):
        return None  # which object has it is seen from the object only
    texts = {text, unescaped(text)}
    texts |= {one.split("/", 2)[2] for one in texts if one.count("/") > 1}
    try:
        "".join(texts).encode()
    except UnicodeEncodeError:
        return None  # no text that could travel
    oid = names.oid_of(text)
    meaning = None if oid is None else names.meaning(oid)
    row = None if meaning is None else meaning.row
    return Interest(tuple(sorted(texts)), () if row is None else ((row.source, row.row),))


def object_of(view: TerminalView, names: PublishedNames, text: str, *, whole: bool = False) -> KnownObject:
    """Return the one object that ``text`` means.

    Args:
        view: the objects.
        names: their published names.
        text: as it was written.
        whole: accept no abbreviation, because the object will be changed.

    Raises:
        CommandError: the text means no object, or several; the error names candidates.
    """
    found = by_published_name(view, names, text)
    if found is not None:
        return found
    try:
        return find_object(view, text, whole=whole)
    except NotOneObjectError as error:
        # What was copied from a line has escapes in place of what does not print. Who changes something has
        # to mean exactly this: another object may be called as the escapes read.
        if not whole and not error.several and unescaped(text) != text:
            return object_of(view, names, unescaped(text))
        raise CommandError(ExitCode.NOT_FOUND, _complaint(error, whole=whole)) from error


def by_published_name(view: TerminalView, names: PublishedNames, text: str) -> KnownObject | None:
    """Return the object that a front end shows under this name, if it is there."""
    if names.is_object_name(text):
        return names.by_object_name(text, view.objects.values())
    oid = names.oid_of(text)
    meaning = None if oid is None else names.meaning(oid)
    return None if meaning is None or meaning.row is None else view.objects.get(meaning.row)


def _complaint(error: NotOneObjectError, *, whole: bool) -> str:
    shown = "".join(f"\n  {harmless(path)}" for path in error.candidates)
    if error.several:
        left = error.several - len(error.candidates)
        more = f"\n  and {left:,} more" if left else ""
        return f"{error.text!r} means {error.several:,} objects: write more of the name{shown}{more}"
    if error.ended is not None:
        record = error.ended.record
        when = time_text(record.deleted or record.received) if record is not None else None
        return (
            f"{error.text!r} is gone: {harmless(error.ended.path)} was deleted{f' at {when}' if when else ''}"
        )
    if whole and unescaped(error.text) != error.text:
        return (
            f"{error.text!r} is no object; where a name has characters that do not print, write its OID or "
            "ObjectName, which `amqp-gateway explain` shows"
        )
    if whole and error.candidates:
        return f"{error.text!r} is no object; write the whole name of what is to be changed{shown}"
    meant = f"; perhaps you mean{shown}" if shown else ": `amqp-gateway tree` shows what there is"
    return f"{error.text!r} is no object{meant}"


MODULE_NAME: Final = "AMQP-GATEWAY-MIB"

_ROOT: Final = "agRoot"
_ASSIGNMENT: Final = re.compile(
    r"^(?P<name>[a-z][A-Za-z0-9-]*)\s+[A-Z][A-Z -]*\b(?P<body>[^:]*(?::(?!:=)[^:]*)*)"
    r"::=\s*\{\s*(?P<parent>[a-z][A-Za-z0-9-]*)\s+(?P<arc>\d+)\s*\}",
    re.MULTILINE,
)
_DESCRIPTION: Final = re.compile(r'\bDESCRIPTION\s+"([^"]*)"')


@dataclass(frozen=True, slots=True)
class FixedName:
    """A descriptor of the module, and its DESCRIPTION on one line."""

    descriptor: str
    description: str


@dataclass(frozen=True, slots=True)
class FixedNames:
    """The descriptors of the module, by object identifiers below the gateway's root, and the reverse."""

    by_oid: Mapping[Oid, FixedName] = field(default_factory=dict)
    by_descriptor: Mapping[str, Oid] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path) -> FixedNames:
        """Return the descriptors of the module's file in ``folder``.

        Raises:
            OSError: it cannot be read.
        """
        text = (folder / f"{MODULE_NAME}.mib").read_text(encoding="ascii")
        oids: dict[str, Oid] = {_ROOT: ()}
        names: dict[Oid, FixedName] = {}
        for match in _ASSIGNMENT.finditer(text):
            parent = oids.get(match["parent"])
            if parent is None:
                continue  # above the root
            oid = oids[match["name"]] = (*parent, int(match["arc"]))
            described = _DESCRIPTION.search(match["body"])
            names[oid] = FixedName(match["name"], " ".join(described[1].split()) if described else "")
        return cls(names, oids)

    def find(self, relative: Oid) -> tuple[FixedName, Oid] | None:
        """Return the name at an object identifier, or above it, and the rest of the identifier."""
        for length in range(len(relative), 0, -1):
            name = self.by_oid.get(relative[:length])
            if name is not None:
                return name, relative[length:]
        return None
