"""Saved schemas: what is written is read again, and anything else is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.mapping.files import class_schemas, event_schemas
from gateway.mapping.schema_documents import (
    SavedClass,
    SavedSchemas,
    parse_schemas,
    read_schemas,
    schemas_text,
)
from gateway.model.schema import ClassKey, ClassSchema, Element, EventSchema
from gateway.model.values import ValueType
from gateway.yaml_documents import DocumentError
from tests.components.shipped_mappings import shipped_mappings
from tests.mapping.recorded_schemas import QPID, recorded

PATH = Path("saved.json")


def written_and_read(schemas: SavedSchemas) -> SavedSchemas:
    return parse_schemas(schemas_text(schemas).encode(), PATH)


def of(*schemas: ClassSchema | EventSchema) -> SavedSchemas:
    return SavedSchemas(
        tuple(SavedClass(one, "name", "vhost") for one in schemas if isinstance(one, ClassSchema)),
        tuple(one for one in schemas if isinstance(one, EventSchema)),
    )


@pytest.mark.parametrize("package", sorted(shipped_mappings()))
def test_all_that_the_mappings_define_is_read_again(package: str) -> None:
    mapping = shipped_mappings()[package]
    if package == QPID:
        schemas = of(*recorded(QPID))
    else:
        schemas = of(*class_schemas(mapping).values(), *event_schemas(mapping).values())
    read = written_and_read(schemas)
    assert set(map(repr, read.classes)) == set(map(repr, schemas.classes))
    assert set(map(repr, read.events)) == set(map(repr, schemas.events))
    assert schemas_text(read) == schemas_text(schemas)


def test_the_order_of_what_was_learnt_does_not_matter() -> None:
    schemas = of(*recorded(QPID))
    reverse = SavedSchemas(tuple(reversed(schemas.classes)), tuple(reversed(schemas.events)))
    assert schemas_text(reverse) == schemas_text(schemas)
    assert schemas_text(SavedSchemas(schemas.classes * 2, schemas.events)) == schemas_text(schemas)


@given(st.text(max_size=20), st.text(max_size=20), st.binary(max_size=16), st.floats())
def test_any_name_of_a_peer_can_be_written(package: str, name: str, version: bytes, limit: float) -> None:
    element = Element(name, ValueType.F64, label=package, minimum=limit)
    text = schemas_text(of(ClassSchema(ClassKey(package, name, version), (element,), description=name)))
    assert schemas_text(parse_schemas(text.encode(), PATH)) == text


@given(st.binary(max_size=100))
def test_other_bytes_are_refused(octets: bytes) -> None:
    with pytest.raises(DocumentError):
        parse_schemas(octets, PATH)


def test_complaints_say_where(tmp_path: Path) -> None:
    document = json.loads(schemas_text(of(ClassSchema(ClassKey("p", "c"), (Element("e", ValueType.U8),)))))
    document["classes"][0]["properties"][0]["type"] = "u7"
    with pytest.raises(DocumentError, match=r"saved\.json:1: classes\.0\.properties\.0\.type: must be "):
        parse_schemas(json.dumps(document).encode(), PATH)
    with pytest.raises(DocumentError, match=r"saved\.json:2: is not JSON: "):
        parse_schemas(b"{\n", PATH)
    with pytest.raises(DocumentError, match="is no document of `amqp-gateway schema export`"):
        parse_schemas(b"[]", PATH)
    with pytest.raises(DocumentError, match="cannot be read"):
        read_schemas(tmp_path / "none.json")
    with pytest.raises(DocumentError, match="is not JSON"):
        parse_schemas(b"[" * 100_000, PATH)
