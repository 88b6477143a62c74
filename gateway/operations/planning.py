"""Planning: checks a request, and makes the plan of its operation, or refuses it.

A value that does not fit the schema is refused, never cut. `gateway.model.validation` checks types, lengths,
ranges and enumerations; `checked` resolves references and gives values the form of the inventory.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias
from uuid import UUID

import msgspec

from gateway.feed.operations import InvokeMethod, OperationKind, OperationRequest, ReadFresh, SetElements
from gateway.feed.values import FeedValue, ObjectLink, links_in
from gateway.inventory.classes import ClassRegistry
from gateway.inventory.inventory import Inventory
from gateway.inventory.objects import Entry
from gateway.inventory.source import SourceInventory
from gateway.model.observations import UNREAD, SourceState
from gateway.model.operations import Outcome, Principal
from gateway.model.schema import (
    Access,
    Argument,
    ClassKey,
    ClassSchema,
    Direction,
    Element,
    Method,
    original_name,
)
from gateway.model.secrets import SecretRules
from gateway.model.validation import validate
from gateway.model.values import Reference, Value, Values, ValueType
from gateway.policy.decisions import (
    Policy,
    ReadObject,
    Subject,
    Wish,
    covering,
    decided_by_covering,
    sees_source,
)
from gateway.policy.marks import Marks, name_elements

_SECRETS = SecretRules()


@dataclass(frozen=True, slots=True)
class Target:
    """The object that an operation is about, found once; it is looked up again by its row afterwards.

    ``found`` is that object. Another one of its name may have the row later: its values say nothing of the
    operation. ``readable`` has the elements that the principal of the request may read.
    """

    source: SourceInventory
    class_name: str
    row: int
    stable_name: str
    leaf_name: str
    found: Entry = field(compare=False, repr=False)
    readable: frozenset[str] = field(default=frozenset(), compare=False, repr=False)

    @property
    def entry(self) -> Entry | None:
        """The object as it is now; ``None`` when it is gone."""
        entry = self.source.by_row(self.class_name, self.row)
        return entry if entry is self.found else None


class Found(msgspec.Struct, frozen=True):
    """The result of looking for an object; without ``readable`` elements it is none for its principal."""

    source: SourceInventory | None
    entry: Entry | None
    readable: frozenset[str]


@dataclass(frozen=True, slots=True)
class Setting:
    """One element to set.

    Attributes:
        element: its name.
        position: its position in the class's elements.
        wanted: the requested value; ``None`` for none.
        readable: whether it can be read back.
        sent: the value with references as native ids.
        method: the method that sets it; empty where a request of the dialect's own does.
        arguments: the arguments of that method.
        effect: what this value leads to where the mapping calls that dangerous, one sentence.
    """

    element: str
    position: int
    wanted: FeedValue | None
    readable: bool
    sent: Value | None
    method: str = ""
    arguments: Values = ()
    effect: str = ""

    @property
    def shown(self) -> FeedValue | None:
        """The requested value as sessions would show it: they mask passwords."""
        if self.wanted is None or isinstance(self.wanted, ObjectLink):
            return self.wanted
        return _SECRETS.masked(self.wanted)

    @property
    def bears_secrets(self) -> bool:
        """Whether the shown value does not reveal if the value has changed."""
        return self.shown != self.wanted


class Plan(msgspec.Struct, frozen=True):
    """The plan of an operation.

    Attributes:
        kind: the kind of the operation.
        target: the object.
        asked: the requested values or arguments, by name, for the record.
        settings: the settings of a set, in order.
        method: the method of a call.
        arguments: the arguments of a call.
        secret_arguments: names of the method's arguments that are not to be shown.
    """

    kind: OperationKind
    target: Target
    asked: Mapping[str, FeedValue | None]
    settings: tuple[Setting, ...] = ()
    method: Method | None = None
    arguments: Values = ()
    secret_arguments: frozenset[str] = frozenset()


class _Setter(msgspec.Struct, frozen=True):
    """A method that sets an element, and the argument that takes the value."""

    method: Method
    argument: Argument


class Planner:
    """Checks requests against schemas, mappings and policy, and makes plans of those that pass.

    Args:
        inventory: has the objects.
        classes: has the mappings' rules of classes.
        policy: decides whether a principal may carry out a request.
        marks: what mappings call private or dangerous.
    """

    def __init__(self, inventory: Inventory, classes: ClassRegistry, policy: Policy, marks: Marks) -> None:
        self._inventory = inventory
        self._classes = classes
        self._policy = policy
        self._marks = marks

    def change_policy(self, policy: Policy) -> None:
        """Decide by another policy from now on."""
        self._policy = policy

    def found(self, request: OperationRequest) -> Target | None:
        """Return the object that a request is about, also one that does not exist for its principal.

        ``None`` where there is none, or the one that was meant has ended.
        """
        source = self._inventory.source(request.source)
        entry = None if source is None else source.by_row(request.class_name, request.row)
        if source is None or entry is None or self._is_another(request, entry):
            return None
        return _target(request, source, entry)

    def resolve(self, request: OperationRequest) -> Target:
        """Return the object that a request is about, if it exists for its principal.

        Raises:
            Rejected: ``OBJECT_GONE``, also where another object has the name of the one that is meant;
                ``SOURCE_DOWN``, if the source exists for the principal, until it was read whole: a front end
                may show an object from before the core's start.
        """
        found = self.look_up(
            request.principal, request.source, request.class_name, request.row, request.stable_name
        )
        source, entry, readable, what = found.source, found.entry, found.readable, _row(request)
        name = "" if source is None else source.identity.name
        is_seen = sees_source(self._policy.roles.rules_of(str(request.principal)), name)
        if source is None or entry is None or not readable:
            if source is None or not is_seen or not _is_being_read(source):
                raise Rejected(Outcome.OBJECT_GONE, f"there is no such object: {what}")
            text = f"the source {name} is {source.state.value}, and {what} is not known yet"
            raise Rejected(Outcome.SOURCE_DOWN, f"{text}: {source.detail}" if source.detail else text)
        if self._is_another(request, entry):
            text = "the object that was meant has ended, and another one has its name now"
            raise Rejected(Outcome.OBJECT_GONE, f"{text}: {what}")
        return replace(_target(request, source, entry), readable=readable)

    def look_up(
        self, principal: Principal, source_number: int, class_name: str, row: int, stable_name: str = ""
    ) -> Found:
        """Look for an object, and for what a principal may read of it.

        Of what is not there the same is asked, by the name that is given, so that it takes the same time.
        """
        source = self._inventory.source(source_number)
        entry = None if source is None else source.by_row(class_name, row)
        record = self._classes.any_version(class_name) if entry is None else entry.class_record
        subject = Subject(
            "" if source is None else source.identity.name,
            class_name,
            stable_name if entry is None else entry.record.stable_name,
        )
        readable = frozenset() if record is None else self._readable(principal, subject, record.schema)
        return Found(source, entry, frozenset() if entry is None else readable)

    def shown(
        self, principal: Principal, source: SourceInventory, values: Mapping[str, FeedValue]
    ) -> dict[str, FeedValue]:
        """Return the values that refer to no object whose name a principal may not read."""
        return {
            name: value
            for name, value in values.items()
            if all(self._is_named(principal, source, link) for link in links_in(value))
        }

    def _is_named(self, principal: Principal, source: SourceInventory, link: ObjectLink) -> bool:
        entry = source.by_row(link.class_name, link.row)
        record = self._classes.any_version(link.class_name) if entry is None else entry.class_record
        if record is None:
            return False
        subject = Subject(source.identity.name, link.class_name, link.stable_name)
        readable = self._readable(principal, subject, record.schema)
        return bool(readable) and readable.issuperset(name_elements(record))

    def recordable(self, request: OperationRequest) -> OperationRequest:
        """Return a request on an object that is not known as it is recorded.

        Its name is, where it may be one that the core has not read again since its start. One on a source
        that there is not is recorded as one on the gateway: each source has a history of its own.
        """
        source = self._inventory.source(request.source)
        if source is None:
            return msgspec.structs.replace(request, source=0, stable_name="")
        return request if _is_being_read(source) else msgspec.structs.replace(request, stable_name="")

    def _is_another(self, request: OperationRequest, entry: Entry) -> bool:
        return request.ends is not None and self._inventory.ended_since(request.ends, entry.record)

    def plan(self, request: OperationRequest, target: Target) -> Plan:
        """Make the plan of a request.

        Raises:
            Rejected: a check fails.
        """
        entry = target.entry
        assert entry is not None
        match request.action:
            case SetElements(values):
                return self._plan_set(request, target, entry, values)
            case InvokeMethod(method, arguments):
                return self._plan_call(request, target, entry, method, arguments)
            case ReadFresh():
                self._decide(request, target, ReadObject())
                return Plan(OperationKind.READ, target, {})

    def _plan_set(
        self,
        request: OperationRequest,
        target: Target,
        entry: Entry,
        values: Mapping[str, FeedValue | None],
    ) -> Plan:
        if not values:
            raise Rejected(Outcome.WRONG_VALUE, "there is nothing to set")
        known = {name: self._settable(target, entry, name) for name in values}
        for name in known:
            self._decide(request, target, self._marks.setting(entry.key, name), name)
            # Reading back shows the value.
            self._decide(request, target, self._marks.reading(entry.key, name), name)
        find = self._finder(request.principal, target.source)
        wanted = [
            _setting(entry, element, setter, values[name], find) for name, (element, setter) in known.items()
        ]
        settings = tuple(
            replace(one, effect=self._marks.effect_of_value(entry.key, one.element, one.wanted))
            for one in wanted
        )
        return Plan(
            OperationKind.SET, target, {setting.element: setting.wanted for setting in settings}, settings
        )

    def _settable(self, target: Target, entry: Entry, name: str) -> tuple[Element, _Setter | None]:
        """Return an element, and the method that sets it; without one a request of the dialect's own does."""
        schema = entry.class_record.schema
        position = schema.positions.get(name)
        if position is None:
            raise Rejected(Outcome.UNKNOWN_ELEMENT, f"{schema.key} has no element {name!r}", name)
        element, setter = schema.elements[position], self._setter(entry, name)
        can_be_set = setter is not None or target.source.identity.sets_natively
        if element.access is not Access.READ_WRITE or not can_be_set:
            raise Rejected(Outcome.READ_ONLY, f"{name} of {schema.key} cannot be set", name)
        return element, setter

    def _setter(self, entry: Entry, name: str) -> _Setter | None:
        rule = self._classes.set_rule(entry.key, name)
        method = None if rule is None else _method(entry, rule.method)
        if rule is None or method is None:
            return None
        taken = (argument for argument in method.arguments if argument.name == rule.argument)
        return next((_Setter(method, argument) for argument in taken), None)

    def _plan_call(
        self,
        request: OperationRequest,
        target: Target,
        entry: Entry,
        name: str,
        given: Mapping[str, FeedValue | None],
    ) -> Plan:
        key, method = entry.key, _method(entry, name)
        if method is None:
            raise Rejected(Outcome.UNKNOWN_ELEMENT, f"{key} has no method {name!r}", name)
        self._decide(request, target, self._marks.calling(key, name), name)
        find = self._finder(request.principal, target.source)
        asked = _arguments(method, given, find)
        return Plan(
            OperationKind.INVOKE,
            target,
            {n: value for n, value in asked.items() if value is not None},
            method=method,
            arguments=tuple(as_sent(value, find) for value in asked.values()),
            secret_arguments=self._secret_arguments(key, method),
        )

    def _secret_arguments(self, key: ClassKey, method: Method) -> frozenset[str]:
        """Return the names of the secret arguments; a second one of such a name is secret, too."""
        rule = self._classes.method_rule(key, method.name)
        secret = {n for n, a in rule.arguments.items() if a.secret} if rule is not None else set()
        names = (one.name for one in method.arguments)
        return frozenset(secret.union(name for name in names if original_name(name) in secret))

    def _readable(self, principal: Principal, subject: Subject, schema: ClassSchema) -> frozenset[str]:
        """Return the elements of an object that a principal may read; without any it does not exist."""
        rules = covering(self._policy.roles.rules_of(str(principal)), subject)
        names = (element.name for element in schema.elements)
        return frozenset(
            name
            for name in names
            if decided_by_covering(rules, self._marks.reading(schema.key, name)).allowed
        )

    def _finder(self, principal: Principal, source: SourceInventory) -> FindObject:
        def find(link: ObjectLink) -> tuple[ObjectLink, str] | None:
            entry = source.by_row(link.class_name, link.row)
            # The native id of an object that is not bound is of an earlier run of its agent, and may name
            # another one now.
            if entry is None or not source.is_bound(entry):
                return None
            subject = Subject(source.identity.name, link.class_name, entry.record.stable_name)
            exists = self._readable(principal, subject, entry.class_record.schema)
            return (entry.link(), entry.record.native_id) if exists else None

        return find

    def _decide(self, request: OperationRequest, target: Target, wish: Wish, element: str = "") -> None:
        subject, principal = _subject(target), str(request.principal)
        if not self._policy.decide(principal, subject, wish).allowed:
            shown = "" if _knows_name(target) else _row(request)
            raise Rejected(Outcome.REFUSED, self._policy.denial(principal, subject, wish, shown), element)


def _knows_name(target: Target) -> bool:
    entry = target.entry
    return entry is not None and target.readable.issuperset(name_elements(entry.class_record))


def _subject(target: Target) -> Subject:
    return Subject(target.source.identity.name, target.class_name, target.stable_name)


def _target(request: OperationRequest, source: SourceInventory, entry: Entry) -> Target:
    record = entry.record
    return Target(source, request.class_name, request.row, record.stable_name, record.leaf_name, entry)


def _is_being_read(source: SourceInventory) -> bool:
    never_read = not source.was_read and source.state is not SourceState.SYNCHRONISED
    return source.state in UNREAD or never_read


def _row(request: OperationRequest) -> str:
    return f"row {request.row} of {request.class_name}"


def check_reachable(target: Target) -> None:
    """Check that a message to the object would reach it, as far as that is known here.

    Raises:
        Rejected: ``NOT_NOW``.
    """
    entry = target.entry
    if entry is None or not target.source.is_bound(entry):
        text = "its agent was restarted, and its objects are being read again: try again in a moment"
        raise Rejected(Outcome.NOT_NOW, text)


def _method(entry: Entry, name: str) -> Method | None:
    return next((method for method in entry.class_record.schema.methods if method.name == name), None)


def _setting(
    entry: Entry, element: Element, setter: _Setter | None, value: FeedValue | None, find: FindObject
) -> Setting:
    name = element.name
    wanted = None if value is None else checked(value, element, find, name)
    if wanted is None and not (element.optional and (setter is None or setter.argument.optional)):
        raise Rejected(Outcome.WRONG_VALUE, f"{name} must have a value", name)
    setting = Setting(
        name, entry.class_record.schema.positions[name], wanted, element.readable, as_sent(wanted, find)
    )
    if setter is None:
        return setting
    # The method's argument may be narrower than the element that it sets.
    if wanted is not None:
        checked(wanted, setter.argument, find, name)
    arguments = _arguments(setter.method, {setter.argument.name: wanted}, find, name)
    sent = tuple(as_sent(value, find) for value in arguments.values())
    return replace(setting, method=setter.method.name, arguments=sent)


def _arguments(
    method: Method, given: Mapping[str, FeedValue | None], find: FindObject, element: str = ""
) -> dict[str, FeedValue | None]:
    """Return the arguments to pass, by name in the schema's order: given value, default, or ``None``."""
    inputs = [argument for argument in method.arguments if argument.direction is not Direction.OUT]
    unknown = sorted(given.keys() - {argument.name for argument in inputs})
    if unknown:
        text = f"{method.name} takes no argument {unknown[0]!r}"
        raise Rejected(Outcome.WRONG_VALUE, text, element or unknown[0])
    return {argument.name: _passed(argument, given, find, element) for argument in inputs}


def _passed(
    argument: Argument, given: Mapping[str, FeedValue | None], find: FindObject, element: str
) -> FeedValue | None:
    name = element or argument.name
    value = given.get(argument.name)
    if value is not None:
        return checked(value, argument, find, name)
    # An argument that is named without a value is asked to be absent, and gets no default.
    if argument.default is not None and argument.name not in given:
        return argument.default
    if argument.optional:
        return None
    raise Rejected(Outcome.WRONG_VALUE, f"the argument {argument.name!r} is missing", name)


class Rejected(Exception):  # noqa: N818  nothing went wrong here: it is the answer
    """An operation is not carried out: a check in the core fails.

    Args:
        outcome: the outcome of the answer.
        text: one line for people.
        element: the element, argument or method concerned.
        code: status of the dialect, where the source itself would refuse it; ``None`` else.
    """

    def __init__(self, outcome: Outcome, text: str, element: str = "", code: int | None = None) -> None:
        super().__init__(text)
        self.outcome = outcome
        self.text = text
        self.element = element
        self.code = code


MAX_DEPTH: Final = 16
"""The maximum depth of maps and lists in each other."""

_MAX_U64, _MIN_S64 = 2**64 - 1, -(2**63)

FindObject: TypeAlias = Callable[[ObjectLink], "tuple[ObjectLink, str] | None"]
"""Returns the inventory's link of the living object that a link means, and its native id."""


def checked(value: object, described: Element | Argument, find: FindObject, name: str) -> FeedValue:
    """Return ``value`` as the inventory would keep it: lists are tuples, numbers have their type's width.

    Args:
        value: as a front end sent it.
        described: the element or argument that it is for.
        find: resolves references.
        name: the name in refusals.

    Raises:
        Rejected: it does not fit.
    """
    if isinstance(value, ObjectLink):
        _check_class(value, described, name)
    plain = _plain(value, find, name, MAX_DEPTH)
    wrong = validate(described, _not_none(as_sent(plain, find)))
    if wrong is not None:
        raise Rejected(wrong.outcome, f"{name}: {wrong.text}", name)
    return _with_width(plain, described.type)


def as_sent(value: FeedValue | None, find: FindObject) -> Value | None:
    """Return a checked value with references as native ids."""
    if isinstance(value, ObjectLink):
        found = find(value)
        return None if found is None else Reference(found[1])
    if isinstance(value, Mapping):
        return {key: _not_none(as_sent(inner, find)) for key, inner in value.items()}
    if isinstance(value, tuple):
        return tuple(_not_none(as_sent(inner, find)) for inner in value)
    return value


def is_same(one: FeedValue | None, other: FeedValue | None) -> bool:
    """Return whether two values are the same: true is not 1, and NaN is the same as NaN."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one) and math.isnan(other):
        return True
    # In Python True == 1.
    return isinstance(one, bool) is isinstance(other, bool) and one == other


def _not_none(value: Value | None) -> Value:
    assert value is not None  # what was checked has no gaps, and what it leads to was found just now
    return value


def _plain(value: object, find: FindObject, name: str, depth: int) -> FeedValue:
    """Return a value with links as the inventory has them; raise `Rejected` for anything else."""
    if depth == 0:
        raise Rejected(Outcome.WRONG_VALUE, f"{name}: nested more than {MAX_DEPTH} deep", name)
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: _plain(inner, find, name, depth - 1) for key, inner in value.items()}  # type: ignore[misc]  # links inside, until `as_sent`
    if isinstance(value, tuple | list):
        return tuple(_plain(inner, find, name, depth - 1) for inner in value)  # type: ignore[misc]  # likewise
    if isinstance(value, ObjectLink):
        found = find(value)
        if found is None:
            raise Rejected(Outcome.WRONG_VALUE, f"{name}: there is no such object", name)
        return found[0]
    if isinstance(value, int) and not _MIN_S64 <= value <= _MAX_U64:
        raise Rejected(Outcome.WRONG_VALUE, f"{name}: it has more than 64 bits", name)
    if isinstance(value, bool | int | float | str | bytes | UUID):
        return value
    raise Rejected(Outcome.WRONG_TYPE, f"{name}: it holds what is no value", name)


def _check_class(link: ObjectLink, described: Element | Argument, name: str) -> None:
    wanted = described.references
    # A schema names classes of its own package without the package.
    if wanted and wanted not in {link.class_name, link.class_name.rpartition(":")[2]}:
        text = f"{name}: a reference to an object of the class {wanted} is wanted"
        raise Rejected(Outcome.WRONG_TYPE, text, name)


def _with_width(value: FeedValue, value_type: ValueType) -> FeedValue:
    if isinstance(value, int | float) and value_type is ValueType.F32:
        # The source will report the number as binary32: the value that is read back must compare as equal.
        narrowed: float = struct.unpack("f", struct.pack("f", value))[0]
        return narrowed
    return float(value) if isinstance(value, int) and value_type is ValueType.F64 else value
