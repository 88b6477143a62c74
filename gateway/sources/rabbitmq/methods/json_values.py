"""Maps and lists of the model as JSON, and what of them was masked as it is on the broker."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.dialects.qmf.messages import Status
from gateway.mapping.paths import Json
from gateway.model.secrets import MASK, SecretRules, mask_uris
from gateway.model.values import Value
from gateway.sources.rabbitmq.methods.steps import CallFailedError

_SECRETS = SecretRules()


def json_of(value: Value) -> Json:
    """``value`` as JSON.

    Raises:
        CallFailedError: JSON has no such value.
    """
    if isinstance(value, Mapping):
        return {key: json_of(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [json_of(inner) for inner in value]
    if isinstance(value, str | int | float):
        return value
    raise CallFailedError(Status.INVALID_PARAMETER, f"JSON knows no {type(value).__name__}")


def unmasked(written: Json, present: Json) -> Json:
    """What somebody writes who was shown ``present`` masked: what is as it was shown stays as it is.

    A password is kept together with all of the text that it stood in only: whoever may not read it could
    else have it sent to a host of his own.

    Raises:
        CallFailedError: something is masked that was not so before.
    """
    if isinstance(written, Mapping):
        before = present if isinstance(present, Mapping) else {}
        kept = {key: inner for key, inner in before.items() if _SECRETS.hides(key) and key not in written}
        return {**kept, **{key: unmasked(inner, before.get(key)) for key, inner in written.items()}}
    if isinstance(written, list):
        return [_unmasked_text(item, present) if isinstance(item, str) else item for item in written]
    return _unmasked_text(written, present) if isinstance(written, str) else written


def _unmasked_text(written: str, present: Json) -> str:
    if not _SECRETS.shows_mask(written):
        return written
    for text in present if isinstance(present, list) else [present]:
        if isinstance(text, str) and mask_uris(text) == written:
            return text
    raise CallFailedError(
        Status.INVALID_PARAMETER,
        f"the password behind {MASK} is kept only where nothing else of the text is changed: write it again",
    )
