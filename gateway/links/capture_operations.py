"""Operations in a capture: what an operator asked of a session, as JSON and back."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Any, Final, TypeAlias
from uuid import UUID

from gateway.links.capture_reading import CaptureError, Record
from gateway.model.operations import MethodCall, ObjectFetch, ObjectModify
from gateway.model.schema import ClassKey
from gateway.model.values import Reference, Value

OPERATIONS: Final = frozenset({"call", "modify", "fetch"})
"""Events by which operations stand in a capture."""

CapturedOperation: TypeAlias = MethodCall | ObjectModify | ObjectFetch


def operation_fields(operation: CapturedOperation) -> dict[str, Any]:
    """An operation as JSON, with `event` saying which kind it is."""
    key = operation.key
    told = {
        "token": operation.token,
        "package": key.package,
        "class": key.name,
        "hash": key.hash.hex(),
        "agent": operation.agent,
        "native_id": operation.native_id,
        "deadline": operation.deadline,
    }
    match operation:
        case MethodCall(method=method, arguments=arguments):
            return {
                "event": "call",
                **told,
                "method": method,
                "arguments": [plain_value(one) for one in arguments],
            }
        case ObjectModify(values=values):
            return {
                "event": "modify",
                **told,
                "values": {name: plain_value(value) for name, value in values.items()},
            }
        case ObjectFetch():
            return {"event": "fetch", **told}


def read_operation(record: Record) -> CapturedOperation:
    """The operation that a record with one of these events tells.

    Raises:
        CaptureError: it tells none.
    """
    try:
        key = ClassKey(
            record.value("package", str), record.value("class", str), bytes.fromhex(record.value("hash", str))
        )
        about = (
            record.value("token", int),
            key,
            record.value("agent", str),
            record.value("native_id", str),
        )
        deadline = record.value("deadline", int)
        match record.event:
            case "call":
                arguments = tuple(value_of(one) for one in _of_type(record.told.get("arguments"), list))
                return MethodCall(*about, record.value("method", str), arguments, deadline)
            case "modify":
                values = _of_type(record.told.get("values"), dict)
                return ObjectModify(
                    *about, {name: value_of(value) for name, value in values.items()}, deadline
                )
            case _:
                return ObjectFetch(*about, deadline)
    except (ValueError, RecursionError) as error:
        raise CaptureError(f"line {record.line}: this is no operation: {error}") from error


def plain_value(value: Value | None) -> Any:  # noqa: ANN401  whatever JSON has
    """A value as JSON; what JSON has no form for is an object with one field, whose name says what it is."""
    match value:
        case bytes():
            return {"bytes": base64.b64encode(value).decode()}
        case UUID():
            return {"uuid": str(value)}
        case Reference(native_id):
            return {"reference": native_id}
        case Mapping():
            return {"map": {name: plain_value(inner) for name, inner in value.items()}}
        case tuple():
            return [plain_value(inner) for inner in value]
        case _:
            return value


def value_of(told: object) -> Any:  # noqa: ANN401  a value of the model, or None
    """The value that `plain_value` made this of.

    Raises:
        ValueError: it cannot have made it.
    """
    if isinstance(told, list):
        return tuple(value_of(inner) for inner in told)
    if not isinstance(told, dict):
        return told
    if len(told) != 1:
        raise ValueError("a value that is an object has one field")
    ((form, inner),) = told.items()
    match form:
        case "bytes":
            return _octets(_of_type(inner, str))
        case "uuid":
            return UUID(_of_type(inner, str))
        case "reference":
            return Reference(_of_type(inner, str))
        case "map":
            return {name: value_of(one) for name, one in _of_type(inner, dict).items()}
    raise ValueError(f"no value has the form {form!r}")


def _octets(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError("'bytes' is not base64") from error


def _of_type(told: object, kind: type) -> Any:  # noqa: ANN401  of that type
    if not isinstance(told, kind):
        raise ValueError(f"{told!r:.40} is no {kind.__name__}")  # noqa: TRY004  of the input, not of a caller
    return told
