"""Lines of a session as its application may have them logged (option LOG): without secrets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gateway.dialects.ami.instructions import Command, Comment, Instruction
from gateway.dialects.ami.relay_columns import without_secrets
from gateway.dialects.ami.values import AmiValue
from gateway.dialects.ami.writer import write_instruction
from gateway.dialects.errors import LocalProtocolError
from gateway.model.secrets import MASK, SecretRules


def logged_line(
    octets: bytes, one: Instruction | Comment, secrets: SecretRules, *, as_came: bool = True
) -> bytes:
    """The line of an instruction: as it came where nothing in it is secret.

    Args:
        octets: the line.
        one: what it says; without something that is secret where it is not ``as_came``.
        secrets: what else is.
        as_came: whether ``octets`` say no more than that.
    """
    if isinstance(one, Comment):  # it may be an instruction that was taken out, with all that it says
        return f"# a comment of {len(octets)} octets".encode()
    changes: dict[str, Any] = {}
    values: Mapping[str, AmiValue] = getattr(one, "values", {})
    shown = {key: _shown(key, value, secrets) for key, value in values.items()}
    if shown != values:
        changes["values"] = shown
    if isinstance(one, Command) and one.form is not None:
        changes["form"] = None  # it may bring passwords that are filled in
    if not changes and as_came:
        return _masked(octets, secrets)
    try:
        line = write_instruction(replace(one, **changes))
    except LocalProtocolError:
        return f"{one.letter}, with secrets".encode()
    return _masked(line.strip(), secrets)


def _shown(key: str, value: AmiValue, secrets: SecretRules) -> AmiValue:
    return MASK if secrets.hides(key) else without_secrets(value, secrets)


def _masked(octets: bytes, secrets: SecretRules) -> bytes:
    if b"://" not in octets:
        return octets
    return secrets.masked_uris(octets.decode(errors="replace")).encode()
