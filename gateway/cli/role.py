"""``amqp-gateway role``: the roles of the configuration, and the rules that decide what principals may do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

import click

from gateway.cli.options import config_option, loaded
from gateway.cli.printing import json_option, say, say_json
from gateway.config.model import Configuration
from gateway.config.policy import READER, SCRAPER
from gateway.mapping.files import load_mappings
from gateway.model.schema import ClassKey
from gateway.policy.decisions import (
    Decision,
    Policy,
    PublishObject,
    ReadObject,
    ReadOperations,
    Subject,
    Wish,
)
from gateway.policy.differences import described
from gateway.policy.marks import Marks
from gateway.policy.rules import BUILT_IN, Rule
from gateway.service.processes.exit_codes import CommandError, ExitCode


@click.group()
def role() -> None:
    """Show roles, who has them, and which rule decides."""


@role.command("list")
@config_option
@json_option
def list_command(config: Path | None, *, as_json: bool) -> None:
    """List the principals of the configuration with their roles."""
    settings = loaded(config).settings
    roles = settings.role_set
    shown = {name: list(roles.roles_of(name)) for name in _principals(settings)}
    if as_json:
        say_json({"principals": shown, "roles": [*BUILT_IN, *settings.policy.roles]})
        return
    width = max(map(len, shown))
    say(f"{name:<{width}}  {', '.join(names) or 'no role: reads nothing'}" for name, names in shown.items())
    click.echo(f"roles: {', '.join((*BUILT_IN, *settings.policy.roles))}")


@role.command()
@click.argument("name")
@config_option
def show(name: str, config: Path | None) -> None:
    """Show the rules of the role NAME, or of a principal such as jmx:operator."""
    roles = loaded(config).settings.role_set
    if ":" in name:
        say(_lines(roles.rules_of(name)))
        return
    found = BUILT_IN.get(name) or roles.roles.get(name)
    if found is None:
        known = ", ".join((*BUILT_IN, *roles.roles))
        raise CommandError(ExitCode.NOT_FOUND, f"there is no role {name!r}; there are: {known}")
    say(_lines(found.rules))
    for included in found.includes:
        click.echo(f"and the rules of the role {included}")


def _lines(rules: Iterable[Rule]) -> Iterator[str]:
    empty = True
    for rule in rules:
        empty = False
        yield f"{rule.place}: {described(rule)}"
    if empty:
        yield "no rules"


@role.command()
@click.argument("principal")
@click.argument("operation")
@click.argument("path", metavar="OBJECT", default="")
@config_option
@json_option
def explain(principal: str, operation: str, path: str, config: Path | None, *, as_json: bool) -> None:
    """Say whether PRINCIPAL may do OPERATION on OBJECT, and which rule decides.

    PRINCIPAL is snmp:NAME, snmp:(reader), notify:RECEIVER, jmx:USER, cli:USER, metrics:(scraper) or
    ami:CERTIFICATE. OPERATION is read:ELEMENT, write:ELEMENT, invoke:METHOD, subscribe:PACKAGE:EVENT,
    refresh, audit or publish. OBJECT is SOURCE/PACKAGE:CLASS/NAME with the name in full, as tree shows it; of
    an event without object it is SOURCE alone. The object need not exist, and the gateway need not run. A
    denial ends with 14.
    """
    configuration = loaded(config)
    marks = Marks(load_mappings(configuration.mapping_files))
    policy = Policy(configuration.settings.role_set)
    subject, wish = _question(operation, path, marks)
    decision = policy.decide(principal, subject, wish)
    if as_json:
        rule = decision.rule
        document = {
            "principal": principal,
            "operation": operation,
            "object": path,
            "roles": list(policy.roles.roles_of(principal)),
            "allowed": decision.allowed,
            "rule": None if rule is None else {"place": rule.place, "text": described(rule)},
        }
        say_json(document)
    elif decision.allowed:
        say([_granted(decision)])
    if not decision.allowed:
        text = "" if as_json else policy.denial(principal, subject, wish)
        raise CommandError(ExitCode.REFUSED, text)


def _granted(decision: Decision) -> str:
    if decision.rule is None:
        return "allowed: no key ami:NAME or ami:* of policy.principals restricts what peers publish"
    return f"allowed by {decision.rule.place}: {described(decision.rule)}"


_PATH = re.compile(r"(?P<source>[^/]+)/(?P<package>[^/:]+):(?P<class>[^/:]+)/(?P<name>.*)", re.DOTALL)


_UNNAMED: Final[Mapping[str, Wish]] = {
    "refresh": ReadObject(),
    "audit": ReadOperations(),
    "publish": PublishObject(),
}
"""Operations without a name."""


def _question(operation: str, path: str, marks: Marks) -> tuple[Subject, Wish]:
    verb, _, name = operation.partition(":")
    written = _PATH.fullmatch(path)
    if written is not None:
        key = ClassKey(written["package"], written["class"])
        subject = Subject(written["source"], str(key), written["name"])
    elif verb == "subscribe" and path and "/" not in path:
        package = name.partition(":")[0]
        key, subject = ClassKey(package, ""), Subject(path, f"{package}:", "")
    else:
        raise click.UsageError(f"write OBJECT as SOURCE/PACKAGE:CLASS/NAME, not {path!r}")
    if operation in _UNNAMED:
        return subject, _UNNAMED[operation]
    match verb, bool(name):
        case "read", True:
            return subject, marks.reading(key, name)
        case "write" | "set", True:
            return subject, marks.setting(key, name)
        case "invoke", True:
            return subject, marks.calling(key, name)
        case "subscribe", True if ":" in name:
            package, _, event = name.partition(":")
            return subject, marks.subscribing(ClassKey(package, event))
    raise click.UsageError(
        f"{operation!r} is none of read:ELEMENT, write:ELEMENT, invoke:METHOD, subscribe:PACKAGE:EVENT, "
        "refresh, audit, publish"
    )


def _principals(settings: Configuration) -> list[str]:
    """Return the principals that the configuration knows, in the order of front ends."""
    snmp = settings.snmp
    known = [READER, *(f"snmp:{name}" for name in (*snmp.writers, *snmp.users))]
    known += [f"notify:{name}" for name in snmp.notifications]
    known += [f"jmx:{name}" for name in settings.jmx.users]
    known += [SCRAPER] if settings.metrics.objects is not None else []
    return list(dict.fromkeys((*known, *settings.policy.principals, *settings.role_set.grants)))
