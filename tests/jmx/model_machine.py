"""A virtual machine in a few lines of Python: it carries commands out, and fails where Java would refuse."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gateway.feed.freshness import Freshness
from gateway.jmx.commands import (
    Attribute,
    AttributeType,
    Change,
    Command,
    DefineClass,
    Emit,
    JmxValue,
    Register,
    RegisterTable,
    SetGroup,
    Unregister,
    encode_batch,
)


@dataclass(slots=True)
class Bean:
    """An MBean."""

    number: int
    name: str
    definition: DefineClass
    group: int
    values: list[JmxValue]


@dataclass
class ModelMachine:
    """The MBeans as clients would see them.

    Attributes:
        emitted: notifications, with the names of the MBeans that emitted them.
        history: registrations and unregistrations by name, in order.
        tables: tables by number: their name, and the names of their objects by number.
    """

    definitions: dict[int, DefineClass] = field(default_factory=dict)
    groups: dict[int, Freshness] = field(default_factory=dict)
    beans: dict[int, Bean] = field(default_factory=dict)
    names: dict[str, int] = field(default_factory=dict)
    emitted: list[tuple[tuple[str, ...], Emit]] = field(default_factory=list)
    history: list[str] = field(default_factory=list)
    tables: dict[int, tuple[str, dict[int, str]]] = field(default_factory=dict)

    def carry_out(self, commands: Iterable[Command]) -> None:
        """Carry out a batch."""
        commands = list(commands)
        encode_batch(commands)
        for command in commands:
            match command:
                case DefineClass():
                    self._define(command)
                case SetGroup(group, freshness):
                    self.groups[group] = freshness
                case RegisterTable(number, name):
                    assert number not in self.beans
                    self.tables[number] = (name, {})
                case Register():
                    self._register(command)
                case Change(number, positions, values):
                    self._change(self.beans[number], dict(zip(positions, values, strict=True)))
                case Unregister(number):
                    self._unregister(number)
                case Emit():
                    self._emit(command)

    def read(self, name: str) -> dict[str, JmxValue]:
        """All attributes of an MBean, as a client reads them."""
        bean = self.beans[self.names[name]]
        freshness = self.groups.get(bean.group, Freshness.STALE)
        shown: dict[str, JmxValue] = {
            attribute.name: value if attribute.always or freshness is not Freshness.WITHHELD else None
            for attribute, value in zip(bean.definition.attributes, bean.values, strict=True)
        }
        shown["Stale"] = freshness is not Freshness.FRESH
        return shown

    def everything(self) -> dict[str, dict[str, JmxValue]]:
        """All MBeans by name."""
        return {name: self.read(name) for name in sorted(self.names)}

    def attribute(self, name: str, attribute: str) -> Attribute:
        """Return the definition of an attribute of an MBean."""
        bean = self.beans[self.names[name]]
        return next(a for a in bean.definition.attributes if a.name == attribute)

    def _define(self, definition: DefineClass) -> None:
        names = [attribute.name for attribute in definition.attributes]
        assert len({*names, "Stale"}) == len(names) + 1, names
        assert definition.description.strip()
        for attribute in definition.attributes:
            assert attribute.name.strip()
            assert attribute.description.strip()
            limited = attribute.minimum is not None or attribute.maximum is not None
            assert not limited or attribute.type in {
                AttributeType.LONG,
                AttributeType.BIG_INTEGER,
                AttributeType.DOUBLE,
            }
            assert not attribute.legal or attribute.type is AttributeType.STRING
        self.definitions[definition.class_number] = copy.deepcopy(definition)

    def _register(self, command: Register) -> None:
        definition = self.definitions[command.class_number]
        assert len(command.values) == len(definition.attributes)
        present = self.beans.get(command.number)
        fits = present and (present.name, present.definition) == (command.object_name, definition)
        if not fits:
            self._unregister(command.number)
            if command.object_name in self.names:
                self._unregister(self.names[command.object_name])
            self.history.append(f"+{command.object_name}")
        bean = Bean(
            command.number, command.object_name, definition, command.group, [None] * len(command.values)
        )
        self.beans[command.number] = bean
        self.names[command.object_name] = command.number
        for _, objects in self.tables.values():
            objects.pop(command.number, None)
        if command.table:
            self.tables[command.table][1][command.number] = command.object_name
        self._change(bean, dict(enumerate(command.values)))

    def _change(self, bean: Bean, values: Mapping[int, JmxValue]) -> None:
        for position, value in values.items():
            type_ = bean.definition.attributes[position].type
            assert value is None or _fits(type_, value), (bean.name, position, type_, value)
            bean.values[position] = value

    def _unregister(self, number: int) -> None:
        self.tables.pop(number, None)
        for _, objects in self.tables.values():
            objects.pop(number, None)
        bean = self.beans.pop(number, None)
        if bean is not None:
            del self.names[bean.name]
            self.history.append(f"-{bean.name}")

    def _emit(self, command: Emit) -> None:
        emitters = [self.beans[number] for number in command.emitters if number in self.beans]
        assert all(bean.definition.notifications for bean in emitters)
        names = [name for name, _, _ in command.data]
        assert len(set(names)) == len(names)
        assert all(value is None or _fits(type_, value) for _, type_, value in command.data), command
        self.emitted.append((tuple(bean.name for bean in emitters), command))


def _whole(low: int, high: int) -> Callable[[object], bool]:
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and low <= value < high


def _are_texts(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, str) for item in value)


_CHECKS: Mapping[AttributeType, Callable[[object], bool]] = {
    AttributeType.BOOLEAN: lambda value: isinstance(value, bool),
    AttributeType.LONG: _whole(-(2**63), 2**63),
    AttributeType.BIG_INTEGER: _whole(-(2**63), 2**64),
    AttributeType.DOUBLE: lambda value: isinstance(value, float),
    AttributeType.STRING: lambda value: isinstance(value, str),
    AttributeType.DATE: _whole(-(2**63), 2**63),
    AttributeType.BYTES: lambda value: isinstance(value, bytes),
    AttributeType.OBJECT_NAME: lambda value: isinstance(value, str) and value.startswith("amqp.gateway:"),
    AttributeType.MAP: lambda value: (
        isinstance(value, tuple) and all(_are_texts(pair) and len(pair) == 2 for pair in value)
    ),
    AttributeType.LIST: _are_texts,
}


def _fits(type_: AttributeType, value: JmxValue) -> bool:
    return _CHECKS[type_](value)
