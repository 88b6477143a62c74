"""Which start of which gateway continues a log, and what an older or a newer version makes of it."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import duckdb
import pytest

from gateway.eventlog.compaction import Compactor
from gateway.eventlog.disk import NewerLogError
from gateway.eventlog.ownership import ForeignLogError, LogOwner, LogPlace, check_owner, read_place
from gateway.eventlog.query import check_version
from gateway.eventlog.segment import compactable, identity_path, lake_files, list_segments, read_identity
from tests.eventlog.plant import Plant

A = "aaaaaaaa-0000-4000-8000-000000000001"
B = "bbbbbbbb-0000-4000-8000-000000000002"


class Site:
    """A log's folder, and the states of gateways that write there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.plant = Plant(folder)
        self.log = self.plant.folder

    def owner(self, gateway: str, boot: int) -> LogOwner:
        return LogOwner(gateway, boot, self.folder / f"place-{gateway[0]}")

    async def writes(self, gateway: str, boot: int, records: int = 3) -> None:
        """Let a start of a gateway write some records."""
        self.plant.facts = {"gateway": gateway, "boot": boot}
        log = self.plant.log()
        log.owner = self.owner(gateway, boot)
        async with log:
            for number in range(records):
                self.plant.clock.time += 10**9
                await log.reached(log.append(self.plant.update(number)))

    def as_of_version_1(self) -> None:
        """Make ``LOG`` one that a gateway from before the owner was in it wrote."""
        fields = json.loads(identity_path(self.log).read_text())
        for name in ("gateway", "boot", "adopted", "adopted_by"):
            del fields[name]
        identity_path(self.log).write_text(json.dumps({**fields, "version": 1}))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


async def test_each_later_start_of_a_gateway_continues_its_log(site: Site) -> None:
    await site.writes(A, 1)
    await site.writes(A, 2)
    await site.writes(A, 100_007)  # of a state that was restored, which skips numbers
    identity = read_identity(site.log)
    assert identity is not None
    assert (identity.version, identity.gateway, identity.boot) == (3, A, 100_007)
    assert read_place(site.folder / "place-a") == LogPlace(log_id=identity.log_id, next_seq=identity.next_seq)


async def test_another_gateway_does_not_and_changes_nothing(site: Site) -> None:
    await site.writes(A, 1)
    before = {path: path.read_bytes() for path in site.log.rglob("*") if path.is_file()}
    with pytest.raises(ForeignLogError, match=f"belongs to the gateway {A}, and this state to {B}"):
        await site.writes(B, 7)
    assert {path: path.read_bytes() for path in site.log.rglob("*") if path.is_file()} == before
    await site.writes(A, 2)


@pytest.mark.parametrize("boot", [3, 2])
async def test_a_state_that_was_set_back_or_copied_does_not(site: Site, boot: int) -> None:
    await site.writes(A, 3)
    with pytest.raises(ForeignLogError, match=f"start 3 of this gateway wrote .* knows {boot - 1} starts"):
        await site.writes(A, boot)


async def test_a_log_that_was_set_back_is_not_continued(site: Site) -> None:
    await site.writes(A, 1)
    older = {path.relative_to(site.log): path.read_bytes() for path in site.log.rglob("*") if path.is_file()}
    await site.writes(A, 2)
    for path in [path for path in site.log.rglob("*") if path.is_file()]:
        path.unlink()
    for name, content in older.items():
        (site.log / name).write_bytes(content)
    with pytest.raises(ForeignLogError, match="was set back"):
        await site.writes(A, 3)


@pytest.mark.parametrize("place", [b"\xff no place", b'{"x":' + b"[" * 2000], ids=["no text", "nested"])
async def test_a_state_without_its_place_continues_and_has_it_again(site: Site, place: bytes) -> None:
    await site.writes(A, 1)
    (site.folder / "place-a").write_bytes(place)
    await site.writes(A, 2)
    assert read_place(site.folder / "place-a").next_seq > 1


@pytest.mark.parametrize("compacted", [False, True])
async def test_a_log_of_version_1_belongs_to_its_last_writer(site: Site, *, compacted: bool) -> None:
    await site.writes(A, 1)
    await site.writes(A, 4)
    site.as_of_version_1()
    if compacted:
        with Compactor(site.log) as compactor:
            for segment in compactable(site.log):
                compactor.compact(segment)
        assert list_segments(site.log) == []
    with pytest.raises(ForeignLogError, match=A):
        check_owner(site.log, site.owner(B, 9))
    with pytest.raises(ForeignLogError, match="knows 3 starts"):
        check_owner(site.log, site.owner(A, 4))
    await site.writes(A, 5)
    identity = read_identity(site.log)
    assert identity is not None
    assert (identity.version, identity.gateway, identity.boot) == (3, A, 5)


async def test_a_log_whose_writer_is_not_known_is_continued(site: Site) -> None:
    await site.writes(A, 1)
    site.as_of_version_1()
    (segment,) = list_segments(site.log)
    segment.path.write_bytes(b"damaged" + segment.path.read_bytes()[7:])
    check_owner(site.log, site.owner(B, 1))


async def test_a_log_of_a_newer_version_is_not_read(site: Site) -> None:
    await site.writes(A, 1)
    check_version(site.log)
    fields = json.loads(identity_path(site.log).read_text())
    identity_path(site.log).write_text(json.dumps({**fields, "version": 4, "what_comes": []}))
    with pytest.raises(NewerLogError, match="of version 4"):
        check_version(site.log)
    with pytest.raises(NewerLogError, match="of version 4"):
        await site.writes(A, 2)


async def test_what_an_older_version_compares_is_raised_since_the_audit(site: Site) -> None:
    """A gateway from before the audit compares these numbers with 1, and refuses or leaves the file alone."""
    await site.writes(A, 1)
    await site.writes(A, 2)
    assert json.loads(identity_path(site.log).read_text())["version"] == 3
    first = json.loads(list_segments(site.log)[0].path.read_bytes().splitlines()[0])
    assert (first["kind"], first["values"]["version"]) == ("start", 3)
    # Its compactor opens this as a file. Not each segment has a version: see `lock_lake`.
    with pytest.raises(IsADirectoryError):
        os.open(site.log / "lake" / ".lock", os.O_RDONLY | os.O_CREAT)
    with Compactor(site.log) as compactor:
        for segment in compactable(site.log):
            compactor.compact(segment)
    with duckdb.connect() as database:
        for file in lake_files(site.log):
            found = dict(
                database.execute(
                    "SELECT key, value FROM parquet_kv_metadata($1)", [str(file.path)]
                ).fetchall()
            )
            assert found[b"amqp_gateway_log_version"] == b"3"


def test_an_owner_is_a_start_of_a_gateway(tmp_path: Path) -> None:
    owner = LogOwner(A, 1, tmp_path)
    assert replace(owner, boot=2) != owner
