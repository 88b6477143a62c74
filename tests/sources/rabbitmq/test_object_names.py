"""Names that are no UTF-8, which RabbitMQ 3.10 lists with U+FFFD in the place of some bytes."""

from __future__ import annotations

from gateway.sources.rabbitmq.object_names import MAX_BYTE_NAMES, ByteName, ByteNames


def test_a_name_has_its_bytes_while_one_object_alone_is_listed_so() -> None:
    names, first, second = ByteNames(), ByteName.of(b"caf\xe9"), ByteName.of(b"caf\xe8")
    names.learn([first, "cafe"])
    assert names.named({"name": "caf\ufffd"}) == {"name": first}
    names.learn([second])
    assert names.named(["caf\ufffd"]) == ["caf\ufffd"]
    names.forget(first)
    names.forget(first)
    assert names.named("caf\ufffd") == second


def test_names_that_clients_choose_take_bounded_memory_and_the_latest_are_known() -> None:
    names, last = ByteNames(), ByteName.of(b"last\xe9")
    names.learn(ByteName.of(b"%d\xff" % number) for number in range(3 * MAX_BYTE_NAMES))
    names.learn([last, ByteName.of(b"\xff" * 2_000)])
    assert names.named("last\ufffd") == last
    assert names.named("1\ufffd") == "1\ufffd"
    assert names.named("\ufffd") == "\ufffd"
