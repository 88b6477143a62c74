"""Backup and restore: everything comes back, nothing is numbered twice, nothing hostile gets in."""

from __future__ import annotations

import datetime as dt
import io
import json
import random
import shutil
import stat
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from gateway.inventory.instance_file import InstanceIndexError
from gateway.inventory.instances import InstanceIndex
from gateway.service.backup_file import CHECKSUM, MANIFEST, MAX_FILES, checksum_of, open_backup
from gateway.service.index_upkeep import count_start
from gateway.service.state_backup import back_up
from gateway.service.state_restore import LEAST_BOOTS, LEAST_ROWS, MAX_ROWS, Leap, restore
from gateway.snmp.lock_files import SiteSchemas
from gateway.state_folder import MAX_BOOTS, StateError, StateFolder
from tests.components.full_disk import full_disk
from tests.hypothesis_profiles import PROVING

VERSION_1 = Path(__file__).parent.parent / "data" / "state" / "version-1"
NOW = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)


def started(state: StateFolder) -> InstanceIndex:
    """The index of a gateway that has just been started."""
    index = InstanceIndex(state.instances, must_exist=state.boots > 0)
    count_start(state, index)
    return index


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    """Of a gateway that was started three times, met objects, and has a secret and files of its norths."""
    state = StateFolder.create(tmp_path / "state")
    state.secret("community")
    for _ in range(3):
        with closing(started(state)) as index:
            source = index.source_number("orders")
            index.durable_row(source, "rabbitmq:queue", "/|orders")
            index.transient_row(source, "rabbitmq:connection")
    (state.path / "mibs").mkdir()
    (state.path / "mibs" / "AMQP-GATEWAY-SITE-MIB.mib").write_text("a module\n", encoding="ascii")
    return state


@pytest.fixture
def backup(state: StateFolder, tmp_path: Path) -> Path:
    """Of it."""
    back_up(state, tmp_path / "backup.tar", NOW)
    return tmp_path / "backup.tar"


def texts(folder: Path) -> dict[str, str]:
    """All files but the index, the count of starts and the lock."""
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in folder.rglob("*")
        if path.is_file() and path.name not in {"LOCK", "boots"} and "sqlite3" not in path.name
    }


# -- backup


def test_a_backup_is_for_its_owner_alone_and_says_what_is_in_it(state: StateFolder, tmp_path: Path) -> None:
    done = back_up(state, tmp_path / "b", NOW)

    assert stat.S_IMODE((tmp_path / "b").stat().st_mode) == 0o600
    assert (done.manifest.identity, done.manifest.boots, done.manifest.made) == (state.identity, 3, NOW)
    assert sorted(done.manifest.files) == [
        "VERSION",
        "boots",
        "identity",
        "instances.sqlite3",
        "mibs/AMQP-GATEWAY-SITE-MIB.mib",
        "secrets/community",
    ]
    assert done.octets == (tmp_path / "b").stat().st_size
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b", "state"]
    with open_backup(tmp_path / "b") as opened:
        assert opened.manifest == done.manifest


def test_what_belongs_to_one_run_is_not_in_it(state: StateFolder, tmp_path: Path) -> None:
    for name in ("LOCK", "feed.sock", ".boots.0123"):
        (state.path / name).touch()
    (state.path / "log").mkdir()
    (state.path / "log" / "segment").touch()
    (state.path / "notes of an operator").touch()
    with closing(started(state)):
        done = back_up(state, tmp_path / "b", NOW)
    assert len(done.manifest.files) == 6
    assert done.left_out == ("notes of an operator",)


def test_a_backup_without_secrets(state: StateFolder, tmp_path: Path) -> None:
    secret = state.secret("community")
    back_up(state, tmp_path / "b", NOW, with_secrets=False)
    assert secret.encode() not in (tmp_path / "b").read_bytes()
    restore(tmp_path / "b", tmp_path / "new", NOW)
    assert StateFolder(tmp_path / "new").secret("community") != secret


def test_a_gateway_that_was_never_started(tmp_path: Path) -> None:
    state = StateFolder.create(tmp_path / "state")
    assert "instances.sqlite3" not in back_up(state, tmp_path / "b", NOW).manifest.files
    restore(tmp_path / "b", tmp_path / "new", NOW)
    with closing(started(StateFolder(tmp_path / "new"))) as index:
        assert index.transient_row(1, "c") > LEAST_ROWS, "the original may have been started since"


def test_a_file_that_is_there_is_not_overwritten_by_chance(backup: Path, state: StateFolder) -> None:
    before = backup.read_bytes()
    with pytest.raises(StateError) as raised:
        back_up(state, backup, NOW)
    assert str(raised.value) == f"{backup}: is there already: take another name, or say --replace"
    assert backup.read_bytes() == before
    back_up(state, backup, NOW + DAY, replace=True)
    with open_backup(backup) as opened:
        assert opened.manifest.made == NOW + DAY


@pytest.mark.parametrize("octets", [0, 10_000, 40_000])
def test_a_disk_too_full_for_a_backup_keeps_the_last_one(
    backup: Path, state: StateFolder, octets: int
) -> None:
    before = backup.read_bytes()
    with full_disk(octets), pytest.raises((StateError, InstanceIndexError)):
        back_up(state, backup, NOW + DAY, replace=True)
    assert backup.read_bytes() == before
    assert sorted(path.name for path in backup.parent.iterdir()) == ["backup.tar", "state"]


def test_a_folder_that_is_missing(state: StateFolder, tmp_path: Path) -> None:
    with pytest.raises(StateError) as raised:
        back_up(state, tmp_path / "absent" / "b", NOW)
    assert str(raised.value) == f"{tmp_path}/absent/b: cannot be written: No such file or directory"


def test_a_damaged_index_is_no_backup(state: StateFolder, tmp_path: Path) -> None:
    state.instances.write_bytes(b"no database" * 1000)
    with pytest.raises(InstanceIndexError, match="is damaged"):
        back_up(state, tmp_path / "b", NOW)
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


# -- restore


@pytest.mark.parametrize("there", [(), ("LOCK",), ("lost+found",)])
def test_everything_is_restored_into_a_folder_that_is_missing_or_empty(
    backup: Path, state: StateFolder, tmp_path: Path, there: tuple[str, ...]
) -> None:
    folder = tmp_path / "new"
    for name in there:
        folder.mkdir(exist_ok=True)
        (folder / name).touch()

    restore(backup, folder, NOW)

    assert {name: text for name, text in texts(folder).items() if name != "lost+found"} == texts(state.path)
    modes = {
        stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*") if path.name not in {*there, "LOCK"}
    }
    assert modes == {0o600, 0o700}
    again = StateFolder(folder)
    with closing(started(state)) as original, closing(started(again)) as restored:
        assert restored.sources() == original.sources()
        rows = [index.durable_row(1, "rabbitmq:queue", "/|orders") for index in (original, restored)]
    assert rows[0] == rows[1]


def test_no_number_is_given_that_the_original_may_have_given(
    backup: Path, state: StateFolder, tmp_path: Path
) -> None:
    restore(backup, tmp_path / "new", NOW + DAY)
    again = StateFolder(tmp_path / "new")
    boots, rows, sources = set[int](), set[int](), set[int]()
    for run in range(20):
        with closing(started(state)) as index:
            boots.add(state.boots)
            sources.add(index.source_number(f"source {run}"))
            for source in (1, 5):
                rows |= {index.transient_row(source, "rabbitmq:queue") for _ in range(5_000)}
    with closing(started(again)) as index:
        assert again.boots not in boots
        assert index.source_number("new") not in sources
        for source in (1, 5):
            assert index.transient_row(source, "rabbitmq:queue") not in rows


def test_the_same_backup_restored_again_begins_where_the_first_cannot_have_come(
    backup: Path, tmp_path: Path
) -> None:
    first = restore(backup, tmp_path / "first", NOW + DAY)
    second = restore(backup, tmp_path / "second", NOW + 2 * DAY)
    seconds = DAY.total_seconds()
    assert second.boots - first.boots == seconds, "a core is started less than once a second"
    assert second.leap.rows - first.leap.rows == 100 * seconds


@pytest.mark.parametrize(
    ("passed", "boots", "rows"),
    [
        (-DAY, LEAST_BOOTS, LEAST_ROWS),
        (0 * DAY, LEAST_BOOTS, LEAST_ROWS),
        (DAY, LEAST_BOOTS + 86_400, LEAST_ROWS + 8_640_000),
        (3650 * DAY, LEAST_BOOTS + 315_360_000, MAX_ROWS),
    ],
)
def test_the_leap_grows_with_the_age_of_the_backup(passed: dt.timedelta, boots: int, rows: int) -> None:
    leap = Leap.over(passed)
    assert (leap.boots, leap.rows) == (boots, rows)


def test_a_folder_that_is_not_empty_is_kept_as_it_is(backup: Path, state: StateFolder) -> None:
    before = texts(state.path)
    with pytest.raises(StateError) as raised:
        restore(backup, state.path, NOW)
    assert str(raised.value) == (
        f"{state.path}: is not empty: with --replace the backup takes its place, and what is there is kept "
        "beside it"
    )
    assert texts(state.path) == before


def test_a_folder_that_is_replaced_is_kept_beside(backup: Path, state: StateFolder, tmp_path: Path) -> None:
    (state.path / "instances.sqlite3").write_bytes(b"damaged")
    (state.path / "identity").unlink()
    done = restore(backup, state.path, NOW + DAY, replace=True)
    assert done.aside == tmp_path / "state.replaced-20260502T120000Z"
    assert (done.aside / "instances.sqlite3").read_bytes() == b"damaged"
    with closing(started(StateFolder(state.path))) as index:
        assert index.sources() == {"orders": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "backup.tar",
        "state",
        "state.replaced-20260502T120000Z",
    ]


@pytest.mark.parametrize("replace", [False, True])
def test_a_folder_of_something_else_is_not_touched(backup: Path, tmp_path: Path, *, replace: bool) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "letter").touch()
    told = "is not empty: with --replace" if not replace else "holds something else than a gateway's state"
    with pytest.raises(StateError, match=told):
        restore(backup, tmp_path / "home", NOW, replace=replace)
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["letter"]


def test_a_file_in_the_place_of_a_folder(backup: Path) -> None:
    with pytest.raises(StateError) as raised:
        restore(backup, backup, NOW)
    assert str(raised.value) == f"{backup}: cannot be read: Not a directory"


@pytest.mark.parametrize("replace", [False, True])
def test_a_folder_in_use_is_not_touched(backup: Path, state: StateFolder, *, replace: bool) -> None:
    before = texts(state.path)
    told = "another gateway runs on this state" if replace else "is not empty"
    with state.locked(), pytest.raises(StateError, match=told):
        restore(backup, state.path, NOW, replace=replace)
    assert texts(state.path) == before


def test_state_of_version_1_is_restored_and_brought_up_to_date(tmp_path: Path) -> None:
    shutil.copytree(VERSION_1, tmp_path / "old")
    back_up(StateFolder(tmp_path / "old"), tmp_path / "b", NOW)
    restore(tmp_path / "b", tmp_path / "new", NOW)
    state = StateFolder(tmp_path / "new")
    assert state.secret("community") == "a-community-of-version-1"
    assert state.boots == 3 + LEAST_BOOTS
    with closing(started(state)) as index:
        assert index.durable_row(1, "rabbitmq:queue", "/|invoices") == 2
    lock = SiteSchemas(state.path, "hamburg").load(NOW.date())
    assert [(entry.name, entry.arc) for entry in lock.classes] == [("zoo:dog", 1)]


@pytest.mark.parametrize("octets", [0, 30_000])
def test_a_disk_too_full_for_a_restore_leaves_nothing(backup: Path, tmp_path: Path, octets: int) -> None:
    with full_disk(octets), pytest.raises((StateError, InstanceIndexError)):
        restore(backup, tmp_path / "new", NOW)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("octets", [0, 30_000])
def test_a_disk_too_full_to_replace_keeps_what_is_there(
    backup: Path, state: StateFolder, tmp_path: Path, octets: int
) -> None:
    before = texts(state.path)
    with full_disk(octets), pytest.raises((StateError, InstanceIndexError)):
        restore(backup, state.path, NOW, replace=True)
    assert texts(state.path) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup.tar", "state"]


# -- hostile backups

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
    """Only what is extra."""


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    header = tarfile.TarInfo(name)
    header.type, header.linkname = kind, link
    return header


def refused(backup: Path, folder: Path) -> str:
    """Why it is not restored; nothing of it is left."""
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
            {"state_version": 2},
            "state of version 2, this gateway knows 1: use the gateway that wrote it, or a ",
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
    (tmp_path / "b").write_bytes(octets)
    assert refused(tmp_path / "b", tmp_path / "new").startswith("is not a gateway's backup")


def test_a_backup_that_is_missing(tmp_path: Path) -> None:
    assert refused(tmp_path / "b", tmp_path / "new") == "cannot be read: No such file or directory"


def test_a_backup_cut_off_anywhere_is_refused(backup: Path, tmp_path: Path) -> None:
    octets = backup.read_bytes()
    with tarfile.open(backup) as tar:
        last = max(entry.offset_data + entry.size for entry in tar.getmembers())
    for length in range(0, last, 997):
        (tmp_path / "cut").write_bytes(octets[:length])
        refused(tmp_path / "cut", tmp_path / "new")


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
        (tmp_path / "changed").write_bytes(changed)
        folder = tmp_path / f"new {attempt}"
        try:
            restore(tmp_path / "changed", folder, NOW)
        except (StateError, InstanceIndexError):
            refusals += 1
            assert not folder.exists()
        else:
            assert texts(folder) == right
            assert StateFolder(folder).boots == 3 + LEAST_BOOTS
    assert refusals
