"""A backup that was changed on its way: no hostile content is restored."""

from __future__ import annotations

import io
import json
import random
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway.inventory.instance_file import InstanceIndexError
from gateway.service.state.backup import CHECKSUM, MANIFEST, MAX_FILES, checksum_of, open_backup
from gateway.service.state.restore import LEAST_BOOTS, restore
from gateway.state_folder import MAX_BOOTS, VERSION, StateError, StateFolder
from tests.hypothesis_profiles import PROVING
from tests.state.started_state import NOW, texts

Change = Callable[[dict[str, bytes], dict[str, Any]], None]


def forged(path: Path, backup: Path, change: Change, *extra: tuple[tarfile.TarInfo, bytes]) -> Path:
    """A backup whose files and manifest are changed, and that has further members."""
    with tarfile.open(backup) as tar:
        files = {member.name: tar.extractfile(member) for member in tar.getmembers()}
        contents = {name: file.read() for name, file in files.items() if file is not None}
    del contents[CHECKSUM]
    manifest = json.loads(contents.pop(MANIFEST))
    change(contents, manifest)
    text = json.dumps(manifest).encode()
    with tarfile.open(path, "w") as tar:
        for name, content in {MANIFEST: text, CHECKSUM: checksum_of(text), **contents}.items():
            header = tarfile.TarInfo(name)
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
        for header, content in extra:
            header.size = len(content)
            tar.addfile(header, io.BytesIO(content))
    return path


def nothing(_contents: dict[str, bytes], _manifest: dict[str, Any]) -> None:
    """Change nothing; only extra members are added."""


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, link
    return header


def refused(backup: Path, folder: Path) -> str:
    """Return the reason why it is not restored; check that nothing of it is left."""
    outside = sorted(path.name for path in folder.parent.iterdir())
    with pytest.raises((StateError, InstanceIndexError)) as raised:
        restore(backup, folder, NOW)
    assert sorted(path.name for path in folder.parent.iterdir()) == outside
    return str(raised.value).replace(f"{backup}: ", "")


def test_an_honest_forgery_is_restored(backup: Path, tmp_path: Path) -> None:
    restore(forged(tmp_path / "same.tar", backup, nothing), tmp_path / "new", NOW)
    assert StateFolder(tmp_path / "new").boots == 3 + LEAST_BOOTS


@pytest.mark.parametrize(
    "extra",
    [
        member("../outside"),
        member("/etc/outside"),
        member("extra"),
        member("boots"),
        member("link", tarfile.SYMTYPE, "/etc/passwd"),
        member("link", tarfile.LNKTYPE, "identity"),
        member("device", tarfile.CHRTYPE),
        member("pipe", tarfile.FIFOTYPE),
        member("folder", tarfile.DIRTYPE),
    ],
    ids=lambda header: f"{header.name} {header.type.decode()}",
)
def test_members_that_the_manifest_does_not_name(
    backup: Path, tmp_path: Path, extra: tarfile.TarInfo
) -> None:
    content = b"" if extra.type != tarfile.REGTYPE else b"x"
    hostile = forged(tmp_path / "hostile.tar", backup, nothing, (extra, content))
    assert refused(hostile, tmp_path / "new") == f"holds what its manifest does not name: {extra.name!r}"


def test_a_link_that_the_manifest_names_as_a_file(backup: Path, tmp_path: Path) -> None:
    def change(_contents: dict[str, bytes], manifest: dict[str, Any]) -> None:
        manifest["files"]["mibs/link"] = {"size": 0, "sha256": "0" * 64}

    link = (member("mibs/link", tarfile.SYMTYPE, "/etc/passwd"), b"")
    hostile = forged(tmp_path / "hostile.tar", backup, change, link)
    assert refused(hostile, tmp_path / "new") == "holds what its manifest does not name: 'mibs/link'"


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "/outside",
        "a/../../outside",
        ".hidden",
        "a//b",
        "a/b/c/d/e",
        "a\0b",
        "",
        MANIFEST,
        CHECKSUM,
    ],
)
def test_names_that_lead_elsewhere(backup: Path, tmp_path: Path, name: str) -> None:
    def change(_contents: dict[str, bytes], manifest: dict[str, Any]) -> None:
        manifest["files"][name] = {"size": 0, "sha256": "0" * 64}

    assert refused(forged(tmp_path / "hostile.tar", backup, change), tmp_path / "new").startswith(
        "manifest: "
    )


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"format": 2}, "manifest: format: Input should be 1"),
        (
            {"state_version": VERSION + 1},
            f"state of version {VERSION + 1}, this gateway knows {VERSION}: use the gateway ",
        ),
        ({"boots": -1}, "manifest: boots: "),
        ({"boots": MAX_BOOTS - 1}, "its gateway cannot be started often enough: make a new one with `init`"),
        ({"identity": "gateway"}, "manifest: identity: "),
        ({"made": "yesterday"}, "manifest: made: "),
        ({"made": "2026-05-01T12:00:00"}, "manifest: : Value error, made: lacks its time zone"),
        ({"files": {}}, "manifest: files: "),
        (
            {"files": {"boots": {"size": 1, "sha256": "0" * 64}}},
            "manifest: : Value error, lacks VERSION, identity",
        ),
        ({"more": 1}, "manifest: more: "),
    ],
)
def test_manifests_that_are_none(
    backup: Path, tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    hostile = forged(tmp_path / "hostile.tar", backup, lambda _, manifest: manifest.update(changes))
    assert refused(hostile, tmp_path / "new").startswith(complaint)


def test_more_files_than_a_gateway_has(backup: Path, tmp_path: Path) -> None:
    def change(_contents: dict[str, bytes], manifest: dict[str, Any]) -> None:
        manifest["files"] |= {f"f{number}": {"size": 0, "sha256": "0" * 64} for number in range(MAX_FILES)}

    hostile = forged(tmp_path / "hostile.tar", backup, change)
    assert refused(hostile, tmp_path / "new").startswith("manifest: files: ")


def test_a_file_that_was_changed(backup: Path, tmp_path: Path) -> None:
    def change(contents: dict[str, bytes], _manifest: dict[str, Any]) -> None:
        contents["secrets/community"] = contents["secrets/community"][::-1]

    hostile = forged(tmp_path / "hostile.tar", backup, change)
    assert refused(hostile, tmp_path / "new") == (
        "secrets/community is not what was backed up: the file is damaged"
    )


def test_files_of_two_gateways(backup: Path, tmp_path: Path) -> None:
    other = "0b0f5a52-6a0f-4a3c-9a5c-0d3c1f6f4a10"
    hostile = forged(tmp_path / "hostile.tar", backup, lambda _, manifest: manifest.update(identity=other))
    assert refused(hostile, tmp_path / "new").endswith("manifest is another gateway's than its files")


def test_an_index_that_is_none(backup: Path, tmp_path: Path) -> None:
    with open_backup(backup) as opened:
        entry = opened.manifest.files["boots"].model_dump()

    def change(contents: dict[str, bytes], manifest: dict[str, Any]) -> None:
        manifest["files"]["instances.sqlite3"] = entry
        contents["instances.sqlite3"] = contents["boots"]

    hostile = forged(tmp_path / "hostile.tar", backup, change)
    assert "is damaged (file is not a database)" in refused(hostile, tmp_path / "new")


@pytest.mark.parametrize("octets", [b"", b"no tar", b"\0" * 10_240, b"\x1f\x8b" + b"\0" * 600])
def test_what_is_no_tar(tmp_path: Path, octets: bytes) -> None:
    (tmp_path / "b.tar").write_bytes(octets)
    assert refused(tmp_path / "b.tar", tmp_path / "new").startswith("is not a gateway's backup")


def test_a_backup_that_is_missing(tmp_path: Path) -> None:
    assert refused(tmp_path / "b.tar", tmp_path / "new") == "cannot be read: No such file or directory"


def test_a_backup_cut_off_anywhere_is_refused(backup: Path, tmp_path: Path) -> None:
    octets = backup.read_bytes()
    with tarfile.open(backup) as tar:
        last = max(entry.offset_data + entry.size for entry in tar.getmembers())
    for length in range(0, last, 997):
        (tmp_path / "cut.tar").write_bytes(octets[:length])
        refused(tmp_path / "cut.tar", tmp_path / "new")


def test_whatever_octets_are_changed_it_is_refused_or_the_same(
    backup: Path, state: StateFolder, tmp_path: Path
) -> None:
    octets, right = backup.read_bytes(), texts(state.path)
    chance = random.Random(20260501)  # noqa: S311  nothing to keep secret
    refusals = 0
    for attempt in range(1_000 if PROVING else 60):
        changed = bytearray(octets)
        for _ in range(chance.choice((1, 1, 3, 40))):
            changed[chance.randrange(min(8_000, len(octets)))] = chance.randrange(256)
        (tmp_path / "changed.tar").write_bytes(changed)
        folder = tmp_path / f"new {attempt}"
        try:
            restore(tmp_path / "changed.tar", folder, NOW)
        except (StateError, InstanceIndexError):
            refusals += 1
            assert not folder.exists()
        else:
            assert texts(folder) == right
            assert StateFolder(folder).boots == 3 + LEAST_BOOTS
    assert refusals
