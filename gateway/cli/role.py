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
from gateway.escapes import printable, unescaped
from gateway.feed.access import GATEWAY_NAME
from gateway.mapping.override_files import load_with_overrides
from gateway.model.schema import ClassKey
from gateway.policy.decisions import (
    CallMethod,
    Decision,
    Policy,
    PublishObject,
    ReadObject,
    ReadOperations,
    Subject,
    Subscribe,
    Wish,
)
from gateway.policy.differences import described
from gateway.policy.marks import Marks
from gateway.policy.named_objects import BY_NAME, denied_name
from gateway.policy.rules import BUILT_IN, CONSOLE, FRONT_ENDS, PUBLISHER, Rule
from gateway.service.processes.command_errors import command_errors
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
    shown = {name: list(roles.roles_of(name)) for name in settings.principals}
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

    PRINCIPAL is snmp:NAME, snmp:(reader), notify:RECEIVER, jmx:USER, cli:USER, metrics:(scraper), qmf:USER or
    ami:CERTIFICATE. OPERATION is read:ELEMENT, write:ELEMENT, invoke:METHOD, subscribe:PACKAGE:EVENT,
    refresh, audit or publish. OBJECT is SOURCE/PACKAGE:CLASS/NAME with the name in full, as tree shows it; of
    an event without object it is SOURCE alone. The object need not exist, and the gateway need not run. Names
    that neither the configuration nor a mapping has are reported beside the answer. A denial ends with 14.
    """
    configuration = loaded(config)
    with command_errors():
        known = load_with_overrides(configuration.mapping_files, configuration.override_files)
    marks = Marks(known.mappings, known.overrides)
    policy = Policy(configuration.settings.role_set)
    subject, wish = _question(operation, unescaped(path), marks)
    decision = _decision(principal, subject, wish, policy, configuration.settings)
    why = ""
    if decision.allowed and not isinstance(wish, Subscribe | PublishObject):
        unnamed = denied_name(principal, subject, policy, marks)
        if unnamed is not None:
            wish, decision = unnamed
            why = f"{BY_NAME[principal.partition(':')[0]]} does not show the object: "
    doubts = list(_doubts(principal, operation, subject, marks, configuration.settings))
    if as_json:
        rule = decision.rule
        document = {
            "principal": principal,
            "operation": operation,
            "object": path,
            "roles": list(policy.roles.roles_of(principal)),
            "allowed": decision.allowed,
            "rule": None if rule is None else {"place": rule.place, "text": described(rule)},
            "doubts": doubts,
        }
        say_json(document)
    elif decision.allowed:
        say([_granted(decision, wish)])
    for doubt in doubts:
        click.echo(f"amqp-gateway: {printable(doubt)}", err=True)
    if not decision.allowed:
        text = "" if as_json else why + policy.denial(principal, subject, wish)
        raise CommandError(ExitCode.REFUSED, text)


def _decision(
    principal: str, subject: Subject, wish: Wish, policy: Policy, settings: Configuration
) -> Decision:
    """Return the decision of the gateway, or that of the agent about one of its allowed users."""
    if principal in settings.known_principals[CONSOLE]:
        is_free = isinstance(wish, CallMethod) and not policy.roles.restricts_calls(principal)
        if is_free or isinstance(wish, ReadObject):
            return Decision(allowed=True)
    return policy.decide(principal, subject, wish)


def _granted(decision: Decision, wish: Wish) -> str:
    if decision.rule is not None:
        return f"allowed by {decision.rule.place}: {described(decision.rule)}"
    match wish:
        case PublishObject():
            return "allowed: no key ami:NAME or ami:* of policy.principals restricts what peers publish"
        case ReadObject():
            return "allowed: an agent reads again for every user under allowed_users"
        case _:
            return "allowed: no key of policy.principals restricts what this user under allowed_users calls"


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


def _doubts(
    principal: str, operation: str, subject: Subject, marks: Marks, settings: Configuration
) -> Iterator[str]:
    """Yield what may be misspelt in a question, which patterns of rules would not show."""
    known = settings.known_principals
    front_end = principal.partition(":")[0]
    if front_end not in (*FRONT_ENDS, PUBLISHER):
        yield f"there is no front end {front_end}; there are {', '.join((*FRONT_ENDS, PUBLISHER))}"
    elif principal not in known.get(front_end, (principal,)):
        yield f"the configuration has no {principal}; this is what it would be permitted"
    # Consoles call objects of the agents that are served to them.
    sources = settings.agents if front_end == CONSOLE else (*settings.sources, GATEWAY_NAME)
    if subject.source not in sources:
        yield f"the configuration has no source {subject.source}"
    if doubt := _undescribed(operation, subject, marks):
        yield doubt


def _undescribed(operation: str, subject: Subject, marks: Marks) -> str:
    """Return what no mapping describes although there is a mapping of the package; empty if nothing is."""
    verb, _, name = operation.partition(":")
    package, _, of_package = (name if verb == "subscribe" else subject.class_name).partition(":")
    key = ClassKey(package, of_package)
    if not marks.describes_package(package):
        return ""
    if verb == "subscribe":
        return "" if marks.describes_event(key) else f"no mapping describes the event {key}"
    if not marks.describes_class(key):
        return f"no mapping describes the class {key}"
    if verb == "invoke" and not marks.describes_method(key, name):
        return f"no mapping describes the method {name} of {key}"
    if verb in {"read", "write", "set"} and not marks.describes_element(key, name):
        return f"no mapping describes the element {name} of {key}"
    return ""
