"""Invariants of a relay that hold for any lines of any applications."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.ami.codec import write_instruction
from gateway.dialects.ami.instructions import (
    Alert,
    Delete,
    Instruction,
    Login,
    ObjectUpdate,
    Option,
    Status,
)
from gateway.dialects.ami.relay import RelayConfig, RelayLimits
from gateway.model.observations import AgentLost, ClassLearned, ObjectSeen, ResyncBegan, ResyncEnded
from gateway.model.schema import ClassKey, ClassSchema
from gateway.model.validation import validate
from gateway.model.values import Values
from tests.dialects.ami.relay_play import RelayPlay
from tests.dialects.ami.strategies import INSTRUCTIONS, KEYS, VALUES

LIMITS = RelayLimits(
    line=2000,
    keys=4,
    types=3,
    objects=12,
    objects_each=8,
    inserted=3,
    octets=20_000,
    versions=40,
    held_lines=3,
)
_SHORT = st.sampled_from(["a", "b", "c:d", "#1", "object"])
_REPORTED = st.dictionaries(st.sampled_from(["a", "b", "object", "password"]) | KEYS, VALUES, max_size=3)
_TIMES = st.none() | st.sampled_from([0, -1, -1500, 1, 1_700_000_002_000])
_SAID: st.SearchStrategy[Instruction] = st.one_of(
    INSTRUCTIONS,
    st.builds(Login, _SHORT, st.frozensets(st.sampled_from(Option), max_size=1), values=_REPORTED),
    st.builds(ObjectUpdate, _SHORT, st.none() | _SHORT, _TIMES, values=_REPORTED),
    st.builds(Delete, _SHORT, _SHORT),
    st.builds(Status, _REPORTED),
    st.builds(Alert, _SHORT, st.integers(0, 2), _SHORT, _TIMES, values=_REPORTED),
)


def _line(instruction: Instruction) -> bytes:
    return write_instruction(instruction)


_STEPS = st.one_of(
    st.tuples(st.just("says"), st.integers(1, 3), _SAID.map(_line) | st.binary(max_size=40)),
    st.tuples(st.just("waits"), st.sampled_from([0, 1, 2]), st.just(b"")),
    st.tuples(st.just("ends"), st.integers(1, 3), st.just(b"")),
)


class Mirror:
    """A model that applies all observations and asserts that they are consistent."""

    def __init__(self) -> None:
        self.classes: dict[ClassKey, ClassSchema] = {}
        self.current: dict[str, ClassKey] = {}
        self.objects: dict[str, tuple[ClassKey, Values]] = {}
        self.lost: set[str] = set()
        self.resync: tuple[str, set[str]] | None = None

    def take(self, steps: Iterable[object]) -> None:
        for step in steps:
            match step:
                case ClassLearned(schema):
                    assert len({element.name for element in schema.elements}) == len(schema.elements)
                    self.classes[schema.key] = schema
                case ObjectSeen():
                    self.see(step)
                case ResyncBegan(agent):
                    self.resync = (agent, set())
                case ResyncEnded(agent=agent):
                    assert self.resync is not None
                    mine = {native_id for native_id in self.objects if self.owner(native_id) == agent}
                    assert self.resync == (
                        agent,
                        mine,
                    )  # all that there is, and nothing else, was told again
                    self.resync = None
                    self.lost.discard(agent)
                case AgentLost(agent):
                    self.lost.add(agent)
        assert self.resync is None

    def owner(self, native_id: str) -> str:
        _, values = self.objects[native_id]
        return str(values[0])

    def see(self, seen: ObjectSeen) -> None:
        schema = self.classes[seen.key]
        if seen.deleted:
            self.objects.pop(seen.native_id)
            return
        assert seen.created <= seen.sampled or seen.sampled
        key, values = self.objects.get(seen.native_id, (None, ()))
        if key != seen.key:
            assert seen.properties is not None
            assert seen.statistics is not None  # a new version is told whole
        count = len(schema.properties)
        properties = seen.properties if seen.properties is not None else values[:count]
        statistics = seen.statistics if seen.statistics is not None else values[count:]
        reported: Values = (*properties, *statistics)
        assert len(reported) == len(schema.elements)
        for element, value in zip(schema.elements, reported, strict=True):
            assert value is None or validate(element, value) is None, (element, value)
            assert value is not None or element.optional
        self.objects[seen.native_id] = (seen.key, reported)
        if self.resync is not None:
            self.resync[1].add(seen.native_id)


@given(st.lists(_STEPS, max_size=40))
def test_whatever_is_received_what_is_reported_makes_sense(steps: list[tuple[str, int, bytes]]) -> None:
    play = RelayPlay(RelayConfig(limits=LIMITS))
    mirror = Mirror()
    mirror.classes = dict(play.schemas)
    open_ones: set[int] = set()
    for what, number, octets in steps:
        if what == "waits":
            play.time_passes(number)
        elif what == "ends":
            play.ends(number=number)
            open_ones.discard(number)
        else:
            if number not in open_ones:
                play.connects(number)
                open_ones.add(number)
            play.says_octets(octets, number)
        reported = play.left()
        mirror.take(reported)
        open_ones -= {int(step[0]) for step in reported if isinstance(step, str) and step.endswith(" closed")}
        per_agent = [mirror.owner(native_id) for native_id in mirror.objects]
        assert len(per_agent) <= LIMITS.objects
        assert all(per_agent.count(agent) <= LIMITS.objects_each for agent in per_agent)
        assert len(play.schemas) <= LIMITS.versions + len(per_agent)
    for number in open_ones:
        play.ends(number=number)
    mirror.take(play.left())
    applications = {mirror.owner(native_id) for native_id in mirror.objects}
    assert applications <= mirror.lost  # nobody vouches for anything when nobody is connected


@given(st.lists(st.binary(max_size=60).filter(lambda line: b"\n" not in line), max_size=20))
def test_each_line_has_one_answer(lines: list[bytes]) -> None:
    play = RelayPlay(RelayConfig(limits=LIMITS))
    play.logs_in()
    for line in lines:
        text = line.strip(b"\r")
        if text[:1].upper() in (b"X", b"P") or text.endswith(b"\\") or not text:
            continue
        play.says_octets(line + b"\n")
        answers = [step for step in play.left() if isinstance(step, str) and step.startswith("1< M|")]
        assert len(answers) == 1, line


@given(st.lists(_SAID.map(_line), max_size=10), st.integers(1, 50))
def test_pieces_of_any_length_say_the_same(lines: list[bytes], length: int) -> None:
    octets = b'L|I="a"\n' + b"".join(line for line in lines if line[:1] not in b"PX")
    whole, pieces = RelayPlay(), RelayPlay()
    for play in (whole, pieces):
        play.connects()
    whole.says_octets(octets)
    for begin in range(0, len(octets), length):
        pieces.says_octets(octets[begin : begin + length])
    said, reported = whole.left(), pieces.left()
    for kind in ("1< ", "1 closed", "protocol-error", "refused-instruction"):
        assert _of(reported, kind) == _of(said, kind)
    assert [step for step in reported if not isinstance(step, str)] == [
        step for step in said if not isinstance(step, str)
    ]


def _of(steps: Iterable[object], kind: str) -> list[str]:
    return [step for step in steps if isinstance(step, str) and step.startswith(kind)]
