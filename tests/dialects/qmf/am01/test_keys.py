"""Reading and writing of routing keys."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.errors import LocalProtocolError
from gateway.dialects.qmf.am01.keys import (
    content_key,
    event_routing_key,
    method_key,
    package_key,
    read_key,
)
from gateway.dialects.qmf.am01.messages import ALL, Revision
from gateway.dialects.qmf.am01.schemas import event_key
from gateway.model.schema import ClassKey

AGENT = UUID("dc6e87c1-4c67-4e91-90ff-edfef4f39008")
KEY = ClassKey("qpid", "queue")


@pytest.mark.parametrize(
    ("revision", "config", "method"),
    [
        (Revision.DESIGN_NOTES, "mgmt.config.qpid.queue", "method.qpid.queue.purge"),
        (Revision.NOVEMBER_2007, "mgmt.config.queue", "method.qpid.queue.purge"),
        (Revision.JANUARY_2008, "mgmt.config.queue", "method.qpid.queue.purge"),
        (Revision.FEBRUARY_2008, "mgmt.config.queue", "agent.method.qpid.queue.purge"),
        (Revision.MARCH_2008, f"mgmt.{AGENT}.config.queue", "agent.method.qpid.queue.purge"),
    ],
)
def test_the_keys_of_each_revision(revision: Revision, config: str, method: str) -> None:
    assert content_key(revision, "config", KEY, AGENT) == config
    assert method_key(revision, KEY, "purge") == method
    assert revision in read_key(config).revisions
    assert read_key(config).agrees(revision, KEY)
    assert not read_key(config).agrees(revision, ClassKey("qpid", "exchange"))
    assert read_key(method).method == ("qpid", "queue", "purge")
    assert revision in read_key(method).revisions


def test_keys_of_packages() -> None:
    assert package_key(Revision.FEBRUARY_2008) == "mgmt.schema.package"
    assert package_key(Revision.MARCH_2008, AGENT) == f"mgmt.{AGENT}.schema.package"


def test_a_key_of_am1_reports_the_broker() -> None:
    with pytest.raises(LocalProtocolError, match="UUID"):
        content_key(Revision.MARCH_2008, "config", KEY)


@pytest.mark.parametrize(
    ("severity", "word", "reported"),
    [
        (0, "critical", 2),
        (2, "critical", 2),
        (3, "error", 3),
        (4, "warning", 4),
        (5, "info", 6),
        (7, "info", 6),
    ],
)
def test_an_event_s_key_has_one_of_four_severities(severity: int, word: str, reported: int) -> None:
    key = event_routing_key(event_key(KEY, "overflow"), severity)
    assert key == f"mgmt.event.qpid.queue.{word}"
    found = read_key(key)
    assert (found.subject, found.severity) == ("qpid.queue", reported)


def test_a_severity_that_is_none() -> None:
    with pytest.raises(LocalProtocolError, match="severity 8"):
        event_routing_key(event_key(KEY, "overflow"), 8)


@given(st.text(max_size=80))
def test_any_text_says_something(text: str) -> None:
    assert read_key(text).revisions <= ALL
    assert read_key(f"mgmt.config.{text}").revisions
    assert len(read_key(f"agent.method.{text}").method) == 3
