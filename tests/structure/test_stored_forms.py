"""A form on the disk never changes under the same version: an older gateway must be able to refuse it."""

from __future__ import annotations

import json

import msgspec
import pytest

from gateway.eventlog.record import LogRecord
from tests.structure.stored_forms import PINS, StoredForm, shape_of, stored_forms


@pytest.mark.parametrize("stored", list(stored_forms()), ids=lambda stored: stored.name)
def test_a_form_that_changed_has_another_version(stored: StoredForm) -> None:
    pinned = json.loads(PINS.read_text("utf-8")).get(stored.name, {})
    now = f'in {PINS.name}: "{stored.version}": "{stored.digest}"'
    assert str(stored.version) in pinned, (
        f"{stored.name}: version {stored.version} is new: the older form is read in {stored.older}; add a "
        f"fixture of it to the tests, and pin the new one {now}"
    )
    assert pinned[str(stored.version)] == stored.digest, (
        f"the form of {stored.name} changed, and its version did not. Raise {stored.where} (now "
        f"{stored.version}), so that an older gateway refuses it; read the older form in {stored.older}. "
        f"Only where no gateway has this version yet, pin its present form {now}\n{stored.text}"
    )
    assert max(map(int, pinned)) == stored.version, "a version was taken back"


def test_a_field_a_type_and_a_member_are_part_of_the_form() -> None:
    before = shape_of(LogRecord)
    added = [("further", str | None, None)]
    further = msgspec.defstruct("LogRecord", added, bases=(LogRecord,), kw_only=True)
    assert shape_of(further)["LogRecord"] != before["LogRecord"]
    assert "login" in str(before["RecordKind"])
    assert "delta: NoneType or int" in str(before["Delta"])
