"""The model of the policy: rules, roles, and the roles of principals.

A rule grants or denies actions on objects that its patterns name. A principal has the rules of its roles. A
rule that denies outweighs every rule that grants, and what no rule grants is denied.

Patterns are those of a shell (`fnmatch.fnmatchcase`): ``*``, ``?``, ``[seq]``; they respect case, and ``*``
matches any text. What a mapping marks as private or dangerous is not matched by a pattern that grants:

- what is private, such as the address of a connection, is granted by a rule with ``private`` alone;
- a dangerous method or setting is granted by a rule that has its name, without any wildcard.

A pattern that denies matches them as it matches everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from gateway.feed.access import Patterns, fits, fits_object

EVERY: Final[Patterns] = ("*",)
EVERY_CLASS: Final[Patterns] = ("*:*",)
"""Also of events without an object: their class is the package and a colon, without a name."""

MONITORING: Final = "monitoring"
"""The role of principals that have no other: reads and subscribes to everything that is not private."""

EVERYTHING: Final = "everything"
"""The role that reads and subscribes to everything, also what is private, and changes nothing."""

CONSOLE: Final = "qmf"
"""What stands before the names of consoles of a served agent: users, as the broker has checked them.

An agent answers the requests of its allowed users. Roles restrict what a console calls where a key names it,
or all of them; what an agent publishes is read by all whom the broker lets read it.
"""

FRONT_ENDS: Final = ("snmp", "notify", "jmx", "cli", "metrics", CONSOLE)
"""The front ends that have principals.

``notify`` stands for the receivers of SNMP notifications, `CONSOLE` for consoles of a served agent.
"""

PUBLISHER: Final = "ami"
"""What stands before the names of peers that publish: the names that TLS has proved of them.

They read and change nothing. Roles restrict what they publish where a key names one of them, or all.
"""

ANYONE: Final = "(anyone)"
"""Stands for the name of a peer that has proved none; the relay of AMI has the same word."""

OTHERS: Final = "?"
"""Stands for the name of a principal that the configuration does not name."""

MAX_CLEARANCES: Final = 256
"""The maximum number of different sets of rules that principals have."""

MAX_ROLES: Final = 1_000
"""The maximum number of roles, and of principals that are named."""

MAX_DEPTH: Final = 16
"""The maximum depth of roles that include others."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule of a role.

    Attributes:
        place: where it stands, for people, such as ``allow rule 2 of the role operating``.
        denies: it denies what it names, instead of granting it.
        sources: patterns of sources' names; the gateway itself has the name ``gateway``.
        classes: patterns of ``package:class``.
        objects: patterns of stable names.
        read: patterns of elements whose values are shown. An object exists for a principal who may read one
            of its elements.
        write: patterns of elements that may be set.
        invoke: patterns of methods that may be called.
        subscribe: patterns of events and alarms, ``package:name``.
        refresh: objects may be read again from their source.
        audit: operations of other principals are shown.
        private: what a mapping marks as private is granted like everything else.
        publish: a peer of a source may report the objects.
    """

    place: str
    denies: bool = False
    sources: Patterns = EVERY
    classes: Patterns = EVERY_CLASS
    objects: Patterns = EVERY
    read: Patterns = ()
    write: Patterns = ()
    invoke: Patterns = ()
    subscribe: Patterns = ()
    refresh: bool = False
    audit: bool = False
    private: bool = False
    publish: bool = False

    def covers_class(self, class_name: str) -> bool:
        """Return whether objects of a class may be among those that the rule names."""
        return fits(class_name, self.classes)

    def covers(self, source: str, class_name: str, object_name: str) -> bool:
        """Return whether an object is among those that the rule names."""
        return (
            fits(source, self.sources)
            and self.covers_class(class_name)
            and fits_object(object_name, self.objects)
        )


class Role(msgspec.Struct, frozen=True):
    """A role.

    Attributes:
        name: its name.
        rules: its own rules.
        includes: the names of roles whose rules it has, too.
    """

    name: str
    rules: tuple[Rule, ...] = ()
    includes: tuple[str, ...] = ()


BUILT_IN: Final[Mapping[str, Role]] = {
    MONITORING: Role(
        MONITORING, (Rule(f"the built-in role {MONITORING}", read=EVERY, subscribe=EVERY_CLASS),)
    ),
    EVERYTHING: Role(
        EVERYTHING,
        (
            Rule(
                f"the built-in role {EVERYTHING}", read=EVERY, subscribe=EVERY_CLASS, audit=True, private=True
            ),
        ),
    ),
}
"""The roles that every configuration has; none can be defined again."""


class PolicyError(Exception):
    """Roles that make no policy.

    Args:
        text: what is wrong, and what to write instead.
        place: where it stands: the keys that lead to it.
    """

    def __init__(self, text: str, *place: str | int) -> None:
        self.place = place
        super().__init__(text)


class RoleSet(msgspec.Struct, frozen=True):
    """All roles, and the roles of principals.

    Attributes:
        roles: the roles by name, without the built-in ones.
        principals: names of roles by principal. Besides ``front end:name`` a key may be ``front end:*`` or
            ``*``, for principals that are not named; the most specific key counts alone.
        grants: further rules of single principals.
    """

    roles: Mapping[str, Role] = msgspec.field(default_factory=dict)
    principals: Mapping[str, tuple[str, ...]] = msgspec.field(default_factory=dict)
    grants: Mapping[str, tuple[Rule, ...]] = msgspec.field(default_factory=dict)

    def check(self) -> None:
        """Check that every name of a role exists, that no role includes itself, and the bounds.

        Raises:
            PolicyError: one does not, or there are too many roles, or different sets of rules.
        """
        if len(self.roles) > MAX_ROLES or len(self.principals) > MAX_ROLES:
            raise PolicyError(f"there are more than {MAX_ROLES} roles or principals", "roles")
        checked: set[str] = set()
        for name in self.roles:
            if name in BUILT_IN:
                text = f"the role {name!r} is built in: give yours another name, and include it"
                raise PolicyError(text, "roles", name)
            self._check_depth(name, (), checked)
        for principal, names in self.principals.items():
            for position, name in enumerate(names):
                self._require(name, "principals", principal, position)
        clearances = len(set(self.rules_by_principal().values()))
        if clearances > MAX_CLEARANCES:
            text = f"principals have {clearances} different sets of roles, more than {MAX_CLEARANCES}"
            raise PolicyError(f"{text}: let more of them share the same roles", "principals")

    def roles_of(self, principal: str) -> tuple[str, ...]:
        """Return the names of a principal's roles (``front end:name``)."""
        front_end = principal.partition(":")[0]
        for key in (principal, f"{front_end}:*", "*"):
            names = self.principals.get(key)
            if names is not None:
                return names
        if _publishes(principal):
            return ()
        return (DEFAULT_ROLES.get(front_end, MONITORING),)

    def rules_by_principal(self) -> dict[str, tuple[Rule, ...]]:
        """Return the rules of all principals: of those that are named, and of the others of each front end.

        The name of the latter is `OTHERS`. Peers that publish are left out.
        """
        named = sorted(
            name
            for name in {*self.principals, *self.grants}
            if not name.endswith("*") and not _publishes(name)
        )
        principals = (*named, *(f"{front_end}:{OTHERS}" for front_end in FRONT_ENDS))
        return {principal: self.rules_of(principal) for principal in principals}

    @property
    def restricts_publishing(self) -> bool:
        """Whether peers publish only what their roles grant: a key names one of them, or all of them."""
        return any(map(_publishes, self.principals))

    def restricts_calls(self, principal: str) -> bool:
        """Return whether a principal calls only what its roles grant: all do, but consoles without a key.

        It is the agent that permits those everything (`gateway.service.processes.agent`).
        """
        is_console = principal.startswith(f"{CONSOLE}:")
        return not is_console or principal in self.principals or f"{CONSOLE}:*" in self.principals

    def rules_of(self, principal: str) -> tuple[Rule, ...]:
        """Return the rules of a principal, each once."""
        rules = dict.fromkeys(self.grants.get(principal, ()))
        for name in self.roles_of(principal):
            rules.update(dict.fromkeys(self._rules(name)))
        return tuple(rules)

    def _rules(self, name: str) -> Iterator[Rule]:
        waiting, seen = [name], {name}
        while waiting:
            role = self._role(waiting.pop())
            yield from role.rules
            waiting += [included for included in role.includes if included not in seen]
            seen.update(role.includes)

    def _role(self, name: str) -> Role:
        return BUILT_IN.get(name) or self.roles[name]

    def _require(self, name: str, *place: str | int) -> None:
        if name not in BUILT_IN and name not in self.roles:
            known = ", ".join(sorted((*BUILT_IN, *self.roles)))
            raise PolicyError(f"there is no role {name!r}; there are: {known}", *place)

    def _check_depth(self, name: str, path: tuple[str, ...], checked: set[str]) -> None:
        if name in path:
            text = f"the role {name!r} includes itself: {' -> '.join((*path, name))}"
            raise PolicyError(text, "roles", name, "includes")
        if len(path) > MAX_DEPTH:
            text = f"roles include each other more than {MAX_DEPTH} deep: {' -> '.join(path)}"
            raise PolicyError(text, "roles", name)
        if name in checked:
            return
        for position, included in enumerate(self._role(name).includes):
            self._require(included, "roles", name, "includes", position)
            self._check_depth(included, (*path, name), checked)
        checked.add(name)


DEFAULT_ROLES: Final[Mapping[str, str]] = {"cli": EVERYTHING, CONSOLE: EVERYTHING}
"""The role of a front end's principals that have none, where it is not `MONITORING`.

A user of the command line can read the state folder and the log; consoles of a served agent receive what it
publishes to all of them.
"""


def _publishes(principal: str) -> bool:
    return principal.startswith(f"{PUBLISHER}:")


def is_named(name: str, patterns: Patterns) -> bool:
    """Return whether a name is among patterns without any wildcard."""
    # A peer may call a method "*", so that every pattern would name it.
    return name in patterns and not any(character in name for character in "*?[")
