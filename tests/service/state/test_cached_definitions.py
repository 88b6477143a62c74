"""Schemas that a console knew, and knows again after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.config.model import LogSettings
from gateway.dialects.qmf.definitions import ClassDefinition, EventDefinition
from gateway.model.times import SECOND
from gateway.service.state import cached_schemas
from gateway.service.state.cached_schemas import DEFINITIONS_SETTLING_SECONDS, FOLDER, definitions_cache
from tests.components.waiting import eventually
from tests.dialects.qmf.examples import LEAK, TANK

KNOWN = (ClassDefinition.of(TANK), EventDefinition.of(LEAK))


async def kept(folder: Path, *known: ClassDefinition | EventDefinition) -> None:
    """Write these definitions."""
    schemas = definitions_cache(folder, "agents")
    schemas.learnt()
    keeping = asyncio.create_task(schemas.keep(lambda: known))

    async def is_written() -> bool:
        return definitions_cache(folder, "agents").read() == known

    await eventually(is_written, "the schemas are kept")
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)


def test_what_was_learnt_is_written_as_soon_as_the_log_has_objects_of_it() -> None:
    assert LogSettings().commit_interval / SECOND >= DEFINITIONS_SETTLING_SECONDS


async def test_what_was_learnt_is_known_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached_schemas, "DEFINITIONS_SETTLING_SECONDS", 0.01)
    assert definitions_cache(tmp_path, "agents").read() is None
    await kept(tmp_path, *KNOWN)
    assert definitions_cache(tmp_path, "agents").read() == KNOWN
    assert definitions_cache(tmp_path, "others").read() is None
    await kept(tmp_path, KNOWN[0])


@pytest.mark.parametrize(
    "octets",
    [
        b"",
        b"something else\n",
        b"amqp-gateway schemas 2: of a later gateway\n",
        b"amqp-gateway schemas 1: AM2 schema responses, in hexadecimal digits\nxyz\n",
        b"amqp-gateway schemas 1: AM2 schema responses, in hexadecimal digits\n414d32\n",
        b"\xff\xfe",
    ],
)
def test_a_file_that_cannot_be_read_is_as_good_as_none(tmp_path: Path, octets: bytes) -> None:
    (tmp_path / FOLDER).mkdir()
    (tmp_path / FOLDER / "agents.am2").write_bytes(octets)
    assert definitions_cache(tmp_path, "agents").read() is None
