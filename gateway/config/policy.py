"""The settings of roles in ``gateway.yaml``: what principals see, change, call and receive."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Final, LiteralString

from pydantic import AfterValidator, Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from gateway.config.types import FilePath, Name
from gateway.policy.rules import FRONT_ENDS, PUBLISHER, PolicyError, Role, RoleSet, Rule
from gateway.yaml_documents import ClassPattern, Pattern, StrictModel

READER: Final = "snmp:(reader)"
"""The principal of the community that reads."""

SCRAPER: Final = "metrics:(scraper)"
"""The principal of whatever reads the metrics of objects."""

_FRONT_ENDS: Final = frozenset({*FRONT_ENDS, PUBLISHER})
_AS_IT_IS: Final[LiteralString] = "{text}"


def _principal(text: str) -> str:
    front_end, colon, name = text.partition(":")
    if front_end not in _FRONT_ENDS or not colon or not name or not text.isprintable():
        raise ValueError(
            "write snmp:NAME, notify:RECEIVER, jmx:USER, cli:USER, metrics:(scraper), qmf:USER or "
            "ami:CERTIFICATE"
        )
    return text


def _principals(text: str) -> str:
    return text if text == "*" else _principal(text)


def _one_principal(text: str) -> str:
    if text.endswith(":*"):
        raise ValueError(
            f"a rule names its principals one by one; a role, under policy.principals, is for {text} too"
        )
    return _principal(text)


_BRACKETS: Final = re.compile(r"\[.[^]]*\]")


def _name_pattern(text: str) -> str:
    if ":" in _BRACKETS.sub("", text):
        raise ValueError(
            "elements and methods have no ':' in their names: patterns of classes are under 'classes'"
        )
    return text


NamePattern = Annotated[Pattern, AfterValidator(_name_pattern)]
"""A pattern of names of elements or methods."""

PrincipalName = Annotated[str, Field(max_length=255), AfterValidator(_one_principal)]
"""Who reads or requests: a community or user of SNMP, a user of JMX, or a system user at the command line.

Or a user of a broker who calls methods of an agent there. Or who publishes: a peer of AMI, by the name in its
certificate.
"""

PrincipalPattern = Annotated[str, Field(max_length=255), AfterValidator(_principals)]
"""A principal, ``FRONT_END:*`` for all others of one, or ``*`` for all others."""


class OperationRule(StrictModel):
    """A permission. An operation must match every key of the rule; one matching rule is sufficient.

    Attributes:
        who: the principals.
        sources: patterns of sources' names.
        classes: patterns of ``package:class``.
        objects: patterns of objects' names as ``amqp-gateway tree`` shows them, such as ``/|orders*``.
        set: patterns of elements that may be set; a dangerous one must be named in full.
        invoke: patterns of methods that may be called; a dangerous one must be named in full.
        read: whether objects may be read again from the broker.
    """

    who: Annotated[tuple[PrincipalName, ...], Field(min_length=1)]
    sources: Annotated[tuple[Pattern, ...], Field(min_length=1)] = ("*",)
    classes: Annotated[tuple[ClassPattern, ...], Field(min_length=1)] = ("*:*",)
    objects: Annotated[tuple[Pattern, ...], Field(min_length=1)] = ("*",)
    set: tuple[NamePattern, ...] = ()
    invoke: tuple[NamePattern, ...] = ()
    read: bool = False

    @model_validator(mode="after")
    def _allows_something(self) -> OperationRule:
        if not (self.set or self.invoke or self.read):
            raise ValueError("allow something: 'set', 'invoke' or 'read'")
        return self

    def rule(self, place: str) -> Rule:
        """Return the rule of the policy that this is."""
        return Rule(
            place,
            sources=self.sources,
            classes=self.classes,
            objects=self.objects,
            write=self.set,
            invoke=self.invoke,
            refresh=self.read,
        )


class RoleRule(StrictModel):
    """A rule of a role: it grants, or denies, actions on the objects that its patterns name.

    Attributes:
        sources: patterns of sources' names; the gateway itself is ``gateway``.
        classes: patterns of ``package:class``.
        objects: patterns of objects' names as ``amqp-gateway tree`` shows them, such as ``/|orders*``.
        read: patterns of elements that are shown.
        write: patterns of elements that may be set; a dangerous one must be named in full.
        invoke: patterns of methods that may be called; a dangerous one must be named in full.
        subscribe: patterns of events and alarms, ``package:name``.
        refresh: objects may be read again from the broker.
        audit: operations of other principals are shown.
        private: it grants, too, what mappings call private: users, permissions, addresses of connections.
        publish: peers of AMI may report the objects.
    """

    sources: Annotated[tuple[Pattern, ...], Field(min_length=1)] = ("*",)
    classes: Annotated[tuple[ClassPattern, ...], Field(min_length=1)] = ("*:*",)
    objects: Annotated[tuple[Pattern, ...], Field(min_length=1)] = ("*",)
    read: tuple[NamePattern, ...] = ()
    write: tuple[NamePattern, ...] = ()
    invoke: tuple[NamePattern, ...] = ()
    subscribe: tuple[ClassPattern, ...] = ()
    refresh: bool = False
    audit: bool = False
    private: bool = False
    publish: bool = False

    @model_validator(mode="after")
    def _names_something(self) -> RoleRule:
        patterns = (self.read, self.write, self.invoke, self.subscribe)
        if not (any(patterns) or self.refresh or self.audit or self.publish):
            raise ValueError(
                "name something: 'read', 'write', 'invoke', 'subscribe', 'refresh', 'audit' or 'publish'"
            )
        return self

    def rule(self, place: str, *, denies: bool) -> Rule:
        """Return the rule of the policy that this is."""
        return Rule(
            place,
            denies,
            self.sources,
            self.classes,
            self.objects,
            self.read,
            self.write,
            self.invoke,
            self.subscribe,
            self.refresh,
            self.audit,
            self.private,
            self.publish,
        )


def at_place(error: PolicyError, *above: str) -> ValidationError:
    """Return the error of a validator for roles that make no policy; ``above`` leads to the policy."""
    kind = PydanticCustomError("policy", _AS_IT_IS, {"text": str(error)})
    details = InitErrorDetails(type=kind, loc=(*above, *error.place), input=None)
    return ValidationError.from_exception_data("PolicySettings", [details])


class RoleSettings(StrictModel):
    """A role.

    Attributes:
        includes: roles whose rules it has, too.
        allow: what it grants.
        deny: what it denies, also if another role of the principal grants it.
    """

    includes: Annotated[tuple[Name, ...], Field(max_length=100)] = ()
    allow: Annotated[tuple[RoleRule, ...], Field(max_length=1000)] = ()
    deny: Annotated[tuple[RoleRule, ...], Field(max_length=1000)] = ()

    @model_validator(mode="after")
    def _denies_private(self) -> RoleSettings:
        if any(rule.private for rule in self.deny):
            raise ValueError("a rule under 'deny' denies what is private, too: leave 'private' out")
        return self


Roles = Annotated[dict[Name, RoleSettings], Field(max_length=1000)]
"""Roles by name."""

Principals = Annotated[
    dict[PrincipalPattern, Annotated[tuple[Name, ...], Field(max_length=100)]], Field(max_length=1000)
]
"""The names of the roles of principals."""


class PolicySettings(StrictModel):
    """Roles, and who has them.

    Attributes:
        files: files with further roles and principals (`gateway.config.policy_files`).
        roles: the roles by name; ``monitoring`` and ``everything`` exist without being written.
        principals: the roles of principals. The most specific key counts alone.
    """

    files: Annotated[tuple[FilePath, ...], Field(max_length=100)] = ()
    roles: Roles = Field(default_factory=dict)
    principals: Principals = Field(default_factory=dict)

    @model_validator(mode="after")
    def _roles_exist(self) -> PolicySettings:
        if self.files:
            return self  # what is missing here may be in one of them
        try:
            self.role_set(()).check()
        except PolicyError as error:
            raise at_place(error) from None
        return self

    def role_set(self, allow: Iterable[OperationRule]) -> RoleSet:
        """Return the roles, with the rules of ``operations.allow`` for those whom these name."""
        grants: dict[str, tuple[Rule, ...]] = {}
        for number, permission in enumerate(allow, start=1):
            for who in permission.who:
                rule = permission.rule(f"rule {number} of operations.allow")
                grants[who] = (*grants.get(who, ()), rule)
        roles = {
            name: Role(name, tuple(_rules(name, settings)), settings.includes)
            for name, settings in self.roles.items()
        }
        return RoleSet(roles, self.principals, grants)


def _rules(name: str, settings: RoleSettings) -> Iterator[Rule]:
    for number, rule in enumerate(settings.deny, start=1):
        yield rule.rule(f"deny rule {number} of the role {name}", denies=True)
    for number, rule in enumerate(settings.allow, start=1):
        yield rule.rule(f"allow rule {number} of the role {name}", denies=False)
