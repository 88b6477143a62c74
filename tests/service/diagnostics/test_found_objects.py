"""The messages to a user who names no object, or several."""

from __future__ import annotations

import msgspec
import pytest

from gateway.feed.records import DeleteRecord, ObjectRecord
from gateway.service.diagnostics.published_names import PublishedNames, interest_in, object_of
from gateway.service.processes.exit_codes import CommandError, ExitCode
from gateway.terminal.selection import NotOneObjectError
from tests.components.shop import START
from tests.terminal.reported import TILL, known_shop, till

NAMES = PublishedNames(None, (), {})
END = DeleteRecord(1, TILL.number, 9, "hall1|till9", START, False, 1, "till9")


@pytest.mark.parametrize(
    ("text", "whole", "says"),
    [
        (
            "shop1/till/hall3",
            False,
            "'shop1/till/hall3' is no object: `amqp-gateway tree` shows what there is",
        ),
        (
            "shop1/shop:till/hall1|tlil1",
            False,
            "'shop1/shop:till/hall1|tlil1' is no object; perhaps you mean\n  shop1/shop:till/hall1|till1",
        ),
        (
            "shop1/till/hall1|till9",
            False,
            (
                "'shop1/till/hall1|till9' is gone: shop1/shop:till/hall1|till9 was deleted at "
                "2023-11-14T22:13:20.000000000Z"
            ),
        ),
        (
            "shop1/till/hall1",
            False,
            "'shop1/till/hall1' means 12 objects: write more of the name",
        ),
        (
            "shop1/till/till1",
            True,
            (
                "'shop1/till/till1' is no object; write the whole name of what is to be changed\n"
                "  shop1/shop:till/hall1|till1"
            ),
        ),
        ("amqp.gateway:type=nothing", False, "'amqp.gateway:type=nothing' is no object: "),
    ],
)
def test_what_is_said(text: str, whole: bool, says: str) -> None:  # noqa: FBT001  a parameter
    rows = [1, *range(100, 111)]
    view = known_shop(END, *(till(row) for row in rows))
    with pytest.raises(CommandError) as refused:
        object_of(view, NAMES, text, whole=whole)
    assert refused.value.code is ExitCode.NOT_FOUND
    assert str(refused.value).startswith(says)
    if "means" in says:
        assert str(refused.value).count("\n") == 11
        assert str(refused.value).endswith("\n  and 2 more")


def test_an_object_name_is_whole_enough_to_change_something() -> None:
    view = known_shop(till(1))
    known = next(known for known in view.objects.values() if known.class_name == "shop:till")
    assert object_of(view, NAMES, NAMES.object_name(known), whole=True) is known


def test_a_name_that_was_copied_from_a_line_is_found() -> None:
    strange = msgspec.structs.replace(till(5), stable_name="hall1|bell\x07\tend", leaf_name="bell\x07\tend")
    shop = known_shop(strange)
    copied = "shop1/shop:till/hall1|bell\\x07\\tend"
    assert object_of(shop, NAMES, copied).record.row == 5
    assert object_of(shop, NAMES, copied, whole=True).record.row == 5
    assert object_of(shop, NAMES, "shop1/till/hall1|bell\x07\tend", whole=True).record.row == 5


def test_a_name_that_reads_as_another_one_is_displayed_is_not_changed() -> None:
    copied, plain = "shop1/shop:till/hall1|a\\nb", msgspec.structs.replace(till(6), stable_name="hall1|a\\nb")
    assert object_of(known_shop(plain), NAMES, copied, whole=True).record.row == 6
    assert object_of(known_shop(plain), NAMES, "shop1/shop:till/hall1|a\\x5cnb", whole=True).record.row == 6
    both = known_shop(plain, msgspec.structs.replace(till(5), stable_name="hall1|a\nb"))
    assert object_of(both, NAMES, copied).record.row == 5
    with pytest.raises(CommandError, match="write its OID or ObjectName"):
        object_of(both, NAMES, copied, whole=True)


@pytest.mark.parametrize(
    "text",
    [
        "till105",
        "hall1|till105",
        "shop1/till/hall1|till105",
        "s/t/till105",
        "shop1/shop:till/hall1|till105",
        "nonesuch",
        "shop1/till/hall1|till1",
        "shop1/till/h",
    ],
)
def test_what_is_asked_for_is_enough_to_find_it_or_say_why_not(text: str) -> None:
    tills = [till(row) for row in range(100, 111)]
    interest = interest_in(NAMES, text)
    assert interest is not None
    assert _found(tills, text) == _found([one for one in tills if interest.wants(one)], text)


def _found(tills: list[ObjectRecord], text: str) -> object:
    try:
        return object_of(known_shop(*tills), NAMES, text)
    except CommandError as error:
        reason = error.__cause__
        return reason.several if isinstance(reason, NotOneObjectError) else error


@pytest.mark.parametrize("text", ["amqp.gateway:type=till", "\udcff"])
def test_what_cannot_be_known_in_advance_is_looked_for_among_all(text: str) -> None:
    assert interest_in(NAMES, text) is None
