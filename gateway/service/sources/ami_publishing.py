"""What roles permit peers of a source of kind ami to publish, and the record of what they may not."""

from __future__ import annotations

from gateway.dialects.ami.relay_publishing import ANYONE, PublishRule, PublishRules
from gateway.dialects.session import PublishRefused
from gateway.feed.access import fits
from gateway.feed.operations import FrontEndRefusal, InvokeMethod, OperationRequest
from gateway.model.operations import Outcome, Principal
from gateway.policy.rules import OTHERS, PUBLISHER, RoleSet

PUBLISH = "publish"
"""What stands for a method in the record of a refusal."""


def publish_rules(roles: RoleSet, source: str) -> PublishRules | None:
    """Return the rules of peers of this source; ``None`` where roles do not restrict them."""
    if not roles.restricts_publishing:
        return None
    prefix = f"{PUBLISHER}:"
    names = [name.removeprefix(prefix) for name in roles.principals if name.startswith(prefix)]
    peers = {name: _rules(roles, name, source) for name in names if name != "*"}
    return PublishRules(peers, _rules(roles, OTHERS, source))


def _rules(roles: RoleSet, name: str, source: str) -> tuple[PublishRule, ...]:
    return tuple(
        PublishRule(rule.denies, rule.classes, rule.objects)
        for rule in roles.rules_of(f"{PUBLISHER}:{name}")
        if rule.publish and fits(source, rule.sources)
    )


def refused_request(source: int, refused: PublishRefused) -> OperationRequest:
    """Return the record of what a peer of a source (its number) may not publish, as of a refused request."""
    return OperationRequest(
        request=0,
        principal=Principal(PUBLISHER, refused.peer.name or ANYONE, refused.peer.address),
        source=source,
        class_name=refused.class_name,
        row=0,
        action=InvokeMethod(PUBLISH),
        timeout=0,
        refusal=FrontEndRefusal(Outcome.REFUSED, refused.text),
    )
