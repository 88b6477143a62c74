"""What a refused SET asked for, for the record: object, element and value of each variable binding.

A value is told where its variable is that of an element; the core masks it where that is secret. Behind any
other name may stand anything, a password under a mistyped name too: of these the name is told, the value not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from gateway.feed.values import FeedValue, ObjectLink
from gateway.model.secrets import MASK
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.syntax import WRITABLE_SYNTAXES
from gateway.snmp.tables.classes import Target, Variable
from gateway.snmp.writable import Assignment
from gateway.snmp.written_values import WrittenValueError, written_value

MAX_TOLD: Final = 100
"""Variable bindings of one SET: the first ones, and the one that was refused."""

_NUMBERS: Final = frozenset({ber.GAUGE32, ber.COUNTER32, ber.COUNTER64, ber.TIME_TICKS})


class Variables(Protocol):
    """Knows the variables of managed objects (`gateway.snmp.projection.Projection`)."""

    def variable(self, name: Oid) -> Variable | None:
        """The variable of this name; ``None`` outside the tables of objects."""

    def target(self, instance: Oid) -> Target | None:
        """The object in whose row an instance is; ``None`` outside the tables of objects."""


def asked_values(
    variables: Variables, assignments: Sequence[Assignment], refused: int
) -> Mapping[str, FeedValue]:
    """The values by name.

    An element of the object that the refused binding is about has its own name, one of another object that
    object before it, and what is no element its object identifier.

    Args:
        variables: of which something is known.
        assignments: of the SET.
        refused: the place of the one that was refused, from 0.
    """
    about = variables.variable(assignments[refused].name)
    places = list(range(min(len(assignments), MAX_TOLD)))
    if refused not in places:
        places[-1] = refused
    told: dict[str, FeedValue] = {}
    for place in places:
        assignment = assignments[place]
        variable = variables.variable(assignment.name)
        name = _name(variable, about, assignment.name)
        if name in told:
            name = f"{name} ({assignment.index})"
        told[name] = (
            MASK if variable is None or variable.lock is None else _value(variables, variable, assignment)
        )
    return told


def dotted(name: Oid) -> str:
    """An object identifier as people write it."""
    return ".".join(map(str, name))


def _name(variable: Variable | None, about: Variable | None, oid: Oid) -> str:
    if variable is None or variable.lock is None:
        return dotted(oid)
    target, element = variable.target, variable.lock.name
    if about is not None and _object(target) == _object(about.target):
        return element
    return f"{target.class_name} {target.stable_name or target.row} {element}"


def _object(target: Target) -> tuple[int, str, int]:
    return target.source, target.class_name, target.row


def _value(variables: Variables, variable: Variable, assignment: Assignment) -> FeedValue:
    """As the element's type has it; as SNMP does where it does not fit, or stands for no value."""
    element, lock = variable.element, variable.lock
    if element is not None and lock is not None and lock.syntax in WRITABLE_SYNTAXES:

        def find(instance: Oid) -> ObjectLink | None:
            target = variables.target(instance)
            if target is None or target.schema is None or target.source != variable.target.source:
                return None
            return ObjectLink(target.class_name, target.row, target.stable_name)

        try:
            value = written_value(assignment.value, element, lock, find)
        except WrittenValueError:
            value = None
        if value is not None:
            return value
    return snmp_value(assignment.value)


def snmp_value(tlv: bytes) -> FeedValue:
    """A value of SNMP: a number, a text where octets are one, object identifiers dotted; else hexadecimal."""
    tag, start, stop = ber.read_header(tlv, 0, len(tlv))
    content = tlv[start:stop]
    if tag == ber.INTEGER:
        return int.from_bytes(content, "big", signed=True)
    if tag in _NUMBERS:
        return int.from_bytes(content, "big")
    if tag == ber.OBJECT_IDENTIFIER:
        return dotted(ber.decode_name(content))
    if tag == ber.OCTET_STRING:
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return content
        return text if text.isprintable() else content
    return content
