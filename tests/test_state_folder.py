"""The state folder: made on purpose only, counted and locked across real processes."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import UUID

import pytest

from gateway import state_folder
from gateway.file_owners import user_name
from gateway.starts import CORE, RESERVED, RESTORE, ReservedStarts
from gateway.state_folder import VERSION, StateError, StateFolder
from tests.components.full_disk import full_disk

SEARCHABLE = stat.S_IXGRP | stat.S_IXOTH
HOLDER = """
import sys, time
from pathlib import Path
from gateway.state_folder import StateFolder
with StateFolder(Path(sys.argv[1])).locked():
    print("locked", flush=True)
    time.sleep(600)
"""
ASKER = """
import sys
from pathlib import Path
from gateway.state_folder import StateFolder
state = StateFolder(Path(sys.argv[1]))
print("here", flush=True)
sys.stdin.readline()
for number in range(100):
    print(state.secret(f"secret-{number}"))
"""


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    return StateFolder.create(tmp_path / "state")


@contextmanager
def running(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run a Python process; kill it at the end."""
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(  # noqa: S603  text from above
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def refusal(path: Path) -> str:
    with pytest.raises(StateError) as raised:
        StateFolder(path)
    return str(raised.value)


def test_a_new_one_has_an_identity_and_was_never_started(tmp_path: Path) -> None:
    state = StateFolder.create(tmp_path / "deep" / "state")

    assert str(UUID(state.identity)) == state.identity
    assert state.boots == 0
    assert sorted(path.name for path in state.path.iterdir()) == ["VERSION", "boots", "identity", "secrets"]


def test_no_other_user_reads_what_is_in_it(state: StateFolder) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [state.path, *state.path.iterdir()]}
    assert modes == {"state": 0o700, "VERSION": 0o600, "boots": 0o600, "identity": 0o600, "secrets": 0o700}


def test_an_empty_folder_is_taken(tmp_path: Path) -> None:
    assert StateFolder.create(tmp_path).path == tmp_path


def test_identities_differ(tmp_path: Path) -> None:
    assert StateFolder.create(tmp_path / "a").identity != StateFolder.create(tmp_path / "b").identity


def test_it_is_the_same_when_opened_again(state: StateFolder) -> None:
    assert StateFolder(state.path).identity == state.identity


def test_none_is_made_where_something_is(state: StateFolder) -> None:
    with pytest.raises(StateError) as raised:
        StateFolder.create(state.path)
    assert str(raised.value) == (
        f"{state.path}: is not empty; a new identity is made in a new or empty folder only"
    )


def test_none_is_made_where_a_file_is(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StateError) as raised:
        StateFolder.create(tmp_path / "file" / "state")
    assert str(raised.value) == f"{tmp_path}/file/state: cannot be made: Not a directory"


def test_one_that_is_missing_is_not_made_in_passing(tmp_path: Path) -> None:
    assert refusal(tmp_path / "state") == (
        f"{tmp_path}/state: no gateway state here. A new gateway: run `amqp-gateway init`. One that ran "
        "before: restore a backup with `amqp-gateway state restore`, or every row number changes"
    )
    assert not (tmp_path / "state").exists()


def test_one_of_a_newer_version_is_left_alone(state: StateFolder) -> None:
    (state.path / "VERSION").write_text(f"{VERSION + 1}\n", encoding="ascii")
    assert refusal(state.path) == (
        f"{state.path}: state of version {VERSION + 1}, this gateway knows {VERSION}: use the gateway that "
        "wrote it, or a newer one"
    )


@pytest.mark.parametrize("version", ["0", "", "one", "9" * 1000, "1\n1"])
def test_one_whose_version_is_none(state: StateFolder, version: str) -> None:
    (state.path / "VERSION").write_text(f"{version}\n", encoding="ascii")
    assert refusal(state.path) == (
        f"{state.path}: the state cannot be read: VERSION says {version[:20]!r}: {RESTORE}"
    )


def test_one_that_cannot_be_read(state: StateFolder) -> None:
    (state.path / "VERSION").write_bytes(b"\xff")
    assert refusal(state.path) == f"{state.path}: the state cannot be read: VERSION is not text"


@contextmanager
def another_user(path: Path) -> Iterator[str]:
    """Become a user who may not read ``path``; provide the name of its owner."""
    name = user_name(path.stat().st_uid)
    if os.geteuid():  # nobody can become another one: the owner is kept out
        path.chmod(0)
        yield name
        path.chmod(0o700)
        return
    os.seteuid(65_534)
    try:
        yield name
    finally:
        os.seteuid(0)


def test_one_of_another_user_says_whose_it_is(state: StateFolder) -> None:
    for folder in state.path.parents:  # pytest's own are for nobody else
        if folder.stat().st_mode & SEARCHABLE != SEARCHABLE:
            folder.chmod(folder.stat().st_mode | SEARCHABLE)
    with another_user(state.path) as owner:
        reported = refusal(state.path)
    assert reported == (
        f"{state.path}: the state cannot be read: Permission denied: it belongs to the user {owner}, as whom "
        f"the gateway runs: try sudo -u {owner}"
    )


@pytest.mark.parametrize("name", ["identity", "boots"])
def test_a_file_that_is_missing_has_to_be_restored(state: StateFolder, name: str) -> None:
    (state.path / name).unlink()
    with pytest.raises(StateError) as raised:
        getattr(state, name)
    assert str(raised.value) == f"{state.path}/{name}: cannot be read: No such file or directory: {RESTORE}"


@pytest.mark.parametrize("octets", [b"", b"gateway\n", b"\0" * 37, b"0b0f5a52-6a0f-4a3c-9a5c-0d3c1f6f4a1\n"])
def test_a_damaged_identity_is_not_replaced(state: StateFolder, octets: bytes) -> None:
    (state.path / "identity").write_bytes(octets)
    with pytest.raises(StateError) as raised:
        _ = state.identity
    assert str(raised.value) == f"{state.path}/identity: should be a uuid: {RESTORE}"


def test_what_a_file_system_keeps_in_a_new_folder_is_not_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    assert StateFolder.create(tmp_path).boots == 0


# -- versions

OLDER = Path(__file__).parent / "data" / "state"
IDENTITIES = {
    1: "0b0f5a52-6a0f-4a3c-9a5c-0d3c1f6f4a10",
    2: "d90f1e0a-7ded-49ab-8208-47178ec236ea",
}


@pytest.mark.parametrize("version", range(1, VERSION))
def test_a_folder_of_an_older_version_is_read_as_it_was_left(tmp_path: Path, version: int) -> None:
    state = StateFolder(Path(shutil.copytree(OLDER / f"version-{version}", tmp_path / "state")))
    with state.locked():
        assert state.identity == IDENTITIES[version]
        assert state.next_boot() == 4
        assert state.secret("community") == f"a-community-of-version-{version}"
        # The gateway that made it compares this number with its own, and refuses.
        assert state.read_version() == VERSION == 3


def test_starts_that_could_not_be_noted_are_in_no_folder_that_a_gateway_without_them_accepts(
    state: StateFolder,
) -> None:
    """A gateway of version 2 begins behind ``boots``: its events would have ids that there are."""
    with state.locked():
        run = ReservedStarts(state.path, 0)
        assert run.next(CORE) == 1
        state.note_boot(1)
        with full_disk():
            assert run.next(CORE) == 2
            with pytest.raises(StateError):
                state.note_boot(2)
    assert (state.boots, state.highest_start) == (1, RESERVED)
    assert state.read_version() > 2


def test_an_older_folder_is_brought_up_to_date_by_who_holds_it(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []

    def step(version: int) -> Callable[[Path], None]:
        def take(path: Path) -> None:
            assert (path / "VERSION").read_text(encoding="ascii") == f"{version}\n"
            steps.append(version)

        return take

    (state.path / "VERSION").write_text("1\n", encoding="ascii")
    monkeypatch.setattr(state_folder, "VERSION", 3)
    monkeypatch.setattr(state_folder, "MIGRATIONS", {1: step(1), 2: step(2)})
    assert StateFolder(state.path).boots == 0
    assert steps == [], "who only reads changes nothing"
    with StateFolder(state.path).locked():
        assert steps == [1, 2]
    with StateFolder(state.path).locked():
        assert steps == [1, 2]
    assert state.read_version() == 3


def test_a_step_that_was_interrupted_is_taken_again(
    state: StateFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(path: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    (state.path / "VERSION").write_text("1\n", encoding="ascii")
    monkeypatch.setattr(state_folder, "VERSION", 2)
    monkeypatch.setattr(state_folder, "MIGRATIONS", {1: fails})
    with pytest.raises(StateError) as raised, state.locked():
        pytest.fail("used half way")
    assert str(raised.value) == f"{state.path}: cannot be made state of version 2: No space left on device"
    monkeypatch.setattr(state_folder, "MIGRATIONS", {1: lambda path: (path / "new").touch()})
    with state.locked():
        assert (state.path / "new").exists()


# -- boots


def test_each_start_counts(state: StateFolder) -> None:
    assert [state.next_boot(), state.next_boot()] == [1, 2]
    assert StateFolder(state.path).boots == 2


@pytest.mark.parametrize("text", ["", "many", "-1", "1.5", "2147483647", "9" * 5000, "1 2"])
def test_a_damaged_count_does_not_begin_again(state: StateFolder, text: str) -> None:
    (state.path / "boots").write_text(text, encoding="ascii")
    with pytest.raises(StateError) as raised:
        state.next_boot()
    assert str(raised.value) == f"{state.path}/boots: should be a number below 2147483647: {RESTORE}"


def test_a_count_that_cannot_be_written_is_reported_and_stays(state: StateFolder) -> None:
    with full_disk(), pytest.raises(StateError) as raised:
        state.next_boot()
    assert str(raised.value) == f"{state.path}/boots: cannot be written: File too large"
    assert state.boots == 0


# -- secrets


def test_whether_a_start_can_be_noted_is_tried_and_changes_nothing(state: StateFolder) -> None:
    before = {path: path.read_bytes() for path in state.path.rglob("*") if path.is_file()}
    state.check_can_note()
    with full_disk(), pytest.raises(StateError, match="no start can be noted: "):
        state.check_can_note()
    assert {path: path.read_bytes() for path in state.path.rglob("*") if path.is_file()} == before


def test_no_secret_is_made_where_the_state_was_moved_away_from(state: StateFolder) -> None:
    state.path.rename(state.path.with_name("away"))
    state.path.mkdir()
    with pytest.raises(StateError, match="no gateway state here"):
        state.secret("community")
    assert list(state.path.iterdir()) == []


def test_a_secret_is_made_once_and_for_its_owner_alone(state: StateFolder) -> None:
    secret = state.secret("community")

    assert len(bytes.fromhex(secret)) == 18  # no character with a meaning in a command
    assert StateFolder(state.path).secret("community") == secret
    assert stat.S_IMODE(state.secret_path("community").stat().st_mode) == 0o600
    assert [path.name for path in (state.path / "secrets").iterdir()] == ["community"]


def test_secrets_differ(state: StateFolder) -> None:
    assert state.secret("one") != state.secret("other")


def test_a_secret_of_an_operators_own_is_taken(state: StateFolder) -> None:
    state.secret_path("community").write_text("public\n", encoding="ascii")
    assert state.secret("community") == "public"


@pytest.mark.parametrize(
    ("octets", "what"),
    [
        (b"\n", "the secret is empty: remove the file, and a new one is made"),
        (b"\xff", "the secret cannot be used: is not ASCII text"),
    ],
)
def test_a_secret_that_is_none(state: StateFolder, octets: bytes, what: str) -> None:
    state.secret_path("community").write_bytes(octets)
    with pytest.raises(StateError) as raised:
        state.secret("community")
    assert str(raised.value) == f"{state.secret_path('community')}: {what}"


def test_processes_that_ask_at_once_get_the_same_secret(state: StateFolder) -> None:
    with running(ASKER, str(state.path)) as one, running(ASKER, str(state.path)) as other:
        for process in (one, other):
            assert process.stdout is not None
            assert process.stdout.readline() == "here\n"
        for process in (one, other):
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        answers = [process.communicate()[0] for process in (one, other)]

    assert answers[0] == answers[1]
    assert len(set(answers[0].split())) == 100


# -- the lock


def test_a_second_process_is_refused_until_the_first_is_killed(state: StateFolder) -> None:
    with running(HOLDER, str(state.path)) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(StateError) as raised, state.locked(patience_seconds=0.1):
            pytest.fail("two processes hold one state")
        assert str(raised.value) == (
            f"{state.path}: another gateway runs on this state: stop it, or give this one a "
            "state folder of its own"
        )

        holder.kill()
        with state.locked():
            pass


def test_who_ends_lets_the_next_in(state: StateFolder) -> None:
    with state.locked():
        pass
    with state.locked(patience_seconds=0):
        pass


def test_a_process_that_inherits_the_lock_holds_it(state: StateFolder) -> None:
    with state.locked() as lock:
        inherited = os.dup(lock)  # as a process has it that was started by this one
    with pytest.raises(StateError), state.locked(patience_seconds=0):
        pytest.fail("two hold one state")
    with state.locked(inherited=inherited) as same:
        assert same == inherited
    os.close(inherited)
    with state.locked(patience_seconds=0):
        pass


def test_what_was_inherited_must_be_the_folders_lock(state: StateFolder, tmp_path: Path) -> None:
    with state.locked():
        pass
    with (
        (tmp_path / "another").open("w") as other,
        pytest.raises(StateError, match="was replaced"),
        state.locked(inherited=other.fileno()),
    ):
        pytest.fail("held by another file")


def test_an_inherited_lock_that_another_gateway_holds_is_none(state: StateFolder) -> None:
    with (
        state.locked(),
        (state.path / "LOCK").open() as mine,
        pytest.raises(StateError) as raised,
        state.locked(inherited=mine.fileno()),
    ):
        pytest.fail("two hold one state")
    assert str(raised.value) == f"{state.path}/LOCK: what was inherited does not hold it"


def test_the_lock_of_a_folder_that_was_replaced_meanwhile_is_not_the_folders(state: StateFolder) -> None:
    former = state.path.with_name("former")
    with running(HOLDER, str(state.path)) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        state.path.rename(former)
        StateFolder.create(state.path)
        with state.locked(patience_seconds=0):
            pass
        with pytest.raises(StateError), StateFolder(former).locked(patience_seconds=0):
            pytest.fail("the former folder is still held")


def test_a_lock_that_cannot_be_opened(state: StateFolder) -> None:
    (state.path / "LOCK").mkdir()
    with pytest.raises(StateError) as raised, state.locked():
        pytest.fail("held without a file")
    assert str(raised.value) == f"{state.path}/LOCK: cannot be opened: Is a directory"
