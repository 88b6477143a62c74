"""The key that signs heads of the audit, and the last head in the operator's file, in the state folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.durable_files import create_durably, has_content, replaced_durably
from gateway.eventlog.audit_statements import AuditKey, KeyFileError
from gateway.file_owners import as_owner, reason_of
from gateway.starts import RESTORE
from gateway.state_folder import StateError, StateFolder

KEY_FILE: Final = "audit-key.pem"
"""Its name in the folder of secrets."""


_WRITTEN_FILE: Final = "audit-head"
"""The name of the file with the last head that the operator's file took."""


@dataclass(frozen=True, slots=True)
class WrittenHead:
    """The last head that the operator's file took.

    Attributes:
        file: the path of the file.
        line: the head, as in the file.
    """

    file: str
    line: str


def written_head(state: StateFolder) -> WrittenHead | None:
    """Return the last head that an operator's file took; ``None`` where none did.

    Raises:
        StateError: it cannot be read.
    """
    path = state.path / _WRITTEN_FILE
    try:
        file, _, line = path.read_text(encoding="utf-8", errors="surrogateescape").partition("\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"{path}: cannot be read: {reason_of(error, state.path)}") from error
    return WrittenHead(file, line.rstrip("\n"))


def note_written_head(state: StateFolder, written: WrittenHead) -> None:
    """Keep what the operator's file took last, on the disk.

    Raises:
        OSError: it cannot be written.
    """
    text = f"{written.file}\n{written.line}\n"
    with replaced_durably(state.path / _WRITTEN_FILE) as file:
        file.write(text.encode("utf-8", "surrogateescape"))


def key_path(state: StateFolder) -> Path:
    """Return the path of the private key."""
    return state.secret_path(KEY_FILE)


def audit_key(state: StateFolder) -> AuditKey:
    """Return the private key of a gateway, made when it is first requested; file mode 0600.

    Raises:
        StateError: it cannot be read or made.
    """
    path = key_path(state)
    try:
        if not has_content(path):
            with as_owner(state.path):
                path.parent.mkdir(mode=0o700, exist_ok=True)
                create_durably(path, AuditKey.generate().text)
        return AuditKey.read(path.read_bytes())
    except OSError as error:
        raise StateError(
            f"{path}: the key of the audit cannot be used: {reason_of(error, state.path)}"
        ) from error
    except KeyFileError as error:
        raise StateError(
            f"{path}: the key of the audit cannot be used: {error}: {RESTORE}, or remove the file: then a "
            "new key is made, and heads of before need the former public key"
        ) from error
