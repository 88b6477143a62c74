"""What a running gateway uses that its configuration only names, or that was changed since its start."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gateway.config.policy import OperationRule, PolicySettings
from gateway.config.snmp import SnmpSettings
from gateway.config.types import FilePath
from gateway.yaml_documents import Complaint, DocumentCopy, DocumentError, StrictModel

MAX_COPIED_CHARACTERS = 32 << 20
"""Characters of all mappings and override files of a gateway together."""


class CopiedFile(StrictModel):
    """A file that a configuration names.

    Attributes:
        file: its path, as in the configuration.
        text: what it had when the gateway read it.
    """

    file: FilePath
    text: str

    def document(self, folder: Path) -> DocumentCopy:
        """Return it as a document; a relative path is relative to ``folder``."""
        return DocumentCopy(folder / self.file, self.text)


@dataclass(frozen=True, slots=True)
class FileCopies:
    """Copies of the files with the operator's mappings, and of the override files, in their order."""

    mappings: tuple[CopiedFile, ...] = ()
    overrides: tuple[CopiedFile, ...] = ()


class RunningFiles(StrictModel):
    """The mappings, overrides, policy and SNMP clients of a running gateway; one file of the state folder.

    One file, so that a process that starts while they change reads all former ones, or all new ones.

    Attributes:
        mappings: the files of the operator's own mappings.
        overrides: the override files.
        policy: the roles.
        allow: the rules of ``operations.allow``.
        snmp: the clients of SNMP (`SnmpSettings.clients`). Since version 2.
    """

    version: Literal[1, 2] = 2
    mappings: tuple[CopiedFile, ...]
    overrides: tuple[CopiedFile, ...]
    policy: PolicySettings
    allow: tuple[OperationRule, ...]
    snmp: SnmpSettings | None = None

    @property
    def copies(self) -> FileCopies:
        """The copies of files."""
        return FileCopies(self.mappings, self.overrides)


def read_running_files(path: Path) -> RunningFiles | None:
    """Read the file in the state folder; ``None`` where there is none.

    Raises:
        DocumentError: it cannot be read, or is damaged.
    """
    try:
        return RunningFiles.model_validate(json.loads(path.read_bytes()))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(path, f"cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # also of JSON, of UTF-8, and of the shape
        raise _unusable(path, "is damaged: restart the gateway, which writes it again") from error


def check_size(path: Path, copies: Sequence[CopiedFile]) -> None:
    """Refuse files that are larger together than a gateway accepts.

    Args:
        path: the configuration, which the error names.
        copies: the files.

    Raises:
        DocumentError: they are too large.
    """
    if sum(len(each.text) for each in copies) > MAX_COPIED_CHARACTERS:
        text = f"the files of 'mappings' and 'overrides' have more than {MAX_COPIED_CHARACTERS} characters"
        raise _unusable(path, text)


def _unusable(path: Path, text: str) -> DocumentError:
    return DocumentError(path, [Complaint(1, "", text)])
