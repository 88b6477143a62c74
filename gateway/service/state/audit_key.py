"""The key that signs heads of the audit: made at the first start, and kept in the state folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.durable_files import create_durably
from gateway.eventlog.audit_statements import AuditKey, KeyFileError
from gateway.state_folder import RESTORE, StateError, StateFolder

KEY_FILE: Final = "audit-key.pem"
"""Its name in the folder of secrets."""


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
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            create_durably(path, AuditKey.generate().text)
        return AuditKey.read(path.read_bytes())
    except OSError as error:
        raise StateError(f"{path}: the key of the audit cannot be used: {error.strerror}") from error
    except KeyFileError as error:
        raise StateError(
            f"{path}: the key of the audit cannot be used: {error}: {RESTORE}, or remove the file: then a "
            "new key is made, and heads of before need the former public key"
        ) from error
