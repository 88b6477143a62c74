"""What short commands read in the place of the configuration, and when it does not count."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.config.files import load_configuration
from gateway.service.state.running_addresses import Addresses, noted_addresses
from gateway.service.state.running_configuration import addresses_of, note_addresses, note_running
from gateway.state_folder import RUNNING_ADDRESSES
from tests.components.command_line import Site, new_site

ROLE = "version: 1\nroles: {{one: {{allow: [{{read: ['{0}']}}]}}}}\n"
FORMS = ("state:\n  folder: state\n", "state: { folder: state }\n", 'state: {folder: "state"} # here\n')
OTHER = 65534
"""The number of another user."""

for_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files to others")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A configuration with a mapping and a policy file, with which a gateway was started."""
    site = new_site(tmp_path)
    own = "version: 1\npackage: pumps\nmodule: AMQP-PUMPS-MIB\nprefix: pmp\nclasses: {}\n"
    (tmp_path / "own.yaml").write_text(own, encoding="utf-8")
    (tmp_path / "roles.yaml").write_text(ROLE.format("*"), encoding="utf-8")
    site.configure(
        mappings=["own.yaml"],
        policy={"files": ["roles.yaml"]},
        snmp={"listen": ["127.0.0.1:7"], "allowed_networks": ["192.0.2.0/24", "::1"]},
        jmx={"enabled": True, "listen": "[::1]:9", "buckets": {"a:b": 2}},
    )
    note_running(load_configuration(site.configuration))
    assert noted(site) == configured(site)
    return site


def noted(site: Site) -> Addresses | None:
    return noted_addresses(site.configuration)


def configured(site: Site) -> Addresses:
    return addresses_of(load_configuration(site.configuration))


@pytest.mark.parametrize("form", FORMS)
def test_the_note_says_what_the_configuration_says(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = new_site(tmp_path)
    site.configuration.write_text(f"version: 1\n{form}jmx: {{enabled: true}}\n", encoding="utf-8")
    loaded = load_configuration(site.configuration)
    note_running(loaded)
    found = noted(site)
    assert found == addresses_of(loaded)
    assert found is not None
    assert (found.state_folder, found.feed_socket) == (loaded.state_folder, loaded.feed_socket)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert found.feed_socket == loaded.feed_socket, "no environment counts"


def test_an_edited_or_broken_file_is_read_itself_until_it_is_as_it_was(site: Site) -> None:
    before = site.configuration.read_bytes()
    for edited in (before + b"# a remark\n", b"not: [whole\n", b"", b"\xff"):
        site.configuration.write_bytes(edited)
        assert noted(site) is None
    site.configuration.unlink()
    assert noted(site) is None
    site.configuration.write_bytes(before)
    assert noted(site) == configured(site)


def test_a_policy_file_counts_since_a_wrong_one_is_an_error(site: Site) -> None:
    (site.folder / "roles.yaml").write_text("version: 1\nroles: [", encoding="utf-8")
    assert noted(site) is None


def test_a_reload_notes_what_holds_now(site: Site) -> None:
    (site.folder / "roles.yaml").write_text(ROLE.format("m*"), encoding="utf-8")
    note_addresses(site.state.path, load_configuration(site.configuration))
    assert noted(site) == configured(site)


def test_what_waits_for_a_restart_is_not_noted(site: Site) -> None:
    running = load_configuration(site.configuration)
    site.configure(snmp={"listen": ["127.0.0.1:8"], "versions": ["v2c"]})
    note_addresses(site.state.path, running.reloaded(load_configuration(site.configuration)))
    assert noted(site) is None
    assert not (site.state.path / RUNNING_ADDRESSES).exists()
    note_running(load_configuration(site.configuration))
    found = noted(site)
    assert found == configured(site)
    assert found is not None
    assert found.snmp is not None
    assert found.snmp.listen == ("127.0.0.1", 8)


def test_another_configuration_of_the_same_state_has_no_part_in_it(site: Site) -> None:
    other = site.folder / "other.yaml"
    other.write_bytes(site.configuration.read_bytes())
    assert noted_addresses(other) is None
    note_running(load_configuration(other))
    assert noted_addresses(other) == addresses_of(load_configuration(other))
    assert noted(site) is None


def test_a_home_folder_is_that_of_who_asks(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.configure(feed={"socket": "~/feed.sock"})
    note_running(load_configuration(site.configuration))
    assert noted(site) == configured(site)
    monkeypatch.setenv("HOME", str(site.folder))
    assert noted(site) is None


@pytest.mark.parametrize(
    "spoil",
    [
        lambda note: note.write_bytes(b""),
        lambda note: note.write_bytes(b"{}"),
        lambda note: note.write_bytes(b"[" * 100_000),
        lambda note: note.write_bytes(note.read_bytes().replace(b'"version":1', b'"version":2')),
        lambda note: note.write_bytes(note.read_bytes().replace(b'"root":"', b'"root":7,"was":"')),
        lambda note: note.chmod(0o666),
        lambda note: note.parent.chmod(0o777),
        lambda note: (note.parent.parent / "own.yaml").chmod(0o666),
        lambda note: (note.parent.parent / "gateway.yaml").chmod(0o666),
        lambda note: note.unlink(),
    ],
)
def test_what_is_damaged_or_not_trusted_does_not_count(site: Site, spoil: Callable[[Path], object]) -> None:
    note = site.state.path / RUNNING_ADDRESSES
    spoil(note)
    assert noted(site) is None


@for_root
@pytest.mark.parametrize("name", ["gateway.yaml", "own.yaml", "roles.yaml", f"state/{RUNNING_ADDRESSES}"])
def test_files_of_another_user_do_not_count(site: Site, name: str) -> None:
    os.chown(site.folder / name, OTHER, OTHER)
    assert noted(site) is None


@for_root
def test_root_reads_the_note_of_a_service_in_the_state_of_its_user(site: Site) -> None:
    for place in (site.state.path, site.state.path / RUNNING_ADDRESSES):
        os.chown(place, OTHER, OTHER)
    assert noted(site) == configured(site)


def test_a_note_that_cannot_be_written_is_no_error(site: Site) -> None:
    note = site.state.path / RUNNING_ADDRESSES
    note.unlink()
    (note / "taken").mkdir(parents=True)
    note_addresses(site.state.path, load_configuration(site.configuration))
    assert noted(site) is None
