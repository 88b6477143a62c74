"""The classes of recorded Qpid brokers and of a recorded OpenAMQ, and their elements in mappings."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

from gateway.dialects.cml.codec import read_message
from gateway.dialects.cml.messages import SchemaReply
from gateway.dialects.cml.schema import read_classes
from gateway.mapping.files import applied, applied_event, is_statistic
from gateway.mapping.rules import ArgumentRule, ElementRule, Mapping, MethodArgumentRule
from gateway.model.schema import ClassSchema, Element, EventSchema
from gateway.model.values import ValueType
from gateway.snmp.oid_registry import OidRegistry
from gateway.snmp.syntax import argument_fits, argument_form, form_of
from tests.components.shipped_mappings import shipped_mappings, shipped_registries
from tests.dialects.cml.recordings import exchange
from tests.dialects.qmf.recordings import definitions

QPIDD, JAVA = "qpidd-0.34", "java-0.8"
QPID, QPID_ACL, OPENAMQ = "org.apache.qpid.broker", "org.apache.qpid.acl", "openamq.org.server"
PACKAGES = (QPID, QPID_ACL, OPENAMQ)

MAPPINGS = shipped_mappings()
REGISTRIES = {registry.package: registry for registry in shipped_registries()}


@cache
def recorded(package: str) -> tuple[ClassSchema | EventSchema, ...]:
    """Every version of every class and event of a package, as sessions learn them."""
    if package == OPENAMQ:
        reply = read_message(exchange("schema-002").replies[0])
        assert isinstance(reply, SchemaReply)
        return tuple(each.schema for each in read_classes(reply, partial(is_statistic, MAPPINGS)))
    return tuple(
        each.schema for peer in (QPIDD, JAVA) for each in definitions(peer) if each.key.package == package
    )


def recorded_class(name: str, package: str, peer: str = QPIDD) -> ClassSchema:
    """Return a class of a peer."""
    reported = recorded(package) if package == OPENAMQ else [each.schema for each in definitions(peer)]
    (found,) = (
        each
        for each in reported
        if isinstance(each, ClassSchema) and (each.key.package, each.key.name) == (package, name)
    )
    return found


def element(schema: ClassSchema, name: str) -> Element:
    """One element of a class."""
    return schema.elements[schema.positions[name]]


def reported_names(schema: ClassSchema | EventSchema) -> Iterator[tuple[str, ValueType]]:
    """Yield the place of each element and argument, and its type."""
    if isinstance(schema, EventSchema):
        yield from ((f"events.{schema.key.name}.{one.name}", one.type) for one in schema.arguments)
        return
    place = f"classes.{schema.key.name}"
    for group, elements in (("properties", schema.properties), ("statistics", schema.statistics)):
        yield from ((f"{place}.{group}.{one.name}", one.type) for one in elements)
    for method in schema.methods:
        for argument in method.arguments:
            yield f"{place}.methods.{method.name}.{argument.name}", argument.type


def mapped_names(
    mapping: Mapping,
) -> Iterator[tuple[str, ElementRule | ArgumentRule | MethodArgumentRule]]:
    """Yield the same of a mapping, with the rules."""
    for class_name, rule in mapping.classes.items():
        place = f"classes.{class_name}"
        yield from ((f"{place}.properties.{name}", one) for name, one in rule.properties.items())
        yield from ((f"{place}.statistics.{name}", one) for name, one in rule.statistics.items())
        for method, method_rule in rule.methods.items():
            for name, argument in method_rule.arguments.items():
                yield f"{place}.methods.{method}.{name}", argument
    for event, event_rule in mapping.events.items():
        for name, event_argument in event_rule.arguments.items():
            yield f"events.{event}.{name}", event_argument


def without_a_column(schema: ClassSchema | EventSchema, registry: OidRegistry) -> set[str]:
    """Return the names without a number in a shipped registry, of a class or event with its mapping."""
    mapping = MAPPINGS[schema.key.package]
    if isinstance(schema, EventSchema):
        event_entry = registry.find_event(schema.key)
        assert event_entry is not None
        numbered = registry.arguments_of(event_entry)
        return {
            each.name
            for each in applied_event(mapping, schema).arguments
            if not any(
                one.name == each.name and argument_fits(argument_form(each), one.form) for one in numbered
            )
        }
    class_entry = registry.find(schema.key)
    assert class_entry is not None
    rule = mapping.classes[schema.key.name]
    units = {name: one.snmp_unit for name, one in (*rule.properties.items(), *rule.statistics.items())}
    return {
        each.name
        for each in applied(mapping, schema).elements
        if not any(
            one.current and one.name == each.name and form_of(each, units[each.name]).fits(one.form)
            for one in class_entry.elements
        )
    }
