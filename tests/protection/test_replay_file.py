"""The file of accepted bodies: what was accepted stays accepted, however the process or the machine ended."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.protection.envelope import BodyRefusedError, Refusal
from gateway.protection.replay_file import MAX_APPENDED, ReplayFile, machine_boot_id
from gateway.protection.replay_window import MAX_SENDERS, Acceptance
from tests.protection.parties import LATE
from tests.protection.test_replay_window import FIRST, NOW

BODY = replace(FIRST, issued=NOW + 1)
ANOTHER_BOOT = bytes(16)

VICTIM = """
import sys
from pathlib import Path
from gateway.protection.replay_file import ReplayFile
from gateway.protection.replay_window import MAX_SENDERS, Acceptance
file = ReplayFile(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
number = 0
while True:
    number += 1
    file.accept(Acceptance("sender0123456789", 7, number, int(sys.argv[3]) + 1), int(sys.argv[3]))
    print(number, flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "replay" / "one.window"


def refusal(file: ReplayFile, body: Acceptance, now: int = NOW) -> Refusal | None:
    """Accept a body; return the reason where it is refused."""
    try:
        file.accept(body, now)
    except BodyRefusedError as error:
        return error.refusal
    return None


@contextmanager
def opened(path: Path, boot: bytes | None = None, now: int = NOW) -> Iterator[ReplayFile]:
    """Provide the file, as one start of the gateway has it."""
    with closing(ReplayFile(path, LATE, now, machine_boot_id if boot is None else lambda: boot)) as file:
        yield file


def test_what_was_accepted_is_refused_after_a_restart(path: Path) -> None:
    with opened(path) as file:
        assert refusal(file, BODY) is None
        assert refusal(file, replace(BODY, number=5)) is None
    with opened(path) as file:
        assert refusal(file, BODY) is Refusal.REPLAYED
        assert refusal(file, replace(BODY, number=5)) is Refusal.REPLAYED
        assert refusal(file, replace(BODY, number=3)) is None
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_killed_process_has_accepted_nothing_that_is_accepted_again(path: Path) -> None:
    command = [sys.executable, "-c", VICTIM, str(path), str(LATE), str(NOW)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:  # noqa: S603  our own program
        assert victim.stdout is not None
        reported = [int(victim.stdout.readline()) for _ in range(2000)]
        victim.send_signal(signal.SIGKILL)
        rest = [int(line) for line in victim.stdout.read().split("\n")[:-1]]
    last = [*reported, *rest][-1]
    with opened(path) as file:
        for number in range(1, last + 1):
            assert refusal(file, replace(BODY, number=number)) is Refusal.REPLAYED
        assert refusal(file, replace(BODY, number=last + 2)) is None


def test_after_another_boot_of_the_machine_only_new_bodies_are_accepted(path: Path) -> None:
    with opened(path) as file:
        assert refusal(file, BODY) is None
    with opened(path, ANOTHER_BOOT, now=NOW + 10) as file:
        assert refusal(file, replace(BODY, number=2, issued=NOW + 10), NOW + 10) is Refusal.LATE
        assert refusal(file, replace(BODY, number=2, issued=NOW + 11), NOW + 10) is None


def test_without_a_file_only_new_bodies_are_accepted(path: Path) -> None:
    with opened(path) as file:
        assert refusal(file, FIRST) is Refusal.LATE
        assert refusal(file, BODY) is None


WAITS = 3_600_000


def waiting(path: Path, boot: bytes | None = None, now: int = NOW) -> ReplayFile:
    """Return the file of bodies that wait in a durable queue."""
    return ReplayFile(path, LATE, now, machine_boot_id if boot is None else lambda: boot, WAITS)


def test_what_waited_is_accepted_again_until_it_is_committed(path: Path) -> None:
    with closing(waiting(path)) as file:
        file.accept_before_commit(BODY, NOW, waited=True)
        write = file.commit(NOW)
        file.accept_before_commit(replace(BODY, number=2), NOW, waited=True)
        write()
        write()  # two connections may commit the same
        with pytest.raises(BodyRefusedError):
            file.accept_before_commit(replace(BODY, number=2), NOW, waited=True)
    with closing(waiting(path)) as file:
        assert not file.has_forgotten
        with pytest.raises(BodyRefusedError) as refused:
            file.accept_before_commit(BODY, NOW, waited=True)
        assert refused.value.refusal is Refusal.REPLAYED
        file.accept_before_commit(replace(BODY, number=2), NOW, waited=True)


def test_what_was_committed_is_known_after_a_power_failure(path: Path) -> None:
    with closing(waiting(path)) as file:
        file.accept_before_commit(BODY, NOW, waited=True)
        file.commit(NOW)()
    with closing(waiting(path, ANOTHER_BOOT, NOW + 10)) as file:
        assert not file.has_forgotten
        file.accept_before_commit(replace(BODY, number=2), NOW + 10, waited=True)
        assert refusal(file, BODY, NOW + 10) is Refusal.REPLAYED


def test_a_file_of_before_is_known_in_the_same_boot_of_the_machine_only(path: Path) -> None:
    with opened(path) as file:
        assert refusal(file, BODY) is None
    with closing(waiting(path)) as file:
        assert not file.has_forgotten
        assert refusal(file, BODY) is Refusal.REPLAYED
        assert refusal(file, replace(BODY, number=2)) is None, "a link without the queue writes at once"
    with opened(path) as file:
        assert refusal(file, replace(BODY, number=2)) is Refusal.REPLAYED
    assert waiting(path, ANOTHER_BOOT).has_forgotten


def test_many_commits_make_a_file_of_limited_size(path: Path) -> None:
    with closing(waiting(path)) as file:
        for part in range(4):
            for number in range(MAX_APPENDED // 2):
                file.accept_before_commit(
                    replace(BODY, number=part * MAX_APPENDED + number + 1), NOW, waited=True
                )
            file.commit(NOW)()
    assert path.stat().st_size < 100 * MAX_APPENDED
    with closing(waiting(path)) as file:
        assert refusal(file, replace(BODY, number=3 * MAX_APPENDED + 10)) is Refusal.REPLAYED


@contextmanager
def full_disk(path: Path) -> Iterator[None]:
    """Let the file grow by a few bytes only."""
    former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 10, limits[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, former)


def test_a_commit_that_fails_is_made_up_for_by_the_next(path: Path) -> None:
    with closing(waiting(path)) as file:
        file.accept_before_commit(BODY, NOW, waited=True)
        with full_disk(path), pytest.raises(OSError, match=r"No space|too large"):
            file.commit(NOW)()
        file.commit(NOW)()
    with closing(waiting(path)) as file:
        assert refusal(file, BODY) is Refusal.REPLAYED


def test_a_record_that_was_cut_off_was_not_accepted(path: Path) -> None:
    with opened(path) as file:
        for number in (1, 2):
            assert refusal(file, replace(BODY, number=number)) is None
    path.write_bytes(path.read_bytes()[:-5])
    with opened(path) as file:
        assert refusal(file, replace(BODY, number=1)) is Refusal.REPLAYED
        assert refusal(file, replace(BODY, number=2)) is None


def test_a_damaged_file_is_as_none(path: Path) -> None:
    with opened(path) as file:
        for number in (1, 2):
            assert refusal(file, replace(BODY, number=number)) is None
    content = bytearray(path.read_bytes())
    content[-60] ^= 1
    path.write_bytes(content)
    with opened(path, now=NOW + 1) as file:
        assert file.floor == NOW + 1
        assert refusal(file, replace(BODY, number=3)) is Refusal.LATE


def test_the_file_is_written_again_before_it_grows_large(path: Path) -> None:
    with opened(path) as file:
        for number in range(1, MAX_APPENDED + 10):
            file.accept(replace(BODY, number=number), NOW)
    assert path.stat().st_size < 10_000
    with opened(path) as file:
        assert refusal(file, replace(BODY, number=MAX_APPENDED + 9)) is Refusal.REPLAYED
        assert refusal(file, replace(BODY, number=MAX_APPENDED + 10)) is None
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_what_cannot_be_written_down_is_not_accepted(path: Path) -> None:
    with opened(path) as file:
        assert refusal(file, BODY) is None
        size = path.stat().st_size
        former = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, limits[1]))
            assert refusal(file, replace(BODY, number=2)) is Refusal.NOT_RECORDED
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            signal.signal(signal.SIGXFSZ, former)
        assert path.stat().st_size == size
        assert refusal(file, replace(BODY, number=2)) is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(noise=st.binary(max_size=200), after=st.booleans(), cut=st.integers(0, 100))
def test_any_file_is_read_or_counts_as_none(path: Path, noise: bytes, *, after: bool, cut: int) -> None:
    path.parent.mkdir(exist_ok=True)
    path.unlink(missing_ok=True)
    with opened(path) as file:
        assert refusal(file, BODY) is None
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - cut] + noise if after else noise)
    with opened(path, now=NOW + 1) as file:
        assert file.floor in {NOW, NOW + 1}
        assert refusal(file, replace(BODY, number=9, issued=NOW + 2), NOW + 1) is None


def test_the_largest_file_is_read_again(path: Path) -> None:
    with opened(path) as file:
        for boot in range(MAX_SENDERS):
            file.accept(replace(BODY, boot=boot), NOW)
        for number in range(2, 2 * MAX_APPENDED - MAX_SENDERS):
            file.accept(replace(BODY, number=number), NOW)
    assert path.stat().st_size > MAX_APPENDED * 40
    with opened(path) as file:
        assert file.floor == NOW
        assert refusal(file, replace(BODY, boot=MAX_SENDERS - 1)) is Refusal.REPLAYED
        assert refusal(file, replace(BODY, number=2 * MAX_APPENDED - MAX_SENDERS)) is None
