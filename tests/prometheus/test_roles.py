"""Metrics of objects by roles: a hidden series does not exist, and counts for nothing."""

from __future__ import annotations

import msgspec

from gateway.config.policy import SCRAPER
from gateway.feed.cleared import ClearedFeed
from gateway.feed.records import ObjectRecord, Record
from gateway.feed.values import FeedValue
from gateway.policy.marks import Marks
from gateway.policy.publishing import PolicyPublisher
from gateway.policy.rules import Role, RoleSet, Rule
from gateway.prometheus.objects import SERIES, SOURCE_UP, UP
from tests.components.shop import agent, hall, hall_link, source, till_record, update
from tests.prometheus.shop import COINS, HALL, MODE, SALES, TILL, Gateway

ALL = Rule("allow rule 1,", read=("*",))
NO_COINS = Rule("deny rule 1,", denies=True, read=("coins",))
NO_SECOND = Rule("deny rule 1,", denies=True, objects=("hall1|till2",), read=("*",))
NO_NAMES = Rule("deny rule 1,", denies=True, classes=("*:till",), read=("name",))
NO_HALLS = Rule("deny rule 1,", denies=True, classes=("*:hall",), read=("*",))
NO_SHOP = Rule("deny rule 1,", denies=True, sources=("shop1",), read=("*",))


def till(row: int) -> Record:
    values: dict[int, FeedValue] = {0: hall_link(), 1: f"till{row}", COINS: 7, SALES: 3, MODE: 1}
    return till_record(row, f"hall1|till{row}", values)


def publisher(*rules: Rule) -> PolicyPublisher:
    return PolicyPublisher(
        RoleSet({"scraping": Role("scraping", rules)}, {SCRAPER: ("scraping",)}), Marks({})
    )


KNOWN = (source(), agent(fresh=True), HALL, TILL, hall(values={1: True}), till(1), till(2))


def scraped(*rules: Rule) -> Gateway:
    shown = Gateway(cleared=ClearedFeed(SCRAPER, keeps_names=True))
    shown.hello()
    shown.snapshot(*publisher(*rules).snapshot(KNOWN))
    return shown


def names(shown: Gateway) -> set[str]:
    return {name for name, _ in shown.series()}


def tills(shown: Gateway) -> set[str]:
    return {dict(labels)["name"] for name, labels in shown.series() if "_till_" in name}


def test_a_hidden_element_has_no_series() -> None:
    assert names(scraped(ALL)) - names(scraped(ALL, NO_COINS)) == {"amqp_shop_till_coins"}


def test_a_hidden_object_has_no_series_and_is_in_no_number() -> None:
    every, some = scraped(ALL), scraped(ALL, NO_SECOND)
    assert (tills(every), tills(some)) == ({"till1", "till2"}, {"till1"})
    assert every.value(SERIES) == 7
    assert some.value(SERIES) == 4
    some.publish(update(2, {COINS: 8}))
    assert tills(some) == {"till1"}


def test_an_object_whose_name_is_hidden_has_no_series() -> None:
    assert names(scraped(ALL, NO_NAMES)) == {"amqp_shop_hall_open"}


def test_a_label_that_is_part_of_the_name_stays_where_its_object_is_hidden() -> None:
    shown = scraped(ALL, NO_HALLS)
    assert shown.value("amqp_shop_till_coins", hall_ref="hall1", name="till1") == 7
    assert "amqp_shop_hall_open" not in names(shown)


def test_a_hidden_source_has_no_series() -> None:
    shown = scraped(ALL, NO_SHOP)
    assert shown.series() == {}
    assert shown.value(SOURCE_UP) is None
    assert shown.value(UP) == 1


def test_nothing_is_shown_without_a_policy() -> None:
    shown = Gateway(cleared=ClearedFeed(SCRAPER, keeps_names=True))
    shown.hello()
    shown.snapshot(*KNOWN)
    assert shown.series() == {}


def test_nothing_of_the_former_policy_is_shown_under_another() -> None:
    shown = scraped(ALL)
    shown.begin_snapshot(*publisher(ALL, NO_SECOND).snapshot(KNOWN))
    assert (shown.series(), shown.value(UP)) == ({}, 0)
    shown.snapshot(*publisher(ALL, NO_SECOND).snapshot(KNOWN))
    assert tills(shown) == {"till1"}


def test_a_counter_continues_under_another_policy() -> None:
    shown = scraped(ALL)
    shown.publish(update(1, {SALES: 2}))
    fallen = till(1)
    assert isinstance(fallen, ObjectRecord)
    fallen = msgspec.structs.replace(fallen, values={**fallen.values, SALES: 2})
    known = [fallen if one == till(1) else one for one in KNOWN]
    shown.begin_snapshot(*publisher(ALL, NO_SECOND).snapshot(known))
    shown.snapshot(*publisher(ALL, NO_COINS).snapshot(known))
    assert shown.value("amqp_shop_till_sales_total", name="till1") == 3
