"""Who may change something: it is off until the configuration turns it on, so all that is on is named."""

from __future__ import annotations

from collections.abc import Iterator

from gateway.config.files import LoadedConfiguration
from gateway.config.operations import OperationRule
from gateway.config.sources import RabbitMqSource
from gateway.service.diagnostics.doctor.findings import Finding, Level


def writing_findings(loaded: LoadedConfiguration) -> Iterator[Finding]:
    """Every rule that allows something, and what stands around it."""
    settings = loaded.settings
    rules = settings.operations.allow
    if not rules:
        yield Finding("writing", Level.GOOD, "no user may change anything")
    for rule in rules:
        yield _rule(rule)
    accounts = {
        name: source.writing
        for name, source in settings.sources.items()
        if isinstance(source, RabbitMqSource) and source.writing is not None
    }
    changing = any(rule.set or rule.invoke for rule in rules)
    for name, writing in accounts.items():
        if not changing:
            text = "has an account that changes the broker, and no user may use it"
            yield Finding("writing", Level.NOTE, text, "take 'writing' away, or allow something", name)
        if writing.allow_lockout:
            text = f"limits may be set to 0 for {', '.join(writing.allow_lockout)}, which locks everybody out"
            yield Finding("writing", Level.WARNING, text, "take 'allow_lockout' away when it is done", name)
    for name, source in settings.sources.items():
        if changing and isinstance(source, RabbitMqSource) and source.writing is None:
            text = "operations are allowed, and there is no account that could carry them out"
            yield Finding("writing", Level.NOTE, text, "name one under 'writing' of the source", name)
    yield from _snmp(loaded)


def _rule(rule: OperationRule) -> Finding:
    """One rule, in words."""
    may = [
        *([f"set {', '.join(rule.set)}"] if rule.set else []),
        *([f"call {', '.join(rule.invoke)}"] if rule.invoke else []),
        *(["read again"] if rule.read else []),
    ]
    where = f"{', '.join(rule.sources)} / {', '.join(rule.classes)} / {', '.join(rule.objects)}"
    text = f"{', '.join(rule.who)} may {'; '.join(may)}, of {where}"
    wide = {"*"} & {*rule.set, *rule.invoke} and rule.objects == ("*",)
    if wide:
        advice = "name elements, methods and objects, where they are known"
        return Finding("writing", Level.WARNING, text, advice)
    return Finding("writing", Level.NOTE, text)


def _snmp(loaded: LoadedConfiguration) -> Iterator[Finding]:
    """Writers of SNMP whose community is sent in clear text."""
    snmp = loaded.settings.snmp
    allowed = {who for rule in loaded.settings.operations.allow for who in rule.who}
    for name in snmp.writers:
        if f"snmp:{name}" not in allowed:
            text = "may send SET, and no rule allows it anything"
            yield Finding(
                "writing", Level.NOTE, text, "take the writer away, or allow something", f"snmp:{name}"
            )
    remote = [host for host, _ in snmp.listen if not host.startswith(("127.", "::1"))]
    if snmp.enabled and snmp.writers and remote:
        yield Finding(
            "writing",
            Level.WARNING,
            f"SET is taken on {', '.join(remote)}: who can hear the network learns the writers' communities",
            "listen on 127.0.0.1, or let only a network that is trusted reach it",
        )
