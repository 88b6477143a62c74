"""Roles and their principals: which rules a principal has, and what makes no policy."""

from __future__ import annotations

import pytest

from gateway.policy.rules import (
    EVERYTHING,
    MAX_CLEARANCES,
    MAX_DEPTH,
    MONITORING,
    PolicyError,
    Role,
    RoleSet,
    Rule,
)

QUEUES = Rule("allow rule 1 of the role queues", classes=("*:queue",), read=("*",))
PURGES = Rule("allow rule 1 of the role purges", invoke=("purge",))
SETS = Rule("rule 1 of operations.allow", write=("limit",))


def test_a_principal_without_roles_monitors() -> None:
    assert RoleSet().roles_of("jmx:monitor") == (MONITORING,)
    [rule] = RoleSet().rules_of("snmp:(reader)")
    assert (rule.read, rule.private, rule.write, rule.invoke, rule.audit) == (("*",), False, (), (), False)


def test_a_user_of_the_command_line_reads_what_the_files_contain_anyway() -> None:
    assert RoleSet().roles_of("cli:anna") == (EVERYTHING,)


def test_the_most_specific_key_counts_alone() -> None:
    roles = RoleSet(
        {"queues": Role("queues", (QUEUES,)), "purges": Role("purges", (PURGES,))},
        {"jmx:anna": ("purges",), "jmx:*": ("queues",), "*": ()},
    )
    assert roles.rules_of("jmx:anna") == (PURGES,)
    assert roles.rules_of("jmx:bert") == (QUEUES,)
    assert roles.rules_of("snmp:(reader)") == ()
    assert roles.rules_of("cli:anna") == ()


def test_a_role_has_the_rules_of_the_roles_that_it_includes_each_once() -> None:
    roles = RoleSet(
        {
            "queues": Role("queues", (QUEUES,)),
            "purges": Role("purges", (PURGES,), ("queues",)),
            "both": Role("both", (), ("purges", "queues")),
        },
        {"jmx:anna": ("both", "queues")},
        {"jmx:anna": (SETS,)},
    )
    roles.check()
    assert sorted(rule.place for rule in roles.rules_of("jmx:anna")) == sorted(
        rule.place for rule in (SETS, PURGES, QUEUES)
    )


@pytest.mark.parametrize(
    ("roles", "principals", "place", "message"),
    [
        ({}, {"jmx:a": ("watch",)}, ("principals", "jmx:a", 0), "there is no role 'watch'"),
        ({"a": ("b",)}, {}, ("roles", "a", "includes", 0), "there is no role 'b'"),
        ({"a": ("b",), "b": ("a",)}, {}, ("roles", "a", "includes"), "'a' includes itself: a -> b -> a"),
        ({"monitoring": ()}, {}, ("roles", "monitoring"), "'monitoring' is built in"),
    ],
)
def test_what_makes_no_policy_is_refused_with_its_place(
    roles: dict[str, tuple[str, ...]],
    principals: dict[str, tuple[str, ...]],
    place: tuple[str | int, ...],
    message: str,
) -> None:
    named = {name: Role(name, (), includes) for name, includes in roles.items()}
    with pytest.raises(PolicyError, match=message) as error:
        RoleSet(named, principals).check()
    assert error.value.place == place


def test_roles_include_each_other_only_so_deep() -> None:
    names = [f"role{number}" for number in range(MAX_DEPTH + 2)]
    deep = {
        name: Role(name, (), (after,)) for name, after in zip(names, [*names[1:], MONITORING], strict=True)
    }
    with pytest.raises(PolicyError, match=f"more than {MAX_DEPTH} deep"):
        RoleSet(deep).check()


def test_roles_that_share_what_they_include_are_checked_in_little_time() -> None:
    names = [f"role{number}" for number in range(MAX_DEPTH)]
    wide = {name: Role(name, (), tuple(names[position + 1 :])) for position, name in enumerate(names)}
    RoleSet(wide, {"*": (names[0],)}).check()
    assert RoleSet(wide, {"*": (names[0],)}).rules_of("jmx:a") == ()


def test_only_so_many_principals_have_rules_that_differ() -> None:
    names = [f"role{number}" for number in range(MAX_CLEARANCES - 1)]
    # One more set of rules is that of everybody else: none.
    roles = {name: Role(name, (Rule(f"allow rule 1 of the role {name}", read=("*",)),)) for name in names}
    others = {"*": (), **{f"jmx:{name}": (name,) for name in names}}
    RoleSet(roles, {**others, "jmx:another": (names[0],)}).check()
    with pytest.raises(PolicyError, match="have 257 different sets of roles, more than 256") as error:
        RoleSet(roles, {**others, "jmx:another": (names[0], names[1])}).check()
    assert error.value.place == ("principals",)
