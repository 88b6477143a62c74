"""The readable differences between a saved schema and the one that a broker reports."""

from __future__ import annotations

from dataclasses import replace

from gateway.dialects.cml.console_tree import difference
from tests.dialects.cml.playbook import SCHEMA

NAMES = f"saved: {SCHEMA.name} 0.9; the broker's is used: {SCHEMA.name} {SCHEMA.version}"


def test_the_classes_that_differ_are_named() -> None:
    first, second, *others = SCHEMA.classes
    saved = replace(SCHEMA, version="0.9", classes=(replace(first, label="Another"), *others))
    classes = ", ".join(sorted((first.name, second.name)))
    assert difference(saved, SCHEMA) == f"{NAMES}; classes that differ: {classes}"


def test_where_only_the_version_differs_no_class_is_named() -> None:
    assert difference(replace(SCHEMA, version="0.9"), SCHEMA) == NAMES


def test_of_many_classes_the_first_are_named() -> None:
    (first, *_) = SCHEMA.classes
    many = tuple(replace(first, name=f"c{number:02}") for number in range(20))
    reported = replace(SCHEMA, classes=(*SCHEMA.classes, *many))
    assert difference(SCHEMA, reported).endswith("c00, c01, c02, c03, c04, c05, c06, c07, c08, c09, ...")
