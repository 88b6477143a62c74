"""The places of secrets, and reading them; no model of the configuration is needed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal, TypeAlias

from gateway.file_owners import distrust, opened, owner_for_root
from gateway.links.credentials_error import CredentialsError

MAX_SECRET_OCTETS = 4096

CREDENTIALS: Final = "CREDENTIALS_DIRECTORY"
"""The variable by which systemd gives a service the folder of its credentials (systemd.exec(5))."""


PlaceKind: TypeAlias = Literal["file", "env", "credential"]
"""The kind of a place of a secret, as the configuration names it."""


class SecretError(CredentialsError):
    """A secret cannot be read; the text says which and what to do."""


def read_secret(kind: PlaceKind, where: str) -> str:
    """Return a secret; that of a file or credential without white space at its end.

    Args:
        kind: the kind of its place.
        where: the path of the file, or the name of the variable or credential.

    Raises:
        SecretError: it is not there, unreadable, empty or too long, or in a file or folder that is not
            trusted.
    """
    if kind != "env":
        return _of_file(credential_path(where) if kind == "credential" else Path(where))
    text = os.environ.get(where, "")
    if not text:
        raise SecretError(f"the environment variable {where} is not set: it should hold a secret")
    return text


def credential_path(name: str) -> Path:
    """Return the path of a credential.

    Raises:
        SecretError: systemd gives none.
    """
    folder = os.environ.get(CREDENTIALS, "")
    if not folder:
        raise SecretError(
            f"the credential {name} is not there, because ${CREDENTIALS} is not set: systemd sets it for a"
            f" service with LoadCredential={name}, as `amqp-gateway systemd` writes it; beside the service"
            " name its folder in this variable"
        )
    return Path(folder) / name


def _of_file(path: Path) -> str:
    text = secret_text(path)
    size = len(text.encode())
    text = text.rstrip()
    if not text or size > MAX_SECRET_OCTETS:
        found = "more" if text else "none"
        raise SecretError(f"{path}: a secret has 1 to {MAX_SECRET_OCTETS} bytes, this has {found}")
    return text


def secret_text(path: Path) -> str:
    """Return what the file of a secret has; of too large a one the beginning.

    Raises:
        SecretError: it cannot be read, or is not trusted.
    """
    for place in (path.parent, path):
        reason = distrust(place, *owner_for_root(place))
        if reason:
            raise SecretError(f"{place}: {reason}")
    try:
        with opened(path) as file:
            return file.read(MAX_SECRET_OCTETS + 1).decode("utf-8")
    except OSError as error:
        raise SecretError(f"{path}: the secret cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        # The error would contain the bytes.
        raise SecretError(f"{path}: the secret cannot be read: not UTF-8 text") from None
