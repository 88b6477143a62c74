"""The notifications of a module, and the objects that only they carry."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gateway.model.schema import Element, EventSchema
from gateway.model.values import ValueType
from gateway.snmp.fixed_mib import COMMON_OBJECTS
from gateway.snmp.mib.clauses import (
    NUMBERS_AS_TEXT,
    definition,
    listed,
    object_type,
    plain,
    sentence,
    syntax_clause,
    units_clause,
)
from gateway.snmp.oid_registry import (
    ARGUMENTS_ARC,
    ArgumentEntry,
    EventEntry,
    OidRegistry,
    Status,
    upper_camel,
)
from gateway.snmp.syntax import (
    MAX_BYTES_OCTETS,
    MAX_FLOAT_CHARACTERS,
    MAX_JSON_OCTETS,
    MAX_TEXT_OCTETS,
    SMI_TYPES,
    UNIT_NANOSECONDS,
    Syntax,
    argument_fits,
    argument_form,
    element_of,
)

COMMON_DESCRIPTORS = tuple(f"agEvent{upper_camel(member.name.lower())}" for member in COMMON_OBJECTS)
"""What stands first in the OBJECTS clause of every notification, defined in AMQP-GATEWAY-MIB."""

_GROUP_ARC = 2_001  # those of classes end before
ARGUMENT_SIZES = {
    Syntax.DECIMAL: "(SIZE (0..20))",
    Syntax.FLOAT_TEXT: f"(SIZE (0..{MAX_FLOAT_CHARACTERS}))",
    Syntax.UUID: "(SIZE (0 | 36))",
}
"""Where they differ from those of columns: an empty string stands for an absent value."""

_CUT = {
    Syntax.TEXT: f"Text of more than {MAX_TEXT_OCTETS} octets is cut.",
    Syntax.OCTETS: f"A value of more than {MAX_BYTES_OCTETS} octets is sent empty.",
    Syntax.JSON: (
        "JSON text in ASCII, the keys of maps in alphabetical order. "
        f"One of more than {MAX_JSON_OCTETS} octets is sent empty."
    ),
    **NUMBERS_AS_TEXT,
}
NOTHING = {
    Syntax.ENUMERATION: "unknown",
    Syntax.ROW_POINTER: "0.0",
    Syntax.DATE_AND_TIME: "Eight octets of zero",
    Syntax.FLOAT64: "NaN",
    Syntax.TRUTH: "Left out",
    Syntax.GAUGE32: "0",
    Syntax.INTEGER32: "0",
    Syntax.UNSIGNED32: "0",
}
"""What stands for an absent argument; an empty string where nothing is said here."""

_DIVIDED = UNIT_NANOSECONDS.keys() - {"nanoseconds"}
_LONGEST = {Syntax.TEXT: MAX_TEXT_OCTETS, Syntax.OCTETS: MAX_BYTES_OCTETS}


class NotificationTexts:
    """The parts of one module that are about its events.

    Args:
        registry: numbers, names and syntaxes.
        schemas: descriptions and units, with the mapping applied; of several versions of an event the last.
    """

    def __init__(self, registry: OidRegistry, schemas: Iterable[EventSchema]) -> None:
        self._registry = registry
        self._schemas = {registry.entry_name(schema.key): schema for schema in schemas}
        self._elements_by_arc = {
            argument.arc: tuple(self._elements(argument)) for argument in registry.arguments
        }

    def imports(self) -> Mapping[str, set[str]]:
        """The names that the parts need, by module."""
        if not self._registry.events:
            return {}
        names: dict[str, set[str]] = {
            "AMQP-GATEWAY-MIB": set(COMMON_DESCRIPTORS),
            "SNMPv2-SMI": {"NOTIFICATION-TYPE"},
            "SNMPv2-CONF": {"NOTIFICATION-GROUP", "MODULE-COMPLIANCE"},
        }
        if self._registry.arguments:
            names["SNMPv2-SMI"].add("OBJECT-TYPE")
            names["SNMPv2-CONF"].add("OBJECT-GROUP")
        types = [SMI_TYPES[argument.syntax] for argument in self._registry.arguments]
        if any(argument.twin for argument in self._registry.arguments):
            types.append(SMI_TYPES[Syntax.TEXT])
        for smi in types:
            if smi.module:
                names.setdefault(smi.module, set()).add(smi.name)
        return names

    def definitions(self) -> list[str]:
        """The objects, then the notifications; nothing where there are no events."""
        if not self._registry.events:
            return []
        prefix = self._registry.prefix
        parts = []
        if self._registry.arguments:
            parts.append(
                "-- Only notifications carry these.\n"
                f"{prefix}NotificationObjects OBJECT IDENTIFIER ::= {{ {prefix}Objects {ARGUMENTS_ARC} }}"
            )
        for argument in self._registry.arguments:
            parts += self._objects(argument)
        return parts + [self._notification(event_entry) for event_entry in self._registry.events]

    def groups(self) -> list[str]:
        """Conformance groups: objects and notifications, each current and obsolete."""
        objects = [(name, a.status) for a in self._registry.arguments for name in a.descriptors]
        notifications = [
            (event_entry.descriptor, event_entry.status) for event_entry in self._registry.events
        ]
        prefix = self._registry.prefix
        found = []
        for offset, (macro, clause, infix, entries) in enumerate(
            (
                ("OBJECT-GROUP", "OBJECTS", "NotificationObject", objects),
                ("NOTIFICATION-GROUP", "NOTIFICATIONS", "Notification", notifications),
            )
        ):
            for status, said in ((Status.CURRENT, ""), (Status.OBSOLETE, "Obsolete")):
                members = [name for name, of in entries if of is status]
                if members:
                    arc = _GROUP_ARC + 2 * offset + bool(said)
                    clauses = [
                        (clause, listed(members, 4)),
                        ("STATUS", status.value),
                        ("DESCRIPTION", _GROUP_TEXTS[macro, status]),
                    ]
                    found.append(
                        definition(f"{prefix}{infix}{said}Group {macro}", clauses, f"{prefix}Groups {arc}")
                    )
        return found

    def required_groups(self) -> list[tuple[str, str]]:
        """The current groups, each with when it has to be there."""
        prefix, when = self._registry.prefix, "Mandatory where a source reports events."
        wanted = []
        if any(argument.current for argument in self._registry.arguments):
            wanted.append((f"{prefix}NotificationObjectGroup", when))
        if any(event_entry.status is Status.CURRENT for event_entry in self._registry.events):
            wanted.append((f"{prefix}NotificationGroup", when))
        return wanted

    def _elements(self, argument: ArgumentEntry) -> Iterable[tuple[str, Element]]:
        """What the events that have the argument say of it, by the event's name."""
        for event_entry in self._registry.events:
            schema = self._schemas.get(event_entry.name)
            if schema is None or argument.arc not in event_entry.arguments:
                continue
            for declared in schema.arguments:
                timed = declared.type in (ValueType.DURATION, ValueType.TIME)
                form = argument_form(declared, argument.unit if timed else "")
                if declared.name == argument.name and argument_fits(form, argument.form):
                    yield event_entry.name, element_of(declared)

    def _objects(self, argument: ArgumentEntry) -> list[str]:
        elements = self._elements_by_arc[argument.arc]
        base = f"{self._registry.prefix}NotificationObjects"
        bounds = ARGUMENT_SIZES.get(argument.syntax)
        syntax = f"{SMI_TYPES[argument.syntax].name} {bounds}" if bounds else syntax_clause(argument, None)
        units = next(
            (unit for _, element in elements if (unit := units_clause(argument, element))), argument.unit
        )
        parts = [
            object_type(
                argument.descriptor,
                syntax,
                "accessible-for-notify",
                argument.status.value,
                _argument_description(argument, elements),
                f"{base} {argument.arc}",
                units,
            )
        ]
        if argument.twin is not None:
            named = SMI_TYPES[Syntax.TEXT]
            parts.append(
                object_type(
                    argument.twin.descriptor,
                    f"{named.name} {named.bounds}",
                    "accessible-for-notify",
                    argument.status.value,
                    f"The full name of the object that {argument.descriptor} points to; empty where there is "
                    "none.",
                    f"{base} {argument.twin.arc}",
                )
            )
        return parts

    def _notification(self, event_entry: EventEntry) -> str:
        schema = self._schemas.get(event_entry.name)
        said = (schema.description or schema.label) if schema else ""
        own = [name for argument in self._registry.arguments_of(event_entry) for name in argument.descriptors]
        label = plain(event_entry.name)
        return definition(
            f"{event_entry.descriptor} NOTIFICATION-TYPE",
            [
                ("OBJECTS", listed([*COMMON_DESCRIPTORS, *own], 4)),
                ("STATUS", event_entry.status.value),
                ("DESCRIPTION", sentence(said or f"The event '{label}'; its source gives no description.")),
            ],
            f"{self._registry.prefix}Notifications {event_entry.arc}",
        )


_GROUP_TEXTS = {
    ("OBJECT-GROUP", Status.CURRENT): "What notifications carry beside what all have in common.",
    ("OBJECT-GROUP", Status.OBSOLETE): "What notifications once carried.",
    ("NOTIFICATION-GROUP", Status.CURRENT): "The events of the package.",
    ("NOTIFICATION-GROUP", Status.OBSOLETE): "Events that the package once had.",
}


def _argument_description(argument: ArgumentEntry, elements: Sequence[tuple[str, Element]]) -> str:
    nothing = NOTHING.get(argument.syntax, "Empty")
    if not argument.current:
        return f"Obsolete: '{argument.name}' has another object now, or none. {nothing} for ever."
    sentences = [_what_it_is(argument, elements)]
    if argument.syntax is Syntax.DECIMAL and argument.unit in _DIVIDED:
        sentences.append(f"Whole {argument.unit}, and less than one with its fraction.")
    longest = _LONGEST.get(argument.syntax)
    promised = [element.max_length for _, element in elements]
    if argument.syntax in _CUT and not (
        longest and promised and all(length is not None and length <= longest for length in promised)
    ):
        sentences.append(_CUT[argument.syntax])
    if argument.twin is not None:
        sentences.append(f"{argument.twin.descriptor} has its name.")
    if not elements or any(element.optional for _, element in elements):
        sentences.append(f"{nothing} where it is not known.")
    return " ".join(sentences)


def _what_it_is(argument: ArgumentEntry, elements: Sequence[tuple[str, Element]]) -> str:
    """What events say of an argument that they share: once where they agree, else each for itself."""
    events: dict[str, list[str]] = {}
    for event, element in elements:
        if text := element.description or element.label:
            events.setdefault(sentence(text), []).append(event)
    if not events:
        return f"'{argument.name}' of the event; its source gives no description."
    if len(events) == 1:
        return next(iter(events))
    return " ".join(f"In {', '.join(names)}: {text}" for text, names in events.items())
