"""The page about the command line, compared with the commands and their output."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gateway.service.diagnostics.doctor
from gateway.cli.main import COMMANDS
from gateway.feed.operations import OperationAnswer, OperationKind, OperationRecord, OperationState
from gateway.feed.records import AlarmRecord, EventLogRecord, EventLogState, GapRecord
from gateway.model.observations import Severity
from gateway.model.operations import Outcome, Principal
from gateway.service.diagnostics.doctor import Finding, Level
from gateway.service.diagnostics.explanation import Explainer
from gateway.service.diagnostics.published_names import PublishedNames
from gateway.terminal.documents import (
    Document,
    answer_document,
    brief_document,
    change_document,
    object_document,
    source_document,
)
from gateway.terminal.view import CoreChanged, Deleted, FeedChange, ObjectKey, SourceChanged, TerminalView
from tests.components.shop import START, source, update
from tests.terminal.reported import TILL, known_shop, publish, rang, till

PAGE = (Path(__file__).parent.parent.parent / "docs" / "cli.md").read_text(encoding="utf-8")
FIRST = ObjectKey(1, "shop:till", 1)


def table(heading: str) -> dict[str, str]:
    """Return the rows below a table's head: the first cell, and the second."""
    rows = PAGE.partition(f"| {heading} |")[2].partition("\n\n")[0]
    return dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", rows, re.MULTILINE))


def fields(reported: str) -> set[str]:
    """Return the fields that a row names, before any word that explains one of them."""
    return set(
        re.findall(
            r"`([a-z_]+)`", re.sub(r":.*", "", reported).replace("as `tree`", "").replace("as `set`", "")
        )
    )


def test_every_command_is_on_the_page() -> None:
    listed = set(re.findall(r"`([a-z-]+)", "".join(PAGE.partition("| command |")[2].partition("\n\n")[0])))
    assert listed >= set(COMMANDS) - {"process", "supervise"}


def test_every_check_of_the_doctor_is_on_the_page() -> None:
    (folder,) = map(Path, gateway.service.diagnostics.doctor.__path__)
    code = "".join(path.read_text(encoding="utf-8") for path in folder.glob("*.py"))
    assert set(table("check")) == set(re.findall(r'Finding\(\s*"([a-z-]+)"', code))
    assert fields(table("document")["doctor"]) == Finding("state", Level.GOOD, "well").as_json().keys()


def changes() -> list[tuple[str, FeedChange, TerminalView]]:
    view = known_shop()
    alarm = AlarmRecord(4, 1, "full", "full", Severity.MAJOR, None, "full", "7b0c.1.1", START)
    operation = OperationRecord(
        1,
        "7b0c.1.o1",
        OperationKind.SET,
        OperationState.BEGUN,
        Principal("cli", "alice"),
        *FIRST,
        "hall1|till1",
        "till1",
    )
    gap, full = GapRecord(1, 1, 2, "away"), EventLogRecord(EventLogState.DISK_FULL)
    reported = [
        *publish(view, till(1), update(1, {3: 9}), rang(3), alarm, operation, gap, full),
        Deleted("shop1", "shop:till", "hall1|till1"),
        SourceChanged(source()),
        CoreChanged("gone"),
    ]
    return [(change_document(one, view, START)["kind"], one, view) for one in reported]


def test_every_kind_of_happening_is_on_the_page() -> None:
    assert {kind for kind, _, _ in changes()} == set(table("kind"))


@pytest.mark.parametrize(("kind", "change", "view"), changes())
def test_changes_have_the_fields_of_the_page(kind: str, change: FeedChange, view: TerminalView) -> None:
    reported = table("kind")[kind]
    expected = fields(reported) | (fields(table("document")["tree"]) if "as `tree`" in reported else set())
    assert change_document(change, view, START).keys() == expected | {"time", "kind"}


def documents() -> dict[str, Document]:
    view = known_shop(till(1))
    known = view.objects[FIRST]
    answer = answer_document(OperationAnswer(1, "", Outcome.APPLIED), {}, "shop1")
    return {
        "tree": brief_document(known, view),
        "get": object_document(known, view, TILL.schema.elements),
        "set": {"object": known.path, **answer},
        "source ls": source_document(source(), view),
    }


@pytest.mark.parametrize(("name", "document"), documents().items())
def test_documents_have_the_fields_that_the_page_reports(name: str, document: Document) -> None:
    reported = table("document")[name]
    expected = fields(reported) | (fields(table("document")["tree"]) if "as `tree`" in reported else set())
    assert document.keys() == expected


def test_kinds_of_meanings_are_on_the_page() -> None:
    view = known_shop(till(1), rang(3))
    explainer = Explainer(view, PublishedNames(None, (), None))
    names = ["shop1/till/till1", "limit", "till", "7b0c.1.3", "rang", "shop1"]
    kinds = {meaning["kind"] for name in names for meaning in explainer.meanings(name)}
    assert kinds == {"object", "element", "class", "event", "event-type", "source"}
    assert kinds < set(re.findall(r"`([a-z-]+)`", table("document")["explain"]))
