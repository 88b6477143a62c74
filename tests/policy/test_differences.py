"""What a change of roles means, in words."""

from __future__ import annotations

from gateway.policy.differences import policy_changes
from gateway.policy.rules import Role, RoleSet, Rule

PUMPS = Rule("1", classes=("ami:Tank",), objects=("pump-*",), publish=True)
ROLES = {"pumps": Role("pumps", (PUMPS,))}


def test_the_first_key_of_a_peer_of_ami_restricts_all_peers_and_the_change_says_so() -> None:
    free, restricted = RoleSet(ROLES), RoleSet(ROLES, {"ami:pump": ("pumps",)})
    gained = "publish objects, of classes ami:Tank, objects pump-*"
    assert list(policy_changes(free, restricted)) == [
        "peers of AMI: now publish only what their roles grant",
        f"ami:pump: now may {gained}",
    ]
    assert list(policy_changes(restricted, free)) == [
        "peers of AMI: now publish all that their sources permit",
        f"ami:pump: no longer may {gained}",
    ]
    everybody = RoleSet(ROLES, {"ami:pump": ("pumps",), "ami:*": ("pumps",)})
    assert f"other principals of ami: now may {gained}" in list(policy_changes(restricted, everybody))


def test_a_key_of_a_console_restricts_its_calls_and_the_change_says_so() -> None:
    roles = {"purging": Role("purging", (Rule("1", invoke=("purge",)),))}
    free, restricted = RoleSet(roles), RoleSet(roles, {"qmf:console": ("purging",)})
    restricting = list(policy_changes(free, restricted))
    assert restricting[0] == "qmf:console: now calls only what its roles grant"
    assert "qmf:console: now may invoke purge" in restricting
    assert "qmf:console: now calls every method" in list(policy_changes(restricted, free))
