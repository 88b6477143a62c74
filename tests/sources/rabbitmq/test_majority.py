"""Whether a majority of a cluster's nodes runs, as their listing says."""

from __future__ import annotations

import pytest

from gateway.sources.rabbitmq.cluster import Nodes


def nodes(running: str) -> Nodes:
    """A cluster of which a listing shows a node for each letter: ``r`` for one that runs."""
    known = Nodes()
    for number, letter in enumerate(running):
        known.completed({"name": f"rabbit-{number}@localhost", "running": letter == "r"}, 0)
    return known


@pytest.mark.parametrize("running", ["", "r", "rr", "rrr", "rrs", "rrrss"])
def test_changes_do_not_wait_where_a_majority_runs(running: str) -> None:
    assert nodes(running).without_majority == ""


@pytest.mark.parametrize(
    ("running", "text"), [("rss", "2 of 3"), ("rs", "1 of 2"), ("rrss", "2 of 4"), ("rrsss", "3 of 5")]
)
def test_changes_may_wait_where_none_runs(running: str, text: str) -> None:
    assert nodes(running).without_majority == (
        f"{text} nodes do not run: changes may wait until a majority runs, and are carried out then"
    )


def test_nodes_that_left_the_cluster_do_not_count() -> None:
    known = nodes("rss")
    known.retain({"rabbit-0@localhost"})
    assert known.without_majority == ""
