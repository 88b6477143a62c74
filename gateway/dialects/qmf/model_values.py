"""The model's values as they travel."""

from __future__ import annotations

from typing import cast

from gateway.dialects.errors import LocalProtocolError, ProtocolError
from gateway.dialects.qmf.object_id import NULL, ObjectId
from gateway.dialects.qmf.typed_values import QmfValue, QmfValues
from gateway.model.values import Reference, Values


def wire_values(values: Values) -> QmfValues:
    """Return the model's values as they travel; a reference is the text of an object id, or empty for none.

    Raises:
        LocalProtocolError: a reference is no object id.
    """
    # Maps and lists of the model hold references only if the agent's program puts them there, and then the
    # encoder refuses them.
    wire = cast("list[QmfValue]", list(values))
    for position, value in enumerate(values):
        if value.__class__ is Reference:
            wire[position] = _object_id(value)
    return tuple(wire)


def _object_id(reference: Reference) -> ObjectId:
    if not reference.native_id:
        return NULL
    try:
        return ObjectId.parse(reference.native_id)
    except ProtocolError as error:
        raise LocalProtocolError(f"a reference must be an object id: {error}") from error
