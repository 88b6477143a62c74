"""Errors of configuration and state, as the ends of commands and processes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gateway.config.secret_places import SecretError
from gateway.mapping.errors import MappingError
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.state_folder import StateError
from gateway.yaml_documents import DocumentError


@contextmanager
def command_errors() -> Iterator[None]:
    """Turn errors in the block into those that end a command; their texts say what to do.

    Raises:
        CommandError: the configuration, a mapping, an OID registry, a secret or the state folder cannot be
            used.
    """
    try:
        yield
    except StateError as error:
        raise CommandError(ExitCode.STATE, str(error)) from error
    except (DocumentError, MappingError, SecretError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
