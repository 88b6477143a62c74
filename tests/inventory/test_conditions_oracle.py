"""Random histories of a plant compared with a small model: the active alarms, and their records."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.feed.records import AlarmRecord, EventRecord, Record
from gateway.inventory.alarms import HOLD
from gateway.model.observations import EventState, Severity, SourceState, SourceStateSeen
from gateway.model.times import SECOND
from tests.inventory.plant import about, alarms, event, events, machine, plant
from tests.inventory.playbook import NOW, Playbook

Step: TypeAlias = tuple[str, str, bool | None]

NAMES = ("press", "saw")
CREATED, SHOWN, DELETED = "created", "shown", "deleted"
EVENTS = ("heatRose", "heatFell", "doorOpened", "doorClosed", "strikeBegan", "strikeEnded")
WHOLE = ("resync", "restart", "resync that forgets one", "down", "a second", "a while")

OFTEN = (SHOWN, SHOWN, "heatRose", "heatFell", "a while")
"""The steps that cause most contradictions."""

steps = st.lists(
    st.tuples(
        st.sampled_from((CREATED, DELETED, *EVENTS, *WHOLE, *OFTEN, *OFTEN)),
        st.sampled_from(NAMES),
        st.sampled_from((True, False, None)),
    ),
    min_size=20,
    max_size=60,
)


class Machine:
    """The model's state of a machine that exists."""

    def __init__(self, native_id: str, *, hot: bool | None) -> None:
        self.native_id = native_id
        self.hot = hot
        self.held_since: int | None = None


class Model:
    """The plant, passed to a playbook step by step, and the conditions that should be active."""

    def __init__(self, playbook: Playbook) -> None:
        self.playbook = playbook
        self.machines: dict[str, Machine] = {}
        self.standing: set[str] = set()
        self.down = False
        self.fresh = True
        self._born = 0

    def take(self, step: Step) -> list[Record]:
        """Execute one step; return the resulting records."""
        what, name, hot = step
        one = self.machines.get(name)
        if what in EVENTS:
            return self._event(what, name)
        if what in WHOLE:
            return self._whole(what, name)
        if what == CREATED and one is None:
            self._born += 1
            self.machines[name] = Machine(f"m{self._born}", hot=hot)
        elif what == SHOWN and one is not None:
            one.hot = hot
        elif what == DELETED and one is not None:
            del self.machines[name]
            self._forget(name)
            return self.playbook.publish(machine(name, one.native_id, deleted=NOW))
        else:
            return []
        return self._publish(name)

    def _publish(self, name: str) -> list[Record]:
        one = self.machines[name]
        self._look(name)
        return self.playbook.publish(machine(name, one.native_id, hot=one.hot))

    def _event(self, what: str, name: str) -> list[Record]:
        if what.startswith("strike"):
            self._set("strike", holds=what == "strikeBegan")
            return self.playbook.publish(event(what))
        one = self.machines.get(name)
        if one is None:
            return self.playbook.publish(about(what, "nobody"))
        kind = "overheated" if what.startswith("heat") else "open"
        self._set(f'{kind} plant:machine "{name}"', holds=what in {"heatRose", "doorOpened"})
        if kind == "overheated":
            one.held_since = self.playbook.now
        return self.playbook.publish(about(what, one.native_id))

    def _whole(self, what: str, name: str) -> list[Record]:
        if what == "down":
            self._set("sourceDown", holds=True)
            self.fresh = False
            return self.playbook.publish(SourceStateSeen(SourceState.DOWN))
        if what in {"a second", "a while"}:
            return self._wait(1 if what == "a second" else 16)
        if what == "resync that forgets one":
            self.machines.pop(name, None)
            self._forget(name)
        if what == "restart":
            for one in self.machines.values():
                self._born += 1
                one.native_id = f"m{self._born}"
        reported = []
        for known, one in self.machines.items():
            self._look(known)
            reported.append(machine(known, one.native_id, hot=one.hot))
        self._set("sourceDown", holds=False)
        self.fresh = True
        return self.playbook.synchronise(*reported, restarted=what == "restart")

    def _wait(self, seconds: int) -> list[Record]:
        now = self.playbook.now + seconds * SECOND
        for name, one in self.machines.items():
            if self.fresh and one.held_since is not None and now - one.held_since >= HOLD:
                one.held_since = None
                self._look(name)
        return self.playbook.tick(seconds)

    def _look(self, name: str) -> None:
        one = self.machines[name]
        if one.held_since is None:
            self._set(f'overheated plant:machine "{name}"', holds=one.hot is True)

    def _forget(self, name: str) -> None:
        self.standing -= {f'{kind} plant:machine "{name}"' for kind in ("overheated", "open")}

    def _set(self, condition: str, *, holds: bool) -> None:
        (self.standing.add if holds else self.standing.discard)(condition)


class Receiver:
    """A subscriber that asserts that no two records of the feed contradict each other."""

    def __init__(self) -> None:
        self.active: dict[int, AlarmRecord] = {}
        self._ever: set[int] = set()
        self._last_event = 0
        self._raised_by: dict[str, EventRecord] = {}

    def receive(self, records: Iterable[Record]) -> None:
        """Apply the records of one step."""
        for record in records:
            if isinstance(record, EventRecord):
                self._event(record)
            elif isinstance(record, AlarmRecord):
                self._alarm(record)

    def conditions(self) -> list[str]:
        """Return the conditions of the active alarms, sorted."""
        return sorted(alarm.condition for alarm in self.active.values())

    def _event(self, reported: EventRecord) -> None:
        assert reported.number == self._last_event + 1
        self._last_event = reported.number
        assert reported.event_id == f"gw.1.{reported.number}"
        assert (reported.severity is Severity.CLEARED) == (reported.state is EventState.CLEARED)
        assert bool(reported.condition) == (reported.state is not EventState.ONE_SHOT)
        if reported.state is EventState.RAISED:
            self._raised_by[reported.event_id] = reported

    def _alarm(self, alarm: AlarmRecord) -> None:
        if alarm.cleared:
            raised = self.active.pop(alarm.number)
            assert raised.condition == alarm.condition
            return
        assert alarm.number not in self._ever
        assert alarm.condition not in self.conditions(), "one alarm of a condition"
        self._ever.add(alarm.number)
        self.active[alarm.number] = alarm
        cause = self._raised_by[alarm.event_id]
        assert (cause.condition, cause.subject, cause.text) == (alarm.condition, alarm.subject, alarm.text)


@given(steps)
def test_alarms_stand_as_long_as_their_conditions_and_are_reported_once(
    tmp_path_factory: pytest.TempPathFactory, script: list[Step]
) -> None:
    playbook = plant(tmp_path_factory.mktemp("state"))
    receiver = Receiver()
    receiver.receive(playbook.synchronise())
    model = Model(playbook)
    for step in [*((CREATED, name, False) for name in NAMES), *script]:
        receiver.receive(model.take(step))
        assert receiver.conditions() == sorted(model.standing), step
    snapshot = playbook.snapshot()
    assert alarms(snapshot) == sorted(receiver.active.values(), key=lambda alarm: alarm.number)
    assert [reported.number for reported in events(snapshot)] == list(range(1, len(events(snapshot)) + 1))
