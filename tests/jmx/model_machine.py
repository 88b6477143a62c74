"""A virtual machine in a few lines of Python: it carries commands out, and fails where Java would refuse."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from gateway.feed.access import mask_of
from gateway.feed.freshness import Freshness
from gateway.jmx.commands import (
    EVERYBODY,
    NOTHING,
    Attribute,
    AttributeType,
    Change,
    ChangePolicy,
    Command,
    DefineAccess,
    DefineClass,
    Emit,
    JmxValue,
    Register,
    RegisterTable,
    Rights,
    SetGroup,
    Unregister,
    Varying,
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
    access: int = EVERYBODY


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
    accesses: dict[int, DefineAccess] = field(default_factory=dict)
    unrestricted: tuple[bool, ...] = ()

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
                case DefineAccess() | ChangePolicy():
                    self._take_policy(command)

    def _take_policy(self, command: DefineAccess | ChangePolicy) -> None:
        if isinstance(command, ChangePolicy):
            self.accesses.clear()
            self.unrestricted = command.unrestricted
            return
        assert command.class_number in self.definitions
        assert all(choice < len(command.rights) for choice in command.choices)
        self.accesses[command.number] = command

    def read(self, name: str, user: int = 0) -> dict[str, JmxValue]:
        """All attributes of an MBean, as a client of a user reads them.

        Raises:
            KeyError: there is no such MBean, or none for the user.
        """
        bean = self.beans[self.names[name]]
        rights = self._rights(bean, user)
        if rights is None:
            raise KeyError(name)
        freshness = self.groups.get(bean.group, Freshness.STALE)
        shown: dict[str, JmxValue] = {
            attribute.name: self._seen(value, user)
            if attribute.always or freshness is not Freshness.WITHHELD
            else None
            for place, (attribute, value) in enumerate(
                zip(bean.definition.attributes, bean.values, strict=True)
            )
            if rights.reads is None or mask_of(rights.reads) >> place & 1
        }
        shown["Stale"] = freshness is not Freshness.FRESH
        return shown

    def everything(self, user: int = 0) -> dict[str, dict[str, JmxValue]]:
        """All MBeans of a user by name."""
        return {name: self.read(name, user) for name in self.names_of(user)}

    def names_of(self, user: int) -> list[str]:
        """Return the names of the MBeans that exist for a user."""
        return [
            name
            for name, number in sorted(self.names.items())
            if self._rights(self.beans[number], user) is not None
        ]

    def operations(self, name: str, user: int) -> list[str]:
        """Return the operations that an MBean describes to a user."""
        bean = self.beans[self.names[name]]
        rights = self._rights(bean, user)
        assert rights is not None
        return [
            operation.name
            for place, operation in enumerate(bean.definition.operations)
            if rights.operations is None or mask_of(rights.operations) >> place & 1
        ]

    def writable(self, name: str, user: int) -> list[str]:
        """Return the attributes that an MBean describes to a user as writable."""
        bean = self.beans[self.names[name]]
        rights = self._rights(bean, user)
        assert rights is not None
        return [
            attribute.name
            for place, attribute in enumerate(bean.definition.attributes)
            if attribute.writable and (rights.writes is None or mask_of(rights.writes) >> place & 1)
        ]

    def received(self, user: int) -> list[tuple[str, dict[str, JmxValue]]]:
        """Return message and data of the notifications that a user receives."""
        received = []
        for _, emit in self.emitted:
            choice = emit.choices[user] if emit.choices else 0
            if choice != NOTHING:
                message, data = (emit.message, emit.data) if not choice else emit.variants[choice - 1]
                received.append((message, {name: value for name, _, value in data}))
        return received

    def _rights(self, bean: Bean, user: int) -> Rights | None:
        if bean.access == EVERYBODY:
            return Rights(None)
        access = self.accesses.get(bean.access)
        if access is None:  # of a former policy
            return Rights(None) if self.unrestricted[user : user + 1] == (True,) else None
        choice = access.choices[user] if user < len(access.choices) else NOTHING
        return None if choice == NOTHING else access.rights[choice]

    def _seen(self, value: JmxValue, user: int) -> JmxValue:
        if isinstance(value, Varying):
            choice = value.choices[user] if value.choices else 0
            value = None if choice == NOTHING else value.values[choice]
        is_hidden = (
            isinstance(value, str)
            and value in self.names
            and self._rights(self.beans[self.names[value]], user) is None
        )
        return None if is_hidden else value

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
        if not present or present.name != command.object_name:
            self._unregister(command.number)
            if command.object_name in self.names:
                self._unregister(self.names[command.object_name])
            self.history.append(f"+{command.object_name}")
        bean = Bean(
            command.number,
            command.object_name,
            definition,
            command.group,
            [None] * len(command.values),
            command.access,
        )
        if command.access != EVERYBODY:
            assert self.accesses[command.access].class_number == command.class_number
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
            varies = bean.definition.attributes[position].varies
            assert value is None or isinstance(value, Varying) == varies, (bean.name, position)
            for each in value.values if isinstance(value, Varying) else (value,):
                assert each is None or _fits(type_, each), (bean.name, position, type_, each)
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
        for data in (command.data, *(data for _, data in command.variants)):
            assert all(value is None or _fits(type_, value) for _, type_, value in data), command
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
