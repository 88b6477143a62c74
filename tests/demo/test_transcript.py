"""A session reads as it was typed, and can be typed again."""

from __future__ import annotations

import shlex

from tests.demo_check.transcript import Transcript


def test_commands_stand_before_what_they_printed() -> None:
    session = Transcript()

    assert session.add(("snmpget", "127.0.0.1:1161", "sysName.0"), "a name\n") == "a name\n"
    session.add(("amqp-gateway", "version"), "1.0\n\n")

    assert session.text == "$ snmpget 127.0.0.1:1161 sysName.0\na name\n$ amqp-gateway version\n1.0\n"


def test_a_shell_takes_each_word_as_it_was() -> None:
    words = ("invoke", "rabbitmq/queue//|orders", 'agCommandTarget."noc"."purge"', "kind = 'event'")
    session = Transcript()

    session.add(words, "")

    assert shlex.split(session.text.removeprefix("$ ")) == list(words)
