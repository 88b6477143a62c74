"""The schema that a broker sent last is known again after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.dialects.cml.messages import SchemaReply
from gateway.durable_files import write_durably
from gateway.service.state import cached_schemas
from gateway.service.state.cached_schemas import FOLDER, SchemaCache, cml_cache, schema_document
from tests.components.open_amq import recorded_schema
from tests.components.waiting import eventually

SCHEMA = recorded_schema()


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_schemas, "CML_SETTLING_SECONDS", 0.01)


@asynccontextmanager
async def _keeping(
    known: SchemaCache[SchemaReply], publish: Callable[[], SchemaReply]
) -> AsyncIterator[None]:
    keeping = asyncio.create_task(known.keep(publish))
    try:
        yield
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)


async def test_what_was_learnt_is_known_again(tmp_path: Path) -> None:
    known, reported = cml_cache(tmp_path, "openamq"), list[SchemaReply]()
    assert known.read() is None
    async with _keeping(known, lambda: reported[-1]):
        for schema in (SCHEMA, replace(SCHEMA, version="1.1")):
            reported.append(schema)
            known.learnt()

            async def is_written(wanted: SchemaReply = schema) -> bool:
                return cml_cache(tmp_path, "openamq").read() == wanted

            await eventually(is_written, f"version {schema.version} is kept")
    assert cml_cache(tmp_path, "other").read() is None


async def test_what_is_known_already_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[str] = []

    def write(path: Path, text: str) -> None:
        written.append(text)
        write_durably(path, text)

    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "openamq.cml").write_text(schema_document(SCHEMA), encoding="utf-8")
    monkeypatch.setattr(cached_schemas, "write_durably", write)
    known, reported = cml_cache(tmp_path, "openamq"), [SCHEMA]
    assert known.read() == SCHEMA
    looked = []

    def publish() -> SchemaReply:
        looked.append(reported[-1])
        return reported[-1]

    async def has_looked() -> bool:
        return bool(looked)

    async with _keeping(known, publish):
        known.learnt()
        await eventually(has_looked, "it looks for what was learnt")
        reported.append(replace(SCHEMA, version="1.1"))
        known.learnt()

        async def is_written() -> bool:
            return bool(written)

        await eventually(is_written, "another one is kept")
    assert written == [schema_document(reported[-1])]


@pytest.mark.parametrize("octets", [b"", b"<cml/>", b"<cml><schema-reply/></cml>", b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_as_good_as_none(tmp_path: Path, octets: bytes) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "openamq.cml").write_bytes(octets)
    assert cml_cache(tmp_path, "openamq").read() is None


async def test_a_schema_that_cannot_be_written_holds_nothing_up(tmp_path: Path) -> None:
    (tmp_path / FOLDER).write_text("no folder")
    known, reported = cml_cache(tmp_path, "openamq"), [SCHEMA]
    async with _keeping(known, lambda: reported[-1]):
        known.learnt()
        await asyncio.sleep(0)
        (tmp_path / FOLDER).unlink()
        path = tmp_path / FOLDER / "openamq.cml"

        async def is_written() -> bool:
            known.learnt()
            return path.exists()

        await eventually(is_written, "it is kept when it can be")
