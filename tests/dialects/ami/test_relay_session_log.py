"""The log of a session, if its application requests one, contains no secrets."""

from __future__ import annotations

from gateway.dialects.ami.relay import RelayConfig
from gateway.model.secrets import SecretRules
from tests.dialects.ami.commands_story import ready
from tests.dialects.ami.relay_play import RelayPlay


def test_a_session_is_logged_where_its_application_wants_that() -> None:
    play = RelayPlay(RelayConfig(secrets=SecretRules([r"^pin$"])))
    play.connects()
    play.says(
        'L#0|I="pump-7"|O="LOG"',
        'O#1|T="Tank"|I="t1"|level=3',
        'O#2|T="Tank"|I="t1"|level=3|pin=1',
        "bad http://u:p@h/",
        'S#3|u="http://u:p@h/"',
        '#O|T="Tank"|password="p"',
        'O#4|T="Tank"|I="t1"|AB=1|pin=1',
        "H",
    )
    assert [one.line for one in play.logged if not one.outgoing] == [
        b'L#0|I="pump-7"|O="LOG"',
        b'O#1|T="Tank"|I="t1"|level=3',
        b'O#2|T="Tank"|I="t1"|level=3|pin="***"',
        b"refused: at offset 1: expected |, # or @, found something else",
        b'S#3|u="http://***@h/"',
        b"# a comment of 24 octets",
        b"O, with secrets",
        b"H",
    ]
    assert {one.application for one in play.logged} == {"pump-7"}
    assert play.logged[1].outgoing
    assert play.logged[1].line == b'M|Q=0|S=0|M="Welcome to AMI v1.0"'


def test_no_session_is_logged_that_does_not_ask_for_it() -> None:
    play = ready("S|a=1")
    assert play.logged == []
