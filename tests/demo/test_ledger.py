"""The ledger's sums are those of the lines of its file, and the file does not grow for ever."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

from gateway.demo.ledger import SERVER_NAMED, Act, Ledger, LedgerFile, QueueName

ORDERS = QueueName("shop", "orders")
MOMENT = QueueName("shop", "amq.gen-7Hx")


def lines(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_act_is_a_line_with_its_time(tmp_path: Path) -> None:
    file = LedgerFile(tmp_path / "ledger.jsonl")
    ledger = Ledger(file=file)

    ledger.opened("shop", "shop visitor")
    ledger.declared(MOMENT, goes_with="shop visitor")
    ledger.did_publish([ORDERS, MOMENT])
    ledger.did_consume(MOMENT)
    ledger.closed("shop", "shop visitor")
    file.close()

    written = lines(tmp_path / "ledger.jsonl")
    assert [(line["act"], line["vhost"], line["name"]) for line in written] == [
        ("opened", "shop", "shop visitor"),
        ("declared", "shop", "amq.gen-7Hx"),
        ("published", "shop", "orders"),
        ("published", "shop", "amq.gen-7Hx"),
        ("consumed", "shop", "amq.gen-7Hx"),
        ("closed", "shop", "shop visitor"),
        ("deleted", "shop", "amq.gen-7Hx"),
    ]
    assert [line["ts"] for line in written] == sorted(line["ts"] for line in written)
    assert ledger.waiting(ORDERS) == 1
    assert ledger.waiting(MOMENT) == 0


def test_a_queue_that_is_there_already_is_not_declared_again() -> None:
    ledger = Ledger()
    ledger.declared(ORDERS)
    ledger.declared(ORDERS)
    assert ledger.lives == Counter({(Act.DECLARED, "shop", "orders"): 1})


def test_queues_named_by_the_broker_are_counted_under_one_name() -> None:
    ledger = Ledger()
    for number in range(1000):
        ledger.declared(QueueName("shop", f"amq.gen-{number}"), goes_with="visitor")
        ledger.closed("shop", "visitor")
    assert ledger.lives[Act.DECLARED, "shop", SERVER_NAMED] == 1000
    assert ledger.lives[Act.DELETED, "shop", SERVER_NAMED] == 1000
    assert len(ledger.lives) == 3


def test_the_difference_of_two_sums_is_what_was_done_in_between() -> None:
    ledger = Ledger()
    ledger.did_publish([ORDERS])
    ledger.opened("shop", "publisher")
    before = ledger.sums()
    ledger.did_publish([ORDERS])
    ledger.did_publish([ORDERS])
    ledger.closed("shop", "publisher")

    between = ledger.sums() - before

    assert between.published == Counter({ORDERS: 2})
    assert between.lives == Counter({(Act.CLOSED, "shop", "publisher"): 1})


def test_the_file_is_bounded_and_no_line_is_cut(tmp_path: Path) -> None:
    file = LedgerFile(tmp_path / "ledger.jsonl", max_octets=1000)
    for number in range(100):
        file.add(Act.PUBLISHED, "shop", str(number))
    file.close()

    assert sorted(path.name for path in tmp_path.iterdir()) == ["ledger.1.jsonl", "ledger.jsonl"]
    assert all(path.stat().st_size < 1100 for path in tmp_path.iterdir())
    names = [int(line["name"]) for line in lines(file.former) + lines(file.path)]
    assert names == list(range(names[0], 100)), "the newest, in order"
