"""The labels of objects in a picture distinguish them in as few words as possible."""

from __future__ import annotations

from gateway.analytics.reports.page import labels


def test_a_name_alone_where_it_is_enough() -> None:
    assert labels({"one/rabbitmq:queue/1": "shop|orders", "one/rabbitmq:queue/2": "shop|mail#17951917"}) == {
        "one/rabbitmq:queue/1": "shop|orders",
        "one/rabbitmq:queue/2": "shop|mail",
    }


def test_the_source_where_two_report_the_same_name() -> None:
    assert labels({"one/rabbitmq:queue/1": "shop|orders", "other/rabbitmq:queue/7": "shop|orders#1"}) == {
        "one/rabbitmq:queue/1": "shop|orders (one)",
        "other/rabbitmq:queue/7": "shop|orders (other)",
    }


def test_the_whole_name_where_one_source_has_two_of_it() -> None:
    assert labels({"one/rabbitmq:queue/1": "shop|mail#1", "one/rabbitmq:queue/2": "shop|mail#2"}) == {
        "one/rabbitmq:queue/1": "shop|mail#1",
        "one/rabbitmq:queue/2": "shop|mail#2",
    }


def test_an_escaped_mark_is_part_of_the_name() -> None:
    assert labels({"one/rabbitmq:queue/1": r"shop|a\#b"}) == {"one/rabbitmq:queue/1": r"shop|a\#b"}


def test_names_are_a_strangers() -> None:
    (shown,) = labels({"one/rabbitmq:queue/1": "shop|\x1b[31m"}).values()
    assert "\x1b" not in shown
