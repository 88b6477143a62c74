"""``amqp-gateway source replay``."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import click

from gateway.cli.clearance import configured, require_everything
from gateway.cli.decode import DECODERS
from gateway.cli.options import loaded
from gateway.cli.printing import json_option, say, say_json
from gateway.dialects.decoding.plain import Body, Decoder
from gateway.dialects.errors import ProtocolError
from gateway.links.capture_reading import CaptureError
from gateway.links.replay import Difference, Said
from gateway.mapping.errors import MappingError
from gateway.mapping.files import load_shipped_mappings
from gateway.mapping.override_files import load_with_overrides
from gateway.mapping.overrides import NO_OVERRIDES, Overrides
from gateway.mapping.rules import Mapping as MappingFile
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.service.processes.process_setup import configure_logs
from gateway.service.sources.captures import KINDS
from gateway.service.sources.replaying import Replayed, replayed
from gateway.terminal.documents import Document, brief_document, change_document, time_text
from gateway.terminal.lines import change_line, tree_lines
from gateway.terminal.selection import Pattern
from gateway.terminal.view import FeedChange, TerminalView
from gateway.yaml_documents import DocumentError

_SHOWN: Final = 10
"""Remarks and differences that are shown to people."""


@click.command("replay")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Configuration whose mappings are used.",
)
@click.option("--tree", "with_tree", is_flag=True, help="Show the objects at the end.")
@click.option("--watch", "watching", is_flag=True, help="Show changes and events as `watch` does.")
@json_option
def replay_command(
    file: Path, config: Path | None, *, with_tree: bool, watching: bool, as_json: bool
) -> None:
    """Replay the capture FILE to a new session without a broker, and summarise the result.

    FILE is the newest file of a capture; older ones beside it are replayed first. The session uses the
    captured times. The exit code is 12 if the session sends something else than the captured one.
    """
    configure_logs("source", logging.CRITICAL)
    require_everything(configured(config), "a capture")

    def watch(change: FeedChange, view: TerminalView, now: int) -> None:
        if watching and as_json:
            say_json(change_document(change, view, now))
        elif watching:
            say([change_line(change, view, now)])

    try:
        mappings, overrides = _known(config)
        watcher = watch if watching else lambda _change, _view, _now: None
        with replayed(file, mappings, watcher, overrides) as result:
            if as_json:
                say_json(_replay_document(result, with_tree=with_tree))
            else:
                say(_replay_lines(result))
                say(tree_lines(result.view, Pattern.of("")) if with_tree else ())
    except (DocumentError, MappingError) as error:
        raise CommandError(ExitCode.CONFIGURATION, str(error)) from error
    except CaptureError as error:
        raise CommandError(ExitCode.WRONG_VALUE, f"{file}: {error}") from error
    except BrokenPipeError:
        raise  # The reader of the output has ended.
    except OSError as error:
        raise CommandError(ExitCode.NOT_FOUND, f"{file}: {error.strerror or error}") from error
    if different := result.outcome.different:
        often = "once" if different == 1 else f"{different} times"
        raise CommandError(
            ExitCode.DIFFERENCE, f"{often} the session sends something else than the captured one"
        )


def _known(config: Path | None) -> tuple[Mapping[str, MappingFile], Overrides]:
    """Return the mappings and overrides of a configuration; without one the shipped mappings."""
    if config is None:
        return load_shipped_mappings(), NO_OVERRIDES
    configuration = loaded(config)
    known = load_with_overrides(configuration.mapping_files, configuration.override_files)
    return known.mappings, known.overrides


def _replay_lines(result: Replayed) -> Iterator[str]:
    head, outcome, view = result.head, result.outcome, result.view
    (source,) = view.sources.values()
    yield f"source      {head.source}, of the kind {result.kind}, {KINDS[result.kind].dialect}"
    yield f"captured    {time_text(head.ns)} to {time_text(max(result.end, head.ns))}" + (
        f", from part {head.part}" if head.part > 1 else ""
    )
    yield f"state       {source.state.value} {source.detail}".rstrip()
    yield f"received    {outcome.events}, not used {outcome.passed_over}"
    yield f"sent        {outcome.same} the same, {outcome.different} different"
    for (_, class_name), number in view.counts().items():
        yield f"objects     {number} {class_name}"
    known = ", ".join(
        f"{name} ({len(shown.schema.elements)})" for name, shown in sorted(view.classes.items())
    )
    yield f"classes     {known or 'none'}"
    for name, number in sorted(result.events.items()):
        yield f"events      {number} {name}"
    yield f"alarms      {len(view.alarms)} active"
    yield f"gaps        {result.gaps}"
    for name, number in sorted(result.answers.items()):
        yield f"operations  {number} {name}"
    for name, number in sorted(result.remarks.items()):
        yield f"remarks     {number} {name}"
    for remark in result.first_remarks[:_SHOWN]:
        yield f"line {remark.line}: {remark.event}: {remark.detail}"
    decoder = _decoder(result.kind)
    for difference in outcome.differences[:_SHOWN]:
        then, now = (_said(said, decoder) for said in (difference.captured, difference.replayed))
        yield f"line {difference.line}: then {then}"
        yield f"{' ' * len(f'line {difference.line}')}  now  {now}"


def _replay_document(result: Replayed, *, with_tree: bool) -> Document:
    head, outcome, view = result.head, result.outcome, result.view
    (source,) = view.sources.values()
    decoder = _decoder(result.kind)
    document: Document = {
        "source": head.source,
        "source_kind": result.kind,
        "dialect": KINDS[result.kind].dialect,
        "from": time_text(head.ns),
        "to": time_text(max(result.end, head.ns)),
        "part": head.part,
        "state": source.state.value,
        "detail": source.detail,
        "told": outcome.events,
        "passed_over": outcome.passed_over,
        "same": outcome.same,
        "different": outcome.different,
        "differences": [_difference(one, decoder) for one in outcome.differences],
        "objects": {class_name: number for (_, class_name), number in view.counts().items()},
        "classes": sorted(view.classes),
        "events": dict(result.events),
        "alarms": len(view.alarms),
        "gaps": result.gaps,
        "operations": dict(result.answers),
        "remarks": dict(result.remarks),
        "first_remarks": [
            {"line": one.line, "event": one.event, "detail": one.detail} for one in result.first_remarks
        ],
    }
    if with_tree:
        document["tree"] = [brief_document(known, view) for known in Pattern.of("").objects(view)]
    return document


def _decoder(kind: str) -> Decoder | None:
    """Return the decoder for a kind of source; ``None`` if it sends requests over HTTP."""
    dialect = KINDS[kind].dialect
    return DECODERS[dialect]() if dialect in DECODERS else None


def _difference(difference: Difference, decoder: Decoder | None) -> Document:
    return {
        "line": difference.line,
        "captured": difference.captured,
        "captured_text": _said(difference.captured, decoder),
        "replayed": difference.replayed,
        "replayed_text": _said(difference.replayed, decoder),
    }


def _said(said: Said | None, decoder: Decoder | None) -> str:
    """Return the text for people of a sent message, request or close."""
    if said is None:
        return "nothing"
    if decoder is None:
        return str(said.get("request", said))
    if said.get("close"):
        return f"connection {said['connection']} is closed"
    where = f"connection {said['connection']}" if "connection" in said else said["routing_key"]
    octets = base64.b64decode(said["body_b64"])
    try:
        messages = decoder.decode(
            Body(octets, said.get("exchange", ""), said.get("routing_key", ""))
        ).messages
    except ProtocolError:
        return f"{where}: {len(octets)} bytes {octets[:40].hex()}"
    return f"{where}: {'; '.join(map(_message, messages))}"


def _message(message: dict[str, Any]) -> str:
    about = " ".join(f"{name}={value!r:.80}" for name, value in message.items() if name != "message")
    return f"{message['message']} {about}".rstrip()
