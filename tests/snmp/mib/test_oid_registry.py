"""Reading and writing of registry files, and the errors of invalid registries."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pytest

from gateway.model.schema import ClassKey, Kind
from gateway.snmp.oid_registry import (
    DEFAULT_ROOT,
    ArgumentEntry,
    ArgumentTwin,
    ClassEntry,
    ElementEntry,
    EnumerationNumber,
    EventEntry,
    OidRegistry,
    Status,
    Twin,
    parse_registry,
    read_registry,
)
from gateway.snmp.registry_files import registry_text
from gateway.snmp.syntax import Syntax
from gateway.yaml_documents import DocumentError

PATH = Path("shop.oids.yaml")

SHOP = OidRegistry(
    package="shop",
    arc=7,
    module="SHOP-MIB",
    prefix="shp",
    revisions=(dt.date(2026, 1, 2), dt.date(2026, 3, 4)),
    classes=(
        ClassEntry(
            name="till",
            arc=1,
            descriptor="shpTill",
            elements=(
                ElementEntry(
                    name="owner",
                    column=100,
                    syntax=Syntax.TEXT,
                    descriptor="shpTillOwner",
                    twin=Twin(column=101, descriptor="shpTillOwnerLength"),
                ),
                ElementEntry(
                    name="sales",
                    column=102,
                    kind=Kind.COUNTER,
                    syntax=Syntax.COUNTER64,
                    descriptor="shpTillSales",
                    status=Status.OBSOLETE,
                ),
                ElementEntry(
                    name="state",
                    column=103,
                    syntax=Syntax.ENUMERATION,
                    descriptor="shpTillState",
                    values=(
                        EnumerationNumber(value="unknown", label="unknown", number=1),
                        EnumerationNumber(value="not open", label="notOpen", number=2),
                    ),
                ),
            ),
        ),
    ),
    arguments=(
        ArgumentEntry(
            name="till",
            arc=1,
            syntax=Syntax.ROW_POINTER,
            descriptor="shpEventTillRow",
            twin=ArgumentTwin(arc=2, descriptor="shpEventTillFullName"),
        ),
        ArgumentEntry(
            name="count", arc=3, syntax=Syntax.GAUGE32, descriptor="shpEventCount", status=Status.OBSOLETE
        ),
    ),
    events=(
        EventEntry(name="tillClosed", arc=4, descriptor="shpTillClosed", arguments=(1, 3)),
        EventEntry(name="fire", arc=5, descriptor="shpFire"),
    ),
)

SHOP_TEXT = """\
# Numbers and names that this package has in SNMP. Append-only: written by `amqp-gateway mib gen`,
# reviewed like code. What stands here once is never changed, moved or used for something else.
version: 1
package: shop
arc: 7
module: SHOP-MIB
prefix: shp
revisions: [2026-01-02, 2026-03-04]
classes:
- name: till
  arc: 1
  descriptor: shpTill
  elements:
  - {name: owner, column: 100, syntax: text, descriptor: shpTillOwner, \
twin: {column: 101, descriptor: shpTillOwnerLength}}
  - {name: sales, column: 102, kind: counter, syntax: counter64, descriptor: shpTillSales, status: obsolete}
  - {name: state, column: 103, syntax: enumeration, descriptor: shpTillState, \
values: [{value: unknown, label: unknown, number: 1}, {value: not open, label: notOpen, number: 2}]}
arguments:
- {name: till, arc: 1, syntax: rowPointer, descriptor: shpEventTillRow, \
twin: {arc: 2, descriptor: shpEventTillFullName}}
- {name: count, arc: 3, syntax: gauge32, descriptor: shpEventCount, status: obsolete}
events:
- {name: tillClosed, arc: 4, descriptor: shpTillClosed, arguments: [1, 3]}
- {name: fire, arc: 5, descriptor: shpFire}
"""


def test_a_registry_is_written_with_one_line_for_each_entry() -> None:
    assert registry_text(SHOP) == SHOP_TEXT


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "shop.oids.yaml"
    path.write_text(SHOP_TEXT, encoding="utf-8")
    assert read_registry(path) == SHOP


def test_numbers_are_relative_to_the_root_of_the_configuration() -> None:
    till = SHOP.find(ClassKey("shop", "till"))
    assert till is not None
    assert SHOP.entry_oid((1, 3), till) == (1, 3, 2, 7, 1, 1, 1)
    assert SHOP.entry_oid(DEFAULT_ROOT, till) == (*DEFAULT_ROOT, 2, 7, 1, 1, 1)
    assert SHOP.class_index(till) == 7001


def test_an_event_has_a_notification_and_its_arguments_objects() -> None:
    closed = SHOP.find_event(ClassKey("shop", "tillClosed"))
    assert closed is not None
    assert SHOP.notification_oid((1, 3), closed) == (1, 3, 2, 7, 0, 4)
    assert [argument.arcs for argument in SHOP.arguments_of(closed)] == [(1, 2), (3,)]
    assert SHOP.argument_oid((1, 3), 2) == (1, 3, 2, 7, 1, 1000, 2, 0)


def test_a_class_or_event_of_another_package_is_not_found() -> None:
    assert SHOP.find(ClassKey("stall", "till")) is None
    assert SHOP.find_event(ClassKey("stall", "fire")) is None


def test_a_provisional_registry_holds_classes_of_any_package_below_arc_3() -> None:
    registry = OidRegistry(
        package="",
        arc=0,
        module="AMQP-GATEWAY-SITE-MIB",
        prefix="site",
        revisions=(dt.date(2026, 1, 2),),
        classes=(ClassEntry(name="shop:till", arc=1, descriptor="siteShopTill"),),
    )
    till = registry.find(ClassKey("shop", "till"))
    assert till is not None
    assert registry.entry_oid((1, 3), till) == (1, 3, 3, 1, 1, 1)
    assert registry.class_index(till) == 1_000_001


@pytest.mark.parametrize(
    ("written", "instead", "line", "complaint"),
    [
        ("column: 102", "column: 101", 10, "the column 101 is used twice"),
        ("column: 102", "column: 99", 15, "must be 100 or more"),
        ("shpTillSales", "shpTillowner", 1, "the descriptor shptillowner is used twice"),
        ("shpTillSales", "shpTillRowState", 1, "the descriptor shptillrowstate is used twice"),
        ("number: 2", "number: 1", 16, "the number 1 is used twice"),
        ("value: unknown, label: unknown, number: 1", "value: a, label: a, number: 1", 16, "unknown(1)"),
        ("syntax: counter64", "syntax: counter32", 15, "counter64"),
        ("syntax: text", "syntax: gauge32", 14, "no second column"),
        ("syntax: text", "syntax: enumeration", 14, "'values' belong to the syntax enumeration"),
        ("[2026-01-02, 2026-03-04]", "[2026-03-04, 2026-01-02]", 1, "revisions must ascend"),
        ("arc: 7", "arc: 0", 1, "arc 0 is for provisional classes"),
        ("arc: 7", "arc: 7\nroot: 1.3.6", 6, "unknown key"),
        ("arguments: [1, 3]", "arguments: [1, 2]", 1, "tillClosed: there is no argument 2"),
        ("arguments: [1, 3]", "arguments: [1, 1]", 21, "the argument 1 is used twice"),
        ("arc: 3, syntax", "arc: 2, syntax", 1, "the arc 2 is used twice"),
        ("name: fire, arc: 5", "name: fire, arc: 4", 1, "the arc 4 is used twice"),
        ("name: fire", "name: tillClosed", 1, "the event tillClosed is used twice"),
        ("name: fire, arc: 5", "name: fire, arc: 65536", 22, "must be 65535 or less"),
        ("descriptor: shpFire", "descriptor: shpTill", 1, "the descriptor shptill is used twice"),
        (
            "syntax: gauge32, descriptor: shpEventCount",
            "syntax: rowPointer, descriptor: shpEventCount",
            19,
            "has a second object if it is a reference",
        ),
    ],
)
def test_a_damaged_registry_is_refused_with_its_place(
    written: str, instead: str, line: int, complaint: str
) -> None:
    with pytest.raises(DocumentError) as error:
        parse_registry(SHOP_TEXT.replace(written, instead), PATH)
    assert complaint in str(error.value)
    assert error.value.complaints[0].line == line


def test_names_of_any_text_survive_the_file() -> None:
    names = [
        "no",
        "1e3",
        "{a: b}",
        "line\nbreak",
        "\x00",
        "\N{LATIN SMALL LETTER E WITH ACUTE}",
        " x ",
        "#",
        "",
    ]
    elements = tuple(
        ElementEntry(name=name, column=100 + i, syntax=Syntax.TRUTH, descriptor=f"shpTillE{i}")
        for i, name in enumerate(names)
    )
    registry = SHOP.model_copy(
        update={"classes": (ClassEntry(name="no", arc=1, descriptor="shpTill", elements=elements),)}
    )
    assert parse_registry(registry_text(registry), PATH) == registry
    assert registry_text(registry).isascii()
