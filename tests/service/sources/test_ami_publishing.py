"""The roles of peers of AMI, as the rules of a relay."""

from __future__ import annotations

from gateway.dialects.ami.relay_publishing import ANYONE, PublishRule, PublishRules
from gateway.dialects.session import Peer, PublishRefused
from gateway.feed.operations import FrontEndRefusal, InvokeMethod
from gateway.model.operations import Outcome, Principal
from gateway.policy import rules
from gateway.policy.rules import Role, RoleSet, Rule
from gateway.service.sources.ami_publishing import publish_rules, refused_request

PUMPS = Rule("1", sources=("pla*",), classes=("ami:Tank",), objects=("pump-*",), publish=True)
READERS = Rule("2", read=("*",))
DENIAL = Rule("3", denies=True, classes=("ami:Secret",), publish=True)
ELSEWHERE = Rule("4", sources=("mill",), publish=True)
ROLES = {"pumps": Role("pumps", (PUMPS, READERS, DENIAL, ELSEWHERE))}
AS_RULES = (PublishRule(False, ("ami:Tank",), ("pump-*",)), PublishRule(True, ("ami:Secret",), ("*",)))


def test_the_word_for_peers_without_a_certificate_is_one() -> None:
    assert rules.ANYONE == ANYONE


def test_without_a_key_of_a_peer_everything_is_permitted() -> None:
    assert publish_rules(RoleSet(ROLES, {"*": ("pumps",), "jmx:ami": ()}), "plant") is None


def test_rules_are_those_about_publishing_of_this_source() -> None:
    principals: dict[str, tuple[str, ...]] = {
        "ami:pump": ("pumps",),
        f"ami:{ANYONE}": (),
        "jmx:monitor": ("pumps",),
    }
    for source, of_pump in (("plant", AS_RULES), ("orders", AS_RULES[1:])):
        expected: dict[str, tuple[PublishRule, ...]] = {"pump": of_pump, ANYONE: ()}
        assert publish_rules(RoleSet(ROLES, principals), source) == PublishRules(expected)


def test_peers_that_are_not_named_have_the_most_specific_key() -> None:
    principals: dict[str, tuple[str, ...]] = {"ami:*": ("pumps",), "*": ("everything",)}
    assert publish_rules(RoleSet(ROLES, principals), "plant") == PublishRules({}, AS_RULES)
    principals = {"ami:pump": (), "*": ("pumps",)}
    assert publish_rules(RoleSet(ROLES, principals), "plant") == PublishRules({"pump": ()}, AS_RULES)


def test_a_refusal_is_recorded_with_the_proved_name_and_the_address() -> None:
    text = "no role lets ami:pump publish ami:Valve pump-7|v1"
    request = refused_request(3, PublishRefused(Peer("192.0.2.7", "pump"), "ami:Valve", text))
    assert (request.principal, request.source) == (Principal("ami", "pump", "192.0.2.7"), 3)
    assert (request.class_name, request.action) == ("ami:Valve", InvokeMethod("publish"))
    assert request.refusal == FrontEndRefusal(Outcome.REFUSED, text)
    stranger = refused_request(3, PublishRefused(Peer("192.0.2.9"), "ami:Valve", text))
    assert stranger.principal == Principal("ami", ANYONE, "192.0.2.9")
