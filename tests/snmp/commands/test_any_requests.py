"""Under any requests nothing is submitted twice, nothing submitted changes, and no limit is exceeded."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from gateway.model.operations import Outcome
from gateway.snmp import ber
from gateway.snmp.ber import Oid
from gateway.snmp.commands.command import CommandKey, RowStatus
from gateway.snmp.commands.table import index_of
from gateway.snmp.fixed_mib import COMMAND_ARGUMENT_ENTRY, COMMAND_ENTRY, CommandColumn
from tests.hypothesis_profiles import examples
from tests.snmp.commands.owner import GONE, LIMITS, ORDERS, ROOT, Command, Table

OWNERS = ("anna", "bert")
_VALUES = st.one_of(
    st.sampled_from(RowStatus).map(ber.encode_integer),
    st.sampled_from([ORDERS, GONE, (0, 0), (1, 3, 6)]).map(ber.encode_oid),
    st.sampled_from([b"purge", b"move", b"", b"5", b"\xff"]).map(ber.encode_octets),
    st.integers(0, 400).map(ber.encode_gauge32),
    st.just(ber.NULL),
    st.binary(max_size=3).map(ber.encode_octets),
)
_COMMANDS: Oid = (*ROOT, *COMMAND_ENTRY)
_ARGUMENTS: Oid = (*ROOT, *COMMAND_ARGUMENT_ENTRY)
_WRITTEN = {(*_COMMANDS, column) for column in CommandColumn if column <= CommandColumn.ROW_STATUS}
_NAMES = st.sampled_from("abcd")
_COLUMNS = st.integers(0, 16)


class AnyRequests(RuleBasedStateMachine):
    """Two owners, each with a few names, and a core that answers at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Table()
        self.last: dict[Oid, dict[Oid, bytes]] = {}

    @rule(
        owner=st.sampled_from(OWNERS),
        wanted=st.lists(
            st.tuples(st.sampled_from(OWNERS), _NAMES, st.none() | st.sampled_from("12x"), _COLUMNS, _VALUES),
            max_size=6,
        ),
    )
    def set_anything(self, owner: str, wanted: list[tuple[str, str, str | None, int, bytes]]) -> None:
        assignments = [
            (_name(of, name, argument, column), value) for of, name, argument, column, value in wanted
        ]
        before = self.table.instances()
        if self.table.set(owner, *assignments) is not None:
            assert self.table.instances() == before

    @rule(owner=st.sampled_from(OWNERS), name=_NAMES, method=st.sampled_from(["purge", "move"]))
    def create(self, owner: str, name: str, method: str) -> None:
        command = Command(self.table, name, owner)
        command.set(command.target(), command.method(method), command.status(RowStatus.CREATE_AND_GO))

    @rule(owner=st.sampled_from(OWNERS), name=_NAMES, status=st.sampled_from(RowStatus))
    def set_status(self, owner: str, name: str, status: RowStatus) -> None:
        command = Command(self.table, name, owner)
        command.set(command.status(status))

    @rule(owner=st.sampled_from(OWNERS))
    def write_all_back(self, owner: str) -> None:
        before, running = self.without_expiry(), dict(self.table.asked)
        for assignment in self.table.instances().items():
            self.table.set(owner, assignment)
        assert self.without_expiry() == before
        assert self.table.asked == running

    @rule(outcome=st.sampled_from(Outcome))
    def answer(self, outcome: Outcome) -> None:
        if self.table.asked:
            self.table.answer(outcome)

    @rule(seconds=st.sampled_from([1, 70, 310]))
    def time_goes_on(self, seconds: int) -> None:
        self.table.after(seconds)

    @invariant()
    def what_is_submitted_stays_as_it_is(self) -> None:
        shown = self.submitted_commands()
        for index, written in self.last.items():
            assert shown.get(index, written) == written
        self.last = shown

    @invariant()
    def no_manager_has_more_than_the_quota(self) -> None:
        for owner in OWNERS:
            assert sum(Command(self.table, name, owner).is_there for name in "abcd") <= LIMITS.quota

    def submitted_commands(self) -> dict[Oid, dict[Oid, bytes]]:
        """Return the values that the owners wrote in submitted commands, by index."""
        commands = [Command(self.table, name, owner) for name in "abcd" for owner in OWNERS]
        return {
            command.index: {
                name: value
                for name, value in command.own_instances()
                if name[: len(_COMMANDS) + 1] in _WRITTEN or name[: len(_ARGUMENTS)] == _ARGUMENTS
            }
            for command in commands
            if CommandColumn.SUBMITTED in command.cells
        }

    def without_expiry(self) -> dict[Oid, bytes]:
        expires = (*_COMMANDS, CommandColumn.EXPIRES)
        return {n: value for n, value in self.table.instances().items() if n[: len(expires)] != expires}


def _name(owner: str, name: str, argument: str | None, column: int) -> Oid:
    index = index_of(CommandKey(owner, name))
    if argument is None:
        return (*_COMMANDS, column, *index)
    return (*_ARGUMENTS, column, *index, len(argument), *argument.encode())


TestAnyRequests = AnyRequests.TestCase
TestAnyRequests.settings = settings(max_examples=examples() // 2, stateful_step_count=25)
