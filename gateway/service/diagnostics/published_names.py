"""Names of objects in front ends and their meanings: OIDs and descriptors of SNMP, ObjectNames of JMX."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gateway.escapes import escaped, printable, unescaped
from gateway.feed.records import Interest
from gateway.jmx.names import DOMAIN, begins_with_parent, name_of
from gateway.model.observations import UNREAD
from gateway.model.schema import ClassKey
from gateway.service.diagnostics.snmp_meaning import SnmpMeaning
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.state.running_addresses import Addresses
from gateway.shipped_files import shipped_folder
from gateway.snmp.ber import Oid, dotted, parse_oid
from gateway.snmp.row_columns import RowColumn
from gateway.state_folder import StateError, StateFolder
from gateway.terminal.documents import time_text
from gateway.terminal.selection import NotOneObjectError, find_object, find_objects
from gateway.terminal.view import KnownObject, ObjectKey, TerminalView

if TYPE_CHECKING:  # Their modules are imported where a registry is read: they take longer than most commands.
    from gateway.snmp.oid_registry import ClassEntry, OidRegistry

_OID: Final = re.compile(r"\.?(?:[0-9]{1,10}\.)+[0-9]{1,10}", re.ASCII)
_DESCRIPTOR: Final = re.compile(
    r"(?:(?P<module>[A-Za-z][A-Za-z0-9-]*)::)?(?P<name>[A-Za-z][A-Za-z0-9-]*)(?P<index>(?:\.[0-9]{1,10})*)",
    re.ASCII,
)
_PROPERTY: Final = re.compile(r'([^,=:"*?]+)=("(?:[^"\\]|\\.)*"|[^,=:"*?]*)(?:,|$)')
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_MAX_OBJECT_NAME: Final = 100_000


class PublishedNames:
    """Finds the names of objects, and the meanings of names.

    Args:
        root: the root of all object identifiers; ``None`` where SNMP is off.
        registries: the shipped ones and the site's, or what reads them: most commands need none, and reading
            them takes as long as all else that these do.
        buckets: the buckets of JMX; ``None`` where it is off.
        fixed: names of the gateway's own module, or what reads them.
    """

    def __init__(
        self,
        root: Oid | None,
        registries: Iterable[OidRegistry] | Callable[[], Iterable[OidRegistry]],
        buckets: Mapping[str, int] | None,
        fixed: FixedNames | Callable[[], FixedNames] | None = None,
    ) -> None:
        self._root = root
        self._given_fixed = fixed or FixedNames()
        self._given_registries = registries if root is not None else ()
        self._buckets = buckets

    @cached_property
    def _registries(self) -> tuple[OidRegistry, ...]:
        given = self._given_registries
        return tuple(given() if callable(given) else given)

    @cached_property
    def _fixed(self) -> FixedNames:
        given = self._given_fixed
        return given() if callable(given) else given

    @classmethod
    def of(cls, addresses: Addresses) -> PublishedNames:
        """Return the published names of a configuration, as the running gateway has them.

        What needs a name of SNMP raises `CommandError` if a registry cannot be read.

        Raises:
            CommandError: the state folder cannot be read.
        """
        snmp, jmx = addresses.snmp, addresses.jmx
        try:
            state = StateFolder(addresses.state_folder)
        except StateError as error:
            raise CommandError(ExitCode.STATE, str(error)) from error
        return cls(
            None if snmp is None else parse_oid(snmp.root),
            partial(_registries_of, state.path, addresses.site),
            None if jmx is None else jmx.buckets,
            _shipped_names,
        )

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
        from gateway.service.diagnostics.registry_names import descriptors  # noqa: PLC0415  see above

        for registry in self._registries:
            if match["module"] in {None, registry.module}:
                oid = dict(descriptors(registry, self._root)).get(match["name"])
                if oid is not None:
                    return (*oid, *index)
        return None

    def meaning(self, oid: Oid) -> SnmpMeaning | None:
        """Return the meaning of an object identifier; ``None`` where it has none below the gateway's root."""
        if self._root is None or oid[: len(self._root)] != self._root:
            return None
        from gateway.service.diagnostics.registry_names import meaning_of  # noqa: PLC0415  see above

        relative = oid[len(self._root) :]
        for registry in self._registries:
            arc = registry.module_arc
            if relative[: len(arc)] == arc:
                return meaning_of(registry, oid, relative[len(arc) :])
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

    @staticmethod
    def properties(text: str) -> dict[str, str] | None:
        """Return the keys of an ObjectName of ours, with values without quotes; ``None`` for another text."""
        found = _properties(text)
        return None if found is None else {key: _unquoted(value) for key, value in found.items()}

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


def _registries_of(state: Path, site: str) -> Iterable[OidRegistry]:
    from gateway.service.diagnostics.registry_names import read_registries  # noqa: PLC0415  see above

    return read_registries(state, site)


def _shipped_names() -> FixedNames:
    try:
        return FixedNames.of(shipped_folder("mibs"))
    except OSError as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error


def _unquoted(value: str) -> str:
    """Return what was quoted by ``javax.management.ObjectName.quote``."""
    if not value.startswith('"'):
        return value
    return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], value[1:-1])


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
        text: as it was written, or copied from a line, with escapes.
        whole: accept no abbreviation, because the object will be changed.

    Raises:
        CommandError: the text means no object, or several; the error names candidates.
    """
    found = by_published_name(view, names, text)
    if found is not None:
        return found
    meant = unescaped(text)
    try:
        found = find_object(view, meant, whole=whole)
    except NotOneObjectError as error:
        # A name with a backslash may be written as it is, too; what is gone is not changed by another name.
        is_gone = error.ended is not None
        if meant != text and not error.several and not (whole and is_gone):
            try:
                return find_object(view, text, whole=whole)
            except NotOneObjectError as as_it_is:
                if not is_gone or as_it_is.several or as_it_is.ended is not None:
                    error = as_it_is
        raise _not_one(view, error, text, whole=whole) from error
    if whole and meant != text and any(one is not found for one in find_objects(view, text, whole=True)):
        raise CommandError(
            ExitCode.NOT_FOUND,
            f"{text} is an object's name, and another one's as it is displayed: write its OID or ObjectName, "
            "which `amqp-gateway explain` shows",
        )
    return found


def _not_one(view: TerminalView, error: NotOneObjectError, text: str, *, whole: bool) -> CommandError:
    if not error.several and error.ended is None:
        _refuse_unread(view, text)
    return CommandError(ExitCode.NOT_FOUND, _complaint(error, f"'{printable(text)}'", whole=whole))


def _refuse_unread(view: TerminalView, text: str) -> None:
    """Check that the source of an object that is not known is being read no more.

    Raises:
        CommandError: ``SOURCE_DOWN``: the object may exist.
    """
    name = text.partition("/")[0]
    for source in view.sources.values():
        if source.name == name and source.state in UNREAD:
            state = f"{source.state.value}: {source.detail}".removesuffix(": ")
            complaint = f"source-down: '{printable(text)}' is not known yet, and the source {name} is {state}"
            raise CommandError(ExitCode.SOURCE_DOWN, complaint)


def by_published_name(view: TerminalView, names: PublishedNames, text: str) -> KnownObject | None:
    """Return the object that a front end shows under this name, if it is there."""
    if names.is_object_name(text):
        return names.by_object_name(text, view.objects.values())
    oid = names.oid_of(text)
    meaning = None if oid is None else names.meaning(oid)
    return None if meaning is None or meaning.row is None else view.objects.get(meaning.row)


def _complaint(error: NotOneObjectError, name: str, *, whole: bool) -> str:
    shown = "".join(f"\n  {escaped(path)}" for path in error.candidates)
    if error.several:
        left = error.several - len(error.candidates)
        more = f"\n  and {left:,} more" if left else ""
        return f"{name} means {error.several:,} objects: write more of the name{shown}{more}"
    if error.ended is not None:
        record = error.ended.record
        when = time_text(record.deleted or record.received) if record is not None else None
        return f"{name} is gone: {escaped(error.ended.path)} was deleted{f' at {when}' if when else ''}"
    if whole and error.candidates:
        return f"{name} is no object; write the whole name of what is to be changed{shown}"
    meant = f"; perhaps you mean{shown}" if shown else ": `amqp-gateway tree` shows what there is"
    return f"{name} is no object{meant}"


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
