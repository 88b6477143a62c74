"""Operations of principals who may not see everything: what they may not read does not exist for them."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gateway.feed.operations import Action, InvokeMethod, OperationAnswer, ReadFresh, SetElements
from gateway.feed.values import ObjectLink
from gateway.model.observations import SourceState, SourceStateSeen
from gateway.model.operations import MethodCall, ObjectFetch, Outcome, Principal
from gateway.model.values import Reference
from gateway.policy.decisions import Policy
from gateway.policy.rules import RoleSet, Rule
from tests.operations.works import OPERATOR, Works, boiler

CHANGES = Rule("a rule", write=("*",), invoke=("*", "purge"), refresh=True)


@pytest.fixture
def works(tmp_path: Path) -> Works:
    return Works(tmp_path)


def decided_by(works: Works, *rules: Rule) -> None:
    """Let the operator have these rules alone."""
    works.manager.change_policy(Policy(RoleSet(principals={"*": ()}, grants={str(OPERATOR): rules})))


def answer(works: Works, action: Action, row: int = 1, principal: Principal = OPERATOR) -> OperationAnswer:
    return works.answers[works.ask(action, row=row, principal=principal)]


@pytest.mark.parametrize("action", [SetElements({"limit": 9}), InvokeMethod("purge", {}), ReadFresh()])
def test_an_object_that_may_not_be_read_ends_like_one_that_never_was(works: Works, action: Action) -> None:
    decided_by(works, CHANGES, Rule("another", objects=("south",), read=("*",)))
    hidden, missing = answer(works, action), answer(works, action, row=99)
    assert (hidden.outcome, missing.outcome) == (Outcome.OBJECT_GONE, Outcome.OBJECT_GONE)
    assert "north" not in hidden.text
    assert works.sent == []
    works.ask(action, row=2)
    assert len(works.sent) == 1, "the other one is there"


@pytest.mark.parametrize("action", [SetElements({"limit": 9}), InvokeMethod("purge", {}), ReadFresh()])
@pytest.mark.parametrize("state", list(SourceState))
def test_a_source_of_which_nothing_is_read_is_like_one_that_never_was(
    works: Works, action: Action, state: SourceState
) -> None:
    other = works.inventory.add_source("other", "any")
    works.inventory.observed(other, [SourceStateSeen(state, "http://other:15672: refused")], works.now)
    decided_by(works, CHANGES, Rule("another", sources=("works",), read=("*",)))
    answers, records = [], []
    for source in (other.identity.number, 99):
        answers.append(works.answers[works.ask(action, source=source)])
        records.append(works.record)
    hidden, absent = (msgspec.structs.replace(one, request=0) for one in answers)
    assert hidden == absent
    hidden_record, absent_record = (
        msgspec.structs.replace(one.without_object(), number=0, operation_id="") for one in records
    )
    assert hidden_record == absent_record
    assert (records[0].source, records[1].source) == (other.identity.number, 0), "the true record"


def test_what_is_set_must_be_read_too_because_it_is_read_back(works: Works) -> None:
    decided_by(works, CHANGES, Rule("another", read=("name", "label")))
    assert answer(works, SetElements({"limit": 9})).outcome is Outcome.REFUSED
    works.ask(SetElements({"label": "new"}))
    assert isinstance(works.sent[-1], ObjectFetch)


def test_a_fresh_reading_answers_the_elements_that_may_be_read(works: Works) -> None:
    decided_by(works, CHANGES, Rule("another", read=("name", "heat")))
    number = works.read()
    works.answer(found=boiler(limit=7))
    assert works.answers[number].outcome is Outcome.APPLIED
    assert dict(works.answers[number].values) == {"name": "north", "heat": 70}


def test_a_refusal_does_not_contain_a_name_that_may_not_be_read(works: Works) -> None:
    decided_by(works, Rule("a rule", read=("heat",)))
    text = answer(works, InvokeMethod("purge", {})).text
    assert "north" not in text
    assert "row 1 of works:boiler" in text
    decided_by(works, Rule("a rule", read=("heat", "name")))
    assert "works:boiler north of works" in answer(works, InvokeMethod("purge", {})).text


def test_a_policy_that_changes_is_for_the_next_request(works: Works) -> None:
    decided_by(works, CHANGES, Rule("another", read=("*",)))
    works.invoke("purge")
    assert isinstance(works.sent[-1], MethodCall)
    decided_by(works, Rule("another", read=("*",)))
    works.answer()
    assert works.record.outcome is Outcome.APPLIED, "what was under way goes on"
    assert answer(works, InvokeMethod("purge", {})).outcome is Outcome.REFUSED


@pytest.mark.parametrize(("written", "outcome"), [(("*",), Outcome.REFUSED), (("mode",), Outcome.APPLIED)])
def test_a_dangerous_setting_needs_its_name_and_its_outcome_says_what_it_leads_to(
    tmp_path: Path, written: tuple[str, ...], outcome: Outcome
) -> None:
    works = Works(tmp_path / "works", dangerous={"mode": "at cold nobody can shower"})
    decided_by(works, Rule("a rule", read=("*",), write=written))
    number = works.set(mode="cold")
    if outcome is Outcome.APPLIED:
        works.answer(found=boiler())
        works.answer()
        works.answer(found=boiler(mode="cold"))
    assert works.answers[number].outcome is outcome
    assert "at cold nobody can shower" in works.answers[number].text


@pytest.mark.parametrize(("limit", "text"), [(8, ""), (7, "limit: at 7 nothing is heated")])
def test_what_a_value_leads_to_is_not_said_of_other_values(tmp_path: Path, limit: int, text: str) -> None:
    effect, values = {"limit": "at 7 nothing is heated"}, {"limit": (7,)}
    works = Works(tmp_path / "works", dangerous=effect, dangerous_at=values)
    decided_by(works, Rule("a rule", read=("*",), write=("limit",)))
    number = works.set(limit=limit)
    works.answer(found=boiler())
    works.answer()
    works.answer(found=boiler(limit=limit))
    assert (works.answers[number].outcome, works.answers[number].text) == (Outcome.APPLIED, text)


@pytest.mark.parametrize(("read", "named"), [(("*",), True), (("heat",), False), ((), False)])
def test_a_result_that_refers_to_an_object_without_a_name_is_left_out_of_the_answer(
    works: Works, read: tuple[str, ...], *, named: bool
) -> None:
    first = Rule("first", objects=("north",), read=("*",))
    decided_by(works, CHANGES, first, Rule("another", objects=("south",), read=read))
    number = works.invoke("move", to=ObjectLink("works:boiler", 1, "north"), litres=3)
    works.answer(outputs=(7, Reference("id-south")))
    other = {"inTank": ObjectLink("works:boiler", 2, "south")}
    assert works.answers[number].values == {"left": 7} | (other if named else {})
    assert works.record.found == {"left": 7} | other, "the true record"
