"""The choice of a cluster's node: the one that works, and after it the one that failed longest ago."""

from __future__ import annotations

from gateway.links.reconnecting import NodeChoice


def test_the_node_in_use_stays_until_it_fails() -> None:
    nodes = NodeChoice("ABC")
    assert nodes.preferred == "A"
    assert nodes.failed("A")
    assert nodes.in_order() == ("B", "C", "A")


def test_a_node_that_failed_is_tried_when_all_others_have_failed_since() -> None:
    nodes = NodeChoice("ABC")
    for node in "AB":
        nodes.failed(node)
    assert nodes.in_order() == ("C", "A", "B")
    assert not nodes.failed("B")
    assert nodes.failed("C")
    assert nodes.preferred == "A"


def test_a_single_node_is_always_preferred() -> None:
    nodes = NodeChoice("A")
    assert not nodes.failed("A")
    assert nodes.preferred == "A"
