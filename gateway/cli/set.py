"""``amqp-gateway set``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection
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
from gateway.feed.operations import OperationAnswer, SetElements
from gateway.model.schema import Argument, Element
from gateway.service.diagnostics.feed_session import FeedSession
from gateway.service.diagnostics.object_finding import object_of
from gateway.terminal.lines import ABSENT
from gateway.terminal.text_forms import text_form
from gateway.terminal.view import KnownObject, TerminalView


@click.command("set")
@click.argument("text", metavar="OBJECT")
@click.argument("assignments", metavar="[ELEMENT=VALUE]...", nargs=-1)
@absent_option
@config_option
@click.option("--check", is_flag=True, help="Only say whether it would be tried; nothing is changed.")
@timeout_option
@json_option
def set_command(
    text: str,
    assignments: tuple[str, ...],
    absent: tuple[str, ...],
    config: Path | None,
    *,
    check: bool,
    timeout: dt.timedelta | None,
    as_json: bool,
) -> None:
    """Give elements of OBJECT other values, in this order, as one operation.

    ELEMENT@FILE takes the value from a file, or - for standard input. OBJECT is not to be shortened here.
    The configuration says who may set what (operations.allow): nobody anything, unless it does.
    """
    given = words(assignments, absent)
    if not given:
        raise click.UsageError("name an element: ELEMENT=VALUE, or --absent ELEMENT")

    async def work(session: FeedSession, asked: Asked) -> None:
        known = object_of(session.view, asked.names, text, whole=True)
        described: dict[str, Element | Argument] = {
            element.name: element for element in known.in_class.schema.elements
        }
        what = f"element of {known.class_name} called"
        action = SetElements(values_of(given, described, what, links(session, asked)))
        answer = await operate(session, known, action, asked.patience(timeout), check_only=check)
        document = answered(known, answer, described) if as_json else None
        lines = ["nothing speaks against it"] if check else _done(known, session.view, answer, given)
        show_answer(answer, document, lines)

    with_gateway(config, work)


def _done(
    known: KnownObject, view: TerminalView, answer: OperationAnswer, given: Collection[str]
) -> list[str]:
    """What each element was when the operation began, which may be newer than what was shown, and is now."""
    now = view.objects.get(known.key, known)
    record = view.operations.get(answer.operation_id)
    lines = []
    for element in known.in_class.schema.elements:
        if element.name in given:
            name = element.name
            former = known.value(name) if record is None else record.former.get(name)
            value = answer.values.get(name, now.value(name))
            before, after = (
                ABSENT if one is None else text_form(element, one, known.source) for one in (former, value)
            )
            lines.append(f"{name}: {before} -> {after}")
    return [*lines, applied(answer)]
