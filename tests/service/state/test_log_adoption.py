"""A gateway begins its own log where it found another one, and what then can be verified of that."""

from __future__ import annotations

import asyncio
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.eventlog.audit_verification import AuditReport, verify_audit
from gateway.eventlog.disk import EventLogError
from gateway.eventlog.segment import identity_path, lake_files, list_segments, read_identity
from gateway.inventory.instances import InstanceIndex
from gateway.service.state.audit_key import audit_key
from gateway.service.state.log_adoption import Adopted, adopt, record_adoption
from gateway.state_folder import StateFolder
from tests.eventlog.audited import GATEWAY, AuditedLog, rewritten
from tests.eventlog.plant import QUICK
from tests.eventlog.reading import HeldClock


class Adopter:
    """A gateway that finds the log of another one in its folder.

    Attributes:
        log: the log of the other gateway.
        state: its own state.
    """

    def __init__(self, folder: Path, name: str = "state") -> None:
        self.log = AuditedLog(folder)
        self.state = StateFolder.create(folder / name)
        self.clock = HeldClock()

    def adopts(self) -> Adopted | None:
        """Adopt the log, as the command does."""
        self.clock.time = self.log.plant.clock.time
        found = adopt(self.state, self.log.folder, "cli:root", self.clock)
        if found is not None:
            asyncio.run(record_adoption(self.state, self.log.folder, self.clock, QUICK))
        return found

    def verified(self) -> AuditReport:
        """Verify with the key of the adopter, and with the heads of the other gateway."""
        key = audit_key(self.state).public_key
        heads = [("heads", line.encode()) for line in self.log.heads]
        return verify_audit(self.log.folder, {audit_key(self.state).fingerprint: key}, heads)

    def faults(self) -> list[str]:
        return [problem.fault.value for problem in self.verified().problems]


@pytest.fixture
def adopter(tmp_path: Path) -> Adopter:
    made = Adopter(tmp_path)
    made.log.plant.facts = {"gateway": GATEWAY, "boot": 7}
    asyncio.run(made.log.write(2))
    return made


def test_what_another_gateway_signed_is_not_checked_and_is_no_fault(adopter: Adopter) -> None:
    assert adopter.faults() == ["signature"], "with another key, and not adopted"
    former = read_identity(adopter.log.folder)
    assert former is not None
    adopted = adopter.adopts()
    assert adopted is not None
    assert adopted.former == f"{former.log_id} of the gateway {GATEWAY}"
    report = adopter.verified()
    assert report.problems == []
    chains = {chain.log_id: chain for chain in report.chains}
    assert (chains[former.log_id].records, chains[former.log_id].not_checked) == (8, 2)
    assert chains[former.log_id].signed == 8, "its end is in the signed record of the adoption"
    assert chains[adopted.log_id].records == 2
    assert list_segments(adopter.log.folder)[0].first_seq == former.next_seq


def test_what_is_changed_in_the_former_log_afterwards_is_found(adopter: Adopter) -> None:
    adopter.adopts()
    lake_files(adopter.log.folder)[1].path.unlink()
    assert adopter.faults() == ["cut-off"]


def test_an_adoption_that_is_changed_proves_nothing(adopter: Adopter) -> None:
    adopter.adopts()
    (own,) = list_segments(adopter.log.folder)
    rewritten(
        own.path,
        lambda records: [
            {**record, "values": {"statement": record["values"]["statement"].replace(GATEWAY, "other")}}
            if record["kind"] == "audit"
            else record
            for record in records
        ],
    )
    assert "signature" in adopter.faults()


def test_one_that_is_adopted_again_is_verified_through_both(adopter: Adopter) -> None:
    adopter.adopts()
    third = Adopter.__new__(Adopter)
    third.log, third.clock = adopter.log, HeldClock()
    third.state = StateFolder.create(adopter.log.folder.parent / "third")
    assert third.adopts() is not None
    assert third.faults() == []
    assert len(third.verified().chains) == 3


def test_a_log_of_its_own_is_left_as_it_is(adopter: Adopter) -> None:
    adopter.adopts()
    before = identity_path(adopter.log.folder).read_text()
    assert adopter.adopts() is None
    assert identity_path(adopter.log.folder).read_text() == before


def test_a_kill_before_the_record_leaves_it_to_the_next_start(adopter: Adopter) -> None:
    adopter.clock.time = adopter.log.plant.clock.time
    assert adopt(adopter.state, adopter.log.folder, "cli:root", adopter.clock) is not None
    left = read_identity(adopter.log.folder)
    assert left is not None
    assert (bool(left.adopted), left.adopted_by) == (True, "cli:root")
    asyncio.run(record_adoption(adopter.state, adopter.log.folder, adopter.clock, QUICK))
    assert adopter.faults() == []
    after = read_identity(adopter.log.folder)
    assert after is not None
    assert after.adopted == ""


def test_on_a_full_disk_it_ends_and_leaves_the_record_to_the_next_start(adopter: Adopter) -> None:
    adopter.clock.time = adopter.log.plant.clock.time
    adopted = adopt(adopter.state, adopter.log.folder, "cli:root", adopter.clock)
    assert adopted is not None
    full = replace(QUICK, min_free=1 << 60)
    with pytest.raises(
        EventLogError, match=f"log {adopted.log_id} is begun, .* correct that, and start the gateway"
    ) as ended:
        asyncio.run(record_adoption(adopter.state, adopter.log.folder, adopter.clock, full))
    assert "MiB are free" in str(ended.value)
    assert adopter.adopts() is None, "the log is its own already"
    assert adopter.faults() == []
    asyncio.run(record_adoption(adopter.state, adopter.log.folder, adopter.clock, QUICK))
    assert adopter.faults() == []
    assert {chain.log_id: chain.records for chain in adopter.verified().chains}[adopted.log_id] == 2


def test_a_state_that_was_set_back_skips_the_numbers_that_the_log_has(adopter: Adopter) -> None:
    with closing(InstanceIndex(adopter.state.instances)) as index:
        index.start(adopter.state.identity, adopter.state.next_boot())
    adopter.log.plant.facts = {"gateway": adopter.state.identity, "boot": 40}
    asyncio.run(adopter.log.write(1))
    assert adopter.adopts() is not None
    assert adopter.state.boots == 40
    with closing(InstanceIndex(adopter.state.instances, must_exist=True)) as index:
        index.start(adopter.state.identity, adopter.state.next_boot())


def test_there_is_no_log_to_adopt(tmp_path: Path) -> None:
    state = StateFolder.create(tmp_path / "state")
    (tmp_path / "log").mkdir()
    with pytest.raises(EventLogError, match="no log to adopt"):
        adopt(state, tmp_path / "log", "cli:root", HeldClock())


def test_one_that_is_written_is_not_adopted(adopter: Adopter) -> None:
    async def while_written() -> None:
        async with adopter.log.plant.log():
            with pytest.raises(EventLogError, match="another gateway writes this log"):
                adopt(adopter.state, adopter.log.folder, "cli:root", adopter.clock)

    asyncio.run(while_written())
