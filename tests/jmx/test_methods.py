"""Methods of classes as operations of MBeans."""

from __future__ import annotations

from gateway.jmx.classes import READ_FRESH, shown_methods
from gateway.jmx.commands import AttributeType, Parameter, Result
from gateway.model.schema import Argument, ClassKey, ClassSchema, Direction, Method, NamedValue
from gateway.model.values import ValueType
from tests.jmx.shop import Gateway, till_name


def schema(*methods: Method) -> ClassSchema:
    return ClassSchema(ClassKey("shop", "till"), methods=methods)


def test_parameters_have_names_types_limits_and_defaults() -> None:
    method = Method(
        "refund",
        (
            Argument("to", ValueType.REFERENCE, references="till", description="Whose it is."),
            Argument(
                "amount",
                ValueType.U32,
                unit="cents",
                minimum=1,
                maximum=500,
                default=10,
                label="Amount",
            ),
            Argument("how", ValueType.U8, values=(NamedValue("cash", 0), NamedValue("card", 1)), default=1),
            Argument("note", ValueType.STRING, max_length=20, optional=True),
            Argument("left", ValueType.U64, Direction.OUT, description="What is left."),
            Argument("trace", ValueType.MAP, Direction.INOUT),
        ),
        description="Give money back.",
    )
    shown = shown_methods(schema(method))["refund"]
    operation = shown.operation
    assert (operation.name, operation.description, operation.reads_only) == (
        "refund",
        "Give money back.",
        False,
    )
    assert operation.parameters == (
        Parameter("to", AttributeType.OBJECT_NAME, "Whose it is.", descriptor={"references": "till"}),
        Parameter(
            "amount",
            AttributeType.LONG,
            "Amount",
            1,
            500,
            descriptor={"displayName": "Amount", "units": "cents", "optional": "true"},
            default=10,
        ),
        Parameter(
            "how",
            AttributeType.STRING,
            "how",
            legal=("cash", "card"),
            descriptor={"optional": "true"},
            default="card",
        ),
        Parameter("note", AttributeType.STRING, "note", descriptor={"optional": "true", "maxLength": "20"}),
        Parameter("trace", AttributeType.MAP, "trace", descriptor={}),
    )
    assert operation.results == (
        Result("left", AttributeType.BIG_INTEGER, "What is left."),
        Result("trace", AttributeType.MAP, "trace"),
    )


def test_names_that_java_or_we_could_not_take_are_others() -> None:
    odd = (Argument(" ", ValueType.U8), Argument("a", ValueType.U8), Argument("a", ValueType.U8))
    shown = shown_methods(schema(Method("readFresh"), Method("", odd), Method("x"), Method("x")))
    assert list(shown) == ["readFresh_", "method1", "x", "x_"]
    assert [p.name for p in shown["method1"].operation.parameters] == ["argument0", "a", "a_"]
    assert shown["x_"].method.name == "x"


def test_a_default_that_does_not_fit_its_type_is_not_reported() -> None:
    argument = Argument("a", ValueType.U8, default="many")
    (parameter,) = shown_methods(schema(Method("m", (argument,))))["m"].operation.parameters
    assert parameter.default is None


def test_every_object_can_be_read_again(gateway: Gateway) -> None:
    bean = gateway.machine.beans[gateway.machine.names[till_name()]]
    assert bean.definition.operations[-1] == READ_FRESH
