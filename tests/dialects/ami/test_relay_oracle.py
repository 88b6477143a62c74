"""Objects observed by a relay, compared with a plain model of the received lines."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.ami.codec import write_instruction
from gateway.dialects.ami.instructions import Delete, ObjectUpdate
from gateway.dialects.ami.relay import RelayConfig
from gateway.dialects.ami.relay_tables import sort_of, text_of, type_of
from gateway.dialects.ami.values import AmiValue, Double, Long
from gateway.model.observations import ObjectSeen
from gateway.model.times import MILLISECOND
from gateway.model.values import Value, ValueType
from tests.dialects.ami.relay_play import RelayPlay

_VALUES: st.SearchStrategy[AmiValue] = st.one_of(
    st.none(),
    st.integers(-9, 9),
    st.integers(-9, 9).map(Long),
    st.sampled_from([Double(0.5), 1.5, "x", True, b"\1", Long(1 << 60)]),
)
_UPDATES = st.builds(
    ObjectUpdate,
    st.sampled_from(["Tank", "Pump"]),
    st.sampled_from(["1", "2", "3"]),
    st.sampled_from([None, None, 0, -1500, -5000]),
    values=st.dictionaries(st.sampled_from("abc"), _VALUES, max_size=3),
)
_DELETES = st.builds(Delete, st.sampled_from(["Tank", "Pump"]), st.sampled_from(["1", "2", "3"]))
_STEPS = st.tuples(st.sampled_from(["one", "two"]), _UPDATES | _DELETES, st.sampled_from([0, 0, 1, 2]))


class Account:
    """The values of each object by application, with their expiry."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, str, str], dict[str, AmiValue]] = {}
        self.expires: dict[tuple[str, str, str], int] = {}
        self.sorts: dict[tuple[str, str], int] = {}

    def take(self, name: str, said: ObjectUpdate | Delete, now: int) -> None:
        key = (name, said.type, str(said.object_id))
        if isinstance(said, Delete):
            self.values.pop(key, None)
            self.expires.pop(key, None)
            return
        values = self.values.setdefault(key, {})
        for column, value in said.values.items():
            values[column] = value
            self.sorts[said.type, column] = self.sorts.get((said.type, column), 0) | sort_of(value)
        if said.expires is not None:
            self.expires[key] = now - said.expires * MILLISECOND if said.expires else 0

    def pass_time(self, now: int) -> None:
        for key, time in list(self.expires.items()):
            if 0 < time <= now:
                del self.values[key], self.expires[key]

    def reported(self) -> dict[tuple[str, str, str], dict[str, Value]]:
        """Return all objects with the values that a relay should report."""
        return {
            key: {
                column: _as_type(value, type_of(self.sorts[key[1], column]))
                for column, value in values.items()
                if value is not None
            }
            for key, values in self.values.items()
        }


def _as_type(value: AmiValue, of_type: ValueType) -> Value:
    if of_type is ValueType.STRING:
        return text_of(value)
    if isinstance(value, bool | bytes):
        return value
    assert isinstance(value, int | float)
    return float(value) if of_type in (ValueType.F32, ValueType.F64) else int(value)


@given(st.lists(_STEPS, max_size=30))
def test_all_that_was_said_is_reported_and_nothing_else(
    steps: list[tuple[str, ObjectUpdate | Delete, int]],
) -> None:
    play, account = RelayPlay(RelayConfig(at_once=2)), Account()
    numbers = {"one": 1, "two": 2}
    for name, number in numbers.items():
        play.logs_in(name, number)
    shown: dict[tuple[str, str, str], dict[str, Value]] = {}
    for name, said, wait in [*steps, ("one", Delete("Tank", "none"), 120)]:
        play.says_octets(write_instruction(said), numbers[name])
        account.take(name, said, play.now)
        play.time_passes(wait)
        account.pass_time(play.now)
        for seen in play.left():
            if isinstance(seen, ObjectSeen) and seen.key.package == "ami":
                key = (seen.agent, seen.key.name, seen.native_id.rpartition("|")[2])
                if seen.deleted:
                    del shown[key]
                else:
                    former = shown.get(key, {})
                    values = {**former, **play.values(seen)}
                    shown[key] = {column: value for column, value in values.items() if value is not None}
        assert shown.keys() == account.values.keys()  # whatever else waits, lives and ends do not
    assert shown == account.reported()
