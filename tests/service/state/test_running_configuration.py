"""The copies of mappings, overrides and policy in the state folder: all former ones, or all new ones."""

from __future__ import annotations

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from gateway.config.files import LoadedConfiguration, load_configuration
from gateway.config.running import MAX_COPIED_CHARACTERS, CopiedFile, check_size
from gateway.mapping.override_files import load_with_overrides
from gateway.service.state.running_configuration import (
    Changes,
    changes,
    configuration_of_running,
    note_reload,
    note_running,
    running_configuration,
)
from gateway.state_folder import RUNNING_FILES, StateFolder
from gateway.yaml_documents import DocumentError
from tests.components.command_line import Site, new_site
from tests.components.waiting import wait_until

LABEL = "version: 1\nclasses: {{'rabbitmq:queue': {{label: {0}}}}}\n"
OWN = "version: 1\npackage: {0}\nmodule: AMQP-PUMPS-MIB\nprefix: pmp\nclasses: {{}}\n"
EDITED = ("not: [whole\n", "version: 1\nsnpm: {}\nstate:\n  # here\n  folder: state\n")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """A configuration with an own mapping and two override files, with which a gateway was started."""
    site = new_site(tmp_path)
    (tmp_path / "own.yaml").write_text(OWN.format("pumps"), encoding="utf-8")
    for name in ("one.yaml", "two.yaml"):
        (tmp_path / name).write_text(LABEL.format("Queue"), encoding="utf-8")
    site.configure(mappings=["own.yaml"], overrides=["one.yaml", "two.yaml"])
    note_running(load_configuration(site.configuration))
    return site


def running(site: Site) -> LoadedConfiguration:
    return running_configuration(load_configuration(site.configuration))


def wanted(site: Site) -> LoadedConfiguration:
    return load_configuration(site.configuration).with_copies()


@pytest.mark.parametrize("text", EDITED)
def test_an_edited_file_does_not_count_while_the_gateway_runs(site: Site, text: str) -> None:
    before = load_configuration(site.configuration).settings.snmp.listen
    edited = text if "folder" in text else f"{text}state: {{folder: state}}\n"
    with site.state.locked():
        site.configuration.write_text(edited, encoding="utf-8")
        assert configuration_of_running(site.configuration).settings.snmp.listen == before
        site.configure(snmp={"listen": ["127.0.0.1:7"]})
        assert configuration_of_running(site.configuration).settings.snmp.listen == before
    assert configuration_of_running(site.configuration).settings.snmp.listen == (("127.0.0.1", 7),)
    site.configuration.write_text(edited, encoding="utf-8")
    with pytest.raises(DocumentError):
        configuration_of_running(site.configuration)
    site.configuration.chmod(0o666)
    with site.state.locked(), pytest.raises(DocumentError, match="by everybody"):
        configuration_of_running(site.configuration)


@pytest.mark.parametrize(
    "text",
    ["", None, "version: 1\nsnpm: {}\nstate: {\n  folder: st,\n}\n", "state:\n# here\n  folder: st\n"],
)
def test_the_state_of_an_edited_file_is_found(site: Site, text: str | None) -> None:
    """Also of a file that is empty or missing for a moment: the state beside it notes its gateway's file."""
    site.state.path.rename(site.folder / "st")
    site.configure(state={"folder": "st"})
    loaded, state = load_configuration(site.configuration), StateFolder(site.folder / "st")
    note_running(loaded)
    if text is None:
        site.configuration.unlink()
    else:
        site.configuration.write_text(text, encoding="utf-8")
    with state.locked():
        assert configuration_of_running(site.configuration).settings == loaded.settings
    with pytest.raises(DocumentError):
        configuration_of_running(site.configuration)
    other = site.folder / "other.yaml"
    other.write_text("", encoding="utf-8")
    with state.locked(), pytest.raises(DocumentError):
        configuration_of_running(other)


def test_files_that_are_edited_or_gone_are_read_from_their_copies(site: Site) -> None:
    (site.folder / "one.yaml").write_text("classes: [", encoding="utf-8")
    (site.folder / "own.yaml").unlink()
    found = running(site)
    known = load_with_overrides(found.mapping_files, found.override_files)
    assert "pumps" in known.mappings
    assert [str(file) for file in found.override_files] == [
        str(site.folder / name) for name in ("one.yaml", "two.yaml")
    ]


def test_nothing_differs_at_the_start_and_after_a_reload(site: Site) -> None:
    assert not changes(wanted(site), running(site))
    (site.folder / "one.yaml").write_text(LABEL.format("Row") + "# a remark\n", encoding="utf-8")
    found = changes(wanted(site), running(site))
    line = f"{site.folder / 'one.yaml'}: classes.rabbitmq:queue.label was changed"
    assert found == Changes(policy=False, mappings=(line,), waiting=())
    note_reload(site.state.path, wanted(site))
    assert not changes(wanted(site), running(site))


def test_what_means_the_same_is_no_change_but_another_order_is(site: Site) -> None:
    one = site.folder / "one.yaml"
    one.write_text(
        "# better words\nversion: 1\nclasses:\n  rabbitmq:queue: {label: Queue}\n", encoding="utf-8"
    )
    assert not changes(wanted(site), running(site))
    patterns = ["'*:queue': {label: A}", "'rabbitmq:*': {label: B}"]
    one.write_text(f"version: 1\nclasses: {{{', '.join(patterns)}}}\n", encoding="utf-8")
    note_reload(site.state.path, wanted(site))
    one.write_text(f"version: 1\nclasses: {{{', '.join(reversed(patterns))}}}\n", encoding="utf-8")
    assert changes(wanted(site), running(site)).mappings == (f"{one}: classes is in another order",)


def test_files_that_come_and_go_and_change_places_are_named(site: Site) -> None:
    (site.folder / "three.yaml").write_text(LABEL.format("Row"), encoding="utf-8")
    site.configure(overrides=["two.yaml", "three.yaml"], snmp={"enabled": False})
    found = changes(wanted(site), running(site))
    assert set(found.mappings) == {
        f"mappings: {site.folder / 'own.yaml'} was removed",
        f"overrides: {site.folder / 'one.yaml'} was removed",
        f"overrides: {site.folder / 'three.yaml'} was added",
    }
    assert "snmp.enabled" in found.waiting
    note_reload(site.state.path, wanted(site))
    assert running(site).settings.overrides == (Path("two.yaml"), Path("three.yaml"))
    assert running(site).settings.snmp.enabled, "what waits for a restart is as at the start"
    site.configure(overrides=["three.yaml", "two.yaml"])
    assert changes(wanted(site), running(site)).mappings == ("overrides: the files are in another order",)


def test_a_start_forgets_what_was_reloaded_before(site: Site) -> None:
    site.configure(policy={"principals": {"*": ["monitoring"]}})
    note_reload(site.state.path, wanted(site))
    site.configure(overrides=["two.yaml"])
    note_running(load_configuration(site.configuration))
    found = running(site)
    assert found.settings.overrides == (Path("two.yaml"),)
    assert not changes(wanted(site), found)


def test_a_wrong_file_leaves_the_copies_of_a_start_as_they_were(site: Site) -> None:
    before = (site.state.path / RUNNING_FILES).read_bytes()
    (site.folder / "two.yaml").write_text("version: 1\nclasses:\n  rabbitmq:queu: {}\n", encoding="utf-8")
    with pytest.raises(DocumentError, match=r"two\.yaml:3: classes\.rabbitmq:queu: matches no class"):
        note_running(load_configuration(site.configuration))
    assert (site.state.path / RUNNING_FILES).read_bytes() == before


@pytest.mark.parametrize("damaged", [b"", b"{", b"[]", b"\xff", b'{"version": 2}'])
def test_damaged_copies_are_one_clear_error(site: Site, damaged: bytes) -> None:
    (site.state.path / RUNNING_FILES).write_bytes(damaged)
    with pytest.raises(DocumentError, match=r"running-files\.json:1: is damaged: restart the gateway"):
        running(site)


def test_files_that_are_too_large_together_are_refused(site: Site) -> None:
    files = [CopiedFile(file=Path("own.yaml"), text=" " * (MAX_COPIED_CHARACTERS // 2))] * 2
    check_size(site.configuration, files)
    with pytest.raises(DocumentError, match="have more than"):
        check_size(site.configuration, [*files, CopiedFile(file=Path("two.yaml"), text=" ")])


def test_a_writer_that_is_killed_leaves_all_former_or_all_new_files(site: Site) -> None:
    """Both override files are changed together; a reader never sees one of each."""
    process = multiprocessing.get_context("fork").Process(target=_write_for_ever, args=(site,))
    process.start()
    seen: set[str] = set()

    def reads() -> bool:
        texts = {copy.text for copy in _copies(site)}
        assert len(texts) == 1, "a mixture of former and new files"
        seen.update(texts)
        return len(seen) == 2

    wait_until(reads, "both contents were read")
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    assert len({copy.text for copy in _copies(site)}) == 1


def _copies(site: Site) -> tuple[CopiedFile, ...]:
    copies = running(site).copies
    assert copies is not None
    return copies.overrides


def _write_for_ever(site: Site) -> None:
    versions = []
    for label in ("Queue", "Row"):
        for name in ("one.yaml", "two.yaml"):
            (site.folder / name).write_text(LABEL.format(label), encoding="utf-8")
        versions.append(wanted(site))
    while True:
        for version in versions:
            note_reload(site.state.path, version)
