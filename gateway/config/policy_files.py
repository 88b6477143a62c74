"""Files of roles and principals beside ``gateway.yaml``, which together make one policy."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field

from gateway.config.model import Configuration
from gateway.config.policy import PolicySettings, Principals, Roles
from gateway.policy.rules import PolicyError
from gateway.yaml_documents import StrictModel, complaint_at, read_document

Place: TypeAlias = tuple[str | int, ...]
"""The keys that lead to a value of a document."""

_Part: TypeAlias = tuple[Place, Roles, Principals]
"""The roles and principals of a file, and the keys that lead to them."""


class PolicyFile(StrictModel):
    """A policy file.

    Attributes:
        roles: as in ``policy.roles``.
        principals: as in ``policy.principals``.
    """

    version: Literal[1]
    roles: Roles = Field(default_factory=dict)
    principals: Principals = Field(default_factory=dict)


def with_policy_files(settings: Configuration, path: Path) -> Configuration:
    """Return the configuration with the policy of its policy files added to its own.

    Args:
        settings: the configuration of the file alone.
        path: the file; the paths of policy files are relative to its folder.

    Raises:
        DocumentError: a policy file is wrong, or defines what another one defines, too; or together they
            make no policy.
    """
    own = settings.policy
    if not own.files:
        return settings
    parts: dict[Path, _Part] = {path: (("policy",), own.roles, own.principals)}
    for number, name in enumerate(own.files):
        file = path.parent / name
        if file in parts:
            raise complaint_at(path, [(("policy", "files", number), "the file is named twice")])
        read = read_document(file, PolicyFile)
        parts[file] = ((), read.roles, read.principals)
    places = _places(parts)
    policy = PolicySettings(
        files=own.files,
        roles={name: role for _, roles, _ in parts.values() for name, role in roles.items()},
        principals={name: names for _, _, principals in parts.values() for name, names in principals.items()},
    )
    whole = settings.model_copy(update={"policy": policy})
    try:
        policy.role_set(()).check()
        whole.check_policy()
    except PolicyError as error:
        file, place = places.get(error.place[:2], (path, ("policy",)))
        raise complaint_at(file, [((*place, *error.place[2:]), str(error))]) from None
    return whole


def _places(parts: Mapping[Path, _Part]) -> dict[Place, tuple[Path, Place]]:
    """Return file and place of each role and principal, by its place in the whole policy.

    Raises:
        DocumentError: two files define the same.
    """
    places: dict[Place, tuple[Path, Place]] = {}
    for file, (above, roles, principals) in parts.items():
        for section, names in (("roles", roles), ("principals", principals)):
            for name in names:
                place = (*above, section, name)
                if (section, name) in places:
                    other = places[section, name][0]
                    raise complaint_at(file, [(place, f"is defined in {other}, too: keep one of the two")])
                places[section, name] = file, place
    return places
