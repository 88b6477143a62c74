"""``amqp-gateway invoke``."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import click

from gateway.cli.asking import (
    Asked,
    absent_option,
    answered,
    applied,
    links,
    operate,
    show_answer,
    timeout_option,
    values_of,
    with_gateway,
    words,
)
from gateway.cli.options import config_option
from gateway.cli.printing import json_option
from gateway.feed.operations import InvokeMethod
from gateway.model.schema import Argument, Direction, Element, Method
from gateway.service.diagnostics.feed_session import FeedSession
from gateway.service.diagnostics.object_finding import object_of
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.terminal.lines import aligned
from gateway.terminal.text_forms import text_form
from gateway.terminal.view import KnownObject


@click.command()
@click.argument("text", metavar="OBJECT")
@click.argument("name", metavar="METHOD")
@click.argument("assignments", metavar="[ARGUMENT=VALUE]...", nargs=-1)
@absent_option
@config_option
@click.option("--check", is_flag=True, help="Only say whether it would be tried; nothing is done.")
@timeout_option
@json_option
def invoke(
    text: str,
    name: str,
    assignments: tuple[str, ...],
    absent: tuple[str, ...],
    config: Path | None,
    *,
    check: bool,
    timeout: dt.timedelta | None,
    as_json: bool,
) -> None:
    """Call METHOD on OBJECT, once.

    An argument that is left out has its default, or is absent where it is optional. ARGUMENT@FILE takes the
    value from a file, or - for standard input. OBJECT is not to be shortened here. The configuration says who
    may call what (operations.allow): nobody anything, unless it does.
    """
    given = words(assignments, absent)

    async def work(session: FeedSession, asked: Asked) -> None:
        known = object_of(session.view, asked.names, text, whole=True)
        method = _method(known, name)
        inputs: dict[str, Element | Argument] = {
            argument.name: argument
            for argument in method.arguments
            if argument.direction is not Direction.OUT
        }
        what = f"argument of {known.class_name}.{name} called"
        action = InvokeMethod(name, values_of(given, inputs, what, links(session, asked)))
        answer = await operate(session, known, action, asked.patience(timeout), check_only=check)
        described: dict[str, Element | Argument] = {argument.name: argument for argument in method.arguments}
        outputs = [
            (output, text_form(described[output], value, known.source) if output in described else str(value))
            for output, value in answer.values.items()
        ]
        done = [*aligned(outputs), applied(answer)]
        document = answered(known, answer, described, method=name) if as_json else None
        show_answer(answer, document, ["nothing speaks against it"] if check else done)

    with_gateway(config, work)


def _method(known: KnownObject, name: str) -> Method:
    methods = {method.name: method for method in known.in_class.schema.methods}
    if name not in methods:
        listed = ", ".join(methods) or "none at all"
        raise CommandError(
            ExitCode.NOT_FOUND, f"{known.class_name} has no method {name!r}; there are: {listed}"
        )
    return methods[name]
