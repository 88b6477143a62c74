"""Files of roles and principals beside ``gateway.yaml``: one policy, whose complaints name file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.policy.rules import Rule
from gateway.service.state.running_configuration import changes, note_running, running_configuration
from gateway.yaml_documents import DocumentError

MAIN = """\
version: 1
state: {folder: state}
jmx: {users: {shop: {}, monitor: {}}}
policy:
  files: [roles.yaml, people/shop.yaml]
  roles:
    watching: {allow: [{read: ["*"]}]}
  principals:
    "jmx:monitor": [shop-operator]
"""
ROLES = """\
version: 1
roles:
  shop-operator:
    includes: [watching]
    deny: [{objects: ["payments|*"], read: ["*"]}]
"""
PEOPLE = """\
version: 1
principals:
  "jmx:shop": [shop-operator]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A configuration with two policy files."""
    (tmp_path / "people").mkdir()
    (tmp_path / "state").mkdir()
    for name, text in (("gateway.yaml", MAIN), ("roles.yaml", ROLES), ("people/shop.yaml", PEOPLE)):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def loaded(folder: Path) -> LoadedConfiguration:
    return load_configuration(folder / "gateway.yaml")


def complaints(folder: Path) -> list[str]:
    """Return the complaints about the configuration, with the names of files relative to their folder."""
    with pytest.raises(DocumentError) as raised:
        loaded(folder)
    return str(raised.value).replace(f"{folder}/", "").splitlines()


def test_roles_and_principals_of_all_files_make_one_policy(folder: Path) -> None:
    roles = loaded(folder).settings.role_set
    assert roles.roles_of("jmx:shop") == roles.roles_of("jmx:monitor") == ("shop-operator",)
    denied, granted = roles.rules_of("jmx:shop")
    assert (denied.denies, denied.objects, granted.read) == (True, ("payments|*",), ("*",))
    assert isinstance(granted, Rule)


@pytest.mark.parametrize(
    ("file", "text", "complaint"),
    [
        (
            "people/shop.yaml",
            'version: 1\nprincipals:\n  "jmx:shop": [monitoring, selling]\n',
            "people/shop.yaml:3: principals.jmx:shop.1: there is no role 'selling'; there are: everything, ",
        ),
        (
            "people/shop.yaml",
            'version: 1\nprincipals:\n\n  "jmx:nobody": [monitoring]\n',
            "people/shop.yaml:4: principals.jmx:nobody: 'jmx:nobody' is not known: name snmp:(reader), ",
        ),
        (
            "people/shop.yaml",
            "version: 1\nroles:\n  watching: {}\n",
            "people/shop.yaml:3: roles.watching: is defined in gateway.yaml, too: keep one of the two",
        ),
        (
            "roles.yaml",
            "version: 1\nroles:\n  shop-operator: {includes: [shop-operator]}\n",
            "roles.yaml:3: roles.shop-operator.includes: the role 'shop-operator' includes itself: ",
        ),
        ("roles.yaml", "version: 1\nroles:\n  shop-operator: {allows: []}\n", "roles.yaml:3: roles."),
        ("roles.yaml", "roles: {}\n", "roles.yaml:1: version: is required"),
        (
            "gateway.yaml",
            MAIN.replace("watching: {allow", "seeing: {allow"),
            "roles.yaml:4: roles.shop-operator.includes.0: there is no role 'watching'; ",
        ),
        (
            "gateway.yaml",
            MAIN.replace("people/shop.yaml", "roles.yaml"),
            "gateway.yaml:5: policy.files.1: the file is named twice",
        ),
        (
            "gateway.yaml",
            MAIN.replace("people/shop.yaml", "people/none.yaml"),
            "people/none.yaml:1: cannot be read: No such file or directory",
        ),
    ],
)
def test_a_complaint_names_the_file_and_the_line(folder: Path, file: str, text: str, complaint: str) -> None:
    (folder / file).write_text(text, encoding="utf-8")
    (line,) = complaints(folder)
    assert line.startswith(complaint)


def test_a_gateway_runs_with_the_policy_files_of_its_start(folder: Path) -> None:
    started = loaded(folder)
    note_running(started)
    assert changes(started, running_configuration(started).settings) == []

    (folder / "roles.yaml").write_text(ROLES.replace("payments", "orders"), encoding="utf-8")
    (folder / "people/shop.yaml").unlink()
    running = running_configuration(started)
    assert running.settings.role_set == started.settings.role_set

    (folder / "people/shop.yaml").write_text(PEOPLE, encoding="utf-8")
    (change,) = changes(loaded(folder), running.settings)
    assert change.startswith("policy.roles.shop-operator.deny")
