"""What peers may publish where roles restrict it: by the name that TLS has proved, whatever they claim."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.ami.relay import RelayConfig
from gateway.dialects.ami.relay_publishing import ANYONE, PublishRule, PublishRules
from gateway.dialects.session import Peer, PublishRefused
from gateway.model.operations import Outcome
from tests.dialects.ami.relay_play import WELCOMED, RelayPlay

PUMP, VALVE, STRANGER = Peer("192.0.2.7", "pump"), Peer("192.0.2.8", "valve"), Peer("192.0.2.9")
APPLICATION = PublishRule(denies=False, classes=("ami-relay:application",), objects=("pump-*",))
TANKS = PublishRule(denies=False, classes=("ami:Tank", "ami-relay:*"), objects=("pump-7|*", "pump-7"))
RULES = PublishRules({"pump": (APPLICATION, TANKS)})


def restricted(rules: PublishRules = RULES) -> RelayPlay:
    return RelayPlay(RelayConfig(publishing=rules))


def logged_in(play: RelayPlay, peer: Peer = PUMP) -> RelayPlay:
    play.connects(peer=peer)
    play.says('L|I="pump-7"|O="UNIX"')
    assert WELCOMED in play.left()
    return play


def refusals(play: RelayPlay) -> list[tuple[str, str]]:
    """Return what was refused since the last time: whom, and what."""
    refused, play.refused = play.refused, []
    return [
        (one.peer.name, one.text.partition(" publish ")[2])
        for one in refused
        if isinstance(one, PublishRefused)
    ]


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        (PUMP, "valve-1"),
        (VALVE, "pump-7"),
        (STRANGER, "pump-7"),
        (Peer("192.0.2.7", "pump-7"), "pump-7"),
        (Peer("192.0.2.7", "pump*"), "pump-7"),
    ],
)
def test_a_login_in_a_name_that_no_role_permits(peer: Peer, name: str) -> None:
    play = restricted()
    play.connects(peer=peer)
    play.says(f'L|I="{name}"')
    text = f"no role lets ami:{peer.name or ANYONE} publish ami-relay:application {name}"
    assert play.lines() == [f'1< M|Q=0|S=1|M="{text}"', "refused-instruction"]
    assert play.refused == [PublishRefused(peer, "ami-relay:application", text)]
    play.says('O|T="Tank"|I="t1"|level=1')
    assert play.objects() == []


def test_objects_of_other_types_and_names_are_refused_and_change_nothing() -> None:
    play = logged_in(restricted())
    play.says('O|T="Tank"|I="t1"|level=1', 'O|T="Valve"|I="v1"|open=true', 'O|T="Valve"|open=true')
    assert play.reported("Tank") == ["class Tank", "Tank t1 level=1"]
    name, anonymous = refusals(play)
    assert name == ("pump", "ami:Valve pump-7|v1")
    assert anonymous[1].startswith("ami:Valve pump-7|")
    play.says('O|T="Tank"|I="t1"|level=2')
    assert "Tank t1 level=2" in play.reported()


def test_the_name_of_an_object_imitates_no_other() -> None:
    play = logged_in(
        restricted(PublishRules({"pump": (APPLICATION, PublishRule(False, ("ami:Tank",), ("pump-7|a|*",)))}))
    )
    play.says('O|T="Tank"|I="a|b"|level=1')
    assert play.objects() == []
    assert refusals(play) == [("pump", r"ami:Tank pump-7|a\|b")]


def test_metrics_alerts_and_deletions_need_a_rule_too() -> None:
    play = logged_in(restricted(PublishRules({"pump": (APPLICATION,)})))
    play.says("S|load=1", 'A|I="a1"|T="Leak"|L=1', 'C|I="halt"|N="Halt"')
    assert [line for line in play.lines() if "S=0" in line] == ['1< M|Q=3|S=0|M="OK, command accepted"']
    assert refusals(play) == [("pump", "ami-relay:metrics pump-7"), ("pump", "ami-relay:alert pump-7|a1")]

    play = logged_in(RelayPlay())
    play.says('O|T="Tank"|I="t1"|level=1', 'A|I="t1"|T="Tank"|L=1')
    play.left()
    play.session.change_publishing(PublishRules({"pump": (APPLICATION, TANKS)}))
    for rules in ((APPLICATION,), (APPLICATION, PublishRule(False, ("ami:*",), ("*",)))):
        play.session.change_publishing(PublishRules({"pump": rules}))
        play.says('D|T="Tank"|I="t1"')
        assert play.reported("-Tank") == []
    assert [what for _, what in refusals(play)] == ["ami:Tank pump-7|t1", "ami-relay:alert pump-7|t1"]
    play.session.change_publishing(RULES)
    play.says('D|T="Tank"|I="t1"')
    assert play.reported("-") == ["-Tank t1", "-alert t1"]


def test_a_login_with_metrics_that_are_refused_is_none() -> None:
    play = restricted(PublishRules({"pump": (APPLICATION,)}))
    play.connects(peer=PUMP)
    play.says('L|I="pump-7"|load=1')
    assert WELCOMED not in play.left()
    assert refusals(play) == [("pump", "ami-relay:metrics pump-7")]


def test_a_rule_that_denies_outweighs() -> None:
    denial = PublishRule(denies=True, classes=("ami:Tank",), objects=("pump-7|secret*",))
    play = logged_in(restricted(PublishRules({"pump": (APPLICATION, TANKS, denial)})))
    play.says('O|T="Tank"|I="secret-1"|level=1', 'O|T="Tank"|I="t1"|level=1')
    assert play.reported("Tank") == ["class Tank", "Tank t1 level=1"]
    assert refusals(play) == [("pump", "ami:Tank pump-7|secret-1")]


def test_peers_that_are_not_named_have_the_rules_of_the_others() -> None:
    play = restricted(PublishRules({ANYONE: (APPLICATION,), "valve": ()}, (APPLICATION, TANKS)))
    for number, (peer, welcome) in enumerate(
        ((STRANGER, True), (VALVE, False), (Peer("192.0.2.1", "x"), True)), 1
    ):
        play.connects(number, peer)
        play.says('L|I="pump-7"', number=number)
        assert any("S=0" in line for line in play.lines()) is welcome


def test_changed_roles_count_for_peers_that_are_connected() -> None:
    play = logged_in(RelayPlay())
    play.says('C|I="halt"|N="Halt"', 'O|T="Tank"|I="t1"|level=1')
    play.left()
    play.session.change_publishing(PublishRules({"pump": (TANKS,)}))
    play.says('O|T="Tank"|I="t1"|level=2')
    assert play.reported("Tank") == ["Tank t1 level=2"]
    play.session.change_publishing(PublishRules({"pump": ()}))
    play.says('O|T="Tank"|I="t1"|level=3', 'C|I="halt"|L=0')
    assert play.reported("Tank") == []
    # It may not be the application any more, so it gets no arguments of its commands.
    play.calls("halt")
    (answer,) = play.answers()
    assert (answer.outcome, answer.text) == (
        Outcome.NOT_NOW,
        "not sent: no role lets the peer be this application any more",
    )
    play.session.change_publishing(None)
    play.says('O|T="Tank"|I="t1"|level=3')
    assert play.reported("Tank") == ["Tank t1 level=3"]


def test_values_of_an_answer_change_no_object_that_the_peer_may_not_publish() -> None:
    play = logged_in(RelayPlay())
    play.says('O|T="Tank"|I="t1"|level=1', 'C|I="halt"|N="Halt"|M="1"')
    play.left()
    play.calls("halt", "Tank", "t1")
    play.left()
    play.session.change_publishing(PublishRules({"pump": (APPLICATION,)}))
    play.says('R|I="g1"|S=3|level=9')
    steps = play.left()
    assert not [step for step in steps if "level=9" in str(step)]
    assert any("no one object that its values could change" in str(step) for step in steps)


TEXTS = st.text("ab*?[]|\\", max_size=4)
PATTERNS = st.tuples(TEXTS)
ANY_RULES = st.lists(st.builds(PublishRule, st.booleans(), PATTERNS, PATTERNS), max_size=3).map(tuple)


@given(ANY_RULES, ANY_RULES, TEXTS, TEXTS, TEXTS)
def test_no_peer_has_the_rules_of_another(
    one: tuple[PublishRule, ...], other: tuple[PublishRule, ...], name: str, class_name: str, object_name: str
) -> None:
    alone = PublishRules({"one": one}).permits("one", class_name, object_name)
    rules = PublishRules({"one": one, name + "x": other})
    assert rules.permits("one", class_name, object_name) is alone
    assert not PublishRules({"one": one}).permits(name, class_name, object_name)
