"""Methods of classes as operations of MBeans: parameters by their names and types, and what they give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gateway.jmx import types
from gateway.jmx.commands import JmxValue, Operation, Parameter, Result
from gateway.jmx.info import described, descriptor, units, unlike
from gateway.model.schema import Argument, ClassSchema, Direction, Method
from gateway.model.values import ValueType

READ_FRESH = Operation(
    "readFresh",
    "Read the object again from who manages it; when it returns, the attributes are what was read.",
    reads_only=True,
)
"""What every managed object has, whatever its class; a method of that name has ``_`` behind it."""


@dataclass(frozen=True, slots=True, eq=False)
class ShownMethod:
    """One method.

    Attributes:
        method: as the schema tells it.
        inputs: the arguments that a client gives, in order.
        outputs: those that it gets, and how their values are shown; references by somebody who knows names.
        operation: what clients are shown.
    """

    method: Method
    inputs: tuple[Argument, ...]
    outputs: tuple[tuple[Argument, types.Converter], ...]
    operation: Operation


def shown_methods(schema: ClassSchema) -> Mapping[str, ShownMethod]:
    """The methods of a class, by the names that clients call them by."""
    shown: dict[str, ShownMethod] = {}
    for number, method in enumerate(schema.methods):
        name = unlike(types.text(method.name.strip()) or f"method{number}", (READ_FRESH.name, *shown))
        shown[name] = _shown_method(name, method)
    return shown


def _shown_method(name: str, method: Method) -> ShownMethod:
    inputs = tuple(a for a in method.arguments if a.direction is not Direction.OUT)
    outputs = tuple(a for a in method.arguments if a.direction is not Direction.IN)
    operation = Operation(
        name,
        described(method.description, method.label, name),
        parameters=tuple(
            _parameter(argument, shown)
            for argument, shown in zip(inputs, _names(inputs, "argument"), strict=True)
        ),
        results=tuple(
            Result(
                shown, types.attribute_type(argument), described(argument.description, argument.label, shown)
            )
            for argument, shown in zip(outputs, _names(outputs, "result"), strict=True)
        ),
    )
    return ShownMethod(
        method, inputs, tuple((argument, types.converter(argument)) for argument in outputs), operation
    )


def _names(arguments: Iterable[Argument], instead: str) -> tuple[str, ...]:
    """What each is called: no two alike, and none empty, which Java does not take."""
    names: list[str] = []
    for number, argument in enumerate(arguments):
        names.append(unlike(types.text(argument.name).strip() or f"{instead}{number}", names))
    return tuple(names)


def _parameter(argument: Argument, name: str) -> Parameter:
    type_ = types.attribute_type(argument)
    minimum, maximum = types.limits(argument, type_)
    fields = {
        "displayName": argument.label,
        "units": units(argument),
        "references": argument.references,
        "optional": "true" if argument.optional or argument.default is not None else "",
        "maxLength": "" if argument.max_length is None else str(argument.max_length),
    }
    return Parameter(
        name,
        type_,
        described(argument.description, argument.label, name),
        minimum,
        maximum,
        tuple(types.text(label) for label in types.legal_values(argument)),
        descriptor(fields),
        _default(argument),
    )


def _default(argument: Argument) -> JmxValue:
    """What stands for an argument that is left out; ``None`` where the descriptor cannot say it."""
    if argument.default is None or argument.type is ValueType.REFERENCE:
        return None
    try:
        return types.converter(argument)(argument.default)
    except types.UnfitValueError:
        return None
