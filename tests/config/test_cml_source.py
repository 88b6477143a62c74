"""Sources of kind ``cml``: the meaning of the settings, and the complaints, with their lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.model import Configuration
from gateway.config.sources import CmlSource
from gateway.yaml_documents import parse_document
from tests.config.sample import complaints

_AMQP = "amqp: {url: 'amqp://broker', user: super, password: {env: P}}"


def _source(more: str = "") -> CmlSource:
    text = f"version: 1\nsources:\n  openamq:\n    kind: cml\n    {_AMQP}\n    {more}\n"
    source = parse_document(text, Configuration, Path("gateway.yaml")).sources["openamq"]
    assert isinstance(source, CmlSource)
    return source


def test_what_an_openamq_needs_is_the_default() -> None:
    source = _source()
    assert (source.amqp.vhost, source.amqp.heartbeat) == ("/", 2 * 10**9)
    assert (source.system_exchange, source.routing_key) == ("amq.system", "amq.console")
    assert (source.reply_exchange, source.notify_exchange) == ("amq.direct", "amq.notify")
    assert (source.short_lived, source.assured, source.durable) == ("no", (), None)


@pytest.mark.parametrize(
    ("written", "read"),
    [("no", "no"), ("yes", "yes"), ("'no'", "no"), ("second-listing", "second-listing")],
)
def test_words_that_yaml_takes_for_flags_are_words(written: str, read: str) -> None:
    assert _source(f"short_lived: {written}").short_lived == read


def test_notifications_may_be_left_alone() -> None:
    assert _source("notify_exchange: null").notify_exchange is None


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("short_lived: sometimes", "short_lived: must be 'no', 'second-listing' or 'yes'"),
        ("interval: 100ms", "interval: is 1s to 1d here"),
        ("intervals: {queue: 2d}", "intervals.queue: is 1s to 1d here"),
        ("budget: {share: 2}", "budget.share: must be 1.0 or less"),
        ("assured: [everything]", "assured.0: must be 'config-file', 'empty-values' or 'heartbeats'"),
        ("trusted_users: []", "trusted_users: "),
        ("durable: {}", "durable: unknown key"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(written: str, complaint: str) -> None:
    text = f"version: 1\nsources:\n  openamq:\n    kind: cml\n    {_AMQP}\n    {written}\n"
    (found,) = complaints(text)
    assert found.startswith(f"6: sources.openamq.{complaint}")
