"""The table of RFC 2579, as the RFC draws it."""

from __future__ import annotations

import pytest

from gateway.shipped_files import shipped_folder
from gateway.snmp import message
from gateway.snmp.commands.command import (
    Action,
    RefusedError,
    RowStatus,
    State,
    next_state,
    transitions_table,
)

A, B, C, D = None, RowStatus.NOT_READY, RowStatus.NOT_IN_SERVICE, RowStatus.ACTIVE
INCONSISTENT = message.INCONSISTENT_VALUE

# What the RFC's table says for rows in the states A to D: first of one that is complete with this SET, then
# of one that is not. A number is an error-status.
COMPLETE: dict[Action, tuple[State | int, ...]] = {
    RowStatus.CREATE_AND_GO: (D, INCONSISTENT, INCONSISTENT, INCONSISTENT),
    RowStatus.CREATE_AND_WAIT: (C, INCONSISTENT, INCONSISTENT, INCONSISTENT),  # note 1
    RowStatus.ACTIVE: (INCONSISTENT, D, D, D),  # note 2
    RowStatus.NOT_IN_SERVICE: (INCONSISTENT, C, C, INCONSISTENT),  # notes 3 and 6
    RowStatus.DESTROY: (A, A, A, A),
    None: (message.INCONSISTENT_NAME, C, C, D),  # notes 4, 1 and 5
}
INCOMPLETE: dict[Action, tuple[State | int, ...]] = {
    RowStatus.CREATE_AND_GO: (INCONSISTENT, INCONSISTENT, INCONSISTENT, INCONSISTENT),
    RowStatus.CREATE_AND_WAIT: (B, INCONSISTENT, INCONSISTENT, INCONSISTENT),
    RowStatus.ACTIVE: (INCONSISTENT, INCONSISTENT, INCONSISTENT, D),
    RowStatus.NOT_IN_SERVICE: (INCONSISTENT, INCONSISTENT, INCONSISTENT, INCONSISTENT),
    RowStatus.DESTROY: (A, A, A, A),
    None: (message.INCONSISTENT_NAME, B, B, D),
}
CASES = [
    pytest.param(state, action, complete, after, id=f"{state}-{action}-{complete}")
    for complete, table in ((True, COMPLETE), (False, INCOMPLETE))
    for action, row in table.items()
    for state, after in zip((A, B, C, D), row, strict=True)
]


@pytest.mark.parametrize(("state", "action", "complete", "after"), CASES)
def test_a_row_goes_where_the_table_says(
    *, state: State, action: Action, complete: bool, after: State | int
) -> None:
    if after is None or isinstance(after, RowStatus):
        assert next_state(state, action, complete=complete) is after
    else:
        with pytest.raises(RefusedError) as refused:
            next_state(state, action, complete=complete)
        assert refused.value.status == after


@pytest.mark.parametrize(("complete", "after"), [(True, C), (False, B)])
def test_where_a_column_may_make_the_row_it_does(*, complete: bool, after: State) -> None:
    assert next_state(A, None, complete=complete, made_by_columns=True) is after


def test_the_table_is_documented() -> None:
    page = shipped_folder("mibs").parent / "docs" / "snmp-commands.md"
    assert transitions_table() in page.read_text(encoding="utf-8")
