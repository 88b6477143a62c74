"""The state folder: the data that must survive a gateway and cannot be made again.

``VERSION``, ``identity`` (the gateway's uuid), ``boots``, ``instances.sqlite3``, ``secrets/`` (0600) and
``LOCK``, and what front ends keep beside them. A folder that is missing is never made again in passing: every
row number would change, so that takes an explicit ``init``.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from gateway import file_systems
from gateway.durable_files import create_durably, has_content, write_durably
from gateway.file_owners import as_owner, distrust, is_trusted, owner_for_root, reason_of, user_name
from gateway.starts import RESTORE, STARTS, StartsError, highest_start, start_before

VERSION = 3
"""The version of the folder's layout. A file whose form may change by itself has a version of its own.

2: the key of the audit, and ``log-alarm`` and ``log-place``. An older gateway would break the chain of the
audit in the log of this state.

3: ``starts``. An older gateway reads ``boots`` and ``snmp-engine.json`` only, and would use numbers of starts
again that could not be noted there, so that two events have one id.
"""


def _with_files_made_later(_folder: Path) -> None:
    """Change nothing: what is new is made by the first start that needs it."""


MIGRATIONS: Mapping[int, Callable[[Path], None]] = {1: _with_files_made_later, 2: _with_files_made_later}
"""Migrations by version: each brings a folder to the next version, and is repeated if it was interrupted."""

MAX_BOOTS = 2**31 - 1
"""The largest number of boots that SNMP can count (snmpEngineBoots, RFC 3414, 2.3)."""

_SECRET_OCTETS = 18
_LOCK_POLL_SECONDS = 0.05
_OF_THE_FILE_SYSTEM = frozenset({"lost+found"})
AGENTS = "agents"
"""The folder of the state folders of agents, each of which is a gateway of its own; no part of the state."""
REPLAY = "replay"
"""The folder of the accepted bodies of protected sources; no part of a backup: an old one would be wrong."""
RUNNING = "running.yaml"
"""The copy of the configuration that the running gateway was started with."""
RUNNING_FILES = "running-files.json"
"""The mappings, overrides and policy that the running gateway has now."""
RUNNING_ADDRESSES = "running-addresses.json"
"""What short commands need of the configuration (`gateway.service.state.running_addresses`)."""
FEED_PLACE = "feed-place"
"""Where the feed's socket of the running gateway is (`gateway.config.places.feed_socket`)."""
FEED_SOCKET = "feed.sock"
"""The feed's socket, unless it is elsewhere."""
SESSION_LOGS = "sessions"
"""The folder of the sessions whose logging applications requested; it has one folder for each source."""
LOG_ALARM = "log-alarm"
"""Whether the alarm of the event log is raised, for the next core."""
EVENT_COUNTS = "event-counts"
"""How many events each core has made (`gateway.service.state.event_counts`); no part of a backup."""
COUNTER_OFFSETS = "counter-offsets.json"
"""The offsets of counters on the page of objects (`gateway.prometheus.objects`); no part of a backup."""
LOG_PLACE = "log-place"
"""How far this state has seen its event log (`gateway.eventlog.ownership.LogPlace`)."""
COMMUNITY = "community"
"""The name of the secret that is the community of reading by SNMP, unless one is configured."""
_MAX_SHOWN = 20
_TRIED_LINES: Final = 8
"""So many numbers are more than the file of starts has."""


class StateError(Exception):
    """The state folder cannot be used; the text says what to do."""


class StateFolder:
    """An existing state folder of this version, or an older one that its next holder will bring up to date.

    Raises:
        StateError: it is missing, unreadable, of a newer version, or of another user.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        check_owners(path)
        self.read_version()

    @classmethod
    def create(cls, path: Path) -> StateFolder:
        """Make a new identity in a folder that is missing or empty.

        Raises:
            StateError: something is there already, the folder cannot be made, or its file system lacks what a
                state needs. Nothing is left then.
        """
        was_there = path.exists()
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            _check_new(path)
            with as_owner(path):
                _fill(path)
        except OSError as error:
            _remove_if_empty(path, was_there=was_there)
            raise StateError(f"{path}: cannot be made: {error.strerror}") from error
        except StateError:
            _remove_if_empty(path, was_there=was_there)
            raise
        return cls(path)

    def read_version(self) -> int:
        """Return the version of the folder's layout on the disk.

        Raises:
            StateError: there is none, or it is newer than this gateway.
        """
        try:
            text = (self.path / "VERSION").read_text(encoding="ascii").strip()
        except FileNotFoundError as error:
            raise StateError(
                f"{self.path}: no gateway state here. A new gateway: run `amqp-gateway init`. One that ran "
                f"before: {RESTORE}, or every row number changes"
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            reason = reason_of(error, self.path) if isinstance(error, OSError) else "VERSION is not text"
            raise StateError(f"{self.path}: the state cannot be read: {reason}") from error
        if not re.fullmatch("[1-9][0-9]{0,8}", text):
            raise StateError(
                f"{self.path}: the state cannot be read: VERSION says {text[:_MAX_SHOWN]!r}: {RESTORE}"
            )
        if int(text) > VERSION:
            raise StateError(
                f"{self.path}: state of version {text}, this gateway knows {VERSION}: "
                "use the gateway that wrote it, or a newer one"
            )
        return int(text)

    @property
    def identity(self) -> str:
        """The gateway's uuid as text."""
        text = self._read("identity")
        if not re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text):
            raise StateError(f"{self.path / 'identity'}: should be a uuid: {RESTORE}")
        return text

    @property
    def instances(self) -> Path:
        """The path of the instance index."""
        return self.path / "instances.sqlite3"

    @property
    def boots(self) -> int:
        """The number of times that a core was started on this state."""
        text = self._read("boots")
        if not re.fullmatch("[0-9]{1,10}", text) or int(text) >= MAX_BOOTS:
            raise StateError(f"{self.path / 'boots'}: should be a number below {MAX_BOOTS}: {RESTORE}")
        return int(text)

    @property
    def highest_start(self) -> int:
        """The highest number that a start of the core can have had, also one that could not be noted."""
        try:
            return highest_start(self.path, self.boots)
        except StartsError as error:
            raise StateError(str(error)) from error

    def start_before(self, start: int) -> int:
        """Return the number of the core that ran before another one, which is not noted yet; 0 for none.

        Raises:
            StateError: a file of the folder cannot be read.
        """
        try:
            return start_before(self.path, start, self.boots)
        except StartsError as error:
            raise StateError(str(error)) from error

    def next_boot(self) -> int:
        """Count a start; the new number is on the disk before this returns.

        Raises:
            StateError: it cannot be read or written.
        """
        boot = self.highest_start + 1
        self.note_boot(boot)
        return boot

    def skip_boots(self, boots: int) -> None:
        """Let the next start be behind so many; a lower number than that of now changes nothing.

        Raises:
            StateError: it cannot be read or written.
        """
        if boots > self.boots:
            self.note_boot(boots)

    def check_can_note(self) -> None:
        """Check that a start could be noted now, beside a gateway that runs; its files stay as they are.

        Raises:
            StateError: it could not.
        """
        path = self.path / f"{STARTS}.trial"
        try:
            write_durably(path, f"{self.highest_start}\n" * _TRIED_LINES)
            path.unlink()
        except OSError as error:
            text = f"{self.path}: no start can be noted: {reason_of(error, self.path)}"
            raise StateError(text) from error

    def note_boot(self, boot: int) -> None:
        """Note the number of a start, which is on the disk when this returns.

        Raises:
            StateError: it cannot be written.
        """
        try:
            write_durably(self.path / "boots", f"{boot}\n")
        except OSError as error:
            raise StateError(
                f"{self.path / 'boots'}: cannot be written: {reason_of(error, self.path)}"
            ) from error

    def secret(self, name: str) -> str:
        """Return the secret ``name``, made at random when it is first asked for; file mode 0600.

        Processes that ask at the same time get the same one.

        Raises:
            StateError: it cannot be read or made, or the folder has no state any more.
        """
        assert re.fullmatch(r"[a-z][A-Za-z0-9_.-]{0,79}", name)  # with room for a user's name
        path = self.secret_path(name)
        try:
            if not has_content(path):
                self.read_version()
                with as_owner(self.path):
                    path.parent.mkdir(mode=0o700, exist_ok=True)
                    # Digits only: a command could take a secret that begins with '-' for an option.
                    create_durably(path, f"{secrets.token_hex(_SECRET_OCTETS)}\n")
            secret = path.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = reason_of(error, self.path) if isinstance(error, OSError) else "is not ASCII text"
            raise StateError(f"{path}: the secret cannot be used: {reason}") from error
        if not secret:
            raise StateError(f"{path}: the secret is empty: remove the file, and a new one is made")
        return secret

    def secret_path(self, name: str) -> Path:
        """Return the path of the secret ``name``."""
        return self.path / "secrets" / name

    @contextmanager
    def locked(self, patience_seconds: float = 10.0, inherited: int | None = None) -> Iterator[int]:
        """Hold the folder alone, and bring it to this version if it is of an older one.

        The lock is the open file's: every process that inherits the descriptor holds it too, and it is free
        when the last of them has ended, however it ended.

        Args:
            patience_seconds: how long to wait for another holder's end.
            inherited: a descriptor of the lock that this process was given by the holder.

        Returns:
            The descriptor, for processes of the same gateway.

        Raises:
            StateError: another gateway holds it for longer than ``patience_seconds``.
        """
        if inherited is not None:
            self._check_inherited(inherited)
            yield inherited
            return
        with held(self.path, patience_seconds) as descriptor:
            self.migrate()
            yield descriptor

    def _check_inherited(self, descriptor: int) -> None:
        try:
            if os.path.samestat(os.fstat(descriptor), (self.path / "LOCK").stat()):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
        except OSError as error:
            raise StateError(f"{self.path / 'LOCK'}: what was inherited does not hold it") from error
        raise StateError(f"{self.path / 'LOCK'}: was replaced while a gateway runs: stop it and start again")

    def migrate(self) -> None:
        """Bring the folder to this version; only its holder may.

        Raises:
            StateError: it cannot be written.
        """
        for version in range(self.read_version(), VERSION):
            try:
                MIGRATIONS[version](self.path)
                write_durably(self.path / "VERSION", f"{version + 1}\n")
            except OSError as error:
                raise StateError(
                    f"{self.path}: cannot be made state of version {version + 1}: {error.strerror}"
                ) from error

    def _read(self, name: str) -> str:
        try:
            return (self.path / name).read_text(encoding="ascii").strip()
        except PermissionError as error:
            raise StateError(f"{self.path / name}: cannot be read: {reason_of(error, self.path)}") from error
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise StateError(f"{self.path / name}: cannot be read: {reason}: {RESTORE}") from error


def _check_new(path: Path) -> None:
    """Refuse to make a state in a folder that has something, or is another user's.

    Raises:
        StateError: it is so.
        OSError: it cannot be looked at.
    """
    check_owners(path)
    if not is_empty(path):
        raise StateError(f"{path}: is not empty; a new identity is made in a new or empty folder only")


def _fill(path: Path) -> None:
    """Write the files of a new state, if the file system can do what it needs; else none stays.

    Raises:
        StateError: it cannot.
        OSError: one cannot be written.
    """
    missing = [each for each in file_systems.lacking(path) if each in file_systems.NEEDED]
    if missing:
        raise StateError(
            f"{path}: {file_systems.in_words(path, missing)}: name a folder on another one (state.folder)"
        )
    made: list[Path] = []
    try:
        (path / "secrets").mkdir(mode=0o700)
        made.append(path / "secrets")
        for name, text in (("identity", f"{uuid.uuid4()}\n"), ("boots", "0\n"), ("VERSION", f"{VERSION}\n")):
            made.append(path / name)
            write_durably(path / name, text)
    except OSError:
        for each in made:
            with suppress(OSError):
                each.rmdir() if each.name == "secrets" else each.unlink()
        raise


def _remove_if_empty(path: Path, *, was_there: bool) -> None:
    """Remove a folder that was made for a state which could not be made."""
    if not was_there:
        with suppress(OSError):
            path.rmdir()


def check_owners(path: Path) -> None:
    """Refuse a state folder that another user made or can change, as far as there is one.

    Its files, its secrets and its links are looked at, too: they may be of a time when others could write.

    Raises:
        StateError: it is not trusted.
    """
    further = owner_for_root(path)
    try:
        places = [path, *path.iterdir(), *(path / "secrets").glob("*")]
    except OSError:  # it is not there, or not ours to read
        places = [path]
    for place in places:
        reason = distrust(place, *further)
        if reason:
            raise StateError(f"{place}: {reason}")


def is_empty(path: Path) -> bool:
    """Return whether a folder is empty but for entries of the file system, a lock, and agents.

    Raises:
        OSError: it cannot be read.
    """
    return all(entry.name in {*_OF_THE_FILE_SYSTEM, "LOCK", AGENTS} for entry in path.iterdir())


@contextmanager
def held(folder: Path, patience_seconds: float) -> Iterator[int]:
    """Hold the lock of a folder, whatever else is in it; the lock ends with its holders.

    Args:
        folder: must exist.
        patience_seconds: how long to wait for another holder's end.

    Returns:
        The lock's descriptor.

    Raises:
        StateError: another gateway holds it, or it cannot be opened.
    """
    deadline = time.monotonic() + patience_seconds
    while (lock := _try_lock(folder)) is None:
        if time.monotonic() > deadline:
            raise StateError(
                f"{folder}: another gateway runs on this state: stop it, or give this one a state folder of "
                "its own"
            )
        time.sleep(_LOCK_POLL_SECONDS)
    try:
        yield lock
    finally:
        os.close(lock)


def _try_lock(folder: Path) -> int | None:
    """Return the lock's descriptor; ``None`` while another has it."""
    path = folder / "LOCK"
    try:
        # To be read only: a lock needs no more, and so it can be had where another user made the file.
        lock = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise StateError(f"{path}: cannot be opened: {reason_of(error, folder)}") from error
    ours = False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Where the folder was replaced while we waited, this is the lock of the former one.
        ours = os.path.samestat(os.fstat(lock), path.stat())
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        if error.errno in file_systems.UNABLE:
            missing = file_systems.in_words(folder, [file_systems.Ability.LOCKS])
            raise StateError(f"{folder}: {missing}: move it to another one (state.folder)") from error
        raise StateError(f"{path}: cannot be locked: {error.strerror}") from error
    finally:
        if not ours:
            os.close(lock)
    return lock if ours else None


def refuse_root(folder: Path) -> None:
    """Refuse that root runs a gateway on the state of another user, who could not read it any more.

    Raises:
        StateError: root is about to.
    """
    try:
        owner = folder.stat().st_uid
    except OSError:
        return
    if os.geteuid() == 0 and not is_trusted(owner):
        name = user_name(owner)
        raise StateError(
            f"{folder}: belongs to the user {name}, who could not read what a gateway of root writes: run it "
            f"as that user, as by sudo -u {name}"
        )
